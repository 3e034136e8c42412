# SPDX-License-Identifier: Apache-2.0
"""Bodies of actions: primitives in order, with the jumps that `if`, `for` and `return` become."""

from __future__ import annotations

from detour.engine import phv
from detour.engine.compiler.context import FunctionContext
from detour.engine.compiler.expressions import exact
from detour.engine.compiler.ir import const
from detour.engine.compiler.model import ActionIr, Json, parse_hex, refuse
from detour.engine.compiler.primitives import run_primitive

_JUMPS = {"_jump": 1, "_jump_if_zero": 2}
"""with the numbers of their arguments"""
_MAX_STEPS = 1 << 20  # backward jumps in one run of an action: a P4 loop that does not end is broken off


def run_action(ctx: FunctionContext, action: ActionIr, arguments: str | None) -> None:
    """Compiles an action into the current block; `arguments` points to its words."""
    before = ctx.action, ctx.arguments
    ctx.action, ctx.arguments = action, arguments
    run_primitives(ctx, action.json["primitives"], action.name)
    ctx.action, ctx.arguments = before


def run_primitives(ctx: FunctionContext, calls: list[Json], where: str) -> None:
    """Compiles a list of primitive calls; `where`: what coverage calls the place."""
    targets = {_target(c) for c in calls if c["op"] in _JUMPS}
    if not targets:
        for i, call in enumerate(calls):
            _run(ctx, call, where, i)
        return
    f = ctx.f
    labels = {i: f.block("step") for i in sorted(targets | {len(calls)})}
    steps = None
    if any(c["op"] in _JUMPS and _target(c) <= i for i, c in enumerate(calls)):
        steps = f.alloca("i64")
        f.store(const(64, 0), steps, 8)
    for i, call in enumerate(calls):
        if i in labels:
            f.enter(labels[i])
        if call["op"] in _JUMPS:
            _jump(ctx, call, i, labels, steps, where)
        else:
            _run(ctx, call, where, i)
    f.enter(labels[len(calls)])


def _run(ctx: FunctionContext, call: Json, where: str, index: int) -> None:
    if ctx.cover:
        ctx.cover.statement(ctx.f, where, index, call)
    run_primitive(ctx, call)


def _target(call: Json) -> int:
    if len(call["parameters"]) != _JUMPS[call["op"]]:
        raise refuse(f"primitive '{call['op']}' takes {_JUMPS[call['op']]} arguments", call)
    to = call["parameters"][-1]
    if to["type"] != "hexstr" or parse_hex(to["value"]) < 0:
        raise refuse("a jump to a place that is not constant", call)
    return parse_hex(to["value"])


def _jump(ctx: FunctionContext, call: Json, i: int, labels: dict[int, str], steps: str | None, where: str) -> None:
    f = ctx.f
    to = labels[min(_target(call), max(labels))]
    following = f.block("next")
    if steps is not None and _target(call) <= i:
        n = f.op("add", f.load(64, steps, 8), const(64, 1))
        f.store(n, steps, 8)
        endless = f.compare("ugt", n, const(64, _MAX_STEPS))
        ctx.fail(phv.ERROR_LOOP, endless)
        go_on = f.block("go")
        f.branch(endless, labels[max(labels)], go_on)
        f.enter(go_on)
    if call["op"] == "_jump":
        f.jump(to)
    else:
        n = exact(ctx, call["parameters"][0])
        zero = f.compare("eq", n.value, const(n.value.bits, 0))
        if ctx.cover:
            ctx.cover.decided(f, f.negate(zero), f"{where} #{i}", call)
        f.branch(zero, to, following)
    f.enter(following)
