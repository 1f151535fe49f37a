"""`empbody fit`: a rhythm from measurements."""

import argparse
import math
import pathlib
import time
from typing import Any, NamedTuple

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
from ._fit_task import Task, add_fit_parser, make_task, plain
from ._models import finish, readable, writable
from ._progress import Progress

_AUTO = ("linear", "poly:2", "poly:3", "poly:4")
_POSES = 5


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    add_fit_parser(commands, common).set_defaults(command=run)


class _Tested(NamedTuple):
    how: str
    rms: np.ndarray
    """rad, of each target"""
    everything: float


def run(arguments: argparse.Namespace) -> int:
    out = None if arguments.out is None else writable(arguments.out, ".json")
    figure = None if arguments.figure is None else writable(arguments.figure, ".png")
    path = readable(arguments.data)
    task = make_task(arguments)
    progress = Progress(quiet=arguments.quiet)
    arguments.model = arguments.data  # what `finish` reports
    labels = [c for c in (arguments.subject, arguments.trial) if c is not None]
    with progress.stage(f"reading {path.name}"):
        data = task.read(path, labels)
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
        "smoothness": arguments.smoothness,
        "solver": arguments.solver,
        "restarts": arguments.restarts,
    }
    family, notes = task.family, []
    if prior is not None:
        family = None
    elif family == "auto":
        with progress.stage("choosing a family"):
            family, note = _chosen(xs, ys, groups, options)
            notes.append(note)
    aims = ys if arguments.orientation is None else Orientations(ys, arguments.orientation)
    begin = time.perf_counter()
    with progress.counting("fitting") as count:
        fit = fit_rhythm(xs, aims, family, progress=count, **options)
    seconds = time.perf_counter() - begin
    notes += fit.report.notes
    shown = task.file.family if task.file is not None else str(family)
    train = _errors(fit.rhythm, xs, ys, "fitted rows")
    tested = _tested(task, fit, data, test, used, groups, family, options, progress)
    if figure is not None:
        _draw(figure, fit, data, None if used.all() else used, tested, shown)
    summary = _summary(task, train, tested) | {
        "family": shown,
        "parameters": fit.report.parameters,
        "effective_parameters": fit.report.effective,
        "coefficients": dict(zip(fit.labels, np.asarray(fit.coefficients).tolist(), strict=True)),
        "rows": int(used.sum()),
        "solver": fit.report.solver,
        "converged": fit.report.converged,
        "aic": fit.report.aic,
        "bic": fit.report.bic,
        "noise_deg": np.degrees(fit.noise).tolist(),
        "seconds": seconds,
        "notes": notes,
    }
    if arguments.calibrate is not None:
        summary["poses"] = np.degrees(xs).tolist()
    _write(task, out, fit, summary)
    lines = [
        f"{shown}: {fit.report.parameters} parameters, {int(used.sum())} rows, "
        f"{fit.report.solver}, {seconds:.2f} s",
        *_table(task, train, tested),
    ]
    return _end(task, progress, summary, lines, notes, out, figure)


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
    if out is not None or figure is not None or test is not None:
        raise CommandError(
            "--subject with --prior compares subjects; for --out, --figure or --test pick one "
            f"with --where {arguments.subject}=WORD instead of --subject"
        )
    who, count = np.asarray(data.labels[arguments.subject]), arguments.calibrate or _POSES
    train, tested, names = [], [], list(dict.fromkeys(who.tolist()))
    begin = time.perf_counter()
    with progress.stage(f"fitting {len(names)} subjects"):
        for name in names:
            rows = np.flatnonzero(who == name)
            if len(rows) <= count:
                raise CommandError(f"subject {name} has {len(rows)} rows, {count} are to be fitted")
            chosen = rows[choose_poses(data.inputs[rows], count, prior)]
            rest = np.setdiff1d(rows, chosen)
            xs, ys = data.inputs, data.targets
            fit = fit_rhythm(xs[chosen], ys[chosen], prior=prior, **_options(task))
            train.append(_errors(fit.rhythm, xs[chosen], ys[chosen], ""))
            tested.append(_errors(fit.rhythm, xs[rest], ys[rest], ""))
    how = f"rows not fitted, {count} poses of each subject fitted, mean over subjects"
    results = [_mean(r, how) for r in (train, tested)]
    summary = _summary(task, *results) | {
        "family": task.family,
        "parameters": len(prior.mean),
        "subjects": {n: math.degrees(t.everything) for n, t in zip(names, tested, strict=True)},
        "seconds": time.perf_counter() - begin,
        "notes": [],
    }
    lines = [f"{task.family}: {len(names)} subjects, each from {count} poses with the prior"]
    return _end(task, progress, summary, [*lines, *_table(task, *results)], [], None, None)


def _mean(results: list[_Tested], how: str) -> _Tested:
    rms = np.mean([r.rms for r in results], axis=0)
    return _Tested(how, rms, float(np.mean([r.everything for r in results])))


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
    if arguments.trial is not None:
        raise CommandError("--trial is for one subject; a population leaves out subjects")
    subjects = data.labels[arguments.subject]
    options, poses = _options(task), arguments.calibrate or _POSES
    family, notes = task.family, []
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
    if count <= 3:
        notes.append(f"{count} subjects are too few to leave one out")
    elif count < 8:
        notes.append(f"the spread over {count} subjects is known roughly at best")
    if not fit.converged:
        notes.append("the spread had not settled when its estimation stopped")
    rows = np.array([subjects.count(s) for s in fit.subjects], dtype=float)[:, None]
    rms = np.sqrt((rows * fit.rms**2).sum(axis=0) / rows.sum())
    train = _Tested("every subject's own curve", rms, float(np.sqrt(np.mean(rms**2))))
    tested = None
    left = fit.left_out
    if test is not None:
        tested = _errors(fit.rhythm, test.inputs, test.targets, f"mean rhythm on {arguments.test}")
    elif left is not None:
        how = f"new subject from {left.poses} poses with the others as prior, mean over subjects"
        tested = _Tested(how, left.rms.mean(axis=0), left.mean)
    if figure is not None:
        _draw(figure, _mean_as_fit(fit, data), data, None, tested, f"population, {family}")
    summary = _summary(task, train, tested) | {
        "family": family,
        "parameters": int(fit.coefficients.shape[1]),
        "subjects": list(fit.subjects),
        "rows": fit.rows,
        "rounds": fit.rounds,
        "noise_deg": np.degrees(np.asarray(fit.prior.noise)).tolist(),
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
    _write(task, out, fit, summary)
    lines = [
        f"{family}: {len(fit.subjects)} subjects, {fit.rows} rows, "
        f"{fit.coefficients.shape[1]} parameters each, {seconds:.2f} s",
        *_table(task, train, tested),
    ]
    if left is not None:
        alone = np.degrees(np.sqrt((left.unmeasured**2).mean(axis=1))).mean()
        lines.append(f"the population's mean alone: {alone:.2f} deg for a new subject")
    return _end(task, progress, summary, lines, notes, out, figure)


def _chosen(xs: Any, ys: Any, groups: Any, options: dict[str, Any]) -> tuple[str, str]:
    folds = min(5, len(xs))
    choice = choose_family(xs, ys, _AUTO, groups=groups, folds=folds, options=options)
    return choice.family, f"{choice.family} chosen by cross-validation: {_scores(choice.scores)}"


def _scores(scores: dict[str, float]) -> str:
    return ", ".join(
        f"{name} {np.degrees(score):.2f} deg" if np.isfinite(score) else f"{name} not possible"
        for name, score in scores.items()
    )


def _errors(rhythm: AbstractRhythm, xs: np.ndarray, ys: np.ndarray, how: str) -> _Tested:
    miss = np.asarray(jax.vmap(rhythm)(jnp.asarray(xs, dtype=float))) - ys
    return _Tested(how, np.sqrt(np.mean(miss**2, axis=0)), float(np.sqrt(np.mean(miss**2))))


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
) -> _Tested | None:
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
    return _Tested(how, found.rms, found.rms_all)


def _summary(task: Task, train: _Tested, tested: _Tested | None) -> dict[str, Any]:
    def named(result: _Tested) -> dict[str, float]:
        each = dict(zip(task.targets, np.degrees(result.rms).tolist(), strict=True))
        return each | {"all": math.degrees(result.everything)}

    return {
        "inputs": list(task.inputs),
        "targets": list(task.targets),
        "rmse_train_deg": named(train),
        "rmse_test_deg": None if tested is None else named(tested),
        "test": None if tested is None else tested.how,
    }


def _table(task: Task, train: _Tested, tested: _Tested | None) -> list[str]:
    lines = [f"root mean square error (deg): {'target':<24}{'fitted':>8}{'test':>8}"]
    rows = [*zip(task.targets, train.rms, strict=True), ("all", train.everything)]
    tests = [None] * len(rows) if tested is None else [*tested.rms, tested.everything]
    for (name, x), t in zip(rows, tests, strict=True):
        shown = "" if t is None else f"{math.degrees(t):8.3f}"
        lines.append(f"{'':31}{name:<24}{math.degrees(x):8.3f}{shown}")
    if tested is not None:
        lines.append(f"test: {tested.how}")
    return lines


def _draw(
    path: pathlib.Path,
    fit: RhythmFit,
    data: Observations,
    used: np.ndarray | None,
    tested: _Tested | None,
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


def _write(task: Task, out: pathlib.Path | None, fit: Any, summary: dict[str, Any]) -> None:
    if out is None:
        return
    kept = ("rmse_train_deg", "rmse_test_deg", "test", "rows", "subjects", "left_out")
    figures = {name: value for name, value in summary.items() if name in kept}
    maps = {plain((k,))[0]: v for k, v in task.maps.items()}
    data = {"data": pathlib.Path(task.arguments.data).name, "command": "empbody fit"}
    if task.file is not None:
        data["prior"] = pathlib.Path(task.arguments.prior).name
    try:
        save_rhythm(fit, out, family=summary["family"], maps=maps, fit=figures, provenance=data)
    except OSError as error:
        raise CommandError(f"cannot write to {out}: {error.strerror or error}", FAILURE) from error


def _end(
    task: Task,
    progress: Progress,
    summary: dict[str, Any],
    lines: list[str],
    notes: list[str],
    out: pathlib.Path | None,
    figure: pathlib.Path | None,
) -> int:
    written = [str(p) for p in (out, figure) if p is not None]
    lines += [f"note: {note}" for note in notes]
    lines += [f"written: {', '.join(written)}"] if written else []
    whole = {"out": None if out is None else str(out)} | summary
    return finish(task.arguments, "fit", progress, whole, lines)
