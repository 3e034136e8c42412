# SPDX-License-Identifier: Apache-2.0
"""Memory and functions by address: integers of either byte order, moving and comparing bytes, the C library.

Each exists twice: as an intrinsic for compiled code, and with ctypes for `NUMBA_DISABLE_JIT=1`. Addresses are plain
integers, values `int64` (64-bit words as their two's complement, because Numba turns a mixture of `int64` and `uint64`
into floats). Nothing here checks bounds; the callers hold the invariants.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, cast

from detour.base.arrays import CACHE_LINE
from detour.base.jit import COMPILED, Intrinsic, inner, intrinsic


def generated(arguments: int, generate: Callable[[Any, Any, list[Any]], Any], result: str = "int64") -> Any:
    """Numba's intrinsic of int64s whose code `generate(ir, builder, args)` writes."""
    from detour.base.native import numba_private

    return numba_private.intrinsic_of_numbers(arguments, generate, result)


def _address(ir: Any, builder: Any, number: Any, bits: int) -> Any:
    return builder.inttoptr(number, ir.IntType(bits).as_pointer())


def _number_by_address(
    bits: int, signed: bool = False, swapped: bool = False
) -> tuple[Callable[[int], int], Callable[[int, int], None]]:
    """`load(address)` and `store(address, value)` of one integer; `load` gives an int64. `swapped`: big-endian."""
    size, order = bits // 8, "big" if swapped else "little"

    def python_load(address: int) -> int:
        return int.from_bytes(ctypes.string_at(int(address), size), order, signed=signed)

    def python_store(address: int, value: int) -> None:
        ctypes.memmove(int(address), (int(value) & ((1 << bits) - 1)).to_bytes(size, order), size)

    def generate_load(ir: Any, builder: Any, args: Any) -> Any:
        value = builder.load(_address(ir, builder, args[0], bits), align=1)
        value = builder.bswap(value) if swapped else value
        if bits == 64:
            return value
        return builder.sext(value, ir.IntType(64)) if signed else builder.zext(value, ir.IntType(64))

    def generate_store(ir: Any, builder: Any, args: Any) -> Any:
        narrow = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
        narrow = builder.bswap(narrow) if swapped else narrow
        builder.store(narrow, _address(ir, builder, args[0], bits), align=1)

    load = intrinsic(python_load)(lambda: generated(1, generate_load))
    store = intrinsic(python_store)(lambda: generated(2, generate_store, "void"))
    return load, store


load8, store8 = _number_by_address(8)
load16, store16 = _number_by_address(16)
load32, store32 = _number_by_address(32, signed=True)
load64, store64 = _number_by_address(64, signed=True)

load16be, store16be = _number_by_address(16, swapped=True)
load32be, store32be = _number_by_address(32, swapped=True)
load64be, store64be = _number_by_address(64, signed=True, swapped=True)


def _swap64(word: int) -> int:
    return int.from_bytes((int(word) & ((1 << 64) - 1)).to_bytes(8, "big"), "little", signed=True)


@intrinsic(_swap64)
def swap64() -> Any:
    """`swap64(word)`: the 64-bit word with its bytes in the opposite order."""
    return generated(1, lambda ir, builder, args: builder.bswap(args[0]))


LONG, INT = "int64", "int32"
_C_TYPES = {LONG: ctypes.c_int64, INT: ctypes.c_int32}


def libc(name: str, result: str, *arguments: str) -> Callable[..., int]:
    """A function of the C library; pointers are int64, as their calling convention is the same."""
    if COMPILED:
        return cast("Callable[..., int]", Intrinsic(lambda: _external(name, result, *arguments)))
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = _C_TYPES[result]
    function.argtypes = [_C_TYPES[a] for a in arguments]
    return function


def _external(name: str, result: str, *arguments: str) -> Any:
    from detour.base.native import numba_private

    return numba_private.external(name, result, *arguments)


_ATOMIC = threading.Lock()


def _python_fetch_add(address: int, value: int) -> int:
    with _ATOMIC:
        before = ctypes.c_int64.from_address(int(address)).value
        ctypes.c_int64.from_address(int(address)).value = before + int(value)
    return before


@intrinsic(_python_fetch_add)
def fetch_add() -> Any:
    """`fetch_add(address, value)`: adds to an aligned int64 that threads share; returns what it was. Sequentially
    consistent."""

    def generate(ir: Any, builder: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _address(ir, builder, args[0], 64), args[1], "seq_cst")

    return generated(2, generate)


def _python_load_acquire(address: int) -> int:
    return ctypes.c_int64.from_address(int(address)).value


@intrinsic(_python_load_acquire)
def load_acquire() -> Any:
    """`load_acquire(address)`: an aligned int64 that another thread writes; what that did before is visible after."""

    def generate(ir: Any, builder: Any, args: Any) -> Any:
        return builder.load_atomic(_address(ir, builder, args[0], 64), "acquire", 8)

    return generated(1, generate)


move_bytes = libc("memmove", LONG, LONG, LONG, LONG)
set_bytes = libc("memset", LONG, LONG, INT, LONG)
compare_bytes = libc("memcmp", INT, LONG, LONG, LONG)


def _no_prefetch(address: int) -> None:
    pass


@intrinsic(_no_prefetch)
def prefetch() -> Any:
    """`prefetch(address)`: a hint that the cache line will be written soon."""

    def generate(ir: Any, builder: Any, args: Any) -> None:
        pointer, i32 = _address(ir, builder, args[0], 8), ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch.p0", (), ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        )
        write, keep, data = i32(1), i32(3), i32(1)
        builder.call(hint, [pointer, write, keep, data])

    return generated(1, generate, "void")


@inner(forceinline=True)
def prefetch_lines(address: int, size: int) -> None:
    """`prefetch` of `size` bytes."""
    for offset in range(0, size, CACHE_LINE):
        prefetch(address + offset)


_RAISED: list[Exception] = []
"""by a `callback` that was called last: ctypes would only print it"""


def callback(function: Callable[..., int], arguments: int) -> Any:
    """A Python function that can be called by address, where nothing is compiled; what it raises, its caller raises."""

    def called(*values: int) -> int:
        try:
            return function(*values)
        except Exception as error:
            _RAISED.append(error)
            return 0

    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(called)


def _call_by_address(arguments: int) -> Callable[..., int]:
    """A function `call(address, *arguments)` for native code with that many int64 arguments and an int64 result."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)

    def generate(ir: Any, builder: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(i64, [i64] * arguments)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    def python(address: int, *values: int) -> int:
        result = prototype(int(address))(*map(int, values))
        if _RAISED:
            raise _RAISED.pop()
        return result

    return intrinsic(python)(lambda: generated(1 + arguments, generate))


call2 = _call_by_address(2)
call3 = _call_by_address(3)
call4 = _call_by_address(4)
call5 = _call_by_address(5)
call6 = _call_by_address(6)
