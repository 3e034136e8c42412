# SPDX-License-Identifier: Apache-2.0
"""Memory and functions by address: integers of either byte order, moving and comparing bytes, the C library.

Each exists twice: as an intrinsic for compiled code, and with ctypes for `NUMBA_DISABLE_JIT=1`. Addresses are plain
integers, values `int64` (64-bit words as their two's complement, because Numba turns a mixture of `int64` and `uint64`
into floats). Nothing here checks bounds; the callers hold the invariants.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from detour.base.arrays import CACHE_LINE
from detour.base.jit import inner
from detour.base.pointers import COMPILED

_I64 = ir.IntType(64)


def _python_numbers(c_type: Any, swapped: bool) -> tuple[Any, Any]:
    size, signed = ctypes.sizeof(c_type), c_type in (ctypes.c_int32, ctypes.c_int64)
    order: Any = "big" if swapped else "little"

    def load(address: int) -> int:
        return int.from_bytes(ctypes.string_at(int(address), size), order, signed=signed)

    def store(address: int, value: int) -> None:
        low = int(value) & ((1 << 8 * size) - 1)
        ctypes.memmove(int(address), low.to_bytes(size, order), size)

    return load, store


def _number_by_address(c_type: Any, numba_type: Any, bits: int, swapped: bool = False) -> tuple[Any, Any]:
    """`load(address)` and `store(address, value)` of one integer; `load` gives an int64. `swapped`: big-endian."""
    if not COMPILED:
        return _python_numbers(c_type, swapped)
    llvm_type = ir.IntType(bits)

    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], llvm_type.as_pointer()), align=1)
            if swapped:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, _I64) if numba_type.signed else builder.zext(value, _I64)

        return types.int64(types.int64), codegen

    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            narrow = args[1] if bits == 64 else builder.trunc(args[1], llvm_type)
            if swapped:
                narrow = builder.bswap(narrow)
            builder.store(narrow, builder.inttoptr(args[0], llvm_type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return load, store


load8, store8 = _number_by_address(ctypes.c_uint8, types.uint8, 8)
load16, store16 = _number_by_address(ctypes.c_uint16, types.uint16, 16)
load32, store32 = _number_by_address(ctypes.c_int32, types.int32, 32)
load64, store64 = _number_by_address(ctypes.c_int64, types.int64, 64)

load16be, store16be = _number_by_address(ctypes.c_uint16, types.uint16, 16, swapped=True)
load32be, store32be = _number_by_address(ctypes.c_uint32, types.uint32, 32, swapped=True)
load64be, store64be = _number_by_address(ctypes.c_int64, types.int64, 64, swapped=True)


def libc(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the C library; pointers are int64, as their calling convention is the same."""
    if COMPILED:
        return types.ExternalFunction(name, result(*arguments))
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    width = {types.int64: ctypes.c_int64, types.int32: ctypes.c_int32}
    function.restype = width[result]
    function.argtypes = [width[a] for a in arguments]
    return function


LONG, INT = types.int64, types.int32
move_bytes = libc("memmove", LONG, LONG, LONG, LONG)
set_bytes = libc("memset", LONG, LONG, INT, LONG)
compare_bytes = libc("memcmp", INT, LONG, LONG, LONG)


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
    for offset in range(0, size, CACHE_LINE):
        prefetch(address + offset)


def _bytes_at() -> Any:
    """`bytes_at(address, size)`: that memory as an array of uint8."""
    if not COMPILED:
        return lambda address, size: np.frombuffer((ctypes.c_char * int(size)).from_address(int(address)), np.uint8)
    kind = types.Array(types.uint8, 1, "C")

    @intrinsic
    def at(typing_context: Any, address: Any, size: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            data = builder.inttoptr(args[0], array.data.type)
            one = ir.Constant(_I64, 1)
            populate_array(array, data=data, shape=[args[1]], strides=[one], itemsize=one, meminfo=None)
            return array._getvalue()

        return kind(types.int64, types.int64), codegen

    return at


bytes_at = _bytes_at()


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
