# SPDX-License-Identifier: Apache-2.0
"""From p4c's BMv2 JSON to machine code: `Program` is what the rest of the engine uses.

`Program` is imported when it is asked for: `detour.engine.tables` uses this package's `model` and `slots`, and
the compiler uses `detour.engine.tables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detour.engine.compiler.program import Program

__all__ = [
    "Program", "actions", "calculations", "context", "covering", "deparser", "expressions", "ir", "layout",
    "load", "lookup", "model", "older", "parser", "portable", "primitives", "program", "slots", "traced_steps",
    "tracing", "values",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Program":
        from detour.engine.compiler.program import Program

        return Program
    raise AttributeError(name)
