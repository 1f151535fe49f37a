"""One path over one surface on a hinge: closed forms, and OpenSim's lengths and contact."""

import csv
import json
import math
import pathlib
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb

QUICK = {"xla_backend_optimization_level": 0}  # compiling is most of the time
FOLDER = pathlib.Path(__file__).parent / "reference" / "wrapping"
CASES = json.loads((FOLDER / "cases.json").read_text())
SURFACES = {
    "cylinder": eb.WrapCylinder,
    "sphere": eb.WrapSphere,
    "ellipsoid": eb.WrapEllipsoid,
    "torus": eb.WrapTorus,
}
# OpenSim's length minus the true one (m) lies between these, in the part (deg) of the sweep in
# which it does not snap to another side. It is exact on spheres and across cylinders. Along
# cylinders its tangent points are approximate: too long. On ellipsoids and tori they are
# too, and the curve is a polygon, which is too short.
OPENSIM = {
    "cylinder_planar": (-1e-14, 1e-14, -20, 60),
    "cylinder_helix": (-1e-14, 7e-6, -20, 60),
    "cylinder_tilted": (-1e-14, 9e-5, -30, 60),
    "cylinder_quadrant": (-1e-14, 1.1e-4, -60, 140),
    "cylinder_finite": (-1e-14, 2e-7, -35, 60),
    "cylinder_on_forearm": (-1e-14, 5e-5, -20, 130),
    "sphere": (-1e-14, 1e-14, -15, 60),
    "sphere_quadrant": (-1e-14, 1e-14, -40, 30),
    "ellipsoid": (-2e-7, 6e-6, -15, 60),
    "ellipsoid_midpoint": (-2e-7, 8e-6, -15, 60),
    "ellipsoid_axial": (-2e-7, 6e-6, -15, 60),
    "ellipsoid_quadrant": (-2e-6, 1e-5, -40, 40),
    "torus": (-3e-5, 1e-8, -30, 125),
    "torus_lift_off": (-4e-7, 1e-8, -30, 60),
}


@cache
def table(name):
    """Columns of one case, in the part of its sweep that can be compared."""
    with (FOLDER / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
    _, _, low, high = OPENSIM[name]
    inside = (columns["deg"] >= low) & (columns["deg"] <= high)
    return {key: column[inside] for key, column in columns.items()}


@cache
def geodesics():
    """True length by case and angle, over ellipsoids and tori."""
    with (FOLDER / "geodesics.csv").open() as file:
        return {(r["case"], float(r["deg"])): float(r["length"]) for r in csv.DictReader(file)}


def path(name, case, wraps):
    points = [eb.PathPoint("ground", case["ground"]), eb.PathPoint("forearm", case["forearm"])]
    return eb.Path(name, points, wraps)


def surface(name, figures):
    sizes = {key: value for key, value in figures.items() if key not in ("type", "body")}
    return SURFACES[figures["type"]](name, figures.get("body", "ground"), **sizes)


@pytest.fixture(scope="module")
def swept():
    """Lengths and moment arms by case over its sweep, with its surface and without.

    All cases are in one model, over the angles of all of them: compiling is most of the time.
    """
    over = [path(n, c, [eb.Wrap(n, method=c["method"])]) for n, c in CASES.items()]
    straight = [path(f"straight {name}", case, []) for name, case in CASES.items()]
    model = eb.Model.build(
        coordinates=("flexion",),
        bodies=[eb.Body("forearm", joint=eb.Revolute((0, 0, 1)), mass=1.0, inertia=(1, 1, 1))],
        muscles=[*over, *straight],
        surfaces=[surface(name, case["surface"]) for name, case in CASES.items()],
    )
    degrees = np.unique(np.concatenate([table(name)["deg"] for name in CASES]))
    run = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)), compiler_options=QUICK)
    lengths, arms = run(jnp.radians(degrees)[:, None])

    def case(name, straight=False):
        rows = np.searchsorted(degrees, table(name)["deg"])
        column = model.muscle_index(f"straight {name}" if straight else name)
        return np.asarray(lengths)[rows, column], np.asarray(arms)[rows, 0, column]

    return case


# ---- closed forms ------------------------------------------------------------------------


def rotation(angles):
    """XYZ body-fixed."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_x @ about_y @ about_z


def around_circle(a, b, radius, side):
    """Planar length from a to b around a circle; side 1 goes counter-clockwise."""
    ra, rb = np.hypot(*a), np.hypot(*b)
    between = side * (math.atan2(b[1], b[0]) - math.atan2(a[1], a[0]))
    arc = between - math.acos(radius / ra) - math.acos(radius / rb)
    return math.sqrt(ra**2 - radius**2) + math.sqrt(rb**2 - radius**2) + radius * (
        arc % (2 * math.pi)
    )  # fmt: skip


def shortest(case, angle, towards):
    """Length over a cylinder or sphere, on the side that the point `towards` (ground) is on."""
    turn = rotation([0.0, 0.0, angle])
    surface = case["surface"]
    frame = rotation(surface.get("rotation", (0.0, 0.0, 0.0)))
    centre = np.array(surface.get("translation", (0.0, 0.0, 0.0)))
    if surface.get("body") == "forearm":
        frame, centre = turn @ frame, turn @ centre
    points = [np.array(case["ground"]), turn @ np.array(case["forearm"]), np.array(towards)]
    a, b, near = (frame.T @ (point - centre) for point in points)
    if surface["type"] == "sphere":  # in the plane of the points and the centre
        normal = np.cross(a, b)
        axes = np.stack([a, np.cross(normal, a), normal])
        axes /= np.linalg.norm(axes, axis=1)[:, None]
        a, b, near = (axes @ point for point in (a, b, near))
    side = np.sign(a[0] * near[1] - a[1] * near[0])
    planar = around_circle(a[:2], b[:2], surface["radius"], side)
    return math.hypot(planar, b[2] - a[2])


ROUND = [name for name, case in CASES.items() if case["surface"]["type"] in ("cylinder", "sphere")]


@pytest.mark.parametrize("name", ROUND)
def test_closed_form_over_round_surfaces(swept, name):
    known, (lengths, arms) = table(name), swept(name)
    h = 1e-6
    for i in np.flatnonzero(known["wraps"]):
        tangent = [known[key][i] for key in ("ax", "ay", "az")]
        angle = math.radians(known["deg"][i])
        exact = [shortest(CASES[name], angle + d, tangent) for d in (-h, 0.0, h)]
        np.testing.assert_allclose(lengths[i], exact[1], rtol=0, atol=1e-14)
        np.testing.assert_allclose(arms[i], (exact[0] - exact[2]) / (2 * h), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ROUND])
def test_geodesics_over_ellipsoids_and_tori(swept, name):
    known, (lengths, _) = table(name), swept(name)
    pairs = [
        (length, geodesics()[name, deg])
        for length, deg, on in zip(lengths, known["deg"], known["wraps"], strict=True)
        if on
    ]
    assert len(pairs) > 5
    np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_against_opensim(swept, name):
    known, (lengths, arms) = table(name), swept(name)
    least, most, _, _ = OPENSIM[name]
    excess = known["length"] - lengths
    assert least <= excess.min()
    assert excess.max() <= most
    # Away from contact both are the straight line, and then the moment arms agree too.
    straight, arm = swept(name, straight=True)
    free = known["wraps"] == 0
    for got, line in ((known["length"], straight), (lengths, straight), (arms, arm)):
        np.testing.assert_allclose(got[free], line[free], rtol=0, atol=1e-14)
    np.testing.assert_allclose(known["moment_arm"][free], arm[free], rtol=0, atol=1e-13)
