"""`empbody fit`: a rhythm from measurements."""

import argparse
import math
import pathlib
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..fitting import (
    Orientations,
    PopulationFit,
    RhythmFit,
    blocks,
    choose_family,
    choose_poses,
    cross_validate,
    fit_population,
    fit_rhythm,
)
from ..io import Observations, save_rhythm
from ..rhythms import AbstractRhythm
from ._errors import FAILURE, CommandError
from ._fit_data import (
    fingerprint,
    known_subjects,
    leakage,
    levels,
    seeming_radians,
    subject_column,
)
from ._fit_frames import frames_of
from ._fit_hints import beyond, richer_error, too_poor
from ._fit_report import (
    Tested,
    criteria,
    cut_down,
    errors_summary,
    errors_table,
    finish_fit,
    mean_of,
    noise_by_target,
    pose,
    pose_line,
    scaling,
)
from ._fit_suggest import suggest
from ._fit_task import Task, make_task, plain
from ._models import readable, writable
from ._progress import Progress

_AUTO = ("linear", "poly:2", "poly:3", "poly:4")
_AUTO_ALONE = (*_AUTO, "spline:8")
_POSES = 5


def run(arguments: argparse.Namespace) -> int:
    out = None if arguments.out is None else writable(arguments.out, ".json")
    figure = (
        None if arguments.figure is None else writable(arguments.figure, ".png", option="--figure")
    )
    progress = Progress(quiet=arguments.quiet)
    if arguments.suggest is not None:
        return suggest(make_task(arguments), progress)
    if arguments.data is None:
        raise CommandError(
            "a table of measurements is needed: empbody fit DATA.csv ...; for poses to measure "
            "before there is one: --prior FILE --suggest N"
        )
    path = readable(arguments.data)
    task = make_task(arguments)
    labels = [arguments.subject or subject_column(task, path), arguments.trial]
    with progress.stage(f"reading {path.name}"):
        data = task.read(path, [c for c in labels if c is not None], where=True)
        test = None if arguments.test is None else task.read(readable(arguments.test))
    work = _population if arguments.subject is not None else _one
    if arguments.subject is not None and task.prior is not None:
        work = _each
    return work(task, data, test, progress, out, figure)


def _options(task: Task) -> dict[str, Any]:
    return {"input_names": plain(task.inputs), "target_names": plain(task.targets)}


def _one(
    task: Task,
    data: Observations,
    test: Observations | None,
    progress: Progress,
    out: pathlib.Path | None,
    figure: pathlib.Path | None,
) -> int:
    arguments, prior = task.arguments, task.prior
    used = np.ones(len(data.inputs), dtype=bool)
    if arguments.calibrate is not None:
        if arguments.calibrate >= len(used):
            raise CommandError(
                f"--calibrate {arguments.calibrate} of {len(used)} rows leaves none to test on"
            )
        used[:] = False
        used[choose_poses(data.inputs, arguments.calibrate, prior)] = True
    xs, ys = data.inputs[used], data.targets[used]
    groups = None
    if arguments.trial is not None:
        groups = np.asarray(data.labels[arguments.trial])[used]
    options = _options(task) | {
        "prior": prior,
        "loss": arguments.loss,
        "solver": arguments.solver,
        "restarts": arguments.restarts,
    }
    if arguments.smoothness is not None:
        options["smoothness"] = arguments.smoothness
    notes = _doubts(task, data)
    weigh, crowded = frames_of(task, xs)
    notes += crowded
    if weigh is not None:
        options["weights"] = weigh
    family = task.family
    if prior is not None:
        family = None
    elif family == "auto":
        with progress.stage("choosing a family"):
            family, note = _chosen(xs, ys, groups, options)
            notes.append(note)
        if family.startswith("spline") and xs.shape[1] > 1:
            notes.append(
                "OpenSim files cannot hold a spline of several inputs; for those, --rhythm poly:4"
            )
    aims = ys if arguments.orientation is None else Orientations(ys, arguments.orientation)
    if arguments.smoothness is None and _by_itself(task, family):
        options["smoothness"] = "auto"
    begin = time.perf_counter()
    with progress.counting("fitting") as count:
        whole: dict[str, Any] = options | {"weights": None if weigh is None else weigh(xs)}
        fit = fit_rhythm(xs, aims, family, progress=count, **whole)
    seconds = time.perf_counter() - begin
    notes += fit.report.notes
    shown = task.file.family if task.file is not None else str(family)
    notes += cut_down(task, shown, fit.rhythm, xs if prior is None else None)
    train = _errors(fit.rhythm, xs, ys, "fitted rows")
    notes += _poor(task, shown, data, np.zeros(len(data.inputs)), train if used.all() else None)
    if test is not None and prior is None:
        notes += beyond(plain(task.inputs), xs, test.inputs, shown)
    tested = _tested(task, fit, data, test, used, groups, family, options, progress)
    if figure is not None:
        _draw(figure, fit, data, None if used.all() else used, tested, shown)
    summary = errors_summary(task, train, tested) | {
        "family": shown,
        "parameters": fit.report.parameters,
        "effective_parameters": fit.report.effective,
        "smoothness": fit.report.smoothness,
        "coefficients": dict(zip(fit.labels, np.asarray(fit.coefficients).tolist(), strict=True)),
        "input_scaling_rad": scaling(task, fit.rhythm),
        "rows": int(used.sum()),
        "solver": fit.report.solver,
        "converged": fit.report.converged,
        **criteria(fit, len(task.targets)),
        "noise_deg": noise_by_target(task, fit.noise),
        "seconds": seconds,
        "notes": notes,
    }
    if arguments.calibrate is not None:
        summary["poses"] = _poses(task, data, np.flatnonzero(used))
    _write(task, out, fit, summary, data)
    lines = [
        f"{shown}: {fit.report.parameters} parameters, {int(used.sum())} rows, "
        f"{fit.report.solver}, {seconds:.2f} s",
        *errors_table(task, train, tested),
    ]
    if arguments.calibrate is not None:
        lines += ["poses fitted (deg):", *map(pose_line, summary["poses"])]
    return _end(task, progress, summary, lines, out, figure)


def _each(
    task: Task,
    data: Observations,
    test: Observations | None,
    progress: Progress,
    out: pathlib.Path | None,
    figure: pathlib.Path | None,
) -> int:
    """Every subject of a file on its own, with one prior."""
    arguments, prior = task.arguments, task.prior
    assert prior is not None
    if arguments.frames is not None:
        raise CommandError("--frames is for one subject: pick one with --where")
    if out is not None or figure is not None or test is not None:
        raise CommandError(
            "--subject with --prior compares subjects; for --out, --figure or --test pick one "
            f"with --where {arguments.subject}=WORD instead of --subject"
        )
    who, count = np.asarray(data.labels[arguments.subject]), arguments.calibrate or _POSES
    train, tested, poses, names = [], [], [], list(dict.fromkeys(who.tolist()))
    begin = time.perf_counter()
    with progress.stage(f"fitting {len(names)} subjects"):
        for name in names:
            rows = np.flatnonzero(who == name)
            if len(rows) <= count:
                raise CommandError(f"subject {name} has {len(rows)} rows, {count} are to be fitted")
            chosen = rows[choose_poses(data.inputs[rows], count, prior)]
            poses += _poses(task, data, chosen, subject=name)
            rest = np.setdiff1d(rows, chosen)
            xs, ys = data.inputs, data.targets
            fit = fit_rhythm(xs[chosen], ys[chosen], prior=prior, **_options(task))
            train.append(_errors(fit.rhythm, xs[chosen], ys[chosen], ""))
            tested.append(_errors(fit.rhythm, xs[rest], ys[rest], ""))
    how = f"rows not fitted, {count} poses of each subject fitted, mean over subjects"
    results = [mean_of(r, how) for r in (train, tested)]
    summary = errors_summary(task, *results) | {
        "family": task.family,
        "parameters": len(prior.mean),
        "subjects": {n: math.degrees(t.everything) for n, t in zip(names, tested, strict=True)},
        "subjects_in_prior": known_subjects(task, names),
        "poses": poses,
        "seconds": time.perf_counter() - begin,
        "notes": _doubts(task, data)
        + cut_down(task, task.family, prior.rhythm, None)
        + _poor(task, task.family, data, who, None),
    }
    lines = [f"{task.family}: {len(names)} subjects, each from {count} poses with the prior"]
    return _end(task, progress, summary, [*lines, *errors_table(task, *results)], None, None)


def _population(
    task: Task,
    data: Observations,
    test: Observations | None,
    progress: Progress,
    out: pathlib.Path | None,
    figure: pathlib.Path | None,
) -> int:
    arguments = task.arguments
    if arguments.orientation or arguments.loss != "square" or arguments.smoothness:
        raise CommandError("--orientation, --loss and --smoothness are for one subject")
    if arguments.frames is not None:
        raise CommandError("--frames is for one subject")
    if arguments.trial is not None:
        raise CommandError("--trial is for one subject; a population leaves out subjects")
    subjects = data.labels[arguments.subject]
    options, poses = _options(task), arguments.calibrate or _POSES
    family, notes = task.family, _doubts(task, data)
    if family == "auto":
        with progress.stage("choosing a family"):
            choice = choose_family(
                data.inputs, data.targets, _AUTO, subjects=subjects, poses=poses, options=options
            )
        family = choice.family
        notes.append(f"{family} chosen by the error for a new subject: {_scores(choice.scores)}")
    begin = time.perf_counter()
    with progress.stage("fitting"):
        count = len(set(subjects))
        fit = fit_population(
            data.inputs,
            data.targets,
            subjects,
            family,
            leave_one_out=poses if count > 3 else None,
            **options,
        )
    seconds = time.perf_counter() - begin
    notes += cut_down(task, family, fit.rhythm, data.inputs)
    if count <= 3:
        notes.append(f"{count} subjects are too few to leave one out")
    elif count < 8:
        notes.append(f"the spread over {count} subjects is known roughly at best")
    if not fit.converged:
        notes.append("the spread had not settled when its estimation stopped")
    rows = np.array([subjects.count(s) for s in fit.subjects], dtype=float)[:, None]
    rms = np.sqrt((rows * fit.rms**2).sum(axis=0) / rows.sum())
    train = Tested("every subject's own curve", rms, float(np.sqrt(np.mean(rms**2))))
    notes += _poor(task, family, data, subjects, train)
    tested = None
    left = fit.left_out
    if test is not None:
        tested = _errors(fit.rhythm, test.inputs, test.targets, f"mean rhythm on {arguments.test}")
    elif left is not None:
        how = f"new subject from {left.poses} poses with the others as prior, mean over subjects"
        tested = Tested(how, left.rms.mean(axis=0), left.mean)
    if figure is not None:
        _draw(figure, _mean_as_fit(fit, data), data, None, tested, f"population, {family}")
    summary = errors_summary(task, train, tested) | {
        "family": family,
        "parameters": int(fit.coefficients.shape[1]),
        "subjects": list(fit.subjects),
        "rows": fit.rows,
        "rounds": fit.rounds,
        "noise_deg": noise_by_target(task, fit.prior.noise),
        "seconds": seconds,
        "notes": notes,
    }
    if left is not None:
        each = np.degrees(np.sqrt((left.rms**2).mean(axis=1)))
        alone = np.degrees(np.sqrt((left.unmeasured**2).mean(axis=1)))
        summary["left_out"] = {
            "poses": left.poses,
            "rmse_deg": dict(zip(left.subjects, each.tolist(), strict=True)),
            "rmse_mean_rhythm_deg": dict(zip(left.subjects, alone.tolist(), strict=True)),
        }
    _write(task, out, fit, summary, data)
    lines = [
        f"{family}: {len(fit.subjects)} subjects, {fit.rows} rows, "
        f"{fit.coefficients.shape[1]} parameters each, {seconds:.2f} s",
        *errors_table(task, train, tested),
    ]
    if left is not None:
        alone = np.degrees(np.sqrt((left.unmeasured**2).mean(axis=1))).mean()
        lines.append(f"the population's mean alone: {alone:.2f} deg for a new subject")
    return _end(task, progress, summary, lines, out, figure)


def _by_itself(task: Task, family: str | None) -> bool:
    """Whether the smoothness is to be chosen where nothing was said of it."""
    return (family or "").startswith("spline") and task.arguments.orientation is None


def _chosen(xs: Any, ys: Any, groups: Any, options: dict[str, Any]) -> tuple[str, str]:
    folds = min(5, len(xs))
    choice = choose_family(xs, ys, _AUTO_ALONE, groups=groups, folds=folds, options=options)
    return choice.family, f"{choice.family} chosen by cross-validation: {_scores(choice.scores)}"


def _scores(scores: dict[str, float]) -> str:
    return ", ".join(
        f"{name} {np.degrees(score):.2f} deg" if np.isfinite(score) else f"{name} not possible"
        for name, score in scores.items()
    )


def _errors(rhythm: AbstractRhythm, xs: np.ndarray, ys: np.ndarray, how: str) -> Tested:
    miss = np.asarray(jax.vmap(rhythm)(jnp.asarray(xs, dtype=float))) - ys
    return Tested(how, np.sqrt(np.mean(miss**2, axis=0)), float(np.sqrt(np.mean(miss**2))))


def _tested(
    task: Task,
    fit: RhythmFit,
    data: Observations,
    test: Observations | None,
    used: np.ndarray,
    groups: Any,
    family: str | None,
    options: dict[str, Any],
    progress: Progress,
) -> Tested | None:
    """The error on rows that were not fitted."""
    if test is not None:
        return _errors(fit.rhythm, test.inputs, test.targets, f"rows of {task.arguments.test}")
    if not used.all():
        rest = ~used
        return _errors(fit.rhythm, data.inputs[rest], data.targets[rest], "rows not fitted")
    if task.arguments.orientation is not None:
        return None
    how = f"leaving out one {task.arguments.trial} after the other"
    if groups is None:
        if len(data.inputs) < 10:
            return None
        groups, how = blocks(len(data.inputs)), "cross-validation, leaving out stretches of rows"
    with progress.stage("cross-validation"):
        try:
            found = cross_validate(data.inputs, data.targets, family, groups=groups, **options)
        except ValueError:
            return None  # what is left does not determine the family
    return Tested(how, found.rms, found.rms_all)


def _draw(
    path: pathlib.Path,
    fit: RhythmFit,
    data: Observations,
    used: np.ndarray | None,
    tested: Tested | None,
    family: str,
) -> None:
    from ..viz import fitted_rhythm, save

    title = family
    if tested is not None:
        title += f": {math.degrees(tested.everything):.2f}° root mean square, {tested.how}"
    figure = fitted_rhythm(fit, data.inputs, data.targets, used=used, title=title)
    try:
        save(figure, path)
    except OSError as error:
        raise CommandError(f"cannot write to {path}: {error.strerror or error}", FAILURE) from error


def _mean_as_fit(fit: PopulationFit, data: Observations) -> RhythmFit:
    """The prior as a fit without any data: its band is where new subjects are."""
    rows = data.inputs[:1]
    return fit_rhythm(
        rows, data.targets[:1], prior=fit.prior, weights=1e-12 * np.ones(1),
        input_names=fit.input_names, target_names=fit.target_names,
    )  # fmt: skip


def _write(
    task: Task, out: pathlib.Path | None, fit: Any, summary: dict[str, Any], data: Observations
) -> None:
    if out is None:
        return
    kept = ("rmse_train_deg", "rmse_test_deg", "test", "rows", "subjects", "left_out")
    figures = {name: value for name, value in summary.items() if name in kept}
    if isinstance(fit, PopulationFit):
        groups = data.labels[task.arguments.subject]
        richer = richer_error(data.inputs, data.targets, groups, summary["family"])
        if richer is not None:
            left = {"family": summary["rmse_train_deg"]["all"], "richer": math.degrees(richer)}
            figures["rmse_all_poses_deg"] = left
    figures["levels"] = levels(plain(task.inputs), data.inputs)
    maps = {plain((k,))[0]: v for k, v in task.maps.items()}
    path = pathlib.Path(task.arguments.data)
    origin = {"data": path.name, "data_sha256": fingerprint(path), "command": "empbody fit"}
    if task.arguments.subject is not None:
        origin["subject_column"] = task.arguments.subject
    if task.file is not None:
        origin["prior"] = pathlib.Path(task.arguments.prior).name
    try:
        save_rhythm(fit, out, family=summary["family"], maps=maps, fit=figures, provenance=origin)
    except OSError as error:
        raise CommandError(f"cannot write to {out}: {error.strerror or error}", FAILURE) from error


def _poses(task: Task, data: Observations, rows: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    return [
        pose(task, data.inputs[i].tolist(), **more, row=int(i), line=data.lines[i]) for i in rows
    ]


def _doubts(task: Task, data: Observations) -> list[str]:
    """Notes on the table itself, and on whether the prior has seen it."""
    path = pathlib.Path(task.arguments.data)
    column = task.arguments.subject or subject_column(task, path)
    names = data.labels.get(column, ()) if column is not None else ()
    return seeming_radians(task, path, data) + leakage(task, path, names)


def _poor(
    task: Task, family: str, data: Observations, groups: Any, train: Tested | None
) -> list[str]:
    """A note where the family is too poor for these data, or was for those of the prior.

    `train` is the error where all rows were fitted; else only the prior's file can tell.
    """
    if train is not None:
        richer = richer_error(data.inputs, data.targets, groups, family)
        found = too_poor(family, train.everything, richer)
        if found or task.file is None:
            return found
    left = {} if task.file is None else task.file.fit.get("rmse_all_poses_deg", {})
    if not left:
        return []
    own, richer = (math.radians(left[name]) for name in ("family", "richer"))
    return too_poor(family, own, richer, prior=True)


def _end(
    task: Task,
    progress: Progress,
    summary: dict[str, Any],
    lines: list[str],
    out: pathlib.Path | None,
    figure: pathlib.Path | None,
) -> int:
    written = [p for p in (out, figure) if p is not None]
    whole = {"out": None if out is None else str(out)} | summary
    return finish_fit(task, progress, whole, lines, written)
