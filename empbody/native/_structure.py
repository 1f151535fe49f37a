# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Machine code of primitives that move numbers about, and of sums over axes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from ._elementwise import elementwise
from ._values import SMALL, Element, Memory, Small, Unsupported, c_memory, size_of
from ._wide import is_wide


def structural(emitter: Any, eqn: Any, operands: list) -> Sequence | None:
    """The results of an equation, or None if it is of another kind."""
    name = eqn.primitive.name
    if name in _INDEXED:
        return [_INDEXED[name](emitter, eqn, operands)]
    if name == "broadcast_in_dim" and _large(eqn) and isinstance(operands[0], Small):
        return [_filled(emitter, eqn, operands[0])]
    if name in _MOVES:
        x = operands[0]
        # What nobody else will change may be looked at in another way.
        if len(operands) == 1 and isinstance(x, Memory) and (x.owned or not x.mutable):
            view = _view(emitter, eqn, x)
            if view is not None:
                return [view]
        return _moved(eqn, [emitter.small(x) for x in operands])
    if name in _REDUCTIONS:
        return [_reduced(emitter, eqn, emitter.small(operands[0]))]
    return None


def _large(eqn: Any) -> bool:
    return size_of(eqn.outvars[0].aval.shape) > SMALL


# Moves are done on the elements' numbers, by NumPy.


def _slice(x: np.ndarray, p: dict) -> np.ndarray:
    strides = p["strides"] or (1,) * x.ndim
    return x[
        tuple(
            slice(*bounds)
            for bounds in zip(p["start_indices"], p["limit_indices"], strides, strict=True)
        )
    ]


def _broadcast(x: np.ndarray, p: dict) -> np.ndarray:
    wide = [1] * len(p["shape"])
    for own, axis in enumerate(p["broadcast_dimensions"]):
        wide[axis] = x.shape[own]
    return np.broadcast_to(x.reshape(wide), p["shape"])


def _split(x: np.ndarray, p: dict) -> list[np.ndarray]:
    return np.split(x, np.cumsum(p["sizes"])[:-1], axis=p["axis"])


_MOVES: dict[str, Callable] = {
    "slice": _slice,
    "squeeze": lambda x, p: np.squeeze(x, p["dimensions"]),
    "expand_dims": lambda x, p: np.expand_dims(x, p["dimensions"]),
    "reshape": lambda x, p: x.reshape(p["new_sizes"]),
    "broadcast_in_dim": _broadcast,
    "transpose": lambda x, p: np.transpose(x, p["permutation"]),
    "rev": lambda x, p: np.flip(x, p["dimensions"]),
    "concatenate": lambda *x: np.concatenate(x[:-1], axis=x[-1]["dimension"]),
    "stack": lambda *x: np.stack(x[:-1], axis=x[-1]["axis"]),
    "split": _split,
}


def _moved(eqn: Any, operands: list[Small]) -> list[Small]:
    elements: list[Element] = []
    numbers = []
    for x in operands:
        count = len(x.elements)
        numbers.append((len(elements) + np.arange(count)).reshape(x.shape))
        elements += x.elements
    found = _MOVES[eqn.primitive.name](*numbers, eqn.params)
    found = found if isinstance(found, list) else [found]
    dtype = operands[0].dtype
    return [Small(x.shape, dtype, [elements[k] for k in x.reshape(-1).tolist()]) for x in found]


def _view(emitter: Any, eqn: Any, memory: Memory) -> Memory | None:
    """The same memory, looked at in another way."""
    name, p = eqn.primitive.name, eqn.params
    shape = eqn.outvars[0].aval.shape

    def seen(pointer: Any, strides: Sequence[Element]) -> Memory:
        own = (memory.mutable, memory.owned) if name != "broadcast_in_dim" else (False, False)
        return Memory(shape, memory.dtype, pointer, tuple(strides), *own, wide=memory.wide)

    if name == "slice":
        steps = p["strides"] or (1,) * len(memory.shape)
        if any(step != 1 for step in steps):
            return None
        return seen(emitter.address(memory, p["start_indices"]), memory.strides)
    if name == "transpose":
        return seen(memory.pointer, [memory.strides[k] for k in p["permutation"]])
    if name in ("squeeze", "reshape", "expand_dims"):
        kept = [s for s, n in zip(memory.strides, memory.shape, strict=True) if n != 1]
        if [n for n in memory.shape if n != 1] != [n for n in shape if n != 1]:
            return None
        rest = iter(kept)
        return seen(memory.pointer, [0 if n == 1 else next(rest) for n in shape])
    if name == "broadcast_in_dim":
        strides: list[Element] = [0] * len(shape)
        for own, axis in enumerate(p["broadcast_dimensions"]):
            strides[axis] = memory.strides[own] if memory.shape[own] != 1 else 0
        return seen(memory.pointer, strides)
    return None


def _filled(emitter: Any, eqn: Any, x: Small) -> Memory:
    """A large array of one number."""
    if len(x.elements) != 1:
        raise Unsupported("large arrays of different numbers")
    memory = emitter.room(eqn.outvars[0].aval.shape, x.dtype, emitter.lanes)
    flat = c_memory((size_of(memory.shape),), x.dtype, memory.pointer, True, memory.wide)
    value = emitter.value(x.elements[0], x.dtype)
    emitter.repeat(flat.shape[0], lambda position: emitter.store(flat, [position], value))
    return memory


# Indices that are known only when the code runs.


def _starts(
    emitter: Any, shape: tuple, sizes: tuple, indices: list[Small], own: bool = False
) -> list[Element]:
    """As JAX has it, a slice that would reach beyond the end is moved back. With `own`, turns
    that are taken side by side have a place each, even if there is only one."""
    out: list[Element] = []
    for n, size, index in zip(shape, sizes, indices, strict=True):
        (x,) = index.elements
        if n == size and not (own and is_wide(x)):
            out.append(0)
        elif not isinstance(x, ir.Value):
            out.append(min(max(int(x), 0), n - size))
        else:
            b, x = emitter.builder, emitter.index(x, index.dtype)
            run = emitter.run_of(x)
            top, zero = ir.Constant(x.type, n - size), ir.Constant(x.type, 0)
            x = b.select(b.icmp_signed("<", x, zero), zero, x)
            x = b.select(b.icmp_signed(">", x, top), top, x)
            if run is not None and run.offset >= 0:
                # At most so many turns have places that have not been moved.
                turns = n - size + 1 - run.offset
                known = run.most is not None and run.most <= turns
                most = ir.Constant(run.limit.type, turns)
                within = None if known else b.icmp_signed("<=", run.limit, most)
                emitter.add_run(run._replace(vector=x, within=within))
            out.append(x)
    return out


def _dynamic_slice(emitter: Any, eqn: Any, operands: list) -> Any:
    whole, *indices = operands
    sizes = eqn.params["slice_sizes"]
    starts = _starts(emitter, whole.shape, sizes, [emitter.small(x) for x in indices])
    memory = emitter.spilled(whole)
    part = emitter.part(memory, tuple(sizes), starts)
    to_read = memory.mutable or part.spread is not None or size_of(part.shape) <= SMALL
    return emitter.small(part) if to_read else part


def _dynamic_update_slice(emitter: Any, eqn: Any, operands: list) -> Any:
    whole, new, *indices = operands
    starts = _starts(emitter, whole.shape, new.shape, [emitter.small(x) for x in indices], True)
    keep_small = isinstance(whole, Small)
    memory = whole if not keep_small and whole.mutable and whole.owned else emitter.copied(whole)
    emitter.fill(emitter.part(memory, new.shape, starts), new)
    return emitter.small(memory) if keep_small else memory


def _gather(emitter: Any, eqn: Any, operands: list) -> Any:
    """With known indices it is a move."""
    x, indices = emitter.small(operands[0]), emitter.small(operands[1])
    if not indices.known:
        raise Unsupported("gather with indices that are not known")
    numbers = 1 + np.arange(len(x.elements)).reshape(x.shape)
    # What lies beyond the array is its element number zero.
    chosen = _now(eqn, numbers, indices.numpy(), fill_value=0)
    fill = eqn.params["fill_value"]
    if fill is None and not np.issubdtype(x.dtype, np.floating) and (chosen == 0).any():
        raise Unsupported("gather of whole numbers from beyond an array")
    return _taken(chosen, [float("nan") if fill is None else fill, *x.elements], x.dtype)


def _scatter(emitter: Any, eqn: Any, operands: list) -> Any:
    x, indices, new = (emitter.small(y) for y in operands)
    if not indices.known or eqn.params["update_jaxpr"] is not None:
        raise Unsupported("scatter with indices that are not known")
    numbers = np.arange(len(x.elements)).reshape(x.shape)
    others = len(x.elements) + np.arange(len(new.elements)).reshape(new.shape)
    chosen = _now(eqn, numbers, indices.numpy(), others)
    return _taken(chosen, [*x.elements, *new.elements], x.dtype)


def _now(eqn: Any, *operands: Any, **changed: Any) -> np.ndarray:
    """The result of an equation on known numbers."""
    with jax.ensure_compile_time_eval():
        arrays = [jnp.asarray(x, jnp.int32) for x in operands]
        return np.asarray(eqn.primitive.bind(*arrays, **{**eqn.params, **changed}))


def _taken(chosen: np.ndarray, elements: list[Element], dtype: Any) -> Small:
    return Small(chosen.shape, dtype, [elements[k] for k in chosen.reshape(-1).tolist()])


def _iota(emitter: Any, eqn: Any, operands: list) -> Any:
    p = eqn.params
    wide = [1] * len(p["shape"])
    wide[p["dimension"]] = -1
    numbers = np.arange(p["shape"][p["dimension"]]).astype(p["dtype"]).reshape(wide)
    array = np.ascontiguousarray(np.broadcast_to(numbers, p["shape"]))
    return Small.of(array) if array.size <= SMALL else emitter.constant(array)


def _empty(emitter: Any, eqn: Any, operands: list) -> Any:
    """Room that nobody has written to."""
    aval = eqn.outvars[0].aval
    return emitter.room(aval.shape, aval.dtype, emitter.lanes)


_INDEXED: dict[str, Callable] = {
    "empty": _empty,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "iota": _iota,
}


# Sums and the like.

_REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_prod": "mul",
}


class _Pair:
    """An equation of two numbers."""

    def __init__(self, name: str, aval: Any) -> None:
        self.primitive = type("P", (), {"name": name})
        self.outvars = [type("V", (), {"aval": aval})]
        self.params: dict = {}


class _Scalar:
    shape = ()

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _reduced(emitter: Any, eqn: Any, x: Small) -> Small:
    axes = eqn.params["axes"]
    numbers = np.arange(len(x.elements)).reshape(x.shape)
    kept = [k for k in range(len(x.shape)) if k not in axes]
    shape = tuple(x.shape[k] for k in kept)
    if len(x.elements) == 0:
        raise Unsupported("sums over nothing")
    rows = np.transpose(numbers, [*kept, *axes]).reshape(size_of(shape), -1)
    pair = _Pair(_REDUCTIONS[eqn.primitive.name], _Scalar(x.dtype))
    out = []
    for row in rows.tolist():
        total = Small((), x.dtype, [x.elements[row[0]]])
        for k in row[1:]:
            total = elementwise(emitter, pair, [total, Small((), x.dtype, [x.elements[k]])])
            assert total is not None
        out.append(total.elements[0])
    return Small(shape, x.dtype, out)
