# SPDX-License-Identifier: Apache-2.0
"""`==` of values of all types (section 8.9 and following)."""

from __future__ import annotations

from detour.p4 import ir
from detour.p4.ir import Truth, Value
from detour.p4.lower import operators
from detour.p4.lower.context import Context
from detour.p4.lower.places import (
    Aggregate,
    HeaderPlace,
    Operand,
    RecordPlace,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_field,
    members,
    validity,
)
from detour.p4.types import BOOL, Header, Stack, Struct, Tuple, Type, Union, underlying


def equal(ctx: Context, kind: Type, left: Operand, right: Operand) -> Value:
    """A condition: whether two values of a type are equal."""
    if isinstance(kind, Struct | Tuple):
        same: Value = Truth(True)
        for name, inner in members(kind):
            same = operators.both(same, equal(ctx, inner, part(ctx, left, name), part(ctx, right, name)))
        return same
    if isinstance(kind, Header):
        return _equal_headers(ctx, kind, left, right)
    if isinstance(kind, Union):
        return _all_equal(ctx, [(p.type, part(ctx, left, p.name), part(ctx, right, p.name)) for p in kind.fields])
    if isinstance(kind, Stack):
        pairs = [(kind.element, part(ctx, left, str(i)), part(ctx, right, str(i))) for i in range(kind.size)]
        return _all_equal(ctx, pairs)
    a, b = _scalar(ctx, left), _scalar(ctx, right)
    if underlying(kind) == BOOL:
        return operators.same_truth(a, b, equal=True)
    return operators.compare("==", a, b)


def _all_equal(ctx: Context, pairs: list[tuple[Type, Operand, Operand]]) -> Value:
    same: Value = Truth(True)
    for kind, left, right in pairs:
        same = operators.both(same, equal(ctx, kind, left, right))
    return same


def _equal_headers(ctx: Context, kind: Header, left: Operand, right: Operand) -> Value:
    """Both are invalid, or both are valid and have the same fields."""
    a, b = header_validity(left), header_validity(right)
    neither = operators.both(operators.invert(a), operators.invert(b))
    same = operators.both(a, b)
    if not (isinstance(same, Truth) and not same.value):
        for field in kind.fields:
            same = operators.both(
                same, equal(ctx, field.type, part(ctx, left, field.name), part(ctx, right, field.name))
            )
    return operators.either(neither, same)


def header_validity(operand: Operand) -> Value:
    if isinstance(operand, Aggregate):
        return Truth(operand.valid)
    assert isinstance(operand, HeaderPlace)
    return validity(operand)


def union_validity(place: UnionPlace) -> Value:
    if type(place.ref) is ir.Named and place.ref.kind == "header_union":
        return ir.Op("valid_union", None, place.ref)
    valid: Value = Truth(False)
    for member in place.members.values():
        valid = operators.either(valid, validity(member))
    return valid


def part(ctx: Context, operand: Operand, name: str) -> Operand:
    """A part of a value, by its name or number."""
    if isinstance(operand, Aggregate):
        return operand.parts[name]
    if isinstance(operand, RecordPlace):
        return operand.fields[name]
    if isinstance(operand, HeaderPlace):
        return header_field(operand, name)
    if isinstance(operand, UnionPlace):
        return operand.members[name]
    assert isinstance(operand, StackPlace), operand
    return operand.elements[int(name)]


def _scalar(ctx: Context, operand: Operand) -> Value:
    if isinstance(operand, ScalarPlace):
        return ctx.read(operand)
    assert isinstance(operand, Value), operand
    return operand
