# SPDX-License-Identifier: Apache-2.0
"""Lists of primitive calls, as actions and deparsers have them: the compiler's functions for one call after the other,
and states that jumps leave and join."""

from __future__ import annotations

from itertools import count

from detour.engine.compiler.actions import run_primitive
from detour.engine.compiler.expressions import exact, unwrap
from detour.engine.compiler.ir import TRUE, const
from detour.engine.compiler.model import Json, parse_hex
from detour.testgen.conditions import note_goals, note_reads
from detour.testgen.context import SymbolicContext, condition_text
from detour.testgen.state import State, merged

_ASSIGNS = ("assign", "modify_field")
_JUMPS = ("_jump", "_jump_if_zero")
_MOST_REPEATED = 512
"""calls that loops in an action may repeat"""


def run_calls(ctx: SymbolicContext, calls: list[Json], where: str) -> None:
    """Execute the primitives of an action; `where`: what coverage calls the place. States wait for others at the call
    that they come to, so that all that come there go on as one; those that go round a loop are first."""
    waiting = {0: [ctx.f.state]}
    most = len(calls) + _MOST_REPEATED
    for steps in count():
        number = min(waiting)
        ctx.f.state = merged(waiting.pop(number))
        if number >= len(calls):
            return
        call = calls[number]
        if call["op"] in _JUMPS:
            places = _jump(ctx, call, number, where, steps < most)
        else:
            ctx.cover.statement(ctx.f, where, number, call)
            run_call(ctx, call)
            places = [(number + 1, ctx.f.state)]
        for place, state in places:
            waiting.setdefault(min(place, len(calls)), []).append(state)


def _jump(ctx: SymbolicContext, call: Json, number: int, where: str, repeats: bool) -> list[tuple[int, State]]:
    """The calls at which execution goes on, with the state at each. `repeats`: again at one in front, too."""
    target = parse_hex(call["parameters"][-1]["value"])
    jumps, *goes_on = [ctx.f.state] if call["op"] == "_jump" else _forked(ctx, call, f"{where} #{number}")
    if target <= number and (jumps.dead or not repeats):
        if not jumps.dead:
            ctx.f.state = jumps
            ctx.give_up("a loop in an action that goes round too often")
        return [(number + 1, goes_on[0] if goes_on else jumps)]
    return [(target, jumps), *((number + 1, state) for state in goes_on)]


def _forked(ctx: SymbolicContext, call: Json, where: str) -> list[State]:
    """The states in which a conditional jump is taken, and in which it is not."""
    zero, condition = TRUE, unwrap(call["parameters"][0])
    ctx.at = call
    with ctx.giving_up():
        note_reads(ctx, condition)
        number = exact(ctx, condition).value
        zero = ctx.f.compare("eq", number, const(number.bits, 0))
        if condition["type"] == "expression" and condition["value"]["op"] == "b2d":
            note_goals(ctx, where, condition["value"]["right"])
    ctx.cover.decided(ctx.f, ctx.f.negate(zero), where, call)
    return list(ctx.fork_on(zero, [condition_text(where, call, outcome) for outcome in ("false", "true")]))


def run_call(ctx: SymbolicContext, call: Json) -> None:
    """Execute one primitive, unless no packet comes here."""
    if ctx.f.state.dead:
        return
    ctx.at = call
    with ctx.giving_up():
        if call["op"] in _ASSIGNS:
            note_reads(ctx, call["parameters"][1])
        run_primitive(ctx, call)
