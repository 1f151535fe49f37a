# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Arrays while a jaxpr is turned into machine code: numbers by themselves, or memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

Element = Any
"""A Python number, known now, or the `ir.Value` that will hold one."""

SMALL = 64
"""Arrays of so many elements at most are kept as numbers by themselves."""
INDEX = ir.IntType(64)
POINTER = ir.PointerType()
_TYPES: dict[str, ir.Type] = {
    "float64": ir.DoubleType(),
    "float32": ir.FloatType(),
    "int64": ir.IntType(64),
    "int32": ir.IntType(32),
    "int8": ir.IntType(8),
    "uint8": ir.IntType(8),
    "uint32": ir.IntType(32),
    "bool": ir.IntType(1),
}


class Unsupported(Exception):
    """Something in a jaxpr for which there is no machine code here."""


def type_of(dtype: Any) -> ir.Type:
    name = np.dtype(dtype).name
    if name not in _TYPES:
        raise Unsupported(f"dtype {name}")
    return _TYPES[name]


def stored_type(dtype: Any) -> ir.Type:
    """In memory a truth value takes a byte."""
    return ir.IntType(8) if np.dtype(dtype) == bool else type_of(dtype)


@dataclass
class Small:
    """An array whose elements, in C order, are numbers by themselves."""

    shape: tuple[int, ...]
    dtype: np.dtype
    elements: list[Element]

    @property
    def known(self) -> bool:
        """Whether its numbers are known now."""
        return not any(isinstance(x, ir.Value) for x in self.elements)

    def numpy(self) -> np.ndarray:
        return np.array(self.elements, dtype=self.dtype).reshape(self.shape)

    @staticmethod
    def of(array: Any) -> "Small":
        array = np.asarray(array)
        return Small(array.shape, array.dtype, array.reshape(-1).tolist())


@dataclass
class Memory:
    """An array in memory, for indices that are known only when the code runs.

    What may be written to (`mutable`) is read as soon as it is asked for; other memory may be
    looked at through views.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    pointer: ir.Value
    strides: tuple[Element, ...]
    """In elements."""
    mutable: bool
    owned: bool = False
    """Whether this is the only name that the memory still has: then it is changed in place."""
    pitch: Element | None = None
    """Distance between neighbours, where all are equally far apart; None if that is not said."""
    wide: int = 0
    """If not zero, every element is a vector of so many."""
    spread: ir.Value | None = None
    """Where each turn of those that are taken side by side has its part: a vector of offsets
    in elements. Only for as long as it takes to read or write them."""
    run: ir.Value | None = None
    """The first of these, where the others follow it one by one."""
    within: ir.Value | None = None
    """Whether they do, if that is known only when the code runs."""


Value = Small | Memory


def size_of(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size_of(shape[k + 1 :]) for k in range(len(shape)))


def c_memory(
    shape: tuple[int, ...], dtype: Any, pointer: ir.Value, mutable: bool, wide: int = 0
) -> Memory:
    """Memory without gaps."""
    return Memory(shape, np.dtype(dtype), pointer, c_strides(shape), mutable, mutable, wide=wide)


def opaque(pointer: Any) -> Any:
    """llvmlite still gives some pointers a type; LLVM does not."""
    pointer.type = POINTER
    return pointer
