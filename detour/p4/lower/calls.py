# SPDX-License-Identifier: Apache-2.0
"""Calls: parameters are bound, the body is inlined, and `out` parameters are copied back (section 6.8).

An `in` or `inout` parameter is the argument itself where nobody can tell the difference: if nothing else that the call
may write overlaps with it. Otherwise it is a copy, made before the body, and copied out after it, also on `exit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from detour.p4 import core, elaborate, ir
from detour.p4.ir import Block, Const, Truth, Value
from detour.p4.lower.assign import Touched, assign, frozen, slice_writer
from detour.p4.lower.context import NOTHING, Context, Frame, evaluates, executes
from detour.p4.lower.effects import Accesses, last_effect
from detour.p4.lower.expressions import saved, validity
from detour.p4.lower.packets import packet_method
from detour.p4.lower.places import (
    HeaderPlace,
    Operand,
    Path,
    Place,
    StackPlace,
    UnionPlace,
    header_ref,
    leaves,
    paths_overlap,
)
from detour.p4.types import VOID
from detour.p4.types import Block as BlockType
from detour.p4.types import Extern as ExternType

_ACCESSES = Accesses()


def bind(
    ctx: Context,
    parameters: Sequence[core.Variable],
    arguments: Sequence[core.Expression | None],
    frame: Frame,
    action: core.Action | None = None,
) -> None:
    """Evaluate the arguments from left to right and bind the parameters."""
    last = last_effect(arguments)
    inputs: list[tuple[core.Variable, Operand]] = []
    outputs: list[_Output] = []
    for number, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True)):
        if isinstance(parameter.type, ExternType | BlockType):
            if argument is not None:
                ctx.bindings[parameter] = object_of(ctx, argument)
        elif parameter.is_output:
            outputs.append(_output(ctx, parameter, argument, number < last))
        elif argument is not None:
            operand = ctx.evaluate(argument)
            inputs.append((parameter, saved(ctx, operand, argument) if number < last else operand))
    places = [output.place for output in outputs]
    used: frozenset[Path] = frozenset()
    changed = used
    if action is not None and (inputs or outputs):
        used, changed = _ACCESSES.of(action)
    _bind_inputs(ctx, inputs, [*places, *(_follow(place, names) for place, names in _outside(ctx, changed))])
    paths = [(*place.path, *names) for place, names in _outside(ctx, used)] if outputs else []
    for number, output in enumerate(outputs):
        others = [*(other.path for at, other in enumerate(places) if at != number), *paths]
        is_aliased = any(paths_overlap(output.place.path, path) for path in others)
        _bind_output(ctx, output, is_aliased, frame)


def object_of(ctx: Context, argument: core.Expression) -> Operand | elaborate.Block:
    """An extern or block that is passed on."""
    if isinstance(argument, core.Ref) and argument.declaration in ctx.bindings:
        return ctx.bindings[argument.declaration]
    value = ctx.instance.value(argument)
    return value if isinstance(value, elaborate.Block) else NOTHING


class _Output(NamedTuple):
    """An `out` or `inout` argument. `copy`: of its value, made where arguments that follow may change it; `write`: of a
    slice, whose place is a temporary."""

    parameter: core.Variable
    place: Place
    copy: Place | None = None
    write: Callable[[Value], None] | None = None


def _output(ctx: Context, parameter: core.Variable, argument: core.Expression | None, may_change: bool) -> _Output:
    """The place of an argument; a temporary for nothing, or a slice. `may_change`: arguments that follow have side
    effects."""
    if argument is not None and not isinstance(argument, core.Slice):
        place = frozen(ctx, ctx.locate(argument))
        copy = _copy(ctx, parameter, place) if may_change and parameter.direction == "inout" else None
        return _Output(parameter, place, copy)
    write = slice_writer(ctx, argument) if argument is not None else None
    place = ctx.temporary(parameter.type, parameter.name)
    if argument is not None and parameter.direction == "inout":
        assign(ctx, place, ctx.evaluate(argument))
    return _Output(parameter, place, write=write)


def _copy(ctx: Context, parameter: core.Variable, place: Place) -> Place:
    """A temporary with what an argument contains; an `out` parameter begins without a value."""
    copy = ctx.temporary(parameter.type, parameter.name)
    if parameter.direction == "inout":
        assign(ctx, copy, ctx.contents(place))
    return copy


def _bind_inputs(ctx: Context, inputs: list[tuple[core.Variable, Operand]], written: list[Place]) -> None:
    touched: Touched | None = None
    for parameter, operand in inputs:
        is_stable = isinstance(operand, Const | Truth | ir.Data | ir.Text)
        if not is_stable and (isinstance(operand, ir.Field | Place) or _is_bit(operand)):
            touched = touched or Touched(written)
            is_stable = not touched.changes(operand)
        if not is_stable:
            copy = ctx.temporary(parameter.type, parameter.name)
            assign(ctx, copy, operand)
            operand = copy
        ctx.bindings[parameter] = operand


def _is_bit(operand: Operand) -> bool:
    return isinstance(operand, ir.Op) and operand.operator == "d2b"


def _outside(ctx: Context, paths: frozenset[Path]) -> Iterator[tuple[Place, Path]]:
    """Variables of an action's surroundings that paths begin with, and the names that follow."""
    for path in paths:
        bound = ctx.bindings.get(path[0])  # type: ignore[arg-type]
        if isinstance(bound, Place):
            yield bound, path[1:]


def _follow(place: Place, names: Path) -> Place:
    """A part of a place; the whole of a stack whose element is chosen at run time."""
    for name in names:
        if name not in place.parts:
            break
        place = place.parts[str(name)]
    return place


def _bind_output(ctx: Context, output: _Output, is_aliased: bool, frame: Frame) -> None:
    parameter, place, copy, write = output
    if is_aliased and copy is None:
        copy = _copy(ctx, parameter, place)
    own = ctx.bindings[parameter] = copy or place
    if parameter.direction == "out":
        invalidate(ctx, own)
    if write is not None:
        frame.copy_out.append(lambda: write(ctx.scalar(place)))
    elif copy is not None:
        frame.copy_out.append(lambda: assign(ctx, place, own))


def invalidate(ctx: Context, place: Place) -> None:
    """Headers that have no value yet are invalid (section 6.8)."""
    for leaf in leaves(place):
        if isinstance(leaf, HeaderPlace):
            ctx.call("remove_header", header_ref(leaf))
            ctx.written(leaf)


# ---------------------------------------------------------------- functions, actions, controls


@evaluates(core.CallFunction)
def call_function(ctx: Context, e: core.CallFunction) -> Operand:
    function = e.function
    if function.body is None:
        return ctx.architecture.function(ctx, e)
    if any(frame.function is function for frame in ctx.frames):
        raise ctx.refuse(e.span, f"{function.name} calls itself", "P4 has no recursion")
    frame = Frame(Block(), function=function)
    if function.returns != VOID:
        frame.result = ctx.temporary(function.returns, "retval")
    bind(ctx, function.parameters, e.arguments, frame)
    inline(ctx, frame, function.body)
    return NOTHING if frame.result is None else ctx.contents(frame.result)


def inline(ctx: Context, frame: Frame, body: core.BlockStatement | None) -> None:
    """Lower the body of a call whose parameters are bound, and copy out."""
    with ctx.frame(frame):
        if body is not None:
            ctx.execute(body)
    ctx.builder.goto(frame.exit)
    ctx.builder.start(frame.exit)
    for copy in frame.copy_out:
        copy()


def declare_locals(ctx: Context, declarations: Sequence[core.Declaration | core.Declare]) -> None:
    for each in declarations:
        if isinstance(each, core.Declare):
            ctx.execute(each)


@evaluates(core.CallBuiltin)
def _builtin(ctx: Context, e: core.CallBuiltin) -> Operand:
    place = ctx.locate(e.receiver)
    if e.name == "isValid":
        assert isinstance(place, HeaderPlace | UnionPlace)
        if type(place.ref) is ir.Named and (known := ctx.builder.known.get(ir.Field(place.ref.name, "$valid$"))):
            return Truth(known.number != 0)
        return validity(place)
    if e.name in ("setValid", "setInvalid"):
        for header in leaves(place):
            assert isinstance(header, HeaderPlace)
            ctx.call("add_header" if e.name == "setValid" else "remove_header", header_ref(header))
    else:
        assert isinstance(place, StackPlace)
        count = ctx.value(e.arguments[0])
        if type(count) is not Const:
            raise ctx.refuse(e.span, f"the count of {e.name} must be known at compile time")
        ctx.call("push" if e.name == "push_front" else "pop", place.ref, Const(count.number))
    ctx.written(place)
    return NOTHING


@evaluates(core.CallMethod)
def _call_method(ctx: Context, e: core.CallMethod) -> Operand:
    kind = e.receiver.type
    if isinstance(kind, ExternType) and kind.name in ("packet_in", "packet_out"):
        return packet_method(ctx, e)
    receiver = object_of(ctx, e.receiver)
    if not isinstance(receiver, elaborate.Block):
        raise ctx.refuse(e.span, f"it is not known at compile time whose {e.method.name} is called here")
    return ctx.architecture.method(ctx, e, receiver)


@executes(core.CallStatement)
def _call_statement(ctx: Context, s: core.CallStatement) -> None:
    ctx.evaluate(s.call)


def values_of(ctx: Context, e: core.CallFunction | core.CallMethod) -> list[Operand]:
    """Arguments of an extern's call, evaluated from left to right: places for `out` and `inout` ones, nothing for
    slices among those and for instances.
    """
    last = last_effect(e.arguments)
    values: list[Operand] = []
    for number, (parameter, argument) in enumerate(core.arguments(e)):
        operand: Operand = NOTHING
        if argument is None or isinstance(parameter.type, ExternType | BlockType):
            pass
        elif not parameter.is_output:
            operand = ctx.evaluate(argument)
            operand = saved(ctx, operand, argument) if number < last else operand
        elif not isinstance(argument, core.Slice):
            operand = frozen(ctx, ctx.locate(argument))
        values.append(operand)
    return values
