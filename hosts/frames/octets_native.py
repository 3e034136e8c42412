# SPDX-License-Identifier: Apache-2.0
"""What Numba makes of `hosts.frames.octets`: one load or store, and a byte swap."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from detour.hosts.frames import octets


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


_native_load(octets.load16, 16, swapped=True)
_native_load(octets.load32, 32, swapped=True)
_native_load(octets.load64, 64, swapped=True)
_native_load(octets.load64le, 64, swapped=False)
_native_store(octets.store16, 16, swapped=True)
_native_store(octets.store32, 32, swapped=True)
_native_store(octets.store32le, 32, swapped=False)
_native_store(octets.store64, 64, swapped=True)
type_callable(octets.swap64)(lambda context: lambda word: types.int64)
lower_builtin(octets.swap64, types.Integer)(_lower_swap64)
