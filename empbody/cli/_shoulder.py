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
from ..dynamics import applied_forces, inverse_dynamics, mechanical_energy
from ..io import Table, read_motion
from ..model import Model
from ..models import shoulder
from ..muscles import HillMuscles
from ..pipeline import in_blocks, turning
from ..sharing import Sharing, SharingStatus, capacities, outcomes, share
from ._case import Options, Result, start
from ._errors import CommandError
from ._models import readable
from ._motions import FILE_ONLY
from ._progress import Progress, Timed, timed
from ._shoulder_dae import beside_dae
from ._shoulder_figures import comparison_figures
from ._shoulder_file import COORDINATES, model_of_file, rhythm_of_file
from ._shoulder_notes import about_rhythm, held_against, jumps
from ._shoulder_words import lines_of

_RATE = 100.0  # rows per second
_DURATION = 3.0
_LEAST_ARM = 1e-4  # m
_RESERVE = 1.0  # N m at the price of one full activation


class Muscles(NamedTuple):
    """What the muscles do along a motion."""

    arms: Float[np.ndarray, "rows nq nm"]
    passive: Float[np.ndarray, "rows nm"]
    """Force without activation (N)."""
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
    checks, elements = _checks(model, followed)
    muscles = None
    if isinstance(model.muscles, HillMuscles):
        with progress.stage("moment arms and muscle forces (compiles for a while)"):
            muscles = _muscles(model, q, qd, torques)
        words += jumps(model, time, muscles.arms)
        short = np.asarray(muscles.sharing.status != SharingStatus.balanced)
        words += held_against(model, time, muscles.arms, muscles.passive, torques, short)
    if options.rhythm.lower().endswith(".json"):
        words += about_rhythm(model, options.rhythm, q, aligned=bool(options.align))
    dae = None
    if options.dae and options.model is None:
        dae = beside_dae(model, reference, followed, times, gains, options, progress)
    drawn, deviations = {}, None
    if options.model is None and options.figures:
        drawn, deviations = comparison_figures(options.rhythm, options.align, progress)
    own = {} if options.model is None else rhythm_of_file(model)
    summary = {
        **own,
        "model": options.model or "shoulder",
        "motion": options.motion or "raise and lower the arm (Fig. 19)",
        "q0_unit": "rad",
        "q0": q[0].tolist(),
        "duration_s": float(time[-1] - time[0]),
        "rows": int(time.size),
        "gains_per_s": gains.tolist(),
        "tracking": _tracking_summary(model, followed),
        "checks": checks,
        "force_elements": len(model.forces),
        **({} if not model.forces else {"force_elements_power_max_W": elements}),
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
        lines=lines_of(model, summary),
    )


def _model(options: Options) -> Model:
    if options.model is not None:
        return model_of_file(options)
    return shoulder(
        options.rhythm, wrapping=options.wrapping, load=options.load, align=options.align
    )


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
def _needed(model: Model, followed: Tracking) -> tuple[Array, Array, Array]:
    """Of the realised motion: inverse dynamics, power of the model's own force elements (W),
    and the rate of the skeleton's kinetic energy and energy of weight (W)."""
    elements = bool(model.forces)
    skeleton = eqx.tree_at(lambda m: m.forces, model, ())

    def row(t: Array, q: Array, qd: Array, qdd: Array) -> tuple[Array, Array, Array]:
        energy = functools.partial(mechanical_energy, skeleton)
        need = inverse_dynamics(model, q, qd, qdd, t=t, elements=elements)
        own = applied_forces(model, q, qd, t) @ qd
        return need, own, jax.jvp(energy, (q, qd), (qd, qdd))[1]

    return jax.vmap(row)(followed.ts, followed.q, followed.qd, followed.qdd)


def _checks(model: Model, followed: Tracking) -> tuple[dict[str, float], float]:
    """What must vanish, and the largest power of springs, dampers and their like (W)."""
    need, own, rate = _needed(model, followed)
    checks = {
        "torques_minus_inverse_dynamics_N_m": _largest(followed.torques - need),
        "power_minus_energy_rate_W": _largest(followed.power + own - rate),
    }
    return checks, _largest(own)


@eqx.filter_jit
def _rows(model: Model, q: Array, qd: Array, tau: Array) -> tuple[Array, Array, Sharing]:
    """Moment arms and activations together, so that paths are compiled once."""

    def row(q: Array, qd: Array, tau: Array) -> tuple[Array, Array, Sharing]:
        arms, active, passive = capacities(model, q, qd)
        return arms, passive, share(arms, active, passive, tau, reserves=_RESERVE)

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
            viz.tracking, time, np.asarray(followed.desired.q), errors, names=names,
            turning=turning(model),
        ),
        "fig20_torques.png": functools.partial(
            viz.torques, time, np.asarray(followed.torques), names=names,
            title="Torques that make the model follow",
        ),
    }  # fmt: skip
    if muscles is not None:
        # With most coordinates of a file at rest, most of its muscles have nothing to do.
        some = np.flatnonzero(np.abs(muscles.arms).max(axis=(0, 1)) > _LEAST_ARM)
        left = model.nm - some.size
        drawn["fig21_muscle_forces.png"] = functools.partial(
            viz.muscle_forces, time, muscles.sharing.forces[:, some],
            muscles.sharing.activations[:, some], names=[model.muscle_names[m] for m in some],
            note=f"; {left} muscles that move none of these coordinates are left out" * bool(left),
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


def _named(names: tuple[str, ...], values: Any) -> dict[str, float]:
    return dict(zip(names, np.asarray(values).tolist(), strict=True))


def _largest(values: Any) -> float:
    return float(np.max(np.abs(np.asarray(values))))
