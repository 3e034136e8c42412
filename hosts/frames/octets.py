# SPDX-License-Identifier: Apache-2.0
"""Unaligned loads and stores of network-order integers in a `uint8` array, one machine instruction each.

Plain functions in Python; where Numba compiles the caller, LLVM loads and byte swaps. Values are `int64`
(64-bit words as their two's complement), because Numba turns a mixture of `int64` and `uint64` into floats.
Indices must be valid: there is no bounds check, as everywhere in native code.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable


def load16(buf: Any, i: int) -> int:
    """Big-endian 16-bit number at `buf[i:]`."""
    return (int(buf[i]) << 8) | int(buf[i + 1])


def load32(buf: Any, i: int) -> int:
    """Big-endian 32-bit number at `buf[i:]`."""
    return int.from_bytes(buf[i : i + 4].tobytes(), "big")


def load64(buf: Any, i: int) -> int:
    """Big-endian 64-bit word at `buf[i:]`, as a signed number."""
    return int.from_bytes(buf[i : i + 8].tobytes(), "big", signed=True)


def load64le(buf: Any, i: int) -> int:
    """Little-endian 64-bit word at `buf[i:]`, as a signed number."""
    return int.from_bytes(buf[i : i + 8].tobytes(), "little", signed=True)


def store16(buf: Any, i: int, value: int) -> None:
    """Write the low 16 bits of `value` at `buf[i:]`, big-endian."""
    _put(buf, i, value, 2, "big")


def store32(buf: Any, i: int, value: int) -> None:
    """Write the low 32 bits of `value` at `buf[i:]`, big-endian."""
    _put(buf, i, value, 4, "big")


def store32le(buf: Any, i: int, value: int) -> None:
    """Write the low 32 bits of `value` at `buf[i:]`, little-endian."""
    _put(buf, i, value, 4, "little")


def store64(buf: Any, i: int, value: int) -> None:
    """Write `value` at `buf[i:]`, big-endian."""
    _put(buf, i, value, 8, "big")


def swap64(word: int) -> int:
    """The 64-bit word with its bytes in the opposite order."""
    return int.from_bytes((int(word) & ((1 << 64) - 1)).to_bytes(8, "big"), "little", signed=True)


def _put(buf: Any, i: int, value: int, size: int, order: Any) -> None:
    octets = (int(value) & ((1 << (8 * size)) - 1)).to_bytes(size, order)
    for k in range(size):
        buf[i + k] = octets[k]


def _pointer(context: Any, builder: Any, signature: Any, args: Any, bits: int) -> Any:
    """Address of `buf[i]` as that of a `bits` wide word."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(bits).as_pointer())


def _swapped(builder: Any, value: Any, bits: int) -> Any:
    word = ir.IntType(bits)
    swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [word]), f"llvm.bswap.i{bits}")
    return builder.call(swap, [value])


def _native_load(pure: Any, bits: int, swapped: bool) -> None:
    """Lets compiled callers of `pure` use one load instruction instead."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature, args, bits))
        value.align = 1
        if swapped:
            value = _swapped(builder, value, bits)
        return builder.zext(value, ir.IntType(64)) if bits < 64 else value

    type_callable(pure)(lambda context: lambda buf, i: types.int64)
    lower_builtin(pure, types.Array, types.Integer)(lower)


def _native_store(pure: Any, bits: int, swapped: bool) -> None:
    """Lets compiled callers of `pure` use one store instruction instead."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.cast(builder, args[2], signature.args[2], types.int64)
        if bits < 64:
            word = builder.trunc(word, ir.IntType(bits))
        if swapped:
            word = _swapped(builder, word, bits)
        builder.store(word, _pointer(context, builder, signature, args, bits)).align = 1
        return context.get_dummy_value()

    type_callable(pure)(lambda context: lambda buf, i, value: types.void)
    lower_builtin(pure, types.Array, types.Integer, types.Integer)(lower)


def _lower_swap64(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _swapped(builder, context.cast(builder, args[0], signature.args[0], types.int64), 64)


_native_load(load16, 16, swapped=True)
_native_load(load32, 32, swapped=True)
_native_load(load64, 64, swapped=True)
_native_load(load64le, 64, swapped=False)
_native_store(store16, 16, swapped=True)
_native_store(store32, 32, swapped=True)
_native_store(store32le, 32, swapped=False)
_native_store(store64, 64, swapped=True)
type_callable(swap64)(lambda context: lambda word: types.int64)
lower_builtin(swap64, types.Integer)(_lower_swap64)
