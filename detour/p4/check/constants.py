# SPDX-License-Identifier: Apache-2.0
"""Values at compile time (specification, sections 8 and 18.1): numbers of a type, and what is known of expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from detour.p4 import core, types
from detour.p4.source import Span

MAX_WIDTH = 2048
"""Widest number that the compiler handles, as in p4c."""


def wrap(value: Any, kind: types.Type) -> Any:
    """The number that the lowest bits of `value` are in the type; itself, where the type has no width."""
    if not isinstance(kind, types.Bits):
        return value
    value &= (1 << kind.width) - 1
    return value - (1 << kind.width) if kind.signed and kind.width and value >> (kind.width - 1) else value


def limits(kind: types.Bits) -> tuple[int, int]:
    """Smallest and largest number of the type."""
    if kind.signed:
        return -(1 << kind.width - 1), (1 << kind.width - 1) - 1
    return 0, (1 << kind.width) - 1


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "++": operator.add,
    "&&": lambda left, right: left and right,
    "||": lambda left, right: left or right,
}


UNARY: dict[str, Callable[[Any], Any]] = {
    "!": operator.not_,
    "~": operator.invert,
    "-": operator.neg,
    "+": operator.pos,
}


def compute(sign: str, left: Any, right: Any, kind: types.Type, right_kind: types.Type) -> Any:
    """Value of a binary operator whose result has the type `kind`."""
    if sign in ("|+|", "|-|") and isinstance(kind, types.Bits):
        low, high = limits(kind)
        return min(max(left + right if sign == "|+|" else left - right, low), high)
    if sign == "++" and isinstance(right_kind, types.Bits):
        return wrap((left << right_kind.width) | (right & ((1 << right_kind.width) - 1)), kind)
    if sign in ("<<", ">>") and isinstance(kind, types.Bits):
        right = min(right, kind.width)
    return wrap(OPERATORS[sign](left, right), kind)


def fold(node: core.Expression) -> core.Expression:
    """The value of an operator, member or element whose operands are known; the node itself where they are not."""
    value: Any = None
    match node:
        case core.Cast():
            return fold_cast(node.operand, node.type)
        case core.Conditional(condition=core.Literal(value=holds)):
            return node.yes if holds else node.no
        case core.Member(base=core.StructValue(fields=fields)):
            return dict(fields)[node.name]
        case core.Index(base=core.TupleValue(elements=elements), index=core.Literal(value=int(at))):
            return elements[at]
        case core.Unary():
            value = value_of(node.operand)
            value = None if value is None else UNARY[node.operator](value)
        case core.Slice():
            value, low = value_of(node.base), value_of(node.low)
            value = None if value is None or low is None else value >> low
        case core.Binary():
            left, right = value_of(node.left), value_of(node.right)
            if left is not None and right is not None and not (node.operator in ("/", "%") and right <= 0):
                kinds = types.underlying(node.type), types.underlying(node.right.type)
                value = compute(node.operator, left, right, *kinds)
    kind = types.underlying(node.type)
    if value is None:
        return node
    return core.Literal(node.type, node.span, bool(value) if kind == types.BOOL else wrap(value, kind))


def fold_cast(value: core.Expression, target: types.Type) -> core.Expression:
    """A cast that is known to be legal: of a constant, its result."""
    number = value.value if isinstance(value, core.Literal | core.EnumMember) else None
    if not isinstance(number, int):
        return core.Cast(target, value.span, value)
    base = types.underlying(target)
    number = bool(number) if base == types.BOOL else wrap(int(number), base)
    if isinstance(target, types.Enum):
        return enum_value(target, number, value.span)
    return core.Literal(target, value.span, number)


def enum_value(kind: types.Enum, value: int, span: Span) -> core.EnumMember:
    """The member with the value; where no member has it, one without a name (8.4)."""
    name = next((name for name, number in kind.members if number == value), "")
    return core.EnumMember(kind, span, name, value)


def value_of(expression: core.Expression | core.Action) -> Any:
    """Value of a constant as plain data, for comparisons: int, bool, str, or tuples. None: not known."""
    match expression:
        case core.Literal():
            return expression.value
        case core.EnumMember():
            return expression.name if expression.value is None else expression.value
        case core.TupleValue():
            values = tuple(map(value_of, expression.elements))
        case core.StructValue():
            values = tuple(value_of(value) for _, value in sorted(expression.fields, key=operator.itemgetter(0)))
        case core.InvalidHeader():
            return "{#}"
        case _:
            return None
    return None if None in values else values


def is_local_constant(expression: core.Expression) -> bool:
    """Return whether the value is known where the expression stands (18.1): constants are folded already."""
    return value_of(expression) is not None


def is_known(expression: core.Expression) -> bool:
    """Return whether the value is known once constructor parameters are (18.1)."""
    return isinstance(expression, core.Literal) or all(map(_may_be_known, core.walk(expression)))


class Rest(core.Expression):
    """`...`: a default value whose type the context gives. At the end of a `TupleValue` it stands for all that is
    missing; in a `StructValue` its name is `...`. No `Rest` is left in the typed program.
    """


CALLS = (core.CallFunction, core.CallAction, core.CallMethod, core.CallBuiltin, core.Apply, core.ApplyResult)
_UNKNOWN = (*CALLS, core.StackMember, Rest)


def _may_be_known(node: object) -> bool:
    if not isinstance(node, core.Ref):
        return not isinstance(node, _UNKNOWN)
    declaration = node.declaration
    if isinstance(declaration, core.Variable):
        return declaration.is_parameter and not declaration.direction
    return isinstance(declaration, core.Constant | core.Instance)


def as_integer(expression: core.Expression) -> int | None:
    """The number that the expression is known to be."""
    if isinstance(expression, core.Literal):
        return expression.value if type(expression.value) is int else None
    return expression.value if isinstance(expression, core.EnumMember) else None


def has_unsized(kind: types.Type) -> bool:
    """Return whether the type is `int`, or a tuple or anonymous structure with one inside."""
    if isinstance(kind, types.Tuple) or (isinstance(kind, types.Record) and not kind.name):
        return any(map(has_unsized, types.components(kind)))
    return kind == types.INTEGER


def is_number(kind: types.Type) -> bool:
    """Return whether the type is numeric: `int`, `bit<w>` or `int<w>`."""
    return isinstance(kind, types.Bits) or kind == types.INTEGER
