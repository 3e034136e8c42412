# SPDX-License-Identifier: Apache-2.0
"""What the three architectures have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from detour.p4 import core, ir
from detour.p4.bmv2.values import call
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Named, Value
from detour.p4.lower import operators
from detour.p4.lower.assign import slice_writer
from detour.p4.lower.builder import simplify
from detour.p4.lower.calls import NOTHING, arguments_of, declare_locals
from detour.p4.lower.compare import part
from detour.p4.lower.context import Context, Frame, as_value
from detour.p4.lower.places import (
    HeaderPlace,
    Operand,
    Place,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_field,
    is_scalar,
    members,
    scalar_width,
)
from detour.p4.lower.tables import lower_unreached
from detour.p4.messages import CompileError, Message
from detour.p4.source import NOWHERE, Span
from detour.p4.types import BOOL, Bits, Header, Struct, Tuple, Type, underlying
from detour.p4.types import Extern as ExternType

ALGORITHMS = {
    "crc32": "crc32", "crc32_custom": "crc32_custom", "crc16": "crc16", "crc16_custom": "crc16_custom",
    "random": "random", "identity": "identity", "csum16": "csum16", "xor16": "xor16",
    "IDENTITY": "identity", "CRC32": "crc32", "CRC32_CUSTOM": "crc32_custom", "CRC16": "crc16",
    "CRC16_CUSTOM": "crc16_custom", "ONES_COMPLEMENT16": "csum16", "TARGET_DEFAULT": "crc32",
    "toeplitz": "toeplitz",
}  # fmt: skip


class Target:
    """Base of the architectures: pipelines, deparsers, and objects that are declared when they are used first."""

    def __init__(self) -> None:
        self.declared: set[str] = set()
        self.direct_meters: dict[str, dict[str, Any]] = {}
        self.bound: dict[str, str] = {}
        self.names: dict[str, int] = {}
        self.profiles: dict[str, dict[str, Any]] = {}
        self.profile_list: list[dict[str, Any]] = []
        self.places: dict[str, Place] = {}

    def unique(self, name: str) -> str:
        number = self.names.get(name)
        self.names[name] = 0 if number is None else number + 1
        return name if number is None else f"{name}_{number}"

    # -- layout

    def headers(self, ctx: Context, parameter: core.Variable, prefix: str = "") -> Place:
        """The struct of headers: its parts have the names of its fields."""
        return self._parameter(ctx, parameter.type, "headers", prefix, parameter.span)

    def metadata(self, ctx: Context, parameter: core.Variable, prefix: str = "userMetadata") -> Place:
        """The user's metadata: its fields begin with the name of the struct."""
        return self._parameter(ctx, parameter.type, "metadata", prefix, parameter.span)

    @staticmethod
    def _parameter(ctx: Context, kind: Type, root: str, prefix: str, span: Span) -> Place:
        return ctx.storage.place(kind, (root, prefix), str(kind), prefix, span, ctx.storage.unique)

    # -- controls

    def pipeline(self, ctx: Context, name: str, block: Instance) -> None:
        before = len(ctx.tables)
        ctx.unreached.clear()
        entry = self.control_body(ctx, block)
        lower_unreached(ctx)
        tables = list(ctx.tables.values())[before:]
        profiles, self.profile_list = self.profile_list, []
        ctx.program.pipelines.append(ir.Pipeline(name, block.declaration.span, entry, tables, profiles))

    def control_body(self, ctx: Context, block: Instance) -> ir.Block:
        """The graph of a control of the architecture, whose parameters are bound."""
        control = block.declaration
        assert isinstance(control, core.Control)
        ctx.instance = block
        entry, end = ir.Block(), ir.Block()
        ctx.pipeline_end = end
        ctx.builder.enter(entry)
        with ctx.frame(Frame(end)):
            declare_locals(ctx, control.locals)
            if control.body is not None:
                ctx.execute(control.body)
        ctx.builder.goto(end)
        ctx.builder.start(end)
        ctx.builder.stop()
        return entry

    def only_externs(self, ctx: Context, entry: ir.Block, block: Instance, what: str) -> None:
        """Refuses a control that does more than what BMv2 describes by objects."""
        simplify(entry)
        if entry.calls or type(entry.end) is not ir.End:
            span = next((each.span for each in entry.calls if each.span.file.name), entry.end.span)
            span = span if span.file.name else block.declaration.span
            raise ctx.refuse(span, f"control {block.declaration.name} can only have {what} on BMv2")

    def deparser(self, ctx: Context, name: str, block: Instance) -> None:
        """The order of headers, and primitives that run before they are written."""
        outer, ctx.action_end = ctx.action_end, None
        entry = self.control_body(ctx, block)
        ctx.action_end = outer
        simplify(entry)
        if type(entry.end) is not ir.End:
            raise ctx.refuse(
                entry.end.span if entry.end.span.file.name else block.declaration.span,
                "a deparser on BMv2 can only emit headers and call primitives, without conditions or tables",
                "emit writes a header only if it is valid: make it invalid in egress",
            )
        order: list[str] = []
        rest: list[ir.Call] = []
        for each in entry.calls:
            if each.op == "emit":
                header = each.arguments[0]
                assert isinstance(header, Named)
                order.append(header.name)
            else:
                rest.append(each)
        ctx.program.deparsers.append(
            {
                "name": name,
                "id": len(ctx.program.deparsers),
                "source_info": block.declaration.span,
                "order": order,
                "primitives": [call(each) for each in rest],
            }
        )

    # -- functions of core.p4

    def core_function(self, ctx: Context, e: core.CallFunction) -> Operand:
        name = e.function.name
        if name == "verify" and ctx.parsing:
            condition, error = e.arguments
            assert condition is not None
            assert error is not None
            ctx.call("verify", ctx.value(condition), ctx.value(error))
            return NOTHING
        if name == "static_assert":
            return ir.Truth(True)
        if name in ("assert", "assume"):
            assert e.arguments[0] is not None
            ctx.call(name, operators.as_data(ctx.value(e.arguments[0])))
            return NOTHING
        raise ctx.refuse(e.span, f"BMv2 does not have the function {name} here")

    # -- objects

    def register(self, ctx: Context, receiver: Instance, size: int) -> None:
        kind = receiver.type
        element = kind.arguments[0] if isinstance(kind, ExternType) and kind.arguments else Bits(32)
        if not is_scalar(element):
            raise ctx.refuse(receiver.node.span, f"a register of BMv2 holds numbers, not {element}")
        ctx.program.add(
            "register_arrays", receiver.name, receiver.node.span, size=size, bitwidth=scalar_width(element)[0]
        )

    def bind_counter(self, ctx: Context, lowered: ir.Table, value: Instance) -> None:
        old = self.bound.get(value.name)
        if old is not None and old != lowered.name:
            raise ctx.refuse(value.node.span, f"direct counter {value.name} belongs to two tables")
        self.bound[value.name] = lowered.name
        ctx.program.add("counter_arrays", value.name, value.node.span, is_direct=True, binding=lowered.name)

    def learn_list(self, ctx: Context, data: Operand, e: core.Expression, name: str) -> int:
        """A list of fields that a digest sends; what is no field gets a temporary."""
        elements = [
            {"type": "field", "value": [field.header, field.name]} for field in fields_of(ctx, data, e.type, copy=True)
        ]
        number = len(ctx.program.objects.get("learn_lists", ())) + 1
        item = ctx.program.add("learn_lists", name, e.span, elements=elements)
        item["id"] = number
        return number


# ---------------------------------------------------------------- arguments


def number_of(ctx: Context, e: core.Expression) -> int | None:
    assert ctx.instance is not None
    return ctx.instance.number(e)


def enum_name(ctx: Context, e: core.Expression | None) -> str:
    """The member of an enum that an argument is; a hash algorithm by BMv2's name."""
    assert ctx.instance is not None
    value = ctx.instance.value(e) if e is not None else None
    if isinstance(value, core.EnumMember):
        return ALGORITHMS.get(value.name, value.name)
    assert e is not None
    raise ctx.refuse(e.span, "this argument must be known at compile time")


@contextmanager
def result_field(ctx: Context, place: Operand | None, argument: core.Expression | None) -> Iterator[Value]:
    """The field that a primitive writes its result to; it is copied where the argument is no plain field."""
    if isinstance(place, ScalarPlace) and type(place.value) is ir.Field:
        yield place.value
        ctx.written(place)
        _drop_dead_store(ctx, place.value)
        return
    assert argument is not None
    copy = ctx.temporary(argument.type)
    if not isinstance(copy, ScalarPlace):
        raise ctx.refuse(argument.span, f"BMv2 writes results to numbers only, not to a value of type {argument.type}")
    if isinstance(argument, core.Slice):
        write = slice_writer(ctx, argument)
        yield copy.value
        ctx.written(copy)
        write(ctx.read(copy))
        return
    yield copy.value
    ctx.written(copy)
    assert isinstance(place, ScalarPlace)
    ctx.store(place, ctx.read(copy))


def _drop_dead_store(ctx: Context, field: ir.Field) -> None:
    """Removes an assignment that a register's `out` argument makes useless. It would show where the index is out of
    bounds, as register_read writes nothing then.
    """
    calls = ctx.builder.block.calls if ctx.builder.block is not None else []
    if not calls or calls[-1].op != "register_read" or field in ir.parts(calls[-1].arguments[2]):
        return
    for number in range(len(calls) - 2, -1, -1):
        op, target, *sources = calls[number].op, *calls[number].arguments, None
        if op != "assign" or any(isinstance(v, Value) and field in ir.parts(v) for v in sources):
            return
        if target == field:
            del calls[number]
            return


def flattened(ctx: Context, operand: Operand, kind: Type) -> list[tuple[Operand, Type]]:
    """The scalars and headers that a value consists of."""
    if isinstance(kind, Struct | Tuple):
        pairs = [(part(ctx, operand, name), inner) for name, inner in members(kind)]
        return [each for value, inner in pairs for each in flattened(ctx, value, inner)]
    return [(operand, kind)]


def fields_of(ctx: Context, operand: Operand, kind: Type, *, copy: bool) -> list[ir.Field]:
    """Fields with the scalars of a value. With `copy` all are copies, as the value is that of now, not of the end."""
    fields: list[ir.Field] = []
    for value, inner in flattened(ctx, operand, kind):
        if isinstance(value, HeaderPlace) and isinstance(inner, Header):
            for each in inner.fields:
                fields += fields_of(ctx, header_field(value, each.name), each.type, copy=copy)
            continue
        fields.append(_field(ctx, value, inner, copy=copy))
    return fields


def _field(ctx: Context, value: Operand, kind: Type, *, copy: bool) -> ir.Field:
    place = value.value if isinstance(value, ScalarPlace) else value
    if isinstance(place, ir.Op) and place.operator == "d2b":
        place = place.right
    if isinstance(place, ir.Field) and not copy:
        return place
    temporary = ctx.temporary(kind)
    assert isinstance(temporary, ScalarPlace)
    ctx.store(temporary, as_value(ctx, value))
    assert isinstance(temporary.value, ir.Field)
    return temporary.value


def field_list(ctx: Context, operand: Operand, e: core.Expression) -> list[dict[str, Any]]:
    """Inputs of a hash: fields, and constants in temporaries as p4c has them."""
    inputs: list[dict[str, Any]] = []
    for value, kind in flattened(ctx, operand, e.type):
        if isinstance(value, HeaderPlace) and isinstance(value.ref, Named):
            inputs.append({"type": "header", "value": value.ref.name})
        elif isinstance(value, StackPlace | UnionPlace):
            raise ctx.refuse(e.span, f"a value of type {kind} cannot be hashed")
        else:
            field = _field(ctx, value, kind, copy=False)
            inputs.append({"type": "field", "value": [field.header, field.name]})
    return inputs


def checksum_inputs(ctx: Context, e: core.Expression, name: str) -> list[dict[str, Any]]:
    """Inputs of a checksum: fields, headers and constants; nothing is computed for it."""
    operand = ctx.evaluate(e)
    inputs: list[dict[str, Any]] = []
    for value, kind in flattened(ctx, operand, e.type):
        if isinstance(value, HeaderPlace) and isinstance(value.ref, Named):
            inputs.append({"type": "header", "value": value.ref.name})
            continue
        plain = value.value if isinstance(value, ScalarPlace) else value
        plain = operators.as_data(plain) if underlying(kind) == BOOL and isinstance(plain, Value) else plain
        if isinstance(plain, ir.Field):
            inputs.append({"type": "field", "value": [plain.header, plain.name]})
        elif isinstance(plain, Const):
            bits = scalar_width(kind)[0]
            digits = 2 * ((bits + 7) // 8)
            text = f"0x{plain.number & ((1 << bits) - 1):0{digits}x}"
            inputs.append({"type": "hexstr", "value": text, "bitwidth": bits})
        else:
            raise ctx.refuse(e.span, f"{name} takes fields and constants, it computes nothing")
    return inputs


def calculation(ctx: Context, algorithm: str, inputs: list[dict[str, Any]], span: Span) -> str:
    """Adds a calculation and returns its name."""
    items = ctx.program.objects.get("calculations", [])
    name = "calc" if not items else f"calc_{len(items) - 1}"
    ctx.program.add("calculations", name, span, algo=algorithm, input=inputs)
    return name


def log_parameters(ctx: Context, text: str, operand: Operand, kind: Type) -> tuple[str, list[Value]]:
    """A message and the values that it shows; a struct or header in it is shown field by field."""
    pieces = text.split("{}")
    values: list[Value] = []
    shown = [pieces[0]]
    kinds = [inner for _, inner in members(kind)] if isinstance(kind, Struct | Tuple) else [kind]
    for number, inner in enumerate(kinds):
        shape = _show(ctx, part(ctx, operand, str(number)) if operand_has_parts(operand) else operand, inner, values)
        shown.append(shape + (pieces[number + 1] if number + 1 < len(pieces) else ""))
    shown += ["{}" + piece for piece in pieces[len(kinds) + 1 :]]
    return "".join(shown), values


def operand_has_parts(operand: Operand) -> bool:
    return not isinstance(operand, Value | ScalarPlace)


def _show(ctx: Context, operand: Operand, kind: Type, values: list[Value]) -> str:
    """The part of a message that shows a value."""
    if isinstance(kind, Struct | Header):
        parts = [f"{each.name}:{_show(ctx, part(ctx, operand, each.name), each.type, values)}" for each in kind.fields]
        return f"({','.join(parts)})"
    if not is_scalar(kind):
        raise CompileError(Message(f"log_msg cannot show a value of type {kind}", ctx.span or NOWHERE))
    number = as_value(ctx, operand)
    values.append(operators.as_data(number) if underlying(kind) == BOOL else number)
    return "{}"


def action_profile(target: Target, ctx: Context, table: core.Table, lowered: ir.Table, value: Instance) -> None:
    """A table whose entries name members or groups of a profile."""
    selector = value.declaration.name in ("action_selector", "ActionSelector")
    lowered.kind = "indirect_ws" if selector else "indirect"
    lowered.profile = value.name
    inputs = []
    for key in lowered.keys:
        if key.kind == "selector":
            inputs.append({"type": "field", "value": [key.target.header, key.target.name]})
    arguments = list(value.arguments.values())
    known = target.profiles.get(value.name)
    if known is None:
        size = arguments[1 if selector else 0]
        item: dict[str, Any] = {"name": value.name, "id": len(target.profiles), "source_info": value.node.span}
        item["max_size"] = int(size.value) if isinstance(size, core.Literal) else 0
        if selector:
            algorithm = arguments[0]
            name = algorithm.name if isinstance(algorithm, core.EnumMember) else ""
            item["selector"] = {"algo": ALGORITHMS.get(name, name), "input": inputs}
        target.profiles[value.name] = item
        target.profile_list.append(item)
    elif known.get("selector", {}).get("input") != (inputs if selector else None):
        raise ctx.refuse(
            table.span, f"tables that share action selector {value.name} must have the same keys of kind selector"
        )


def register_write(ctx: Context, e: core.CallMethod, array: Named) -> Operand:
    """`register.write(index, value)`."""
    index, value = arguments_of(ctx, e)
    new = as_value(ctx, value or NOTHING)
    assert e.arguments[1] is not None
    if underlying(e.arguments[1].type) == BOOL:
        new = operators.as_data(new)
    ctx.call("register_write", array, as_value(ctx, index or NOTHING), new)
    return NOTHING
