# SPDX-License-Identifier: Apache-2.0
"""Reads of fields of invalid headers, whose value P4 leaves undefined."""

from __future__ import annotations

from typing import Any

from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import TRUE, Value
from detour.engine.compiler.model import Json
from detour.testgen.context import SymbolicContext

INVALID_READ = "read of an invalid header"


def note_reads(ctx: SymbolicContext, expression: Json) -> None:
    """Notes where an expression reads a field of a header that may be invalid: the right side of `&&` and `||` is
    evaluated only where the left one leaves the result open."""
    if ctx.notes and not ctx.f.state.dead:
        _walk(ctx, expression, TRUE)


def _walk(ctx: SymbolicContext, e: Any, when: Value) -> None:
    if not isinstance(e, dict) or when.const == 0:
        return
    inner = e.get("value")
    if e.get("type") == "field" and isinstance(inner, list) and isinstance(inner[0], str):
        header = ctx.model.headers.get(inner[0])
        if header is not None and not header.metadata and inner[1] != "$valid$":
            invalid = ctx.f.op("and", when, ctx.f.negate(ctx.is_valid(ctx.ref(header))))
            ctx.note_fault(f"{INVALID_READ}: {'.'.join(inner)}", invalid)
        return
    if e.get("type") != "expression" or not isinstance(inner, dict):
        return
    if "op" not in inner:
        _walk(ctx, inner, when)
        return
    op, left, right = inner["op"], inner.get("left"), inner.get("right")
    after = when
    if op in ("and", "or"):
        value = boolean(ctx, left)
        after = ctx.f.op("and", when, value if op == "and" else ctx.f.negate(value))
    if op == "?":
        condition = boolean(ctx, inner["cond"])
        _walk(ctx, inner["cond"], when)
        _walk(ctx, left, ctx.f.op("and", when, condition))
        _walk(ctx, right, ctx.f.op("and", when, ctx.f.negate(condition)))
        return
    _walk(ctx, left, when)
    _walk(ctx, right, after)
