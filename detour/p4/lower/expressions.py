# SPDX-License-Identifier: Apache-2.0
"""Expressions: values of scalars, places and aggregates of everything else.

Operands are evaluated from left to right (section 8.1). What an operand with side effects could change is saved before
it is evaluated; `&&`, `||` and `?:` with side effects become branches.
"""

from __future__ import annotations

from collections.abc import Sequence

from detour.p4 import core, ir
from detour.p4.ir import Block, Const, Op, Truth, Value
from detour.p4.lower import operators
from detour.p4.lower.assign import assign
from detour.p4.lower.compare import equal
from detour.p4.lower.context import BRANCH, LOCATE, Context, as_value, evaluates
from detour.p4.lower.effects import has_effects
from detour.p4.lower.places import (
    Aggregate,
    HeaderPlace,
    Operand,
    Place,
    RecordPlace,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_field,
    is_scalar,
    members,
    union_element,
)
from detour.p4.types import BOOL, ERROR, INTEGER, Bits, Enum, Header, Struct, Tuple, underlying


def operands(ctx: Context, expressions: Sequence[core.Expression]) -> list[Operand]:
    """Values of several expressions; each as it was before the effects of those that follow."""
    values: list[Operand] = []
    last = max((number for number, each in enumerate(expressions) if has_effects(each)), default=-1)
    for number, expression in enumerate(expressions):
        value = ctx.evaluate(expression)
        if number < last:
            value = saved(ctx, value, expression)
        values.append(value)
    return values


def scalars(ctx: Context, expressions: Sequence[core.Expression]) -> list[Value]:
    return [as_value(ctx, operand) for operand in operands(ctx, expressions)]


def saved(ctx: Context, operand: Operand, expression: core.Expression) -> Operand:
    """The operand, in a temporary unless it cannot change."""
    if isinstance(operand, Const | Truth | ir.Data):
        return operand
    place = ctx.temporary(expression.type)
    assign(ctx, place, operand)
    return ctx.read(place) if isinstance(place, ScalarPlace) else place


# ---------------------------------------------------------------- leaves


@evaluates(core.Literal)
def _literal(ctx: Context, e: core.Literal) -> Operand:
    if isinstance(e.value, bool):
        return Truth(e.value)
    if isinstance(e.value, str):
        return ir.Text(e.value)
    kind = underlying(e.type)
    return Const(e.value, kind.width if type(kind) is Bits else 0)


@evaluates(core.EnumMember)
def _enum_member(ctx: Context, e: core.EnumMember) -> Operand:
    kind = e.type
    if e.value is not None:
        return operators.constant(e.value, kind)
    if kind == ERROR:
        return Const(ctx.program.errors.index(e.name), 32)
    if type(kind) is Enum:
        names = [name for name, _ in kind.members]
        return Const(names.index(e.name), 32)
    return ir.Text(e.name)


@evaluates(core.Ref)
def _reference(ctx: Context, e: core.Ref) -> Operand:
    meaning = ctx.bindings.get(e.declaration)
    if isinstance(meaning, ScalarPlace):
        return ctx.read(meaning)
    if isinstance(meaning, Value | Place | Aggregate):
        return meaning
    if isinstance(e.declaration, core.Constant) and e.declaration.value is not None:
        return ctx.evaluate(e.declaration.value)
    if ctx.instance is not None:
        value = ctx.instance.value(e)
        if isinstance(value, core.Expression) and value is not e:
            return ctx.evaluate(value)
    raise ctx.refuse(e.span, f"{e.declaration.name} has no value at run time")


@evaluates(core.Member, core.StackMember, core.Index)
def _part(ctx: Context, e: core.Member | core.StackMember | core.Index) -> Operand:
    if type(e) is core.StackMember and e.name == "lastIndex":
        stack = ctx.locate(e.base)
        assert isinstance(stack, StackPlace)
        return operators.mask(Op("last_stack_index", None, stack.ref), 0xFFFFFFFF, 32)
    base = ctx.evaluate(e.base) if type(e) is not core.StackMember else ctx.locate(e.base)
    if isinstance(base, Aggregate):
        name = e.name if isinstance(e, core.Member) else str(_literal_index(ctx, e))
        part = base.parts[name]
        return ctx.read(part) if isinstance(part, ScalarPlace) else part
    assert isinstance(base, Place)
    place = _place_of_part(ctx, e, base)
    return ctx.read(place) if isinstance(place, ScalarPlace) else place


def _literal_index(ctx: Context, e: core.Expression) -> int:
    assert isinstance(e, core.Index)
    value = ctx.value(e.index)
    if type(value) is not Const:
        raise ctx.refuse(e.index.span, "the index of a tuple must be known at compile time")
    return value.number


# ---------------------------------------------------------------- places


def _locate_reference(ctx: Context, e: core.Ref) -> Place:
    meaning = ctx.bindings.get(e.declaration)
    if isinstance(meaning, Place):
        return meaning
    raise ctx.refuse(e.span, f"{e.declaration.name} cannot be assigned to here")


def _locate_part(ctx: Context, e: core.Member | core.StackMember | core.Index) -> Place:
    return _place_of_part(ctx, e, ctx.locate(e.base))


def _locate_value(ctx: Context, e: core.Expression) -> Place:
    """The place of something that is no l-value, such as the result of a call: a temporary."""
    operand = ctx.evaluate(e)
    if isinstance(operand, Place):
        return operand
    place = ctx.temporary(e.type)
    assign(ctx, place, operand)
    return place


def _locate_slice(ctx: Context, e: core.Slice) -> Place:
    raise ctx.refuse(e.span, "a slice cannot be used here", "assign it to a variable first")


for _kind in (core.CallFunction, core.CallMethod, core.Conditional, core.TupleValue, core.StructValue, core.Cast):
    LOCATE[_kind] = _locate_value
for _kind in (core.InvalidHeader, core.Literal, core.Binary, core.Unary, core.EnumMember, core.CallBuiltin):
    LOCATE[_kind] = _locate_value
LOCATE[core.ApplyResult] = _locate_value
LOCATE[core.Ref] = _locate_reference
for _kind in (core.Member, core.StackMember, core.Index):
    LOCATE[_kind] = _locate_part
LOCATE[core.Slice] = _locate_slice


def _place_of_part(ctx: Context, e: core.Member | core.StackMember | core.Index, base: Place) -> Place:
    if type(e) is core.Member:
        return member(base, e.name)
    if type(e) is core.Index:
        if isinstance(base, RecordPlace):
            return base.fields[str(_literal_index(ctx, e))]
        assert isinstance(base, StackPlace)
        return _element(ctx, e, base)
    assert isinstance(base, StackPlace)
    assert type(e) is core.StackMember
    return _last_or_next(ctx, e, base)


def member(base: Place, name: str) -> Place:
    if isinstance(base, HeaderPlace):
        return header_field(base, name)
    if isinstance(base, UnionPlace):
        return base.members[name]
    assert isinstance(base, RecordPlace)
    return base.fields[name]


def _element(ctx: Context, e: core.Index, base: StackPlace) -> Place:
    index = ctx.value(e.index)
    if type(index) is Const:
        if not 0 <= index.number < len(base.elements):
            raise ctx.refuse(
                e.index.span, f"index {index.number} is out of bounds: the stack has {len(base.elements)} elements"
            )
        return base.elements[index.number]
    path = (*base.path, None)
    first = base.elements[0]
    if isinstance(first, HeaderPlace):
        return HeaderPlace(first.type, path, Op("dereference_header_stack", base.ref, index))
    return union_element(first, path, Op("dereference_union_stack", base.ref, index))


def _last_or_next(ctx: Context, e: core.StackMember, base: StackPlace) -> Place:
    """`last`, in expressions of parsers; `next` is handled where something is extracted to it."""
    path = (*base.path, None)
    first = base.elements[0]
    if e.name == "next":
        if isinstance(first, UnionPlace):
            raise ctx.refuse(e.span, "next of a stack of unions can only be extracted to on BMv2")
        size = Op("size_stack", None, base.ref)
        return HeaderPlace(first.type, path, Op("dereference_header_stack", base.ref, size))
    if isinstance(first, HeaderPlace):
        return HeaderPlace(first.type, path, ir.LastField(base.name, ""))
    members = {
        name: HeaderPlace(place.type, path, ir.LastField(base.name, "", name)) for name, place in first.members.items()
    }
    return UnionPlace(first.type, path, ir.Named("union_stack_last", base.name), members)


# ---------------------------------------------------------------- operators


@evaluates(core.Unary)
def _unary(ctx: Context, e: core.Unary) -> Operand:
    value = ctx.value(e.operand)
    if e.operator == "!":
        return operators.invert(value)
    kind = underlying(e.type)
    if e.operator == "+":
        return value
    if kind == INTEGER:
        return operators.on_integers("-", Const(0), value)
    assert type(kind) is Bits
    return operators.negate(kind, value) if e.operator == "-" else operators.complement(kind, value)


@evaluates(core.Binary)
def _binary(ctx: Context, e: core.Binary) -> Operand:
    sign = e.operator
    if sign in ("&&", "||"):
        if has_effects(e.right):
            return by_branches(ctx, e)
        left = ctx.value(e.left)
        if type(left) is Truth and left.value == (sign == "||"):
            return left
        right = ctx.value(e.right)
        return operators.both(left, right) if sign == "&&" else operators.either(left, right)
    if sign in ("==", "!=", "<", "<=", ">", ">="):
        return _comparison(ctx, e)
    left, right = scalars(ctx, (e.left, e.right))
    kind = underlying(e.type)
    if sign == "++":
        assert type(kind) is Bits
        left_type, right_type = underlying(e.left.type), underlying(e.right.type)
        assert type(left_type) is Bits
        assert type(right_type) is Bits
        return operators.concatenate(left, left_type, right, right_type, kind)
    if type(kind) is Bits:
        result = operators.binary(sign, kind, left, right)
    else:
        result = operators.on_integers(sign, left, right)
    if sign in ("/", "%") and type(result) is Op and result.operator == sign:
        hint = "BMv2 divides by powers of 2 only; keep other quotients in a table"
        raise ctx.refuse(e.span, f"{sign} of values that are not known at compile time is not supported", hint)
    return result


def _comparison(ctx: Context, e: core.Binary) -> Value:
    left, right = operands(ctx, (e.left, e.right))
    if e.operator in ("==", "!="):
        same = equal(ctx, e.left.type, left, right)
        return same if e.operator == "==" else operators.invert(same)
    return operators.compare(e.operator, as_value(ctx, left), as_value(ctx, right))


def by_branches(ctx: Context, e: core.Expression) -> Value:
    """A condition that is computed by control flow."""
    place = ctx.temporary(BOOL)
    assert isinstance(place, ScalarPlace)
    yes, no, join = Block(), Block(), Block()
    condition(ctx, e, yes, no)
    for block, truth in ((yes, True), (no, False)):
        ctx.builder.start(block)
        ctx.store(place, Truth(truth))
        ctx.builder.goto(join)
    ctx.builder.start(join)
    return ctx.read(place)


def condition(ctx: Context, e: core.Expression, yes: Block, no: Block) -> None:
    """Goes to `yes` or `no`."""
    if type(e) is core.Binary and e.operator in ("&&", "||") and has_effects(e):
        middle = Block()
        if e.operator == "&&":
            condition(ctx, e.left, middle, no)
        else:
            condition(ctx, e.left, yes, middle)
        ctx.builder.start(middle)
        condition(ctx, e.right, yes, no)
    elif type(e) is core.Unary and e.operator == "!":
        condition(ctx, e.operand, no, yes)
    elif type(e) in BRANCH:
        BRANCH[type(e)](ctx, e, yes, no)
    else:
        ctx.builder.branch(ctx.value(e), yes, no, e.span)


@evaluates(core.ApplyResult)
def _apply_result(ctx: Context, e: core.ApplyResult) -> Operand:
    return by_branches(ctx, e)


@evaluates(core.Conditional)
def _conditional(ctx: Context, e: core.Conditional) -> Operand:
    if is_scalar(e.type) and not has_effects(e.yes) and not has_effects(e.no):
        choice = ctx.value(e.condition)
        if type(choice) is Truth:
            return ctx.value(e.yes if choice.value else e.no)
        yes, no = ctx.value(e.yes), ctx.value(e.no)
        if underlying(e.type) == BOOL:
            return operators.either(operators.both(choice, yes), operators.both(operators.invert(choice), no))
        return operators.choose(choice, yes, no)
    place = ctx.temporary(e.type)
    yes_block, no_block, join = Block(), Block(), Block()
    condition(ctx, e.condition, yes_block, no_block)
    for block, side in ((yes_block, e.yes), (no_block, e.no)):
        ctx.builder.start(block)
        if ctx.builder.block is not None:
            assign(ctx, place, ctx.evaluate(side))
        ctx.builder.goto(join)
    ctx.builder.start(join)
    return ctx.read(place) if isinstance(place, ScalarPlace) else place


@evaluates(core.Slice)
def _slice(ctx: Context, e: core.Slice) -> Operand:
    base, low = scalars(ctx, (e.base, e.low))
    if type(low) is Const:
        return operators.piece(base, low.number, e.width)
    return operators.mask(Op(">>", base, low), (1 << e.width) - 1, e.width)


@evaluates(core.Cast)
def _cast(ctx: Context, e: core.Cast) -> Operand:
    source, target = underlying(e.operand.type), underlying(e.type)
    operand = ctx.evaluate(e.operand)
    if isinstance(operand, Aggregate):
        return _named(operand, e)
    if isinstance(operand, Place) and not isinstance(operand, ScalarPlace):
        return _record_cast(ctx, operand, e)
    return operators.convert(as_value(ctx, operand), source, target)


def _named(operand: Aggregate, e: core.Cast) -> Aggregate:
    """A tuple that becomes a struct or header: its parts get names."""
    if isinstance(e.type, Header):
        names = [part.name for part in e.type.fields]
    elif isinstance(e.type, Struct | Tuple):
        names = [name for name, _ in members(e.type)]
    else:
        names = list(operand.parts)
    if set(names) == set(operand.parts):
        return Aggregate(e.type, operand.parts, operand.valid)
    return Aggregate(e.type, dict(zip(names, operand.parts.values(), strict=True)), operand.valid)


def _record_cast(ctx: Context, operand: Place, e: core.Cast) -> Operand:
    """A cast of a struct or tuple with a place."""
    if type(operand.type) is type(e.type):
        return operand
    if isinstance(operand, RecordPlace):
        parts: dict[str, Operand] = dict(operand.fields)
        return _named(Aggregate(operand.type, parts), e)
    return operand


# ---------------------------------------------------------------- aggregates


@evaluates(core.TupleValue)
def _tuple(ctx: Context, e: core.TupleValue) -> Operand:
    values = operands(ctx, e.elements)
    aggregate = Aggregate(e.type, {str(number): value for number, value in enumerate(values)})
    if isinstance(e.type, Header):
        return _named(aggregate, core.Cast(e.type, e.span, e))
    return aggregate


@evaluates(core.StructValue)
def _struct(ctx: Context, e: core.StructValue) -> Operand:
    values = operands(ctx, [value for _, value in e.fields])
    return Aggregate(e.type, {name: value for (name, _), value in zip(e.fields, values, strict=True)})


@evaluates(core.InvalidHeader)
def _invalid(ctx: Context, e: core.InvalidHeader) -> Operand:
    return Aggregate(e.type, {}, valid=False)
