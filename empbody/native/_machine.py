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
from ._handler import add_handler
from ._values import INDEX, POINTER, Memory, Unsupported

_engines: dict[str, Any] = {}
"""Machine code by name; it must stay where it is as long as the process lives."""


def registered(closed: Any) -> str:
    """Name of a call target that runs a closed jaxpr for every lane."""
    module, handler = _module(closed)
    # The name tells the code, so that XLA may keep compiled programs from process to process.
    name = f"empbody_{hashlib.sha256(str(module).encode()).hexdigest()[:24]}"
    if name not in _engines:
        engine = _engines[name] = _engine(module)
        address = ctypes.cast(engine.get_function_address(handler), ctypes.c_void_p)
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
    return name


def _module(closed: Any) -> tuple[ir.Module, str]:
    """The code, and the name of its entry."""
    module = ir.Module("empbody")
    jaxpr = closed.jaxpr
    count, results = len(jaxpr.invars), len(jaxpr.outvars)
    kind = ir.FunctionType(ir.VoidType(), [INDEX, *([POINTER, INDEX] * (count + results))])
    sample = ir.Function(module, kind, "sample")
    sample.linkage = "internal"
    emitter = Emitter(module, sample)
    lane, *rest = sample.args
    memories = [
        _lane(emitter, rest[2 * k], rest[2 * k + 1], lane, var.aval)
        for k, var in enumerate([*jaxpr.invars, *jaxpr.outvars])
    ]
    consts = [constant_value(emitter, x) for x in closed.consts]
    # Lanes lie side by side, so those of one sample are far apart: they are fetched once.
    given = [emitter.fetched(memory) for memory in memories[:count]]
    found = emitter.run(jaxpr, consts, given)
    for memory, value in zip(memories[count:], found, strict=True):
        emitter.fill(memory, value)
    emitter.finish()
    return module, add_handler(module, sample, count, results)


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
        opt=2,
        jit=True,
    )


def _engine(module: ir.Module) -> Any:
    processor = _processor()
    module.triple = processor.triple
    module.data_layout = str(processor.target_data)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    _find_functions(parsed)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(processor, options)
    builder.getModulePassManager().run(parsed, builder)
    engine = binding.create_mcjit_compiler(parsed, processor)
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
