# SPDX-License-Identifier: Apache-2.0
"""Storing into fields, variable-length fields, and whole headers: copy, reset, compare, stack shifts."""

from __future__ import annotations

from detour.engine import phv
from detour.engine.compiler.context import FunctionContext, HeaderRef, UnionRef
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.model import FieldSpec, Header, Stack, refuse


def clamp(f: Function, v: Value, signed: bool, width: int, to_signed: bool) -> Value:
    """The value, brought into the range of a number of `width` bits; it is wider than that."""
    wide = max(v.bits + (not signed), width + 1)
    x = f.resize(v, wide, signed)
    top = const(wide, (1 << (width - to_signed)) - 1)
    bottom = const(wide, -(1 << (width - 1)) if to_signed else 0)
    x = f.select(f.compare("sgt", x, top), top, x)
    return f.select(f.compare("slt", x, bottom), bottom, x)


def cut(ctx: FunctionContext, v: Value, signed: bool, spec: FieldSpec) -> Value:
    """An exact value as BMv2 stores it in a field: W bits, or W+1 if the field is signed."""
    f, w = ctx.f, spec.bits
    if spec.saturating:
        return f.resize(clamp(f, v, signed, w, spec.signed), w + spec.signed)
    if not spec.signed:
        return f.resize(v, w, signed)
    if v.bits <= w:
        return f.resize(v, w + 1, signed)
    # Values from min to 2^W - 1 stay as they are; others wrap into the signed range.
    wide = v.bits + (not signed)
    x = f.resize(v, wide, signed)
    above = f.compare("sge", x, const(wide, -(1 << (w - 1))))
    kept = f.op("and", above, f.compare("sle", x, const(wide, (1 << w) - 1)))
    return f.select(kept, f.resize(x, w + 1), f.resize(f.resize(x, w), w + 1, signed=True))


def store(ctx: FunctionContext, ref: HeaderRef, spec: FieldSpec, v: Value, signed: bool = False) -> None:
    """Assign an exact value to a field."""
    ctx.store_field(ref, spec, cut(ctx, v, signed, spec))


# -- headers


def add_header(ctx: FunctionContext, ref: HeaderRef) -> None:
    """setValid(): an invalid header becomes valid with all fields zero, and the packet longer."""

    def make() -> None:
        ctx.clear_header(ref)
        ctx.set_valid(ref, True)
        _change_length(ctx, "add", ref)

    ctx.when(ctx.f.negate(ctx.is_valid(ref)), make)


def remove_header(ctx: FunctionContext, ref: HeaderRef) -> None:
    """setInvalid()."""

    def drop() -> None:
        _change_length(ctx, "sub", ref)
        ctx.set_valid(ref, False)

    if not ref.header.metadata:
        ctx.when(ctx.is_valid(ref), drop)


def _change_length(ctx: FunctionContext, op: str, ref: HeaderRef) -> None:
    """Change the packet's length by the size of a header on the wire."""
    before, size, spec = ctx.fixed(phv.LENGTH_REGISTER), const(32, ref.type.bits // 8), ref.type.variable
    if spec is not None:
        size = ctx.f.op("add", size, ctx.f.lshr(ctx.variable_bits(ref, spec), 3))
    ctx.set_fixed(phv.LENGTH_REGISTER, ctx.f.op(op, before, size))


def assign_header(ctx: FunctionContext, dst: HeaderRef, src: HeaderRef) -> None:
    """Copies validity and, from a valid header, the fields."""
    if dst.type.name != src.type.name:
        raise refuse(f"assignment of '{src.header.name}' to '{dst.header.name}', which is of another type")
    if dst.header is src.header and dst.offset is None and src.offset is None:
        return

    def copy() -> None:
        ctx.set_valid(dst, True)
        if "standard_metadata" in (dst.header.name, src.header.name):
            for to in dst.type.fields:
                of = next(s for s in src.type.fields if s.name == to.name)
                ctx.store_field(dst, to, ctx.load_field(src, of))
            return
        ctx.copy_header(dst, src)

    ctx.when(ctx.is_valid(src), copy, lambda: ctx.set_valid(dst, False))


def assign_union(ctx: FunctionContext, dst: UnionRef, src: UnionRef) -> None:
    """Member by member, in order, as BMv2 does."""
    if len(dst) != len(src):
        raise refuse("assignment of a header union to one of another type")
    for to, of in zip(dst, src, strict=True):
        assign_header(ctx, to, of)


def assign_stack(ctx: FunctionContext, dst: Stack, src: Stack) -> None:
    """Copy all elements and `next`."""
    if dst is src:
        return
    if bool(dst.members) != bool(src.members) or len(dst.elements) != len(src.elements):
        raise refuse(f"assignment of '{src.name}' to '{dst.name}', which is of another type or size")
    ctx.set_next(dst, ctx.next_index(src))
    for to, of in zip(dst.elements, src.elements, strict=True):
        assign_union(ctx, tuple(map(ctx.ref, to)), tuple(map(ctx.ref, of)))


# -- push and pop


def push(ctx: FunctionContext, stack: Stack, count: int) -> None:
    """push_front(count): elements move back by swapping; the first ones become invalid."""
    f, size = ctx.f, len(stack.elements)
    if count == 0:
        return
    more = f.op("add", ctx.next_index(stack), const(32, min(count, size)))
    ctx.set_next(stack, f.select(f.compare("ugt", more, const(32, size)), const(32, size), more))
    for i in range(size - 1, count - 1, -1):
        _swap(ctx, stack.elements[i], stack.elements[i - count])
    _invalidate(ctx, stack, range(min(count, size)))


def pop(ctx: FunctionContext, stack: Stack, count: int) -> None:
    """pop_front(count): elements move forward; the last ones become invalid."""
    f, size = ctx.f, len(stack.elements)
    if count == 0:
        return
    have, amount = ctx.next_index(stack), const(32, min(count, size))
    ctx.set_next(stack, f.select(f.compare("ugt", have, amount), f.op("sub", have, amount), const(32, 0)))
    left = max(size - count, 0)
    for i in range(left):
        _swap(ctx, stack.elements[i], stack.elements[i + count])
    _invalidate(ctx, stack, range(left, size))


def _invalidate(ctx: FunctionContext, stack: Stack, elements: range) -> None:
    # For unions this is a no-op in BMv2 (HeaderUnion::mark_invalid), and what was popped stays valid.
    for i in elements if not stack.members else ():
        ctx.set_valid(ctx.ref(stack.elements[i][0]), False)


def _swap(ctx: FunctionContext, a: tuple[Header, ...], b: tuple[Header, ...]) -> None:
    for x, y in zip(a, b, strict=True):
        ctx.swap_headers(x, y)
    for x, y in zip(a, b, strict=True):
        ctx.swap_validity(x, y)
