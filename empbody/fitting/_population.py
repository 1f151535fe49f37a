"""Many subjects at once: the mean rhythm, its spread, and what it is worth for a new one."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm, Named
from ._checks import as_table, as_weights, check_units, check_varies
from ._coefficients import Coefficients
from ._families import make_family
from ._features import Directions, directions, linearise
from ._fit import fit_rhythm
from ._mixed import Mixed, Sums, mixed_model, sums
from ._poses import most_telling
from ._prior import Prior

_FOLDS = 20
_LEAST = 3


class LeftOut(NamedTuple):
    """What the prior is worth: every subject in turn is new, and measured in few poses."""

    poses: int
    subjects: tuple[str, ...]
    rms: Float[np.ndarray, "s k"]
    """Root mean square error (rad) of each subject and target on poses not measured."""
    unmeasured: Float[np.ndarray, "s k"]
    """The same for the population's mean, without any pose of the subject."""

    @property
    def mean(self) -> float:
        """Mean over subjects of the root mean square over targets (rad)."""
        return float(np.sqrt((self.rms**2).mean(axis=1)).mean())


class PopulationFit(eqx.Module):
    """A population: `rhythm` is its mean, `prior` serves to fit the next subject."""

    rhythm: AbstractRhythm
    prior: Prior
    subjects: tuple[str, ...] = eqx.field(static=True)
    coefficients: Float[Array, "s p"]
    """Every subject's own, each helped by the others where its data are few."""
    rms: Float[np.ndarray, "s k"]
    """Root mean square residual (rad) of each subject and target."""
    left_out: LeftOut | None
    family: str = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    input_names: tuple[str, ...] | None = eqx.field(static=True)
    target_names: tuple[str, ...] | None = eqx.field(static=True)
    ranges: tuple[tuple[float, float], ...] = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    converged: bool = eqx.field(static=True)
    seconds: float = eqx.field(static=True)

    def subject(self, name: Any) -> AbstractRhythm:
        """The rhythm of one subject of the population."""
        if str(name) not in self.subjects:
            raise ValueError(f"no subject {name}; there are {', '.join(self.subjects)}")
        vector = self.coefficients[self.subjects.index(str(name))]
        return Coefficients(self.rhythm).rhythm(vector)


def fit_population(
    inputs: Any,
    targets: Any,
    subjects: Any,
    family: str | AbstractRhythm = "poly:3",
    *,
    input_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    weights: Any = None,
    leave_one_out: int | None = 5,
    units: bool = True,
    key: int = 0,
) -> PopulationFit:
    """Fit all subjects at once and learn how they differ.

    Rows of all subjects stand one below the other: `inputs` (n, nq) and `targets` (n, nj) in
    rad, `subjects` (n,) whose row it is. Coefficients are taken for normal over subjects;
    their mean, covariance and the noise are found by expectation-maximisation (see
    `fitting.mixed_model`). A family that is not linear in its coefficients is linearised at
    the fit to all rows.

    With `leave_one_out` = 5 every subject in turn is left out, measured in five poses that
    the prior of the others chooses, and predicted elsewhere: the honest figure for a new
    subject. None saves that time. Of more than 20 subjects, 20 are left out in turn.
    """
    begin = time.perf_counter()
    xs = as_table("inputs", inputs, input_names)
    ys = as_table("targets", targets, target_names)
    if units:
        check_units("input", xs, input_names)
        check_units("target", ys, target_names)
    check_varies(xs, input_names)
    who = np.asarray(subjects).astype(str)
    if who.shape != (len(xs),) or len(ys) != len(xs):
        raise ValueError(
            f"{len(xs)} rows of inputs, {len(ys)} of targets, {who.size} subjects; one each"
        )
    names, number = _subjects(who)
    w = as_weights(weights, len(ys), ys.shape[1], target_names)
    template, called = _template(xs, ys, number, family, key)
    if template.n_out is not None and template.n_out != ys.shape[1]:
        raise ValueError(f"{ys.shape[1]} columns of targets for a rhythm with {template.n_out}")
    base, slope = linearise(template, xs)
    basis = directions(template, xs)
    features = _features(slope, basis)
    data = _gather(features, ys - base, w, number, len(names))
    block, members = jnp.asarray(basis.block), jnp.asarray(basis.members)
    rough = jnp.asarray(basis.roughness, dtype=float)
    noise = jnp.asarray(np.maximum(0.2 * (ys - base).std(axis=0), 1e-6), dtype=float)
    everyone = jnp.ones(len(names), dtype=bool)
    found = mixed_model(data, members, block, everyone, noise, rough)
    ins = None if input_names is None else tuple(input_names)
    outs = None if target_names is None else tuple(target_names)
    prior = _prior(template, basis, found, ins, outs)
    codec = Coefficients(prior.rhythm)
    matrix = jnp.asarray(basis.matrix, dtype=float)
    coefficients = Coefficients(template).vector()[None, :] + found.subjects @ matrix.T
    left = None
    if leave_one_out is not None:
        left = _leave_one_out(data, basis, noise, features, ys - base, number, names, leave_one_out)
    low, high = xs.min(axis=0), xs.max(axis=0)
    return PopulationFit(
        rhythm=prior.rhythm,
        prior=prior,
        subjects=names,
        coefficients=coefficients,
        rms=_rms(features, basis, np.asarray(found.subjects), ys - base, number, len(names)),
        left_out=left,
        family=called,
        labels=codec.labels(ins, outs),
        input_names=ins,
        target_names=outs,
        ranges=tuple((float(a), float(b)) for a, b in zip(low, high, strict=True)),
        rows=len(xs),
        rounds=int(found.rounds),
        converged=bool(found.change <= 1e-3),
        seconds=time.perf_counter() - begin,
    )


def _subjects(who: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Names in order of appearance, and each row's number."""
    unique, first, inverse = np.unique(who, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    if len(unique) < _LEAST:
        raise ValueError(
            f"{len(unique)} subjects ({', '.join(unique)}); a spread needs at least {_LEAST}: fit "
            "one subject with fit_rhythm"
        )
    return tuple(str(name) for name in unique[order]), rank[inverse]


def _template(
    xs: np.ndarray, ys: np.ndarray, number: np.ndarray, family: Any, key: int
) -> tuple[AbstractRhythm, str]:
    """The rhythm at which the family is taken for linear in its coefficients."""
    rhythm, name = family, type(family).__name__
    if isinstance(family, str):
        rhythm, name = make_family(family, xs, ys, key=key), family
    codec = Coefficients(rhythm)
    if codec.linear:
        return codec.rhythm(jnp.zeros_like(codec.vector())), name
    counts = np.bincount(number)
    pooled = fit_rhythm(
        xs, ys, rhythm, weights=1.0 / counts[number], tolerance=1e-6, steps=100, units=False
    )
    return pooled.rhythm, name


def _features(slope: Float[np.ndarray, "n k p"], basis: Directions) -> Float[np.ndarray, "n k e"]:
    """Features of every target in its own directions."""
    parts = [slope[:, k] @ basis.matrix[:, index] for k, index in enumerate(basis.members)]
    return np.stack(parts, axis=1)


def _gather(
    features: np.ndarray, values: np.ndarray, weights: np.ndarray, number: np.ndarray, count: int
) -> Sums:
    """Sums of every subject; rows are padded to the longest with weight zero."""
    lengths = np.bincount(number, minlength=count)
    order = np.argsort(number, kind="stable")
    place = np.arange(len(number)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row, most = number[order], int(lengths.max())

    def padded(array: np.ndarray) -> Array:
        out = np.zeros((count, most, *array.shape[1:]))
        out[row, place] = array[order]
        return jnp.asarray(out, dtype=float)

    return sums(padded(features), padded(values), padded(weights))


def _prior(
    template: AbstractRhythm,
    basis: Directions,
    found: Mixed,
    ins: tuple[str, ...] | None,
    outs: tuple[str, ...] | None,
) -> Prior:
    codec = Coefficients(template)
    matrix = jnp.asarray(basis.matrix, dtype=float)
    rhythm = codec.rhythm(codec.vector() + matrix @ found.mean)
    if ins and outs and not isinstance(rhythm, Named):
        rhythm = Named(rhythm, ins, outs)
    covariance = matrix @ found.covariance @ matrix.T
    return Prior(rhythm, 0.5 * (covariance + covariance.T), found.noise)


def _rms(
    features: np.ndarray,
    basis: Directions,
    z: np.ndarray,
    values: np.ndarray,
    number: np.ndarray,
    count: int,
) -> Float[np.ndarray, "s k"]:
    out = np.zeros((count, values.shape[1]))
    lengths = np.bincount(number, minlength=count)
    for k, index in enumerate(basis.members):
        miss = np.einsum("ne,ne->n", features[:, k], z[number][:, index]) - values[:, k]
        out[:, k] = np.sqrt(np.bincount(number, miss**2, minlength=count) / lengths)
    return out


def _leave_one_out(
    data: Sums,
    basis: Directions,
    noise: Float[Array, " k"],
    features: np.ndarray,
    values: np.ndarray,
    number: np.ndarray,
    names: tuple[str, ...],
    poses: int,
) -> LeftOut:
    count = len(names)
    if count <= _LEAST:
        raise ValueError(f"{count} subjects; leaving one out needs at least {_LEAST + 1}")
    left = np.unique(np.linspace(0, count - 1, min(count, _FOLDS)).astype(int))
    block, members = jnp.asarray(basis.block), jnp.asarray(basis.members)
    rough = jnp.asarray(basis.roughness, dtype=float)
    used = np.ones((len(left), count), dtype=bool)
    used[np.arange(len(left)), left] = False
    folds = eqx.filter_vmap(lambda u: mixed_model(data, members, block, u, noise, rough))(
        jnp.asarray(used)
    )
    folds = jax.tree.map(np.asarray, folds)
    size = basis.matrix.shape[1]
    rms, alone = [], []
    for fold, subject in enumerate(left):
        rows = np.flatnonzero(number == subject)
        if len(rows) <= poses:
            raise ValueError(
                f"subject {names[subject]} has {len(rows)} rows; leaving it out needs more than "
                f"the {poses} poses that are measured"
            )
        whole = np.zeros((len(rows), values.shape[1], size))
        for k, index in enumerate(basis.members):
            whole[:, k, index] = features[rows, k]
        mean, scatter = folds.mean[fold], folds.noise[fold]
        # The prior's mean curve, and what varies about it with unit normal weights.
        known, reach = whole @ mean, whole @ np.linalg.cholesky(folds.covariance[fold])
        chosen = most_telling(reach, scatter, poses)
        part = (reach[chosen] / scatter[None, :, None]).reshape(-1, size)
        aim = ((values[rows][chosen] - known[chosen]) / scatter[None, :]).ravel()
        z = part.T @ np.linalg.solve(part @ part.T + np.eye(len(part)), aim)
        rest = np.setdiff1d(np.arange(len(rows)), chosen)
        miss = (known + reach @ z - values[rows])[rest]
        rms.append(np.sqrt((miss**2).mean(axis=0)))
        alone.append(np.sqrt(((known - values[rows])[rest] ** 2).mean(axis=0)))
    return LeftOut(poses, tuple(names[i] for i in left), np.array(rms), np.array(alone))
