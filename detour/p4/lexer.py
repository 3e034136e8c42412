# SPDX-License-Identifier: Apache-2.0
"""Tokens of P4_16 (specification, section 6.3, "Lexical constructs")."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from detour.p4.messages import Messages
from detour.p4.source import SourceFile, Span


class Token(NamedTuple):
    """A token: `kind` is the text of a keyword or sign, else "name", "number", "text" (a string), "pragma"
    (`@pragma`), "end" or "unexpected".
    """

    kind: str
    text: str
    span: Span


SOFT_KEYWORDS = frozenset("actions apply entries key list priority state type".split())  # noqa: SIM905
"""Words with a meaning in some places that are names elsewhere."""

_HARD_KEYWORDS = """
    _ abstract action bit bool break const continue control default else enum error exit extern false for header
    header_union if in inout int match_kind out package parser return select string struct switch table this
    transition true tuple typedef value_set varbit void
""".split()  # noqa: SIM905

KEYWORDS = SOFT_KEYWORDS.union(_HARD_KEYWORDS)

# Longer signs stand before their beginnings. `>>` may also close two lists of type arguments: the parser splits it.
_SIGNS = """
    |+|= |-|= <<= >>= &&& |+| |-| ... {#} ## .. << >> && || == != >= <= ++ += -= *= /= %= &= |= ^=
    ( ) { } [ ] < > ! : , ? . = ; @ + - * / % | & ^ ~ #
""".split()  # noqa: SIM905

_TOKEN = re.compile(
    r"(?:[\s\\]+|//[^\n]*|/\*(?s:.*?)\*/)*+"
    r"(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<spliced>(?:\\\r?\n[A-Za-z0-9_]+)+)?"
    r"|(?P<pragma>@pragma\b)"
    r"|(?P<sign>" + "|".join(map(re.escape, _SIGNS)).replace("/", "/(?![*])") + ")"
    r"|(?P<number>[0-9][A-Za-z0-9_]*)"
    r'|(?P<text>"(?:[^"\\]|\\(?s:.))*")'
    r"|(?P<end>\Z)"
    r"|(?P<unexpected>/\*|.))"
)

_NUMBER = re.compile(
    r"(?:(?P<width>[0-9]+)(?P<sign>[ws]))?"
    r"(?:0[xX](?P<hex>[0-9A-Fa-f_]+)|0[oO](?P<octal>[0-7_]+)|0[bB](?P<binary>[01_]+)|(?:0[dD])?(?P<decimal>[0-9_]+))"
)
_BASES = {"hex": 16, "octal": 8, "binary": 2, "decimal": 10}


def lex(file: SourceFile, start: int, tokens: list[Token], messages: Messages | None, end: int | None = None) -> int:
    """Add the tokens from `start` on up to the next line of the preprocessor, or to the end of the file.

    Args:
        messages: takes errors; None where text is skipped.
        end: where to stop, within a line of the preprocessor.

    Returns:
        Offset of the `#` that begins the line of the preprocessor, or the length of the text.
    """
    text = file.text
    new, append, keywords = tuple.__new__, tokens.append, KEYWORDS
    for match in _TOKEN.finditer(text, start, sys.maxsize if end is None else end):
        kind = match.lastgroup or ""
        begin, until = match.span(kind)
        word = text[begin:until]
        if kind == "name":
            if word in keywords:
                kind = word
        elif kind == "spliced":  # a name that goes on in the next line, as the line before ends with a backslash
            begin = match.start("name")
            word = re.sub(r"\\\r?\n", "", text[begin:until])
            kind = word if word in keywords else "name"
        elif kind == "sign":
            if word[0] == "#" and end is None and not text[text.rfind("\n", 0, begin) + 1 : begin].strip():
                return begin
            kind = word
        elif kind == "end":
            break
        elif kind == "unexpected":
            if messages is not None:
                _complain(file, begin, word, messages)
            if word == "/*":
                break
        append(new(Token, (kind, word, new(Span, (file, begin, until)))))
    return len(text)


def lex_line(line: Span, messages: Messages) -> list[Token]:
    """The tokens of a part of a line of the preprocessor."""
    tokens: list[Token] = []
    lex(line.file, line.start, tokens, messages, line.end)
    return tokens


def _complain(file: SourceFile, at: int, word: str, messages: Messages) -> None:
    span = Span(file, at, at + len(word))
    if word == "/*":
        messages.error(span, "this comment does not end", "a comment that begins with /* ends with */")
    elif word == '"':
        messages.error(span, "this string does not end", 'strings stand between ": write \\" for a quote')


class NumberParts(NamedTuple):
    """The parts of an integer literal; `width` is None where none is written."""

    value: int
    width: int | None = None
    signed: bool = False


def number(text: str) -> NumberParts | None:
    """The parts of an integer literal such as `10`, `0xff`, `8w0b1010_1010` or `4s7` (6.4.3.2); None: it is not one."""
    if text.isdigit():
        return NumberParts(int(text))
    match = _NUMBER.fullmatch(text)
    if match is None or match.lastgroup is None:
        return None
    digits = match[match.lastgroup].replace("_", "")
    if not digits:
        return None
    width = match["width"]
    return NumberParts(int(digits, _BASES[match.lastgroup]), int(width) if width else None, match["sign"] == "s")


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}


def unquote(text: str) -> str:
    """The value of a string literal, its quotes and escapes removed."""
    if "\\" not in text:
        return text[1:-1]
    return re.sub(r"\\(?s:(.))", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
