# SPDX-License-Identifier: Apache-2.0
"""Calls: parameters are bound, the body is inlined, and `out` parameters are copied back (section 6.8).

An `in` or `inout` parameter is the argument itself where nobody can tell the difference: if nothing else that the call
may write overlaps with it. Otherwise it is a copy, made before the body, and copied out after it, also on `exit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detour.p4 import core, elaborate, ir
from detour.p4.ir import Block, Const, Truth, Value
from detour.p4.lower.accesses import Accesses
from detour.p4.lower.assign import Touched, assign, frozen, header_ref, slice_writer
from detour.p4.lower.compare import union_validity
from detour.p4.lower.context import EVALUATE, Context, Frame, evaluates, executes
from detour.p4.lower.effects import has_effects
from detour.p4.lower.expressions import member, saved
from detour.p4.lower.places import (
    HeaderPlace,
    Operand,
    Place,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    leaves,
    overlap,
    paths_overlap,
    validity,
)
from detour.p4.types import VOID
from detour.p4.types import Block as BlockType
from detour.p4.types import Extern as ExternType

_ACCESSES = Accesses()
NOTHING = Truth(False)
"""What a call without a result is worth."""


def bind(
    ctx: Context,
    parameters: Sequence[core.Variable],
    arguments: Sequence[core.Expression | None],
    frame: Frame,
    action: core.Action | None = None,
) -> None:
    """Evaluates the arguments from left to right and binds the parameters."""
    last = max((n for n, each in enumerate(arguments) if has_effects(each)), default=-1)
    inputs: list[tuple[core.Variable, Operand, core.Expression]] = []
    outputs: list[tuple[core.Variable, Place]] = []
    slices: dict[core.Variable, Callable[[Value], None]] = {}
    for number, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True)):
        if isinstance(parameter.type, ExternType | BlockType):
            if argument is not None:
                ctx.bindings[parameter] = object_of(ctx, argument)
        elif parameter.direction in ("out", "inout"):
            outputs.append((parameter, _output(ctx, parameter, argument, slices)))
        elif argument is not None:
            operand = ctx.evaluate(argument)
            if number < last:
                operand = saved(ctx, operand, argument)
            inputs.append((parameter, operand, argument))
    _bind_inputs(ctx, inputs, [place for _, place in outputs], action)
    for parameter, place in outputs:
        others = [other for _, other in outputs if other is not place]
        _bind_output(ctx, parameter, place, others, frame, slices.get(parameter), action)


def object_of(ctx: Context, argument: core.Expression) -> Operand | elaborate.Block:
    """An extern or block that is passed on."""
    if isinstance(argument, core.Ref) and argument.declaration in ctx.bindings:
        return ctx.bindings[argument.declaration]
    assert ctx.instance is not None
    value = ctx.instance.value(argument)
    return value if isinstance(value, elaborate.Block) else NOTHING


def _output(
    ctx: Context,
    parameter: core.Variable,
    argument: core.Expression | None,
    slices: dict[core.Variable, Callable[[Value], None]],
) -> Place:
    """The place of an `out` or `inout` argument; a temporary for a slice or nothing."""
    if argument is None:
        return ctx.temporary(parameter.type, parameter.name)
    if isinstance(argument, core.Slice):
        slices[parameter] = slice_writer(ctx, argument)
        place = ctx.temporary(parameter.type, parameter.name)
        if parameter.direction == "inout":
            assign(ctx, place, ctx.evaluate(argument))
        return place
    return frozen(ctx, ctx.locate(argument))


def _bind_inputs(
    ctx: Context,
    inputs: list[tuple[core.Variable, Operand, core.Expression]],
    outputs: list[Place],
    action: core.Action | None,
) -> None:
    if not inputs:
        return
    written = list(outputs)
    if action is not None:
        written += _places(ctx, _ACCESSES.of(action)[1])
    touched: Touched | None = None
    for parameter, operand, _ in inputs:
        if isinstance(operand, Const | Truth | ir.Data | ir.Text):
            ctx.bindings[parameter] = operand
            continue
        touched = touched or Touched(written)
        simple = isinstance(operand, ir.Field | Place) or (isinstance(operand, ir.Op) and operand.operator == "d2b")
        if simple and not touched.changes(operand):
            ctx.bindings[parameter] = operand
            continue
        copy = ctx.temporary(parameter.type, parameter.name)
        assign(ctx, copy, operand)
        ctx.bindings[parameter] = copy


def _places(ctx: Context, paths: frozenset[tuple[object, ...]]) -> list[Place]:
    """The places that variables of an action's surroundings have; whole ones, which is more than enough."""
    places: dict[int, Place] = {}
    for path in paths:
        bound = ctx.bindings.get(path[0])  # type: ignore[arg-type]
        if isinstance(bound, Place):
            place = _follow(bound, path[1:])
            places[id(place)] = place
    return list(places.values())


def _follow(place: Place, names: tuple[object, ...]) -> Place:
    for name in names:
        if isinstance(place, ScalarPlace):
            break
        if isinstance(place, StackPlace):
            if name is None:
                break
            place = place.elements[int(str(name))]
        else:
            place = member(place, str(name))
    return place


def _bind_output(
    ctx: Context,
    parameter: core.Variable,
    place: Place,
    others: list[Place],
    frame: Frame,
    write_slice: Callable[[Value], None] | None,
    action: core.Action | None,
) -> None:
    inout = parameter.direction == "inout"
    aliased = any(overlap(place, other) for other in others)
    if not aliased and action is not None:
        aliased = any(paths_overlap(place.path, path) for path in _access_paths(ctx, action))
    if not aliased:
        ctx.bindings[parameter] = place
        if not inout:
            invalidate(ctx, place)
        if write_slice is not None:
            frame.copy_out.append(lambda: write_slice(_value(ctx, place)))
        return
    copy = ctx.temporary(parameter.type, parameter.name)
    if inout:
        assign(ctx, copy, ctx.read(place) if isinstance(place, ScalarPlace) else place)
    else:
        invalidate(ctx, copy)
    ctx.bindings[parameter] = copy
    frame.copy_out.append(lambda: assign(ctx, place, copy))


def _value(ctx: Context, place: Place) -> Value:
    assert isinstance(place, ScalarPlace)
    return ctx.read(place)


def _access_paths(ctx: Context, action: core.Action) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for path in _ACCESSES.of(action)[0]:
        bound = ctx.bindings.get(path[0])  # type: ignore[arg-type]
        if isinstance(bound, Place):
            found.append((*bound.path, *path[1:]))
    return found


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
    if ctx.frames and any(frame.exit.name == f"function {id(function)}" for frame in ctx.frames):
        raise ctx.refuse(e.span, f"{function.name} calls itself", "P4 has no recursion")
    frame = Frame(Block(f"function {id(function)}"))
    if function.returns != VOID:
        frame.result = ctx.temporary(function.returns, "retval")
    bind(ctx, function.parameters, e.arguments, frame)
    inline(ctx, frame, function.body)
    if frame.result is None:
        return NOTHING
    return ctx.read(frame.result) if isinstance(frame.result, ScalarPlace) else frame.result


def inline(ctx: Context, frame: Frame, body: core.BlockStatement | None) -> None:
    """Lowers the body of a call whose parameters are bound, and copies out."""
    with ctx.frame(frame):
        if body is not None:
            ctx.execute(body)
    ctx.builder.goto(frame.exit)
    ctx.builder.start(frame.exit)
    frame.exit.name = ""
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
        if isinstance(place, UnionPlace):
            return union_validity(place)
        assert isinstance(place, HeaderPlace)
        if type(place.ref) is ir.Named and (known := ctx.builder.known.get(ir.Field(place.ref.name, "$valid$"))):
            return Truth(known.number != 0)
        return validity(place)
    if e.name in ("setValid", "setInvalid"):
        for header in [place] if isinstance(place, HeaderPlace) else list(leaves(place)):
            assert isinstance(header, HeaderPlace)
            ctx.call("add_header" if e.name == "setValid" else "remove_header", header_ref(header))
        ctx.written(place)
        return NOTHING
    assert isinstance(place, StackPlace)
    count = ctx.value(e.arguments[0])
    if type(count) is not Const:
        raise ctx.refuse(e.span, f"the count of {e.name} must be known at compile time")
    ctx.call("push" if e.name == "push_front" else "pop", place.ref, Const(count.number))
    ctx.written(place)
    return NOTHING


@executes(core.CallStatement)
def _call_statement(ctx: Context, s: core.CallStatement) -> None:
    EVALUATE[type(s.call)](ctx, s.call)


def arguments_of(ctx: Context, e: core.CallFunction | core.CallMethod) -> list[Operand | None]:
    """Arguments of an extern's call, evaluated from left to right: places for `out` and `inout` ones."""
    parameters = (e.function if isinstance(e, core.CallFunction) else e.method).parameters
    last = max((n for n, each in enumerate(e.arguments) if has_effects(each)), default=-1)
    values: list[Operand | None] = []
    for number, (parameter, argument) in enumerate(zip(parameters, e.arguments, strict=True)):
        if argument is None:
            values.append(None)
        elif parameter.direction in ("out", "inout"):
            values.append(frozen(ctx, ctx.locate(argument)) if not isinstance(argument, core.Slice) else None)
        elif isinstance(parameter.type, ExternType | BlockType):
            values.append(None)
        else:
            operand = ctx.evaluate(argument)
            values.append(saved(ctx, operand, argument) if number < last else operand)
    return values
