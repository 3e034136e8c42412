# SPDX-License-Identifier: Apache-2.0
"""Macros of the preprocessor: `#define`, and their replacement in lists of tokens as in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from detour.p4.lexer import Token, lex_line
from detour.p4.messages import Messages
from detour.p4.source import SourceFile, Span

_NOTHING: frozenset[str] = frozenset()
_VARIADIC = "__VA_ARGS__"
_BUILT_IN = ("__LINE__", "__FILE__")


class Glued(Span):
    """The place of a token that a macro makes directly behind another one: nothing stands between them in its text."""

    __slots__ = ()


class Macro(NamedTuple):
    """A macro; `parameters` is None for one that takes no brackets."""

    name: str
    parameters: tuple[str, ...] | None
    variadic: bool
    body: tuple[Token, ...]


_Pending = list[tuple[Token, frozenset[str]]]
"""Tokens still to be read, the next one last, each with the macros that made it: those are not replaced again."""


class Macros:
    """All macros that are defined at a place of the program."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self._macros = {name: Macro(name, None, False, ()) for name in _BUILT_IN}

    def __contains__(self, name: str) -> bool:
        return name in self._macros

    def used_in(self, tokens: Sequence[Token]) -> bool:
        """Return whether one of the tokens may be a macro's name."""
        macros = self._macros
        return any(token[1] in macros for token in tokens)

    def define(self, line: Span) -> None:
        """Take what stands after `#define`."""
        tokens = lex_line(line, self.messages)
        if not tokens or not tokens[0].text.isidentifier():
            self.messages.error(line, "#define needs a name")
            return
        name, parameters, variadic, at = tokens[0], None, False, 1
        if len(tokens) > 1 and tokens[1].kind == "(" and tokens[1].span.start == name.span.end:
            close = next((index for index, token in enumerate(tokens) if token.kind == ")"), None)
            if close is None:
                self.messages.error(line, f"the parameters of macro {name.text} have no closing bracket")
                return
            names = [token.text for token in tokens[2:close] if token.kind != ","]
            if names and names[-1] == "...":
                names[-1], variadic = _VARIADIC, True
            parameters, at = tuple(names), close + 1
        self._macros[name.text] = Macro(name.text, parameters, variadic, tuple(tokens[at:]))

    def undefine(self, name: str) -> None:
        """Forget a macro, if there is one of the name."""
        self._macros.pop(name, None)

    def program(self, tokens: Sequence[Token]) -> list[Token]:
        """Tokens of the program with all macros replaced, and plain places."""
        expanded = self.expand(tokens)
        return [each._replace(span=Span(*each.span)) if type(each.span) is Glued else each for each in expanded]

    def expand(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with all macros replaced."""
        result: list[Token] = []
        pending: _Pending = [(token, _NOTHING) for token in reversed(tokens)]
        while pending:
            token, makers = pending.pop()
            macro = self._macros.get(token.text)
            if macro is None or token.text in makers:
                result.append(token)
            elif macro.name in _BUILT_IN:
                line = token.text == "__LINE__"
                text = str(token.span.line) if line else f'"{token.span.file.name}"'
                result.append(Token("number" if line else "text", text, token.span))
            elif macro.parameters is None:
                self._push(macro, {}, token.span, makers, pending)
            elif not pending or pending[-1][0].kind != "(":
                result.append(token)
            else:
                pending.pop()
                given = self._arguments(macro, token, pending)
                if given is not None:
                    self._push(macro, given[0], token.span.to(given[1]), makers, pending)
        return result

    def _arguments(self, macro: Macro, name: Token, pending: _Pending) -> tuple[dict[str, list[Token]], Span] | None:
        """Arguments of a macro by parameter and the place of the closing bracket; None: they are wrong."""
        parameters = macro.parameters or ()
        given: list[list[Token]] = [[]]
        depth = 0
        while pending:
            token = pending.pop()[0]
            if token.kind == "(":
                depth += 1
            elif token.kind == ")":
                depth -= 1
                if depth < 0:
                    return self._matched(macro, parameters, given, name), token.span
            elif token.kind == "," and depth == 0 and not (macro.variadic and len(given) == len(parameters)):
                given.append([])
                continue
            given[-1].append(token)
        self.messages.error(name.span, f"the arguments of macro {macro.name} have no closing bracket")
        return None

    def _matched(
        self, macro: Macro, parameters: tuple[str, ...], given: list[list[Token]], name: Token
    ) -> dict[str, list[Token]]:
        if given == [[]] and not parameters:
            return {}
        if macro.variadic and len(given) == len(parameters) - 1:
            given.append([])
        if len(given) != len(parameters):
            count = f"{len(parameters)} argument{'s' if len(parameters) != 1 else ''}"
            self.messages.error(name.span, f"macro {macro.name} takes {count}, not {len(given)}")
        return dict(zip(parameters, given, strict=False))

    def _push(
        self,
        macro: Macro,
        arguments: dict[str, list[Token]],
        span: Span,
        makers: frozenset[str],
        pending: _Pending,
    ) -> None:
        """Put what replaces a macro before the tokens to be read."""
        body = self._substituted(macro, arguments, span)
        makers = makers | {macro.name}
        pending.extend((token, makers) for token in reversed(body))

    def _substituted(self, macro: Macro, arguments: dict[str, list[Token]], span: Span) -> list[Token]:
        body, result, at = macro.body, list[Token](), 0
        while at < len(body):
            token = body[at]
            place = Glued(*span) if at and body[at - 1].span.end == token.span.start else span
            follower = body[at + 1] if at + 1 < len(body) else None
            if token.kind == "#" and macro.parameters is not None and follower and follower.text in arguments:
                text = _text(arguments[follower.text]).replace("\\", "\\\\").replace('"', '\\"')
                result.append(Token("text", f'"{text}"', place))
                at += 2
            elif token.kind == "##" and result and follower:
                right = arguments.get(follower.text, [follower])
                left = result.pop()
                result += self._pasted(left.text + right[0].text, type(left.span)(*span)) if right else [left]
                result += right[1:]
                at += 2
            elif token.text in arguments:
                argument = arguments[token.text]
                pasted = follower is not None and follower.kind == "##"
                replaced = list(argument) if pasted else self.expand(argument)
                if replaced:
                    replaced[0] = replaced[0]._replace(span=type(place)(*replaced[0].span))
                result += replaced
                at += 1
            else:
                result.append(Token(token.kind, token.text, place))
                at += 1
        return result

    def _pasted(self, text: str, span: Span) -> list[Token]:
        tokens = lex_line(Span(SourceFile("", text), 0, len(text)), self.messages)
        return [Token(token.kind, token.text, span) for token in tokens]


def _text(tokens: Sequence[Token]) -> str:
    """The tokens as written, with single spaces where there was space between them."""
    text = ""
    for index, token in enumerate(tokens):
        apart = index and tokens[index - 1].span.end != token.span.start and type(token.span) is not Glued
        text += f" {token.text}" if apart else token.text
    return text
