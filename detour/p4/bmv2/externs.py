# SPDX-License-Identifier: Apache-2.0
"""Calls of externs: most are one primitive, whose arguments are those of the call in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial

from detour.p4 import core, ir
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Json, Named, Value
from detour.p4.lower import operators
from detour.p4.lower.assign import assign, slice_writer
from detour.p4.lower.calls import values_of
from detour.p4.lower.context import Context
from detour.p4.lower.places import (
    Aggregate,
    HeaderPlace,
    Operand,
    Place,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    flattened,
    is_scalar,
    scalar_width,
)
from detour.p4.messages import CompileError
from detour.p4.source import Span
from detour.p4.types import BOOL, Bits, Header, Type, underlying
from detour.p4.types import Extern as ExternType

ALGORITHMS = {"ONES_COMPLEMENT16": "csum16", "TARGET_DEFAULT": "crc32"}
"""BMv2's names of hash algorithms that are not those of the architectures in small letters."""
UNITS = {"packets_and_bytes": "packets"}
"""What meters count in for BMv2, where it is not what the source says."""


class ExternCall:
    """A call of an extern function or method that is being lowered."""

    def __init__(
        self, ctx: Context, target: object, e: core.CallFunction | core.CallMethod, receiver: Instance | None = None
    ) -> None:
        self.ctx = ctx
        self.target = target
        self.e = e
        self.name = e.function.name if isinstance(e, core.CallFunction) else e.method.name
        self._receiver = receiver

    @property
    def receiver(self) -> Instance:
        assert self._receiver is not None
        return self._receiver

    @cached_property
    def values(self) -> list[Operand]:
        """Arguments, evaluated from left to right."""
        return values_of(self.ctx, self.e)

    def argument(self, number: int) -> core.Expression:
        argument = self.e.arguments[number]
        assert argument is not None
        return argument

    def value(self, number: int) -> Value:
        """A scalar argument; a bool as 0 or 1. CompileError: a generic parameter has been given something else."""
        operand, argument = self.values[number], self.e.arguments[number]
        if not isinstance(operand, ScalarPlace | Value):
            raise self.refuse(f"{self.name} needs a number here", self.argument(number).span)
        value = self.ctx.scalar(operand)
        return operators.as_data(value) if argument and underlying(argument.type) == BOOL else value

    def member(self, number: int) -> str:
        """The member of an enum that an argument is."""
        value = self.ctx.instance.value(self.argument(number))
        if isinstance(value, core.EnumMember):
            return value.name
        raise self.refuse("this argument must be known at compile time", self.argument(number).span)

    def constructed(self, number: int) -> object:
        """An argument of the receiver's constructor."""
        return list(self.receiver.arguments.values())[number]

    def refuse(self, text: str, span: Span | None = None) -> CompileError:
        return self.ctx.refuse(span or self.e.span, text)


Argument = Callable[[ExternCall], Value]
Handler = Callable[[ExternCall], Operand | None]
"""Lowers a call; None: it is worth nothing."""


class Result:
    """Target that a primitive writes: argument `number` of the call, or its value."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number

    def field(self, call: ExternCall) -> tuple[Value, Callable[[], Operand | None]]:
        """The field, and what to do behind the primitive. A field is copied where the argument is no plain one."""
        ctx, place, argument = call.ctx, None, None
        if self.number is not None:
            place, argument = call.values[self.number], call.argument(self.number)
        if isinstance(place, ScalarPlace) and type(place.ref) is ir.Field:
            return place.ref, partial(_written, ctx, place, place.ref)
        kind = argument.type if argument is not None else call.e.type
        copy = ctx.temporary(kind)
        if not isinstance(copy, ScalarPlace):
            text = f"BMv2 writes results to numbers only, not to a value of type {kind}"
            raise call.refuse(text, argument.span if argument is not None else None)
        write = slice_writer(ctx, argument) if isinstance(argument, core.Slice) else None

        def finish() -> Operand | None:
            ctx.written(copy)
            if write is not None:
                write(ctx.read(copy))
            elif isinstance(place, ScalarPlace):
                ctx.store(place, ctx.read(copy))
            return ctx.read(copy)

        return copy.ref, finish


class Primitive:
    """A call that is one primitive."""

    def __init__(self, op: str, *arguments: Argument | Result) -> None:
        self.op = op
        self.arguments = arguments
        # What the call returns gets its temporary last.
        self._order = sorted(arguments, key=lambda each: isinstance(each, Result) and each.number is None)

    def __call__(self, call: ExternCall) -> Operand | None:
        made: dict[Argument | Result, Value] = {}
        finish: Callable[[], Operand | None] | None = None
        for each in self._order:
            if isinstance(each, Result):
                made[each], finish = each.field(call)
            else:
                made[each] = each(call)
        call.ctx.call(self.op, *(made[each] for each in self.arguments))
        return finish() if finish else None


def _written(ctx: Context, place: Place, field: ir.Field) -> None:
    ctx.written(place)
    _drop_dead_store(ctx, field)


def argument(number: int) -> Argument:
    return lambda call: call.value(number)


def fields(number: int) -> Argument:
    """All fields of an argument."""

    def made(call: ExternCall) -> Value:
        found = fields_of(call.ctx, call.values[number], call.argument(number), copy=False)
        return ir.Vector("field_list", tuple(found))

    return made


def nothing(_: ExternCall) -> None:
    """Direct counters count by themselves."""


def _drop_dead_store(ctx: Context, field: ir.Field) -> None:
    """Remove an assignment that a register's `out` argument makes useless. It would show where the index is out of
    bounds, as register_read writes nothing then.
    """
    calls = ctx.builder.block.calls if ctx.builder.block is not None else []
    if not calls or calls[-1].op != "register_read" or field in ir.parts(calls[-1].arguments[2]):
        return
    for number in range(len(calls) - 2, -1, -1):
        op, (target, *sources) = calls[number].op, calls[number].arguments or (None,)
        if op != "assign" or any(field in ir.parts(source) for source in sources):
            return
        if target == field:
            del calls[number]
            return


# ---------------------------------------------------------------- objects


def size_of(argument: object) -> int:
    """A size among the arguments of a constructor."""
    return int(argument.value) if isinstance(argument, core.Literal) else 0


def member_of(argument: object) -> str:
    """A member of an enum among the arguments of a constructor."""
    return argument.name if isinstance(argument, core.EnumMember) else ""


def algorithm(member: str) -> str:
    return ALGORITHMS.get(member, member.lower())


_ARRAYS = frozenset(("counter", "meter", "register"))


def array(call: ExternCall) -> Named:
    """A counter, meter or register array, declared when it is used first."""
    return _declared(call.ctx, call.receiver)


def _declared(ctx: Context, receiver: Instance) -> Named:
    program, arguments = ctx.program, list(receiver.arguments.values())
    kind, name, span = receiver.declaration.name.lower(), receiver.name, receiver.node.span
    if program.declare(name):
        size = size_of(arguments[0])
        if kind == "counter":
            program.add("counter_arrays", name, span, size=size, is_direct=False)
        elif kind == "meter":
            unit = member_of(arguments[1])
            unit = UNITS.get(unit, unit)
            program.add("meter_arrays", name, span, is_direct=False, size=size, rate_count=2, type=unit)
        else:
            element = receiver.type.arguments[0] if isinstance(receiver.type, ExternType) else Bits(32)
            if not is_scalar(element):
                raise ctx.refuse(span, f"a register of BMv2 holds numbers, not {element}")
            program.add("register_arrays", name, span, size=size, bitwidth=scalar_width(element)[0])
    return Named(f"{kind}_array", name)


def declare_unused_arrays(ctx: Context, main: Instance) -> None:
    """Declare the arrays of v1model that nothing uses: controllers find them in P4Info, and may read them."""
    for block in (*main.top.values(), *_inside(main)):
        if block.declaration.span.file is main.declaration.span.file and block.declaration.name in _ARRAYS:
            _declared(ctx, block)


def _inside(block: Instance) -> Iterator[Instance]:
    for inner in (*block.arguments.values(), *block.children.values()):
        if isinstance(inner, Instance):
            yield inner
            yield from _inside(inner)


def learn_list(call: ExternCall, number: int, name: str) -> Const:
    """A list of fields that a digest sends; what is no field gets a temporary."""
    argument = call.argument(number)
    elements = fields_of(call.ctx, call.values[number], argument, copy=True)
    item = call.ctx.program.add("learn_lists", name, argument.span, elements=elements)
    item["id"] += 1
    return Const(item["id"])


def calculation(call: ExternCall, member: str, inputs: list[Value | Json]) -> str:
    """Add a calculation and return its name."""
    items = call.ctx.program.objects["calculations"]
    name = "calc" if not items else f"calc_{len(items) - 1}"
    call.ctx.program.add("calculations", name, call.e.span, algo=algorithm(member), input=inputs)
    return name


# ---------------------------------------------------------------- fields


def fields_of(ctx: Context, operand: Operand, e: core.Expression, *, copy: bool) -> list[ir.Field]:
    """Fields with the scalars of a value, of the expression `e`. With `copy` all are copies, as the value is that of
    now, not of the end."""
    return [_field(ctx, value, kind, copy=copy) for value, kind in _scalars(ctx, operand, e.type, e.span)]


def placed(ctx: Context, value: Operand) -> Operand:
    """The value; of a header that is written out (`(h_t){1, 2}`, `{#}`) a temporary with it."""
    if not (isinstance(value, Aggregate) and isinstance(value.type, Header)):
        return value
    place = ctx.temporary(value.type)
    assign(ctx, place, value)
    return place


def _parts(
    ctx: Context, operand: Operand, kind: Type, span: Span, cannot: str = "cannot be used here"
) -> Iterator[tuple[Operand, Type]]:
    """Scalars and headers with a place of which a value consists. CompileError: others are in it, which `cannot`."""
    for each, inner in flattened(operand, kind):
        value = placed(ctx, each)
        if isinstance(value, StackPlace | UnionPlace):
            raise ctx.refuse(span, f"a value of type {inner} {cannot}", "Give its headers or fields.")
        yield value, inner


def _scalars(ctx: Context, operand: Operand, kind: Type, span: Span) -> Iterator[tuple[Operand, Type]]:
    for value, inner in _parts(ctx, operand, kind, span):
        if isinstance(value, HeaderPlace):
            for each in value.parts.values():
                yield from _scalars(ctx, each, each.type, span)
        else:
            yield value, inner


def _field(ctx: Context, value: Operand, kind: Type, *, copy: bool) -> ir.Field:
    place = value.ref if isinstance(value, ScalarPlace) else value
    if isinstance(place, ir.Op) and place.operator == "d2b":
        place = place.right
    if isinstance(place, ir.Field) and not copy:
        return place
    temporary = ctx.scalar_temporary(kind)
    ctx.store(temporary, ctx.scalar(value))
    assert isinstance(temporary.ref, ir.Field)
    return temporary.ref


def hash_inputs(ctx: Context, operand: Operand, e: core.Expression) -> list[Value | Json]:
    """Inputs of a hash: fields, and constants in temporaries as p4c has them."""
    inputs: list[Value | Json] = []
    for value, kind in _parts(ctx, operand, e.type, e.span, "cannot be hashed"):
        is_header = isinstance(value, HeaderPlace)
        inputs.append(value.ref if is_header else _field(ctx, value, kind, copy=False))
    return inputs


def checksum_inputs(ctx: Context, e: core.Expression, name: str) -> list[Value | Json]:
    """Inputs of a checksum: fields, headers and constants; nothing is computed for it."""
    inputs: list[Value | Json] = []
    for operand, kind in flattened(ctx.evaluate(e), e.type):
        value = operand.ref if isinstance(operand, ScalarPlace | HeaderPlace) else operand
        if isinstance(value, Value) and is_scalar(kind) and underlying(kind) == BOOL:
            value = operators.as_data(value)
        if isinstance(value, Const):
            bits = scalar_width(kind)[0]
            text = ir.hexadecimal(value.number & ((1 << bits) - 1), bits)
            inputs.append({"type": "hexstr", "value": text, "bitwidth": bits})
        elif isinstance(value, ir.Field | Named):
            inputs.append(value)
        else:
            raise ctx.refuse(e.span, f"{name} takes fields and constants, it computes nothing")
    return inputs
