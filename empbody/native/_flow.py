# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Loops and branches.

Where turns of an outer loop are taken side by side they may want to leave a loop at different
times, or to take different branches. Then a loop goes on until the last has left it, and those
that have left keep what they had; a branch is taken if any of them takes it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core
from llvmlite import ir

from ._memory import lent, root, same
from ._spread import CALLS, carried_by_scan, carried_by_while, plain, spread
from ._values import INDEX, SMALL, Element, Memory, Small, Unsupported, Value, size_of, type_of
from ._wide import any_of, is_wide, splat

_UNROLLED = 1
"""Loops of so many turns at most are written out."""


def differs(x: Value) -> bool:
    """Whether a value is not the same in all turns."""
    return bool(x.wide) if isinstance(x, Memory) else any(map(is_wide, x.elements))


def _kind(emitter: Any, dtype: Any, wide: bool) -> ir.Type:
    kind = type_of(dtype)
    return ir.VectorType(kind, emitter.lanes) if wide else kind


def typed(emitter: Any, x: Element, dtype: Any, wide: bool) -> ir.Value:
    value = emitter.value(x, dtype)
    return splat(emitter.builder, value, emitter.lanes) if wide else value


class _Carried:
    """What a loop carries: numbers come to its head from two places; memory stays where it is."""

    def __init__(self, emitter: Any, values: Sequence[Value], wide: Sequence[bool]) -> None:
        self.emitter = emitter
        before = emitter.builder.block
        starts = [
            None if isinstance(x, Memory) else [typed(emitter, y, x.dtype, own) for y in x.elements]
            for x, own in zip(values, wide, strict=True)
        ]
        self._values, self._wide, self._starts = values, wide, starts
        self._before = before

    def begin(self) -> None:
        """At the loop's head."""
        b, self.values, self._phis = self.emitter.builder, [], []
        for x, start in zip(self._values, self._starts, strict=True):
            if start is None:
                self.values.append(x)
                continue
            own = []
            for value in start:
                phi = b.phi(value.type)
                phi.add_incoming(value, self._before)
                own.append(phi)
            self._phis.append(own)
            self.values.append(Small(x.shape, x.dtype, own))

    def go_on(self, results: Sequence[Value], mask: ir.Value | None = None) -> list[Value]:
        """The end of the loop's body: what its next turn starts from. With a mask, only where
        that is set does anything change."""
        # Everything is read before anything is overwritten, and filling makes new blocks.
        emitter, b = self.emitter, self.emitter.builder
        numbers = []
        for old, new, wide in zip(self.values, results, self._wide, strict=True):
            if isinstance(old, Memory):
                continue
            row = []
            for before, y in zip(old.elements, emitter.small(new).elements, strict=True):
                value = typed(emitter, y, old.dtype, wide)
                changes = mask is not None and wide and value is not before
                row.append(b.select(mask, value, before) if changes else value)
            numbers.append(row)
        pairs = [(x, y) for x, y in zip(self.values, results, strict=True) if isinstance(x, Memory)]
        if mask is not None and not all(same(x, y) for x, y in pairs):
            raise Unsupported("memory that is changed in a loop which turns leave one by one")
        emitter.fill_all(pairs)
        for phis, row in zip(self._phis, numbers, strict=True):
            for phi, value in zip(phis, row, strict=True):
                phi.add_incoming(value, b.block)
        rest = iter(numbers)
        return [
            x if isinstance(x, Memory) else Small(x.shape, x.dtype, next(rest)) for x in self.values
        ]


def _buffers(emitter: Any, values: Sequence[Value], jaxpr: Any, first: int) -> list[Value]:
    """Memory of its own for what is in memory, and for what the body changes at places that
    are known only when the code runs."""
    out: list[Value] = []
    for x, var in zip(values, jaxpr.invars[first:], strict=False):
        if isinstance(x, Memory):
            out.append(x if x.mutable and x.owned else emitter.copied(x))
        else:
            out.append(emitter.copied(x) if len(x.elements) > 1 and _placed(jaxpr, var) else x)
    return out


def loop(emitter: Any, eqn: Any, operands: list[Value]) -> list[Value]:
    params, b = eqn.params, emitter.builder
    m, n = params["cond_nconsts"], params["body_nconsts"]
    cond, cond_consts = emitter.opened(params["cond_jaxpr"])
    body, body_consts = emitter.opened(params["body_jaxpr"])
    for_cond = [lent(x) for x in operands[:m]]
    for_body = [lent(x) for x in operands[m : m + n]]
    values = _buffers(emitter, operands[m + n :], body, n)
    given = [differs(x) for x in [*operands[: m + n], *values]]
    wide = carried_by_while(params, given) if emitter.lanes else [False] * len(values)
    carried = _Carried(emitter, values, wide)
    head, turn, after = (
        emitter.function.append_basic_block(name) for name in ("head", "turn", "after")
    )
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    carried.begin()
    outer, active = emitter.mask, None
    if emitter.lanes and spread(params["cond_jaxpr"], [*given[:m], *wide])[0]:
        # Nobody is asked who has left before.
        active = emitter.mask = b.phi(outer.type)
    (go_on,) = emitter.run(cond, cond_consts, [*for_cond, *map(lent, carried.values)])
    (go_on,) = emitter.small(go_on).elements
    emitter.mask = outer
    if active is None:
        b.cbranch(emitter.value(go_on, bool), turn, after)
        b.position_at_end(turn)
        results = emitter.run(body, body_consts, [*for_body, *carried.values])
        carried.go_on(results)
        b.branch(head)
        b.position_at_end(after)
        return carried.values
    now = b.and_(active, typed(emitter, go_on, bool, True))
    blocks = before, head, turn, after
    return _until_all_have_left(
        emitter, carried, wide, active, now, blocks, body, body_consts, for_body
    )


def _until_all_have_left(
    emitter: Any,
    carried: _Carried,
    wide: Sequence[bool],
    active: ir.Value,
    now: ir.Value,
    blocks: tuple,
    body: Any,
    consts: Sequence[Value],
    for_body: Sequence[Value],
) -> list[Value]:
    b, outer = emitter.builder, emitter.mask
    before, head, turn, after = blocks
    # What is the same in all turns goes on for those that have left, so theirs is kept apart.
    kept = {}
    for k, (x, own) in enumerate(zip(carried.values, wide, strict=True)):
        if isinstance(x, Small) and not own:
            kinds = [_kind(emitter, x.dtype, True)] * len(x.elements)
            kept[k] = [_phi_at_head(head, kind) for kind in kinds]
    # The builder counts a block's instructions, of which there are more now.
    b.position_at_end(b.block)
    b.cbranch(any_of(b, now), turn, after)
    b.position_at_end(turn)
    emitter.mask = now
    results = emitter.run(body, consts, [*for_body, *carried.values])
    emitter.mask = outer
    new = carried.go_on(results, now)
    active.add_incoming(outer, before)
    active.add_incoming(now, b.block)
    starts = ir.IRBuilder(before)
    starts.position_before(before.terminator)
    for k, phis in kept.items():
        for phi, x, y in zip(phis, carried.values[k].elements, new[k].elements, strict=True):
            start = next(value for value, block in x.incomings if block is before)
            phi.add_incoming(splat(starts, start, emitter.lanes), before)
            later = b.select(now, splat(b, y, emitter.lanes), phi)
            phi.add_incoming(later, b.block)
    b.branch(head)
    b.position_at_end(after)
    return [
        Small(x.shape, x.dtype, kept[k]) if k in kept else x for k, x in enumerate(carried.values)
    ]


def _phi_at_head(head: ir.Block, kind: ir.Type) -> ir.Value:
    """All of a block's phis come first."""
    b = ir.IRBuilder(head)
    b.position_at_start(head)
    return b.phi(kind)


def counted_loop(emitter: Any, eqn: Any, operands: list[Value]) -> list[Value]:
    params = eqn.params
    if params["reverse"]:
        raise Unsupported("scans backwards")
    n, k, length = params["num_consts"], params["num_carry"], params["length"]
    body, consts = emitter.opened(params["jaxpr"])
    fixed = [lent(x) for x in operands[:n]]
    rows = [emitter.spilled(x) for x in operands[n + k :]]
    outs = [emitter.room(v.aval.shape, v.aval.dtype, emitter.lanes) for v in eqn.outvars[k:]]
    values = _buffers(emitter, operands[n : n + k], body, n)

    def turn(position: Element, carried: list[Value]) -> list[Value]:
        here = [_row(emitter, x, position) for x in rows]
        results = emitter.run(body, consts, [*fixed, *carried, *here])
        for out, new in zip(outs, results[k:], strict=True):
            emitter.fill(_row_of(emitter, out, position), new)
        return results[:k]

    if length <= _UNROLLED:
        for position in range(length):
            values = [emitter.fresh(x) for x in turn(position, values)]
    else:
        wide = [False] * k
        if emitter.lanes:
            given = [differs(x) for x in [*operands[:n], *values, *rows]]
            wide = carried_by_scan(params, given)
        values = _counted(emitter, length, values, wide, turn)
    stacked = [emitter.small(x) if size_of(x.shape) <= SMALL else x for x in outs]
    return [*values, *stacked]


def _counted(
    emitter: Any, length: int, values: list[Value], wide: Sequence[bool], turn: Callable
) -> list[Value]:
    """A loop of known length, with at least one turn."""
    b = emitter.builder
    head, after = (emitter.function.append_basic_block(name) for name in ("scan", "scanned"))
    carried = _Carried(emitter, values, wide)
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    position = b.phi(INDEX)
    position.add_incoming(INDEX(0), before)
    carried.begin()
    results = carried.go_on(turn(position, carried.values))
    following = b.add(position, INDEX(1))
    position.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, INDEX(length)), head, after)
    b.position_at_end(after)
    return results


def _row(emitter: Any, memory: Memory, position: Element) -> Value:
    row = _row_of(emitter, memory, position)
    if memory.mutable or size_of(row.shape) <= SMALL:
        return emitter.small(row)
    return row


def _row_of(emitter: Any, memory: Memory, position: Element) -> Memory:
    first = Memory(
        (memory.shape[0],), memory.dtype, memory.pointer, memory.strides[:1], True,
        wide=memory.wide,
    )  # fmt: skip
    pointer = emitter.address(first, [position])
    return Memory(
        memory.shape[1:], memory.dtype, pointer, memory.strides[1:], memory.mutable,
        wide=memory.wide,
    )  # fmt: skip


def branches(emitter: Any, eqn: Any, operands: list[Value]) -> list[Value]:
    which, *arguments = operands
    ways = eqn.params["branches"]
    (which,) = emitter.small(which).elements
    if not isinstance(which, ir.Value):
        chosen = ways[min(max(int(which), 0), len(ways) - 1)]
        jaxpr, consts = emitter.opened(chosen)
        return [emitter.fresh(x) for x in emitter.run(jaxpr, consts, arguments)]
    if is_wide(which):
        return _any_branches(emitter, eqn, which, arguments)
    return _one_branch(emitter, eqn, which, arguments)


def _one_branch(emitter: Any, eqn: Any, which: ir.Value, arguments: list[Value]) -> list[Value]:
    b, ways = emitter.builder, eqn.params["branches"]
    names = ("first", "second", "third")
    blocks = [emitter.function.append_basic_block(names[min(k, 2)]) for k in range(len(ways))]
    after = emitter.function.append_basic_block("joined")
    if len(ways) == 2 and which.type.width == 1:
        b.cbranch(which, blocks[1], blocks[0])
    else:
        low = b.icmp_signed("<", which, ir.Constant(which.type, 0))
        which = b.select(low, ir.Constant(which.type, 0), which)
        switch = b.switch(which, blocks[-1])
        for k, block in enumerate(blocks[:-1]):
            switch.add_case(ir.Constant(which.type, k), block)
    ends: list[tuple[ir.Block, list[Value]]] = []
    outs = [var.aval for var in eqn.outvars]
    places: list[Memory | None] = [None] * len(outs)
    for block, branch in zip(blocks, ways, strict=True):
        b.position_at_end(block)
        jaxpr, consts = emitter.opened(branch)
        results = emitter.run(jaxpr, consts, arguments)
        first, to_fill = branch is ways[0], []
        for k, aval in enumerate(outs):
            own = results[k]
            mine = isinstance(own, Memory) and own.owned and root(own.pointer) is own.pointer
            if places[k] is None and (size_of(aval.shape) <= SMALL and not (mine and first)):
                results[k] = emitter.small(own)
                continue
            # What is in memory ends up in one place, whichever branch is taken.
            if places[k] is None:
                places[k] = own if mine else emitter.room(aval.shape, aval.dtype, emitter.lanes)
            to_fill.append((places[k], own))
        emitter.fill_all(to_fill)
        ends.append((b.block, results))
    joined: list[Value] = []
    columns: list[list[tuple]] = []
    for k in range(len(outs)):
        if places[k] is not None:
            columns.append([])
            continue
        columns.append(list(zip(*(results[k].elements for _, results in ends), strict=True)))
    # A number that differs in one branch does so after all of them.
    wide = [[any(map(is_wide, column)) for column in own] for own in columns]
    for number, (block, _) in enumerate(ends):
        b.position_at_end(block)
        for k, aval in enumerate(outs):
            columns[k] = [
                tuple(
                    splat(b, emitter.value(x, aval.dtype), emitter.lanes)
                    if w and way == number
                    else x
                    for way, x in enumerate(column)
                )
                for column, w in zip(columns[k], wide[k], strict=True)
            ]
        b.branch(after)
    b.position_at_end(after)
    for k, aval in enumerate(outs):
        place = places[k]
        if place is not None:
            joined.append(place)
            continue
        elements = []
        for column, w in zip(columns[k], wide[k], strict=True):
            known = not any(isinstance(x, ir.Value) for x in column)
            # Zeros of either sign are equal, but not the same.
            if known and len(set(map(repr, column))) == 1:
                elements.append(column[0])
                continue
            phi = b.phi(_kind(emitter, aval.dtype, w))
            for (block, _), x in zip(ends, column, strict=True):
                phi.add_incoming(emitter.value(x, aval.dtype), block)
            elements.append(phi)
        joined.append(Small(aval.shape, np.dtype(aval.dtype), elements))
    return joined


def _any_branches(emitter: Any, eqn: Any, which: ir.Value, arguments: list[Value]) -> list[Value]:
    """Each branch that any turn takes, one after the other."""
    b, ways, outer = emitter.builder, eqn.params["branches"], emitter.mask
    outs = [var.aval for var in eqn.outvars]
    arguments = [lent(x) for x in arguments]
    found: list[list[ir.Value]] | None = None
    for k, way in enumerate(ways):
        number = ir.Constant(which.type, k)
        if len(ways) == 2 and which.type.element.width == 1:
            here = which if k == 1 else b.not_(which)
        elif k == 0:
            here = b.icmp_signed("<=", which, number)
        elif k == len(ways) - 1:
            here = b.icmp_signed(">=", which, number)
        else:
            here = b.icmp_signed("==", which, number)
        here = b.and_(here, outer)
        jaxpr, consts = emitter.opened(way)
        before = b.block
        block, after = (emitter.function.append_basic_block(n) for n in ("some", "all"))
        skipped = found or [
            [ir.Constant(_kind(emitter, aval.dtype, True), 0)] * size_of(aval.shape)
            for aval in outs
        ]
        b.cbranch(any_of(b, here), block, after)
        b.position_at_end(block)
        emitter.mask = here
        results = emitter.run(jaxpr, consts, arguments)
        emitter.mask = outer
        chosen = []
        for aval, x, old in zip(outs, results, skipped, strict=True):
            new = [typed(emitter, y, aval.dtype, True) for y in emitter.small(x).elements]
            # The first to be written may be there where it is not wanted.
            row = [
                y if found is None else b.select(here, y, z) for y, z in zip(new, old, strict=True)
            ]
            chosen.append(row)
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        found = []
        for aval, new, old in zip(outs, chosen, skipped, strict=True):
            row = []
            for y, z in zip(new, old, strict=True):
                phi = b.phi(_kind(emitter, aval.dtype, True))
                phi.add_incoming(z, before)
                phi.add_incoming(y, end)
                row.append(phi)
            found.append(row)
    assert found is not None
    return [
        Small(aval.shape, np.dtype(aval.dtype), row) for aval, row in zip(outs, found, strict=True)
    ]


def _placed(jaxpr: Any, var: Any) -> bool:
    """Whether a jaxpr changes an array at indices that are not known."""
    return _used(jaxpr, var, "dynamic_update_slice", 2)


def looked_up(jaxpr: Any, var: Any) -> bool:
    """Whether it takes a part of it at indices that are not known."""
    return _used(jaxpr, var, "dynamic_slice", 1)


def _used(jaxpr: Any, var: Any, primitive: str, first: int) -> bool:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        somewhere = any(not isinstance(x, core.Literal) for x in eqn.invars[first:])
        if name == primitive and eqn.invars[0] is var and somewhere:
            return True
        for inner, arguments in _inner(eqn):
            for own, given in zip(inner.invars, arguments, strict=True):
                if given is var and _used(inner, own, primitive, first):
                    return True
    return False


def _inner(eqn: Any) -> list[tuple[Any, Sequence]]:
    """Jaxprs in an equation, with what they are given."""
    name, p = eqn.primitive.name, eqn.params
    if name in CALLS:
        return [(plain(p[CALLS[name]]), eqn.invars)]
    if name == "cond":
        return [(plain(branch), eqn.invars[1:]) for branch in p["branches"]]
    if name == "scan":
        return [(plain(p["jaxpr"]), eqn.invars)]
    if name == "while":
        return [(plain(p["body_jaxpr"]), eqn.invars[p["cond_nconsts"] :])]
    return []
