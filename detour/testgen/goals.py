# SPDX-License-Identifier: Apache-2.0
"""What tests should show beside both outcomes of a condition: each part of it true and false where it is evaluated, and
the two sides of a comparison equal and one apart; and entries that are hit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import TRUE, Value
from detour.engine.compiler.model import Json, TableIr
from detour.testgen.context import Conditions, Goal, SymbolicContext
from detour.testgen.terms import Term, term_of

_ORDER = ("<", "<=", ">", ">=")
_ONE = {"type": "hexstr", "value": "0x1"}


def note_goals(ctx: SymbolicContext, name: str, expression: Json) -> None:
    """Notes the goals of a condition; `name`: what coverage calls it."""
    if not ctx.notes or ctx.f.state.dead:
        return
    for number, (part, goal) in enumerate(_goals(ctx, expression, TRUE)):
        if goal.const != 0:
            conditions = ctx.f.state.conditions
            ctx.findings.goals.append(Goal((name, number), f"{name}: {part}", conditions, term_of(goal)))


def note_outcome(ctx: SymbolicContext, table: TableIr, text: str, conditions: Conditions, term: Term | bool) -> None:
    """Notes that an entry of a table is hit: coverage may have seen that of packets with which it makes no difference,
    and tests prefer packets that are sent."""
    if ctx.notes and not ctx.f.state.dead and not isinstance(term, bool):
        ctx.findings.goals.append(Goal((f"{table.name}: {text}", 0), f"table {table.name}: {text}", conditions, term))


def _goals(ctx: SymbolicContext, e: Any, when: Value) -> Iterator[tuple[str, Value]]:
    while e["type"] == "expression" and "op" not in e["value"]:
        e = e["value"]
    inner = e["value"]
    op = inner.get("op") if e["type"] == "expression" else None
    if op in ("and", "or"):
        yield from _goals(ctx, inner["left"], when)
        left = boolean(ctx, inner["left"])
        yield from _goals(ctx, inner["right"], ctx.f.op("and", when, left if op == "and" else ctx.f.negate(left)))
    elif op == "not":
        yield from _goals(ctx, inner["right"], when)
    else:
        value = boolean(ctx, e)
        yield "a part is true", ctx.f.op("and", when, value)
        yield "a part is false", ctx.f.op("and", when, ctx.f.negate(value))
        if op in _ORDER:
            left, right = inner["left"], inner["right"]
            pairs = (("equal", left, right), ("one below", _plus(left), right), ("one above", left, _plus(right)))
            for text, a, b in pairs:
                yield f"sides {text}", ctx.f.op("and", when, boolean(ctx, _operation("==", a, b)))


def _operation(op: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _plus(e: Json) -> Json:
    return _operation("+", e, _ONE)
