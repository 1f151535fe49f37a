# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Machine code of primitives that work number by number."""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ._values import Element, Small, Unsupported, size_of, type_of
from ._wide import alike, is_wide

_FUSE = ("contract",)
"""Products and sums may become one instruction, as in XLA."""

_ORDERS = {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!="}
_LIBRARY = {
    "atan2": "atan2", "exp": "exp", "log": "log", "tanh": "tanh", "pow": "pow", "tan": "tan",
    "sin": "sin", "cos": "cos", "acos": "acos", "asin": "asin", "atan": "atan",
    "log1p": "log1p", "expm1": "expm1", "sinh": "sinh", "cosh": "cosh", "exp2": "exp2",
    "asinh": "asinh",
}  # fmt: skip
"""Primitives that are functions of the C library."""
_KNOWN: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "max": np.maximum,
    "min": np.minimum, "gt": np.greater, "lt": np.less, "ge": np.greater_equal,
    "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "not": np.invert, "abs": np.abs, "sign": np.sign,
}  # fmt: skip
"""What is worked out now if all numbers are known: enough for indices."""


def elementwise(emitter: Any, eqn: Any, operands: list[Small]) -> Small | None:
    """The result of an equation, or None if it is of another kind."""
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    if name in ("copy", "stop_gradient", "copy_p", "optimization_barrier"):
        return operands[0]
    known = all(x.known for x in operands)
    if known and name in _KNOWN:
        found = _KNOWN[name](*(x.numpy() for x in operands))
        return Small.of(np.broadcast_to(found, out.shape).astype(out.dtype))
    if known and name == "convert_element_type":
        return Small.of(_converted(operands[0].numpy(), np.dtype(out.dtype)))
    one = _ONE.get(name)
    if one is None and name in _LIBRARY:
        one = _library
    if one is None:
        return None
    columns = [_spread(x, out.shape) for x in operands]
    dtypes = [x.dtype for x in operands]
    emit = lambda row: one(emitter, eqn, dtypes, row)  # noqa: E731
    return Small(out.shape, np.dtype(out.dtype), [emit(row) for row in zip(*columns, strict=True)])


def _spread(x: Small, shape: tuple[int, ...]) -> list[Element]:
    if x.shape == shape:
        return x.elements
    if len(x.elements) == 1:
        return x.elements * size_of(shape)
    numbers = np.broadcast_to(np.arange(len(x.elements)).reshape(x.shape), shape)
    return [x.elements[k] for k in numbers.reshape(-1).tolist()]


def _values(emitter: Any, dtypes: list, row: tuple) -> list[ir.Value]:
    values = [emitter.value(x, dtype) for x, dtype in zip(row, dtypes, strict=True)]
    return alike(emitter.builder, values)


def _floats(dtype: Any) -> bool:
    return np.issubdtype(dtype, np.floating)


def _unsigned(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "ub"


def _compared(emitter: Any, dtype: Any, order: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Whole numbers and truth values."""
    b = emitter.builder
    return (b.icmp_unsigned if _unsigned(dtype) else b.icmp_signed)(order, x, y)


def _arithmetic(on_floats: str, on_integers: str) -> Callable:
    def one(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
        values = _values(emitter, dtypes, row)
        if _floats(dtypes[0]):
            return getattr(emitter.builder, on_floats)(*values, flags=_FUSE)
        found = getattr(emitter.builder, on_integers)(*values)
        if on_integers == "add":
            _continue(emitter, found, dtypes, row)
        return found

    return one


def _continue(emitter: Any, found: ir.Value, dtypes: list, row: tuple) -> None:
    """Numbers that follow each other still do so with something added to all."""
    for this, other, dtype in ((*row, dtypes[1]), (*row[::-1], dtypes[0])):
        run = emitter.run_of(this)
        # By a number that is not known it may leave any array.
        if run is not None and not isinstance(other, ir.Value):
            first = emitter.builder.add(run.first, emitter.value(other, dtype))
            offset = run.offset + int(other)
            emitter.add_run(run._replace(vector=found, first=first, offset=offset))


def _compare(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    order = _ORDERS[eqn.primitive.name]
    values = _values(emitter, dtypes, row)
    if not _floats(dtypes[0]):
        return _compared(emitter, dtypes[0], order, *values)
    # Only `ne` is true of what is not a number.
    compare = emitter.builder.fcmp_unordered if order == "!=" else emitter.builder.fcmp_ordered
    return compare(order, *values)


def _extreme(order: str) -> Callable:
    def one(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
        x, y = _values(emitter, dtypes, row)
        b = emitter.builder
        if not _floats(dtypes[0]):
            return b.select(_compared(emitter, dtypes[0], order, x, y), x, y)
        # x also where it is not a number; y where that is not.
        return b.select(b.fcmp_unordered(order, x, y), b.select(_is_nan(b, y), y, x), y)

    return one


def _is_nan(builder: Any, x: ir.Value) -> ir.Value:
    return builder.fcmp_unordered("uno", x, x)


def _logic(name: str) -> Callable:
    def one(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
        return getattr(emitter.builder, name)(*_values(emitter, dtypes, row))

    return one


def _negative(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    return emitter.builder.fneg(x) if _floats(dtypes[0]) else emitter.builder.neg(x)


def _absolute(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    if _floats(dtypes[0]):
        return emitter.call("llvm.fabs", [x])
    b = emitter.builder
    return b.select(b.icmp_signed("<", x, ir.Constant(x.type, 0)), b.neg(x), x)


def _sign(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    b = emitter.builder
    zero = ir.Constant(x.type, 0)
    one, minus = ir.Constant(x.type, 1), ir.Constant(x.type, -1)
    if not _floats(dtypes[0]):
        below = b.select(_compared(emitter, dtypes[0], "<", x, zero), minus, zero)
        return b.select(_compared(emitter, dtypes[0], ">", x, zero), one, below)
    below = b.select(b.fcmp_ordered("<", x, zero), minus, x)
    return b.select(b.fcmp_ordered(">", x, zero), one, below)


def _intrinsic(name: str) -> Callable:
    def one(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
        return emitter.call(name, _values(emitter, dtypes, row))

    return one


def _library(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    values = _values(emitter, dtypes, row)
    if not all(_floats(dtype) for dtype in dtypes):
        raise Unsupported(f"{eqn.primitive.name} of whole numbers")
    return emitter.library(_LIBRARY[eqn.primitive.name], values)


def _rsqrt(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    return emitter.builder.fdiv(ir.Constant(x.type, 1.0), emitter.call("llvm.sqrt", [x]))


def _logistic(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    b, one = emitter.builder, ir.Constant(x.type, 1.0)
    return b.fdiv(one, b.fadd(one, emitter.library("exp", [b.fneg(x)])))


def _power(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    """Of a whole number that is known, by squares."""
    (x,) = _values(emitter, dtypes, row)
    b, y = emitter.builder, 2 if eqn.primitive.name == "square" else eqn.params["y"]
    multiply = b.fmul if _floats(dtypes[0]) else b.mul
    if y == 0:
        return ir.Constant(x.type, 1)
    found, n, square = None, abs(y), x
    while n:
        if n & 1:
            found = square if found is None else multiply(found, square)
        n >>= 1
        square = multiply(square, square) if n else square
    return b.fdiv(ir.Constant(x.type, 1.0), found) if y < 0 else found


def _finite(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    size = emitter.call("llvm.fabs", [x])
    return emitter.builder.fcmp_ordered("<", size, ir.Constant(x.type, float("inf")))


def _select(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    which, *cases = row
    if not isinstance(which, ir.Value):
        return cases[int(which)]
    values = _values(emitter, dtypes[1:], tuple(cases))
    b = emitter.builder
    if is_wide(which):
        values = alike(b, [which, *values])[1:]
    if len(values) == 2 and np.dtype(dtypes[0]).kind == "b":
        return b.select(which, values[1], values[0])
    found = values[-1]
    for k in reversed(range(len(values) - 1)):
        here = b.icmp_signed("<=", which, ir.Constant(which.type, k))
        found = b.select(here, values[k], found)
    return found


def _clamp(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    low, x, high = row
    raised = _extreme(">")(emitter, eqn, [dtypes[1], dtypes[0]], (x, low))
    return _extreme("<")(emitter, eqn, [dtypes[1], dtypes[2]], (raised, high))


def _divided(remainder: bool) -> Callable:
    def one(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
        x, y = _values(emitter, dtypes, row)
        b = emitter.builder
        if _floats(dtypes[0]):
            # Several quotients with the same divisor may become products with its inverse.
            flags = (*_FUSE, "arcp") if is_wide(x) else _FUSE
            return b.frem(x, y) if remainder else b.fdiv(x, y, flags=flags)
        # Processors stop at divisions by zero, and of the least number by -1; XLA does not.
        zero, minus = ir.Constant(y.type, 0), ir.Constant(y.type, -1)
        none = b.icmp_signed("==", y, zero)
        if _unsigned(dtypes[0]):
            safe = b.select(none, ir.Constant(y.type, 1), y)
            found = b.urem(x, safe) if remainder else b.udiv(x, safe)
            return b.select(none, x if remainder else minus, found)
        back = b.icmp_signed("==", y, minus)
        safe = b.select(b.or_(none, back), ir.Constant(y.type, 1), y)
        found = b.srem(x, safe) if remainder else b.sdiv(x, safe)
        found = b.select(back, zero if remainder else b.neg(x), found)
        return b.select(none, x if remainder else minus, found)

    return one


def _converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As XLA has it: nothing is 0, and what is too large is the largest."""
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    whole = [0 if np.isnan(v) else min(max(v, limits.min), limits.max) for v in x.reshape(-1)]
    return np.array([int(v) for v in whole], dtype).reshape(x.shape)


def _bits(kind: ir.Type) -> int:
    return getattr(kind, "width", 0)


def _convert(emitter: Any, eqn: Any, dtypes: list, row: tuple) -> Element:
    (x,) = _values(emitter, dtypes, row)
    b, old, new = emitter.builder, np.dtype(dtypes[0]), np.dtype(eqn.outvars[0].aval.dtype)
    target = type_of(new)
    if old == new:
        return x
    narrower = _bits(target) < _bits(type_of(old))
    same = _bits(target) == _bits(type_of(old))
    target = ir.VectorType(target, x.type.count) if is_wide(x) else target
    if new.kind == "b":
        zero = ir.Constant(x.type, 0)
        return b.fcmp_unordered("!=", x, zero) if _floats(old) else b.icmp_signed("!=", x, zero)
    if _floats(old) and _floats(new):
        return b.fpext(x, target) if new.itemsize > old.itemsize else b.fptrunc(x, target)
    unsigned = old.kind == "b" or np.issubdtype(old, np.unsignedinteger)
    if _floats(new):
        return b.uitofp(x, target) if unsigned else b.sitofp(x, target)
    if _floats(old):
        return emitter.saturated(x, target, new.kind == "u")
    if same:
        return x
    if narrower:
        return b.trunc(x, target)
    return b.zext(x, target) if unsigned else b.sext(x, target)


_ONE: dict[str, Callable] = {
    "add": _arithmetic("fadd", "add"),
    "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"),
    "div": _divided(False),
    "add_any": _arithmetic("fadd", "add"),
    "rem": _divided(True),
    "max": _extreme(">"),
    "min": _extreme("<"),
    "and": _logic("and_"),
    "or": _logic("or_"),
    "xor": _logic("xor"),
    "not": _logic("not_"),
    "neg": _negative,
    "abs": _absolute,
    "sign": _sign,
    "sqrt": _intrinsic("llvm.sqrt"),
    "floor": _intrinsic("llvm.floor"),
    "ceil": _intrinsic("llvm.ceil"),
    "rsqrt": _rsqrt,
    "logistic": _logistic,
    "integer_pow": _power,
    "square": _power,
    "is_finite": _finite,
    "select_n": _select,
    "clamp": _clamp,
    "convert_element_type": _convert,
    **dict.fromkeys(_ORDERS, _compare),
}
