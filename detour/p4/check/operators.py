# SPDX-License-Identifier: Apache-2.0
"""Unary and binary operators (specification, sections 8.5 to 8.12): types, implicit casts, folding."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import core, syntax
from detour.p4.check.checker import EXPRESSIONS, Checker, rule
from detour.p4.check.constants import (
    COMPARISONS,
    arithmetic,
    as_integer,
    concatenate,
    is_known,
    shift,
    value_of,
    wrap,
)
from detour.p4.check.convert import convert, fold_cast
from detour.p4.check.generics import mentions
from detour.p4.check.typenames import bits, comparable, describe
from detour.p4.source import Span
from detour.p4.types import (
    ANYTHING,
    BOOL,
    INTEGER,
    STRING,
    Bits,
    Enum,
    Extern,
    NewType,
    Record,
    Tuple,
    Type,
    TypeVariable,
)

MAX_SHIFT = 1 << 16
"""Largest amount by which an `int` is shifted: its value must stay in memory."""


def plain(value: core.Expression) -> core.Expression:
    """The value; a member of an enum with values as its number."""
    if isinstance(value.type, Enum) and value.type.base is not None:
        return fold_cast(value, value.type.base)
    return value


@rule(EXPRESSIONS, syntax.Unary)
def unary(c: Checker, node: syntax.Unary, _: Type | None) -> core.Expression:
    value = c.expression(node.operand)
    if node.operator == "!":
        if value.type != BOOL:
            c.fail(value.span, f"! needs a bool, not {describe(value.type)}", "Write a comparison, like x == 0.")
        if isinstance(value, core.Literal):
            return core.Literal(BOOL, node.span, not value.value)
        return core.Unary(BOOL, node.span, "!", value)
    value = plain(value)
    kind = value.type
    if kind == INTEGER and node.operator == "~":
        c.fail(node.span, "~ is not defined on numbers without a width", "Write the width: ~8w1.")
    if not isinstance(kind, Bits) and kind != INTEGER:
        c.fail(node.span, f"{node.operator} is not defined on {describe(kind)}")
    number = as_integer(value)
    if number is None:
        return core.Unary(kind, node.span, node.operator, value)
    number = {"-": -number, "+": number, "~": ~number}[node.operator]
    return core.Literal(kind, node.span, wrap(number, kind) if isinstance(kind, Bits) else number)


@rule(EXPRESSIONS, syntax.Binary)
def binary(c: Checker, node: syntax.Binary, _: Type | None) -> core.Expression:
    left, right = c.expression(node.left), c.expression(node.right)
    return combine(c, node.operator, left, right, node.span)


def combine(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    """A binary operator on checked operands."""
    return BINARY.get(sign, _arithmetic)(c, sign, left, right, span)


def _logic(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    for operand in (left, right):
        if operand.type != BOOL:
            c.fail(span, f"{sign} needs bool on both sides, not {describe(operand.type)}", "Compare it, like x != 0.")
    if isinstance(left, core.Literal):
        if bool(left.value) == (sign == "||"):
            return core.Literal(BOOL, span, sign == "||")
        return right
    return core.Binary(BOOL, span, sign, left, right)


def _equality(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    if left.type != right.type or _is_nameless(left):
        left, right = _same_for_equality(c, sign, left, right, span)
    kind = left.type
    if not comparable(kind):
        if mentions(kind, lambda part: isinstance(part, TypeVariable)):
            c.fail(span, f"values of the type parameter {kind} cannot be compared")
        what = "externs" if isinstance(kind, Extern) else f"values of {describe(kind)}"
        c.fail(span, f"{what} cannot be compared")
    one, other = value_of(left), value_of(right)
    if one is not None and other is not None:
        return core.Literal(BOOL, span, COMPARISONS[sign](one, other))
    return core.Binary(BOOL, span, sign, left, right)


def _same_for_equality(
    c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span
) -> tuple[core.Expression, core.Expression]:
    if _is_nameless(left) and _is_nameless(right):
        c.fail(span, "the type of the structures does not follow from the comparison", "Write a cast: (S){...}.")
    if _is_open_value(left) and not _is_open_value(right):
        return convert(c, left, right.type, "the left side"), right
    if _is_open_value(right) and not _is_open_value(left):
        return left, convert(c, right, left.type, "the right side")
    return same_numbers(c, sign, left, right, span)


def _is_open_value(value: core.Expression) -> bool:
    """Whether the context must tell the type: a list, a structure without a name, `{#}`, `...`."""
    if isinstance(value, core.TupleValue) and isinstance(value.type, Tuple):
        return True
    return value.type == ANYTHING or _is_nameless(value)


def _is_nameless(value: core.Expression) -> bool:
    return isinstance(value.type, Record) and not value.type.name


def same_numbers(
    c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span
) -> tuple[core.Expression, core.Expression]:
    """Both operands with one type, by implicit casts."""
    if left.type != right.type or isinstance(left.type, Enum):
        left, right = plain(left), plain(right)
    if left.type == INTEGER and isinstance(right.type, Bits):
        return convert(c, left, right.type), right
    if right.type == INTEGER and isinstance(left.type, Bits):
        return left, convert(c, right, left.type)
    if left.type != right.type:
        one, other = describe(left.type), describe(right.type)
        hint = ""
        if isinstance(left.type, Bits) and isinstance(right.type, Bits):
            hint = f"Cast one of them, like ({left.type})(...)."
        elif isinstance(left.type, NewType) or isinstance(right.type, NewType):
            hint = "Cast one of them: a type declared by `type` does not mix with the type under it."
        c.fail(span, f"{sign} needs the same type on both sides, not {one} and {other}", hint)
    return left, right


def _order(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    left, right = same_numbers(c, sign, plain(left), plain(right), span)
    if not isinstance(left.type, Bits) and left.type != INTEGER:
        c.fail(span, f"{sign} is not defined on {describe(left.type)}")
    one, other = as_integer(left), as_integer(right)
    if one is not None and other is not None:
        return core.Literal(BOOL, span, COMPARISONS[sign](one, other))
    return core.Binary(BOOL, span, sign, left, right)


def _arithmetic(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    left, right = plain(left), plain(right)
    if sign in ("/", "%"):
        _check_division(c, sign, left, right, span)
    for operand in (left, right):
        if not isinstance(operand.type, Bits) and operand.type != INTEGER:
            hint = "Strings are joined by ++." if operand.type == STRING and sign == "+" else _operand_hint(operand)
            c.fail(span, f"{sign} is not defined on {describe(operand.type)}", hint)
    left, right = same_numbers(c, sign, left, right, span)
    kind = left.type
    if kind == INTEGER and sign in ("|+|", "|-|"):
        c.fail(span, f"{sign} is not defined on numbers without a width", "Write the width, like 8w1.")
    one, other = as_integer(left), as_integer(right)
    if one is not None and other is not None:
        return core.Literal(kind, span, arithmetic(sign, one, other, kind))
    return core.Binary(kind, span, sign, left, right)


def _operand_hint(operand: core.Expression) -> str:
    if isinstance(operand.type, NewType):
        return f"Cast it: ({operand.type.base})(...)."
    return "Use && and ||." if operand.type == BOOL else ""


def _check_division(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> None:
    if as_integer(right) == 0:
        c.fail(span, "division by zero")
    for operand in (left, right):
        if isinstance(operand.type, Bits) and operand.type.signed:
            c.fail(span, f"{sign} is not defined on signed numbers")
        if (as_integer(operand) or 0) < 0:
            c.fail(span, f"{sign} is not defined on negative numbers")


def _shift(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    left, right = plain(left), plain(right)
    kind = left.type
    if not isinstance(kind, Bits) and kind != INTEGER:
        c.fail(span, f"{sign} is not defined on {describe(kind)}", _operand_hint(left))
    amount = as_integer(right)
    if right.type != INTEGER and not (isinstance(right.type, Bits) and (not right.type.signed or amount is not None)):
        hint = f"Cast it: (bit<{right.type.width}>)(...)." if isinstance(right.type, Bits) else ""
        c.fail(right.span, f"a shift needs an unsigned number on its right, not {describe(right.type)}", hint)
    if amount is not None and amount < 0:
        c.fail(span, "the amount of a shift cannot be negative")
    if kind == INTEGER and not is_known(right):
        c.fail(span, "a number without a width is shifted by one that is not known at compile time", "Write the width.")
    if right.type == INTEGER and not is_known(right):
        c.fail(right.span, "a shift needs an amount with a width, or one that is known at compile time")
    number = as_integer(left)
    if isinstance(kind, Bits) and amount is not None and amount >= kind.width:
        c.warn("overflow", span, f"{kind} is shifted by {amount}: all bits are lost")
    if number is not None and amount is not None:
        if kind == INTEGER and sign == "<<" and amount > MAX_SHIFT:
            c.fail(span, f"a shift by {amount} makes a number that is too large")
        return core.Literal(kind, span, shift(sign, number, amount, kind))
    return core.Binary(kind, span, sign, left, right)


def _concatenation(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    left, right = plain(left), plain(right)
    if left.type == STRING and right.type == STRING:
        if isinstance(left, core.Literal) and isinstance(right, core.Literal):
            return core.Literal(STRING, span, str(left.value) + str(right.value))
        return core.Binary(STRING, span, sign, left, right)
    for operand in (left, right):
        if operand.type == INTEGER:
            c.fail(operand.span, "++ needs numbers with a width", "Write the width, like 8w1.")
        if not isinstance(operand.type, Bits):
            c.fail(span, f"++ is not defined on {describe(left.type)} and {describe(right.type)}")
    assert isinstance(left.type, Bits)
    assert isinstance(right.type, Bits)
    kind = bits(left.type.width + right.type.width, left.type.signed)
    if isinstance(left, core.Literal) and isinstance(right, core.Literal):
        return core.Literal(kind, span, concatenate(left, right, kind))
    return core.Binary(kind, span, sign, left, right)


BINARY: dict[str, Callable] = {
    "&&": _logic,
    "||": _logic,
    "==": _equality,
    "!=": _equality,
    "<<": _shift,
    ">>": _shift,
    "++": _concatenation,
    **dict.fromkeys(("<", "<=", ">", ">="), _order),
}


# ---------------------------------------------------------------- slices


@rule(EXPRESSIONS, syntax.Slice)
def slice_bits(c: Checker, node: syntax.Slice, _: Type | None) -> core.Expression:
    """`base[high:low]`."""
    base = plain(c.expression(node.base))
    high, low = (_bound(c, bound) for bound in (node.high, node.low))
    if high < 0 or low < 0:
        c.fail(node.span, f"the bounds of a slice cannot be negative: [{high}:{low}]")
    if high < low:
        c.fail(node.span, f"a slice is written [high:low], not [{high}:{low}]")
    return take_bits(c, base, core.Literal(INTEGER, node.low.span, low), high - low + 1, node.span)


def _bound(c: Checker, node: syntax.Expression) -> int:
    value = as_integer(c.expression(node))
    if value is None:
        c.fail(node.span, "the bounds of a slice must be numbers that are known at compile time")
    return value


@rule(EXPRESSIONS, syntax.PlusSlice)
def slice_plus(c: Checker, node: syntax.PlusSlice, _: Type | None) -> core.Expression:
    """`base[low +: width]`; `low` may be computed."""
    base = plain(c.expression(node.base))
    low, width = plain(c.expression(node.low)), _bound(c, node.width)
    number = as_integer(low)
    if number is not None and number < 0:
        c.fail(node.span, f"the lowest bit of a slice cannot be negative: {number}")
    if width <= 0:
        c.fail(node.span, f"the width of a slice must be positive, not {width}")
    if number is None and not (isinstance(low.type, Bits) and not low.type.signed):
        c.fail(low.span, f"the lowest bit of a slice must be an unsigned number, not {describe(low.type)}")
    if number is not None:
        return take_bits(c, base, core.Literal(INTEGER, low.span, number), width, node.span)
    if not isinstance(base.type, Bits):
        c.fail(node.span, f"a slice of {describe(base.type)} is not defined")
    return core.Slice(bits(width), node.span, base, low, width)


def take_bits(c: Checker, base: core.Expression, low: core.Literal, width: int, span: Span) -> core.Expression:
    """Bits of a number from a known one up."""
    start = int(low.value)
    if isinstance(base.type, Bits):
        if start + width > base.type.width:
            c.fail(span, f"bit {start + width - 1} is not in {base.type}: its bits are {base.type.width - 1} to 0")
    elif base.type != INTEGER:
        c.fail(span, f"a slice of {describe(base.type)} is not defined", _operand_hint(base))
    number = as_integer(base)
    if number is not None:
        return core.Literal(bits(width), span, (number >> start) & ((1 << width) - 1))
    return core.Slice(bits(width), span, base, low, width)
