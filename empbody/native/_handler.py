# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""The way from XLA into machine code: a handler of its foreign function interface.

A handler gets a frame with the buffers of arguments and results. All are (..., lanes), those
of arguments possibly (..., 1); the function is called for a few lanes at a time. Lanes are shared
out in blocks among the threads of XLA's pool. Offsets follow XLA's `ffi/api/c_api.h`, which
keeps them from version to version.
"""

import pathlib
import re
from typing import NamedTuple

import jax
from llvmlite import ir

from .._cores import usable_cores
from ._values import INDEX, POINTER, Unsupported, opaque

_BYTE, _INT = ir.IntType(8), ir.IntType(32)
_BLOCK = 8
"""Lanes that a thread takes at a time, at least."""
_ON_STACK = 2**16
"""Bytes of tables that a call for few lanes has on the stack."""
_ALIGNED = 64
_METADATA = 1


class _Frame:
    """Offsets in bytes."""

    extension, api, context, arguments, results = 8, 16, 24, 72, 112


class _Buffer:
    data, rank, dims = 24, 32, 40


class _Api:
    # After size, extension, version (24) and the internal table come pointers to functions.
    schedule, threads = 48 + 11 * 8, 48 + 12 * 8


class _State:
    """What threads share: lives until the last of them has seen it."""

    frame, next, done, users, lanes, step = 0, 8, 16, 24, 32, 40
    size = 48


def api_version() -> tuple[int, int]:
    """Of the interface in the installed XLA."""
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text() if header.exists() else ""
    found = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    if None in found or int(found[0].group(1)) != 0:  # pyright: ignore
        raise Unsupported("an unknown version of XLA's foreign function interface")
    return 0, int(found[1].group(1))  # pyright: ignore


class Called(NamedTuple):
    """The function that does the work: (first lane, number of lanes, room for tables, then
    pointer and number of lanes of each argument, then those of each result)."""

    function: ir.Function
    arguments: int
    results: int
    block: int
    """Lanes that it takes at a time."""
    room: int
    """Bytes of room that it needs."""

    @property
    def at_once(self) -> int:
        """Lanes that a thread takes at a time, at most."""
        return max(_BLOCK, self.block)


def add_handler(module: ir.Module, called: Called) -> str:
    """Adds a handler; gives its name."""
    sample = called.function
    work = _work(module, called)
    task = _task(module, work, called)
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER]), sample.name + "_handler")
    (frame,) = function.args
    entry, asked, run = (function.append_basic_block(n) for n in ("entry", "asked", "run"))
    b = ir.IRBuilder(entry)
    extension = _load(b, frame, _Frame.extension, POINTER)
    is_query = b.icmp_unsigned("!=", extension, _null())
    b.cbranch(is_query, asked, run)

    b.position_at_end(asked)
    kind = _load(b, extension, 8, _INT)
    told = function.append_basic_block("told")
    b.cbranch(b.icmp_signed("==", kind, _INT(_METADATA)), told, run)
    b.position_at_end(told)
    metadata = _load(b, extension, 24, POINTER)
    major, minor = api_version()
    b.store(_INT(major), _at(b, metadata, 24))
    b.store(_INT(minor), _at(b, metadata, 28))
    b.store(_INT(0), _at(b, metadata, 32))
    b.store(INDEX(0), _at(b, metadata, 40))
    b.ret(_null())

    b.position_at_end(run)
    # All results have the same lanes, as their last axis.
    rets = _load(b, frame, _Frame.results, POINTER)
    first = _load(b, rets, 0, POINTER)
    lanes = _last_dimension(b, first)
    few, many = function.append_basic_block("few"), function.append_basic_block("many")
    b.cbranch(b.icmp_signed("<=", lanes, INDEX(_BLOCK)), few, many)
    b.position_at_end(few)
    if called.room <= _ON_STACK:
        room = opaque(b.alloca(ir.ArrayType(_BYTE, max(called.room, 1))))
        room.align = _ALIGNED
        b.call(work, [frame, INDEX(0), lanes, room])
    else:
        held, room = _room(module, b, called.room)
        b.call(work, [frame, INDEX(0), lanes, room])
        b.call(_libc(module, "free", ir.VoidType(), [POINTER]), [held])
    b.ret(_null())
    b.position_at_end(many)
    _share_out(module, function, b, frame, lanes, task, called.at_once)
    return function.name


def _room(module: ir.Module, b: ir.IRBuilder, size: int) -> tuple[ir.Value, ir.Value]:
    """Memory, as it is to be given back and as it is to be used."""
    held = b.call(_libc(module, "malloc", POINTER, [INDEX]), [INDEX(size + _ALIGNED)])
    number = b.and_(b.ptrtoint(_at(b, held, _ALIGNED), INDEX), INDEX(-_ALIGNED))
    return held, b.inttoptr(number, POINTER)


def _work(module: ir.Module, called: Called) -> ir.Function:
    """work(frame, first lane, last lane, room)"""
    sample = called.function
    kind = ir.FunctionType(ir.VoidType(), [POINTER, INDEX, INDEX, POINTER])
    function = ir.Function(module, kind, sample.name + "_work")
    function.linkage = "internal"
    frame, first, last, room = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    given: list[ir.Value] = []
    offsets = (_Frame.arguments, called.arguments), (_Frame.results, called.results)
    for offset, count in offsets:
        table = _load(b, frame, offset, POINTER)
        for k in range(count):
            buffer = _load(b, table, 8 * k, POINTER)
            given += [_load(b, buffer, _Buffer.data, POINTER), _last_dimension(b, buffer)]
    loop, after = function.append_basic_block("loop"), function.append_basic_block("after")
    before = b.block
    b.cbranch(b.icmp_signed("<", first, last), loop, after)
    b.position_at_end(loop)
    lane = b.phi(INDEX)
    lane.add_incoming(first, before)
    following = b.add(lane, INDEX(called.block))
    stop = b.select(b.icmp_signed("<", following, last), following, last)
    b.call(sample, [lane, b.sub(stop, lane), room, *given])
    lane.add_incoming(following, loop)
    b.cbranch(b.icmp_signed("<", following, last), loop, after)
    b.position_at_end(after)
    b.ret_void()
    return function


def _task(module: ir.Module, work: ir.Function, called: Called) -> ir.Function:
    """task(state): takes blocks of lanes until there are none; the last to leave frees it."""
    free = _libc(module, "free", ir.VoidType(), [POINTER])
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), work.name + "_task")
    function.linkage = "internal"
    (state,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    take, run, left, last, end = (
        function.append_basic_block(name) for name in ("take", "run", "left", "last", "end")
    )
    lanes, step = (_load(b, state, at, INDEX) for at in (_State.lanes, _State.step))
    held, room = _room(module, b, called.room) if called.room else (None, _null())
    b.branch(take)
    b.position_at_end(take)
    first = b.atomic_rmw("add", _at(b, state, _State.next), step, "monotonic")
    b.cbranch(b.icmp_signed("<", first, lanes), run, left)
    b.position_at_end(run)
    # Only who has got a block may look at the frame: it lives until all are done.
    frame = _load(b, state, _State.frame, POINTER)
    beyond = b.add(first, step)
    stop = b.select(b.icmp_signed("<", beyond, lanes), beyond, lanes)
    b.call(work, [frame, first, stop, room])
    b.atomic_rmw("add", _at(b, state, _State.done), b.sub(stop, first), "release")
    b.branch(take)
    b.position_at_end(left)
    if held is not None:
        b.call(free, [held])
    users = b.atomic_rmw("sub", _at(b, state, _State.users), INDEX(1), "acq_rel")
    b.cbranch(b.icmp_signed("==", users, INDEX(1)), last, end)
    b.position_at_end(last)
    b.call(free, [state])
    b.branch(end)
    b.position_at_end(end)
    b.ret_void()
    return function


def _share_out(
    module: ir.Module,
    function: ir.Function,
    b: ir.IRBuilder,
    frame: ir.Value,
    lanes: ir.Value,
    task: ir.Function,
    at_once: int,
) -> None:
    """Puts as many tasks into XLA's pool as it has other threads, does the same work here, and
    waits until all lanes are done, not until all tasks have begun."""
    malloc = _libc(module, "malloc", POINTER, [INDEX])
    api, context = _load(b, frame, _Frame.api, POINTER), _load(b, frame, _Frame.context, POINTER)
    counted = _schedule_arguments(b, 32, context)
    number = opaque(b.alloca(INDEX))
    b.store(INDEX(1), number)
    b.store(number, _at(b, counted, 24))
    function_pointer = _FunctionPointer(ir.FunctionType(POINTER, [POINTER]))
    b.call(_load(b, api, _Api.threads, function_pointer), [counted])
    threads = b.load(number, typ=INDEX)
    threads = b.select(b.icmp_signed("<", threads, INDEX(1)), INDEX(1), threads)
    # More than there are processors would only push each other's tables out of the caches.
    cores = INDEX(usable_cores())
    threads = b.select(b.icmp_signed("<", threads, cores), threads, cores)
    # Full blocks are quickest, but every thread should have one.
    step = b.sdiv(b.add(lanes, b.sub(threads, INDEX(1))), threads)
    step = b.and_(b.add(step, INDEX(_BLOCK - 1)), INDEX(-_BLOCK))
    step = b.select(b.icmp_signed("<", step, INDEX(at_once)), step, INDEX(at_once))
    blocks = b.sdiv(b.add(lanes, b.sub(step, INDEX(1))), step)
    threads = b.select(b.icmp_signed("<", blocks, threads), blocks, threads)

    state = b.call(malloc, [INDEX(_State.size)])
    b.store(frame, _at(b, state, _State.frame))
    b.store(INDEX(0), _at(b, state, _State.next))
    b.store(INDEX(0), _at(b, state, _State.done))
    # One more for this thread, which looks at the state to the end.
    b.store(b.add(threads, INDEX(1)), _at(b, state, _State.users))
    b.store(lanes, _at(b, state, _State.lanes))
    b.store(step, _at(b, state, _State.step))
    ask = _schedule_arguments(b, 40, context)
    task.type = _FunctionPointer(task.function_type)
    b.store(task, _at(b, ask, 24))
    b.store(state, _at(b, ask, 32))
    schedule = _load(b, api, _Api.schedule, function_pointer)
    loop, put, own, wait, check = (
        function.append_basic_block(n) for n in ("loop", "put", "own", "wait", "check")
    )
    before = b.block
    b.branch(loop)
    b.position_at_end(loop)
    k = b.phi(INDEX)
    k.add_incoming(INDEX(1), before)
    b.cbranch(b.icmp_signed("<", k, threads), put, own)
    b.position_at_end(put)
    failed = b.call(schedule, [ask])
    # A task that the pool does not take is no longer awaited; its error is not needed.
    lost, kept = function.append_basic_block("lost"), function.append_basic_block("kept")
    b.cbranch(b.icmp_unsigned("!=", failed, _null()), lost, kept)
    b.position_at_end(lost)
    b.atomic_rmw("sub", _at(b, state, _State.users), INDEX(1), "monotonic")
    b.branch(kept)
    b.position_at_end(kept)
    k.add_incoming(b.add(k, INDEX(1)), kept)
    b.branch(loop)

    b.position_at_end(own)
    b.call(task, [state])
    b.branch(wait)
    b.position_at_end(wait)
    done = b.load_atomic(_at(b, state, _State.done), "acquire", 8, typ=INDEX)
    b.cbranch(b.icmp_signed("<", done, lanes), wait, check)
    b.position_at_end(check)
    users = b.atomic_rmw("sub", _at(b, state, _State.users), INDEX(1), "acq_rel")
    last, end = function.append_basic_block("last"), function.append_basic_block("end")
    b.cbranch(b.icmp_signed("==", users, INDEX(1)), last, end)
    b.position_at_end(last)
    b.call(_libc(module, "free", ir.VoidType(), [POINTER]), [state])
    b.branch(end)
    b.position_at_end(end)
    b.ret(_null())


def _schedule_arguments(b: ir.IRBuilder, size: int, context: ir.Value) -> ir.Value:
    """A structure of the interface: size, extension, context, and what follows."""
    found = opaque(b.alloca(ir.ArrayType(INDEX, size // 8)))
    b.store(INDEX(size), _at(b, found, 0))
    b.store(_null(), _at(b, found, 8))
    b.store(context, _at(b, found, 16))
    return found


class _FunctionPointer(ir.PointerType):
    """To a function whose address is known only when the code runs."""

    def __init__(self, pointee: ir.FunctionType) -> None:
        super().__init__()
        self.pointee = pointee


def _null() -> ir.Constant:
    return ir.Constant(POINTER, None)


def _at(b: ir.IRBuilder, pointer: ir.Value, offset: int) -> ir.Value:
    return b.gep(pointer, [INDEX(offset)], source_etype=_BYTE)


def _load(b: ir.IRBuilder, pointer: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
    return b.load(_at(b, pointer, offset), typ=kind)


def _last_dimension(b: ir.IRBuilder, buffer: ir.Value) -> ir.Value:
    rank, dims = _load(b, buffer, _Buffer.rank, INDEX), _load(b, buffer, _Buffer.dims, POINTER)
    at = b.gep(dims, [b.sub(rank, INDEX(1))], source_etype=INDEX)
    return b.load(at, typ=INDEX)


def _libc(module: ir.Module, name: str, result: ir.Type, arguments: list) -> ir.Function:
    found = module.globals.get(name)
    return found or ir.Function(module, ir.FunctionType(result, arguments), name)
