"""What single precision costs in accuracy and gains in time, function by function.

    python benchmarks/float32.py [--poses 256] [--only shoulder,chain] [--json FILE]

Every function runs on the same random poses in double and in single precision, models
included. The error of a pose is max |x32 - x64| / max |x64| over the numbers of its result.
Gain is the processor time in double over that in single precision, whole batch, after
warm-up, least of five. Prints the table of docs/float32.md.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import empbody as eb

BOUND = 1e-4
"""The accuracy asked for."""


class Case(NamedTuple):
    """A function of one sample, its model, and the arguments of many samples."""

    name: str
    build: Callable[[], Any]
    function: Callable
    arguments: tuple[np.ndarray, ...]


def spread(draw: Any, low: Any, high: Any, poses: int) -> np.ndarray:
    """Uniform rows that are the same numbers in both precisions."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    return draw.uniform(low, high, (poses, low.size)).astype(np.float32).astype(float)


def shoulder_cases(poses: int) -> Iterator[Case]:
    draw = np.random.default_rng(0)
    q = spread(draw, np.deg2rad([-60, 10, -60]), np.deg2rad([100, 150, 10]), poses)
    qd, tau = (
        spread(draw, [-3.0] * 3, [3.0] * 3, poses),
        spread(draw, [-20.0] * 3, [20.0] * 3, poses),
    )
    level = spread(draw, [0.02] * 14, [0.9] * 14, poses)

    def bones():
        return eb.models.shoulder(muscles=False, load=True)

    def straight():
        return eb.models.shoulder(wrapping=False, load=True)

    yield Case("shoulder: body_transforms", bones, eb.body_transforms, (q,))
    yield Case("shoulder: mass_matrix", bones, eb.mass_matrix, (q,))
    yield Case("shoulder: gravity", bones, eb.gravity, (q,))
    yield Case("shoulder: bias", bones, eb.bias, (q, qd))
    yield Case("shoulder: inverse_dynamics", bones, eb.inverse_dynamics, (q, qd, tau))
    yield Case("shoulder: forward_dynamics", bones, eb.forward_dynamics, (q, qd, tau))
    yield Case("shoulder, straight paths: path_lengths", straight, eb.path_lengths, (q,))
    yield Case("shoulder, straight paths: moment_arms", straight, eb.moment_arms, (q,))
    yield Case(
        "shoulder, straight paths: muscle_forces", straight, eb.muscle_forces, (q, qd, level)
    )

    def shared(model: Any, q: Any, qd: Any) -> Any:
        need = -eb.gravity(model, q)
        return eb.share_forces(model, q, qd, need, reserves=1.0).activations

    yield Case("shoulder, straight paths: share_forces", straight, shared, (q, qd))


def wrapped_cases(poses: int) -> Iterator[Case]:
    draw = np.random.default_rng(1)
    q = spread(draw, np.deg2rad([-30, 10, -60]), np.deg2rad([90, 120, 10]), poses)
    for names in (("DELT1", "DELT2", "SUPSP", "INFSP", "SUBSC"), ("LAT1", "LAT2", "PECM3")):

        def build(names: Any = names) -> Any:
            return eb.models.shoulder(muscles=names)

        label = f"shoulder, wrapped ({', '.join(names)})"
        yield Case(f"{label}: moment_arms", build, eb.moment_arms, (q,))
        if len(names) > 3:
            yield Case(f"{label}: path_lengths", build, eb.path_lengths, (q,))


def squeezer_cases(poses: int) -> Iterator[Case]:
    draw = np.random.default_rng(2)
    q, qd = spread(draw, [-3.0], [3.0], poses), spread(draw, [-50.0], [50.0], poses)
    for rhythm in ("implicit", "fourier"):

        def build(rhythm: Any = rhythm) -> Any:
            return eb.models.squeezer(rhythm=rhythm)

        yield Case(f"squeezer ({rhythm}): joint_variables", build, eb.joint_variables, (q,))
        yield Case(f"squeezer ({rhythm}): mass_matrix", build, eb.mass_matrix, (q,))
        yield Case(f"squeezer ({rhythm}): forward_dynamics", build, eb.forward_dynamics, (q, qd))


def chain_cases(poses: int) -> Iterator[Case]:
    draw = np.random.default_rng(3)
    for n in (10, 30, 100):

        def build(n: int = n) -> Any:
            return eb.models.pendulum_chain(n)

        rows = min(poses, 64)
        q, qd = spread(draw, [-1.0] * n, [1.0] * n, rows), spread(draw, [-1.0] * n, [1.0] * n, rows)
        yield Case(f"chain of {n}: mass_matrix", build, eb.mass_matrix, (q,))
        yield Case(f"chain of {n}: inverse_dynamics", build, eb.inverse_dynamics, (q, qd, qd))
        yield Case(f"chain of {n}: forward_dynamics", build, eb.forward_dynamics, (q, qd))


def motion_cases(poses: int) -> Iterator[Case]:
    draw = np.random.default_rng(4)
    rows = min(poses, 32)
    q = spread(draw, np.deg2rad([0, 40, -40]), np.deg2rad([70, 90, 0]), rows)
    qd = spread(draw, [-0.5] * 3, [0.5] * 3, rows)

    def bones():
        model = eb.models.shoulder(muscles=False, load=True)
        return model.with_forces([eb.forces.VariableSprings(model.coordinate_names, damping=0.5)])

    def moved(model: Any, q: Any, qd: Any, rtol: float) -> Any:
        double = jnp.zeros(()).dtype == jnp.float64
        tolerance = 1e-10 if double else rtol
        ts = jnp.array([0.0, 0.2])
        options = {"rtol": tolerance, "atol": tolerance, "throw": False}
        return eb.simulate(model, q, qd, ts, **options).q_final

    for rtol in (1e-4, 1e-5, 1e-6):
        yield Case(
            f"shoulder: simulate 0.2 s, rtol = atol = {rtol:g} (double: 1e-10)",
            bones,
            lambda model, q, qd, rtol=rtol: moved(model, q, qd, rtol),
            (q, qd),
        )
    action = spread(draw, [-1.0] * 3, [1.0] * 3, rows)

    def stepped(env: Any, q: Any, action: Any) -> Any:
        return env.step(env.begin(q, q, jax.random.key(0)), action).state.q

    yield Case(
        "environments: shoulder_reach, a step", eb.environments.shoulder_reach, stepped, (q, action)
    )


class Swing(eqx.Module):
    """A raise from one posture to another and back within a second."""

    start: jax.Array
    reach: jax.Array

    def __call__(self, t: Any) -> Any:
        return self.start + self.reach * jnp.sin(jnp.pi * t) ** 2


def tracking_cases(poses: int) -> Iterator[Case]:
    """Computed torque: what the controller applies, and where the shoulder goes under it."""
    draw = np.random.default_rng(5)
    rows = min(poses, 32)
    q = spread(draw, np.deg2rad([0, 40, -40]), np.deg2rad([70, 60, -20]), rows)
    reach = spread(draw, np.deg2rad([-20, 10, -15]), np.deg2rad([20, 50, 15]), rows)

    def bones():
        return eb.models.shoulder(muscles=False, load=True)

    def tracked(model: Any, q: Any, reach: Any, what: str, gain: float) -> Any:
        double = jnp.zeros(()).dtype == jnp.float64
        tolerance = 1e-10 if double else 1e-5
        # Off the reference at the start: the gains have something to do.
        found = eb.track(
            model, Swing(q, reach), jnp.linspace(0.0, 0.5, 11), gains=gain, q0=q + 0.02,
            rtol=tolerance, atol=tolerance, throw=False,
        )  # fmt: skip
        return getattr(found, what)

    for gain in (10.0, 100.0):
        for what in ("q", "torques"):
            yield Case(
                f"shoulder: track 0.5 s, gain {gain:g}/s, rtol = 1e-05 (double: 1e-10): {what}",
                bones,
                lambda model, q, reach, w=what, g=gain: tracked(model, q, reach, w, g),
                (q, reach),
            )


GROUPS = {
    "shoulder": shoulder_cases,
    "squeezer": squeezer_cases,
    "chain": chain_cases,
    "motion": motion_cases,
    "tracking": tracking_cases,
    "wrapped": wrapped_cases,
}


def run(case: Case, double: bool) -> tuple[np.ndarray, float]:
    """Results of all samples, and the least processor time of the batch (s)."""
    arrays, rest = eqx.partition(case.build(), eqx.is_array)
    given = [jnp.asarray(a, dtype=float) for a in case.arguments]

    @jax.jit
    def batch(arrays: Any, *given: Any) -> Any:
        model = eqx.combine(arrays, rest)
        return jax.vmap(lambda *one: case.function(model, *one))(*given)

    found = jax.block_until_ready(batch(arrays, *given))
    assert found.dtype == (jnp.float64 if double else jnp.float32)
    times = []
    for _ in range(5):
        begin = time.process_time()
        jax.block_until_ready(batch(arrays, *given))
        times.append(time.process_time() - begin)
    return np.asarray(found, float).reshape(len(given[0]), -1), min(times)


def work(precision: str, groups: list[str], poses: int, folder: pathlib.Path) -> None:
    """All cases in one precision, each into a file; JAX does not mix them in a process."""
    jax.config.update("jax_enable_x64", precision == "64")
    for number, case in enumerate(c for group in groups for c in GROUPS[group](poses)):
        found, seconds = run(case, precision == "64")
        file = folder / f"{precision}_{number:03d}.npz"
        np.savez(file.with_suffix(".part.npz"), found=found, seconds=seconds, name=case.name)
        file.with_suffix(".part.npz").rename(file)


def compared(double: pathlib.Path, single: pathlib.Path) -> dict[str, Any]:
    wanted, found = np.load(double), np.load(single)
    off = np.max(np.abs(found["found"] - wanted["found"]), axis=1)
    scale = np.max(np.abs(wanted["found"]), axis=1)
    error = off / np.where(scale > 0.0, scale, 1.0)
    error = np.where(np.isfinite(error), error, np.inf)
    return {
        "function": str(wanted["name"]),
        "median": float(np.median(error)),
        "p99": float(np.quantile(error, 0.99, method="lower")),
        "worst": float(np.max(error)),
        "within": float(np.mean(error <= BOUND)),
        "gain": float(wanted["seconds"] / found["seconds"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--poses", type=int, default=256)
    parser.add_argument("--only", default=",".join(GROUPS), help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--worker", nargs=2, metavar=("BITS", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        bits, folder = options.worker
        return work(bits, options.only.split(","), options.poses, pathlib.Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        for bits in ("64", "32"):
            same = ["--poses", str(options.poses), "--only", options.only]
            command = [sys.executable, __file__, *same, "--worker", bits, folder]
            subprocess.run(command, check=True)
        files = sorted(pathlib.Path(folder).glob("64_*.npz"))
        rows = [compared(file, file.with_name("32" + file.name[2:])) for file in files]
    print("| function | median | 99 % | worst | within 1e-4 | gain |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        figures = " | ".join(f"{row[k]:.0e}" for k in ("median", "p99", "worst"))
        share = f"{100 * row['within']:.4g} %"
        print(f"| {row['function']} | {figures} | {share} | {row['gain']:.1f} |")
    if options.json:
        text = json.dumps(rows, indent=1)
        pathlib.Path(options.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
