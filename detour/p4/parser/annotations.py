# SPDX-License-Identifier: Apache-2.0
"""Parser of annotations (specification, section 20)."""

from __future__ import annotations

from detour.p4 import syntax
from detour.p4.lexer import Token, unquote
from detour.p4.messages import Messages
from detour.p4.parser.cursor import NAMES, ParseError
from detour.p4.parser.expressions import ExpressionParser

_WITH_BODY = frozenset(
    """
    alias brief controller_header description field_list id name p4runtime_translation pkginfo priority
    """.split()  # noqa: SIM905
)
"""Annotations that mean nothing without a body."""
_BRACKETS = {"(": ")", "[": "]"}


class AnnotationParser(ExpressionParser):
    """Parser of annotations."""

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
        return self.separated(self._value, end, trailing=True), ()

    def _value(self) -> syntax.Expression:
        """An expression in an annotation, or a type as in `@p4runtime_translation("", bit<32>)`."""
        if self.starts_type() and self.kind not in NAMES:
            node = self.type()
            return syntax.TypeExpression(node.span, node)
        return self.expression()

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
