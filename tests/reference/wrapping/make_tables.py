"""Makes the tables of this folder with OpenSim; run it where `import opensim` works.

    python tests/reference/wrapping/make_tables.py

Written with OpenSim 4.6. Needs nothing of empbody. It writes

- `cases.json`: one path of two points over one surface, a forearm on a hinge (about z of
  the ground, at its origin), for each case its geometry and the sweep of the hinge;
- `<case>.csv`: angle (deg), length (m), OpenSim's moment arm (m), its -dL/dq by central
  differences (m), whether it wraps, the length on the surface (m) and the two tangent points
  in the ground frame (m; zero without contact);
- `simm_splines.json`: values and derivatives of OpenSim's SimmSpline.
"""

import itertools
import json
import math
import pathlib

import numpy as np
import opensim as osim

HERE = pathlib.Path(__file__).parent
STEP = 1e-5
"""Central differences of the length (rad)."""

SPLINES = {
    "two knots": ([0.0, 2.617993877991], [0.0, -0.633554518474]),
    "three knots": ([0.010101581738, 1.59605028114, 3.14159265359], [0.000222, 0.011219, 0.0441]),
    "four knots": (
        [0.0, 0.623055734705, 2.291237227517, 3.12532798265],
        [0.0, 0.009968, 0.018193, 0.017746],
    ),
    "five knots": (
        [-1.570796326795, -1.181885342611, -0.16948213433, 0.0, 0.349065850399],
        [-0.0029, -0.002148, -0.000139, 0.0, -0.001644],
    ),
    "eleven knots": (
        [-2.0, -1.7, -1.1, -0.9, -0.2, 0.0, 0.35, 0.9, 1.2, 1.3, 2.1],
        [0.3, -0.2, 0.45, 0.1, 0.0, 0.7, -0.6, 0.25, 0.5, 0.4, -0.1],
    ),
}


def case(surface, sweep, points, **wrap):
    """`surface` has a type and sizes; points on the ground and on the forearm (m)."""
    return {"surface": surface, "sweep_deg": sweep, "ground": points[0], "forearm": points[1]} | {
        "method": "hybrid", **wrap
    }  # fmt: skip


def cylinder(radius, length=0.3, **placement):
    return {"type": "cylinder", "radius": radius, "length": length, **placement}


def ellipsoid(*dimensions, **placement):
    return {"type": "ellipsoid", "dimensions": list(dimensions), **placement}


# Flexors run in front (+x), extensors behind (-x); the hinge flexes about +z, and the
# hanging forearm points along -y. Some sweeps go past where OpenSim snaps to the other side.
FLEXOR = ([0.012, 0.2, 0.0], [0.015, -0.05, 0.0])
OBLIQUE = ([0.012, 0.2, -0.03], [0.015, -0.05, 0.04])
MILD = ([0.012, 0.2, -0.02], [0.015, -0.05, 0.012])
EXTENSOR = ([-0.015, 0.15, 0.01], [-0.018, -0.03, -0.01])
TILTED = {"translation": [0.001, -0.002, 0.003], "rotation": [0.25, -0.35, 0.1]}
RING = {"translation": [0.018, 0.035, 0.002], "rotation": [1.4, 0.1, 0.0]}

CASES = {
    "cylinder_planar": case(cylinder(0.02), [-20, 60, 2.5], FLEXOR),
    "cylinder_helix": case(cylinder(0.02), [-20, 60, 2.5], OBLIQUE),
    "cylinder_tilted": case(cylinder(0.022, **TILTED), [-30, 60, 2.5], OBLIQUE),
    "cylinder_quadrant": case(cylinder(0.018, quadrant="-x"), [-60, 140, 5], EXTENSOR),
    "cylinder_finite": case(
        cylinder(0.02, 0.03, translation=[0.0, 0.0, 0.012], rotation=[0.0, 0.9, 0.0]),
        [-60, 60, 2.5],
        ([0.012, 0.2, -0.03], [0.015, -0.05, 0.01]),
    ),
    "cylinder_on_forearm": case(
        cylinder(0.016, quadrant="x", body="forearm", translation=[0.006, -0.01, 0.0],
                 rotation=[0.1, 0.2, 0.0]),
        [-20, 130, 5],
        OBLIQUE,
    ),
    "sphere": case({"type": "sphere", "radius": 0.022}, [-15, 60, 2.5], MILD),
    "sphere_quadrant": case(
        {"type": "sphere", "radius": 0.02, "quadrant": "-x"}, [-40, 140, 5], EXTENSOR
    ),
    "ellipsoid": case(ellipsoid(0.02, 0.035, 0.028, **TILTED), [-20, 60, 2.5], MILD),
    "ellipsoid_midpoint": case(
        ellipsoid(0.02, 0.035, 0.028, **TILTED), [-20, 60, 2.5], MILD, method="midpoint"
    ),
    "ellipsoid_axial": case(
        ellipsoid(0.02, 0.035, 0.028, **TILTED), [-20, 60, 2.5], MILD, method="axial"
    ),
    "ellipsoid_quadrant": case(
        ellipsoid(0.018, 0.022, 0.03, quadrant="-x"), [-40, 140, 5], EXTENSOR
    ),
    "torus": case(
        {"type": "torus", "inner_radius": 0.006, "outer_radius": 0.02, **RING},
        [-30, 130, 5],
        OBLIQUE,
    ),
    "torus_lift_off": case(
        {"type": "torus", "inner_radius": 0.004, "outer_radius": 0.02, **RING},
        [-30, 60, 2.5],
        OBLIQUE,
    ),
}  # fmt: skip


def vector(values):
    return osim.Vec3(*[float(v) for v in values])


def surface_of(figures):
    kind = figures["type"]
    surface = getattr(osim, f"Wrap{kind.capitalize()}")()
    surface.setName("surface")
    if kind == "cylinder":
        surface.set_radius(figures["radius"])
        surface.set_length(figures["length"])
    elif kind == "sphere":
        surface.set_radius(figures["radius"])
    elif kind == "ellipsoid":
        surface.set_dimensions(vector(figures["dimensions"]))
    else:
        surface.set_inner_radius(figures["inner_radius"])
        surface.set_outer_radius(figures["outer_radius"])
    surface.set_quadrant(figures.get("quadrant", "all"))
    surface.set_translation(vector(figures.get("translation", (0, 0, 0))))
    surface.set_xyz_body_rotation(vector(figures.get("rotation", (0, 0, 0))))
    return surface


def model_of(figures):
    """A forearm on a hinge, and one path between the ground and the forearm."""
    model = osim.Model()
    forearm = osim.Body("forearm", 1.0, osim.Vec3(0, -0.1, 0), osim.Inertia(0.01, 0.01, 0.01))
    model.addBody(forearm)
    model.addJoint(osim.PinJoint("hinge", model.getGround(), forearm))
    surface = surface_of(figures["surface"])
    on_forearm = figures["surface"].get("body", "ground") == "forearm"
    (forearm if on_forearm else model.updGround()).addWrapObject(surface)
    actuator = osim.PathActuator()
    actuator.setName("path")
    actuator.addNewPathPoint("origin", model.getGround(), vector(figures["ground"]))
    actuator.addNewPathPoint("insertion", forearm, vector(figures["forearm"]))
    model.addForce(actuator)
    model.finalizeConnections()
    path = osim.GeometryPath.safeDownCast(actuator.updPath())
    path.addPathWrap(surface)
    wrap = path.getWrapSet().get(0)
    wrap.setMethod(getattr(osim.PathWrap, figures["method"]))
    return model


def sweep(figures):
    """Rows of the table of one case."""
    model = model_of(figures)
    state = model.initSystem()
    hinge = model.getCoordinateSet().get(0)
    actuator = osim.PathActuator.safeDownCast(model.getForceSet().get("path"))
    path = osim.GeometryPath.safeDownCast(actuator.updPath())

    def length(angle):
        # Wrapping remembers its last result: every pose is approached afresh.
        hinge.setValue(state, angle)
        model.realizePosition(state)
        return path.getLength(state)

    low, high, step = figures["sweep_deg"]
    for degrees in np.arange(low, high + step / 2, step):
        angle = math.radians(degrees)
        slope = (length(angle + STEP) - length(angle - STEP)) / (2 * STEP)
        total = length(angle)
        arm = path.computeMomentArm(state, hinge)
        total = length(angle)
        on_surface, tangents = 0.0, []
        points = path.getCurrentPath(state)
        for k in range(points.getSize()):
            wrapped = osim.PathWrapPoint.safeDownCast(points.get(k))
            if wrapped is not None:
                at = wrapped.getLocationInGround(state)
                tangents += [at[i] for i in range(3)]
                on_surface += wrapped.getWrapLength(state)
        wraps = len(tangents) == 6
        yield [degrees, total, arm, -slope, int(wraps), on_surface, *(tangents or [0.0] * 6)]


def write_cases():
    columns = "deg,length,moment_arm,minus_dl_dq,wraps,on_surface,ax,ay,az,bx,by,bz"
    for name, figures in CASES.items():
        rows = [",".join(f"{v:.17g}" for v in row) for row in sweep(figures)]
        (HERE / f"{name}.csv").write_text("\n".join([columns, *rows]) + "\n")
    (HERE / "cases.json").write_text(json.dumps(CASES, indent=1) + "\n")


def spline_table(x, y):
    spline = osim.SimmSpline()
    for a, b in zip(x, y, strict=True):
        spline.addPoint(a, b)
    inner = [a + f * (b - a) for a, b in itertools.pairwise(x) for f in (0.21, 0.5, 0.93)]
    at = sorted([*x, *inner, x[0] - 0.7, x[0] - 1e-3, x[-1] + 1e-3, x[-1] + 0.7])
    table = {"x": x, "y": y, "at": at, "value": [], "first": [], "second": []}
    for t in at:
        argument = osim.Vector(1, t)
        table["value"].append(spline.calcValue(argument))
        for order, name in ((1, "first"), (2, "second")):
            orders = osim.StdVectorInt()
            for _ in range(order):
                orders.append(0)
            table[name].append(spline.calcDerivative(orders, argument))
    return table


def write_splines():
    tables = {name: spline_table(*knots) for name, knots in SPLINES.items()}
    lines = [f' "{name}": {json.dumps(table)}' for name, table in tables.items()]
    (HERE / "simm_splines.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    osim.Logger.setLevelString("error")
    write_splines()
    write_cases()
