# SPDX-License-Identifier: Apache-2.0
"""Assignments of values of all types (sections 8.13 to 8.18, 12.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from detour.p4 import core, ir
from detour.p4.ir import Const, Value
from detour.p4.lower import operators
from detour.p4.lower.compare import part
from detour.p4.lower.context import Context, as_value, executes
from detour.p4.lower.effects import has_effects
from detour.p4.lower.places import (
    SCALARS,
    Aggregate,
    HeaderPlace,
    Operand,
    Place,
    RecordPlace,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_field,
    last_element,
    leaves,
    members,
    union_element,
)
from detour.p4.types import Bits, Record, Stack, Tuple, Type, underlying


@executes(core.Assign)
def _assign_statement(ctx: Context, s: core.Assign) -> None:
    if type(s.target) is core.Slice:
        _assign_slice(ctx, s.target, s.value)
        return
    target = ctx.locate(s.target)
    if has_effects(s.value):
        target = frozen(ctx, target)
    assign(ctx, target, ctx.evaluate(s.value))


def assign(ctx: Context, target: Place, value: Operand) -> None:
    """Assigns a value that was evaluated before to a place."""
    if isinstance(target, ScalarPlace):
        ctx.store(target, as_value(ctx, value))
    elif isinstance(target, HeaderPlace):
        _assign_header(ctx, target, value)
    elif isinstance(target, RecordPlace):
        if isinstance(value, Aggregate):
            value = _apart(ctx, target, value)
        for name, inner in target.fields.items():
            assign(ctx, inner, part(ctx, value, name))
    elif isinstance(target, UnionPlace):
        _assign_union(ctx, target, value)
    else:
        assert isinstance(target, StackPlace)
        _assign_stack(ctx, target, value)


def _assign_header(ctx: Context, target: HeaderPlace, value: Operand) -> None:
    if isinstance(value, HeaderPlace):
        if value.ref != target.ref:
            ctx.call("assign_header", header_ref(target), header_ref(value))
    elif isinstance(value, Aggregate) and value.valid:
        value = _apart(ctx, target, value)
        ctx.call("add_header", header_ref(target))
        ctx.written(target)
        for name, inner in value.parts.items():
            assign(ctx, header_field(target, name), inner)
        return
    else:
        ctx.call("remove_header", header_ref(target))
    ctx.written(target)


def header_ref(place: HeaderPlace) -> Value:
    """A header as an argument of a primitive."""
    if type(place.ref) is ir.LastField:
        return last_element(place.ref)
    return place.ref


def _assign_union(ctx: Context, target: UnionPlace, value: Operand) -> None:
    if isinstance(value, UnionPlace):
        if value.ref == target.ref:
            return
        for name, member in target.members.items():
            ctx.call("assign_header", header_ref(member), header_ref(value.members[name]))
    else:
        for member in target.members.values():
            ctx.call("remove_header", header_ref(member))
    ctx.written(target)


def _assign_stack(ctx: Context, target: StackPlace, value: Operand) -> None:
    if isinstance(value, StackPlace):
        if value.name != target.name:
            unions = isinstance(target.elements[0], UnionPlace)
            ctx.call("assign_union_stack" if unions else "assign_header_stack", target.ref, value.ref)
            ctx.written(target)
        return
    assert isinstance(value, Aggregate)
    value = _apart(ctx, target, value)
    for number, element in enumerate(target.elements):
        assign(ctx, element, part(ctx, value, str(number)))


def _apart(ctx: Context, target: Place, value: Aggregate) -> Aggregate:
    """The value, with parts that depend on the target in temporaries: the target is written part by part."""
    return _without(ctx, value, Touched([target]))


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
                target = leaf.ref if isinstance(leaf, HeaderPlace) else leaf.value
                if type(target) is ir.Named:
                    self.headers.add(target.name)
                elif type(target) is ir.Field:
                    self.fields.add(target)
                else:
                    self.anything = True
        names = self.headers | {each.header for each in self.fields} - {SCALARS}
        self.names = names | {name.partition("[")[0] for name in names} | {name.rpartition(".")[0] for name in names}
        """Headers of which something is written, and the stacks and unions that they are in."""

    def changes(self, operand: Operand) -> bool:
        """Whether a value may depend on what is written."""
        if isinstance(operand, Aggregate):
            return any(map(self.changes, operand.parts.values()))
        if isinstance(operand, Value):
            return any(map(self._changes, ir.parts(operand)))
        references = (leaf.ref if isinstance(leaf, HeaderPlace) else leaf.value for leaf in leaves(operand))
        return any(self._changes(each) for reference in references for each in ir.parts(reference))

    def _changes(self, value: Value) -> bool:
        if type(value) is ir.Field:
            return value in self.fields or value.header in self.headers or (self.anything and value.header != SCALARS)
        if type(value) is ir.Named:
            return self.anything or value.name in self.names
        return type(value) is ir.LastField and (self.anything or value.stack in self.names)


def _without(ctx: Context, value: Aggregate, touched: Touched) -> Aggregate:
    parts: dict[str, Operand] = {}
    for name, inner in value.parts.items():
        if isinstance(inner, Aggregate):
            parts[name] = _without(ctx, inner, touched)
        elif touched.changes(inner):
            copy = ctx.temporary(inner.type if isinstance(inner, Place) else _part_type(value, name))
            assign(ctx, copy, inner)
            parts[name] = ctx.read(copy) if isinstance(copy, ScalarPlace) else copy
        else:
            parts[name] = inner
    return Aggregate(value.type, parts, value.valid)


def _part_type(value: Aggregate, name: str) -> Type:
    if isinstance(value.type, Record):
        return next(part.type for part in value.type.fields if part.name == name)
    if isinstance(value.type, Stack):
        return value.type.element
    assert isinstance(value.type, Tuple)
    return dict(members(value.type))[name]


def _assign_slice(ctx: Context, target: core.Slice, expression: core.Expression) -> None:
    write = slice_writer(ctx, target)
    new = ctx.value(expression)
    write(operators.convert(new, expression.type, Bits(target.width)))


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
    if isinstance(place, ScalarPlace):
        value = _frozen_value(ctx, place.value)
        return place if value is place.value else ScalarPlace(place.type, place.path, value)
    if isinstance(place, HeaderPlace):
        ref = _frozen_value(ctx, place.ref)
        return place if ref is place.ref else HeaderPlace(place.type, place.path, ref)
    if isinstance(place, UnionPlace) and type(place.ref) is ir.Op:
        return union_element(place, place.path, _frozen_value(ctx, place.ref))
    return place


def _frozen_value(ctx: Context, value: Value) -> Value:
    """A reference to a header or field with its indexes in temporaries."""
    if type(value) is not ir.Op:
        return value
    if value.operator in ("dereference_header_stack", "dereference_union_stack"):
        assert isinstance(value.right, Value)
        if type(value.right) is Const:
            return value
        index = ctx.temporary(Bits(32), "index")
        assert isinstance(index, ScalarPlace)
        ctx.store(index, value.right)
        return ir.Op(value.operator, value.left, index.value)
    assert value.left is not None
    inner = _frozen_value(ctx, value.left)
    return value if inner is value.left else ir.Op(value.operator, inner, value.right)
