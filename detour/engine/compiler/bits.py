# SPDX-License-Identifier: Apache-2.0
"""Bit positions on the wire: taking fields out of packets and putting them into buffers.

Fields are loaded from the bytes that they touch, swapped and shifted. Neighbours are joined into words before they are
stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from detour.engine.compiler.context import FunctionContext, HeaderRef
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.model import FieldSpec
from detour.engine.compiler.runtime import runtime

_WORD_BITS = 64


def take(f: Function, base: str, bit: int, bits: int) -> Value:
    """`bits` bits at bit position `bit` behind `base`, most significant first."""
    first, last = bit // 8, (bit + bits - 1) // 8
    v = f.swap_bytes(f.load(8 * (last - first + 1), f.at(base, first)))
    return f.resize(f.lshr(v, 8 * (last + 1) - bit - bits), bits)


def put(f: Function, base: str, bit: int, v: Value) -> None:
    """Store a value at a bit position; bits before it in its first byte stay, those behind become 0."""
    first, phase = bit // 8, bit % 8
    size = (phase + v.bits + 7) // 8 * 8
    at = f.at(base, first)
    wide = f.shl(f.resize(v, size), size - phase - v.bits)
    if phase:
        kept = f.op("and", f.load(8, at), const(8, 0xFF00 >> phase))
        wide = f.op("or", wide, f.shl(f.resize(kept, size), size - 8))
    f.store(f.swap_bytes(wide), at)


def put_all(f: Function, base: str, bit: int, values: Iterable[Value]) -> int:
    """Store values one behind the other from a bit position, in words of 64 bits: reading a word back waits if several
    stores have written it. Return the position behind them."""
    word: Value | None = None
    start = bit
    for v in values:
        left = v.bits
        while left:
            count = min(left, _WORD_BITS - bit % _WORD_BITS)
            left, bit = left - count, bit + count
            part = f.resize(f.lshr(v, left), count)
            if word is None:
                word = part
            else:
                joined = word.bits + count
                word = f.op("or", f.shl(f.resize(word, joined), count), f.resize(part, joined))
            if bit % _WORD_BITS == 0:
                put(f, base, start, word)
                word, start = None, bit
    if word is not None:
        put(f, base, start, word)
    return bit


def field_bits(ctx: FunctionContext, ref: HeaderRef, spec: FieldSpec) -> Value:
    """A field as it is on the wire: W bits, without the extra bit of signed fields."""
    return ctx.f.resize(ctx.load_field(ref, spec), spec.bits)


def extract(ctx: FunctionContext, ref: HeaderRef, base: str, variable: Value | None) -> None:
    """Fill a header's fields from the packet at `base`; `variable` is the length of its variable field."""
    f = ctx.f
    bit = 0
    for spec in ref.type.fields:
        if spec.variable:
            assert variable is not None
            count = f.lshr(f.resize(variable, 64), 3)
            data = ctx.variable_data(ref, spec, write=True)
            if bit % 8 == 0:
                f.copy(data, f.at(base, bit // 8), count)
            else:
                f.call_void(runtime(ctx.module, "get_bits"), [data, base, const(64, bit), count])
            ctx.set_variable_bits(ref, spec, variable)
            # What follows keeps its phase, because the length is a number of bytes.
            base = f.at(base, count)
        else:
            ctx.store_field(ref, spec, f.resize(take(f, base, bit, spec.bits), spec.bits + spec.signed, True))
            bit += spec.bits
    ctx.set_valid(ref, True)


def emit(ctx: FunctionContext, ref: HeaderRef, base: str) -> Value:
    """Write a header at `base`; return its size in bytes, i64."""
    f = ctx.f
    spec = ref.type.variable
    fields = ref.type.fields
    if spec is None:
        return const(64, put_all(f, base, 0, (field_bits(ctx, ref, s) for s in fields)) // 8)
    at = fields.index(spec)
    bit = put_all(f, base, 0, (field_bits(ctx, ref, s) for s in fields[:at]))
    count = ctx.variable_bytes(ref, spec)
    put_variable(ctx, base, const(64, bit), ctx.variable_data(ref, spec), count)
    rest = f.at(base, count)
    end = put_all(f, rest, bit, (field_bits(ctx, ref, s) for s in fields[at + 1 :]))
    return f.op("add", count, const(64, end // 8))


def put_variable(ctx: FunctionContext, base: str, bit: Value, data: str, count: Value) -> None:
    """Copies whole bytes to a bit position, which must be followed by nothing yet."""
    f = ctx.f
    if bit.const is not None and bit.const % 8 == 0:
        f.copy(f.at(base, bit.const // 8), data, count)
    else:
        f.call_void(runtime(ctx.module, "put_bits"), [base, bit, data, count])
