# SPDX-License-Identifier: Apache-2.0
"""The checker: names, types and constants of a syntax tree, giving the typed program (`core`).

`checker` holds the state and the tables of rules; each other module has the rules of one chapter.
"""

from __future__ import annotations

from detour.p4 import core, syntax
from detour.p4.check import blocks, expressions  # noqa: F401
from detour.p4.check.checker import DECLARATIONS, Checker
from detour.p4.check.scope import Overloads
from detour.p4.check.unused import warn_of_unused
from detour.p4.messages import CompileError, Messages
from detour.p4.types import Block

__all__ = ["check_program"]


def check_program(tree: syntax.Program, messages: Messages) -> core.Program:
    """The typed program.

    Raises:
        CompileError: the program has errors; they are in `messages`.
    """
    c = Checker(messages)
    before = len(messages.errors)
    declarations = tuple(c.each(tree.declarations, DECLARATIONS))
    main = c.top.symbols.get("main")
    if not isinstance(main, core.Instance) or not isinstance(main.type, Block):
        if main is not None and not isinstance(main, Overloads) and len(messages.errors) == before:
            c.error(main, "main must be an instance of a package")
        main = None
    if len(messages.errors) > before:
        raise CompileError
    if main is not None:
        c.used.add(main)
    warn_of_unused(c)
    return core.Program(declarations, main, tuple(c.errors), main.annotations if main else ())
