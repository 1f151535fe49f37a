"""Functions of one sample that run as machine code, for all lanes of a batch."""

import ctypes
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import binding, ir

from ._emit import Emitter, constant_value
from ._handler import add_handler
from ._values import INDEX, POINTER, Memory

_engines: list[Any] = []
"""Machine code must stay where it is as long as the process lives."""


def call(function: Callable[..., Any], arguments: Any, lanes: int) -> Any:
    """`function` of one sample's arguments, a pytree of arrays, for every lane, which are their
    last axis (of length 1 where all lanes have the same): results get that axis too. Values
    only. `function` must be the same object whenever it means the same."""
    leaves, structure = jax.tree.flatten(arguments)
    samples = tuple(jax.ShapeDtypeStruct(x.shape[:-1], x.dtype) for x in leaves)
    name, outs, out_structure = _compiled(function, structure, samples)

    @jax.custom_batching.custom_vmap
    def run(leaves: list[jax.Array]) -> list[jax.Array]:
        results = [jax.ShapeDtypeStruct((*shape, lanes), dtype) for shape, dtype in outs]
        return list(jax.ffi.ffi_call(name, results, vmap_method="sequential")(*leaves))

    @run.def_vmap
    def _(size: int, batched: Any, leaves: list[jax.Array]) -> tuple[list, list]:
        """A batch is more lanes."""

        def wide(x: jax.Array, flag: bool) -> jax.Array:
            if not flag and x.shape[-1] == 1:
                return x
            x = jnp.moveaxis(x, 0, -2) if flag else x[..., None, :]
            shape = x.shape[:-2]
            return jnp.broadcast_to(x, (*shape, size, lanes)).reshape(*shape, size * lanes)

        found = call(
            function,
            jax.tree.unflatten(structure, list(map(wide, leaves, batched[0]))),
            size * lanes,
        )
        split = [
            jnp.moveaxis(x.reshape(*x.shape[:-1], size, lanes), -2, 0)
            for x in jax.tree.leaves(found)
        ]
        return split, [True] * len(split)

    return jax.tree.unflatten(out_structure, run(leaves))


@functools.cache
def _compiled(function: Callable, structure: Any, samples: tuple) -> tuple[str, tuple, Any]:
    given = jax.tree.unflatten(structure, samples)
    with jax.ensure_compile_time_eval():
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(given)
    leaves, structure = jax.tree.flatten(shapes)
    outs = tuple((x.shape, x.dtype) for x in leaves)
    text = str(closed) + str([np.asarray(c).tobytes() for c in closed.consts])
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    name = f"empbody_{key}"
    if name not in _registered:
        _register(name, _machine_code(name, closed))
    return name, outs, structure


_registered: set[str] = set()


def _machine_code(name: str, closed: Any) -> int:
    """Address of a handler for a closed jaxpr."""
    module = ir.Module(name)
    jaxpr = closed.jaxpr
    count, results = len(jaxpr.invars), len(jaxpr.outvars)
    kind = ir.FunctionType(ir.VoidType(), [INDEX, *([POINTER, INDEX] * (count + results))])
    sample = ir.Function(module, kind, name)
    sample.linkage = "internal"
    sample.attributes.add("noinline")
    emitter = Emitter(module, sample)
    lane, *rest = sample.args
    memories = []
    for k, var in enumerate([*jaxpr.invars, *jaxpr.outvars]):
        memories.append(_lane(emitter, rest[2 * k], rest[2 * k + 1], lane, var.aval))
    consts = [constant_value(emitter, x) for x in closed.consts]
    # Lanes lie side by side, so those of one sample are far apart: they are fetched once.
    given = [emitter.fetched(memory) for memory in memories[:count]]
    found = emitter.run(jaxpr, consts, given)
    for memory, value in zip(memories[count:], found, strict=True):
        emitter.fill(memory, value)
    emitter.finish()
    handler = add_handler(module, sample, count, results)
    return _optimised(module, handler)


def _lane(emitter: Emitter, data: Any, lanes: Any, lane: Any, aval: Any) -> Memory:
    """One lane of a buffer."""
    b = emitter.builder
    same = b.icmp_signed("==", lanes, INDEX(1))
    start = b.select(same, INDEX(0), lane)
    shape = aval.shape
    strides = []
    for k in range(len(shape)):
        below = int(np.prod(shape[k + 1 :], dtype=np.int64))
        strides.append(lanes if below == 1 else b.mul(lanes, INDEX(below)))
    whole = Memory((), np.dtype(aval.dtype), data, (), False)
    first = Memory((1,), whole.dtype, data, (1,), False)
    return Memory(shape, whole.dtype, emitter.address(first, [start]), tuple(strides), False)


@functools.cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
    )


def _optimised(module: ir.Module, handler: str) -> int:
    machine = _target()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _engines.append(engine)
    return engine.get_function_address(handler)


def _register(name: str, address: int) -> None:
    capsule = jax.ffi.pycapsule(ctypes.cast(address, ctypes.c_void_p))
    jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    _registered.add(name)

