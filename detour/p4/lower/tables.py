# SPDX-License-Identifier: Apache-2.0
"""Tables and actions (sections 14.1 to 14.3). Each table has its own copy of each of its actions, since arguments for
parameters with a direction are bound where the table lists the action.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from detour.p4 import core, ir
from detour.p4.elaborate import walk
from detour.p4.ir import Block, Const, Field, Op, Value
from detour.p4.lower import operators
from detour.p4.lower.calls import bind, inline
from detour.p4.lower.context import Context, Frame, branches
from detour.p4.lower.places import HeaderPlace, Operand, Place, ScalarPlace, is_scalar, scalar_width
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import BOOL, Type, underlying

_ENTRY_KEY = "the key of an entry"
DEFAULT_SIZE = 1024


# ---------------------------------------------------------------- actions


def build_action(
    ctx: Context,
    name: str,
    span: Span,
    parameters: tuple[tuple[str, int], ...],
    lower: Callable[[], None],
    *,
    known: dict[Field, Const] | None = None,
) -> ir.Action:
    """A new action whose body `lower` builds. Afterwards the builder is where it was, with what is known at the end of
    the action.
    """
    builder = ctx.builder
    outer = builder.block, ctx.action, ctx.action_end
    entry, end = Block(known=known), Block()
    action = ir.Action(name, span, parameters, entry)
    ctx.action, ctx.action_end = action, end
    builder.enter(entry)
    lower()
    builder.goto(end)
    builder.start(end)
    builder.block, ctx.action, ctx.action_end = outer
    action.number = len(ctx.program.actions)
    ctx.program.actions.append(action)
    return action


def invoke_action(ctx: Context, e: core.CallAction) -> None:
    """A call in the body of a control: an action of its own, that has the name of the source."""
    action = e.action

    def lower() -> None:
        frame = Frame(Block())
        bind(ctx, action.parameters, e.arguments, frame, action)
        inline(ctx, frame, action.body)

    lowered = build_action(ctx, _name(ctx, action), action.span, (), lower, known=dict(ctx.builder.known))
    following = Block()
    ctx.builder.finish(ir.Invoke(e.span, action=lowered, target=following))
    ctx.builder.start(following)


def invoke_statements(ctx: Context, span: Span, lower: Callable[[], None]) -> None:
    """Statements in the body of a control that need an action: loops."""
    lowered = build_action(ctx, "", span, (), lower, known=dict(ctx.builder.known))
    following = Block()
    ctx.builder.finish(ir.Invoke(span, action=lowered, target=following))
    ctx.builder.start(following)


def _name(ctx: Context, action: core.Action) -> str:
    assert ctx.instance is not None
    return ctx.instance.name_of(action)


def _table_action(ctx: Context, choice: core.ActionChoice) -> ir.Action:
    action = choice.action
    parameters: list[tuple[str, int]] = []
    directed = [p for p in action.parameters if p.direction]
    for parameter in action.parameters:
        if not parameter.direction:
            operand = _data(ctx, parameter.type, parameter.name, parameters, choice.span)
            ctx.bindings[parameter] = operand

    def lower() -> None:
        frame = Frame(Block())
        bind(ctx, directed, choice.arguments[: len(directed)], frame, action)
        inline(ctx, frame, action.body)

    return build_action(ctx, _name(ctx, action), action.span, tuple(parameters), lower)


def _data(ctx: Context, kind: Type, name: str, parameters: list[tuple[str, int]], span: Span) -> Value:
    """A parameter that entries give."""
    if not is_scalar(kind):
        hint = "P4Runtime gives numbers: make its fields parameters of their own"
        raise ctx.refuse(span, f"a parameter of type {kind} cannot come from a table entry", hint)
    parameters.append((name, scalar_width(kind)[0]))
    data: Value = ir.Data(len(parameters) - 1)
    if scalar_width(kind)[1]:
        data = Op("two_comp_mod", data, Const(scalar_width(kind)[0]))
    return operators.as_condition(data) if underlying(kind) == BOOL else data


# ---------------------------------------------------------------- tables


def apply_table(ctx: Context, table: core.Table, span: Span) -> None:
    join = Block()
    lowered = _lowered(ctx, table)
    _finish(ctx, ir.ApplyTable(span, table=lowered, by_action=[join] * len(lowered.actions)))
    ctx.builder.start(join)


def lower_unreached(ctx: Context) -> None:
    """Lower the tables of code that cannot run, as known values rule it out: controllers have them in the P4Info."""
    outer, ctx.unreached = ctx.unreached, []
    for statement, ctx.instance, ctx.frames, ctx.loops in outer:
        if any(isinstance(node, core.Apply) for node in walk(statement)):
            ctx.builder.enter(Block())
            # What never runs need not be executable.
            with suppress(CompileError):
                ctx.execute(statement)
            ctx.builder.stop()
    ctx.frames, ctx.loops = [], []
    if ctx.unreached:
        lower_unreached(ctx)


def _finish(ctx: Context, end: ir.ApplyTable) -> None:
    # Which action runs is not known, so nothing is known afterwards.
    ctx.builder.forget_all()
    ctx.builder.finish(end)


@branches(core.ApplyResult)
def _apply_for_result(ctx: Context, e: core.ApplyResult, yes: Block, no: Block) -> None:
    """`t.apply().hit` decides where to go."""
    target = e.apply.target
    assert isinstance(target, core.Ref)
    assert isinstance(target.declaration, core.Table)
    hit, miss = (yes, no) if e.name == "hit" else (no, yes)
    lowered = _lowered(ctx, target.declaration)
    _finish(ctx, ir.ApplyTable(e.apply.span, table=lowered, by_action=[], hit=hit, miss=miss))


def switch_on_action(ctx: Context, s: core.Switch) -> None:
    assert isinstance(s.subject, core.ApplyResult)
    target = s.subject.apply.target
    assert isinstance(target, core.Ref)
    assert isinstance(target.declaration, core.Table)
    table = target.declaration
    lowered = _lowered(ctx, table)
    join = Block()
    bodies = [(case, Block()) for case in s.cases]
    by_label = {label: body for case, body in bodies for label in case.labels}
    default = by_label.get(None, join)
    targets = [by_label.get(choice.action, default) for choice in table.actions]
    if ctx.builder.block is None:
        return
    _finish(ctx, ir.ApplyTable(s.subject.span, table=lowered, by_action=targets))
    for case, body in bodies:
        ctx.builder.start(body)
        ctx.execute(case.body)
        ctx.builder.goto(join)
    ctx.builder.start(join)


def _lowered(ctx: Context, table: core.Table) -> ir.Table:
    """The table, lowered where it is applied first; keys are computed wherever it is applied."""
    instance = ctx.instance
    assert instance is not None
    known = ctx.tables.get((instance, table))
    if known is not None:
        if ctx.meanings[known] != _meanings(ctx):
            raise ctx.refuse(
                table.span,
                f"table {table.name} is in a control that is applied with different arguments",
                "BMv2 has one table with one set of actions: use two instances of the control",
            )
        _recompute_keys(ctx, table, known)
        return known
    keys: list[ir.Key] = []
    places: list[ScalarPlace | None] = []
    for key in table.keys:
        target, mask, place = _key(ctx, key)
        places.append(place)
        keys.append(ir.Key(key.match_kind, key_name(ctx, key), target, mask, scalar_width(key.expression.type)[0]))
    actions = [_table_action(ctx, choice) for choice in table.actions]
    default = _use(ctx, table, actions, table.default_action) if table.default_action else None
    entries = _entries(ctx, table, keys, actions) if table.has_entries else None
    size = table.size if table.size is not None else len(entries) if entries else DEFAULT_SIZE
    lowered = ir.Table(
        instance.name_of(table),
        table.span,
        keys,
        actions,
        default,
        table.default_is_constant,
        entries,
        size or DEFAULT_SIZE,
    )
    ctx.tables[instance, table] = lowered
    ctx.meanings[lowered] = _meanings(ctx)
    ctx.key_places[lowered] = places  # type: ignore[assignment]
    ctx.architecture.table(ctx, table, lowered)
    return lowered


def _meanings(ctx: Context) -> list[object]:
    """What the parameters of the control around mean: tables that it is applied with again must mean the same."""
    assert ctx.instance is not None
    control = ctx.instance.declaration
    assert isinstance(control, core.Control)
    bound = [ctx.bindings.get(parameter) for parameter in control.parameters]
    return [(each.path, type(each)) if isinstance(each, Place) else each for each in bound]


def _recompute_keys(ctx: Context, table: core.Table, lowered: ir.Table) -> None:
    for key, old, place in zip(table.keys, lowered.keys, ctx.key_places[lowered], strict=True):
        if place is not None:
            assert isinstance(place, ScalarPlace)
            ctx.store(place, ctx.value(key.expression))
            continue
        target, mask, _ = _key(ctx, key)
        if target != old.target or mask != old.mask:
            raise ctx.refuse(
                table.span,
                f"table {table.name} is applied with different keys",
                "BMv2 looks a table up in one way only",
            )


def _key(ctx: Context, key: core.Key) -> tuple[Field, int | None, ScalarPlace | None]:
    """The field that is looked up, its mask, and the temporary that a computed key has."""
    e = key.expression
    if key.match_kind != "selector" and isinstance(e, core.Binary) and e.operator == "&":
        for one, other in ((e.left, e.right), (e.right, e.left)):
            field, number = _plain_field(ctx, one), other
            if field is not None and isinstance(number, core.Literal) and isinstance(number.value, int):
                return field, number.value, None
    field = _plain_field(ctx, e)
    if field is not None:
        return field, None, None
    place = ctx.temporary(e.type, "key")
    assert isinstance(place, ScalarPlace)
    ctx.store(place, ctx.value(e))
    assert isinstance(place.value, Field)
    return place.value, None, place


def _plain_field(ctx: Context, e: core.Expression) -> Field | None:
    """The field that an expression is, if it is one."""
    operand: Operand | None = None
    if isinstance(e, core.CallBuiltin) and e.name == "isValid":
        place = ctx.locate(e.receiver)
        if isinstance(place, HeaderPlace) and type(place.ref) is ir.Named:
            return Field(place.ref.name, "$valid$")
    elif isinstance(e, core.Ref):
        bound = ctx.bindings.get(e.declaration)
        operand = bound if isinstance(bound, Value | ScalarPlace) else None
    elif isinstance(e, core.Member | core.Index):
        base = ctx.evaluate(e.base)
        if not isinstance(base, Value) and hasattr(base, "path"):
            operand = ctx.locate(e)
    value = operand.value if isinstance(operand, ScalarPlace) else operand
    if isinstance(value, Op) and value.operator == "d2b" and isinstance(value.right, Value):
        value = value.right
    return value if isinstance(value, Field) else None


def key_name(ctx: Context, key: core.Key) -> str:
    """`@name`, or the key as it is written."""
    note = core.annotation(key.annotations, "name")
    if note and note.values:
        return str(note.values[0])
    text = expression_name(ctx, key.expression)
    if text is None:
        raise ctx.refuse(key.expression.span, "a computed key needs a name", 'write @name("...") behind it')
    return text


def expression_name(ctx: Context, e: core.Expression) -> str | None:
    """The name of a key that is made of fields, elements and slices."""
    match e:
        case core.Ref():
            return e.declaration.name
        case core.Member():
            base = expression_name(ctx, e.base)
            return base and f"{base}.{e.name}"
        case core.Index():
            base = expression_name(ctx, e.base)
            index = e.index.value if isinstance(e.index, core.Literal) else expression_name(ctx, e.index)
            return f"{base}[{index}]" if base and index is not None else None
        case core.Literal():
            return f"0x{int(e.value):x}"
        case core.Slice():
            base, low = expression_name(ctx, e.base), ctx.value(e.low)
            return f"{base}[{low.number + e.width - 1}:{low.number}]" if base and type(low) is Const else None
        case core.CallBuiltin() if e.name == "isValid":
            base = expression_name(ctx, e.receiver)
            return base and f"{base}.$valid$"
        case core.Binary() if e.operator == "&":
            return expression_name(ctx, e.left) or expression_name(ctx, e.right)
        case core.Cast():
            return expression_name(ctx, e.operand)
    return None


def _use(ctx: Context, table: core.Table, actions: list[ir.Action], use: core.ActionUse) -> ir.Use:
    number = next((n for n, choice in enumerate(table.actions) if choice.action is use.action), None)
    if number is None:
        raise ctx.refuse(use.span, f"{use.action.name} is not one of the actions of table {table.name}")
    parameters = use.action.parameters
    given = list(use.arguments)
    if len(given) == len(parameters):
        given = [argument for p, argument in zip(parameters, given, strict=True) if not p.direction]
    data: list[int] = []
    for argument in given:
        if argument is not None:
            data += _numbers(ctx, argument)
    return ir.Use(actions[number], tuple(data))


def _numbers(ctx: Context, argument: core.Expression) -> list[int]:
    assert ctx.instance is not None
    value = ctx.instance.value(argument)
    if isinstance(value, core.TupleValue | core.StructValue):
        parts = value.elements if isinstance(value, core.TupleValue) else [part for _, part in value.fields]
        return [number for part in parts for number in _numbers(ctx, part)]
    operand = ctx.value(value) if isinstance(value, core.Expression) else None
    if isinstance(operand, ir.Truth):
        return [int(operand.value)]
    if not isinstance(operand, Const):
        raise ctx.refuse(argument.span, "the data of an action in a table must be known at compile time")
    return [operand.number & ((1 << operand.width) - 1) if operand.width else operand.number]


# ---------------------------------------------------------------- entries


def _entries(ctx: Context, table: core.Table, keys: list[ir.Key], actions: list[ir.Action]) -> list[ir.Entry]:
    entries: list[ir.Entry] = []
    largest = _flag(ctx, table, "largest_priority_wins", default=True)
    explicit = any(entry.priority is not None for entry in table.entries)
    for number, entry in enumerate(table.entries):
        match = [_match(ctx, key, e) for key, e in zip(keys, entry.keys, strict=True) if key.kind != "selector"]
        note = core.annotation(entry.annotations, "priority")
        priority = number + 1
        if note is not None and note.values and isinstance(note.values[0], int):
            priority = note.values[0]  # the smallest wins
        elif explicit and entry.priority is not None:
            priority = entry.priority
        entries.append(ir.Entry(match, _use(ctx, table, actions, entry.use), priority, entry.span))
    if explicit and largest:
        top = max(entry.priority for entry in entries) + 1
        for entry in entries:
            entry.priority = top - entry.priority
    return entries


def _flag(ctx: Context, table: core.Table, name: str, *, default: bool) -> bool:
    expression = table.properties.get(name)
    assert ctx.instance is not None
    value = ctx.instance.value(expression) if expression is not None else None
    return bool(value.value) if isinstance(value, core.Literal) else default


def hexadecimal(number: int, width: int) -> str:
    """A number with the digits of whole bytes."""
    digits = 2 * ((width + 7) // 8)
    return f"0x{number & ((1 << width) - 1):0{digits}x}"


def _match(ctx: Context, key: ir.Key, e: core.Expression) -> dict[str, Any]:
    """What an entry says of one key, as in the JSON."""
    width, ones = key.width, (1 << key.width) - 1
    low, high, mask = _set(ctx, e, width)
    if key.kind in ("ternary", "optional"):
        return {"match_type": "ternary", "key": hexadecimal(low & mask, width), "mask": hexadecimal(mask, width)}
    if key.kind == "range":
        if mask != ones and low == high:
            low, high = (0, ones) if mask == 0 else (low & mask, (low & mask) | (ones & ~mask))
        return {"match_type": "range", "start": hexadecimal(low, width), "end": hexadecimal(high, width)}
    if key.kind == "lpm":
        length = bin(mask).count("1")
        if mask != ones & ~(ones >> length):
            raise ctx.refuse(e.span, "the mask of an lpm key must be a prefix")
        return {"match_type": "lpm", "key": hexadecimal(low & mask, width), "prefix_length": length}
    if mask != ones:
        raise ctx.refuse(e.span, f"an entry gives a mask for a key that is {key.kind}")
    return {"match_type": "exact", "key": hexadecimal(low, width)}


def _set(ctx: Context, e: core.Expression, width: int) -> tuple[int, int, int]:
    """Lowest and highest value, and mask."""
    ones = (1 << width) - 1
    if isinstance(e, core.Anything):
        return 0, 0, 0
    if isinstance(e, core.MaskSet):
        return (
            ctx.number(e.value, _ENTRY_KEY),
            ctx.number(e.value, _ENTRY_KEY),
            ctx.number(e.mask, _ENTRY_KEY) & ones,
        )
    if isinstance(e, core.RangeSet):
        return ctx.number(e.low, _ENTRY_KEY), ctx.number(e.high, _ENTRY_KEY), ones
    number = ctx.number(e, _ENTRY_KEY)
    return number, number, ones
