"""Which coordinates are free, and every coordinate of a file in terms of these."""

import difflib
from collections.abc import Collection, Mapping, Sequence

from ._expressions import Expression, constant, coordinate
from ._report import Notes, refuse
from ._spec import CouplerSpec, ModelSpec

_MOST_COUPLED = 500


def resolve_coordinates(
    spec: ModelSpec,
    lock: Mapping[str, float],
    free: Collection[str],
    notes: Notes,
    skip: bool,
) -> tuple[tuple[str, ...], dict[str, Expression]]:
    """Names of the free coordinates, and an expression of these for every coordinate.

    Couplers are substituted, couplers of coupled coordinates too. Locked coordinates are
    constants: at the value the caller gives, else at the file's default.
    """
    _check_names(spec, lock, free)
    couplers = _couplers(spec, lock, free, notes)
    known: dict[str, Expression] = {}
    names: list[str] = []
    for name, given in spec.coordinates.items():
        if name in couplers:
            if given.locked:
                notes.add("approximated", given.node, "locked and coupled: it follows its coupler")
            continue
        if name in lock:
            known[name] = constant(float(lock[name]))
        elif name in free:
            known[name] = coordinate(name)
            names.append(name)
        elif given.locked:
            known[name] = constant(given.default)
        elif given.prescribed is not None:
            value = given.prescribed.of([coordinate("time")])
            if not value.is_constant:
                refuse(notes, given.node, "is prescribed in time; lock or free it", skip)
                known[name] = coordinate(name)
                names.append(name)
            else:
                known[name] = value
        else:
            known[name] = coordinate(name)
            names.append(name)
    for name in couplers:
        _substitute(name, couplers, known)
    return tuple(names), {name: known[name] for name in spec.coordinates}


def _check_names(spec: ModelSpec, lock: Mapping[str, float], free: Collection[str]) -> None:
    for option, names in (("lock", lock), ("free", free)):
        for name in names:
            if name not in spec.coordinates:
                near = difflib.get_close_matches(name, list(spec.coordinates), n=3)
                near = near or list(spec.coordinates)[:8]
                raise ValueError(
                    f"{option}: {spec.file} has no coordinate {name!r}; did you mean one of {near}?"
                )
    both = [name for name in lock if name in free]
    if both:
        raise ValueError(f"the coordinate {both[0]!r} is in lock and in free")


def _couplers(
    spec: ModelSpec, lock: Mapping[str, float], free: Collection[str], notes: Notes
) -> dict[str, CouplerSpec]:
    """Couplers by dependent coordinate, without those of coordinates that the caller set."""
    found: dict[str, CouplerSpec] = {}
    for coupler in spec.couplers:
        name = coupler.dependent
        if name in lock or name in free:
            notes.add("ignored", coupler.node, f"{name!r} is locked or freed by the caller")
            continue
        if name in found:
            coupler.node.fail(
                f"the coordinate {name!r} depends on two couplers: {found[name].name!r} and "
                f"{coupler.name!r}"
            )
        found[name] = coupler
    return found


def _substitute(
    name: str, couplers: Mapping[str, CouplerSpec], known: dict[str, Expression]
) -> None:
    """Give `name`, and whatever it depends on, an expression."""
    trail: list[str] = [name]
    while trail:
        here = trail[-1]
        if here in known:
            trail.pop()
            continue
        coupler = couplers[here]
        missing = next((n for n in coupler.independent if n not in known), None)
        if missing is None:
            known[here] = coupler.function.of([known[n] for n in coupler.independent])
            trail.pop()
        elif missing in trail:
            loop = " -> ".join([*trail[trail.index(missing) :], missing])
            coupler.node.fail(f"couplers depend on each other in a circle: {loop}")
        elif len(trail) >= _MOST_COUPLED:
            coupler.node.fail(f"more than {_MOST_COUPLED} couplers depend on one another in a row")
        else:
            trail.append(missing)


def ranges_of(spec: ModelSpec, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Ranges that hold a number, by coordinate; an empty one is no range."""
    given = {name: spec.coordinates[name].range for name in names}
    return {name: (low, high) for name, (low, high) in given.items() if low < high}
