"""The shoulder of Holzbaur et al. in OpenSim, made through its API from our figures."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..models._holzbaur import COORDINATES, SLIDES, figures
from ..models._shoulder_inertia import inertia

_ORIGIN = (0.0, 0.0, 0.0)
PHANTOM = {"mass": 0.01, "com": _ORIGIN, "inertia": 1e-4 * np.eye(3)}
"""Of bodies that only pass turns on: ours need none, OpenSim divides by it (kg, m, kg m²)."""
_SIX = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


class OpenSimShoulder:
    """Lengths and moment arms of the 15 muscles, or accelerations of the bones, by OpenSim.

    Joint variables are coordinates of OpenSim's, tied to the three by couplers; points that
    slide ride on sliding bodies, as in the published file.
    """

    def __init__(self, wrapping: bool = True, muscles: bool = True, coupled: bool = True):
        """Without `muscles` there are the bones alone, with their inertias; with them any will
        do, since paths do not depend on it. Without couplers all joints are free.

        **Raises:** `ImportError` where OpenSim is missing.
        """
        self._osim: Any = importlib.import_module("opensim")
        self._osim.Logger.setLevelString("error")
        self._osim.Logger.removeFileSink()  # else it writes opensim.log where one stands
        given = figures()
        self._weighed = not muscles
        self.model = self._osim.Model()
        self._bodies: dict[str, Any] = {"thorax": self.model.getGround()}
        self._splines: dict[str, Any] = {}
        self._joints: list[str] = []
        for joint in given["joints"]:
            names, axes = zip(*joint["axes"], strict=True)
            self._add_body(joint["body"], joint["parent"], joint["translation"], 0, names, axes)
        for name, parent in given["carriers"].items() if muscles else ():
            slides = [f"{name}_{axis}" for axis in SLIDES]
            self._add_body(name, parent, _ORIGIN, 3, slides, np.eye(3))
        for name, (driver, x, y) in given["couplers"].items() if coupled else ():
            if muscles or name in self._joints:
                self._add_coupler(name, driver, x, y)
        surfaces = given["surfaces"] if wrapping and muscles else {}
        wraps = {name: self._add_surface(name, each) for name, each in surfaces.items()}
        paths = given["muscles"].items() if muscles else ()
        self._paths = [self._add_path(name, path, wraps) for name, path in paths]
        self.model.finalizeConnections()
        self.state = self.model.initSystem()
        self._coordinates = self.model.getCoordinateSet()
        self._about = [self._coordinates.get(name) for name in COORDINATES]

    def variables(self, q: Float[np.ndarray, "3"]) -> Any:
        """OpenSim's vector of all its coordinates in a pose, exactly on the couplers."""
        values: dict[str, float] = dict(zip(COORDINATES, map(float, q), strict=True))
        for name, (driver, spline) in self._splines.items():
            values[name] = spline.calcValue(self._osim.Vector(1, values[driver]))
        for name, value in values.items():
            self._coordinates.get(name).setValue(self.state, value, False)
        return self._osim.Vector(self.state.getQ())

    def pose(self, variables: Any) -> None:
        self.state.setQ(variables)
        self.model.realizePosition(self.state)

    def move(self, variables: Any, speeds: Any) -> None:
        """Positions and speeds of all its coordinates, and what follows: accelerations."""
        self.state.setQ(variables)
        self.state.setU(speeds)
        self.model.realizeAcceleration(self.state)

    def speeds(self, rates: Mapping[str, float]) -> Any:
        """OpenSim's vector of all speeds; those that are not named are zero."""
        for coordinate in self._coordinates:
            coordinate.setSpeedValue(self.state, float(rates.get(coordinate.getName(), 0.0)))
        return self._osim.Vector(self.state.getU())

    def accelerations(self) -> Float[np.ndarray, "3"]:
        """Of the three coordinates, after `move` (rad/s²)."""
        return np.array([q.getAccelerationValue(self.state) for q in self._about])

    def lengths(self) -> Float[np.ndarray, " nm"]:
        return np.array([path.getLength(self.state) for path in self._paths])

    def moment_arms(self) -> Float[np.ndarray, "3 nm"]:
        return np.array(
            [[path.computeMomentArm(self.state, q) for path in self._paths] for q in self._about]
        )

    def _vec(self, values: Sequence[float | int] | Float[np.ndarray, "3"]) -> Any:
        return self._osim.Vec3(*map(float, values))

    def _add_body(
        self, name: str, parent: str, place: Any, first: int, names: Sequence[str], axes: Any
    ) -> None:
        """A body that turns (`first` 0) or slides (3) about or along axes in turn."""
        osim, origin = self._osim, self._vec(_ORIGIN)
        body = osim.Body(name, 0.1, origin, osim.Inertia(1e-3, 1e-3, 1e-3))
        if self._weighed:
            body = self._with_inertia(name)
        self._joints += names
        self.model.addBody(body)
        transform = osim.SpatialTransform()
        for i in range(6):
            transform.updTransformAxis(i).set_function(osim.Constant(0.0))
        for i, axis in enumerate(_completed(axes)):
            moved = transform.updTransformAxis(first + i)
            moved.setAxis(self._vec(axis))
            if i < len(names):
                moved.setCoordinateNames(osim.ArrayStr(names[i], 1))
                moved.set_function(osim.LinearFunction(1.0, 0.0))
        ends = (self._bodies[parent], self._vec(place), origin, body, origin, origin)
        self.model.addJoint(osim.CustomJoint(f"{name}_joint", *ends, transform))
        self._bodies[name] = body

    def _with_inertia(self, name: str) -> Any:
        """A body with the model's own mass."""
        given = inertia(name) or PHANTOM
        moments = [given["inertia"][i, j] for i, j in _SIX]
        moments = self._osim.Inertia(*map(float, moments))
        return self._osim.Body(name, given["mass"], self._vec(given["com"]), moments)

    def _add_coupler(self, name: str, driver: str, x: Sequence[float], y: Sequence[float]) -> None:
        osim = self._osim
        spline = osim.SimmSpline()
        for point in zip(x, y, strict=True):
            spline.addPoint(*map(float, point))
        coupler = osim.CoordinateCouplerConstraint()
        coupler.setName(f"{name}_coupler")
        coupler.setIndependentCoordinateNames(osim.ArrayStr(driver, 1))
        coupler.setDependentCoordinateName(name)
        coupler.setFunction(spline)
        self.model.addConstraint(coupler)
        self._splines[name] = driver, spline

    def _add_surface(self, name: str, given: Mapping[str, Any]) -> Any:
        surface = getattr(self._osim, f"Wrap{given['type'].capitalize()}")()
        surface.setName(name)
        for size in ("radius", "length", "inner_radius", "outer_radius"):
            if size in given:
                getattr(surface, f"set_{size}")(given[size])
        if "dimensions" in given:
            surface.set_dimensions(self._vec(given["dimensions"]))
        surface.set_translation(self._vec(given["translation"]))
        surface.set_xyz_body_rotation(self._vec(given["rotation"]))
        surface.set_quadrant(given["quadrant"])
        surface.set_active(given["active"])
        self._bodies[given["body"]].addWrapObject(surface)
        return surface

    def _add_path(self, name: str, given: Mapping[str, Any], wraps: Mapping[str, Any]) -> Any:
        actuator = self._osim.PathActuator()
        actuator.setName(name)
        self.model.addForce(actuator)
        for i, (body, location) in enumerate(given["points"]):
            actuator.addNewPathPoint(f"{name}-{i}", self._bodies[body], self._vec(location))
        path = self._osim.GeometryPath.safeDownCast(actuator.updPath())
        for surface, first, last, method in given["wraps"] if wraps else ():
            path.addPathWrap(wraps[surface])
            wrap = path.updWrapSet().get(path.getWrapSet().getSize() - 1)
            wrap.set_method(method)
            for i, end in enumerate((first, last)):
                wrap.set_range(i, -1 if end is None else end)
        return path


def _completed(axes: Any) -> list[np.ndarray]:
    """Three independent axes, of which the first are given: OpenSim wants three."""
    whole = [np.asarray(axis) for axis in axes]
    while len(whole) < 3:
        # The rows of vᵀ beyond the rank are perpendicular to all others.
        whole.append(np.linalg.svd(np.stack(whole))[2][len(whole)])
    return whole
