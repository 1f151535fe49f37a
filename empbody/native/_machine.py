# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""From a jaxpr to machine code that XLA can call."""

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
from typing import Any

import jax
import numpy as np
from llvmlite import binding, ir

from ._emit import Emitter, constant_value
from ._handler import Called, add_handler
from ._stored import Stored
from ._values import INDEX, POINTER, Memory, Small, Unsupported, c_strides, type_of

_engines: dict[str, Any] = {}
"""Machine code by name; it must stay where it is as long as the process lives."""


def registered(closed: Any, block: int) -> str:
    """Name of a call target that runs a closed jaxpr for every lane, or, if `block` is not
    zero, for so many lanes at a time at most."""
    module, handler = _module(closed, block)
    processor = _processor()
    module.triple = processor.triple
    module.data_layout = str(processor.target_data)
    text = str(module)
    # The name tells the code, so that XLA may keep compiled programs from process to process.
    name = f"empbody_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if name not in _engines:
        engine = _engines[name] = _engine(text, processor, quick=block == 1)
        address = ctypes.cast(engine.get_function_address(handler), ctypes.c_void_p)
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
    return name


def _module(closed: Any, block: int) -> tuple[ir.Module, str]:
    """The code, and the name of its entry."""
    module = ir.Module("empbody")
    jaxpr = closed.jaxpr
    # A block is also told how many lanes there are.
    given, outs = jaxpr.invars[: len(jaxpr.invars) - bool(block)], jaxpr.outvars
    buffers = [POINTER, INDEX] * (len(given) + len(outs))
    kind = ir.FunctionType(ir.VoidType(), [INDEX, INDEX, POINTER, *buffers])
    function = ir.Function(module, kind, "sample")
    function.linkage = "internal"
    first, count, arena, *rest = function.args
    emitter = Emitter(module, function, arena)
    pairs = [(rest[2 * k], rest[2 * k + 1]) for k in range(len(given) + len(outs))]
    consts = [constant_value(emitter, x) for x in closed.consts]
    if block:
        _run_block(emitter, jaxpr, consts, first, count, pairs, block)
    else:
        _run_sample(emitter, jaxpr, consts, first, pairs)
    emitter.finish()
    called = Called(function, len(given), len(outs), max(block, 1), emitter.arena_bytes)
    return module, add_handler(module, called)


def _run_sample(emitter: Emitter, jaxpr: Any, consts: list, lane: Any, pairs: list) -> None:
    """One lane."""
    count = len(jaxpr.invars)
    memories = [
        _lane(emitter, data, lanes, lane, var.aval)
        for (data, lanes), var in zip(pairs, [*jaxpr.invars, *jaxpr.outvars], strict=True)
    ]
    # Lanes lie side by side, so those of one sample are far apart: they are fetched once.
    given = [emitter.fetched(memory) for memory in memories[:count]]
    found = emitter.run(jaxpr, consts, given)
    for memory, value in zip(memories[count:], found, strict=True):
        emitter.fill(memory, value)


def _run_block(
    emitter: Emitter, jaxpr: Any, consts: list, first: Any, count: Any, pairs: list, block: int
) -> None:
    """Several lanes, which are the last axis of everything."""
    *invars, number = jaxpr.invars
    given = [
        _fetched_lanes(emitter, data, lanes, first, count, var.aval)
        for (data, lanes), var in zip(pairs, invars, strict=False)
    ]
    kind = type_of(number.aval.dtype)
    told = count if kind.width == 64 else emitter.builder.trunc(count, kind)
    emitter.add_limit(told, block)
    found = emitter.run(jaxpr, consts, [*given, Small((), number.aval.dtype, [told])])
    for (data, _), value, var in zip(pairs[len(given) :], found, jaxpr.outvars, strict=True):
        _put_lanes(emitter, data, first, count, emitter.spilled(value), var.aval)


def _rows(aval: Any) -> tuple[int, int]:
    *rows, lanes = aval.shape
    return int(np.prod(rows, dtype=np.int64)), lanes


def _fetched_lanes(
    emitter: Emitter, data: Any, lanes: Any, first: Any, count: Any, aval: Any
) -> Memory:
    """A copy of some lanes; nothing is copied where all lanes have the same."""
    rows, own = _rows(aval)
    dtype = np.dtype(aval.dtype)
    if own == 1:
        return Memory(aval.shape, dtype, data, c_strides(aval.shape), False)
    new = emitter.room(aval.shape, dtype)
    to = Memory((rows, own), dtype, new.pointer, (own, 1), True)
    start = emitter.address(Memory((1,), dtype, data, (1,), False), [first])
    from_ = Memory((rows, own), dtype, start, (lanes, 1), False)
    emitter.repeat(
        rows,
        lambda row: emitter.repeat(
            count, lambda lane: emitter.store(to, [row, lane], emitter.load(from_, [row, lane]))
        ),
    )
    new.mutable = new.owned = False
    return new


def _put_lanes(
    emitter: Emitter, data: Any, first: Any, count: Any, found: Memory, aval: Any
) -> None:
    rows, own = _rows(aval)
    if found.strides != c_strides(found.shape):
        found = emitter.copied(found)
    from_ = Memory((rows, own), found.dtype, found.pointer, (own, 1), False)
    # One lane after the other (see `_call`).
    start = emitter.address(Memory((1,), found.dtype, data, (rows,), False), [first])
    to = Memory((rows, own), found.dtype, start, (1, rows), True)
    emitter.repeat(
        count,
        lambda lane: emitter.repeat(
            rows, lambda row: emitter.store(to, [row, lane], emitter.load(from_, [row, lane]))
        ),
    )


def _lane(emitter: Emitter, data: Any, lanes: Any, lane: Any, aval: Any) -> Memory:
    """One lane of a buffer; the only one, where there is one for all."""
    b = emitter.builder
    start = b.select(b.icmp_signed("==", lanes, INDEX(1)), INDEX(0), lane)
    shape = aval.shape
    below = [int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape))]
    strides = tuple(lanes if n == 1 else b.mul(lanes, INDEX(n)) for n in below)
    dtype = np.dtype(aval.dtype)
    pointer = emitter.address(Memory((1,), dtype, data, (1,), False), [start])
    return Memory(shape, dtype, pointer, strides, False, pitch=lanes)


def _processor() -> Any:
    """The one that this process runs on; an engine takes it for its own."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=1,
        jit=True,
    )


def _engine(text: str, processor: Any, quick: bool) -> Any:
    """Machine code; with `quick` it is half as long in the making and a little slower."""
    parsed = binding.parse_assembly(text)
    parsed.verify()
    _find_functions(parsed)
    stored = Stored(text, quick)
    if not stored.known:
        options = binding.create_pipeline_tuning_options(speed_level=1)
        builder = binding.create_pass_builder(processor, options)
        manager = builder.getModulePassManager()
        if quick:
            manager = binding.create_new_module_pass_manager()
            manager.add_instruction_combine_pass()
        manager.run(parsed, builder)
    engine = binding.create_mcjit_compiler(parsed, processor)
    engine.set_object_cache(lambda _, code: stored.keep(code), lambda _: stored.known)
    engine.finalize_object()
    return engine


def _find_functions(parsed: Any) -> None:
    """LLVM ends the process if a function of the C library is not there: so look first."""
    for function in parsed.functions:
        name = function.name
        if not function.is_declaration or name.startswith("llvm."):
            continue
        if binding.address_of_symbol(name) is not None:
            continue
        found = [getattr(library, name, None) for library in _c_libraries()]
        found = [x for x in found if x is not None]
        if not found:
            raise Unsupported(f"the C library has no {name}")
        binding.add_symbol(name, ctypes.cast(found[0], ctypes.c_void_p).value)


@functools.cache
def _c_libraries() -> list[Any]:
    names = [None, *map(ctypes.util.find_library, ("c", "m", "msvcrt", "ucrtbase"))]
    out = []
    for name in dict.fromkeys(names):
        with contextlib.suppress(OSError, TypeError):
            out.append(ctypes.CDLL(name))
    return out
