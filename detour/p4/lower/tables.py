# SPDX-License-Identifier: Apache-2.0
"""Tables and actions (sections 14.1 to 14.3). Each table has its own copy of each of its actions, since arguments for
parameters with a direction are bound where the table lists the action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from detour.p4 import core, ir
from detour.p4.core import walk
from detour.p4.elaborate import field_name, given_name
from detour.p4.ir import Block, Const, Field, Json, Op, Value, hexadecimal
from detour.p4.lower import operators
from detour.p4.lower.calls import bind, inline
from detour.p4.lower.context import NOTHING, Applied, Context, Frame, branches, evaluates
from detour.p4.lower.places import HeaderPlace, Operand, Place, ScalarPlace, is_scalar, scalar_width
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import BOOL, Type, underlying

_ENTRY_KEY = "the key of an entry"
_DATA = "the data of an action in a table"


# ---------------------------------------------------------------- actions


def _lower_action(
    ctx: Context,
    name: str,
    span: Span,
    lower: Callable[[], None],
    parameters: tuple[tuple[str, int], ...] = (),
    known: dict[Field, Const] | None = None,
) -> ir.Action:
    """A new action whose body `lower` builds. Afterwards the builder is where it was, with what is known at the end of
    the action.
    """
    builder = ctx.builder
    outer = builder.block, ctx.action_end
    entry, end = Block(known=known), Block()
    ctx.action_end = end
    builder.enter(entry)
    lower()
    builder.goto(end)
    builder.start(end)
    builder.block, ctx.action_end = outer
    return ctx.program.action(name, span, parameters, entry)


def invoke(ctx: Context, name: str, action_span: Span, span: Span, lower: Callable[[], None]) -> None:
    """Run statements in the body of a control as an action of their own."""
    lowered = _lower_action(ctx, name, action_span, lower, known=dict(ctx.builder.known))
    following = Block()
    ctx.builder.finish(ir.Invoke(span, [following], action=lowered))
    ctx.builder.start(following)


@evaluates(core.CallAction)
def _call_action(ctx: Context, e: core.CallAction) -> Operand:
    """A call in the body of a control is an action of its own, that has the name of the source."""
    action = e.action
    lower = _body(ctx, action, action.parameters, e.arguments)
    if ctx.action_end is not None or ctx.parsing:
        lower()
    else:
        invoke(ctx, ctx.instance.name_of(action), action.span, e.span, lower)
    return NOTHING


def _table_action(ctx: Context, choice: core.ActionChoice) -> ir.Action:
    action = choice.action
    parameters: list[tuple[str, int]] = []
    directed = [p for p in action.parameters if p.direction]
    for parameter in action.parameters:
        if not parameter.direction:
            name = given_name(parameter).removeprefix(".")
            ctx.bindings[parameter] = _data(ctx, parameter.type, name, parameters, choice.span)
    lower = _body(ctx, action, directed, choice.arguments[: len(directed)])
    return _lower_action(ctx, ctx.instance.name_of(action), action.span, lower, tuple(parameters))


def _body(
    ctx: Context,
    action: core.Action,
    parameters: Sequence[core.Variable],
    arguments: Sequence[core.Expression | None],
) -> Callable[[], None]:
    """The function that lowers the body of an action."""

    def lower() -> None:
        frame = Frame(Block())
        bind(ctx, parameters, arguments, frame, action)
        inline(ctx, frame, action.body)

    return lower


def _data(ctx: Context, kind: Type, name: str, parameters: list[tuple[str, int]], span: Span) -> Value:
    """A parameter that entries give."""
    if not is_scalar(kind):
        hint = "P4Runtime gives numbers: make its fields parameters of their own"
        raise ctx.refuse(span, f"a parameter of type {kind} cannot come from a table entry", hint)
    bits, signed = scalar_width(kind)
    data: Value = ir.Data(len(parameters))
    parameters.append((name, bits))
    if signed:
        data = Op("two_comp_mod", data, Const(bits))
    return operators.as_condition(data) if underlying(kind) == BOOL else data


# ---------------------------------------------------------------- tables


def apply_table(ctx: Context, table: core.Table, span: Span) -> None:
    join = Block()
    lowered = _lowered(ctx, table)
    _finish(ctx, lowered, span, [join] * len(lowered.actions))
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
            ctx.builder.finish(ir.End())
    ctx.frames, ctx.loops = [], []
    if ctx.unreached:
        lower_unreached(ctx)


def _finish(ctx: Context, table: ir.Table, span: Span, targets: list[Block], *, on_hit: bool = False) -> None:
    # Which action runs is not known, so nothing is known afterwards.
    ctx.builder.known = {}
    ctx.builder.finish(ir.ApplyTable(span, targets, table=table, on_hit=on_hit))


def _table_of(e: core.ApplyResult) -> core.Table:
    target = e.apply.target
    assert isinstance(target, core.Ref)
    assert isinstance(target.declaration, core.Table)
    return target.declaration


@branches(core.ApplyResult)
def _apply_for_result(ctx: Context, e: core.ApplyResult, yes: Block, no: Block) -> None:
    """`t.apply().hit` decides where to go."""
    targets = [yes, no] if e.name == "hit" else [no, yes]
    _finish(ctx, _lowered(ctx, _table_of(e)), e.apply.span, targets, on_hit=True)


def switch_on_action(ctx: Context, s: core.Switch, subject: core.ApplyResult) -> None:
    table = _table_of(subject)
    lowered = _lowered(ctx, table)
    join = Block()
    bodies = [(case, Block()) for case in s.cases]
    by_label = {label: body for case, body in bodies for label in case.labels}
    default = by_label.get(None, join)
    _finish(ctx, lowered, subject.span, [by_label.get(choice.action, default) for choice in table.actions])
    for case, body in bodies:
        ctx.builder.start(body)
        ctx.execute(case.body)
        ctx.builder.goto(join)
    ctx.builder.start(join)


def _lowered(ctx: Context, table: core.Table) -> ir.Table:
    """The table, lowered where it is applied first; keys are computed wherever it is applied."""
    instance = ctx.instance
    assert isinstance(instance.declaration, core.Control)
    bound = [ctx.bindings.get(parameter) for parameter in instance.declaration.parameters]
    meanings = [(each.path, type(each)) if isinstance(each, Place) else each for each in bound]
    known = ctx.tables.get((instance, table))
    if known is not None:
        if known.meanings != meanings:
            raise ctx.refuse(
                table.span,
                f"table {table.name} is in a control that is applied with different arguments",
                "BMv2 has one table with one set of actions: use two instances of the control",
            )
        _recompute_keys(ctx, table, known)
        return known.table
    keys: list[ir.Key] = []
    places: list[ScalarPlace | None] = []
    for key in table.keys:
        target, mask, place = _key(ctx, key)
        places.append(place)
        width, _ = scalar_width(key.expression.type)
        keys.append(ir.Key(key.match_kind, field_name(key, instance), target, mask, width))
    actions = [_table_action(ctx, choice) for choice in table.actions]
    lowered = ir.Table(instance.name_of(table), table.span, actions, keys)
    if table.default_action:
        lowered.set_default(*_use(ctx, table, actions, table.default_action), constant=table.default_is_constant)
    entries = _entries(ctx, table, keys, actions)
    if table.has_entries:
        lowered.attributes["entries"] = entries
    lowered.size = (len(entries) if table.size is None else table.size) or ir.DEFAULT_SIZE
    ctx.tables[instance, table] = Applied(lowered, meanings, places)
    ctx.architecture.table(ctx, table, lowered)
    return lowered


def _recompute_keys(ctx: Context, table: core.Table, known: Applied) -> None:
    for key, old, place in zip(table.keys, known.table.keys, known.places, strict=True):
        if place is not None:
            ctx.store(place, ctx.value(key.expression))
        elif _key(ctx, key)[:2] != (old.target, old.mask):
            text = f"table {table.name} is applied with different keys"
            raise ctx.refuse(table.span, text, "BMv2 looks a table up in one way only")


def _key(ctx: Context, key: core.Key) -> tuple[Field, int | None, ScalarPlace | None]:
    """The field that is looked up, its mask, and the temporary that a computed key has."""
    e = key.expression
    if key.match_kind != "selector" and isinstance(e, core.Binary) and e.operator == "&":
        for one, other in ((e.left, e.right), (e.right, e.left)):
            field = _plain_field(ctx, one)
            if field is not None and isinstance(other, core.Literal) and isinstance(other.value, int):
                return field, other.value, None
    field = _plain_field(ctx, e)
    if field is not None:
        return field, None, None
    place = ctx.scalar_temporary(e.type, "key")
    ctx.store(place, ctx.value(e))
    assert isinstance(place.ref, Field)
    return place.ref, None, place


def _plain_field(ctx: Context, e: core.Expression) -> Field | None:
    """The field that an expression is, if it is one."""
    operand: object = None
    if isinstance(e, core.CallBuiltin) and e.name == "isValid":
        place = ctx.locate(e.receiver)
        if isinstance(place, HeaderPlace) and type(place.ref) is ir.Named:
            return Field(place.ref.name, "$valid$")
    elif isinstance(e, core.Ref):
        operand = ctx.bindings.get(e.declaration)
    elif isinstance(e, core.Member | core.Index) and isinstance(ctx.evaluate(e.base), Place):
        operand = ctx.locate(e)
    value = operand.ref if isinstance(operand, ScalarPlace) else operand
    if isinstance(value, Op) and value.operator == "d2b":
        value = value.right
    return value if isinstance(value, Field) else None


def _use(ctx: Context, table: core.Table, actions: list[ir.Action], use: core.ActionUse) -> tuple[ir.Action, list[int]]:
    """An action with its data."""
    number = next((n for n, choice in enumerate(table.actions) if choice.action is use.action), None)
    if number is None:
        raise ctx.refuse(use.span, f"{use.action.name} is not one of the actions of table {table.name}")
    parameters, given = use.action.parameters, use.arguments
    if len(given) == len(parameters):
        given = tuple(argument for p, argument in zip(parameters, given, strict=True) if not p.direction)
    data = [(ctx.number(each, _DATA), scalar_width(each.type)[0]) for each in given if each is not None]
    return actions[number], [value & ((1 << width) - 1) for value, width in data]


# ---------------------------------------------------------------- entries


def _entries(ctx: Context, table: core.Table, keys: list[ir.Key], actions: list[ir.Action]) -> list[Json]:
    entries: list[Json] = []
    is_explicit = any(entry.priority is not None for entry in table.entries)
    for number, entry in enumerate(table.entries):
        match = [_match(ctx, key, e) for key, e in zip(keys, entry.keys, strict=True) if key.kind != "selector"]
        priority = core.annotated(entry.annotations, "priority")  # the smallest wins
        if not isinstance(priority, int):
            priority = number + 1 if entry.priority is None else entry.priority
        use = ir.use(*_use(ctx, table, actions, entry.use))
        entries.append({"match_key": match, "action_entry": use, "priority": priority, "source_info": entry.span})
    if is_explicit and ctx.instance.largest_wins(table):
        top = max(entry["priority"] for entry in entries) + 1
        for entry in entries:
            entry["priority"] = top - entry["priority"]
    return entries


def _match(ctx: Context, key: ir.Key, e: core.Expression) -> Json:
    """Lower what an entry says of one key."""
    width, ones = key.width, (1 << key.width) - 1
    low, high, mask = _set(ctx, e, ones)
    if key.kind in ("ternary", "optional"):
        return {"match_type": "ternary", "key": hexadecimal(low & mask, width), "mask": hexadecimal(mask, width)}
    if key.kind == "range":
        if mask == 0:  # any value; the checker refuses other masks
            low, high = 0, ones
        start, end = hexadecimal(low & ones, width), hexadecimal(high & ones, width)
        return {"match_type": "range", "start": start, "end": end}
    if key.kind == "lpm":
        length = mask.bit_count()
        if mask != ones & ~(ones >> length):
            raise ctx.refuse(e.span, "the mask of an lpm key must be a prefix")
        return {"match_type": "lpm", "key": hexadecimal(low & mask, width), "prefix_length": length}
    if mask != ones:
        raise ctx.refuse(e.span, f"an entry gives a mask for a key that is {key.kind}")
    return {"match_type": "exact", "key": hexadecimal(low & ones, width)}


def _set(ctx: Context, e: core.Expression, ones: int) -> tuple[int, int, int]:
    """Lowest and highest value, and mask."""
    if isinstance(e, core.Anything):
        return 0, 0, 0
    if isinstance(e, core.RangeSet):
        return ctx.number(e.low, _ENTRY_KEY), ctx.number(e.high, _ENTRY_KEY), ones
    value = e.value if isinstance(e, core.MaskSet) else e
    number = ctx.number(value, _ENTRY_KEY)
    return number, number, ctx.number(e.mask, _ENTRY_KEY) & ones if isinstance(e, core.MaskSet) else ones
