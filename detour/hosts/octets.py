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
from numba.extending import intrinsic, overload


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


def copy(dst: Any, i: int, src: Any, k: int, size: int) -> None:
    """`dst[i : i + size] = src[k : k + size]`; the two must not overlap."""
    dst[i : i + size] = src[k : k + size]


def _put(buf: Any, i: int, value: int, size: int, order: Any) -> None:
    octets = (int(value) & ((1 << (8 * size)) - 1)).to_bytes(size, order)
    for k in range(size):
        buf[i + k] = octets[k]


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(bits).as_pointer())


def _swap(builder: Any, value: Any, bits: int) -> Any:
    swap = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.IntType(bits), [ir.IntType(bits)]), f"llvm.bswap.i{bits}"
    )
    return builder.call(swap, [value])


def _make_load(bits: int, swapped: bool) -> Any:
    @intrinsic
    def load(typingctx: Any, buf: Any, i: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _pointer(context, builder, signature.args[0], args[0], args[1], bits)
            value = builder.load(where)
            value.align = 1
            if swapped:
                value = _swap(builder, value, bits)
            return builder.zext(value, ir.IntType(64)) if bits < 64 else value

        return types.int64(buf, types.int64), codegen

    return load


def _make_store(bits: int, swapped: bool) -> Any:
    @intrinsic
    def store(typingctx: Any, buf: Any, i: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _pointer(context, builder, signature.args[0], args[0], args[1], bits)
            word = builder.trunc(args[2], ir.IntType(bits)) if bits < 64 else args[2]
            if swapped:
                word = _swap(builder, word, bits)
            builder.store(word, where).align = 1
            return context.get_dummy_value()

        return types.void(buf, types.int64, types.int64), codegen

    return store


def _native_load(pure: Any, bits: int, swapped: bool = True) -> None:
    """Lets compiled callers of `pure` use one load instruction instead."""
    load = _make_load(bits, swapped)
    overload(pure, strict=False)(lambda buf, i: lambda buf, i: load(buf, i))


def _native_store(pure: Any, bits: int, swapped: bool = True) -> None:
    """Lets compiled callers of `pure` use one store instruction instead."""
    store = _make_store(bits, swapped)
    overload(pure, strict=False)(lambda buf, i, value: lambda buf, i, value: store(buf, i, value))


_native_load(load16, 16)
_native_load(load32, 32)
_native_load(load64, 64)
_native_load(load64le, 64, swapped=False)
_native_store(store16, 16)
_native_store(store32, 32)
_native_store(store32le, 32, swapped=False)
_native_store(store64, 64)


@intrinsic
def _copy(typingctx: Any, dst: Any, i: Any, src: Any, k: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], args[0], args[1], 8)
        origin = _pointer(context, builder, signature.args[2], args[2], args[3], 8)
        cgutils.raw_memcpy(builder, to, origin, args[4], 1)
        return context.get_dummy_value()

    return types.void(dst, types.int64, src, types.int64, types.int64), codegen


def _use_copy(dst: Any, i: Any, src: Any, k: Any, size: Any) -> Any:
    native: Any = _copy
    return lambda dst, i, src, k, size: native(dst, i, src, k, size)


overload(copy, strict=False)(_use_copy)
