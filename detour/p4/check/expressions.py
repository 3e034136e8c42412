# SPDX-License-Identifier: Apache-2.0
"""Names, literals, members, elements, lists, casts and conditions (specification, section 8)."""

from __future__ import annotations

from dataclasses import replace

from detour.p4 import core, syntax, types
from detour.p4.check.checker import EXPRESSIONS, Checker, rule, similar
from detour.p4.check.constants import Rest, as_integer, fold, is_local_constant, is_number, limits, wrap
from detour.p4.check.convert import DOTS, cast, convert, is_nameless
from detour.p4.check.operators import plain, same_numbers
from detour.p4.check.scope import MatchKind, Overloads
from detour.p4.check.typenames import bits, describe, resolve
from detour.p4.messages import CompileError
from detour.p4.types import ANYTHING, BOOL, ERROR, INTEGER, MATCH_KIND, STRING, Type


@rule(EXPRESSIONS, syntax.Literal)
def literal(c: Checker, node: syntax.Literal, _: Type | None) -> core.Expression:
    if isinstance(node.value, bool | str):
        return core.Literal(BOOL if isinstance(node.value, bool) else STRING, node.span, node.value)
    if node.width is None:
        return core.Literal(INTEGER, node.span, node.value)
    if node.signed and node.width == 0:
        c.fail(node, "the width of a signed number is at least 1")
    kind = bits(node.width, node.signed)
    value = wrap(node.value, kind)
    if value != node.value:
        largest = limits(kind)[1]
        c.warn("overflow", node, f"{node.value} does not fit {kind} (at most {largest}): it becomes {value}")
    return core.Literal(kind, node.span, value)


@rule(EXPRESSIONS, syntax.Sign)
def sign(c: Checker, node: syntax.Sign, _: Type | None) -> core.Expression:
    if node.text == "...":
        return Rest(ANYTHING, node.span)
    if node.text == "{#}":
        return core.InvalidHeader(ANYTHING, node.span)
    if node.text == "this":
        c.fail(node, "`this` can only be used in the implementation of an abstract method")
    c.fail(node, "_ can only stand for an out argument or a set of values")


@rule(EXPRESSIONS, syntax.TupleSet)
def stray_set(c: Checker, node: syntax.Expression, _: Type | None) -> core.Expression:
    c.fail(node, "a set of values can only stand in select and in table entries")


# ---------------------------------------------------------------- names


@rule(EXPRESSIONS, syntax.NameExpression)
def name(c: Checker, node: syntax.NameExpression, _: Type | None) -> core.Expression:
    symbol, span = c.find(node), node.span
    match symbol:
        case core.Variable() | core.Instance():
            return core.Ref(symbol.type, span, symbol)
        case core.Constant():
            if symbol.value is None:
                raise CompileError
            value = symbol.value
            is_literal = isinstance(value, core.Literal)
            return core.Literal(value.type, span, value.value) if is_literal else replace(value, span=span)
        case core.Table():
            return core.Ref(types.Callable(symbol.name, "table"), span, symbol)
        case core.ValueSet():
            return core.Ref(types.SetOf(symbol.type), span, symbol)
        case MatchKind():
            return core.EnumMember(MATCH_KIND, span, symbol.name)
    what = {core.Action: "an action", core.State: "a parser state", Overloads: "a function"}
    c.fail(node, f"{span.text} is {what.get(type(symbol), 'a type')}: a value is needed here")


@rule(EXPRESSIONS, syntax.TypeExpression)
def type_as_value(c: Checker, node: syntax.TypeExpression, _: Type | None) -> core.Expression:
    resolve(c, node.type)
    c.fail(node, f"{node.span.text} is a type: a value is needed here")


# ---------------------------------------------------------------- members and elements


@rule(EXPRESSIONS, syntax.Member)
def member(c: Checker, node: syntax.Member, _: Type | None) -> core.Expression:
    if isinstance(node.base, syntax.TypeExpression):
        return member_of_type(c, node, resolve(c, node.base.type))
    base = c.expression(node.base)
    kind, text = base.type, node.name.text
    if isinstance(kind, types.Record):
        field = kind.field_type(text)
        if field is None:
            hint = similar(text, [part.name for part in kind.fields])
            c.fail(node.name, f"{describe(kind)} has no field {text}", hint)
        result = core.Member(field, node.span, base, text)
        return fold(result) if is_local_constant(base) else result
    if isinstance(kind, types.Stack):
        return stack_member(c, base, kind, node)
    if isinstance(base, core.Apply) and text in ("hit", "miss", "action_run"):
        result = types.Callable("", "action_run") if text == "action_run" else BOOL
        return core.ApplyResult(result, node.span, base, text)
    hint = "A table has t.apply().hit, .miss and .action_run." if isinstance(kind, types.Callable) else ""
    c.fail(node, f"{describe(kind)} has no member {text}", hint)


def stack_member(c: Checker, base: core.Expression, kind: types.Stack, node: syntax.Member) -> core.Expression:
    text = node.name.text
    if text == "size":
        return core.Literal(bits(32), node.span, kind.size)
    of_headers = isinstance(kind.element, types.Header | types.Union | types.TypeVariable)
    if text not in ("next", "last", "lastIndex") or not of_headers:
        c.fail(node.name, f"a header stack has no member {text}", "It has next, last, lastIndex and size.")
    if not c.place.in_parser:
        c.fail(node, f"{text} of a header stack can only be used in a parser", "Use an index, like hs[0].")
    return core.StackMember(bits(32) if text == "lastIndex" else kind.element, node.span, base, text)


def member_of_type(c: Checker, node: syntax.Member, kind: Type) -> core.Expression:
    """`Enum.member` or `error.member`."""
    text = node.name.text
    if isinstance(kind, types.Enum):
        members = dict(kind.members)
        if text not in members:
            c.fail(node, f"enum {kind} has no member {text}", f"It has {', '.join(list(members)[:8])}.")
        return core.EnumMember(kind, node.span, text, members[text])
    if kind == ERROR:
        if text not in c.errors:
            c.fail(node, f"error has no member {text}", "Declare it: error { " + text + " }")
        return core.EnumMember(ERROR, node.span, text)
    c.fail(node, f"{describe(kind)} is a type and has no member {text}")


@rule(EXPRESSIONS, syntax.Index)
def index(c: Checker, node: syntax.Index, _: Type | None) -> core.Expression:
    base = c.expression(node.base)
    at = plain(c.expression(node.index))
    kind, value = base.type, as_integer(at)
    if isinstance(kind, types.Tuple):
        if value is None or not 0 <= value < len(kind.elements):
            c.fail(node, f"the index of {kind} must be a known number from 0 to {len(kind.elements) - 1}")
        element, at = kind.elements[value], core.Literal(INTEGER, at.span, value)
    elif isinstance(kind, types.Stack):
        if not is_number(at.type):
            c.fail(at, f"an index is a number, not {describe(at.type)}")
        if value is not None and value < 0:
            c.fail(node, f"an index cannot be negative: {value}")
        if value is not None and value >= kind.size:
            c.fail(node, f"index {value} is not in a stack of {kind.size}", f"Its indexes are 0 to {kind.size - 1}.")
        element = kind.element
    else:
        c.fail(node, f"{describe(kind)} cannot be indexed", "Only stacks, arrays and tuples can.")
    result = core.Index(element, node.span, base, at)
    return fold(result) if is_local_constant(base) else result


# ---------------------------------------------------------------- lists and structures


@rule(EXPRESSIONS, syntax.ListExpression)
def list_expression(c: Checker, node: syntax.ListExpression, expected: Type | None) -> core.Expression:
    elements = tuple(c.expression(element) for element in node.elements)
    for element in elements[:-1]:
        if isinstance(element, Rest):
            c.fail(element, "... must be the last element")
    value = core.TupleValue(types.Tuple(tuple(element.type for element in elements)), node.span, elements)
    return value if expected is None else convert(c, value, expected)


@rule(EXPRESSIONS, syntax.StructExpression)
def struct_expression(c: Checker, node: syntax.StructExpression, expected: Type | None) -> core.Expression:
    values = {pair.name.text: c.expression(pair.value) for pair in node.fields}
    fields = tuple(types.FieldOf(key, value.type) for key, value in values.items())
    if node.dots:
        values[DOTS] = Rest(ANYTHING, node.span)
    value = core.StructValue(types.Struct("", fields=fields), node.span, tuple(values.items()))
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
        c.fail(condition, f"the condition of ?: must be a bool, not {describe(condition.type)}")
    yes, no = c.expression(node.yes, expected), c.expression(node.no, expected)
    if yes.type != no.type:
        if yes.type == ANYTHING or _is_untyped(yes):
            yes = convert(c, yes, no.type, "the first branch of ?:")
        elif no.type == ANYTHING or _is_untyped(no):
            no = convert(c, no, yes.type, "the second branch of ?:")
        else:
            yes, no = same_numbers(c, "?:", yes, no, node)
    if yes.type == INTEGER and not isinstance(condition, core.Literal):
        c.fail(node, "the branches of ?: need a width: at least one of them, like 8w1")
    return fold(core.Conditional(yes.type, node.span, condition, yes, no))


def _is_untyped(value: core.Expression) -> bool:
    return isinstance(value, core.TupleValue) or (isinstance(value, core.StructValue) and is_nameless(value.type))
