"""`empbody run shoulder`: from a motion to torques and muscle forces (Ehsani 2016, section
4-4 A and C, Figs. 14, 15, 19-21)."""

import functools
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from .. import viz
from ..control import (
    MANUSCRIPT_GAINS,
    AbstractReference,
    Tracking,
    as_reference,
    manuscript_reference,
    track,
)
from ..dynamics import inverse_dynamics, mechanical_energy
from ..io import Table, load, read_motion
from ..model import Model
from ..models import shoulder
from ..muscles import HillMuscles
from ..pipeline import in_blocks
from ..sharing import Sharing, SharingStatus, capacities, outcomes, share
from ._case import Options, Result, start
from ._errors import CommandError
from ._models import readable
from ._motions import FILE_ONLY
from ._progress import Progress, Timed, timed
from ._shoulder_dae import beside_dae, words as dae_words
from ._shoulder_figures import comparison_figures
from ._shoulder_notes import about_rhythm, jumps

COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
_RATE = 100.0  # rows per second
_DURATION = 3.0
_RESERVE = 1.0  # N m at the price of one full activation


class Muscles(NamedTuple):
    """What the muscles do along a motion."""

    arms: Float[np.ndarray, "rows nq nm"]
    sharing: Any
    """`Sharing` with NumPy arrays, rows first"""


def run_shoulder(options: Options, progress: Progress) -> Result:
    """Track a motion, share its torques among the muscles, and compare."""
    with progress.stage("building the model"):
        model = _model(options)
    reference, time, words = _reference(model, options)
    gains = _gains(model, options)
    try:
        followed, times = _followed(model, reference, time, gains, options, progress)
    except ValueError as error:
        raise CommandError("; ".join([str(error), *words])) from error
    q, qd, torques = (np.asarray(x) for x in (followed.q, followed.qd, followed.torques))
    checks = _checks(model, followed)
    muscles = None
    if isinstance(model.muscles, HillMuscles):
        with progress.stage("moment arms and muscle forces (compiles for a while)"):
            muscles = _muscles(model, q, qd, torques)
        words += jumps(model, time, muscles.arms)
    if options.rhythm.lower().endswith(".json"):
        words += about_rhythm(model, options.rhythm, q)
    dae = None
    if options.dae and options.model is None:
        dae = beside_dae(model, reference, followed, times, gains, options, progress)
    drawn, deviations = {}, None
    if options.model is None and options.figures:
        drawn, deviations = comparison_figures(options.rhythm, progress)
    summary = {
        "model": options.model or "shoulder",
        "motion": options.motion or "raise and lower the arm (Fig. 19)",
        "q0_unit": "rad",
        "q0": q[0].tolist(),
        "duration_s": float(time[-1] - time[0]),
        "rows": int(time.size),
        "gains_per_s": gains.tolist(),
        "tracking": _tracking_summary(model, followed),
        "checks": checks,
        "steps": {
            "accepted": int(followed.stats["num_accepted_steps"]),
            "rejected": int(followed.stats["num_rejected_steps"]),
        },
        "wall_times_s": times.as_json(),
        "peak_torque_N_m": _named(model.coordinate_names, np.max(np.abs(torques), axis=0)),
        **({} if muscles is None else {"muscles": _muscle_summary(model, muscles)}),
        **({} if dae is None else {"dae": dae}),
        **({} if deviations is None else {"moment_arms_against_opensim": deviations}),
        "notes": words,
    }
    return Result(
        tables=_tables(model, followed, muscles),
        figures=_figures(model, followed, muscles) | drawn,
        summary=summary,
        lines=_words(model, summary),
    )


def _model(options: Options) -> Model:
    if options.model is None:
        return shoulder(options.rhythm, wrapping=options.wrapping, load=options.load)
    path = readable(options.model)
    if path.suffix.lower() != ".osim":
        raise CommandError(f"{path} is not a model file: its name must end in .osim")
    if options.load:
        raise CommandError("--load is for the shoulder of ours: --model brings its own bodies")
    model = load(path, wrapping=options.wrapping)
    moved = _columns(options.motion, model) if options.motion else COORDINATES
    held = [name for name in model.coordinate_names if name not in moved]
    absent = [name for name in moved if name not in model.coordinate_names]
    if absent:
        there = ", ".join(model.coordinate_names)
        raise CommandError(
            f"{path} has no coordinate {', '.join(absent)}, which the motion moves; give "
            f"one of its own with --motion (there are {there})"
        )
    if not held:
        return model
    index = [model.coordinate_index(name) for name in held]
    lock = {n: float(model.default_q[i]) for n, i in zip(held, index, strict=True)}
    return load(path, lock=lock, wrapping=options.wrapping)


def _columns(motion: str | None, model: Model) -> tuple[str, ...]:
    """Coordinates that a motion file moves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_motion(readable(str(motion)), model, missing="default", remedies=FILE_ONLY)
    return tuple(name for name in found.coordinates if name not in found.filled)


def _reference(
    model: Model, options: Options
) -> tuple[AbstractReference, Float[np.ndarray, " rows"], list[str]]:
    """What to follow, at which times, and what the user should know about it."""
    if options.motion is None:
        duration = options.duration or _DURATION
        rows = options.rows or round(_RATE * duration) + 1
        reference = as_reference(model, manuscript_reference(duration=duration))
        return reference, np.linspace(0.0, duration, rows), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        motion = read_motion(readable(options.motion), model, remedies=FILE_ONLY)
    notes = list(motion.warnings)
    if motion.extra:
        notes.append(f"columns that are no coordinates of the model: {', '.join(motion.extra)}")
    first, last = float(motion.time[0]), float(motion.time[-1])
    if options.duration is not None:
        if options.duration > last - first:
            raise CommandError(
                f"--duration {options.duration:g}: {options.motion} lasts {last - first:g} s"
            )
        last = first + options.duration
    if options.rows is None and options.duration is None:
        time = motion.time
    else:
        time = np.linspace(first, last, options.rows or round(_RATE * (last - first)) + 1)
    return as_reference(model, motion), time, notes


def _gains(model: Model, options: Options) -> Float[np.ndarray, " nq"]:
    if options.gains is None:
        known: dict[str, float] = dict(zip(COORDINATES, MANUSCRIPT_GAINS, strict=True))
        return np.array([known.get(name, 100.0) for name in model.coordinate_names])
    if len(options.gains) not in (1, model.nq):
        names = ", ".join(model.coordinate_names)
        raise CommandError(
            f"--gains needs one number or {model.nq} ({names}), got {len(options.gains)}"
        )
    return np.broadcast_to(np.array(options.gains), (model.nq,)).copy()


def _followed(
    model: Model,
    reference: AbstractReference,
    time: Float[np.ndarray, " rows"],
    gains: Float[np.ndarray, " nq"],
    options: Options,
    progress: Progress,
) -> tuple[Tracking, Timed]:
    begin: dict[str, Any] = {}
    if options.q0 is not None:
        if len(options.q0) != model.nq:
            names = ", ".join(model.coordinate_names)
            raise CommandError(f"--q0 needs {model.nq} numbers ({names}), got {len(options.q0)}")
        begin = {"q0": start(model, options.q0, ()), "qd0": np.zeros(model.nq)}
    with progress.stage(f"tracking by computed torque ({options.solver}, rtol {options.rtol:g})"):
        return timed(
            lambda: track(
                model, reference, time, gains=gains, plant=model, solver=options.solver,
                rtol=options.rtol, atol=options.atol, max_steps=options.max_steps, **begin,
            )
        )  # fmt: skip


@eqx.filter_jit
def _needed(model: Model, followed: Tracking) -> tuple[Array, Array]:
    """Inverse dynamics of the realised motion, and the rate of mechanical energy (W)."""
    elements = bool(model.forces)

    def rate(q: Array, qd: Array, qdd: Array) -> Array:
        energy = functools.partial(mechanical_energy, model)
        return jax.jvp(energy, (q, qd), (qd, qdd))[1]

    need = jax.vmap(lambda t, q, v, a: inverse_dynamics(model, q, v, a, t=t, elements=elements))
    return (
        need(followed.ts, followed.q, followed.qd, followed.qdd),
        jax.vmap(rate)(followed.q, followed.qd, followed.qdd),
    )


def _checks(model: Model, followed: Tracking) -> dict[str, float]:
    need, rate = _needed(model, followed)
    return {
        "torques_minus_inverse_dynamics_N_m": _largest(followed.torques - need),
        "power_minus_energy_rate_W": _largest(followed.power - rate),
    }


@eqx.filter_jit
def _rows(model: Model, q: Array, qd: Array, tau: Array) -> tuple[Array, Sharing]:
    """Moment arms and activations together, so that paths are compiled once."""

    def row(q: Array, qd: Array, tau: Array) -> tuple[Array, Sharing]:
        arms, active, passive = capacities(model, q, qd)
        return arms, share(arms, active, passive, tau, reserves=_RESERVE)

    return jax.vmap(row)(q, qd, tau)


def _muscles(model: Model, q: np.ndarray, qd: np.ndarray, torques: np.ndarray) -> Muscles:
    return Muscles(*in_blocks(functools.partial(_rows, model), q, qd, torques))


def _tables(model: Model, followed: Tracking, muscles: Muscles | None) -> Mapping[str, Table]:
    time = np.asarray(followed.ts)
    names = model.coordinate_names
    columns = [np.asarray(x) for x in (followed.q, followed.qd, followed.qdd, followed.torques)]
    labels = [*names, *(f"{n}_speed" for n in names), *(f"{n}_acceleration" for n in names)]
    labels += [f"{n}_moment" for n in names] + [f"{n}_desired" for n in names]
    rows = np.hstack([*columns, np.asarray(followed.desired.q)])
    tables = {"trajectory.sto": Table(time, tuple(labels), rows, name="shoulder")}
    if muscles is not None:
        found, units = muscles.sharing, model.muscle_names
        labels = [f"{n}_activation" for n in units] + [f"{n}_force" for n in units]
        labels += [f"{n}_reserve" for n in names]
        rows = np.hstack([found.activations, found.forces, found.reserves])
        tables["muscles.sto"] = Table(time, tuple(labels), rows, name="muscle sharing")
        labels = [f"ma_{c}_{m}" for c in names for m in units]
        rows = muscles.arms.reshape(time.size, -1)
        tables["moment_arms.sto"] = Table(time, tuple(labels), rows, name="moment arms")
    return tables


def _figures(model: Model, followed: Tracking, muscles: Muscles | None) -> dict[str, Any]:
    time = np.asarray(followed.ts)
    names = model.coordinate_names
    errors = {
        r"$|q - q_\mathrm{des}|$ (rad)": np.asarray(followed.errors),
        r"$|\dot q - \dot q_\mathrm{des}|$ (rad/s)": np.asarray(followed.rate_errors),
    }
    drawn: dict[str, Any] = {
        "fig19_tracking.png": functools.partial(
            viz.tracking, time, np.asarray(followed.desired.q), errors, names=names
        ),
        "fig20_torques.png": functools.partial(
            viz.torques, time, np.asarray(followed.torques), names=names,
            title="Torques that make the shoulder follow",
        ),
    }  # fmt: skip
    if muscles is not None:
        drawn["fig21_muscle_forces.png"] = functools.partial(
            viz.muscle_forces, time, muscles.sharing.forces, muscles.sharing.activations,
            names=model.muscle_names,
        )  # fmt: skip
    return drawn


def _tracking_summary(model: Model, followed: Tracking) -> dict[str, Any]:
    names = model.coordinate_names
    return {
        "q_error_max_rad": _named(names, np.max(np.abs(followed.errors), axis=0)),
        "qd_error_max_rad_per_s": _named(names, np.max(np.abs(followed.rate_errors), axis=0)),
    }


def _muscle_summary(model: Model, muscles: Muscles) -> dict[str, Any]:
    found = muscles.sharing
    balanced = found.status == SharingStatus.balanced
    return {
        "outcomes": outcomes(found.status),
        "largest_residual_N_m": _largest(found.residual[balanced]) if balanced.any() else None,
        "largest_reserve_N_m": _named(
            model.coordinate_names, np.max(np.abs(found.reserves), axis=0)
        ),
        "peak_activation": _named(model.muscle_names, found.activations.max(axis=0)),
        "peak_force_N": _named(model.muscle_names, found.forces.max(axis=0)),
    }


def _words(model: Model, summary: Mapping[str, Any]) -> tuple[str, ...]:
    errors, rates = (summary["tracking"][k] for k in summary["tracking"])
    steps, walls, checks = (summary[k] for k in ("steps", "wall_times_s", "checks"))
    width = max(len(n) for n in model.coordinate_names)
    lines = ["largest tracking error, and torque"]
    lines += [
        f"  {n:<{width}}  {errors[n]:.1e} rad  {rates[n]:.1e} rad/s  "
        f"{summary['peak_torque_N_m'][n]:7.2f} N m"
        for n in model.coordinate_names
    ]
    lines.append(
        f"ODE     {steps['accepted']} steps ({steps['rejected']} rejected), "
        f"{1e3 * walls['run']:.1f} ms after {walls['compile']:.1f} s of compiling; torques are "
        f"inverse dynamics to {checks['torques_minus_inverse_dynamics_N_m']:.0e} N m, power is "
        f"the rate of energy to {checks['power_minus_energy_rate_W']:.0e} W"
    )
    if "dae" in summary:
        lines.append(dae_words(summary["dae"]))
    if "moment_arms_against_opensim" in summary:
        most = max(summary["moment_arms_against_opensim"].values())
        lines.append(
            f"        (Figs. 14, 15: moment arms with Holzbaur's rhythm and straight paths are "
            f"OpenSim's to {most:.0e} m)"
        )
    if "muscles" in summary:
        lines += _muscle_words(summary["muscles"], summary["rows"])
    lines += [f"note: {note}" for note in summary["notes"]]
    return tuple(lines)


def _muscle_words(muscles: Mapping[str, Any], rows: int) -> list[str]:
    peak = sorted(muscles["peak_activation"].items(), key=lambda item: -item[1])[:4]
    busy = ", ".join(f"{n} {a:.2f} ({muscles['peak_force_N'][n]:.0f} N)" for n, a in peak)
    lines = [f"muscles most active: {busy}"]
    short = rows - muscles["outcomes"].get("balanced", 0)
    if short:
        reserves = ", ".join(f"{n} {v:.2g}" for n, v in muscles["largest_reserve_N_m"].items())
        lines.append(
            f"        in {short} of {rows} rows the muscles cannot give the torques: reserves of "
            f"at most {reserves} N m fill in"
        )
    return lines


def _named(names: tuple[str, ...], values: Any) -> dict[str, float]:
    return dict(zip(names, np.asarray(values).tolist(), strict=True))


def _largest(values: Any) -> float:
    return float(np.max(np.abs(np.asarray(values))))
