# SPDX-License-Identifier: Apache-2.0
"""Annotations (specification, section 20): what the expressions in their bodies are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from detour.p4 import core, syntax
from detour.p4.check.checker import Checker
from detour.p4.check.constants import value_of
from detour.p4.check.scope import MatchKind
from detour.p4.messages import CompileError
from detour.p4.source import Span

STRINGS = frozenset({"name", "deprecated"})
"""Annotations whose body is one string."""


class Annotated(Protocol):
    """A node of the syntax tree that has annotations."""

    @property
    def annotations(self) -> tuple[syntax.Annotation, ...]: ...
    @property
    def span(self) -> Span: ...


Declared = TypeVar("Declared", bound=core.Declaration)


def begun(c: Checker, kind: type[Declared], node: syntax.Declaration, /, **parts: Any) -> Declared:
    """A declaration with the name and the annotations of the node."""
    return kind(node.name.text, node.name.span, noted(c, node), **parts)


def noted(c: Checker, annotated: Annotated) -> tuple[core.Annotation, ...]:
    """Annotations of a declaration, block or entry. `@noWarn("kind")` leaves warnings out inside of it."""
    nodes = annotated.annotations
    if not nodes:
        return ()
    seen: dict[str, syntax.Annotation] = {}
    for node in nodes:
        old = seen.get(node.name)
        if old is not None and "[" in (node.bracket, old.bracket):
            c.fail(node, f"@{node.name} stands twice")
        seen[node.name] = node
    result = tuple(_annotation(c, node) for node in nodes)
    for one in result:
        if one.name.lower() == "nowarn":
            c.messages.silenced += [(kind, annotated.span) for kind in one.values]
    return result


def _annotation(c: Checker, node: syntax.Annotation) -> core.Annotation:
    worth = _checked if node.bracket == "[" else _string if node.name in STRINGS and node.bracket else _worth
    values = tuple(worth(c, value) for value in node.values)
    pairs = tuple((pair.name.text, worth(c, pair.value)) for pair in node.pairs)
    if node.name == "match":
        _check_match(c, node)
    elif node.name == "p4runtime_translation":
        _check_translation(c, node)
    return core.Annotation(node.name, values, pairs, node.text, node.bracket == "[", node.span)


def _check_match(c: Checker, node: syntax.Annotation) -> None:
    """`@match(kind)` on a field of a value set's structure."""
    for value in node.values:
        if not isinstance(value, syntax.NameExpression) or not isinstance(c.top.symbols.get(value.name), MatchKind):
            c.fail(value, "@match needs a match kind", "Write @match(exact), @match(ternary) or the like.")


def _check_translation(c: Checker, node: syntax.Annotation) -> None:
    """`@p4runtime_translation("uri", bit<w> | string | number)`."""
    if "," in node.tokens:
        word = node.tokens[node.tokens.index(",") + 1]
        if word not in ("bit", "string") and not word[:1].isdigit():
            c.fail(node, f"@{node.name} cannot translate to {word}", "It translates to bit<w> or string.")


def _string(c: Checker, node: syntax.Expression) -> object:
    value = value_of(c.expression(node))
    if not isinstance(value, str):
        c.fail(node, "the annotation needs a string", 'Write "...".')
    return value


def _checked(c: Checker, node: syntax.Expression) -> object:
    """Value in a structured annotation: a known number, string or bool (20.2)."""
    value = value_of(c.expression(node))
    if not isinstance(value, int | str):
        c.fail(node, "a structured annotation has numbers, strings and bools that are known at compile time")
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


def _binary(c: Checker, node: syntax.Binary) -> object:
    left, right = _worth(c, node.left), _worth(c, node.right)
    if node.operator == "++" and isinstance(left, str) and isinstance(right, str):
        return left + right
    return _text(c, node)


WORTH: dict[type, Callable[..., object]] = {
    syntax.Literal: lambda c, node: node.value,
    syntax.NameExpression: _name,
    syntax.ListExpression: lambda c, node: tuple(_worth(c, element) for element in node.elements),
    syntax.Binary: _binary,
}
