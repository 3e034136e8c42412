# SPDX-License-Identifier: Apache-2.0
"""Operators and slices (specification, sections 8.5 to 8.12): types, implicit casts, folding."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import core, syntax, types
from detour.p4.check.checker import EXPRESSIONS, Checker, rule
from detour.p4.check.constants import as_integer, fold, fold_cast, is_known, is_number
from detour.p4.check.convert import convert, is_nameless
from detour.p4.check.generics import mentions
from detour.p4.check.typenames import bits, comparable, describe
from detour.p4.source import Located, Span
from detour.p4.types import BOOL, INTEGER, STRING, Bits, Type

MAX_SHIFT = 1 << 16
"""Largest amount by which an `int` is shifted: its value must stay in memory."""

Operands = tuple[core.Expression, core.Expression]
Typed = tuple[Type, core.Expression, core.Expression]
"""The type of an operator's result, and the operands after implicit casts."""


def plain(value: core.Expression) -> core.Expression:
    """The value; a member of an enum with values as its number."""
    kind = value.type
    return fold_cast(value, kind.base) if isinstance(kind, types.Enum) and kind.base is not None else value


@rule(EXPRESSIONS, syntax.Unary)
def unary(c: Checker, node: syntax.Unary, _: Type | None) -> core.Expression:
    value = c.expression(node.operand)
    if node.operator == "!":
        if value.type != BOOL:
            c.fail(value, f"! needs a bool, not {describe(value.type)}", "Write a comparison, like x == 0.")
        return fold(core.Unary(BOOL, node.span, "!", value))
    value = plain(value)
    kind = value.type
    if kind == INTEGER and node.operator == "~":
        c.fail(node, "~ is not defined on numbers without a width", "Write the width: ~8w1.")
    if not is_number(kind):
        c.fail(node, f"{node.operator} is not defined on {describe(kind)}")
    return fold(core.Unary(kind, node.span, node.operator, value))


@rule(EXPRESSIONS, syntax.Binary)
def binary(c: Checker, node: syntax.Binary, _: Type | None) -> core.Expression:
    if node.operator in ("&&&", ".."):
        c.fail(node, "a set of values can only stand in select and in table entries")
    return combine(c, node.operator, c.expression(node.left), c.expression(node.right), node.span)


def combine(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    """A binary operator on checked operands."""
    if sign in ("&&", "||"):
        return _logic(c, sign, left, right, span)
    kind, left, right = BINARY.get(sign, _arithmetic)(c, sign, left, right, span)
    return fold(core.Binary(kind, span, sign, left, right))


def _logic(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> core.Expression:
    for operand in (left, right):
        if operand.type != BOOL:
            c.fail(span, f"{sign} needs bool on both sides, not {describe(operand.type)}", "Compare it, like x != 0.")
    if not isinstance(left, core.Literal):
        return core.Binary(BOOL, span, sign, left, right)
    return core.Literal(BOOL, span, sign == "||") if bool(left.value) == (sign == "||") else right


# ---------------------------------------------------------------- rules for operators


def _equality(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> Typed:
    if left.type != right.type or is_nameless(left.type):
        left, right = _same_for_equality(c, sign, left, right, span)
    kind = left.type
    if not comparable(kind):
        if mentions(kind, lambda part: isinstance(part, types.TypeVariable)):
            c.fail(span, f"values of the type parameter {kind} cannot be compared")
        what = "externs" if isinstance(kind, types.Extern) else f"values of {describe(kind)}"
        c.fail(span, f"{what} cannot be compared")
    return BOOL, left, right


def _same_for_equality(c: Checker, sign: str, left: core.Expression, right: core.Expression, at: Located) -> Operands:
    if is_nameless(left.type) and is_nameless(right.type):
        c.fail(at, "the type of the structures does not follow from the comparison", "Write a cast: (S){...}.")
    if _is_open_value(left) and not _is_open_value(right):
        return convert(c, left, right.type, "the left side"), right
    if _is_open_value(right) and not _is_open_value(left):
        return left, convert(c, right, left.type, "the right side")
    return same_numbers(c, sign, left, right, at)


def _is_open_value(value: core.Expression) -> bool:
    """Return whether the context must tell the type: a list, a structure without a name, `{#}`, `...`."""
    is_list = isinstance(value, core.TupleValue) and isinstance(value.type, types.Tuple)
    return is_list or value.type == types.ANYTHING or is_nameless(value.type)


def same_numbers(c: Checker, sign: str, left: core.Expression, right: core.Expression, at: Located) -> Operands:
    """Both operands with one type, by implicit casts."""
    if left.type != right.type or isinstance(left.type, types.Enum):
        left, right = plain(left), plain(right)
    one, other = left.type, right.type
    if one == INTEGER and isinstance(other, Bits):
        return convert(c, left, other), right
    if other == INTEGER and isinstance(one, Bits):
        return left, convert(c, right, one)
    if one != other:
        hint = ""
        if isinstance(one, Bits) and isinstance(other, Bits):
            hint = f"Cast one of them, like ({one})(...)."
        elif isinstance(one, types.NewType) or isinstance(other, types.NewType):
            hint = "Cast one of them: a type declared by `type` does not mix with the type under it."
        c.fail(at, f"{sign} needs the same type on both sides, not {describe(one)} and {describe(other)}", hint)
    return left, right


def _order(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> Typed:
    left, right = same_numbers(c, sign, plain(left), plain(right), span)
    if not is_number(left.type):
        c.fail(span, f"{sign} is not defined on {describe(left.type)}")
    return BOOL, left, right


def _arithmetic(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> Typed:
    left, right = plain(left), plain(right)
    if sign in ("/", "%"):
        _check_division(c, sign, left, right, span)
    for operand in (left, right):
        if not is_number(operand.type):
            hint = "Strings are joined by ++." if operand.type == STRING and sign == "+" else _operand_hint(operand)
            c.fail(span, f"{sign} is not defined on {describe(operand.type)}", hint)
    left, right = same_numbers(c, sign, left, right, span)
    if left.type == INTEGER and sign in ("|+|", "|-|"):
        c.fail(span, f"{sign} is not defined on numbers without a width", "Write the width, like 8w1.")
    return left.type, left, right


def _operand_hint(operand: core.Expression) -> str:
    if isinstance(operand.type, types.NewType):
        return f"Cast it: ({operand.type.base})(...)."
    return "Use && and ||." if operand.type == BOOL else ""


def _check_division(c: Checker, sign: str, left: core.Expression, right: core.Expression, at: Located) -> None:
    if as_integer(right) == 0:
        c.fail(at, "division by zero")
    for operand in (left, right):
        if isinstance(operand.type, Bits) and operand.type.signed:
            c.fail(at, f"{sign} is not defined on signed numbers")
        if (as_integer(operand) or 0) < 0:
            c.fail(at, f"{sign} is not defined on negative numbers")


def _shift(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> Typed:
    left, right = plain(left), plain(right)
    kind, by = left.type, right.type
    if not is_number(kind):
        c.fail(span, f"{sign} is not defined on {describe(kind)}", _operand_hint(left))
    amount = as_integer(right)
    if not is_number(by) or (amount is None and isinstance(by, Bits) and by.signed):
        hint = f"Cast it: (bit<{by.width}>)(...)." if isinstance(by, Bits) else ""
        c.fail(right, f"a shift needs an unsigned number on its right, not {describe(by)}", hint)
    if amount is not None and amount < 0:
        c.fail(span, "the amount of a shift cannot be negative")
    if kind == INTEGER and not is_known(right):
        c.fail(span, "a number without a width is shifted by one that is not known at compile time", "Write the width.")
    if by == INTEGER and not is_known(right):
        c.fail(right, "a shift needs an amount with a width, or one that is known at compile time")
    if isinstance(kind, Bits) and amount is not None and amount >= kind.width:
        c.warn("overflow", span, f"{kind} is shifted by {amount}: all bits are lost")
    if kind == INTEGER and sign == "<<" and amount is not None and amount > MAX_SHIFT and as_integer(left) is not None:
        c.fail(span, f"a shift by {amount} makes a number that is too large")
    return kind, left, right


def _concatenation(c: Checker, sign: str, left: core.Expression, right: core.Expression, span: Span) -> Typed:
    left, right = plain(left), plain(right)
    one, other = left.type, right.type
    if one == other == STRING:
        return STRING, left, right
    if one == INTEGER or (other == INTEGER and isinstance(one, Bits)):
        at = left if one == INTEGER else right
        c.fail(at, f"{sign} needs numbers with a width", "Write the width, like 8w1.")
    if not isinstance(one, Bits) or not isinstance(other, Bits):
        c.fail(span, f"{sign} is not defined on {describe(one)} and {describe(other)}")
    return bits(one.width + other.width, one.signed), left, right


BINARY: dict[str, Callable[..., Typed]] = {
    **dict.fromkeys(("==", "!="), _equality),
    **dict.fromkeys(("<", "<=", ">", ">="), _order),
    **dict.fromkeys(("<<", ">>"), _shift),
    "++": _concatenation,
}


# ---------------------------------------------------------------- slices


@rule(EXPRESSIONS, syntax.Slice)
def slice_bits(c: Checker, node: syntax.Slice, _: Type | None) -> core.Expression:
    """`base[high:low]`."""
    base = plain(c.expression(node.base))
    high, low = _bound(c, node.high), _bound(c, node.low)
    if high < 0 or low < 0:
        c.fail(node, f"the bounds of a slice cannot be negative: [{high}:{low}]")
    if high < low:
        c.fail(node, f"a slice is written [high:low], not [{high}:{low}]")
    return _slice(c, base, core.Literal(INTEGER, node.low.span, low), high - low + 1, node.span)


def _bound(c: Checker, node: syntax.Expression) -> int:
    value = as_integer(c.expression(node))
    if value is None:
        c.fail(node, "the bounds of a slice must be numbers that are known at compile time")
    return value


@rule(EXPRESSIONS, syntax.PlusSlice)
def slice_plus(c: Checker, node: syntax.PlusSlice, _: Type | None) -> core.Expression:
    """`base[low +: width]`; `low` may be computed."""
    base, low = plain(c.expression(node.base)), plain(c.expression(node.low))
    width, start = _bound(c, node.width), as_integer(low)
    if start is not None and start < 0:
        c.fail(node, f"the lowest bit of a slice cannot be negative: {start}")
    if width <= 0:
        c.fail(node, f"the width of a slice must be positive, not {width}")
    if start is not None:
        low = core.Literal(INTEGER, low.span, start)
    elif not isinstance(low.type, Bits) or low.type.signed:
        c.fail(low, f"the lowest bit of a slice must be an unsigned number, not {describe(low.type)}")
    return _slice(c, base, low, width, node.span)


def _slice(c: Checker, base: core.Expression, low: core.Expression, width: int, span: Span) -> core.Expression:
    """Bits of a number from the lowest one up."""
    start, kind = as_integer(low), base.type
    if not isinstance(kind, Bits) and (kind != INTEGER or start is None):
        c.fail(span, f"a slice of {describe(kind)} is not defined", "" if start is None else _operand_hint(base))
    if start is not None and isinstance(kind, Bits) and start + width > kind.width:
        c.fail(span, f"bit {start + width - 1} is not in {kind}: its bits are {kind.width - 1} to 0")
    return fold(core.Slice(bits(width), span, base, low, width))
