"""10,000 one-second simulations of the shoulder with 14 muscles, and OpenSim's rate beside.

    python benchmarks/ten_thousand.py --runs 10000 --json out/ten_thousand.json

Every run has its own start and its own constant excitations; tendons are rigid, activations
have dynamics, soft stops hold the coordinates within their ranges, and 101 rows are saved.
OpenSim simulates the first few of the same runs with the same tree (couplers of Holzbaur et al.
2005), the same masses, muscles of the same formulation (De Groote et al. 2016) and the same
stops, one after the other, on one core: `--peer-runs`. Both integrate with the tolerance given.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from typing import Any

STOPS = {"inside": 15.0, "stiffness": 100.0, "damping": 2.0, "transition": 5.0}
"""Degrees within the range, N m/rad, N m s/rad, degrees."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--runs", type=int, default=10_000)
    add("--no-wrap", action="store_true", help="straight paths instead of wrapping surfaces")
    add("--tables", action="store_true", help="wrapped paths from tables (eb.tabulate_paths)")
    add("--rhythm", default="holzbaur", help="of our model; OpenSim's is always holzbaur")
    add("--batch-size", type=int, default=1024)
    add("--lanes", type=int, default=32)
    add("--devices", type=int, default=os.cpu_count() or 1, help="parts of the CPU to spread over")
    add("--tolerance", type=float, default=1e-5)
    add("--out", help="folder for the results; continues there if interrupted")
    add("--format", default="zarr", choices=("sto", "zarr"))
    add("--peer-runs", type=int, default=5, help="runs of OpenSim's, 0 for none")
    add("--json", metavar="FILE", help="write the figures")
    return parser.parse_args()


GIVEN = arguments() if __name__ == "__main__" else argparse.Namespace(devices=1)
# Read when JAX starts: several devices of the CPU, and enough threads for batched LU.
os.environ.setdefault("NPROC", "8")
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={GIVEN.devices}"
)

import jax  # noqa: E402
import numpy as np  # noqa: E402

import empbody as eb  # noqa: E402

jax.config.update("jax_enable_x64", True)
TS = np.linspace(0.0, 1.0, 101)


def shoulder(rhythm: str, wrapping: bool) -> eb.Model:
    """With stops that keep the coordinates within their ranges."""
    model = eb.models.shoulder(rhythm, wrapping=wrapping)
    inside, transition = np.deg2rad(STOPS["inside"]), np.deg2rad(STOPS["transition"])
    stops = eb.forces.SoftStops(
        model.coordinate_names,
        np.asarray(model.lower) + inside,
        np.asarray(model.upper) - inside,
        STOPS["stiffness"],
        STOPS["stiffness"],
        STOPS["damping"],
        transition,
    )
    return model.with_forces([*model.forces, stops])


def cases(model: eb.Model, runs: int) -> dict[str, np.ndarray]:
    """Starts at rest in the middle of the ranges, and excitations."""
    rng = np.random.default_rng(2005)
    low, high = np.deg2rad([0.0, 40.0, -50.0]), np.deg2rad([80.0, 110.0, 0.0])
    return {
        "q0": rng.uniform(low, high, (runs, 3)),
        "qd0": np.zeros((runs, 3)),
        "excitation": rng.uniform(0.02, 0.15, (runs, model.nm)),
    }


def ours(given: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Wall time of the whole batch, files included; compiling apart."""
    model = shoulder(given.rhythm, not given.no_wrap)
    begin = time.perf_counter()
    if given.tables:
        model = eb.tabulate_paths(model).model
    tabulating_s = time.perf_counter() - begin
    options = {
        "ts": TS,
        "rtol": given.tolerance,
        "atol": given.tolerance,
        "batch_size": given.batch_size,
        "lanes": given.lanes,
        "devices": jax.devices(),
        "format": given.format,
    }
    small = cases(model, min(given.runs, given.batch_size))
    begin = time.perf_counter()
    first = eb.simulate_batch(model, **small, **options)
    second = time.perf_counter()
    eb.simulate_batch(model, **small, **options)
    once = time.perf_counter() - second
    compile_s = max(second - begin - once, 0.0)
    begin, spent = time.perf_counter(), time.process_time()
    batch = eb.simulate_batch(
        model, **cases(model, given.runs), **options, out=folder, progress=sys.stderr.isatty()
    )
    wall, spent = time.perf_counter() - begin, time.process_time() - spent
    steps = batch.stats["num_steps"]
    assert len(first) == len(small["q0"])
    return {
        "runs": given.runs,
        "wrapping": "none" if given.no_wrap else ("tables" if given.tables else "exact"),
        "tabulating_s": tabulating_s if given.tables else None,
        "rhythm": given.rhythm,
        "devices": len(jax.devices()),
        "compile_s": compile_s,
        "wall_s": wall,
        "cpu_s": spent,
        "cpu_s_per_run": spent / given.runs,
        "runs_per_s": given.runs / wall,
        "failed": len(batch.failed),
        "simulated_s": float(batch.array("t_final").sum()),
        "steps_mean": float(steps.mean()),
        "steps_max": int(steps.max()),
        "waiting_fraction": batch.stats["waiting_fraction"],
        "waiting_fraction_of_vmap": float(1.0 - steps.mean() / steps.max()),
        "first_failure": batch.reason(int(batch.failed[0])) if len(batch.failed) else None,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "end_of_first_run_rad": batch[0].q_final.tolist(),
    }


def peer(given: argparse.Namespace) -> dict[str, Any]:
    """OpenSim's rate, and where its first run ends."""
    try:
        from empbody.bench._opensim import OpenSimShoulder

        skeleton: Any = OpenSimShoulder(wrapping=not given.no_wrap)
    except ImportError as error:
        return {"missing": str(error)}
    import opensim as osim

    ours = eb.models.shoulder("holzbaur", wrapping=False)
    model, controller = skeleton.model, osim.PrescribedController()
    bodies, forces = model.getBodySet(), model.updForceSet()
    for i in range(bodies.getSize()):
        body = bodies.get(i)
        set_mass(osim, body, ours)
    parameters = ours.muscles.parameters
    for k, name in enumerate(ours.muscle_names):
        muscle = osim.DeGrooteFregly2016Muscle()
        muscle.setName(f"{name}_muscle")
        muscle.set_max_isometric_force(float(parameters.max_isometric_force[k]))
        muscle.set_optimal_fiber_length(float(parameters.optimal_fibre_length[k]))
        muscle.set_tendon_slack_length(float(parameters.tendon_slack_length[k]))
        muscle.set_pennation_angle_at_optimal(float(parameters.pennation[k]))
        muscle.set_fiber_damping(float(parameters.damping[k]))
        muscle.set_max_contraction_velocity(float(parameters.max_contraction_velocity[k]))
        muscle.set_ignore_tendon_compliance(True)
        muscle.set_default_activation(float(parameters.minimum_activation[k]))
        actuator = osim.PathActuator.safeDownCast(forces.get(name))
        muscle.set_path(osim.GeometryPath.safeDownCast(actuator.updPath()))
        model.addForce(muscle)
    for i in reversed(range(forces.getSize())):
        if osim.Muscle.safeDownCast(forces.get(i)) is None:
            forces.remove(i)
    for k, name in enumerate(ours.coordinate_names):
        low, high = np.rad2deg(np.array([ours.lower[k], ours.upper[k]]))
        inside, stiff, damping = STOPS["inside"], STOPS["stiffness"], STOPS["damping"]
        per_degree = np.pi / 180
        model.addForce(
            osim.CoordinateLimitForce(
                name, high - inside, stiff * per_degree, low + inside, stiff * per_degree,
                damping * per_degree, STOPS["transition"],
            )
        )  # fmt: skip
    levels = cases(ours, given.runs)
    for name in ours.muscle_names:
        controller.addActuator(model.getMuscles().get(f"{name}_muscle"))
        controller.prescribeControlForActuator(f"{name}_muscle", osim.Constant(0.1))
    model.addController(controller)
    model.finalizeConnections()
    spent, ends, used = [], [], 0.0
    for run in range(given.peer_runs):
        for k in range(len(ours.muscle_names)):
            function = osim.Constant.safeDownCast(controller.upd_ControlFunctions().get(k))
            function.setValue(float(levels["excitation"][run, k]))
        skeleton.state = model.initSystem()
        skeleton._coordinates = model.getCoordinateSet()
        skeleton.variables(levels["q0"][run])
        state = skeleton.state
        model.assemble(state)
        model.equilibrateMuscles(state)
        begin, cpu = time.perf_counter(), time.process_time()
        manager = osim.Manager(model)
        manager.setIntegratorAccuracy(given.tolerance)
        manager.initialize(state)
        final = manager.integrate(1.0)
        spent.append(time.perf_counter() - begin)
        used += time.process_time() - cpu
        about = [model.getCoordinateSet().get(name) for name in ours.coordinate_names]
        ends.append([each.getValue(final) for each in about])
    return {
        "runs": given.peer_runs,
        "version": osim.GetVersion(),
        "runs_per_s": len(spent) / sum(spent),
        "s_per_run": [min(spent), max(spent)],
        "cpu_s_per_run": used / len(spent),
        "end_of_first_run_rad": ends[0],
    }


def set_mass(osim: Any, body: Any, ours: eb.Model) -> None:
    """Ours; bodies without mass get a little, since OpenSim wants some."""
    name = body.getName()
    k = ours.body_names.index(name) if name in ours.body_names else None
    mass = 0.0 if k is None else float(ours.mass[k])
    body.setMass(max(mass, 1e-4))
    if mass == 0.0:
        body.setInertia(osim.Inertia(1e-6, 1e-6, 1e-6))
        return
    body.setMassCenter(osim.Vec3(*map(float, ours.com[k])))
    moments = np.asarray(ours.inertia[k])
    diagonal, off = np.diag(moments), (moments[0, 1], moments[0, 2], moments[1, 2])
    body.setInertia(osim.Inertia(*map(float, diagonal), *map(float, off)))


def main(given: argparse.Namespace) -> dict[str, Any]:
    before = os.getloadavg()
    with tempfile.TemporaryDirectory() as scratch:
        mine = ours(given, given.out or os.path.join(scratch, "batch"))
    found: dict[str, Any] = {"ours": mine, "load_before": before, "load_after": os.getloadavg()}
    if given.peer_runs:
        found["opensim"] = peer(given)
        if "runs_per_s" in found["opensim"]:
            found["speedup"] = mine["runs_per_s"] / found["opensim"]["runs_per_s"]
            ratio = found["opensim"]["cpu_s_per_run"] / mine["cpu_s_per_run"]
            found["speedup_of_processor_time"] = ratio
            apart = np.subtract(
                mine["end_of_first_run_rad"], found["opensim"]["end_of_first_run_rad"]
            )
            found["end_of_first_run_apart_rad"] = float(np.abs(apart).max())
    return found


if __name__ == "__main__":
    results = main(GIVEN)
    print(json.dumps(results, indent=1))
    if GIVEN.json:
        with open(GIVEN.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
