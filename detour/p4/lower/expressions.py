# SPDX-License-Identifier: Apache-2.0
"""Expressions: values of scalars, places and aggregates of everything else.

Operands are evaluated from left to right (section 8.1). What an operand with side effects could change is saved before
it is evaluated; `&&`, `||` and `?:` with side effects become branches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from detour.p4 import core, ir
from detour.p4.ir import Block, Const, Op, Truth, Value
from detour.p4.lower import operators
from detour.p4.lower.assign import assign, copied
from detour.p4.lower.context import BRANCH, Context, evaluates, locates
from detour.p4.lower.effects import has_effects, last_effect
from detour.p4.lower.places import (
    Aggregate,
    HeaderPlace,
    Operand,
    Place,
    RecordPlace,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_place,
    header_ref,
    is_scalar,
    part,
    union_element,
)
from detour.p4.source import NOWHERE, Span
from detour.p4.types import BOOL, ERROR, INTEGER, Bits, Enum, Header, Type, members, underlying


def operands(ctx: Context, expressions: Sequence[core.Expression]) -> list[Operand]:
    """Values of several expressions; each as it was before the effects of those that follow."""
    values: list[Operand] = []
    last = last_effect(expressions)
    for number, expression in enumerate(expressions):
        value = ctx.evaluate(expression)
        if number < last:
            value = saved(ctx, value, expression)
        values.append(value)
    return values


def scalars(ctx: Context, expressions: Sequence[core.Expression]) -> list[Value]:
    return [ctx.scalar(operand) for operand in operands(ctx, expressions)]


def saved(ctx: Context, operand: Operand, expression: core.Expression) -> Operand:
    """The operand, in a temporary unless it cannot change."""
    if isinstance(operand, Const | Truth | ir.Data):
        return operand
    return copied(ctx, operand, expression.type)


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
    if isinstance(meaning, Value | Place | Aggregate):
        return ctx.contents(meaning)
    if isinstance(e.declaration, core.Constant) and e.declaration.value is not None:
        return ctx.evaluate(e.declaration.value)
    value = ctx.instance.value(e)
    if isinstance(value, core.Expression) and value is not e:
        return ctx.evaluate(value)
    raise ctx.refuse(e.span, f"{e.declaration.name} has no value at run time")


@evaluates(core.Member, core.Index)
def _part(ctx: Context, e: core.Member | core.Index) -> Operand:
    base = ctx.evaluate(e.base)
    if isinstance(base, Aggregate):
        return ctx.contents(base.parts[e.name if isinstance(e, core.Member) else _number(ctx, e)])
    assert isinstance(base, Place)
    return ctx.contents(_place_of_part(ctx, e, base))


@evaluates(core.StackMember)
def _stack_member(ctx: Context, e: core.StackMember) -> Operand:
    place = ctx.locate(e.base)
    if e.name == "lastIndex":
        assert isinstance(place, StackPlace)
        return operators.mask(Op("last_stack_index", None, place.ref), 0xFFFFFFFF, 32)
    return _place_of_part(ctx, e, place)


def _number(ctx: Context, e: core.Index) -> str:
    """The number of a tuple's element."""
    value = ctx.value(e.index)
    if type(value) is not Const:
        raise ctx.refuse(e.index.span, "the index of a tuple must be known at compile time")
    return str(value.number)


# ---------------------------------------------------------------- places


@locates(core.Ref)
def _locate_reference(ctx: Context, e: core.Ref) -> Place:
    meaning = ctx.bindings.get(e.declaration)
    if isinstance(meaning, Place):
        return meaning
    raise ctx.refuse(e.span, f"{e.declaration.name} cannot be assigned to here")


@locates(core.Member, core.StackMember, core.Index)
def _locate_part(ctx: Context, e: core.Member | core.StackMember | core.Index) -> Place:
    return _place_of_part(ctx, e, ctx.locate(e.base))


@locates(core.Expression)
def _locate_value(ctx: Context, e: core.Expression) -> Place:
    operand = ctx.evaluate(e)
    if isinstance(operand, Place):
        return operand
    place = ctx.temporary(e.type)
    assign(ctx, place, operand)
    return place


@locates(core.Slice)
def _locate_slice(ctx: Context, e: core.Slice) -> Place:
    raise ctx.refuse(e.span, "a slice cannot be used here", "assign it to a variable first")


def _place_of_part(ctx: Context, e: core.Member | core.StackMember | core.Index, base: Place) -> Place:
    if isinstance(e, core.Member):
        return base.parts[e.name]
    if isinstance(base, RecordPlace):
        assert isinstance(e, core.Index)
        return base.parts[_number(ctx, e)]
    assert isinstance(base, StackPlace)
    return _element(ctx, e, base) if isinstance(e, core.Index) else _last_or_next(ctx, e, base)


def _element(ctx: Context, e: core.Index, base: StackPlace) -> Place:
    index = ctx.value(e.index)
    if type(index) is Const:
        if str(index.number) in base.parts:
            return base.parts[str(index.number)]
        size = len(base.parts)
        text = f"index {index.number} is out of bounds: the stack has {size} elements"
        raise ctx.refuse(e.index.span, text)
    path, first = (*base.path, None), base.parts["0"]
    if isinstance(first, HeaderPlace):
        return header_place(first.type, path, Op("dereference_header_stack", base.ref, index))
    return union_element(first, path, Op("dereference_union_stack", base.ref, index))


def _last_or_next(ctx: Context, e: core.StackMember, base: StackPlace) -> Place:
    """`last`, in expressions of parsers; `next` is handled where something is extracted to it."""
    path, first, name = (*base.path, None), base.parts["0"], base.ref.name
    if e.name == "next":
        if isinstance(first, UnionPlace):
            raise ctx.refuse(e.span, "next of a stack of unions can only be extracted to on BMv2")
        size = Op("size_stack", None, base.ref)
        return header_place(first.type, path, Op("dereference_header_stack", base.ref, size))
    if isinstance(first, HeaderPlace):
        return header_place(first.type, path, ir.LastField(name, ""))
    parts = {key: header_place(each.type, path, ir.LastField(name, "", key)) for key, each in first.parts.items()}
    return UnionPlace(first.type, path, parts, ir.Named("union_stack_last", name))


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
        return operators.binary("-", kind, Const(0), value)
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
    result = operators.binary(sign, kind, left, right)
    if sign in ("/", "%") and type(result) is Op and result.operator == sign:
        hint = "BMv2 divides by powers of 2 only; keep other quotients in a table"
        raise ctx.refuse(e.span, f"{sign} of values that are not known at compile time is not supported", hint)
    return result


def _comparison(ctx: Context, e: core.Binary) -> Value:
    left, right = operands(ctx, (e.left, e.right))
    if e.operator in ("==", "!="):
        same = equal(ctx, e.left.type, left, right)
        return same if e.operator == "==" else operators.invert(same)
    return operators.compare(e.operator, ctx.scalar(left), ctx.scalar(right))


def equal(ctx: Context, kind: Type, left: Operand, right: Operand) -> Value:
    """A condition: whether two values of a type are equal (section 8.9 and following)."""
    if is_scalar(kind):
        a, b = ctx.scalar(left), ctx.scalar(right)
        is_bool = underlying(kind) == BOOL
        return operators.same_truth(a, b, equal=True) if is_bool else operators.compare("==", a, b)
    same: Value = Truth(True)
    neither: Value = Truth(False)
    if isinstance(kind, Header):
        a, b = _header_validity(left), _header_validity(right)
        same, neither = operators.both(a, b), operators.both(operators.invert(a), operators.invert(b))
    for name, inner in members(kind) if same != Truth(False) else ():
        same = operators.both(same, equal(ctx, inner, part(left, name), part(right, name)))
    return operators.either(neither, same)


def _header_validity(operand: Operand) -> Value:
    if isinstance(operand, Aggregate):
        return Truth(operand.valid)
    assert isinstance(operand, HeaderPlace)
    return validity(operand)


def validity(place: HeaderPlace | UnionPlace) -> Value:
    """Return whether a header is valid, or one of a union, as a condition."""
    if isinstance(place, HeaderPlace):
        if type(place.ref) is ir.Named:
            return Op("d2b", None, ir.Field(place.ref.name, "$valid$"))
        return Op("valid", None, header_ref(place))
    if type(place.ref) is ir.Named and place.ref.kind == "header_union":
        return Op("valid_union", None, place.ref)
    valid: Value = Truth(False)
    for each in place.parts.values():
        valid = operators.either(valid, validity(each))
    return valid


@evaluates(core.ApplyResult)
def by_branches(ctx: Context, e: core.Expression) -> Value:
    """A condition that is computed by control flow."""
    place = ctx.scalar_temporary(BOOL)
    choose(ctx, e, lambda: ctx.store(place, Truth(True)), lambda: ctx.store(place, Truth(False)))
    return ctx.read(place)


def choose(
    ctx: Context,
    e: core.Expression,
    yes: Callable[[], None],
    no: Callable[[], None],
    name: str = "",
    span: Span = NOWHERE,
) -> None:
    """Lower what runs if a condition holds and what runs if not to a block each; a third one follows both."""
    on_yes, on_no, join = (Block(name and f"{name}_{each}") for each in ("true", "false", "join"))
    condition(ctx, e, on_yes, on_no)
    for block, lower in ((on_yes, yes), (on_no, no)):
        ctx.builder.start(block)
        lower()
        ctx.builder.goto(join, span)
    ctx.builder.start(join)


def condition(ctx: Context, e: core.Expression, yes: Block, no: Block) -> None:
    """Go to `yes` or `no`."""
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

    def side(value: core.Expression) -> None:
        if ctx.builder.block is not None:
            assign(ctx, place, ctx.evaluate(value))

    choose(ctx, e.condition, lambda: side(e.yes), lambda: side(e.no))
    return ctx.contents(place)


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
        return _named(operand.parts, e.type, operand.valid)
    if isinstance(operand, Place) and not isinstance(operand, ScalarPlace):
        is_renamed = isinstance(operand, RecordPlace) and type(operand.type) is not type(e.type)
        return _named(operand.parts, e.type) if is_renamed else operand
    return operators.convert(ctx.scalar(operand), source, target)


def _named(parts: Mapping[str, Operand], kind: Type, valid: bool = True) -> Aggregate:
    """A value of a type. A tuple that becomes a struct or header gets names for its parts."""
    names = [name for name, _ in members(kind)]
    if names and set(names) != set(parts):
        parts = dict(zip(names, parts.values(), strict=True))
    return Aggregate(kind, parts, valid)


# ---------------------------------------------------------------- aggregates


@evaluates(core.TupleValue)
def _tuple(ctx: Context, e: core.TupleValue) -> Operand:
    values = operands(ctx, e.elements)
    return _named({str(number): value for number, value in enumerate(values)}, e.type)


@evaluates(core.StructValue)
def _struct(ctx: Context, e: core.StructValue) -> Operand:
    values = operands(ctx, [value for _, value in e.fields])
    return Aggregate(e.type, {name: value for (name, _), value in zip(e.fields, values, strict=True)})


@evaluates(core.InvalidHeader)
def _invalid(ctx: Context, e: core.InvalidHeader) -> Operand:
    return Aggregate(e.type, {}, valid=False)
