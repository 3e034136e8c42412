# SPDX-License-Identifier: Apache-2.0
"""Storing into fields, variable-length fields, and whole headers: copy, reset, compare, stack shifts."""

from __future__ import annotations

from detour.engine import phv
from detour.engine.compiler.context import FunctionContext, HeaderRef, UnionRef
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.model import FieldSpec, Stack, UnionStack, refuse
from detour.engine.compiler.runtime import runtime


def cut(ctx: FunctionContext, v: Value, signed: bool, spec: FieldSpec) -> Value:
    """An exact value as BMv2 stores it in a field: W bits, or W+1 if the field is signed."""
    f, w = ctx.f, spec.bits
    if spec.saturating:
        wide = max(v.bits + (not signed), w + 1)
        x = f.resize(v, wide, signed)
        top = (1 << (w - 1)) - 1 if spec.signed else (1 << w) - 1
        bottom = -(1 << (w - 1)) if spec.signed else 0
        x = f.select(f.compare("sgt", x, const(wide, top)), const(wide, top), x)
        x = f.select(f.compare("slt", x, const(wide, bottom)), const(wide, bottom), x)
        return f.resize(x, w + spec.signed)
    if not spec.signed:
        return f.resize(v, w, signed)
    if v.bits <= w:
        return f.resize(v, w + 1, signed)
    # Values from min to 2^W - 1 stay as they are; others wrap into the signed range.
    wide = v.bits + (not signed)
    x = f.resize(v, wide, signed)
    kept = f.op(
        "and",
        f.compare("sge", x, const(wide, -(1 << (w - 1)))),
        f.compare("sle", x, const(wide, (1 << w) - 1)),
    )
    return f.select(kept, f.resize(x, w + 1), f.resize(f.resize(x, w), w + 1, signed=True))


def store(ctx: FunctionContext, ref: HeaderRef, spec: FieldSpec, v: Value, signed: bool) -> None:
    """Assigns an exact value to a field."""
    ctx.store_field(ref, spec, cut(ctx, v, signed, spec))


# -- variable-length fields


def variable_bits(ctx: FunctionContext, ref: HeaderRef, spec: FieldSpec) -> Value:
    """Current length in bits, i32."""
    place = ctx.place(ref, spec)
    return ctx.inside(ref, ctx.f.load(32, ctx.address(ref, place.length), 4))


def set_variable_bits(ctx: FunctionContext, ref: HeaderRef, spec: FieldSpec, bits: Value) -> None:
    """Sets the length."""
    place = ctx.place(ref, spec)
    ctx.f.store(ctx.f.resize(bits, 32), ctx.address(ref, place.length, write=True), 4)


def variable_data(ctx: FunctionContext, ref: HeaderRef, spec: FieldSpec, write: bool = False) -> str:
    """Address of the bytes."""
    return ctx.address(ref, ctx.place(ref, spec).offset, write)


def assign_variable(ctx: FunctionContext, dst: HeaderRef, to: FieldSpec, src: HeaderRef, of: FieldSpec) -> None:
    """Copies length and bytes, as far as they fit."""
    bits = variable_bits(ctx, src, of)
    fits = ctx.f.compare("ule", bits, const(32, to.bits))
    bits = ctx.f.select(fits, bits, const(32, to.bits))
    count = min(to.bits, of.bits) // 8
    ctx.f.copy(variable_data(ctx, dst, to, True), variable_data(ctx, src, of), count)
    set_variable_bits(ctx, dst, to, bits)


def equal_variable(ctx: FunctionContext, a: HeaderRef, of_a: FieldSpec, b: HeaderRef, of_b: FieldSpec) -> Value:
    """BMv2 compares the values as numbers, whatever the lengths."""
    name = runtime(ctx.module, "variable_equal")
    args: list[str | Value] = []
    for ref, spec in ((a, of_a), (b, of_b)):
        bits = ctx.f.resize(variable_bits(ctx, ref, spec), 64)
        args += [variable_data(ctx, ref, spec), ctx.f.lshr(bits, 3)]
    return ctx.f.call(1, name, args)


# -- headers


def packet_bytes(ctx: FunctionContext, ref: HeaderRef) -> Value:
    """Size of a header on the wire, i32."""
    size = const(32, ref.type.bits // 8)
    spec = ref.type.variable
    if spec is None:
        return size
    return ctx.f.op("add", size, ctx.f.lshr(variable_bits(ctx, ref, spec), 3))


def add_header(ctx: FunctionContext, ref: HeaderRef) -> None:
    """setValid(): an invalid header becomes valid with all fields zero, and the packet longer."""

    def make() -> None:
        _reset(ctx, ref)
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


def _reset(ctx: FunctionContext, ref: HeaderRef) -> None:
    """Fields to zero; the length of a variable-length field stays, as in BMv2."""
    base, spec = ctx.layout.base[ref.header.name], ref.type.variable
    bits = variable_bits(ctx, ref, spec) if spec else None
    ctx.f.clear(ctx.address(ref, base, write=True), ctx.layout.shape(ref.type).size)
    if spec and bits:
        set_variable_bits(ctx, ref, spec, bits)


def _change_length(ctx: FunctionContext, op: str, ref: HeaderRef) -> None:
    length = ctx.f.op(op, ctx.fixed(phv.LENGTH_REGISTER), packet_bytes(ctx, ref))
    ctx.set_fixed(phv.LENGTH_REGISTER, length)


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
        base_to, base_of = (ctx.layout.base[r.header.name] for r in (dst, src))
        size = ctx.layout.shape(dst.type).size
        ctx.f.copy(ctx.address(dst, base_to, write=True), ctx.address(src, base_of), size)

    ctx.when(ctx.is_valid(src), copy, lambda: ctx.set_valid(dst, False))


def assign_union(ctx: FunctionContext, dst: UnionRef, src: UnionRef) -> None:
    """Member by member, in order, as BMv2 does."""
    if len(dst.members) != len(src.members):
        raise refuse("assignment of a header union to one of another type")
    for to, of in zip(dst.members, src.members, strict=True):
        assign_header(ctx, to, of)


def assign_stack(ctx: FunctionContext, dst: Stack | UnionStack, src: Stack | UnionStack) -> None:
    """Copies all elements and `next`."""
    if dst is src:
        return
    if type(dst) is not type(src) or _size(dst) != _size(src):
        raise refuse(f"assignment of '{src.name}' to '{dst.name}', which is of another type or size")
    ctx.set_next(dst, ctx.next_index(src))
    if isinstance(dst, Stack) and isinstance(src, Stack):
        for to, of in zip(dst.headers, src.headers, strict=True):
            assign_header(ctx, ctx.header(to.name), ctx.header(of.name))
    elif isinstance(dst, UnionStack) and isinstance(src, UnionStack):
        for a, b in zip(dst.unions, src.unions, strict=True):
            assign_union(ctx, ctx.union(a), ctx.union(b))


# -- push and pop


def push(ctx: FunctionContext, stack: Stack | UnionStack, count: int) -> None:
    """push_front(count): elements move back by swapping; the first ones become invalid."""
    size = _size(stack)
    if count == 0:
        return
    f = ctx.f
    more = f.op("add", ctx.next_index(stack), const(32, min(count, size)))
    ctx.set_next(stack, f.select(f.compare("ugt", more, const(32, size)), const(32, size), more))
    for i in range(size - 1, count - 1, -1):
        _swap(ctx, stack, i, i - count)
    _invalidate(ctx, stack, range(min(count, size)))


def pop(ctx: FunctionContext, stack: Stack | UnionStack, count: int) -> None:
    """pop_front(count): elements move forward; the last ones become invalid."""
    size = _size(stack)
    if count == 0:
        return
    f = ctx.f
    have = ctx.next_index(stack)
    amount = const(32, min(count, size))
    less = f.select(f.compare("ugt", have, amount), f.op("sub", have, amount), const(32, 0))
    ctx.set_next(stack, less)
    for i in range(max(size - count, 0)):
        _swap(ctx, stack, i, i + count)
    _invalidate(ctx, stack, range(max(size - count, 0), size))


def _size(stack: Stack | UnionStack) -> int:
    return len(stack.headers if isinstance(stack, Stack) else stack.unions)


def _invalidate(ctx: FunctionContext, stack: Stack | UnionStack, elements: range) -> None:
    # For unions this is a no-op in BMv2 (HeaderUnion::mark_invalid), and what was popped stays valid.
    if isinstance(stack, Stack):
        for i in elements:
            ctx.set_valid(ctx.header(stack.headers[i].name), False)


def _swap(ctx: FunctionContext, stack: Stack | UnionStack, i: int, j: int) -> None:
    def parts(k: int) -> list[tuple[int, int]]:
        headers = (stack.headers[k],) if isinstance(stack, Stack) else stack.unions[k].headers
        lay = ctx.layout
        return [(lay.base[h.name], lay.shape(h.type).size) for h in headers] + [(lay.valid[h.name], 1) for h in headers]

    f = ctx.f
    for (a, size), (b, _) in zip(parts(i), parts(j), strict=True):
        one, two = f.at("%phv", a), f.at("%phv", b)
        if size == 1:
            x, y = f.load(8, one), f.load(8, two)
            f.store(y, one)
            f.store(x, two)
        elif size:
            spare = f.alloca(f"[{size} x i8]")
            f.copy(spare, one, size)
            f.copy(one, two, size)
            f.copy(two, spare, size)
