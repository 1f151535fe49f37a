# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""A jaxpr as machine code for one sample at a time.

XLA runs a function as a chain of kernels, one for each group of array operations. Where arrays
are tiny and loops and branches many, starting kernels is nearly all that it does. Here every
small array is a handful of numbers in registers, loops are loops and branches are branches.
Larger arrays (inputs and tables of results) stay in memory.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core
from llvmlite import ir

from ._elementwise import elementwise
from ._structure import structural
from ._values import (
    INDEX,
    SMALL,
    Element,
    Memory,
    Small,
    Unsupported,
    c_strides,
    opaque,
    size_of,
    stored_type,
    type_of,
)

Value = Small | Memory

_FETCHED = 4
"""The same for arguments, which are mostly indexed."""
_STACK = 2**18
"""Bytes that a sample may take of a thread's stack."""
_UNROLLED = 1
"""Loops of so many turns at most are written out."""
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}


class Emitter:
    """Writes one function."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.module, self.function = module, function
        self._taken = 0
        self._stack = ir.IRBuilder(function.append_basic_block("stack"))
        self._start = function.append_basic_block("start")
        self.builder = ir.IRBuilder(self._start)

    def finish(self) -> None:
        self.builder.ret_void()
        self._stack.branch(self._start)

    # Numbers

    def value(self, x: Element, dtype: Any) -> ir.Value:
        if isinstance(x, ir.Value):
            return x
        kind = type_of(dtype)
        number = float(x) if np.issubdtype(dtype, np.floating) else int(x)
        return ir.Constant(kind, number)

    def index(self, x: Element, dtype: Any = np.int64) -> ir.Value:
        found = self.value(x, dtype)
        if found.type.width == INDEX.width:
            return found
        unsigned = np.dtype(dtype).kind in "ub"
        return (self.builder.zext if unsigned else self.builder.sext)(found, INDEX)

    def call(self, name: str, values: list[ir.Value]) -> ir.Value:
        """An LLVM intrinsic."""
        kind = values[0].type
        return self.builder.call(self.module.declare_intrinsic(name, [kind]), values)

    def saturated(self, x: ir.Value, target: ir.Type, unsigned: bool) -> ir.Value:
        """A whole number from a float: nothing is 0, and what is too large is the largest."""
        kinds = f"i{target.width}.{x.type.intrinsic_name}"
        name = f"llvm.fpto{'ui' if unsigned else 'si'}.sat.{kinds}"
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(target, [x.type]), name)
        return self.builder.call(found, [x])

    def library(self, name: str, values: list[ir.Value]) -> ir.Value:
        """A function of the C library."""
        kind = values[0].type
        name = name if kind == ir.DoubleType() else name + "f"
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(kind, [kind] * len(values)), name)
            found.attributes.add("nounwind")
        return self.builder.call(found, values)

    # Memory

    def room(self, shape: tuple[int, ...], dtype: Any) -> Memory:
        """Memory on the stack."""
        kind = ir.ArrayType(stored_type(dtype), max(size_of(shape), 1))
        self._taken += np.dtype(dtype).itemsize * size_of(shape)
        if self._taken > _STACK:
            raise Unsupported(f"more than {_STACK} bytes of tables")
        pointer = opaque(self._stack.alloca(kind))
        pointer.align = 16
        return Memory(shape, np.dtype(dtype), pointer, c_strides(shape), True, True)

    def address(self, memory: Memory, indices: Sequence[Element]) -> ir.Value:
        known, rest = 0, []
        for index, stride in zip(indices, memory.strides, strict=True):
            if not isinstance(index, ir.Value) and not isinstance(stride, ir.Value):
                known += index * stride
            elif isinstance(stride, ir.Value) or stride != 1:
                rest.append(self.builder.mul(self.index(index), self.index(stride)))
            else:
                rest.append(index)
        total: Element = known
        for part in rest:
            at_zero = not isinstance(total, ir.Value) and total == 0
            total = part if at_zero else self.builder.add(self.index(total), part)
        return self.builder.gep(
            memory.pointer, [self.index(total)], source_etype=stored_type(memory.dtype)
        )

    def load(self, memory: Memory, indices: Sequence[Element]) -> ir.Value:
        found = self.builder.load(self.address(memory, indices), typ=stored_type(memory.dtype))
        if memory.dtype == bool:
            return self.builder.trunc(found, ir.IntType(1))
        return found

    def store(self, memory: Memory, indices: Sequence[Element], x: Element) -> None:
        value = self.value(x, memory.dtype)
        if memory.dtype == bool:
            value = self.builder.zext(value, ir.IntType(8))
        self.builder.store(value, self.address(memory, indices))

    def small(self, x: Value) -> Small:
        """The same array as numbers by themselves."""
        if isinstance(x, Small):
            return x
        if size_of(x.shape) > 8 * SMALL:
            raise Unsupported(f"arithmetic on a large array {x.shape}")
        return Small(x.shape, x.dtype, [self.load(x, i) for i in np.ndindex(*x.shape)])

    def spilled(self, x: Value) -> Memory:
        """The same array in memory, so that it can be indexed."""
        if isinstance(x, Memory):
            return x
        if x.known:
            return self.constant(x.numpy())
        memory = self.room(x.shape, x.dtype)
        self.fill(memory, x)
        memory.mutable = memory.owned = False
        return memory

    def fill(self, memory: Memory, x: Value) -> None:
        if isinstance(x, Small):
            for index, element in zip(np.ndindex(*x.shape), x.elements, strict=True):
                self.store(memory, index, element)
            return
        # Nested loops would need no divisions; a single one does not if strides are in step.
        (to, from_), count = (_in_step(y) for y in (memory, x)), size_of(x.shape)
        if to is None or from_ is None:
            self._fill_by_index(memory, x)
            return
        self.repeat(count, lambda k: self.store(to, [k], self.load(from_, [k])))

    def _fill_by_index(self, memory: Memory, x: Memory) -> None:
        def copy(position: ir.Value) -> None:
            indices = self._unravelled(position, x.shape)
            self.store(memory, indices, self.load(x, indices))

        self.repeat(size_of(x.shape), copy)

    def constant(self, array: np.ndarray) -> Memory:
        kind = stored_type(array.dtype)
        flat = array.reshape(-1)
        numbers = flat.astype(np.uint8) if array.dtype == bool else flat
        name = self.module.get_unique_name("table")
        data = ir.GlobalVariable(self.module, ir.ArrayType(kind, max(flat.size, 1)), name)
        data.initializer = ir.Constant(
            ir.ArrayType(kind, max(flat.size, 1)),
            [ir.Constant(kind, x) for x in (numbers.tolist() or [0])],
        )
        data.global_constant, data.linkage = True, "internal"
        return Memory(array.shape, array.dtype, opaque(data), c_strides(array.shape), False)

    def repeat(self, count: int, body: Callable[[ir.Value], None]) -> None:
        """A loop over numbers from zero."""
        if count == 0:
            return
        b = self.builder
        before = b.block
        loop, after = (self.function.append_basic_block(name) for name in ("copy", "copied"))
        b.branch(loop)
        b.position_at_end(loop)
        position = b.phi(INDEX)
        position.add_incoming(INDEX(0), before)
        body(position)
        following = b.add(position, INDEX(1))
        position.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, INDEX(count)), loop, after)
        b.position_at_end(after)

    def _unravelled(self, position: ir.Value, shape: tuple[int, ...]) -> list[Element]:
        out: list[Element] = []
        for n, stride in zip(shape, c_strides(shape), strict=True):
            x = position if stride == 1 else self.builder.udiv(position, INDEX(stride))
            out.append(self.builder.urem(x, INDEX(n)))
        return out

    # Jaxprs

    def run(self, jaxpr: Any, consts: Sequence[Value], arguments: Sequence[Value]) -> list[Value]:
        """The results of a jaxpr."""
        known: dict[Any, Value] = {}
        known.update(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))
        last = _last_uses(jaxpr)

        def read(atom: Any, now: int) -> Value:
            if isinstance(atom, core.Literal):
                return Small.of(np.asarray(atom.val, atom.aval.dtype))
            value = known[atom]
            if isinstance(value, Memory) and value.owned and last[atom] > now:
                return _lent(value)
            return value

        for now, eqn in enumerate(jaxpr.eqns):
            operands = [read(atom, now) for atom in eqn.invars]
            # Twice in one equation: nobody's own.
            names = [id(atom) for atom in eqn.invars]
            operands = [
                x if names.count(name) == 1 else _lent(x)
                for x, name in zip(operands, names, strict=True)
            ]
            for var, value in zip(eqn.outvars, self.equation(eqn, operands), strict=True):
                known[var] = value
        end = len(jaxpr.eqns)
        return [read(atom, end) for atom in jaxpr.outvars]

    def equation(self, eqn: Any, operands: list[Value]) -> Sequence[Value]:
        name = eqn.primitive.name
        if name in _CALLS:
            inner = eqn.params[_CALLS[name]]
            inner, consts = _opened(self, inner)
            return [self._fresh(x) for x in self.run(inner, consts, operands)]
        if name == "while":
            return self._while(eqn, operands)
        if name == "scan":
            return self._scan(eqn, operands)
        if name == "cond":
            return self._cond(eqn, operands)
        if name == "optimization_barrier":
            return [self._fresh(x) for x in operands]
        found = structural(self, eqn, operands)
        if found is not None:
            return found
        one = elementwise(self, eqn, [self.small(x) for x in operands])
        if one is None:
            raise Unsupported(f"primitive {name}")
        return [one]

    def _fresh(self, x: Value) -> Value:
        """Results must not be other names of memory that is somebody else's."""
        if isinstance(x, Memory) and x.mutable and not x.owned:
            return self.copied(x)
        return x

    def fetched(self, x: Memory) -> Value:
        """A copy that is not going to change."""
        if size_of(x.shape) <= _FETCHED:
            return self.small(x)
        new = self.copied(x)
        new.mutable = new.owned = False
        return new

    def copied(self, x: Value) -> Memory:
        new = self.room(x.shape, x.dtype)
        self.fill(new, x)
        return new

    # Loops and branches

    def _buffers(self, values: Sequence[Value], jaxpr: Any, first: int) -> list[Value]:
        """What a loop carries: memory of its own for what is in memory, and for what its body
        changes at places that are known only when the code runs."""
        out: list[Value] = []
        for x, var in zip(values, jaxpr.invars[first:], strict=False):
            if isinstance(x, Memory):
                out.append(x if x.mutable and x.owned else self.copied(x))
            else:
                out.append(self.copied(x) if len(x.elements) > 1 and _placed(jaxpr, var) else x)
        return out

    def _carried(self, values: Sequence[Value], before: ir.Block) -> tuple[list[Value], list]:
        """The same at the head of a loop, where numbers may come from two places."""
        carried, phis = [], []
        for x in values:
            if isinstance(x, Memory):
                carried.append(x)
                continue
            own = []
            for element in x.elements:
                phi = self.builder.phi(type_of(x.dtype))
                phi.add_incoming(self.value(element, x.dtype), before)
                own.append(phi)
            phis.append((own, x.dtype))
            carried.append(Small(x.shape, x.dtype, own))
        return carried, phis

    def _closed(self, carried: list[Value], phis: list, results: Sequence[Value]) -> None:
        """The end of a loop's body: what its next turn starts from."""
        # Everything is read before anything is overwritten, and filling makes new blocks.
        numbers = [
            self.small(new)
            for old, new in zip(carried, results, strict=True)
            if isinstance(old, Small)
        ]
        self._fill_all(
            [(x, y) for x, y in zip(carried, results, strict=True) if isinstance(x, Memory)]
        )
        for (own, dtype), new in zip(phis, numbers, strict=True):
            for phi, element in zip(own, new.elements, strict=True):
                phi.add_incoming(self.value(element, dtype), self.builder.block)

    def _fill_all(self, pairs: list[tuple[Memory, Value]]) -> None:
        """Several arrays at once, each as it was before."""
        pairs = [(to, x) for to, x in pairs if not _same(to, x)]
        roots = [_root(to.pointer) for to, _ in pairs]
        staged = [
            self.copied(x)
            if isinstance(x, Memory) and any(_root(x.pointer) is r for r in roots)
            else x
            for _, x in pairs
        ]
        for (to, _), x in zip(pairs, staged, strict=True):
            self.fill(to, x)

    def _while(self, eqn: Any, operands: list[Value]) -> list[Value]:
        params, b = eqn.params, self.builder
        m, n = params["cond_nconsts"], params["body_nconsts"]
        cond, cond_consts = _opened(self, params["cond_jaxpr"])
        body, body_consts = _opened(self, params["body_jaxpr"])
        for_cond = [_lent(x) for x in operands[:m]]
        for_body = [_lent(x) for x in operands[m : m + n]]
        values = self._buffers(operands[m + n :], body, n)
        head, turn, after = (
            self.function.append_basic_block(name) for name in ("head", "turn", "after")
        )
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        carried, phis = self._carried(values, before)
        (go_on,) = self.run(cond, cond_consts, [*for_cond, *map(_lent, carried)])
        (go_on,) = self.small(go_on).elements
        b.cbranch(self.value(go_on, bool), turn, after)
        b.position_at_end(turn)
        results = self.run(body, body_consts, [*for_body, *carried])
        self._closed(carried, phis, results)
        b.branch(head)
        b.position_at_end(after)
        return carried

    def _scan(self, eqn: Any, operands: list[Value]) -> list[Value]:
        params = eqn.params
        if params["reverse"]:
            raise Unsupported("scans backwards")
        n, k, length = params["num_consts"], params["num_carry"], params["length"]
        body, consts = _opened(self, params["jaxpr"])
        fixed = [_lent(x) for x in operands[:n]]
        rows = [self.spilled(x) for x in operands[n + k :]]
        outs = [self.room(v.aval.shape, v.aval.dtype) for v in eqn.outvars[k:]]
        values = self._buffers(operands[n : n + k], body, n)

        def turn(position: Element, carried: list[Value]) -> list[Value]:
            here = [self._row(x, position) for x in rows]
            results = self.run(body, consts, [*fixed, *carried, *here])
            for out, new in zip(outs, results[k:], strict=True):
                self.fill(_row_of(self, out, position), new)
            return results[:k]

        if length <= _UNROLLED:
            for position in range(length):
                values = [self._fresh(x) for x in turn(position, values)]
        else:
            values = self._counted(length, values, turn)
        stacked = [self.small(x) if size_of(x.shape) <= SMALL else x for x in outs]
        return [*values, *stacked]

    def _counted(self, length: int, values: list[Value], turn: Callable) -> list[Value]:
        """A loop of known length, with at least one turn."""
        b = self.builder
        head, after = (self.function.append_basic_block(name) for name in ("scan", "scanned"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        position = b.phi(INDEX)
        position.add_incoming(INDEX(0), before)
        carried, phis = self._carried(values, before)
        results = turn(position, carried)
        results = [
            new if isinstance(old, Memory) else self.small(new)
            for old, new in zip(carried, results, strict=True)
        ]
        self._closed(carried, phis, results)
        following = b.add(position, INDEX(1))
        position.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, INDEX(length)), head, after)
        b.position_at_end(after)
        return [
            old if isinstance(old, Memory) else new
            for old, new in zip(carried, results, strict=True)
        ]

    def _row(self, memory: Memory, position: Element) -> Value:
        row = _row_of(self, memory, position)
        if memory.mutable or size_of(row.shape) <= SMALL:
            return self.small(row)
        return row

    def _cond(self, eqn: Any, operands: list[Value]) -> list[Value]:
        b = self.builder
        which, *arguments = operands
        branches = eqn.params["branches"]
        (which,) = self.small(which).elements
        if not isinstance(which, ir.Value):
            chosen = branches[min(max(int(which), 0), len(branches) - 1)]
            jaxpr, consts = _opened(self, chosen)
            return [self._fresh(x) for x in self.run(jaxpr, consts, arguments)]
        names = ("first", "second", "third")
        blocks = [self.function.append_basic_block(names[min(k, 2)]) for k in range(len(branches))]
        after = self.function.append_basic_block("joined")
        if len(branches) == 2 and which.type.width == 1:
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
        for block, branch in zip(blocks, branches, strict=True):
            b.position_at_end(block)
            jaxpr, consts = _opened(self, branch)
            results = self.run(jaxpr, consts, arguments)
            first, to_fill = branch is branches[0], []
            for k, aval in enumerate(outs):
                own = results[k]
                mine = isinstance(own, Memory) and own.owned and _root(own.pointer) is own.pointer
                if places[k] is None and (size_of(aval.shape) <= SMALL and not (mine and first)):
                    results[k] = self.small(own)
                    continue
                # What is in memory ends up in one place, whichever branch is taken.
                if places[k] is None:
                    places[k] = own if mine else self.room(aval.shape, aval.dtype)  # pyright: ignore
                to_fill.append((places[k], own))
            self._fill_all(to_fill)
            ends.append((b.block, results))
            b.branch(after)
        b.position_at_end(after)
        joined: list[Value] = []
        for k, aval in enumerate(outs):
            place = places[k]
            if place is not None:
                joined.append(place)
                continue
            elements = []
            for column in zip(*(results[k].elements for _, results in ends), strict=True):  # pyright: ignore
                known = not any(isinstance(x, ir.Value) for x in column)
                # Zeros of either sign are equal, but not the same.
                if known and len(set(map(repr, column))) == 1:
                    elements.append(column[0])
                    continue
                phi = b.phi(type_of(aval.dtype))
                for (block, _), x in zip(ends, column, strict=True):
                    phi.add_incoming(self.value(x, aval.dtype), block)
                elements.append(phi)
            joined.append(Small(aval.shape, np.dtype(aval.dtype), elements))
        return joined


def _row_of(emitter: Emitter, memory: Memory, position: Element) -> Memory:
    first = Memory((memory.shape[0],), memory.dtype, memory.pointer, memory.strides[:1], True)
    pointer = emitter.address(first, [position])
    return Memory(memory.shape[1:], memory.dtype, pointer, memory.strides[1:], memory.mutable)


def _in_step(x: Memory) -> Memory | None:
    """The same memory with one axis, if its elements are equally far apart."""
    count = size_of(x.shape)
    if x.pitch is not None:
        return Memory((count,), x.dtype, x.pointer, (x.pitch,), x.mutable)
    if any(isinstance(stride, ir.Value) for stride in x.strides):
        return None
    long = [k for k, n in enumerate(x.shape) if n != 1]
    step = x.strides[long[-1]] if long else 1
    whole = all(x.strides[k] == step * size_of(x.shape[k + 1 :]) for k in long)
    return Memory((count,), x.dtype, x.pointer, (step,), x.mutable) if whole else None


def _root(pointer: Any) -> Any:
    """Where the memory begins that a pointer leads into."""
    while isinstance(pointer, ir.instructions.GEPInstr):
        pointer = pointer.pointer
    return pointer


def _same(x: Memory, y: Value) -> bool:
    return isinstance(y, Memory) and x.pointer is y.pointer and x.strides == y.strides


def _lent(x: Value) -> Value:
    """Another name of the same memory."""
    if isinstance(x, Small) or not x.owned:
        return x
    return Memory(x.shape, x.dtype, x.pointer, x.strides, x.mutable, False)


def _opened(emitter: Emitter, jaxpr: Any) -> tuple[Any, list[Value]]:
    if not hasattr(jaxpr, "consts"):
        return jaxpr, []
    return jaxpr.jaxpr, [constant_value(emitter, x) for x in jaxpr.consts]


def constant_value(emitter: Emitter, x: Any) -> Value:
    array = np.asarray(x)
    return Small.of(array) if array.size <= SMALL else emitter.constant(array)


def _placed(jaxpr: Any, var: Any) -> bool:
    """Whether a jaxpr changes an array at indices that are not known."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        somewhere = any(not isinstance(x, core.Literal) for x in eqn.invars[2:])
        if name == "dynamic_update_slice" and eqn.invars[0] is var and somewhere:
            return True
        for inner, arguments in _inner(eqn):
            for own, given in zip(inner.invars, arguments, strict=True):
                if given is var and _placed(inner, own):
                    return True
    return False


def _inner(eqn: Any) -> list[tuple[Any, Sequence]]:
    """Jaxprs in an equation, with what they are given."""
    name, p = eqn.primitive.name, eqn.params
    if name in _CALLS:
        return [(_plain(p[_CALLS[name]]), eqn.invars)]
    if name == "cond":
        return [(_plain(branch), eqn.invars[1:]) for branch in p["branches"]]
    if name == "scan":
        return [(_plain(p["jaxpr"]), eqn.invars)]
    if name == "while":
        return [(_plain(p["body_jaxpr"]), eqn.invars[p["cond_nconsts"] :])]
    return []


def _plain(jaxpr: Any) -> Any:
    return jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr


def _last_uses(jaxpr: Any) -> dict[Any, int]:
    last: dict[Any, int] = {}
    for now, eqn in enumerate(jaxpr.eqns):
        for atom in eqn.invars:
            if not isinstance(atom, core.Literal):
                last[atom] = now
    # Twice among the results: nobody's own.
    end, seen = len(jaxpr.eqns), set()
    for atom in jaxpr.outvars:
        if not isinstance(atom, core.Literal):
            last[atom] = end + (atom in seen)
            seen.add(atom)
    return last
