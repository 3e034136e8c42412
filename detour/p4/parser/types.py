# SPDX-License-Identifier: Apache-2.0
"""Parser of types as written, type parameters and annotations."""

from __future__ import annotations

from abc import ABC, abstractmethod

from detour.p4 import syntax
from detour.p4.lexer import Token, unquote
from detour.p4.messages import Messages
from detour.p4.parser.cursor import NAMES, Cursor, ParseError

_BASES = frozenset(("bit", "bool", "error", "int", "match_kind", "string", "tuple", "varbit", "void"))
_WITH_BODY = frozenset(
    """
    alias brief controller_header description field_list id name p4runtime_translation pkginfo priority
    """.split()  # noqa: SIM905
)
"""Annotations that mean nothing without a body."""
_BRACKETS = {"(": ")", "[": "]"}


class TypeParser(Cursor, ABC):
    """Reads types and annotations; expressions in them are left to `ExpressionParser`."""

    @abstractmethod
    def expression(self) -> syntax.Expression: ...

    @abstractmethod
    def width(self) -> syntax.Expression: ...

    @abstractmethod
    def key_value(self) -> syntax.KeyValue: ...

    @abstractmethod
    def annotated_expression(self) -> syntax.Expression: ...

    # ---------------------------------------------------------------- types

    def starts_type(self) -> bool:
        """Whether a type stands here, and not a member of one such as `error.NoError`."""
        kind = self.kind
        if kind == "name":
            return self._types.get(self.token.text, False) and self.peek() != "."
        if kind in _BASES:
            return self.peek() != "."
        if kind in NAMES:
            return (kind == "list" and self.peek() == "<") or (self.is_type(kind) and self.peek() != ".")
        return kind == "." and self.peek() in NAMES and self.is_type(self.tokens[self.at + 1].text, True)

    def type(self) -> syntax.TypeNode:
        """A type."""
        return self.sized(self._unsized_type())

    def sized(self, node: syntax.TypeNode) -> syntax.TypeNode:
        """`node`, or the stack that `[size]` makes of it; it may stand behind the name that is declared, too."""
        start = node.span
        while self.kind == "[":
            size = self.between("[", self.expression, "]")
            node = syntax.ArrayType(self.until(start), node, size)
        return node

    def _unsized_type(self) -> syntax.TypeNode:
        kind, start = self.kind, self.token.span
        if kind in ("bit", "int", "varbit"):
            return self._bits()
        if kind in _BASES:
            self.advance()
            return (
                syntax.NamedType(start, kind) if kind != "tuple" else self._specialized(syntax.NamedType(start, kind))
            )
        node = self.named_type()
        if kind == "list" and node.arguments is not None and len(node.arguments) != 1:
            self.messages.error(node.span, "a list has one type of elements: list<T>")
            raise ParseError
        return node

    def named_type(self) -> syntax.NamedType:
        """The name of a type, with type arguments if there are any."""
        start = self.token.span
        absolute = self.take(".")
        if self.kind not in NAMES:
            raise self.unexpected("a type")
        name = self.advance().text
        node = syntax.NamedType(self.until(start), name, absolute)
        return self._specialized(node) if self.kind == "<" else node

    def _specialized(self, node: syntax.NamedType) -> syntax.NamedType:
        arguments = self.type_arguments()
        return syntax.NamedType(self.until(node.span), node.name, node.absolute, arguments, node.span)

    def _bits(self) -> syntax.TypeNode:
        token = self.advance()
        if self.kind != "<":
            if token.kind == "int":
                return syntax.NamedType(token.span, "int")
            if token.kind == "varbit":
                raise self.unexpected("`<` and the largest width after varbit", "as in varbit<320>")
            return syntax.BitsType(token.span, "bit", syntax.Literal(token.span, 1))
        self.advance()
        width = self.width()
        self.expect_close()
        return syntax.BitsType(self.until(token.span), token.kind, width)

    def type_arguments(self) -> tuple[syntax.TypeNode, ...]:
        """`<type, type>`."""
        self.expect("<")
        arguments: list[syntax.TypeNode] = []
        while self.kind not in (">", ">>"):
            arguments.append(syntax.NamedType(self.advance().span, "_") if self.kind == "_" else self.type())
            if not self.take(","):
                break
        self.expect_close()
        return tuple(arguments)

    def type_parameters(self) -> tuple[syntax.Name, ...]:
        """`<T, U>`, if it is there: types from here on, in the present scope."""
        if self.kind != "<":
            return ()
        self.advance()
        names = self.separated(self.name, ">")
        self.expect_close()
        for one in names:
            self.declare(one.text, True)
        return names

    # ---------------------------------------------------------------- annotations

    def annotations(self) -> tuple[syntax.Annotation, ...]:
        """All annotations that stand here."""
        if self.kind not in ("@", "pragma"):
            return ()
        notes: list[syntax.Annotation] = []
        while self.kind in ("@", "pragma"):
            notes.append(self._annotation() if self.kind == "@" else self._pragma())
        return tuple(notes)

    def _annotation(self) -> syntax.Annotation:
        start = self.advance().span
        # Keywords name annotations too, such as @default_only beside @hidden.
        if self.kind not in NAMES and not self.token.text.isidentifier():
            raise self.unexpected("the name of an annotation")
        name = self.advance().text
        bracket = self.kind
        if bracket not in _BRACKETS:
            if name in _WITH_BODY:
                self.messages.error(self.until(start), f"@{name} needs a body", f"as in @{name}(...)")
            return syntax.Annotation(self.until(start), name, "")
        self.advance()
        first = self.at
        if bracket == "[":
            values, pairs = self._structured("]")
        else:
            self._skip_body()
            values, pairs = self._read_again(first)
        body = self.tokens[first : self.at]
        close = self.expect(_BRACKETS[bracket])
        text, words = _text(body), tuple(token.text for token in body)
        return syntax.Annotation(start.to(close.span), name, bracket, values, pairs, text, words)

    def _structured(self, end: str) -> tuple[tuple[syntax.Expression, ...], tuple[syntax.KeyValue, ...]]:
        if self.kind in NAMES and self.peek() == "=":
            return (), self.separated(self.key_value, end, trailing=True)
        return self.separated(self.annotated_expression, end, trailing=True), ()

    def _skip_body(self) -> None:
        depth = 0
        while self.kind != "end" and (depth or self.kind != ")"):
            depth += (self.kind == "(") - (self.kind == ")")
            self.advance()

    def _read_again(self, first: int) -> tuple[tuple[syntax.Expression, ...], tuple[syntax.KeyValue, ...]]:
        """Read what stands from the token `first` to the present one as a list, if it is one."""
        end, messages = self.at, self.messages
        self.messages = Messages()
        self.move(first)
        try:
            parts = self._structured(")")
        except ParseError:
            parts = (), ()
        if self.at != end:
            parts = (), ()
        self.messages = messages
        self.move(end)
        return parts

    def _pragma(self) -> syntax.Annotation:
        """`@pragma name text` to the end of the line."""
        start = self.advance().span
        line_end = start.file.text.find("\n", start.start)
        line_end = line_end if line_end >= 0 else len(start.file.text)
        body: list[Token] = []
        while self.kind != "end" and self.token.span.file is start.file and self.token.span.start < line_end:
            body.append(self.advance())
        if not body:
            raise self.unexpected("a name after @pragma")
        name, rest = body[0].text, body[1:]
        values = tuple(syntax.Literal(one.span, unquote(one.text)) for one in rest if one.kind == "text")
        words = tuple(token.text for token in rest)
        return syntax.Annotation(self.until(start), name, "(" if rest else "", values, (), _text(rest), words)


def _text(tokens: list[Token]) -> str:
    """The tokens as written, as far as no macro made them."""
    if not tokens:
        return ""
    first, last = tokens[0].span, tokens[-1].span
    if first.file is last.file and first.start < last.end and all(token.text == token.span.text for token in tokens):
        return first.to(last).text
    return " ".join(token.text for token in tokens)
