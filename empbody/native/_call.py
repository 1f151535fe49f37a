"""Functions of one sample that run as machine code on CPUs, for all lanes of a batch.

A `Program` is one JAX primitive. Where it is lowered for a CPU it becomes a call of machine
code; everywhere else (other devices, exported programs, processes without LLVM) its other form,
for all lanes at once, takes its place.
"""

import contextlib
import functools
import gc
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

SWITCH = "EMPBODY_MACHINE_CODE"
"""Environment variable: "0" keeps to XLA."""


class Program:
    """A function of one sample, and the same for all lanes.

    `sample` takes a pytree of arrays. `lanes` takes the same with one more axis, the last,
    for lanes (of length 1 where all have the same), and gives `sample`'s results with that
    axis. Both must give the same numbers up to rounding; only values are asked for.
    A program is compared by identity: make it once for what it means.

    With `block`, the first function takes several lanes as well, and then how many of them
    there are: as many as `block` in the last axis, or one if there is no more than one. Which
    lanes are put together is not said, and those beyond their number hold anything. So
    it can work on several in turn where that is of use (`side_by_side`). `results` then gives
    shapes and types of one lane's results from those of its arguments.
    """

    def __init__(
        self,
        sample: Callable[..., Any],
        lanes: Callable[[Any], Any],
        block: int = 0,
        results: Callable[[Any], Any] | None = None,
    ) -> None:
        if block < 0 or block == 1:
            raise ValueError(f"blocks of {block} lanes: none (0), or two at least")
        if block and results is None:
            raise ValueError("a function of blocks does not tell what one lane's results are")
        self.sample, self.lanes, self.block, self._results = sample, lanes, block, results

    def shapes(self, structure: Any, given: tuple) -> Any:
        if self._results is not None:
            return self._results(jax.tree.unflatten(structure, given))
        return _traced(self, structure, given, jax.config.read("jax_enable_x64"))[1]

    def __call__(self, arguments: Any, lanes: int) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        for x in leaves:
            if x.shape[-1] not in (1, lanes):
                raise ValueError(f"an argument of shape {x.shape} has neither 1 nor {lanes} lanes")
        given = tuple(jax.ShapeDtypeStruct(x.shape[:-1], x.dtype) for x in leaves)
        out, out_structure = jax.tree.flatten(self.shapes(structure, given))
        results = tuple((x.shape, x.dtype) for x in out)
        found = _primitive.bind(
            *leaves, program=self, structure=structure, results=results, lanes=lanes
        )
        return jax.tree.unflatten(out_structure, found)


@functools.lru_cache(maxsize=256)
def _traced(program: Program, structure: Any, given: tuple, x64: bool) -> tuple[Any, Any]:
    """The closed jaxpr of one sample, and the shapes of its results; it depends on `x64`."""
    arguments = [jax.tree.unflatten(structure, given)]
    if program.block:
        arguments.append(jax.ShapeDtypeStruct((), jnp.int32))
    return jax.make_jaxpr(program.sample, return_shape=True)(*arguments)


_primitive = Primitive("machine_code")
_primitive.multiple_results = True


@_primitive.def_impl
def _(*leaves: jax.Array, **params: Any) -> list[jax.Array]:
    """Operation by operation: only where jit is off, or JAX looks for what makes a NaN."""
    return _all_lanes(*leaves, **params)


@_primitive.def_abstract_eval
def _(*avals: Any, results: tuple, lanes: int, **_: Any) -> list[ShapedArray]:
    return [ShapedArray((*shape, lanes), dtype) for shape, dtype in results]


def _batch(leaves: tuple, axes: tuple, *, lanes: int, **params: Any) -> tuple[list, list]:
    """A batch is more lanes."""
    size = next(x.shape[axis] for x, axis in zip(leaves, axes, strict=True) if axis is not None)

    def wide(x: jax.Array, axis: int | None) -> jax.Array:
        if axis is None and x.shape[-1] == 1:
            return x
        x = x[..., None, :] if axis is None else jnp.moveaxis(x, axis, -2)
        shape = x.shape[:-2]
        return jnp.broadcast_to(x, (*shape, size, lanes)).reshape(*shape, size * lanes)

    wider = [wide(x, axis) for x, axis in zip(leaves, axes, strict=True)]
    found = _primitive.bind(*wider, lanes=size * lanes, **params)
    split = [x.reshape(*x.shape[:-1], size, lanes) for x in found]
    return split, [x.ndim - 2 for x in split]


batching.primitive_batchers[_primitive] = _batch


def _all_lanes(
    *leaves: jax.Array, program: Program, structure: Any, lanes: int, **_: Any
) -> list[jax.Array]:
    """The other form."""
    found = jax.tree.leaves(program.lanes(jax.tree.unflatten(structure, leaves)))
    return [jnp.broadcast_to(x, (*x.shape[:-1], lanes)) for x in found]


def _lower_elsewhere(ctx: Any, *values: Any, **params: Any) -> Any:
    run = functools.partial(_all_lanes, **params)
    return mlir.lower_fun(run, multiple_results=True)(ctx, *values)


def _lower_on_cpu(ctx: Any, *values: Any, **params: Any) -> Any:
    # An exported program may run where there is no machine code.
    exported = ctx.module_context.lowering_parameters.for_export
    given = params["program"], params["structure"], ctx.avals_in, params["lanes"]
    name = None if exported else _target(*given, params["results"])
    if name is None:
        return _lower_elsewhere(ctx, *values, **params)
    layouts = None
    if params["program"].block:
        # Blocks give one lane after the other, as whoever uses `vmap` wants to have them.
        ranks = [len(shape) for shape, _ in params["results"]]
        layouts = [(*range(rank - 1, -1, -1), rank) for rank in ranks]
    return jax.ffi.ffi_lowering(name, result_layouts=layouts)(ctx, *values)


mlir.register_lowering(_primitive, _lower_elsewhere)
mlir.register_lowering(_primitive, _lower_on_cpu, platform="cpu")

_compiling = threading.RLock()


def _target(program: Program, structure: Any, avals: Any, lanes: int, results: tuple) -> str | None:
    """Name under which XLA knows the machine code; None if there is none."""
    if os.environ.get(SWITCH, "1") == "0":
        return None
    block = 1 if program.block and lanes <= 1 else program.block

    def own(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], 1 if shape[-1] == 1 else block) if block else shape[:-1]

    given = tuple(jax.ShapeDtypeStruct(own(x.shape), x.dtype) for x in avals)
    x64 = jax.config.read("jax_enable_x64")
    with _compiling:
        if block:
            # Otherwise the code would write beyond the room that it is given.
            out = jax.tree.leaves(_traced(program, structure, given, x64)[1])
            found = [(x.shape, x.dtype) for x in out]
            told = [((*shape, block), dtype) for shape, dtype in results]
            if found != told:
                raise ValueError(f"results of a block are {found}, not {told} as was said")
        return _compiled(program, structure, given, block, x64)


@functools.lru_cache(maxsize=256)
def _compiled(program: Program, structure: Any, given: tuple, block: int, x64: bool) -> str | None:
    try:
        from ._machine import registered
    except ImportError:
        _warn("llvmlite is not installed (pip install llvmlite)")
        return None
    try:
        with _without_collection():
            return registered(_traced(program, structure, given, x64)[0], block)
    except Exception as reason:  # whatever it is, there is another way
        _warn(f"{type(reason).__name__}: {reason}")
        return None


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Half a million small objects are made and kept: looking through them for waste takes a
    quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _warn(reason: str) -> None:
    warnings.warn(
        f"wrapped paths run without machine code, ten times slower: {reason} "
        f"({SWITCH}=0 in the environment accepts that without a word)",
        RuntimeWarning,
        stacklevel=2,
    )
