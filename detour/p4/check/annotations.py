# SPDX-License-Identifier: Apache-2.0
"""Annotations (specification, section 20): what the expressions in their bodies are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detour.p4 import core, syntax
from detour.p4.check.checker import Checker
from detour.p4.check.constants import ARITHMETIC, value_of
from detour.p4.messages import CompileError

STRINGS = frozenset({"name", "deprecated"})
"""Annotations whose body is one string."""


def annotations(c: Checker, nodes: Sequence[syntax.Annotation]) -> tuple[core.Annotation, ...]:
    """Annotations of a declaration."""
    if not nodes:
        return ()
    structured: dict[str, syntax.Annotation] = {}
    for node in nodes:
        if node.bracket == "[":
            if node.name in structured:
                c.fail(node.span, f"@{node.name} stands twice")
            structured[node.name] = node
    return tuple(_annotation(c, node) for node in nodes)


def _annotation(c: Checker, node: syntax.Annotation) -> core.Annotation:
    worth = _checked if node.bracket == "[" else _worth
    values = tuple(worth(c, value) for value in node.values)
    pairs = tuple((pair.name.text, worth(c, pair.value)) for pair in node.pairs)
    if node.name in STRINGS and node.bracket == "(" and node.values and type(values[0]) is not str:
        c.fail(node.values[0].span, f"@{node.name} needs a string", f'Write @{node.name}("...").')
    if node.name in STRINGS and node.bracket == "(" and node.values and _is_name(node.values[0]):
        c.fail(node.values[0].span, f"@{node.name} needs a string", f'Write @{node.name}("...").')
    return core.Annotation(node.name, values, pairs, node.text, node.bracket == "[", node.span)


def _is_name(node: syntax.Expression) -> bool:
    return isinstance(node, syntax.NameExpression)


def _checked(c: Checker, node: syntax.Expression) -> object:
    """Value in a structured annotation: a known number, string or bool (20.2)."""
    value = value_of(c.expression(node))
    if not isinstance(value, int | str):
        c.fail(node.span, "a structured annotation has numbers, strings and bools that are known at compile time")
    return value


def _worth(c: Checker, node: syntax.Expression) -> object:
    """Value in an unstructured annotation, whose names may mean anything: as text where they are unknown."""
    return WORTH.get(type(node), _text)(c, node)


def _text(c: Checker, node: syntax.Expression) -> object:
    try:
        value = value_of(c.expression(node))
    except CompileError:
        value = None
    return node.span.text if value is None else value


def _name(c: Checker, node: syntax.NameExpression) -> object:
    symbol = c.scope.find(node.name)
    if isinstance(symbol, core.Constant) and symbol.value is not None:
        return value_of(symbol.value)
    return node.name


def _list(c: Checker, node: syntax.ListExpression) -> object:
    return tuple(_worth(c, element) for element in node.elements)


def _binary(c: Checker, node: syntax.Binary) -> object:
    left, right = _worth(c, node.left), _worth(c, node.right)
    if node.operator == "++" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if node.operator in ARITHMETIC and isinstance(left, int) and isinstance(right, int):
        return ARITHMETIC[node.operator](left, right)
    return _text(c, node)


WORTH: dict[type, Callable[..., object]] = {
    syntax.Number: lambda c, node: node.value,
    syntax.String: lambda c, node: node.value,
    syntax.Boolean: lambda c, node: node.value,
    syntax.NameExpression: _name,
    syntax.ListExpression: _list,
    syntax.Binary: _binary,
}
