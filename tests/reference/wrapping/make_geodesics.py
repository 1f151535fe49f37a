"""Makes `geodesics.csv`: exact shortest paths over the ellipsoids and tori of `cases.json`.

    python tests/reference/wrapping/make_geodesics.py

Needs NumPy and SciPy, nothing of empbody or OpenSim. A path is a straight line, a geodesic
and a straight line, each tangent to the next. The geodesic is shot as a differential
equation on the surface F(x) = 0,

    x'' = -(x'ᵀ F'' x' / |F'|²) F',

from the first tangent point; that point (three numbers) and the length on the surface are
found by Newton's method (MINPACK), so that the first line is tangent to the surface and the
last one continues the geodesic. It starts at OpenSim's tangent points and so stays on the
side that OpenSim took. Columns: case, angle (deg), total length, length on the surface
(m), the two tangent points in the surface's frame (m), and the residual of the equations.
"""

import csv
import json
import math
import pathlib

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import root

HERE = pathlib.Path(__file__).parent


def rotation(angles):
    """XYZ body-fixed."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_x @ about_y @ about_z


def ellipsoid(figures):
    scale = 1.0 / np.square(figures["dimensions"])

    def value(x):
        return scale @ (x * x) - 1.0

    return value, lambda x: 2.0 * scale * x, lambda x: np.diag(2.0 * scale)


def torus(figures):
    tube, ring = figures["inner_radius"], figures["outer_radius"]

    def value(x):
        return ((math.hypot(x[0], x[1]) - ring) ** 2 + x[2] ** 2) / tube**2 - 1.0

    def gradient(x):
        r = math.hypot(x[0], x[1])
        radial = np.array([x[0], x[1], 0.0]) / r
        return (2.0 * (r - ring) * radial + np.array([0.0, 0.0, 2.0 * x[2]])) / tube**2

    def hessian(x):
        r = math.hypot(x[0], x[1])
        radial, around = np.array([x[0], x[1], 0.0]) / r, np.array([-x[1], x[0], 0.0]) / r
        bend = np.outer(radial, radial) + (1.0 - ring / r) * np.outer(around, around)
        return 2.0 * (bend + np.diag([0.0, 0.0, 1.0])) / tube**2

    return value, gradient, hessian


def shoot(surface, start, direction, length):
    """End point and end direction of the geodesic."""
    _, gradient, hessian = surface

    def slope(_, state):
        x, v = state[:3], state[3:]
        g = gradient(x)
        return np.concatenate([v, -(v @ hessian(x) @ v) / (g @ g) * g])

    # Over a unit of time, so that a length below zero is allowed on the way to the root.
    run = solve_ivp(
        lambda t, s: length * slope(t, s),
        (0.0, 1.0),
        np.concatenate([start, direction]),
        method="DOP853",
        rtol=1e-13,
        atol=1e-15,
    )
    return run.y[:3, -1], run.y[3:, -1]


def path(surface, a, b, p, q):
    """Total length, length on the surface, tangent points, residual; from guesses p and q."""
    value, gradient, _ = surface
    unit = np.linalg.norm(b - a)

    def parts(unknown):
        start, length = unit * unknown[:3], unit * unknown[3]
        direction = (start - a) / np.linalg.norm(start - a)
        return start, direction, length, *shoot(surface, start, direction, length)

    def equations(unknown):
        start, direction, _, end, forward = parts(unknown)
        normal = gradient(start) / np.linalg.norm(gradient(start))
        last = (b - end) / np.linalg.norm(b - end)
        binormal = np.cross(gradient(end), forward)
        binormal /= np.linalg.norm(binormal)
        outward = gradient(end) / np.linalg.norm(gradient(end))
        return [value(start), normal @ direction, last @ binormal, last @ outward]

    guess = np.concatenate([p, [np.linalg.norm(q - p)]]) / unit
    solution = root(equations, guess, method="hybr", tol=1e-14)
    start, _, length, end, forward = parts(solution.x)
    residual = np.abs(equations(solution.x)).max()
    if length < 0.0 or forward @ (b - end) < 0.0:
        residual = math.inf
    total = np.linalg.norm(start - a) + length + np.linalg.norm(b - end)
    return total, length, start, end, residual


def rows():
    cases = json.loads((HERE / "cases.json").read_text())
    for name, case in cases.items():
        figures = case["surface"]
        if figures["type"] not in ("ellipsoid", "torus"):
            continue
        surface = {"ellipsoid": ellipsoid, "torus": torus}[figures["type"]](figures)
        frame = rotation(figures.get("rotation", (0.0, 0.0, 0.0)))
        centre = np.array(figures.get("translation", (0.0, 0.0, 0.0)))
        with (HERE / f"{name}.csv").open() as file:
            for row in csv.DictReader(file):
                if row["wraps"] != "1":
                    continue
                turn = rotation([0.0, 0.0, math.radians(float(row["deg"]))])
                p, q = ([float(row[end + axis]) for axis in "xyz"] for end in "ab")
                points = [case["ground"], turn @ np.array(case["forearm"]), p, q]
                local = [frame.T @ (np.array(point) - centre) for point in points]
                total, length, start, end, residual = path(surface, *local)
                yield [name, row["deg"], total, length, *start, *end, residual]


def main():
    with (HERE / "geodesics.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        ends = [end + axis for end in "ab" for axis in "xyz"]
        writer.writerow(["case", "deg", "length", "on_surface", *ends, "residual"])
        for name, deg, *numbers in rows():
            if numbers[-1] < 1e-11:
                writer.writerow([name, deg, *(f"{n:.17g}" for n in numbers)])
            else:
                print(f"{name} at {deg} deg: no root, residual {numbers[-1]:.1e}")


if __name__ == "__main__":
    main()
