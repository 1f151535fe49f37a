# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Vectors of the processor: one element for each of several turns of a loop.

While such a loop is written, a number is either the same in all turns (an `ir.Value` as ever) or
differs (an `ir.Value` that is a vector).
"""

import ctypes
import functools
import platform
from typing import Any

from llvmlite import binding, ir

_LETTERS = {512: "e", 256: "d", 128: "b"}
"""Of the widths in bits, in the names of glibc's vector functions (x86-64)."""


@functools.cache
def width() -> int:
    """Doubles in one of this processor's vectors."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512dq"):
        return 8
    return 4 if features.get("avx2") else 2


def is_wide(x: Any) -> bool:
    return isinstance(x, ir.Value) and isinstance(x.type, ir.VectorType)


def element_type(kind: ir.Type) -> ir.Type:
    return kind.element if isinstance(kind, ir.VectorType) else kind


def type_name(kind: ir.Type) -> str:
    """As in the names of intrinsics."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{type_name(kind.element)}"
    return f"i{kind.width}" if isinstance(kind, ir.IntType) else kind.intrinsic_name


def splat(builder: ir.IRBuilder, x: ir.Value, count: int) -> ir.Value:
    """The same number in all elements."""
    if is_wide(x):
        return x
    kind = ir.VectorType(x.type, count)
    if isinstance(x, ir.Constant):
        return ir.Constant(kind, x.constant)
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, x, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), 0)
    return builder.shuffle_vector(first, nothing, zeros)


def alike(builder: ir.IRBuilder, values: list[ir.Value]) -> list[ir.Value]:
    """All as vectors if one of them is."""
    wide = next((x for x in values if is_wide(x)), None)
    if wide is None:
        return values
    return [splat(builder, x, wide.type.count) for x in values]


def any_of(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    bits = ir.IntType(mask.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(mask, bits), bits(0))


def element(builder: ir.IRBuilder, x: ir.Value, k: int) -> ir.Value:
    return builder.extract_element(x, ir.IntType(32)(k)) if is_wide(x) else x


def assembled(builder: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    found = ir.Constant(ir.VectorType(parts[0].type, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        found = builder.insert_element(found, part, ir.IntType(32)(k))
    return found


def counted(builder: ir.IRBuilder, first: ir.Value, count: int) -> ir.Value:
    """first, first + 1, ..."""
    steps = ir.Constant(ir.VectorType(first.type, count), [first.type(k) for k in range(count)])
    return builder.add(splat(builder, first, count), steps)


def vector_function(name: str, kind: ir.Type, arguments: int) -> str | None:
    """glibc's function for vectors of this type, if it has one (within 4 units in the last
    place of the C library's for single numbers)."""
    element = element_type(kind)
    bits = kind.count * (64 if element == ir.DoubleType() else 32)
    if platform.machine() not in ("x86_64", "AMD64") or bits not in _LETTERS:
        return None
    if bits == 256 and not binding.get_host_cpu_features().get("avx2"):
        return None
    suffix = "" if element == ir.DoubleType() else "f"
    full = f"_ZGV{_LETTERS[bits]}N{kind.count}{'v' * arguments}_{name}{suffix}"
    return full if _address(full) else None


@functools.cache
def _address(name: str) -> int | None:
    try:
        found = getattr(ctypes.CDLL("libmvec.so.1"), name, None)
    except OSError:
        return None
    if found is None:
        return None
    address = ctypes.cast(found, ctypes.c_void_p).value
    binding.add_symbol(name, address)
    return address
