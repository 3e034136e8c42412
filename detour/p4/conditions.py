# SPDX-License-Identifier: Apache-2.0
"""Expressions of `#if` and `#elif`: C's integer expressions, with `defined`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detour.p4.lexer import Token
from detour.p4.macros import Macros

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda left, right: int(bool(left or right))),
    "&&": (2, lambda left, right: int(bool(left and right))),
    "|": (3, lambda left, right: left | right),
    "^": (4, lambda left, right: left ^ right),
    "&": (5, lambda left, right: left & right),
    "==": (6, lambda left, right: int(left == right)),
    "!=": (6, lambda left, right: int(left != right)),
    "<": (7, lambda left, right: int(left < right)),
    ">": (7, lambda left, right: int(left > right)),
    "<=": (7, lambda left, right: int(left <= right)),
    ">=": (7, lambda left, right: int(left >= right)),
    "<<": (8, lambda left, right: left << min(right, 64)),
    ">>": (8, lambda left, right: left >> right),
    "+": (9, lambda left, right: left + right),
    "-": (9, lambda left, right: left - right),
    "*": (10, lambda left, right: left * right),
    "/": (10, lambda left, right: int(left / right) if right else 0),
    "%": (10, lambda left, right: left % right if right else 0),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "!": lambda value: int(not value),
    "-": lambda value: -value,
    "+": lambda value: value,
    "~": lambda value: ~value,
}


class ConditionError(Exception):
    """A condition that does not read as one."""


def evaluate(tokens: Sequence[Token], macros: Macros) -> int:
    """The value of a condition. Names that are no macros are 0.

    Raises:
        ConditionError: it is not an expression of integers.
    """
    reader = _Reader(macros.expand(_without_defined(tokens, macros)))
    value = reader.conditional()
    if reader.tokens:
        raise ConditionError(f"{reader.tokens[-1].text} is not expected here")
    return value


def _without_defined(tokens: Sequence[Token], macros: Macros) -> list[Token]:
    """`defined X` and `defined(X)` as 1 or 0, before X is replaced."""
    result: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.text == "defined":
            bracket = at < len(tokens) and tokens[at].kind == "("
            at += bracket
            name = tokens[at].text if at < len(tokens) else ""
            at += 1
            if not name.isidentifier() or (bracket and (at >= len(tokens) or tokens[at].kind != ")")):
                raise ConditionError("defined needs a name: defined(NAME)")
            at += bracket
            token = Token("number", str(int(name in macros)), token.span)
        result.append(token)
    return result


class _Reader:
    """Reader of the tokens of a condition, by precedence."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = list(reversed(tokens))

    def _take(self, kind: str) -> bool:
        if self.tokens and self.tokens[-1].kind == kind:
            self.tokens.pop()
            return True
        return False

    def conditional(self) -> int:
        value = self.binary(1)
        if not self._take("?"):
            return value
        yes = self.conditional()
        if not self._take(":"):
            raise ConditionError("? needs a :")
        no = self.conditional()
        return yes if value else no

    def binary(self, lowest: int) -> int:
        left = self.unary()
        while self.tokens and (known := _BINARY.get(self.tokens[-1].kind)) and known[0] >= lowest:
            self.tokens.pop()
            left = known[1](left, self.binary(known[0] + 1))
        return left

    def unary(self) -> int:
        if not self.tokens:
            raise ConditionError("the condition is not complete")
        token = self.tokens.pop()
        if token.kind in _UNARY:
            return _UNARY[token.kind](self.unary())
        if token.kind == "(":
            value = self.conditional()
            if not self._take(")"):
                raise ConditionError("a closing bracket is missing")
            return value
        if token.kind == "number":
            return _integer(token.text)
        if token.text.isidentifier():
            return int(token.text == "true")
        raise ConditionError(f"{token.text} is not expected here")


def _integer(text: str) -> int:
    digits = text.rstrip("uUlL")
    try:
        return int(digits, 8 if digits.isdigit() and digits.startswith("0") else 0)
    except ValueError:
        raise ConditionError(f"{text} is not an integer") from None
