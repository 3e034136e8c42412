# SPDX-License-Identifier: Apache-2.0
"""Sets of values (specification, section 8.15): labels of `select` and keys of table entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detour.p4 import core, syntax
from detour.p4.check.checker import Checker
from detour.p4.check.convert import convert
from detour.p4.check.generics import agree
from detour.p4.check.operators import plain, same_numbers
from detour.p4.check.typenames import describe
from detour.p4.source import Span
from detour.p4.types import INTEGER, Bits, Enum, Record, SetOf, Struct, Tuple, Type


def product(c: Checker, node: syntax.Expression, kinds: Sequence[Type], what: str) -> core.Expression:
    """A set for each of several values: `Anything`, a value set for all of them, or a `TupleValue` of sets."""
    if isinstance(node, syntax.Default | syntax.DontCare):
        return core.Anything(SetOf(Tuple(tuple(kinds))), node.span)
    if isinstance(node, syntax.TupleSet | syntax.ListExpression) and not (len(kinds) == 1 and _fields(kinds[0])):
        elements = node.elements
        if len(elements) != len(kinds):
            c.fail(node.span, f"{what} needs {len(kinds)} set(s), not {len(elements)}")
    else:
        whole = _value_set_for_all(c, node, kinds)
        if whole is not None:
            return whole
        elements = (node,)
        if len(kinds) != 1:
            c.fail(node.span, f"{what} needs {len(kinds)} sets, not one", "Write them in brackets: (1, _).")
    sets = tuple(one_set(c, element, kind, what) for element, kind in zip(elements, kinds, strict=True))
    return core.TupleValue(SetOf(Tuple(tuple(kinds))), node.span, sets)


def _value_set_for_all(c: Checker, node: syntax.Expression, kinds: Sequence[Type]) -> core.Expression | None:
    if not isinstance(node, syntax.NameExpression):
        return None
    symbol = c.scope.find(node.name)
    if not isinstance(symbol, core.ValueSet):
        return None
    fields = _fields(symbol.type)
    if fields is None and len(kinds) == 1:
        return None
    if fields is None:
        fields = (symbol.type,)
    if len(kinds) == 1 and agree(symbol.type, kinds[0]):
        return None
    if len(fields) != len(kinds) or not all(map(agree, fields, kinds)):
        wanted = ", ".join(map(describe, kinds))
        c.fail(node.span, f"value set {node.name} has {describe(symbol.type)}, select needs {wanted}")
    return c.expression(node)


def _fields(kind: Type) -> tuple[Type, ...] | None:
    if isinstance(kind, Struct):
        return tuple(part.type for part in kind.fields)
    return kind.elements if isinstance(kind, Tuple) else None


def one_set(c: Checker, node: syntax.Expression, kind: Type, what: str) -> core.Expression:
    """A set of values of the type."""
    return SETS.get(type(node), _single)(c, node, kind, what)


def _anything(_c: Checker, node: syntax.Expression, kind: Type, _what: str) -> core.Expression:
    return core.Anything(SetOf(kind), node.span)


def _single(c: Checker, node: syntax.Expression, kind: Type, what: str) -> core.Expression:
    expected = kind if isinstance(kind, Record | Tuple) else None
    value = c.expression(node, expected)
    if isinstance(value.type, SetOf):
        if not agree(value.type.element, kind):
            c.fail(node.span, f"{what} has the type {describe(kind)}, the value set {describe(value.type.element)}")
        return value
    return convert(c, value, kind, what)


def _ends(
    c: Checker, sign: str, nodes: tuple[syntax.Expression, syntax.Expression], kind: Type, span: Span, what: str
) -> tuple[core.Expression, core.Expression]:
    """Both operands of `&&&` or `..` in the type of the value that is matched."""
    target = kind.base if isinstance(kind, Enum) and kind.base is not None else kind
    left, right = (plain(c.expression(node)) for node in nodes)
    left, right = same_numbers(c, sign, left, right, span)
    if not isinstance(target, Bits) or not (isinstance(left.type, Bits) or left.type == INTEGER):
        c.fail(span, f"{sign} is not defined on {describe(kind)}")
    return convert(c, left, target, what), convert(c, right, target, what)


def _mask(c: Checker, node: syntax.Mask, kind: Type, what: str) -> core.Expression:
    value, mask = _ends(c, "&&&", (node.value, node.mask), kind, node.span, what)
    return core.MaskSet(SetOf(kind), node.span, value, mask)


def _range(c: Checker, node: syntax.Range, kind: Type, what: str) -> core.Expression:
    low, high = _ends(c, "..", (node.low, node.high), kind, node.span, what)
    return core.RangeSet(SetOf(kind), node.span, low, high)


def _tuple(c: Checker, node: syntax.TupleSet, kind: Type, what: str) -> core.Expression:
    if len(node.elements) == 1:
        return one_set(c, node.elements[0], kind, what)
    if isinstance(kind, Tuple):
        return product(c, node, kind.elements, what)
    c.fail(node.span, f"{what} needs one set, not {len(node.elements)}")


SETS: dict[type, Callable[..., core.Expression]] = {
    syntax.Default: _anything,
    syntax.DontCare: _anything,
    syntax.Mask: _mask,
    syntax.Range: _range,
    syntax.TupleSet: _tuple,
}
