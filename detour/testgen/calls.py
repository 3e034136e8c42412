# SPDX-License-Identifier: Apache-2.0
"""Lists of primitive calls, as actions and deparsers have them: the compiler's functions for one call after the other,
and states that jumps leave and join."""

from __future__ import annotations

from typing import Any

from detour.engine.compiler.actions import run_primitive
from detour.engine.compiler.expressions import exact, unwrap
from detour.engine.compiler.ir import TRUE, const
from detour.engine.compiler.model import Json, parse_hex
from detour.testgen.conditions import note_goals, note_reads
from detour.testgen.context import SymbolicContext, condition_text
from detour.testgen.state import merged

_ASSIGNS = ("assign", "modify_field")
_JUMPS = ("_jump", "_jump_if_zero")


def run_calls(ctx: SymbolicContext, calls: list[Json], where: str) -> None:
    """Execute the primitives of an action; `where`: what coverage calls the place."""
    waiting: dict[int, list[Any]] = {}
    going = True
    for number, call in enumerate([*calls, None]):
        if arrived := waiting.pop(number, None):
            ctx.f.state = merged([*arrived, *([ctx.f.state] if going else [])])
            going = True
        if not going or call is None:
            continue
        if call["op"] in _JUMPS:
            target = parse_hex(call["parameters"][-1]["value"])
            if target <= number:
                ctx.give_up("a loop in an action")
                continue
            going = _jump(ctx, call, f"{where} #{number}", waiting.setdefault(min(target, len(calls)), []))
            continue
        ctx.cover.statement(ctx.f, where, number, call)
        run_call(ctx, call)


def _jump(ctx: SymbolicContext, call: Json, where: str, target: list[Any]) -> bool:
    """Leave a state for the target of a jump. False: execution goes on there only."""
    if call["op"] == "_jump":
        target.append(ctx.f.state)
        return False
    zero, condition = TRUE, unwrap(call["parameters"][0])
    ctx.at = call
    with ctx.giving_up():
        note_reads(ctx, condition)
        number = exact(ctx, condition).value
        zero = ctx.f.compare("eq", number, const(number.bits, 0))
        if condition["type"] == "expression" and condition["value"]["op"] == "b2d":
            note_goals(ctx, where, condition["value"]["right"])
    not_zero = ctx.f.negate(zero)
    ctx.cover.decided(ctx.f, not_zero, where, call)
    texts = [condition_text(where, call, outcome) for outcome in ("false", "true")]
    jumps, goes_on = ctx.fork_on(zero, texts)
    target.append(jumps)
    ctx.f.state = goes_on
    return True


def run_call(ctx: SymbolicContext, call: Json) -> None:
    """Execute one primitive, unless no packet comes here."""
    if ctx.f.state.dead:
        return
    ctx.at = call
    with ctx.giving_up():
        if call["op"] in _ASSIGNS:
            note_reads(ctx, call["parameters"][1])
        run_primitive(ctx, call)
