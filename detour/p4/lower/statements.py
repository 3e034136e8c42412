# SPDX-License-Identifier: Apache-2.0
"""Statements (section 12): blocks and branches of them. Loops are unrolled."""

from __future__ import annotations

from detour.p4 import core, ir
from detour.p4.core import walk
from detour.p4.ir import Block, Const
from detour.p4.lower import operators
from detour.p4.lower.assign import assign
from detour.p4.lower.calls import invalidate
from detour.p4.lower.compare import equal
from detour.p4.lower.context import Context, Loop, executes
from detour.p4.lower.effects import has_effects
from detour.p4.lower.expressions import condition, saved
from detour.p4.lower.places import Aggregate, Place, ScalarPlace, StackPlace
from detour.p4.lower.tables import invoke_statements, switch_on_action
from detour.p4.types import Bits, underlying

MAX_ITERATIONS = 4096
_ENDS = (core.Return, core.Break, core.Continue)
"""Statements behind which the P4Info has no tables either."""


@executes(core.BlockStatement)
def _block(ctx: Context, s: core.BlockStatement) -> None:
    for statement in s.statements:
        ctx.execute(statement)
        if isinstance(statement, _ENDS):
            break


@executes(core.Declare)
def _declare(ctx: Context, s: core.Declare) -> None:
    # One place for each instance, however often it is applied: its tables' actions are lowered once.
    place = ctx.variables.get((ctx.instance, s.variable))
    if place is None:
        place = ctx.storage.variable(s.variable.type, s.variable.name, s.span)
        ctx.variables[ctx.instance, s.variable] = place
    if s.initial is None:
        invalidate(ctx, place)
    else:
        assign(ctx, place, ctx.evaluate(s.initial))
    ctx.bindings[s.variable] = place


@executes(core.If)
def _if(ctx: Context, s: core.If) -> None:
    if ctx.instance is not None and (chosen := ctx.instance.number(s.condition)) is not None:
        if branch := s.yes if chosen else s.no:
            ctx.execute(branch)
        return
    name = ctx.state_name
    yes, no, join = Block(f"{name}_true"), Block(f"{name}_false"), Block(f"{name}_join")
    condition(ctx, s.condition, yes, no)
    ctx.builder.start(yes)
    ctx.execute(s.yes)
    ctx.builder.goto(join, s.span)
    ctx.builder.start(no)
    if s.no is not None:
        ctx.execute(s.no)
    ctx.builder.goto(join, s.span)
    ctx.builder.start(join)


@executes(core.Return)
def _return(ctx: Context, s: core.Return) -> None:
    frame = ctx.frames[-1]
    if s.value is not None and frame.result is not None:
        assign(ctx, frame.result, ctx.evaluate(s.value))
    ctx.builder.goto(frame.exit, s.span)


@executes(core.Exit)
def _exit(ctx: Context, s: core.Exit) -> None:
    """Copies out of all calls, innermost first; an action leaves a mark at which BMv2 ends the pipeline."""
    for frame in reversed(ctx.frames):
        for copy in frame.copy_out:
            copy()
    if ctx.action_end is not None:
        ctx.call("exit")
        ctx.builder.goto(ctx.action_end, s.span)
    else:
        ctx.builder.goto(ctx.pipeline_end, s.span)


# ---------------------------------------------------------------- switch


@executes(core.Switch)
def _switch(ctx: Context, s: core.Switch) -> None:
    if isinstance(s.subject, core.ApplyResult):
        switch_on_action(ctx, s)
        return
    subject = ctx.evaluate(s.subject)
    if not isinstance(subject, Const | ir.Field) or has_effects(s.subject):
        subject = saved(ctx, subject, s.subject)
    join = Block()
    for case in s.cases:
        body, other = Block(), Block()
        for label in case.labels:
            if label is None:
                ctx.builder.goto(body, case.span)
                continue
            assert isinstance(label, core.Expression)
            otherwise = Block()
            same = equal(ctx, s.subject.type, subject, ctx.evaluate(label))
            ctx.builder.branch(same, body, otherwise, case.span)
            ctx.builder.start(otherwise)
        ctx.builder.goto(other)
        ctx.builder.start(body)
        ctx.execute(case.body)
        ctx.builder.goto(join)
        ctx.builder.start(other)
    ctx.builder.goto(join)
    ctx.builder.start(join)


# ---------------------------------------------------------------- loops


@executes(core.For)
def _for(ctx: Context, s: core.For) -> None:
    """A loop stays one in an action or parser. In a control BMv2 has none: it is unrolled while its condition is known,
    or becomes an action.
    """
    for statement in s.initial:
        ctx.execute(statement)
    if ctx.action is not None:
        _repeat(ctx, s)
    elif _is_known(ctx, s.condition):
        _unroll(ctx, s)
    elif ctx.parsing:
        _repeat(ctx, s)
    else:
        if any(isinstance(node, core.Apply | core.Return) for node in walk((s.body, s.update, s.condition))):
            raise ctx.refuse(
                s.span,
                "how often this loop runs is not known at compile time",
                "BMv2 cannot go back to a table: compare a variable that only the loop changes with a constant",
            )
        invoke_statements(ctx, s.span, lambda: _repeat(ctx, s))


def _is_known(ctx: Context, condition: core.Expression) -> bool:
    return not has_effects(condition) and type(ctx.value(condition)) is ir.Truth


def _repeat(ctx: Context, s: core.For) -> None:
    """A loop at run time."""
    head, body = Block(is_open=True), Block()
    loop = Loop(Block(), Block())
    ctx.builder.goto(head)
    ctx.builder.start(head)
    condition(ctx, s.condition, body, loop.exit)
    ctx.builder.start(body)
    _iterate(ctx, loop, s.body)
    for statement in s.update:
        ctx.execute(statement)
    ctx.builder.goto(head)
    ctx.builder.start(loop.exit)


def _unroll(ctx: Context, s: core.For) -> None:
    loop = Loop(Block(), Block())
    for _ in range(MAX_ITERATIONS):
        loop.again = Block()
        body = Block()
        condition(ctx, s.condition, body, loop.exit)
        ctx.builder.start(body)
        if ctx.builder.block is None:
            break
        _iterate(ctx, loop, s.body)
        for statement in s.update:
            ctx.execute(statement)
    else:
        raise ctx.refuse(
            s.span,
            f"this loop does not end within {MAX_ITERATIONS} iterations that are known at compile time",
            "loops are unrolled: compare a variable that only the loop changes with a constant",
        )
    ctx.builder.start(loop.exit)


def _iterate(ctx: Context, loop: Loop, body: core.Statement) -> None:
    ctx.loops.append(Loop(loop.exit, loop.again))
    ctx.execute(body)
    ctx.loops.pop()
    ctx.builder.goto(loop.again)
    ctx.builder.start(loop.again)


@executes(core.ForIn)
def _for_in(ctx: Context, s: core.ForIn) -> None:
    variable = ctx.storage.variable(s.variable.type, s.variable.name, s.span)
    ctx.bindings[s.variable] = variable
    if isinstance(s.collection, core.RangeSet) and ctx.action is not None:
        _over_range(ctx, s, s.collection)
        return
    loop = Loop(Block(), Block())
    for value in _elements(ctx, s):
        loop.again = Block()
        if ctx.builder.block is None:
            break
        assign(ctx, variable, value)
        _iterate(ctx, loop, s.body)
    ctx.builder.goto(loop.exit)
    ctx.builder.start(loop.exit)


def _over_range(ctx: Context, s: core.ForIn, bounds: core.RangeSet) -> None:
    """A loop at run time. The bounds are computed once; the last value ends it, as the next may have no room."""
    kind = s.variable.type
    number, last = ctx.temporary(kind, "number"), ctx.temporary(kind, "last")
    assign(ctx, number, ctx.value(bounds.low))
    assign(ctx, last, ctx.value(bounds.high))
    assert isinstance(number, ScalarPlace)
    assert isinstance(last, ScalarPlace)
    head, following = Block(is_open=True), Block()
    loop = Loop(Block(), Block())
    ctx.builder.branch(operators.compare("<=", ctx.read(number), ctx.read(last)), head, loop.exit, s.span)
    ctx.builder.start(head)
    variable = ctx.bindings[s.variable]
    assert isinstance(variable, Place)
    assign(ctx, variable, ctx.read(number))
    _iterate(ctx, loop, s.body)
    ctx.builder.branch(operators.compare("==", ctx.read(number), ctx.read(last)), loop.exit, following, s.span)
    ctx.builder.start(following)
    width = underlying(kind)
    assert isinstance(width, Bits)
    ctx.store(number, operators.binary("+", width, ctx.read(number), Const(1, width.width)))
    ctx.builder.goto(head)
    ctx.builder.start(loop.exit)


def _elements(ctx: Context, s: core.ForIn):
    """Values that the variable takes."""
    of = s.collection
    if isinstance(of, core.RangeSet):
        low, high = ctx.value(of.low), ctx.value(of.high)
        if type(low) is not Const or type(high) is not Const:
            raise ctx.refuse(of.span, "the bounds of a range in a loop must be known at compile time")
        if high.number - low.number >= MAX_ITERATIONS:
            raise ctx.refuse(of.span, f"a loop of more than {MAX_ITERATIONS} iterations")
        kind = underlying(s.variable.type)
        width = kind.width if isinstance(kind, Bits) else 32
        return [Const(number, width) for number in range(low.number, high.number + 1)]
    collection = ctx.evaluate(of)
    if isinstance(collection, StackPlace):
        return [ctx.read(e) if isinstance(e, ScalarPlace) else e for e in collection.elements]
    if isinstance(collection, Aggregate):
        return list(collection.parts.values())
    raise ctx.refuse(of.span, "a loop can only go over a range, a list or a stack")


@executes(core.Break)
def _break(ctx: Context, s: core.Break) -> None:
    ctx.builder.goto(ctx.loops[-1].exit, s.span)


@executes(core.Continue)
def _continue(ctx: Context, s: core.Continue) -> None:
    ctx.builder.goto(ctx.loops[-1].again, s.span)
