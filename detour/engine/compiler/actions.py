# SPDX-License-Identifier: Apache-2.0
"""Calls of primitives, in order, with the jumps that `if`, `for` and `return` become; and the records that a traced
compilation leaves of them.

Arguments are computed before the primitive runs, since it may write to the fields that they are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detour.engine import phv
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.context import FunctionContext, HeaderRef
from detour.engine.compiler.expressions import exact, header, loggable, low, lvalue
from detour.engine.compiler.ir import const
from detour.engine.compiler.model import ActionIr, Json, parse_hex, refuse
from detour.engine.compiler.primitives import PRIMITIVES, Extern, Primitive

_JUMPS = {"_jump": 1, "_jump_if_zero": 2}
"""with the numbers of their arguments"""
_MAX_STEPS = 1 << 20  # backward jumps in one run of an action: a P4 loop that does not end is broken off


def run_action(ctx: FunctionContext, action: ActionIr, arguments: str | None) -> None:
    """Compile an action into the current block; `arguments` points to its words."""
    before = ctx.action, ctx.arguments
    ctx.action, ctx.arguments = action, arguments
    run_primitives(ctx, action.json["primitives"], action.name)
    ctx.action, ctx.arguments = before


def run_primitives(ctx: FunctionContext, calls: list[Json], where: str) -> None:
    """Compile a list of primitive calls; `where`: what coverage calls the place."""
    targets = {min(_target(c), len(calls)) for c in calls if c["op"] in _JUMPS}
    f, labels, steps_taken = ctx.f, {}, None
    if targets:
        labels = {i: f.block("step") for i in sorted(targets | {len(calls)})}
    if any(c["op"] in _JUMPS and _target(c) <= i for i, c in enumerate(calls)):
        steps_taken = f.variable(64)
    for i, call in enumerate(calls):
        if i in labels:
            f.enter(labels[i])
        if call["op"] in _JUMPS:
            _jump(ctx, call, i, labels, steps_taken, where)
        else:
            if ctx.cover:
                ctx.cover.statement(f, where, i, call)
            run_primitive(ctx, call)
    if targets:
        f.enter(labels[len(calls)])


def _target(call: Json) -> int:
    if len(call["parameters"]) != _JUMPS[call["op"]]:
        raise refuse(f"primitive '{call['op']}' takes {_JUMPS[call['op']]} arguments", call)
    to = call["parameters"][-1]
    if to["type"] != "hexstr" or parse_hex(to["value"]) < 0:
        raise refuse("a jump to a place that is not constant", call)
    return parse_hex(to["value"])


def _jump(ctx: FunctionContext, call: Json, i: int, labels: dict[int, str], taken: str | None, where: str) -> None:
    f, end = ctx.f, labels[max(labels)]
    to = labels[min(_target(call), max(labels))]
    following = f.block("next")
    if taken is not None and _target(call) <= i:
        n = f.op("add", f.load(64, taken, 8), const(64, 1))
        f.store(n, taken, 8)
        endless = f.compare("ugt", n, const(64, _MAX_STEPS))
        ctx.fail(phv.ERROR_LOOP, endless)
        go_on = f.block("go")
        f.branch(endless, end, go_on)
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


def run_primitive(ctx: FunctionContext, call: Json) -> None:
    """Compile one call, of anything but a jump."""
    op, args = call["op"], call["parameters"]
    primitive = PRIMITIVES.get(op)
    if primitive is None:
        raise refuse(f"primitive '{op}'", call)
    if len(args) != primitive.parameters:
        raise refuse(f"primitive '{op}' takes {primitive.parameters} arguments, not {len(args)}", call)
    if ctx.trace:
        _traced(ctx, primitive, call, lambda: primitive.write(ctx, args, call))
    else:
        primitive.write(ctx, args, call)


# -- records


def _traced(ctx: FunctionContext, primitive: Primitive, call: Json, run: Callable[[], None]) -> None:
    """Compile a primitive with `run` and record it."""
    op, args, record = call["op"], call["parameters"], steps.writer(ctx).record
    if primitive.assigns == "assign":
        traced_set(ctx, args[0], call, run)
    elif primitive.assigns:
        _around(ctx, header(ctx, args[0]), "$valid$", call, run, primitive.assigns)
    elif primitive.extern:
        _extern(ctx, primitive.extern, args, call, run)
    elif op in ("assert", "assume"):
        record(ctx.f, "assertion", [("value", exact(ctx, args[0]))], at=call, what=op)
        run()
    elif op == "log_msg":
        values = [(f"{i}", loggable(ctx, e)) for i, e in enumerate(args[1].get("value") or [])]
        record(ctx.f, "log_message", values, at=call, text=args[0]["value"])
        run()
    else:
        run()
        if op in ("mark_to_drop", "drop"):
            record(ctx.f, "mark_to_drop", at=call)
        elif op != "no_op":
            record(ctx.f, "extern_call", at=call, extern=op, of=_name(args[0]) if args else None)


def traced_set(ctx: FunctionContext, target: Json, at: Json, run: Callable[[], None]) -> None:
    """Compile an assignment with `run`; record what the field was and is."""
    if ctx.trace:
        _around(ctx, *lvalue(ctx, target), at, run, "assign")
    else:
        run()


def _around(ctx: FunctionContext, ref: HeaderRef, name: str, at: Json, run: Callable[[], None], what: str) -> None:
    before = steps.value_of(ctx, ref, name)
    run()
    steps.assigned(ctx, ref, name, before, at, what)


def _extern(ctx: FunctionContext, extern: Extern, args: list[Json], call: Json, run: Callable[[], None]) -> None:
    """A call of an extern: its numbers, its result, and for a register what was written."""
    op = call["op"]
    values: list[tuple[str, Any]] = [(name, low(ctx, args[i], bits)) for name, (i, bits) in extern.numbers.items()]
    if op == "register_write":
        values.append(("value", exact(ctx, args[2])))
    facts: dict[str, Any] = {"extern": extern.name or op}
    if extern.of is not None:
        facts["of"] = _name(args[extern.of])
    if facts["extern"] == "hash":
        calculation = ctx.model.calculations.get(str(facts["of"]))
        facts["algorithm"] = calculation["algo"] if calculation else None
    run()
    if extern.result is not None:
        ref, name = lvalue(ctx, args[extern.result])
        result = steps.value_of(ctx, ref, name)
        facts["to"] = f"{ref.header.name}.{name}"
        values += [] if result is None else [("result", result)]
    kind = "extern_call"
    if op.startswith("clone_"):
        kind, facts = "clone", {"from": "ingress" if "ingress" in op else "egress"}
    steps.writer(ctx).record(ctx.f, kind, values, at=call, **facts)


def _name(e: Json) -> str | None:
    """Return the name in a parameter, None if it is not a name."""
    value = e.get("value") if isinstance(e, dict) else None
    if isinstance(value, list):
        return ".".join(map(str, value))
    return value if isinstance(value, str) else None
