# SPDX-License-Identifier: Apache-2.0
"""What plain Numba cannot say: records by address, memory by address, calls by address, libc.

Each of these exists twice: as an intrinsic for compiled code, and with ctypes for `NUMBA_DISABLE_JIT=1`.
Addresses are plain integers. Nothing here checks bounds; the callers hold the invariants.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from detour.base.pointers import COMPILED, record_by_address
from detour.base.raw import INT, LONG, libc
from detour.base.raw import load8 as load8
from detour.base.raw import load16 as load16
from detour.base.raw import load32 as load32
from detour.base.raw import load64 as load64
from detour.base.raw import move_bytes as move_bytes
from detour.base.raw import store8 as store8
from detour.base.raw import store16 as store16
from detour.base.raw import store32 as store32
from detour.base.raw import store64 as store64
from detour.engine.loop import layout
from detour.engine.loop.jit import inner
from detour.hosts.stacks import STACK

_I64 = ir.IntType(64)


global_at = record_by_address(layout.GLOBALS)
slot_at = record_by_address(layout.SLOT)
phv_at = record_by_address(layout.FIXED_PHV)
heap_at = record_by_address(layout.HEAP_ENTRY)
entity_at = record_by_address(layout.ENTITY)
node_at = record_by_address(layout.NODE)
channel_at = record_by_address(layout.CHANNEL_RECORD)
port_at = record_by_address(layout.PORT)
queue_at = record_by_address(layout.QUEUE)
switch_at = record_by_address(layout.SWITCH)
nic_at = record_by_address(layout.NIC)
io_at = record_by_address(layout.IO)
up_at = record_by_address(layout.UPCALL)
stack_at = record_by_address(STACK)


def _prefetch() -> Any:
    """`prefetch(address)`: a hint that the cache line will be written soon."""
    if not COMPILED:
        return lambda address: None

    @intrinsic
    def hint(typing_context: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            write, keep, data = i32(1), i32(3), i32(1)
            builder.call(function, [pointer, write, keep, data])
            return context.get_dummy_value()

        return types.void(types.int64), codegen

    return hint


prefetch = _prefetch()


@inner(forceinline=True)
def prefetch_lines(address: int, size: int) -> None:
    """`prefetch` of `size` bytes."""
    for offset in range(0, size, layout.CACHE_LINE):
        prefetch(address + offset)


def _highest_bit() -> Any:
    """`highest_bit(mask)`: number of the highest bit set in a positive int64."""
    if not COMPILED:
        return lambda mask: int(mask).bit_length() - 1

    @intrinsic
    def number(typing_context: Any, mask: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.sub(ir.Constant(_I64, 63), builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1)))

        return types.int64(types.int64), codegen

    return number


highest_bit = _highest_bit()


def _call_by_address(arguments: int) -> Any:
    """A function `call(address, *arguments)` for native code with that many int64 arguments and an int64 result."""
    if not COMPILED:
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        return lambda address, *values: prototype(int(address))(*map(int, values))
    function_type = ir.FunctionType(_I64, [_I64] * arguments)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.inttoptr(args[0], function_type.as_pointer()), args[1:])

    return _with_arity(arguments, generate)


def _with_arity(arguments: int, generate: Callable[..., Any]) -> Any:
    """Numba wants an intrinsic's number of parameters written out."""
    i64 = types.int64
    if arguments == 2:

        @intrinsic
        def call2(typing_context: Any, f: Any, a: Any, b: Any) -> Any:
            return i64(i64, i64, i64), generate

        return call2
    if arguments == 3:

        @intrinsic
        def call3(typing_context: Any, f: Any, a: Any, b: Any, c: Any) -> Any:
            return i64(i64, i64, i64, i64), generate

        return call3
    if arguments == 4:

        @intrinsic
        def call4(typing_context: Any, f: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
            return i64(i64, i64, i64, i64, i64), generate

        return call4

    if arguments == 5:

        @intrinsic
        def call5(typing_context: Any, f: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
            return i64(i64, i64, i64, i64, i64, i64), generate

        return call5

    @intrinsic
    def call6(typing_context: Any, f: Any, a: Any, b: Any, c: Any, d: Any, e: Any, g: Any) -> Any:
        return i64(i64, i64, i64, i64, i64, i64, i64), generate

    return call6


call2 = _call_by_address(2)
call3 = _call_by_address(3)
call4 = _call_by_address(4)
call5 = _call_by_address(5)
call6 = _call_by_address(6)


recv = libc("recv", LONG, INT, LONG, LONG, INT)
recvmsg = libc("recvmsg", LONG, INT, LONG, INT)
sendto = libc("sendto", LONG, INT, LONG, LONG, INT, LONG, INT)
read = libc("read", LONG, INT, LONG, LONG)
write = libc("write", LONG, INT, LONG, LONG)
ppoll = libc("ppoll", INT, LONG, LONG, LONG, LONG)
epoll_wait = libc("epoll_wait", INT, INT, LONG, INT, INT)
epoll_ctl = libc("epoll_ctl", INT, INT, INT, INT, LONG)
clock_gettime = libc("clock_gettime", INT, INT, LONG)


def _errno() -> Any:
    """`errno()`: why the last function of the C library failed. (Python may use errno itself, so ctypes keeps ours.)"""
    if not COMPILED:
        return ctypes.get_errno
    location = libc("__errno_location", LONG)

    @inner()
    def value() -> Any:
        return load32(location())

    return value


errno = _errno()


def timer_slack_off() -> None:
    """Lets the calling thread's sleeps end on time (Linux rounds them by 50 us otherwise)."""
    set_timer_slack = 29
    ctypes.CDLL(None).prctl(set_timer_slack, ctypes.c_ulong(1), 0, 0, 0)
