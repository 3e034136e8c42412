# SPDX-License-Identifier: Apache-2.0
"""Parser: tokens to the syntax tree, by recursive descent, for the grammar of P4_16 1.2.5.

The grammar needs to know which names are types (`a < b > (c)`, `(T) x`), so the parser keeps the scopes of names.
"""

from __future__ import annotations

from collections.abc import Sequence

from detour.p4 import syntax
from detour.p4.lexer import Token
from detour.p4.messages import Messages
from detour.p4.parser.declarations import Parser


def parse(tokens: Sequence[Token], messages: Messages) -> syntax.Program:
    """The program that the tokens are. Errors are in `messages`; what could be read is in the tree."""
    return Parser(tokens, messages).program()
