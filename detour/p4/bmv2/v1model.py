# SPDX-License-Identifier: Apache-2.0
"""v1model for simple_switch (simple_switch.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detour.p4 import core, ir
from detour.p4.bmv2.common import (
    Target,
    action_profile,
    calculation,
    checksum_inputs,
    enum_name,
    field_list,
    log_parameters,
    number_of,
    register_write,
    result_field,
)
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Named, Text, Value
from detour.p4.lower.calls import NOTHING, arguments_of
from detour.p4.lower.context import Context, as_value
from detour.p4.lower.parsers import lower_parser
from detour.p4.lower.places import Operand, RecordPlace, ScalarPlace, leaves
from detour.p4.types import Struct

_ALIASES = {
    "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
    "intrinsic_metadata": (
        *("ingress_global_timestamp", "egress_global_timestamp", "mcast_grp", "egress_rid", "priority"),
    ),
}
_UNITS = {"packets": "packets", "bytes": "bytes", "packets_and_bytes": "packets"}


class V1Model(Target):
    """Parser, checksum verification, ingress, egress, checksum update, deparser."""

    def __init__(self) -> None:
        super().__init__()
        self.preserved: dict[int, str] = {}
        self.stage = ""

    # -- the program

    def build(self, ctx: Context, main: Instance) -> None:
        parser, verify, ingress, egress, update, deparser = (
            main.arguments.get(name) for name in ("p", "vr", "ig", "eg", "ck", "dep")
        )
        assert isinstance(parser, Instance)
        self._lay_out(ctx, parser)
        self._bind(ctx, parser, ("", "headers", "metadata", "standard"))
        ctx.program.parsers.append(lower_parser(ctx, parser, "parser"))
        for name, block in (("ingress", ingress), ("egress", egress)):
            assert isinstance(block, Instance)
            self.stage = name
            self._bind(ctx, block, ("headers", "metadata", "standard"))
            self.pipeline(ctx, name, block)
        for name, block in (("update", update), ("verify", verify)):
            if not isinstance(block, Instance):
                continue
            self.stage = name
            self._bind(ctx, block, ("headers", "metadata"))
            self._checksums(ctx, block)
        self.stage = "deparser"
        assert isinstance(deparser, Instance)
        self._bind(ctx, deparser, ("", "headers"))
        self.deparser(ctx, "deparser", deparser)
        self._field_lists(ctx)
        self._alias(ctx)

    def _lay_out(self, ctx: Context, parser: Instance) -> None:
        """Headers, the user's metadata and standard metadata exist once."""
        declaration = parser.declaration
        assert isinstance(declaration, core.Parser)
        _, headers, metadata, standard = declaration.parameters
        assert isinstance(standard.type, Struct)
        self.places = {
            "headers": self.headers(ctx, headers),
            "metadata": self.metadata(ctx, metadata),
            "standard": ctx.storage.metadata(standard.type, "standard_metadata", "standard_metadata"),
        }

    def _bind(self, ctx: Context, block: Instance, roles: tuple[str, ...]) -> None:
        declaration = block.declaration
        assert isinstance(declaration, core.Parser | core.Control)
        for parameter, role in zip(declaration.parameters, roles, strict=True):
            if role:
                ctx.bindings[parameter] = self.places[role]

    def _alias(self, ctx: Context) -> None:
        standard = self.places["standard"]
        assert isinstance(standard, RecordPlace)
        for header, names in _ALIASES.items():
            for name in names:
                if name in standard.fields:
                    ctx.program.aliases.append((f"{header}.{name}", ("standard_metadata", name)))

    def _field_lists(self, ctx: Context) -> None:
        """Fields of metadata with `@field_list(n)`, which clones and resubmitted packets keep."""
        lists: dict[int, list[Value]] = {number: [] for number in self.preserved}
        metadata = self.places["metadata"]
        if isinstance(metadata, RecordPlace):
            self._collect(metadata, (), lists)
        for number, fields in sorted(lists.items()):
            elements = [{"type": "field", "value": [f.header, f.name]} for f in fields if isinstance(f, ir.Field)]
            item = ctx.program.add("field_lists", f"field_list{number}", elements=elements)
            item["id"] = number
        if self.no_fields and self.no_fields not in lists:
            ctx.program.add("field_lists", "fl", elements=[])["id"] = self.no_fields

    def _collect(self, place: RecordPlace, numbers: tuple[int, ...], lists: dict[int, list[Value]]) -> None:
        kind = place.type
        annotations = {p.name: p.annotations for p in kind.fields} if isinstance(kind, Struct) else {}
        for name, inner in place.fields.items():
            note = core.annotation(annotations.get(name, ()), "field_list")
            here = (*numbers, *(v for v in note.values if isinstance(v, int))) if note else numbers
            if isinstance(inner, RecordPlace):
                self._collect(inner, here, lists)
                continue
            for number in here:
                fields = lists.setdefault(number, [])
                for leaf in leaves(inner):
                    if isinstance(leaf, ScalarPlace):
                        fields.append(leaf.value)

    no_fields = 0
    """Id of the list without fields, if a clone or the like preserves nothing."""

    def _nothing_preserved(self) -> Const:
        """A list that no field is in, behind those of the program; 0 means "not cloned" to simple_switch."""
        if not self.no_fields:
            lists: dict[int, list[Value]] = {number: [] for number in self.preserved}
            if isinstance(metadata := self.places["metadata"], RecordPlace):
                self._collect(metadata, (), lists)
            self.no_fields = 1 + max(lists, default=0)
        return Const(self.no_fields)

    # -- checksums

    def _checksums(self, ctx: Context, block: Instance) -> None:
        """Calls of `verify_checksum` and `update_checksum`; nothing else runs in these controls."""
        entry = self.control_body(ctx, block)
        self.only_externs(ctx, entry, block, "verify_checksum and update_checksum calls")

    def checksum(self, ctx: Context, e: core.CallFunction) -> Operand:
        name = e.function.name
        verify, payload = name.startswith("verify"), name.endswith("payload")
        if self.stage != ("verify" if verify else "update"):
            raise ctx.refuse(e.span, f"{name} can only be called in the control that {self._purpose(verify)}")
        assert all(argument is not None for argument in e.arguments)
        condition, data, target, algorithm = e.arguments
        assert condition is not None
        assert data is not None
        assert target is not None
        inputs = checksum_inputs(ctx, data, name)
        if payload:
            inputs.append({"type": "payload", "value": None})
        made = calculation(ctx, enum_name(ctx, algorithm), inputs, e.span)
        place = ctx.locate(target)
        if not isinstance(place, ScalarPlace) or not isinstance(place.value, ir.Field):
            raise ctx.refuse(target.span, f"{name} needs a field of a header")
        ctx.program.add(
            "checksums",
            self.unique("cksum"),
            e.span,
            target=[place.value.header, place.value.name],
            type="generic",
            calculation=made,
            verify=verify,
            update=not verify,
            if_cond=ctx.value(condition),
        )
        return NOTHING

    @staticmethod
    def _purpose(verify: bool) -> str:
        return "verifies checksums" if verify else "updates checksums"

    # -- functions

    def function(self, ctx: Context, e: core.CallFunction) -> Operand:
        name = e.function.name
        handler = _FUNCTIONS.get(name)
        if handler is not None:
            return handler(self, ctx, e)
        if name in (
            "verify_checksum",
            "update_checksum",
            "verify_checksum_with_payload",
            "update_checksum_with_payload",
        ):
            return self.checksum(ctx, e)
        return self.core_function(ctx, e)

    def _hash(self, ctx: Context, e: core.CallFunction) -> Operand:
        result, _, base, data, most = arguments_of(ctx, e)
        assert e.arguments[3] is not None
        assert data is not None
        inputs = field_list(ctx, data, e.arguments[3])
        name = calculation(ctx, enum_name(ctx, e.arguments[1]), inputs, e.span)
        with result_field(ctx, result, e.arguments[0]) as field:
            ctx.call(
                "modify_field_with_hash_based_offset",
                field,
                as_value(ctx, base or NOTHING),
                Named("calculation", name),
                as_value(ctx, most or NOTHING),
            )
        return NOTHING

    def _random(self, ctx: Context, e: core.CallFunction) -> Operand:
        result, low, high = arguments_of(ctx, e)
        with result_field(ctx, result, e.arguments[0]) as field:
            ctx.call("modify_field_rng_uniform", field, as_value(ctx, low or NOTHING), as_value(ctx, high or NOTHING))
        return NOTHING

    def _digest(self, ctx: Context, e: core.CallFunction) -> Operand:
        receiver, data = arguments_of(ctx, e)
        assert e.arguments[1] is not None
        assert data is not None
        number = self.learn_list(ctx, data, e.arguments[1], str(e.type_arguments[0]) if e.type_arguments else "digest")
        ctx.call("generate_digest", as_value(ctx, receiver or NOTHING), Const(number))
        return NOTHING

    def _mark_to_drop(self, ctx: Context, e: core.CallFunction) -> Operand:
        standard = self.places["standard"]
        assert isinstance(standard, RecordPlace)
        if e.arguments:
            assert e.arguments[0] is not None
            place = ctx.locate(e.arguments[0])
            if place is not standard:
                return self._drop_copy(ctx, e, place)
        ctx.call("mark_to_drop", Named("header", "standard_metadata"))
        ctx.written(standard)
        return NOTHING

    def _drop_copy(self, ctx: Context, e: core.CallFunction, place: Any) -> Operand:
        """On a copy of standard metadata: drop, and take the fields over from the real one."""
        standard = self.places["standard"]
        assert isinstance(standard, RecordPlace)
        kept = {name: ctx.temporary(standard.fields[name].type) for name in ("egress_spec", "mcast_grp")}
        for name, copy in kept.items():
            self._copy(ctx, copy, standard.fields[name])
        ctx.call("mark_to_drop", Named("header", "standard_metadata"))
        ctx.written(standard)
        for name, copy in kept.items():
            self._copy(ctx, place.fields[name], standard.fields[name])
            self._copy(ctx, standard.fields[name], copy)
        return NOTHING

    @staticmethod
    def _copy(ctx: Context, target: Any, source: Any) -> None:
        ctx.store(target, ctx.read(source))

    def _clone(self, ctx: Context, e: core.CallFunction) -> Operand:
        kind = enum_name(ctx, e.arguments[0])
        values = arguments_of(ctx, e)
        preserved = self._preserved(ctx, e, 2) if len(values) > 2 else self._nothing_preserved()
        op = {"I2E": "clone_ingress_pkt_to_egress", "E2E": "clone_egress_pkt_to_egress"}.get(kind)
        if op is None:
            raise ctx.refuse(e.span, f"simple_switch does not have CloneType.{kind}")
        ctx.call(op, as_value(ctx, values[1] or NOTHING), preserved)
        return NOTHING

    def _preserved(self, ctx: Context, e: core.CallFunction, number: int) -> Const:
        argument = e.arguments[number]
        assert argument is not None
        value = number_of(ctx, argument)
        if value is None:
            raise ctx.refuse(argument.span, "the field list must be known at compile time")
        self.preserved.setdefault(value, "")
        return Const(value)

    def _again(self, ctx: Context, e: core.CallFunction) -> Operand:
        """resubmit and recirculate."""
        op = e.function.name.partition("_")[0]
        ctx.call(op, self._preserved(ctx, e, 0) if e.arguments else self._nothing_preserved())
        return NOTHING

    def _truncate(self, ctx: Context, e: core.CallFunction) -> Operand:
        (length,) = arguments_of(ctx, e)
        ctx.call("truncate", as_value(ctx, length or NOTHING))
        return NOTHING

    def _log(self, ctx: Context, e: core.CallFunction) -> Operand:
        values = arguments_of(ctx, e)
        assert isinstance(values[0], Text)
        text, parameters = values[0].text, list[Value]()
        if len(values) > 1 and values[1] is not None:
            assert e.arguments[1] is not None
            text, parameters = log_parameters(ctx, text, values[1], e.arguments[1].type)
        ctx.call("log_msg", Text(text), ir.Vector("parameters_vector", tuple(parameters)))
        return NOTHING

    # -- objects with methods

    def method(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        handler = _METHODS.get((receiver.declaration.name, e.method.name))
        if handler is None:
            raise ctx.refuse(e.span, f"simple_switch does not have {receiver.declaration.name}.{e.method.name}")
        return handler(self, ctx, e, receiver)

    def _array(self, ctx: Context, receiver: Instance) -> Named:
        """A counter, meter or register array, declared at first use."""
        kind = receiver.declaration.name
        name = receiver.name
        which = {"counter": "counter_array", "meter": "meter_array", "register": "register_array"}[kind]
        if name not in self.declared:
            self.declared.add(name)
            values = list(receiver.arguments.values())
            size = number_of_value(values[0])
            span = receiver.node.span
            if kind == "counter":
                ctx.program.add("counter_arrays", name, span, size=size, is_direct=False)
            elif kind == "meter":
                unit = _UNITS[member_name(values[1])]
                ctx.program.add("meter_arrays", name, span, is_direct=False, size=size, rate_count=2, type=unit)
            else:
                self.register(ctx, receiver, size)
        return Named(which, name)

    def _count(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        (index,) = arguments_of(ctx, e)
        ctx.call("count", self._array(ctx, receiver), as_value(ctx, index or NOTHING))
        return NOTHING

    def _direct(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        """Direct counters count by themselves."""
        return NOTHING

    def _meter(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        index, result = arguments_of(ctx, e)
        with result_field(ctx, result, e.arguments[1]) as field:
            ctx.call("execute_meter", self._array(ctx, receiver), as_value(ctx, index or NOTHING), field)
        return NOTHING

    def _direct_meter(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        """The switch itself writes the colour where the table is looked up: note where."""
        assert e.arguments[0] is not None
        place = ctx.locate(e.arguments[0])
        if not isinstance(place, ScalarPlace) or not isinstance(place.value, ir.Field):
            raise ctx.refuse(e.span, "a direct meter writes to a field")
        target = [place.value.header, place.value.name]
        meter = self.direct_meter(ctx, receiver)
        if meter.get("result_target", target) != target:
            raise ctx.refuse(e.span, f"all calls of read of direct meter {receiver.name} must have the same result")
        meter["result_target"] = target
        ctx.written(place)
        return NOTHING

    def direct_meter(self, ctx: Context, receiver: Instance) -> dict[str, Any]:
        if receiver.name not in self.direct_meters:
            unit = _UNITS[member_name(next(iter(receiver.arguments.values())))]
            self.direct_meters[receiver.name] = ctx.program.add(
                "meter_arrays", receiver.name, receiver.node.span, is_direct=True, rate_count=2, type=unit, size=0
            )
        return self.direct_meters[receiver.name]

    def _register_read(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        result, index = arguments_of(ctx, e)
        with result_field(ctx, result, e.arguments[0]) as field:
            ctx.call("register_read", field, self._array(ctx, receiver), as_value(ctx, index or NOTHING))
        return NOTHING

    def _register_write(self, ctx: Context, e: core.CallMethod, receiver: Instance) -> Operand:
        return register_write(ctx, e, self._array(ctx, receiver))

    # -- tables

    def table(self, ctx: Context, table: core.Table, lowered: ir.Table) -> None:
        assert ctx.instance is not None
        for name, expression in table.properties.items():
            value = ctx.instance.value(expression)
            if name == "support_timeout":
                lowered.timeouts = isinstance(value, core.Literal) and bool(value.value)
            elif isinstance(value, Instance):
                self._attach(ctx, table, lowered, name, value)

    def _attach(self, ctx: Context, table: core.Table, lowered: ir.Table, name: str, value: Instance) -> None:
        kind = value.declaration.name
        if name == "implementation" and kind in ("action_profile", "action_selector"):
            action_profile(self, ctx, table, lowered, value)
        elif name == "counters" and kind == "direct_counter":
            lowered.with_counters = True
            self.bind_counter(ctx, lowered, value)
        elif name == "meters" and kind == "direct_meter":
            meter = self.direct_meter(ctx, value)
            if "result_target" not in meter:
                raise ctx.refuse(table.span, f"no action of table {table.name} reads its direct meter")
            meter["binding"] = lowered.name
            meter["size"] = lowered.size
            lowered.direct_meter = value.name


def number_of_value(value: object) -> int:
    if isinstance(value, core.Literal):
        return int(value.value)
    raise AssertionError("sizes are folded")


def member_name(value: object) -> str:
    return value.name if isinstance(value, core.EnumMember) else ""


_FUNCTIONS: dict[str, Callable[[V1Model, Context, core.CallFunction], Operand]] = {
    "hash": V1Model._hash,
    "random": V1Model._random,
    "digest": V1Model._digest,
    "mark_to_drop": V1Model._mark_to_drop,
    "clone": V1Model._clone,
    "clone_preserving_field_list": V1Model._clone,
    "clone3": V1Model._clone,
    "resubmit": V1Model._again,
    "resubmit_preserving_field_list": V1Model._again,
    "recirculate": V1Model._again,
    "recirculate_preserving_field_list": V1Model._again,
    "truncate": V1Model._truncate,
    "log_msg": V1Model._log,
}
_METHODS: dict[tuple[str, str], Callable[[V1Model, Context, core.CallMethod, Instance], Operand]] = {
    ("counter", "count"): V1Model._count,
    ("direct_counter", "count"): V1Model._direct,
    ("meter", "execute_meter"): V1Model._meter,
    ("direct_meter", "read"): V1Model._direct_meter,
    ("register", "read"): V1Model._register_read,
    ("register", "write"): V1Model._register_write,
}
