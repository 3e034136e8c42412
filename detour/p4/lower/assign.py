# SPDX-License-Identifier: Apache-2.0
"""Assignments of values of all types (sections 8.13 to 8.18, 12.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from detour.p4 import core, ir
from detour.p4.ir import Const, Value
from detour.p4.lower import operators
from detour.p4.lower.context import Context, executes
from detour.p4.lower.effects import has_effects
from detour.p4.lower.places import (
    SCALARS,
    Aggregate,
    HeaderPlace,
    Operand,
    Place,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_place,
    header_ref,
    leaves,
    part,
    union_element,
)
from detour.p4.types import Bits, Type, members, underlying


@executes(core.Assign)
def _assign_statement(ctx: Context, s: core.Assign) -> None:
    if type(s.target) is core.Slice:
        write = slice_writer(ctx, s.target)
        write(operators.convert(ctx.value(s.value), s.value.type, Bits(s.target.width)))
        return
    target = ctx.locate(s.target)
    if has_effects(s.value):
        target = frozen(ctx, target)
    assign(ctx, target, ctx.evaluate(s.value))


def assign(ctx: Context, target: Place, value: Operand) -> None:
    """Assign a value that was evaluated before to a place."""
    if isinstance(target, ScalarPlace):
        ctx.store(target, ctx.scalar(value))
    elif isinstance(value, Aggregate) and value.valid and not isinstance(target, UnionPlace):
        value = _without(ctx, value, Touched([target]))
        if isinstance(target, HeaderPlace):
            ctx.call("add_header", header_ref(target))
            ctx.written(target)
        for name in value.parts if isinstance(target, HeaderPlace) else target.parts:
            assign(ctx, target.parts[name], value.parts[name])
    elif isinstance(target, HeaderPlace | UnionPlace):
        _assign_headers(ctx, target, value)
    elif isinstance(target, StackPlace):
        assert isinstance(value, StackPlace)
        if value.ref != target.ref:
            unions = target.ref.kind == "header_union_stack"
            ctx.call("assign_union_stack" if unions else "assign_header_stack", target.ref, value.ref)
            ctx.written(target)
    else:
        for name, inner in target.parts.items():
            assign(ctx, inner, part(value, name))


def _assign_headers(ctx: Context, target: HeaderPlace | UnionPlace, value: Operand) -> None:
    """Assign a header or union as a whole; what is no place is invalid."""
    if isinstance(value, HeaderPlace | UnionPlace) and value.ref == target.ref:
        return
    for name, header in target.parts.items() if isinstance(target, UnionPlace) else [("", target)]:
        if isinstance(value, HeaderPlace | UnionPlace):
            source = value.parts[name] if isinstance(value, UnionPlace) else value
            ctx.call("assign_header", header_ref(header), header_ref(source))
        else:
            ctx.call("remove_header", header_ref(header))
    ctx.written(target)


class Touched:
    """Headers and fields that change when places are written."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.headers: set[str] = set()
        """Headers that are written as a whole."""
        self.fields: set[ir.Field] = set()
        self.anything = False
        """An element of a stack is written that is chosen at run time."""
        for place in places:
            for leaf in leaves(place):
                if type(leaf.ref) is ir.Named:
                    self.headers.add(leaf.ref.name)
                elif type(leaf.ref) is ir.Field:
                    self.fields.add(leaf.ref)
                else:
                    self.anything = True
        names = self.headers | {each.header for each in self.fields} - {SCALARS}
        self.names = names | {name.partition("[")[0] for name in names} | {name.rpartition(".")[0] for name in names}
        """Headers of which something is written, and the stacks and unions that they are in."""

    def changes(self, operand: Operand) -> bool:
        """Return whether a value may depend on what is written."""
        if isinstance(operand, Aggregate):
            return any(map(self.changes, operand.parts.values()))
        values = [operand] if isinstance(operand, Value) else [leaf.ref for leaf in leaves(operand)]
        return any(self._changes(each) for value in values for each in ir.parts(value))

    def _changes(self, value: Value) -> bool:
        if type(value) is ir.Field:
            return value in self.fields or value.header in self.headers or (self.anything and value.header != SCALARS)
        if type(value) is ir.Named:
            return self.anything or value.name in self.names
        return type(value) is ir.LastField and (self.anything or value.stack in self.names)


def _without(ctx: Context, value: Aggregate, touched: Touched) -> Aggregate:
    """The value, with parts that depend on what is written in temporaries: that is written part by part."""
    parts: dict[str, Operand] = {}
    for name, inner in value.parts.items():
        if isinstance(inner, Aggregate):
            inner = _without(ctx, inner, touched)
        elif touched.changes(inner):
            inner = copied(ctx, inner, inner.type if isinstance(inner, Place) else dict(members(value.type))[name])
        parts[name] = inner
    return Aggregate(value.type, parts, value.valid)


def copied(ctx: Context, operand: Operand, kind: Type, name: str = "tmp") -> Operand:
    """A value in a temporary."""
    place = ctx.temporary(kind, name)
    assign(ctx, place, operand)
    return ctx.contents(place)


def slice_writer(ctx: Context, target: core.Slice) -> Callable[[Value], None]:
    """The function that assigns to a slice, whose place is evaluated now: `x[h:l] = v` is `x = (x & ~mask) | v << l`.
    Slices of slices add up.
    """
    base = target.base
    offset = ctx.value(target.low)
    while type(base) is core.Slice:
        more = ctx.value(base.low)
        if type(more) is not Const or type(offset) is not Const:
            raise ctx.refuse(target.span, "a slice of a slice must have bounds that are known at compile time")
        offset = Const(offset.number + more.number)
        base = base.base
    place = frozen(ctx, ctx.locate(base))
    kind = underlying(place.type)
    if not isinstance(place, ScalarPlace) or type(kind) is not Bits:
        raise ctx.refuse(target.span, f"a slice of a value of type {place.type}")

    def write(new: Value) -> None:
        old = ctx.read(place)
        if type(offset) is Const:
            ctx.store(place, operators.with_piece(old, offset.number, target.width, kind, new))
            return
        ones = Const((1 << target.width) - 1, kind.width)
        hole = operators.cut(ir.Op("~", None, ir.Op("<<", ones, offset)), Bits(kind.width))
        shifted = operators.mask(ir.Op("<<", new, offset), (1 << kind.width) - 1, kind.width)
        ctx.store(place, operators.convert(ir.Op("|", ir.Op("&", old, hole), shifted), Bits(kind.width), kind))

    return write


def frozen(ctx: Context, place: Place) -> Place:
    """The place, with indexes that are computed at run time evaluated now."""
    if isinstance(place, ScalarPlace | HeaderPlace | UnionPlace) and type(place.ref) is ir.Op:
        ref = _frozen(ctx, place.ref)
        if isinstance(place, UnionPlace):
            return union_element(place, place.path, ref)
        return header_place(place.type, place.path, ref) if isinstance(place, HeaderPlace) else replace(place, ref=ref)
    return place


def _frozen(ctx: Context, value: Value) -> Value:
    """A reference to a header or field with its indexes in temporaries."""
    if type(value) is not ir.Op:
        return value
    if value.operator in ("dereference_header_stack", "dereference_union_stack"):
        assert isinstance(value.right, Value)
        if type(value.right) is Const:
            return value
        index = ctx.scalar_temporary(Bits(32), "index")
        ctx.store(index, value.right)
        return ir.Op(value.operator, value.left, index.ref)
    assert value.left is not None
    return ir.Op(value.operator, _frozen(ctx, value.left), value.right)
