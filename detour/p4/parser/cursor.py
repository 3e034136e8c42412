# SPDX-License-Identifier: Apache-2.0
"""The place in the tokens where the parser is, the names that are types there, and recovery from errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from detour.p4 import syntax
from detour.p4.lexer import SOFT_KEYWORDS, Token
from detour.p4.messages import Messages
from detour.p4.source import Span

NAMES = SOFT_KEYWORDS | {"name"}
"""Kinds of tokens that are names where no keyword is expected."""

_DECLARATIONS = frozenset(
    """
    action control enum error extern header header_union match_kind package parser struct typedef
    """.split()  # noqa: SIM905
)

_Node = TypeVar("_Node")


class ParseError(Exception):
    """The tokens do not read as P4. The message has been collected."""


class Cursor:
    """A place in the tokens, which are read one by one."""

    def __init__(self, tokens: Sequence[Token], messages: Messages) -> None:
        self.tokens = list(tokens)
        self.messages = messages
        self.move(0)
        self._types: dict[str, bool] = {}
        """Whether a declared name is a type at this place; a name that is not here is undeclared, or not a type."""
        self._scopes: list[list[tuple[str, bool | None]]] = []
        """What each open scope replaced in `_types`."""

    # ---------------------------------------------------------------- tokens

    def advance(self) -> Token:
        """The present token; the next one becomes present."""
        token = self.token
        if token.kind != "end":
            self.at += 1
            self.token = self.tokens[self.at]
            self.kind = self.token.kind
        return token

    def move(self, at: int) -> None:
        """Make the token of the index the present one."""
        self.at = at
        self.token = self.tokens[at]
        self.kind = self.token.kind

    def peek(self, distance: int = 1) -> str:
        """Kind of the token that many after the present one."""
        index = self.at + distance
        return self.tokens[index].kind if index < len(self.tokens) else "end"

    def take(self, kind: str) -> bool:
        """Step over a token of the kind, if it is the present one."""
        if self.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, after: str = "") -> Token:
        """The present token, which must be of the kind."""
        if self.kind != kind:
            raise self.unexpected(f"`{kind}`" + (f" after {after}" if after else ""))
        return self.advance()

    def expect_close(self) -> None:
        """Step over a `>` that ends type arguments, which may be the first half of `>>`."""
        if self.kind in (">>", ">=", ">>="):
            token = self.token
            span = token.span
            rest = token.text[1:]
            half = Token(rest, rest, Span(span.file, min(span.start + 1, span.end), span.end))
            self.tokens[self.at] = self.token = half
            self.kind = rest
        else:
            self.expect(">")

    def unexpected(self, expected: str, hint: str = "") -> ParseError:
        """An error at the present token: `raise self.unexpected("a type")`."""
        token = self.token
        what, span = f"`{token.text}`", token.span
        if token.kind == "end":
            what = token.text
            if self.at and (last := self.tokens[self.at - 1].span).file is span.file:
                span = Span(span.file, last.end, last.end)
        self.messages.error(span, f"expected {expected}, not {what}", hint)
        return ParseError()

    def until(self, start: Span) -> Span:
        """From `start` to the end of the last token that was read."""
        return start.to(self.tokens[self.at - 1].span)

    def name(self, what: str = "a name") -> syntax.Name:
        """A name that is declared or is a member: an identifier, a type's name or a soft keyword."""
        if self.kind not in NAMES:
            hint = f"`{self.kind}` is a keyword of P4" if self.kind.isidentifier() and self.kind != "end" else ""
            raise self.unexpected(what, hint if self.kind not in ("number", "text", "unexpected") else "")
        token = self.advance()
        return syntax.Name(token.span, token.text)

    def type_name(self, kind: str) -> syntax.Name:
        """The name of a type of that kind (`enum`), which is declared here."""
        name = self.name(f"the name of {'an' if kind == 'enum' else 'a'} {kind}")
        self.declare(name.text, True)
        return name

    # ---------------------------------------------------------------- names of types

    def is_type(self, name: str, absolute: bool = False) -> bool:
        """Return whether the name is a type here; with `absolute`, at the top level."""
        if absolute:
            for scope in self._scopes:
                for other, outside in scope:
                    if other == name:
                        return bool(outside)
        return self._types.get(name, False)

    def declare(self, name: str, is_type: bool = False) -> None:
        """Make a name known from here to the end of the scope."""
        old = self._types.get(name)
        if old is not is_type:
            if self._scopes:
                self._scopes[-1].append((name, old))
            self._types[name] = is_type

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A part of the program with names of its own."""
        self._scopes.append([])
        try:
            yield
        finally:
            for name, old in reversed(self._scopes.pop()):
                if old is None:
                    del self._types[name]
                else:
                    self._types[name] = old

    # ---------------------------------------------------------------- lists and recovery

    def between(self, begin: str, element: Callable[[], _Node], end: str, after: str = "") -> _Node:
        """An element in brackets, which stand `after` something that errors name."""
        self.expect(begin, after)
        node = element()
        self.expect(end)
        return node

    def braced(self, element: Callable[[], _Node]) -> tuple[_Node, ...]:
        """`{elements}`, each with an end of its own."""
        return self.between("{", lambda: self.repeated(element), "}")

    def separated(self, element: Callable[[], _Node], end: str, trailing: bool = False) -> tuple[_Node, ...]:
        """Elements between commas up to the token `end`, which is not read."""
        elements: list[_Node] = []
        if self.kind == end:
            return ()
        while True:
            elements.append(element())
            if self.kind != ",":
                return tuple(elements)
            self.advance()
            if trailing and self.kind == end:
                return tuple(elements)

    def repeated(self, element: Callable[[], _Node], ends: tuple[str, ...] = ()) -> tuple[_Node, ...]:
        """Elements up to `}` or another end, which is not read. Go on after a faulty one: all errors are found."""
        elements: list[_Node] = []
        while self.kind not in ("}", "end", *ends):
            start = self.at
            try:
                elements.append(element())
            except ParseError:
                self.recover(start)
        return tuple(elements)

    def recover(self, start: int, top: bool = False) -> None:
        """Skip the rest of an element that began at the token `start`: up to its `;` or closing brace."""
        depth = sum((token.kind == "{") - (token.kind == "}") for token in self.tokens[start : self.at])
        first = True
        while self.kind != "end":
            if depth <= 0 and self.kind == "}" and not top:
                break
            if top and not first and self.kind in _DECLARATIONS and self.token.span.column == 1:
                break
            kind = self.advance().kind
            first = False
            depth += (kind == "{") - (kind == "}")
            if depth <= 0 and kind in (";", "}"):
                break
