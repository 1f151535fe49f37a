# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false
"""Arrays in memory: room for them, and ways to read and write them.

Where turns of a loop are taken side by side, each reads and writes its own part: the parts may
follow each other (a run), or lie anywhere.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ._values import (
    INDEX,
    SMALL,
    Element,
    Memory,
    Small,
    Unsupported,
    Value,
    c_memory,
    c_strides,
    opaque,
    size_of,
    stored_type,
)
from ._wide import assembled, element, is_wide, splat, type_name

_FETCHED = 4
"""Arguments of so many elements at most are kept as numbers: most are indexed."""
_ON_STACK = 2**12
"""Bytes of an array that may lie on a thread's stack."""
_ROOM = 2**26
"""Bytes that a call may need beside it."""
_ALIGNED = 64


class Run(NamedTuple):
    """A vector of numbers that follow each other."""

    vector: ir.Value
    """Kept, so that nothing else gets its id."""
    first: ir.Value
    offset: int
    """What the first turn's is."""
    limit: ir.Value
    """Number of turns, and what it is at most if that is known."""
    most: int | None
    within: ir.Value | None = None
    """Whether none of those that are really there had to be moved to stay within an array,
    where that is known only when the code runs."""


class Store:
    """Memory of one function."""

    def __init__(self, module: ir.Module, function: ir.Function, arena: ir.Value) -> None:
        self.module, self.function = module, function
        self._stack = ir.IRBuilder(function.append_basic_block("stack"))
        self._start = function.append_basic_block("start")
        self.builder = ir.IRBuilder(self._start)
        self._arena, self.arena_bytes = arena, 0
        self.lanes = 0
        """Turns that are taken side by side, while such a loop is written."""
        self.mask: ir.Value | None = None
        """Which of them are really there."""
        self._runs: dict[int, Run] = {}
        self._limits: dict[int, tuple[ir.Value, int]] = {}
        self._born: dict[int, tuple[ir.Value, ir.Value | None]] = {}

    # Vectors of numbers that follow each other

    def run_of(self, x: Any) -> Run | None:
        """Where x begins and between what it lies, if it is such a vector."""
        return self._runs.get(id(x))

    def add_run(self, run: Run) -> None:
        self._runs[id(run.vector)] = run

    def limit(self, x: Element) -> int | None:
        """What a number is at most, if that is known."""
        if not isinstance(x, ir.Value):
            return int(x)
        found = self._limits.get(id(x))
        return None if found is None else found[1]

    def add_limit(self, x: ir.Value, most: int) -> None:
        self._limits[id(x)] = (x, most)

    # Room

    def room(self, shape: tuple[int, ...], dtype: Any, wide: int = 0) -> Memory:
        """Memory of its own."""
        count = max(size_of(shape), 1)
        kind = _stored(dtype, wide)
        size = np.dtype(dtype).itemsize * count * max(wide, 1)
        if size <= _ON_STACK:
            pointer = opaque(self._stack.alloca(ir.ArrayType(kind, count)))
            pointer.align = _ALIGNED
        else:
            pointer = self._stack.gep(
                self._arena, [INDEX(self.arena_bytes)], source_etype=ir.IntType(8)
            )
            self.arena_bytes += -(-size // _ALIGNED) * _ALIGNED
            if self.arena_bytes > _ROOM:
                raise Unsupported(f"more than {_ROOM} bytes of tables")
        self._born[id(pointer)] = (pointer, self.mask)
        return c_memory(shape, dtype, pointer, True, wide)

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

    # Single elements

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
            memory.pointer, [self.index(total)], source_etype=_stored(memory.dtype, memory.wide)
        )

    def part(self, memory: Memory, shape: tuple[int, ...], starts: Sequence[Element]) -> Memory:
        """A part that begins at some place, which may differ from turn to turn."""
        b = self.builder
        own = [k for k, x in enumerate(starts) if is_wide(x)]
        rest = [0 if k in own else x for k, x in enumerate(starts)]
        part = Memory(
            shape,
            memory.dtype,
            self.address(memory, rest),
            memory.strides,
            memory.mutable,
            wide=memory.wide,
        )
        if not own:
            return part
        for k in own:
            start, stride = starts[k], memory.strides[k]
            run = self.run_of(start)
            single = len(own) == 1 and not isinstance(stride, ir.Value) and stride == 1
            if single and run is not None and not memory.wide:
                part.run, part.within = run.first, run.within
            if isinstance(stride, ir.Value) or stride != 1:
                start = b.mul(start, splat(b, self.index(stride), self.lanes))
            part.spread = start if part.spread is None else b.add(part.spread, start)
        return part

    def load(self, memory: Memory, indices: Sequence[Element]) -> ir.Value:
        b = self.builder
        pointer = self.address(memory, indices)
        found = b.load(pointer, typ=_stored(memory.dtype, memory.wide))
        return self._truth(found, memory.dtype)

    def _truth(self, found: ir.Value, dtype: Any) -> ir.Value:
        if np.dtype(dtype) != np.bool_:
            return found
        one = ir.IntType(1)
        return self.builder.trunc(
            found, ir.VectorType(one, found.type.count) if is_wide(found) else one
        )

    def _load_runs(self, memory: Memory, pointers: list[ir.Value]) -> list[ir.Value]:
        b, kind = self.builder, stored_type(memory.dtype)
        return [self._load_run(b.gep(p, [memory.run], source_etype=kind), kind) for p in pointers]

    def _load_run(self, pointer: ir.Value, kind: ir.Type) -> ir.Value:
        wide = ir.VectorType(kind, self.lanes)
        mask, none = self.mask, ir.Constant(wide, 0)
        name = f"llvm.masked.load.{type_name(wide)}.p0"
        bytes_each = ir.IntType(32)(kind.width // 8 if isinstance(kind, ir.IntType) else 4)
        kinds = [pointer.type, ir.IntType(32), mask.type, wide]
        return self.builder.call(
            self.declared(name, wide, kinds), [pointer, bytes_each, mask, none]
        )

    def _gathered(self, memory: Memory, pointers: list[ir.Value]) -> list[ir.Value]:
        """What each turn finds from its own offset on."""
        b, kind, offset = self.builder, stored_type(memory.dtype), memory.spread
        if memory.wide:
            own = ir.Constant(offset.type, [INDEX(k) for k in range(self.lanes)])
            offset = b.add(b.mul(offset, ir.Constant(offset.type, memory.wide)), own)
        offsets = [element(b, offset, k) for k in range(self.lanes)]
        return [
            assembled(
                b, [b.load(b.gep(pointer, [x], source_etype=kind), typ=kind) for x in offsets]
            )
            for pointer in pointers
        ]

    def store(self, memory: Memory, indices: Sequence[Element], x: Element) -> None:
        b, value = self.builder, self.value(x, memory.dtype)
        if memory.dtype == bool:
            byte = ir.IntType(8)
            value = b.zext(value, ir.VectorType(byte, self.lanes) if is_wide(value) else byte)
        if self.lanes and not memory.wide:
            self._store_last(memory, indices, value)
            return
        pointer = self.address(memory, indices)
        if memory.wide:
            value = splat(b, value, memory.wide)
            if not self._as_when_made(memory):
                # Turns that have left a loop, or are in another branch, keep what they have.
                old = b.load(pointer, typ=value.type)
                value = b.select(self.mask, value, old)
        b.store(value, pointer)

    def _as_when_made(self, memory: Memory) -> bool:
        """Whether no turns have left since there was room made for it."""
        found = self._born.get(id(root(memory.pointer)))
        return found is not None and found[1] is self.mask

    def _store_last(self, memory: Memory, indices: Sequence[Element], value: ir.Value) -> None:
        """A place that all turns have in common: what the last of them writes stays."""
        b, bits = self.builder, ir.IntType(self.lanes)
        mask = b.bitcast(self.mask, bits)
        put, after = (self.function.append_basic_block(n) for n in ("put", "behind"))
        b.cbranch(b.icmp_unsigned("!=", mask, ir.Constant(bits, 0)), put, after)
        b.position_at_end(put)
        if is_wide(value):
            name = f"llvm.ctlz.{type_name(bits)}"
            zeros = b.call(
                self.declared(name, bits, [bits, ir.IntType(1)]), [mask, ir.IntType(1)(1)]
            )
            last = b.sub(ir.Constant(bits, self.lanes - 1), zeros)
            value = b.extract_element(value, b.zext(last, INDEX))
        b.store(value, self.address(memory, indices))
        b.branch(after)
        b.position_at_end(after)

    def _store_run(self, memory: Memory, pointer: ir.Value, value: ir.Value) -> None:
        b, kind = self.builder, stored_type(memory.dtype)
        value = splat(b, value, self.lanes)
        pointer = b.gep(pointer, [memory.run], source_etype=kind)
        name = f"llvm.masked.store.{type_name(value.type)}.p0"
        bytes_each = ir.IntType(32)(kind.width // 8 if isinstance(kind, ir.IntType) else 4)
        kinds = [value.type, pointer.type, ir.IntType(32), self.mask.type]
        b.call(self.declared(name, ir.VoidType(), kinds), [value, pointer, bytes_each, self.mask])

    # Whole arrays

    def small(self, x: Value) -> Small:
        """The same array as numbers by themselves."""
        if isinstance(x, Small):
            return x
        if size_of(x.shape) > 8 * SMALL:
            raise Unsupported(f"arithmetic on a large array {x.shape}")
        places = list(np.ndindex(*x.shape))
        if x.spread is None:
            return Small(x.shape, x.dtype, [self.load(x, i) for i in places])
        pointers = [self.address(x, i) for i in places]
        found = self._either(
            x, lambda: self._load_runs(x, pointers), lambda: self._gathered(x, pointers)
        )
        return Small(x.shape, x.dtype, [self._truth(y, x.dtype) for y in found])

    def _either(self, x: Memory, in_runs: Callable, apart: Callable) -> list[ir.Value]:
        """One of two ways to read or write, the first where turns' places follow each other."""
        if x.run is None or x.within is None:
            return apart() if x.run is None else in_runs()
        b = self.builder
        blocks = [self.function.append_basic_block(n) for n in ("follow", "apart", "reached")]
        b.cbranch(x.within, blocks[0], blocks[1])
        ends = []
        for block, way in zip(blocks, (in_runs, apart), strict=False):
            b.position_at_end(block)
            found = way()
            ends.append((b.block, found))
            b.branch(blocks[2])
        b.position_at_end(blocks[2])
        out = []
        for pair in zip(*(found for _, found in ends), strict=True):
            phi = b.phi(pair[0].type)
            for (block, _), value in zip(ends, pair, strict=True):
                phi.add_incoming(value, block)
            out.append(phi)
        return out

    def spilled(self, x: Value) -> Memory:
        """The same array in memory, so that it can be indexed."""
        if isinstance(x, Memory):
            return x
        if x.known:
            return self.constant(x.numpy())
        if any(map(is_wide, x.elements)) or not self.lanes:
            memory = self.copied(x)
        else:
            # The same in all turns, and nobody is going to change it.
            memory = self.room(x.shape, x.dtype)
            for index, each in zip(np.ndindex(*x.shape), x.elements, strict=True):
                value = self.value(each, x.dtype)
                value = self.builder.zext(value, ir.IntType(8)) if x.dtype == bool else value
                self.builder.store(value, self.address(memory, index))
        memory.mutable = memory.owned = False
        return memory

    def copied(self, x: Value) -> Memory:
        new = self.room(x.shape, x.dtype, self.lanes)
        self.fill(new, x)
        return new

    def fresh(self, x: Value) -> Value:
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

    def fill(self, memory: Memory, x: Value) -> None:
        if memory.spread is not None:
            self._fill_own(memory, self.small(x))
            return
        if isinstance(x, Small):
            for index, each in zip(np.ndindex(*x.shape), x.elements, strict=True):
                self.store(memory, index, each)
            return
        # Nested loops would need no divisions; a single one does not if strides are in step.
        (to, from_), count = (_in_step(y) for y in (memory, x)), size_of(x.shape)
        if to is None or from_ is None:
            self._fill_by_index(memory, x)
            return
        self.repeat(count, lambda k: self.store(to, [k], self.load(from_, [k])))

    def _fill_own(self, memory: Memory, x: Small) -> None:
        """Each turn its own part, if it is there."""
        b = self.builder
        if memory.wide:
            raise Unsupported("tables of vectors that are changed at different places")
        values = [self.value(y, x.dtype) for y in x.elements]
        places = list(np.ndindex(*x.shape))
        if memory.dtype == bool:
            values = [b.zext(splat(b, y, self.lanes), _stored(bool, self.lanes)) for y in values]
        pointers = [self.address(memory, index) for index in places]

        def in_runs() -> list:
            for pointer, y in zip(pointers, values, strict=True):
                self._store_run(memory, pointer, y)
            return []

        def apart() -> list:
            self._store_apart(memory, pointers, values)
            return []

        self._either(memory, in_runs, apart)

    def _store_apart(
        self, memory: Memory, pointers: list[ir.Value], values: list[ir.Value]
    ) -> None:
        b, kind = self.builder, stored_type(memory.dtype)
        for k in range(self.lanes):
            put, after = (self.function.append_basic_block(n) for n in ("put", "behind"))
            b.cbranch(element(b, self.mask, k), put, after)
            b.position_at_end(put)
            offset = element(b, memory.spread, k)
            for pointer, y in zip(pointers, values, strict=True):
                b.store(element(b, y, k), b.gep(pointer, [offset], source_etype=kind))
            b.branch(after)
            b.position_at_end(after)

    def _fill_by_index(self, memory: Memory, x: Memory) -> None:
        def copy(position: ir.Value) -> None:
            indices = self._unravelled(position, x.shape)
            self.store(memory, indices, self.load(x, indices))

        self.repeat(size_of(x.shape), copy)

    def fill_all(self, pairs: list[tuple[Memory, Value]]) -> None:
        """Several arrays at once, each as it was before."""
        pairs = [(to, x) for to, x in pairs if not same(to, x)]
        roots = [root(to.pointer) for to, _ in pairs]
        staged = [
            self.copied(x)
            if isinstance(x, Memory) and any(root(x.pointer) is r for r in roots)
            else x
            for _, x in pairs
        ]
        for (to, _), x in zip(pairs, staged, strict=True):
            self.fill(to, x)

    def repeat(self, count: Element, body: Callable[[ir.Value], None]) -> None:
        """A loop over numbers from zero; a count that is not known is at least one."""
        if not isinstance(count, ir.Value):
            if count == 0:
                return
            count = INDEX(count)
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
        b.cbranch(b.icmp_signed("<", following, count), loop, after)
        b.position_at_end(after)

    def _unravelled(self, position: ir.Value, shape: tuple[int, ...]) -> list[Element]:
        out: list[Element] = []
        for n, stride in zip(shape, c_strides(shape), strict=True):
            x = position if stride == 1 else self.builder.udiv(position, INDEX(stride))
            out.append(self.builder.urem(x, INDEX(n)))
        return out


def _stored(dtype: Any, wide: int) -> ir.Type:
    kind = stored_type(dtype)
    return ir.VectorType(kind, wide) if wide else kind


def _in_step(x: Memory) -> Memory | None:
    """The same memory with one axis, if its elements are equally far apart."""
    count = size_of(x.shape)

    def by(step: Element) -> Memory:
        return dataclasses.replace(x, shape=(count,), strides=(step,), pitch=None, owned=False)

    if x.pitch is not None:
        return by(x.pitch)
    if any(isinstance(stride, ir.Value) for stride in x.strides):
        return None
    long = [k for k, n in enumerate(x.shape) if n != 1]
    step = x.strides[long[-1]] if long else 1
    whole = all(x.strides[k] == step * size_of(x.shape[k + 1 :]) for k in long)
    return by(step) if whole else None


def root(pointer: Any) -> Any:
    """Where the memory begins that a pointer leads into."""
    while isinstance(pointer, ir.instructions.GEPInstr) and not _is_room(pointer):
        pointer = pointer.pointer
    return pointer


def _is_room(pointer: Any) -> bool:
    """Room in the arena begins at a known number of bytes."""
    return pointer.source_etype == ir.IntType(8) and pointer.parent.name.startswith("stack")


def same(x: Memory, y: Value) -> bool:
    return isinstance(y, Memory) and x.pointer is y.pointer and x.strides == y.strides


def lent(x: Value) -> Value:
    """Another name of the same memory."""
    if isinstance(x, Small) or not x.owned:
        return x
    return dataclasses.replace(x, owned=False)
