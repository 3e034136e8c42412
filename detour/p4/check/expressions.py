# SPDX-License-Identifier: Apache-2.0
"""Names, literals, members, elements, lists, casts and conditions (specification, section 8)."""

from __future__ import annotations

from collections.abc import Callable

from detour.p4 import core, syntax
from detour.p4.check.checker import EXPRESSIONS, Checker, rule
from detour.p4.check.constants import as_integer, is_local_constant, limits, wrap
from detour.p4.check.convert import DOTS, Rest, cast, convert
from detour.p4.check.operators import plain, same_numbers
from detour.p4.check.scope import MatchKind, Overloads
from detour.p4.check.typenames import bits, describe, resolve
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    Bits,
    Enum,
    FieldOf,
    Header,
    Record,
    SetOf,
    Stack,
    Struct,
    Tuple,
    Type,
    TypeVariable,
    Union,
)
from detour.p4.types import (
    Callable as CallableType,
)

# ---------------------------------------------------------------- literals


@rule(EXPRESSIONS, syntax.Number)
def number(c: Checker, node: syntax.Number, _: Type | None) -> core.Expression:
    if node.width is None:
        return core.Literal(INTEGER, node.span, node.value)
    if node.signed and node.width == 0:
        c.fail(node.span, "the width of a signed number is at least 1")
    kind = bits(node.width, node.signed)
    value = wrap(node.value, kind)
    if value != node.value and not (node.width == 0 and node.value == 0):
        largest = limits(kind)[1] if node.width else 0
        c.warn("overflow", node.span, f"{node.value} does not fit {kind} (at most {largest}): it becomes {value}")
    return core.Literal(kind, node.span, value)


@rule(EXPRESSIONS, syntax.String)
def string(_c: Checker, node: syntax.String, _: Type | None) -> core.Expression:
    return core.Literal(STRING, node.span, node.value)


@rule(EXPRESSIONS, syntax.Boolean)
def boolean(_c: Checker, node: syntax.Boolean, _: Type | None) -> core.Expression:
    return core.Literal(BOOL, node.span, node.value)


@rule(EXPRESSIONS, syntax.Dots)
def dots(_c: Checker, node: syntax.Dots, _: Type | None) -> core.Expression:
    return Rest(ANYTHING, node.span)


@rule(EXPRESSIONS, syntax.InvalidHeader)
def invalid_header(_c: Checker, node: syntax.InvalidHeader, _: Type | None) -> core.Expression:
    return core.InvalidHeader(ANYTHING, node.span)


@rule(EXPRESSIONS, syntax.DontCare, syntax.Default)
def dont_care(c: Checker, node: syntax.Expression, _: Type | None) -> core.Expression:
    c.fail(node.span, "_ can only stand for an out argument or a set of values")


@rule(EXPRESSIONS, syntax.Mask, syntax.Range, syntax.TupleSet)
def stray_set(c: Checker, node: syntax.Expression, _: Type | None) -> core.Expression:
    c.fail(node.span, "a set of values can only stand in select and in table entries")


# ---------------------------------------------------------------- names


@rule(EXPRESSIONS, syntax.NameExpression)
def name(c: Checker, node: syntax.NameExpression, _: Type | None) -> core.Expression:
    symbol = c.find(node.name, node.absolute, node.span)
    refer = REFERENCES.get(type(symbol))
    if refer is None:
        c.fail(node.span, f"{node.name} is a type: a value is needed here")
    return refer(c, symbol, node.span)


def _variable(_c: Checker, symbol: core.Variable, span: Span) -> core.Expression:
    return core.Ref(symbol.type, span, symbol)


def _constant(_c: Checker, symbol: core.Constant, span: Span) -> core.Expression:
    value = symbol.value
    if value is None:
        raise CompileError
    if isinstance(value, core.Literal):
        return core.Literal(value.type, span, value.value)
    if isinstance(value, core.EnumMember):
        return core.EnumMember(value.type, span, value.name, value.value)
    if isinstance(value, core.TupleValue):
        return core.TupleValue(value.type, span, value.elements)
    if isinstance(value, core.StructValue):
        return core.StructValue(value.type, span, value.fields)
    return value


def _table(_c: Checker, symbol: core.Table, span: Span) -> core.Expression:
    return core.Ref(CallableType("table", symbol.name), span, symbol)


def _value_set(_c: Checker, symbol: core.ValueSet, span: Span) -> core.Expression:
    return core.Ref(SetOf(symbol.type), span, symbol)


def _match_kind(_c: Checker, symbol: MatchKind, span: Span) -> core.Expression:
    return core.EnumMember(MATCH_KIND, span, symbol.name)


def _callable(c: Checker, symbol: core.Declaration | Overloads, span: Span) -> core.Expression:
    kind = {core.Action: "an action", core.State: "a parser state"}.get(type(symbol), "a function")
    c.fail(span, f"{span.text} is {kind}: a value is needed here")


REFERENCES: dict[type, Callable[..., core.Expression]] = {
    core.Variable: _variable,
    core.Instance: _variable,
    core.Constant: _constant,
    core.Table: _table,
    core.ValueSet: _value_set,
    MatchKind: _match_kind,
    core.Action: _callable,
    core.State: _callable,
    Overloads: _callable,
}


@rule(EXPRESSIONS, syntax.TypeExpression)
def type_as_value(c: Checker, node: syntax.TypeExpression, _: Type | None) -> core.Expression:
    resolve(c, node.type)
    c.fail(node.span, f"{node.span.text} is a type: a value is needed here")


@rule(EXPRESSIONS, syntax.This)
def this(c: Checker, node: syntax.This, _: Type | None) -> core.Expression:
    c.fail(node.span, "`this` can only be used in the implementation of an abstract method")


# ---------------------------------------------------------------- members and elements


@rule(EXPRESSIONS, syntax.Member)
def member(c: Checker, node: syntax.Member, _: Type | None) -> core.Expression:
    if type(node.base) is syntax.TypeExpression:
        return member_of_type(c, node, resolve(c, node.base.type))
    base = c.expression(node.base)
    kind = base.type
    text = node.name.text
    if isinstance(kind, Record):
        field = kind.field_type(text)
        if field is None:
            c.fail(node.name.span, f"{describe(kind)} has no field {text}", _similar_field(kind, text))
        if isinstance(base, core.StructValue):
            value = dict(base.fields).get(text)
            if value is not None and is_local_constant(base):
                return value
        return core.Member(field, node.span, base, text)
    if isinstance(kind, Stack):
        return stack_member(c, base, kind, node)
    if isinstance(base, core.Apply) and text in ("hit", "miss", "action_run"):
        return core.ApplyResult(CallableType("action_run", "") if text == "action_run" else BOOL, node.span, base, text)
    c.fail(node.span, f"{describe(kind)} has no member {text}", _member_hint(kind))


def _similar_field(kind: Record, text: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(text, [part.name for part in kind.fields], 1)
    return f"Did you mean {close[0]}?" if close else ""


def _member_hint(kind: Type) -> str:
    return "A table has t.apply().hit, .miss and .action_run." if isinstance(kind, CallableType) else ""


def stack_member(c: Checker, base: core.Expression, kind: Stack, node: syntax.Member) -> core.Expression:
    text = node.name.text
    if text == "size":
        return core.Literal(bits(32), node.span, kind.size)
    if text in ("next", "last", "lastIndex") and isinstance(kind.element, Header | Union | TypeVariable):
        if not c.place.in_parser:
            c.fail(node.span, f"{text} of a header stack can only be used in a parser", "Use an index, like hs[0].")
        return core.StackMember(bits(32) if text == "lastIndex" else kind.element, node.span, base, text)
    c.fail(node.name.span, f"a header stack has no member {text}", "It has next, last, lastIndex and size.")


def member_of_type(c: Checker, node: syntax.Member, kind: Type) -> core.Expression:
    """`Enum.member` or `error.member`."""
    text = node.name.text
    if isinstance(kind, Enum):
        for one, value in kind.members:
            if one == text:
                return core.EnumMember(kind, node.span, text, value)
        names = ", ".join(one for one, _ in kind.members[:8])
        c.fail(node.span, f"enum {kind} has no member {text}", f"It has {names}.")
    if kind == ERROR:
        if text not in c.errors:
            c.fail(node.span, f"error has no member {text}", "Declare it: error { " + text + " }")
        return core.EnumMember(ERROR, node.span, text)
    c.fail(node.span, f"{describe(kind)} is a type and has no member {text}")


@rule(EXPRESSIONS, syntax.Index)
def index(c: Checker, node: syntax.Index, _: Type | None) -> core.Expression:
    base = c.expression(node.base)
    at = plain(c.expression(node.index))
    kind, value = base.type, as_integer(at)
    if isinstance(kind, Tuple):
        if value is None or not 0 <= value < len(kind.elements):
            c.fail(node.span, f"the index of {kind} must be a known number from 0 to {len(kind.elements) - 1}")
        if isinstance(base, core.TupleValue) and is_local_constant(base):
            return base.elements[value]
        return core.Index(kind.elements[value], node.span, base, core.Literal(INTEGER, at.span, value))
    if not isinstance(kind, Stack):
        c.fail(node.span, f"{describe(kind)} cannot be indexed", "Only stacks, arrays and tuples can.")
    if not isinstance(at.type, Bits) and at.type != INTEGER:
        c.fail(at.span, f"an index is a number, not {describe(at.type)}")
    if value is not None and value < 0:
        c.fail(node.span, f"an index cannot be negative: {value}")
    if value is not None and value >= kind.size:
        c.fail(node.span, f"index {value} is not in a stack of {kind.size}", f"Its indexes are 0 to {kind.size - 1}.")
    if value is not None and isinstance(base, core.TupleValue) and is_local_constant(base):
        return base.elements[value]
    return core.Index(kind.element, node.span, base, at)


# ---------------------------------------------------------------- lists and structures


@rule(EXPRESSIONS, syntax.ListExpression)
def list_expression(c: Checker, node: syntax.ListExpression, expected: Type | None) -> core.Expression:
    elements = tuple(c.expression(element) for element in node.elements)
    for element in elements[:-1]:
        if type(element) is Rest:
            c.fail(element.span, "... must be the last element")
    value = core.TupleValue(Tuple(tuple(element.type for element in elements)), node.span, elements)
    return value if expected is None else convert(c, value, expected)


@rule(EXPRESSIONS, syntax.StructExpression)
def struct_expression(c: Checker, node: syntax.StructExpression, expected: Type | None) -> core.Expression:
    fields: dict[str, core.Expression] = {}
    for pair in node.fields:
        if pair.name.text in fields:
            c.fail(pair.name.span, f"field {pair.name.text} has two values")
        fields[pair.name.text] = c.expression(pair.value)
    parts = tuple(FieldOf(key, value.type) for key, value in fields.items())
    if node.dots:
        fields[DOTS] = Rest(ANYTHING, node.span)
    value = core.StructValue(Struct("", (), parts), node.span, tuple(fields.items()))
    return value if expected is None else convert(c, value, expected)


# ---------------------------------------------------------------- casts and conditions


@rule(EXPRESSIONS, syntax.Cast)
def explicit_cast(c: Checker, node: syntax.Cast, _: Type | None) -> core.Expression:
    target = resolve(c, node.type)
    return cast(c, c.expression(node.operand), target, node.span)


@rule(EXPRESSIONS, syntax.Conditional)
def conditional(c: Checker, node: syntax.Conditional, expected: Type | None) -> core.Expression:
    condition = c.expression(node.condition)
    if condition.type != BOOL:
        c.fail(condition.span, f"the condition of ?: must be a bool, not {describe(condition.type)}")
    yes, no = c.expression(node.yes, expected), c.expression(node.no, expected)
    if yes.type != no.type:
        if yes.type == ANYTHING or _is_literal(yes):
            yes = convert(c, yes, no.type, "the first branch of ?:")
        elif no.type == ANYTHING or _is_literal(no):
            no = convert(c, no, yes.type, "the second branch of ?:")
        else:
            yes, no = same_numbers(c, "?:", yes, no, node.span)
    if isinstance(condition, core.Literal):
        return yes if condition.value else no
    if yes.type == INTEGER:
        c.fail(node.span, "the branches of ?: need a width: at least one of them, like 8w1")
    return core.Conditional(yes.type, node.span, condition, yes, no)


def _is_literal(value: core.Expression) -> bool:
    return isinstance(value, core.TupleValue | core.StructValue) and (
        isinstance(value.type, Tuple) or not getattr(value.type, "name", "")
    )
