# SPDX-License-Identifier: Apache-2.0
"""Sets of values (specification, section 8.15): labels of `select` and keys of table entries."""

from __future__ import annotations

from collections.abc import Sequence

from detour.p4 import core, syntax, types
from detour.p4.check.checker import Checker
from detour.p4.check.convert import convert
from detour.p4.check.generics import agree
from detour.p4.check.operators import plain, same_numbers
from detour.p4.check.typenames import describe
from detour.p4.types import INTEGER, Bits, SetOf, Type


def product(c: Checker, node: syntax.Expression, kinds: Sequence[Type], what: str) -> core.Expression:
    """A set for each of several values: `Anything`, a value set for all of them, or a `TupleValue` of sets."""
    kind = SetOf(types.Tuple(tuple(kinds)))
    if isinstance(node, syntax.Sign) and node.is_anything:
        return core.Anything(kind, node.span)
    is_list = isinstance(node, syntax.TupleSet | syntax.ListExpression)
    if is_list and not (len(kinds) == 1 and _fields(kinds[0])):
        elements = node.elements
        if len(elements) != len(kinds):
            c.fail(node, f"{what} needs {len(kinds)} set(s), not {len(elements)}")
    else:
        whole = _value_set_for_all(c, node, kinds)
        if whole is not None:
            return whole
        elements = (node,)
        if len(kinds) != 1:
            c.fail(node, f"{what} needs {len(kinds)} sets, not one", "Write them in brackets: (1, _).")
    return core.TupleValue(kind, node.span, tuple(_set(c, *pair, what) for pair in zip(elements, kinds, strict=True)))


def _value_set_for_all(c: Checker, node: syntax.Expression, kinds: Sequence[Type]) -> core.Expression | None:
    symbol = c.scope.find(node.name) if isinstance(node, syntax.NameExpression) else None
    if not isinstance(symbol, core.ValueSet):
        return None
    fields = _fields(symbol.type)
    if len(kinds) == 1 and (fields is None or agree(symbol.type, kinds[0])):
        return None
    fields = fields or (symbol.type,)
    if len(fields) != len(kinds) or not all(map(agree, fields, kinds)):
        needed = ", ".join(map(describe, kinds))
        c.fail(node, f"value set {symbol.name} has {describe(symbol.type)}, select needs {needed}")
    return c.expression(node)


def _fields(kind: Type) -> tuple[Type, ...] | None:
    return types.components(kind) if isinstance(kind, types.Struct | types.Tuple) else None


def _set(c: Checker, node: syntax.Expression, kind: Type, what: str) -> core.Expression:
    """A set of values of the type."""
    if isinstance(node, syntax.Sign) and node.is_anything:
        return core.Anything(SetOf(kind), node.span)
    if isinstance(node, syntax.Binary) and node.operator in ("&&&", ".."):
        return _pair(c, node, kind, what)
    if isinstance(node, syntax.TupleSet):
        if len(node.elements) == 1:
            return _set(c, node.elements[0], kind, what)
        if isinstance(kind, types.Tuple):
            return product(c, node, kind.elements, what)
        c.fail(node, f"{what} needs one set, not {len(node.elements)}")
    value = c.expression(node, kind if isinstance(kind, types.Record | types.Tuple) else None)
    if not isinstance(value.type, SetOf):
        return convert(c, value, kind, what)
    if not agree(value.type.element, kind):
        c.fail(node, f"{what} has the type {describe(kind)}, the value set {describe(value.type.element)}")
    return value


def _pair(c: Checker, node: syntax.Binary, kind: Type, what: str) -> core.Expression:
    """`value &&& mask` or `low .. high`, both in the type of the value that is matched."""
    target = kind.base if isinstance(kind, types.Enum) and kind.base is not None else kind
    left, right = plain(c.expression(node.left)), plain(c.expression(node.right))
    left, right = same_numbers(c, node.operator, left, right, node)
    if not isinstance(target, Bits) or not (isinstance(left.type, Bits) or left.type == INTEGER):
        c.fail(node, f"{node.operator} is not defined on {describe(kind)}")
    made = core.MaskSet if node.operator == "&&&" else core.RangeSet
    return made(SetOf(kind), node.span, convert(c, left, target, what), convert(c, right, target, what))
