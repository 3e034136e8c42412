# SPDX-License-Identifier: Apache-2.0
"""Values at compile time (specification, sections 8 and 18.1): folding of operators, casts and slices."""

from __future__ import annotations

import operator
from collections.abc import Callable

from detour.p4 import core
from detour.p4.types import INTEGER, Bits, Tuple, Type, underlying

MAX_WIDTH = 2048
"""Widest number that the compiler handles, as in p4c."""


def wrap(value: int, kind: Bits) -> int:
    """The number that the lowest bits of `value` are in the type."""
    if kind.width == 0:
        return 0
    value &= (1 << kind.width) - 1
    return value - (1 << kind.width) if kind.signed and value >> (kind.width - 1) else value


def limits(kind: Bits) -> tuple[int, int]:
    """Smallest and largest number of the type."""
    if kind.signed:
        return -(1 << kind.width - 1), (1 << kind.width - 1) - 1
    return 0, (1 << kind.width) - 1


def saturate(value: int, kind: Bits) -> int:
    low, high = limits(kind)
    return min(max(value, low), high)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


def arithmetic(sign: str, left: int, right: int, kind: Type) -> int:
    """Value of a binary operator on two numbers of one type."""
    if sign in ("|+|", "|-|"):
        assert isinstance(kind, Bits)
        return saturate(left + right if sign == "|+|" else left - right, kind)
    value = ARITHMETIC[sign](left, right)
    return wrap(value, kind) if isinstance(kind, Bits) else value


def shift(sign: str, left: int, amount: int, kind: Type) -> int:
    """Value of a shift; an amount beyond the width is as good as the width."""
    if isinstance(kind, Bits):
        amount = min(amount, kind.width)
        return wrap(left << amount if sign == "<<" else left >> amount, kind)
    return left << amount if sign == "<<" else left >> amount


def concatenate(left: core.Literal, right: core.Literal, kind: Bits) -> int:
    """The bits of both numbers, as a number of the type."""
    width = right.type.width  # type: ignore[attr-defined]
    return wrap((int(left.value) << width) | (int(right.value) & ((1 << width) - 1)), kind)


def value_of(expression: core.Expression) -> object:
    """Value of a constant as plain data, for comparisons: int, bool, str, or tuples. None: not known."""
    kind = type(expression)
    if kind is core.Literal:
        return expression.value  # type: ignore[attr-defined]
    if kind is core.EnumMember:
        member: core.EnumMember = expression  # type: ignore[assignment]
        return member.name if member.value is None else member.value
    if kind is core.TupleValue:
        return _all(tuple(map(value_of, expression.elements)))  # type: ignore[attr-defined]
    if kind is core.StructValue:
        fields = sorted(expression.fields, key=operator.itemgetter(0))  # type: ignore[attr-defined]
        return _all(tuple(value_of(value) for _, value in fields))
    if kind is core.InvalidHeader:
        return "{#}"
    return None


def _all(values: tuple[object, ...]) -> tuple[object, ...] | None:
    return None if None in values else values


def is_local_constant(expression: core.Expression) -> bool:
    """Whether the value is known where the expression stands (18.1): constants are folded already."""
    return value_of(expression) is not None


def is_known(expression: core.Expression) -> bool:
    """Whether the value is known once constructor parameters are (18.1)."""
    return IS_KNOWN.get(type(expression), _no)(expression)


def _yes(_: core.Expression) -> bool:
    return True


def _no(_: core.Expression) -> bool:
    return False


def _reference(expression: core.Ref) -> bool:
    declaration = expression.declaration
    if isinstance(declaration, core.Variable):
        return declaration.is_parameter and not declaration.direction
    return isinstance(declaration, core.Constant | core.Instance)


def _parts(*names: str) -> Callable[[core.Expression], bool]:
    def known(expression: core.Expression) -> bool:
        return all(is_known(getattr(expression, name)) for name in names)

    return known


IS_KNOWN: dict[type, Callable] = {
    core.Literal: _yes,
    core.EnumMember: _yes,
    core.InvalidHeader: _yes,
    core.Anything: _yes,
    core.Construct: _yes,
    core.Ref: _reference,
    core.Member: _parts("base"),
    core.Index: _parts("base", "index"),
    core.Slice: _parts("base", "low"),
    core.Unary: _parts("operand"),
    core.Cast: _parts("operand"),
    core.Binary: _parts("left", "right"),
    core.Conditional: _parts("condition", "yes", "no"),
    core.MaskSet: _parts("value", "mask"),
    core.RangeSet: _parts("low", "high"),
    core.TupleValue: lambda expression: all(map(is_known, expression.elements)),
    core.StructValue: lambda expression: all(is_known(value) for _, value in expression.fields),
}


def as_integer(expression: core.Expression) -> int | None:
    """The number that the expression is known to be."""
    kind = type(expression)
    if kind is core.Literal:
        value = expression.value  # type: ignore[attr-defined]
        return value if type(value) is int else None
    return expression.value if kind is core.EnumMember else None  # type: ignore[attr-defined]


def has_unsized(kind: Type) -> bool:
    """Whether the type is `int`, or a tuple or anonymous structure with one inside."""
    if kind == INTEGER:
        return True
    if isinstance(kind, Tuple):
        return any(map(has_unsized, kind.elements))
    fields = getattr(kind, "fields", ()) if getattr(kind, "name", None) == "" else ()
    return any(has_unsized(part.type) for part in fields)


def is_number(kind: Type) -> bool:
    """Whether the type is numeric (7.3): `int`, `bit<w>`, `int<w>` or an enum with values."""
    return kind == INTEGER or isinstance(underlying(kind), Bits)
