"""A model file in OpenSim, posed by the coordinates that ours has."""

import importlib
import pathlib
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

_STEPS = 6
_ROUNDS = 10


class OpenSimPeer:
    """OpenSim's numbers for a model in terms of independent coordinates x.

    Dependent coordinates are found by Newton's method on OpenSim's own constraint errors;
    with q(x) all coordinates and C = ∂q/∂x, its matrices are reduced to x. OpenSim's speeds
    are not always rates of coordinates (ball joints); N of q̇ = N u turns one into the other.
    """

    def __init__(
        self,
        path: pathlib.Path,
        independent: Sequence[str],
        held: dict[str, float],
        wrapping: bool,
    ):
        """**Raises:** `ImportError` where OpenSim is missing."""
        self._osim: Any = importlib.import_module("opensim")
        self._osim.Logger.setLevelString("off")
        self._osim.Logger.removeFileSink()  # else it writes opensim.log where one stands
        with tempfile.TemporaryDirectory() as folder:
            whole = pathlib.Path(folder) / path.name
            self.completed = _complete(path, whole)
            self.model = self._osim.Model(str(whole))
        self.version: str = self._osim.GetVersion()
        self._paths: dict[str, Any] = {}
        for force in self.model.getForceSet():
            route = self._geometry(force)
            if route is not None:
                if not wrapping:
                    route.updWrapSet().clearAndDestroy()
                self._paths[force.getName()] = route
        self.state = self.model.initSystem()
        self._matter = self.model.getMatterSubsystem()
        self._coordinates = list(self.model.getCoordinateSet())
        self.names = [c.getName() for c in self._coordinates]
        for coordinate in self._coordinates:
            coordinate.setLocked(self.state, False)
            if coordinate.getDefaultIsPrescribed():
                coordinate.setIsPrescribed(self.state, False)
        for force in self.model.getForceSet():
            force.setAppliesForce(self.state, False)
        self._rows = self._places()
        self._x = [self.names.index(name) for name in independent]
        self._y = [
            i for i, n in enumerate(self.names) if i not in self._x and n not in held
        ]  # fmt: skip
        q = self.q()
        for name, value in held.items():
            if name in self.names:
                q[self.names.index(name)] = value
        self._set(q)

    def q(self) -> Float[np.ndarray, " n"]:
        return _array(self.state.getQ())[self._rows]

    def pose(self, x: Float[np.ndarray, " nq"], steps: int = _STEPS) -> float:
        """Take the independent coordinates to x; what is left of the constraints' errors."""
        start = self.q()[self._x]
        for share in np.arange(1, steps + 1) / steps:
            q = self.q()
            q[self._x] = start + share * (x - start)
            self._set(q)
            for _ in range(_ROUNDS):
                error = _array(self.state.getQErr())
                if not error.size or np.abs(error).max() < 1e-16 or not self._y:
                    break
                slopes = self._constraints()
                q[self._y] -= np.linalg.lstsq(slopes[:, self._y], error, rcond=1e-9)[0]
                self._set(q)
        error = _array(self.state.getQErr())
        return float(np.abs(error).max()) if error.size else 0.0

    def tangent(self) -> Float[np.ndarray, "n nq"]:
        """C: all coordinates by the independent ones."""
        out = np.zeros((len(self.names), len(self._x)))
        out[self._x] = np.eye(len(self._x))
        slopes = self._constraints()
        if self._y and slopes.size:
            right = -slopes[:, self._x]
            out[self._y] = np.linalg.lstsq(slopes[:, self._y], right, rcond=1e-9)[0]
        return out

    def transforms(self) -> dict[str, Float[np.ndarray, "3 4"]]:
        found = {}
        for body in self.model.getBodySet():
            there = body.getTransformInGround(self.state)
            R, p = there.R(), there.p()
            rows = [[R.get(i, j) for j in range(3)] + [p.get(i)] for i in range(3)]
            found[body.getName()] = np.array(rows)
        return found

    def lengths(self, names: Sequence[str]) -> Float[np.ndarray, " nm"]:
        return np.array([self._paths[name].getLength(self.state) for name in names])

    def moment_arms(self, names: Sequence[str]) -> Float[np.ndarray, "nq nm"]:
        state = self._osim.State(self.state)
        about = [self._coordinates[i] for i in self._x]
        return np.array([[self._paths[n].computeMomentArm(state, c) for n in names] for c in about])

    @property
    def path_names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def mass_matrix(self) -> Float[np.ndarray, "nq nq"]:
        out = self._osim.Matrix()
        self._matter.calcM(self.state, out)
        to_u = np.linalg.solve(self._rates(), self.tangent())
        return to_u.T @ _matrix(out) @ to_u

    def inverse_dynamics(
        self, xd: Float[np.ndarray, " nq"], xdd: Float[np.ndarray, " nq"]
    ) -> Float[np.ndarray, " nq"]:
        """Forces on x that a motion needs, gravity included and no other force."""
        C, N = self.tangent(), self._rates()
        u = np.linalg.solve(N, C @ xd)
        self.state.setU(self._vector(u))
        self.model.realizeVelocity(self.state)
        qdd = np.zeros(len(self.names))
        qdd[self._x] = xdd
        slopes = self._constraints()
        if self._y and slopes.size:
            bias = self._osim.Vector()
            self._matter.calcBiasForAccelerationConstraints(self.state, bias)
            right = -_array(bias) - slopes[:, self._x] @ xdd
            qdd[self._y] = np.linalg.lstsq(slopes[:, self._y], right, rcond=1e-9)[0]
        turning = self._osim.Vector(self.state.getNQ(), 0.0)
        self._matter.multiplyByNDot(self.state, False, self._vector(u), turning)
        ud = np.linalg.solve(N, qdd - _array(turning)[self._rows])
        self.model.realizeDynamics(self.state)
        solver = self._osim.InverseDynamicsSolver(self.model)
        need = _array(solver.solve(self.state, self._vector(ud)))
        return np.linalg.solve(N, C).T @ need

    def _geometry(self, force: Any) -> Any:
        osim = self._osim
        for kind in (osim.PathActuator, osim.PathSpring, osim.Ligament):
            found = kind.safeDownCast(force)
            if found is not None:
                path = found.updPath() if hasattr(found, "updPath") else found.upd_GeometryPath()
                return osim.GeometryPath.safeDownCast(path)
        return None

    def _places(self) -> list[int]:
        """Where each coordinate stands in OpenSim's vector of them."""
        start = _array(self.state.getQ())
        was = [c.getValue(self.state) for c in self._coordinates]
        found = {}
        for i in range(start.size):
            moved = start.copy()
            moved[i] += 0.01
            self.state.setQ(self._vector(moved))
            now = [c.getValue(self.state) for c in self._coordinates]
            for name, a, b in zip(self.names, now, was, strict=True):
                if a != b:
                    found[name] = i
        self.state.setQ(self._vector(start))
        return [found[name] for name in self.names]

    def _set(self, values: np.ndarray) -> None:
        full = _array(self.state.getQ())
        full[self._rows] = values
        self.state.setQ(self._vector(full))
        self.model.realizePosition(self.state)

    def _constraints(self) -> np.ndarray:
        out = self._osim.Matrix()
        self._matter.calcPq(self.state, out)
        return _matrix(out)[:, self._rows] if out.nrow() else np.zeros((0, len(self.names)))

    def _rates(self) -> np.ndarray:
        n = self.state.getNU()
        columns = []
        for unit in np.eye(n):
            out = self._osim.Vector(self.state.getNQ(), 0.0)
            self._matter.multiplyByN(self.state, False, self._vector(unit), out)
            columns.append(_array(out)[self._rows])
        return np.array(columns).T

    def _vector(self, values: np.ndarray) -> Any:
        out = self._osim.Vector(len(values), 0.0)
        for i, value in enumerate(values):
            out.set(i, float(value))
        return out


def _complete(source: pathlib.Path, target: pathlib.Path) -> int:
    """Copy a model file with the identity on axes that name a coordinate but no function,
    which OpenSim would freeze; how many there were."""
    tree = ElementTree.parse(source)
    count = 0
    for axis in tree.iter("TransformAxis"):
        named = (axis.findtext("coordinates") or "").strip()
        has_function = any(part.tag not in ("axis", "coordinates") for part in axis)
        if named and not has_function:
            function = ElementTree.SubElement(axis, "function")
            linear = ElementTree.SubElement(function, "LinearFunction")
            ElementTree.SubElement(linear, "coefficients").text = "1 0"
            count += 1
    tree.write(target)
    return count


def _array(values: Any) -> np.ndarray:
    return np.array([values.get(i) for i in range(values.size())], dtype=float)


def _matrix(values: Any) -> np.ndarray:
    rows, columns = values.nrow(), values.ncol()
    return np.array([[values.get(i, j) for j in range(columns)] for i in range(rows)], dtype=float)
