# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Loops whose turns are taken several at a time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core
from llvmlite import ir

from ._flow import looked_up, typed
from ._memory import Run, lent, same
from ._side_by_side import REFILLED
from ._values import Memory, Small, Unsupported, Value, type_of
from ._wide import any_of, counted, splat, width


class _Loop(NamedTuple):
    """What a loop over turns is given."""

    body: Any
    consts: Sequence[Value]
    for_body: Sequence[Value]
    limit: ir.Value
    most: int | None
    """Turns at most, if that is known."""
    tables: Sequence[Memory]
    dtype: Any


def loop_side_by_side(
    emitter: Any, jaxpr: Any, consts: Sequence[Value], operands: list[Value], name: str
) -> list[Value]:
    (eqn,) = jaxpr.eqns
    params = eqn.params
    m, n = params["cond_nconsts"], params["body_nconsts"]
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands], strict=True))

    def read(atom: Any) -> Value:
        if isinstance(atom, core.Literal):
            return Small.of(np.asarray(atom.val, atom.aval.dtype))
        return known[atom]

    given = [read(atom) for atom in eqn.invars]
    body, body_consts = emitter.opened(params["body_jaxpr"])
    for_body = [_indexable(emitter, lent(x), body, k) for k, x in enumerate(given[m : m + n])]
    # The first number that is carried is the loop's own; it ends at the condition's constant.
    (limit,) = emitter.small(given[0]).elements
    tables = [
        x if isinstance(x, Memory) and x.mutable and x.owned else emitter.copied(x)
        for x in given[m + n + 1 :]
    ]
    dtype = eqn.outvars[0].aval.dtype
    most = emitter.limit(limit)
    whole = _Loop(body, body_consts, for_body, emitter.value(limit, dtype), most, tables, dtype)
    if name.startswith(REFILLED):
        _refilled(emitter, whole, int(name.rpartition("_")[2]) / 100)
    else:
        _together(emitter, whole)
    found = dict(zip(eqn.outvars[1:], tables, strict=True))
    found.update(known)
    return [found[var] for var in jaxpr.outvars]


def _indexable(emitter: Any, x: Value, body: Any, k: int) -> Value:
    """In memory before the loop rather than in every turn, if its turns look for a part."""
    if isinstance(x, Memory) or len(x.elements) == 1 or x.known:
        return x
    return emitter.spilled(x) if looked_up(body, body.invars[k]) else x


def _check(loop: _Loop, results: Sequence[Value]) -> None:
    for table, new in zip(loop.tables, results, strict=True):
        if not same(table, new):
            raise Unsupported("a table that is not changed in place")


def _together(emitter: Any, loop: _Loop) -> None:
    """As many turns at a time as a vector has elements."""
    b, lanes, kind = emitter.builder, width(), type_of(loop.dtype)
    head, turn, after = (
        emitter.function.append_basic_block(name) for name in ("several", "turns", "done")
    )
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    first = b.phi(kind)
    first.add_incoming(ir.Constant(kind, 0), before)
    b.cbranch(b.icmp_signed("<", first, loop.limit), turn, after)
    b.position_at_end(turn)
    numbers = counted(b, first, lanes)
    emitter.lanes = lanes
    emitter.mask = b.icmp_signed("<", numbers, splat(b, loop.limit, lanes))
    emitter.add_run(Run(numbers, first, 0, loop.limit, loop.most))
    own = Small((), loop.dtype, [numbers])
    found = emitter.run(loop.body, loop.consts, [*loop.for_body, own, *loop.tables])
    _check(loop, found[1:])
    emitter.lanes, emitter.mask = 0, None
    first.add_incoming(b.add(first, ir.Constant(kind, lanes)), b.block)
    b.branch(head)
    b.position_at_end(after)


class _Piece(NamedTuple):
    """Some of a jaxpr's equations, as a jaxpr."""

    constvars: Sequence[Any]
    invars: Sequence[Any]
    eqns: Sequence[Any]
    outvars: Sequence[Any]


class _Parts:
    """The body of a turn that is a loop itself: what comes before it, the loop, what comes
    after."""

    def __init__(self, emitter: Any, loop: _Loop) -> None:
        self.emitter, self.loop = emitter, loop
        eqns = loop.body.eqns
        (at,) = [k for k, eqn in enumerate(eqns) if eqn.primitive.name == "while"]
        self._before, self.eqn, self._after = eqns[:at], eqns[at], eqns[at + 1 :]
        self._given = dict(zip(loop.body.constvars, loop.consts, strict=True))
        n = len(loop.for_body)
        self._given.update(zip(loop.body.invars[:n], loop.for_body, strict=True))
        self._number, *self._tables = loop.body.invars[n:]
        self._given.update(zip(self._tables, loop.tables, strict=True))
        p = self.eqn.params
        self._m, self._n = p["cond_nconsts"], p["body_nconsts"]
        self._cond, self._cond_consts = emitter.opened(p["cond_jaxpr"])
        self._body, self._body_consts = emitter.opened(p["body_jaxpr"])
        # What the loop or what comes after it needs beside what the loop carries.
        later = [*self.eqn.invars[: self._m + self._n], *(x for e in self._after for x in e.invars)]
        made = {var for eqn in self._before for var in eqn.outvars} | {self._number}
        self.kept = [x for x in dict.fromkeys(_variables(later)) if x in made]
        self.kept = [x for x in self.kept if x is not self._number]
        self.carried = [var.aval for var in self.eqn.outvars]

    @property
    def avals(self) -> list[Any]:
        return [*self.carried, *(x.aval for x in self.kept)]

    def _read(self, known: dict, atom: Any) -> Value:
        if isinstance(atom, core.Literal):
            return Small.of(np.asarray(atom.val, atom.aval.dtype))
        return known[atom]

    def _run(self, known: dict, eqns: Sequence[Any], results: Sequence[Any]) -> list[Value]:
        return self.emitter.run(_Piece([], list(known), eqns, results), [], list(known.values()))

    def _known(self, item: ir.Value) -> dict:
        known = {var: lent(x) for var, x in self._given.items()}
        known[self._number] = Small((), self.loop.dtype, [item])
        return known

    def start(self, item: ir.Value) -> list[Value]:
        """What the loop starts from, and what is kept."""
        results = [*self.eqn.invars[self._m + self._n :], *self.kept]
        return self._run(self._known(item), self._before, results)

    def _constants(self, state: Sequence[Value], item: ir.Value) -> list[Value]:
        known = self._known(item)
        known.update(zip(self.kept, state[len(self.carried) :], strict=True))
        return [self._read(known, x) for x in self.eqn.invars[: self._m + self._n]]

    def go_on(self, state: Sequence[Value], item: ir.Value) -> ir.Value:
        given = [*self._constants(state, item)[: self._m], *state[: len(self.carried)]]
        (found,) = self.emitter.run(self._cond, self._cond_consts, given)
        (found,) = self.emitter.small(found).elements
        return typed(self.emitter, found, bool, True)

    def step(self, state: Sequence[Value], item: ir.Value) -> list[Value]:
        given = [*self._constants(state, item)[self._m :], *state[: len(self.carried)]]
        found = self.emitter.run(self._body, self._body_consts, given)
        return [*found, *state[len(self.carried) :]]

    def end(self, state: Sequence[Value], item: ir.Value) -> None:
        known = self._known(item)
        known.update(zip(self._tables, self.loop.tables, strict=True))
        known.update(zip(self.eqn.outvars, state, strict=False))
        known.update(zip(self.kept, state[len(self.carried) :], strict=True))
        _check(self.loop, self._run(known, self._after, self.loop.body.outvars[1:]))


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [x for x in atoms if not isinstance(x, core.Literal)]


def _refilled(emitter: Any, loop: _Loop, part: float) -> None:
    """Each element of a vector goes on to the next turn when its own is done, and a part of
    all is."""
    b, lanes, kind = emitter.builder, width(), type_of(loop.dtype)
    parts = _Parts(emitter, loop)
    wide = ir.VectorType(kind, lanes)
    mask_kind, bits = ir.VectorType(ir.IntType(1), lanes), ir.IntType(lanes)
    head, refill, flush, flushed, start, step, after = (
        emitter.function.append_basic_block(name)
        for name in ("refilled", "refill", "flush", "flushed", "start", "step", "done")
    )
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    following, item = b.phi(kind), b.phi(wide)
    held, active = b.phi(mask_kind), b.phi(mask_kind)
    state = [
        Small(
            aval.shape,
            np.dtype(aval.dtype),
            [b.phi(ir.VectorType(type_of(aval.dtype), lanes)) for _ in range(aval.size)],
        )
        for aval in parts.avals
    ]
    phis = [phi for x in state for phi in x.elements]
    for phi in [following, item, held, active, *phis]:
        phi.add_incoming(ir.Constant(phi.type, 0), before)

    def back(block: ir.Block, *values: Any) -> None:
        *first, new = values
        for phi, value in zip([following, item, held, active], first, strict=True):
            phi.add_incoming(value, block)
        for phi, value in zip(phis, [y for x in new for y in x.elements], strict=True):
            phi.add_incoming(value, block)

    def chosen(mask: ir.Value, new: Sequence[Value]) -> list[Small]:
        out = []
        for x, y in zip(state, new, strict=True):
            values = [typed(emitter, z, x.dtype, True) for z in emitter.small(y).elements]
            pairs = zip(values, x.elements, strict=True)
            out.append(
                Small(x.shape, x.dtype, [v if v is o else b.select(mask, v, o) for v, o in pairs])
            )
        return out

    running = b.bitcast(active, bits)
    idle = b.sub(ir.Constant(bits, lanes), _population(emitter, running))
    enough = b.icmp_unsigned(">=", idle, ir.Constant(bits, max(1, round(part * lanes))))
    more = b.icmp_signed("<", following, loop.limit)
    nobody = b.icmp_unsigned("==", running, ir.Constant(bits, 0))
    b.cbranch(b.or_(nobody, b.and_(more, enough)), refill, step)

    b.position_at_end(refill)
    done = b.and_(held, b.not_(active))
    b.cbranch(any_of(b, done), flush, flushed)
    b.position_at_end(flush)
    emitter.lanes, emitter.mask = lanes, done
    parts.end(state, item)
    b.branch(flushed)
    b.position_at_end(flushed)
    free = b.not_(active)
    fresh_item = b.select(
        free, b.add(splat(b, following, lanes), _ranks(emitter, free, wide)), item
    )
    fresh = b.and_(free, b.icmp_signed("<", fresh_item, splat(b, loop.limit, lanes)))
    count = _population(emitter, b.bitcast(free, bits))
    count = b.zext(count, kind) if kind.width > lanes else b.trunc(count, kind)
    new_following = b.add(following, count)
    new_held = b.or_(active, fresh)
    b.cbranch(any_of(b, new_held), start, after)
    b.position_at_end(start)
    emitter.mask = fresh
    begun = chosen(fresh, parts.start(fresh_item))
    emitter.mask = new_held
    going = b.and_(new_held, parts.go_on(begun, fresh_item))
    going = b.and_(going, b.or_(active, fresh))
    back(b.block, new_following, fresh_item, new_held, going, begun)
    b.branch(head)

    b.position_at_end(step)
    emitter.mask = active
    moved = chosen(active, parts.step(state, item))
    going = b.and_(active, parts.go_on(moved, item))
    back(b.block, following, item, held, going, moved)
    b.branch(head)
    b.position_at_end(after)
    emitter.lanes, emitter.mask = 0, None


def _population(emitter: Any, bits: ir.Value) -> ir.Value:
    """How many bits are set."""
    return emitter.call("llvm.ctpop", [bits])


def _ranks(emitter: Any, mask: ir.Value, wide: ir.Type) -> ir.Value:
    """How many are set before each element."""
    b, lanes = emitter.builder, wide.count
    kind = wide.element
    bits = b.bitcast(mask, ir.IntType(lanes))
    bits = b.zext(bits, kind) if kind.width > lanes else bits
    lower = ir.Constant(wide, [ir.Constant(kind, (1 << k) - 1) for k in range(lanes)])
    return emitter.call("llvm.ctpop", [b.and_(splat(b, bits, lanes), lower)])
