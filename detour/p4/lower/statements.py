# SPDX-License-Identifier: Apache-2.0
"""Statements (section 12): blocks and branches of them. Loops are unrolled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from detour.p4 import core, elaborate, ir
from detour.p4.core import walk
from detour.p4.ir import Block, Const
from detour.p4.lower import operators
from detour.p4.lower.assign import assign
from detour.p4.lower.calls import bind, declare_locals, inline, invalidate, object_of
from detour.p4.lower.context import NOTHING, Context, Frame, Loop, evaluates, executes
from detour.p4.lower.effects import has_effects
from detour.p4.lower.expressions import choose, condition, equal, saved
from detour.p4.lower.parsers import apply_parser
from detour.p4.lower.places import Aggregate, Operand, Place, StackPlace
from detour.p4.lower.tables import apply_table, invoke, switch_on_action
from detour.p4.types import Bits, underlying

MAX_ITERATIONS = 4096


@executes(core.BlockStatement)
def _block(ctx: Context, s: core.BlockStatement) -> None:
    for statement in core.until_end(s.statements):
        ctx.execute(statement)


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
    def side(branch: core.Statement | None) -> None:
        if branch is not None:
            ctx.execute(branch)

    if (chosen := ctx.instance.number(s.condition)) is not None:
        side(s.yes if chosen else s.no)
    else:
        choose(ctx, s.condition, lambda: side(s.yes), lambda: side(s.no), ctx.state_name, s.span)


@executes(core.Return)
def _return(ctx: Context, s: core.Return) -> None:
    frame = ctx.frames[-1]
    if s.value is not None and frame.result is not None:
        assign(ctx, frame.result, ctx.evaluate(s.value))
    ctx.builder.goto(frame.exit, s.span)


@executes(core.Exit)
def _exit(ctx: Context, s: core.Exit) -> None:
    """Copy out of all calls, innermost first; an action leaves a mark at which BMv2 ends the pipeline."""
    for frame in reversed(ctx.frames):
        for copy in frame.copy_out:
            copy()
    if ctx.action_end is not None:
        ctx.call("exit")
    ctx.builder.goto(ctx.action_end or ctx.pipeline_end, s.span)


# ---------------------------------------------------------------- apply


@evaluates(core.Apply)
def _apply(ctx: Context, e: core.Apply) -> Operand:
    target = e.target
    if isinstance(target, core.Ref) and isinstance(target.declaration, core.Table):
        apply_table(ctx, target.declaration, e.span)
        return NOTHING
    block = object_of(ctx, target)
    if not isinstance(block, elaborate.Block):
        raise ctx.refuse(e.span, "it is not known at compile time what is applied here")
    if isinstance(block.declaration, core.Parser):
        apply_parser(ctx, block, e)
        return NOTHING
    control = block.declaration
    assert isinstance(control, core.Control)
    frame = Frame(Block())
    bind(ctx, control.parameters, e.arguments, frame)
    outer, ctx.instance = ctx.instance, block
    declare_locals(ctx, control.locals)
    inline(ctx, frame, control.body)
    ctx.instance = outer
    return NOTHING


# ---------------------------------------------------------------- switch


@executes(core.Switch)
def _switch(ctx: Context, s: core.Switch) -> None:
    if isinstance(s.subject, core.ApplyResult):
        switch_on_action(ctx, s, s.subject)
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
    if ctx.action_end is None and _is_known(ctx, s.condition):
        _unroll(ctx, s)
    elif ctx.action_end is not None or ctx.parsing:
        _repeat(ctx, s)
    else:
        if any(isinstance(node, core.Apply | core.Return) for node in walk((s.body, s.update, s.condition))):
            raise ctx.refuse(
                s.span,
                "how often this loop runs is not known at compile time",
                "BMv2 cannot go back to a table: compare a variable that only the loop changes with a constant",
            )
        invoke(ctx, "", s.span, s.span, lambda: _repeat(ctx, s))


def _is_known(ctx: Context, condition: core.Expression) -> bool:
    return not has_effects(condition) and type(ctx.value(condition)) is ir.Truth


def _repeat(ctx: Context, s: core.For) -> None:
    """A loop at run time."""
    head, body, end = Block(is_open=True), Block(), Block()
    ctx.builder.goto(head)
    ctx.builder.start(head)
    condition(ctx, s.condition, body, end)
    ctx.builder.start(body)
    _iterate(ctx, end, s.body, s.update)
    ctx.builder.goto(head)
    ctx.builder.start(end)


def _unroll(ctx: Context, s: core.For) -> None:
    end = Block()
    for _ in range(MAX_ITERATIONS):
        body = Block()
        condition(ctx, s.condition, body, end)
        ctx.builder.start(body)
        if ctx.builder.block is None:
            break
        _iterate(ctx, end, s.body, s.update)
    else:
        raise ctx.refuse(
            s.span,
            f"this loop does not end within {MAX_ITERATIONS} iterations that are known at compile time",
            "loops are unrolled: compare a variable that only the loop changes with a constant",
        )
    ctx.builder.start(end)


def _iterate(ctx: Context, end: Block, body: core.Statement, update: Sequence[core.Statement] = ()) -> None:
    """The body of a loop, once."""
    again = Block()
    ctx.loops.append(Loop(end, again))
    ctx.execute(body)
    ctx.loops.pop()
    ctx.builder.goto(again)
    ctx.builder.start(again)
    for statement in update:
        ctx.execute(statement)


@executes(core.ForIn)
def _for_in(ctx: Context, s: core.ForIn) -> None:
    variable = ctx.storage.variable(s.variable.type, s.variable.name, s.span)
    ctx.bindings[s.variable] = variable
    end = Block()
    if isinstance(s.collection, core.RangeSet) and ctx.action_end is not None:
        _over_range(ctx, s, s.collection, variable, end)
    else:
        for value in _elements(ctx, s):
            if ctx.builder.block is None:
                break
            assign(ctx, variable, ctx.contents(value))
            _iterate(ctx, end, s.body)
        ctx.builder.goto(end)
    ctx.builder.start(end)


def _over_range(ctx: Context, s: core.ForIn, bounds: core.RangeSet, variable: Place, end: Block) -> None:
    """A loop at run time. The bounds are computed once; the last value ends it, as the next may have no room."""
    number, last = (ctx.scalar_temporary(s.variable.type, name) for name in ("number", "last"))
    assign(ctx, number, ctx.value(bounds.low))
    assign(ctx, last, ctx.value(bounds.high))
    head, following = Block(is_open=True), Block()
    ctx.builder.branch(operators.compare("<=", ctx.read(number), ctx.read(last)), head, end, s.span)
    ctx.builder.start(head)
    assign(ctx, variable, ctx.read(number))
    _iterate(ctx, end, s.body)
    ctx.builder.branch(operators.compare("==", ctx.read(number), ctx.read(last)), end, following, s.span)
    ctx.builder.start(following)
    kind = underlying(s.variable.type)
    assert isinstance(kind, Bits)
    ctx.store(number, operators.binary("+", kind, ctx.read(number), Const(1, kind.width)))
    ctx.builder.goto(head)


def _elements(ctx: Context, s: core.ForIn) -> Iterable[Operand]:
    """Values that the variable takes."""
    of = s.collection
    if isinstance(of, core.RangeSet):
        low, high = ctx.value(of.low), ctx.value(of.high)
        if type(low) is not Const or type(high) is not Const:
            raise ctx.refuse(of.span, "the bounds of a range in a loop must be known at compile time")
        if high.number - low.number >= MAX_ITERATIONS:
            raise ctx.refuse(of.span, f"a loop of more than {MAX_ITERATIONS} iterations")
        return [operators.constant(number, s.variable.type) for number in range(low.number, high.number + 1)]
    collection = ctx.evaluate(of)
    if isinstance(collection, StackPlace | Aggregate):
        return collection.parts.values()
    raise ctx.refuse(of.span, "a loop can only go over a range, a list or a stack")


@executes(core.Break)
def _break(ctx: Context, s: core.Break) -> None:
    ctx.builder.goto(ctx.loops[-1].exit, s.span)


@executes(core.Continue)
def _continue(ctx: Context, s: core.Continue) -> None:
    ctx.builder.goto(ctx.loops[-1].again, s.span)
