"""Which coordinates follow when loops are closed, and how.

Of the coordinates that a loop moves, as many become dependent as its constraints have
independent equations at the assembled default pose. First those that the file marks as
free to satisfy constraints, then all others, last those that drive something (inputs of
couplers, coordinates with an actuator) or that the caller asked to be free; within each
kind the later ones in the file first. So the first coordinate of a linkage stays.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ._build import tree
from ._expressions import Expression, Loop, apply, constant, coordinate, rhythm_of, substitute
from ._frames import FrameTable
from ._loop_range import implicit
from ._loops import LoopClosure, LoopErrors, errors_and_slopes
from ._report import Notes, refuse
from ._spec import ModelSpec
from ._ties import KINDS, Tie, read_tie

_MOST_INPUTS = 5
_ACTUATORS = ("CoordinateActuator", "SpringGeneralizedForce")


class Closed(NamedTuple):
    """What is left free when all loops are closed."""

    names: tuple[str, ...]
    values: dict[str, Expression]
    """Every coordinate of the file in terms of these."""
    defaults: dict[str, float]
    """Values of the free coordinates at which the loops were assembled."""
    ranges: dict[str, tuple[float, float]]
    """Of free coordinates beyond which a loop cannot be followed."""


def close_loops(
    spec: ModelSpec,
    frames: FrameTable,
    names: Sequence[str],
    values: Mapping[str, Expression],
    free: Collection[str],
    notes: Notes,
    skip: bool,
) -> Closed:
    """Close the loops that the file's constraints make, each with an implicit rhythm.

    **Raises:** `FileFormatError`, naming the constraint, where a loop cannot be assembled.
    """
    defaults = {name: spec.coordinates[name].default for name in names}
    known = [node for node in spec.constraints if node.tag in KINDS]
    for node in spec.constraints:
        if node.tag not in KINDS:
            refuse(notes, node, "this constraint is not supported", skip)
    if not known:
        return Closed(tuple(names), dict(values), defaults, {})
    carriers = tree(spec)
    ties = [read_tie(node, frames, carriers, values) for node in known]
    rank = _ranks(spec, free)
    followers: dict[str, Expression] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for group in _groups(ties):
        used = set().union(*(tie.inputs for tie in group))
        inputs = [name for name in names if name in used]
        found, reach = _close(spec, group, inputs, defaults, rank, notes)
        followers |= found
        ranges |= reach
    done: dict = {}
    closed = {name: substitute(value, followers, done) for name, value in values.items()}
    left = tuple(name for name in names if name not in followers)
    return Closed(left, closed, {name: defaults[name] for name in left}, ranges)


def _ranks(spec: ModelSpec, free: Collection[str]) -> dict[str, tuple[int, int]]:
    """The lowest is the first to become dependent."""
    drivers = {name for coupler in spec.couplers for name in coupler.independent}
    for force in spec.forces:
        if force.tag in _ACTUATORS:
            drivers.add(force.word("coordinate").rsplit("/", 1)[-1])
    rank = {}
    for position, (name, given) in enumerate(spec.coordinates.items()):
        if name in free:
            level = 3
        elif name in drivers:
            level = 2
        else:
            level = 0 if given.node.flag("is_free_to_satisfy_constraints", False) else 1
        rank[name] = (level, -position)
    return rank


def _groups(ties: Sequence[Tie]) -> list[list[Tie]]:
    """Ties that share coordinates must be met together."""
    groups: list[tuple[set[str], list[Tie]]] = []
    for tie in ties:
        inputs, members = set(tie.inputs), [tie]
        apart = []
        for group in groups:
            if group[0] & inputs:
                inputs |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (inputs, members)]
    return [members for _, members in groups]


def _close(
    spec: ModelSpec,
    group: list[Tie],
    inputs: list[str],
    defaults: dict[str, float],
    rank: Mapping[str, tuple[int, int]],
    notes: Notes,
) -> tuple[dict[str, Expression], dict[str, tuple[float, float]]]:
    """Dependent coordinates of one group of ties; `defaults` follow the assembly."""
    steps = list(itertools.chain.from_iterable(tie.steps for tie in group))
    errors = LoopErrors(
        rhythm_of(steps, inputs) if steps else None,
        tuple(tie.arms for tie in group),
        jnp.asarray([tie.distance for tie in group], dtype=float),
        tuple(tie.kind for tie in group),
    )
    start = np.asarray([defaults[name] for name in inputs])
    x = _assemble(errors, start, inputs, rank, group)
    slopes = errors_and_slopes(errors, x)[1]
    dependent = _dependent(slopes, inputs, rank)
    for name, before, after in zip(inputs, start, x, strict=True):
        if name not in dependent and abs(after - before) > 1e-9:
            notes.warn(
                f"the default of {name!r} is {after:.6g} instead of {before:.6g}, so that "
                f"{group[0].node.label} can be met"
            )
            defaults[name] = float(after)
    moving = _felt(errors, x, inputs)
    held = [n for n in inputs if n in moving and n not in dependent]
    words = "closes a loop: " + (
        f"{', '.join(dependent)} follow {', '.join(held) or 'nothing, they cannot move'}"
        if dependent
        else "it always holds"
    )
    for tie in group:
        notes.add("read", tie.node, words)
    at = dict(zip(inputs, x.tolist(), strict=True))
    if not held or not dependent:
        return {name: constant(at[name]) for name in dependent}, {}
    if len(held) > _MOST_INPUTS:
        group[0].node.unsupported(
            f"the loop of {group[0].node.label} moves with {len(held)} coordinates "
            f"({', '.join(held)}); at most {_MOST_INPUTS} are supported: lock some of them"
        )
    closure = LoopClosure(
        errors,
        jnp.asarray(_independent(slopes), dtype=float),
        jnp.asarray(x, dtype=float),
        tuple(inputs.index(name) for name in (*held, *dependent)),
    )
    rhythm, reach = implicit(
        closure,
        np.asarray([at[name] for name in held]),
        np.asarray([at[name] for name in dependent]),
        [spec.coordinates[name] for name in held],
        group,
        notes,
    )
    loop, arguments = Loop(rhythm), [coordinate(name) for name in held]
    found = {name: apply(loop.unknown(k), arguments) for k, name in enumerate(dependent)}
    return found, reach


def _tolerance() -> float:
    return float(jnp.finfo(jnp.zeros(()).dtype).eps)


def _assemble(
    errors: LoopErrors,
    start: np.ndarray,
    inputs: list[str],
    rank: Mapping[str, tuple[int, int]],
    group: list[Tie],
) -> np.ndarray:
    """A pose that meets all ties, the free coordinates at their defaults where possible."""
    if len(inputs) > 0:
        slopes = errors_and_slopes(errors, start)[1]
        some = [inputs.index(name) for name in _dependent(slopes, inputs, rank)]
        for columns in (some, list(range(len(inputs)))):
            x, left = _newton(errors, start, columns)
            if left is None:
                return x
    else:
        x, left = start, _misfit(np.asarray(errors(jnp.zeros(0)), dtype=np.float64))
        if left is None:
            return x
    place, entries = 0, left
    for tie in group:
        count = {"weld": 12, "point": 3, "distance": 1}[tie.kind]
        if np.argmax(entries) < place + count:
            tie.node.fail(
                f"{tie.node.label} cannot be met: it stays open by {np.max(entries):.2g} (m or "
                "rad) from the file's default pose; correct its locations, or give defaults "
                "near a pose that closes it"
            )
        place += count
    raise AssertionError("no tie holds the largest error")


def _misfit(g: np.ndarray, size: float = 1.0) -> np.ndarray | None:
    """Sizes of the errors, None where they are met."""
    g = np.abs(g)
    return None if np.all(g <= 1e4 * _tolerance() * size) else np.nan_to_num(g, nan=np.inf)


def _newton(
    errors: LoopErrors, start: np.ndarray, columns: list[int]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Damped Gauss-Newton steps of some coordinates, and the errors that stay, if any."""
    x = start.copy()
    g, by_x = errors_and_slopes(errors, x)
    for _ in range(100):
        if not (np.isfinite(g).all() and np.isfinite(by_x).all()) or not columns:
            break
        step = np.linalg.lstsq(by_x[:, columns], g, rcond=1e-9)[0]
        step /= max(1.0, float(np.max(np.abs(step))))
        fraction, size = 1.0, float(np.linalg.norm(g))
        while fraction > 1e-6:
            trial = x.copy()
            trial[columns] -= fraction * step
            new = errors_and_slopes(errors, trial)
            if np.linalg.norm(new[0]) < size * (1.0 - 1e-4 * fraction):
                break
            fraction /= 2.0
        else:
            break
        x, (g, by_x) = trial, new
    size = max(1.0, float(np.nan_to_num(np.max(np.abs(by_x), initial=0.0))))
    return x, _misfit(g, size)


def _independent(slopes: np.ndarray) -> np.ndarray:
    """Combinations of rows that are independent, orthonormal."""
    left, sizes, _ = np.linalg.svd(slopes, full_matrices=False)
    least = max(1e-8, 1e2 * _tolerance()) * max(float(sizes[0]), 1e-300) if len(sizes) else 0.0
    return left[:, sizes > least].T


def _dependent(
    slopes: np.ndarray, inputs: list[str], rank: Mapping[str, tuple[int, int]]
) -> list[str]:
    """As many coordinates as there are independent rows, by rank; in the file's order."""
    if not np.isfinite(slopes).all() or slopes.size == 0:
        return []
    rows = _independent(slopes) @ slopes
    order = sorted(range(len(inputs)), key=lambda i: rank[inputs[i]])
    basis = np.zeros((len(rows), 0))
    taken: list[int] = []
    # A column that is nearly a combination of others is taken only if need be.
    for least in (0.05, 1e-3, 1e-7):
        for i in order:
            if len(taken) == len(rows) or i in taken:
                continue
            column = rows[:, i]
            rest = column - basis @ (basis.T @ column)
            if np.linalg.norm(rest) > least * max(float(np.linalg.norm(column)), 1e-12):
                basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
                taken.append(i)
    return [inputs[i] for i in sorted(taken)]


def _felt(errors: LoopErrors, x: np.ndarray, inputs: list[str]) -> set[str]:
    """Coordinates that the errors depend on, as seen at random poses."""
    chance = np.random.default_rng(0)
    poses = [x, *(x + chance.uniform(-0.3, 0.3, x.shape) for _ in range(4))]
    slopes = [np.nan_to_num(np.abs(errors_and_slopes(errors, pose)[1])) for pose in poses]
    size = np.sum(slopes, axis=(0, 1))
    return {name for name, felt in zip(inputs, size, strict=True) if felt > 1e2 * _tolerance()}
