# SPDX-License-Identifier: Apache-2.0
"""Memory by address: integers of either byte order, moving and comparing bytes, functions of the C library.

Each exists twice: as an intrinsic for compiled code, and with ctypes for `NUMBA_DISABLE_JIT=1`. Addresses are plain
integers, values `int64` (64-bit words as their two's complement, because Numba turns a mixture of `int64` and `uint64`
into floats). Nothing here checks bounds; the callers hold the invariants.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
