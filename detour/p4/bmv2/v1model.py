# SPDX-License-Identifier: Apache-2.0
"""v1model for simple_switch (simple_switch.md)."""

from __future__ import annotations

from detour.p4 import core, ir
from detour.p4.bmv2.common import Target
from detour.p4.bmv2.externs import (
    UNITS,
    ExternCall,
    Primitive,
    Result,
    argument,
    array,
    calculation,
    checksum_inputs,
    declare_unused_arrays,
    hash_inputs,
    learn_list,
    member_of,
    nothing,
    placed,
)
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Json, Named, Text, Value
from detour.p4.lower import operators
from detour.p4.lower.context import Context
from detour.p4.lower.parsers import lower_parser
from detour.p4.lower.places import Operand, Place, RecordPlace, ScalarPlace, is_scalar, leaves, part
from detour.p4.types import BOOL, Header, Struct, Tuple, Type, members, underlying

_ALIASES = {
    "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
    "intrinsic_metadata": (
        *("ingress_global_timestamp", "egress_global_timestamp", "mcast_grp", "egress_rid", "priority"),
    ),
}
_CLONES = {"I2E": "clone_ingress_pkt_to_egress", "E2E": "clone_egress_pkt_to_egress"}


class V1Model(Target):
    """Parser, checksum verification, ingress, egress, checksum update, deparser."""

    SWITCH = "simple_switch"
    PROPERTIES = frozenset(("implementation", "counters", "meters"))
    TIMEOUTS = frozenset(("support_timeout",))

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, list[Value]] = {}
        """Fields of metadata with `@field_list(n)`, which clones and resubmitted packets keep."""
        self._list_ids: dict[int | None, int] = {}
        """Ids of the lists by their numbers: from 1, as in p4c, as 0 means "not cloned" to simple_switch. None: of the
        list without fields, for a clone or the like that preserves nothing."""
        self.stage = ""
        self.direct_meters: dict[str, Json] = {}

    # -- the program

    def build(self, ctx: Context, main: Instance) -> None:
        blocks = {name: value for name, value in main.arguments.items() if isinstance(value, Instance)}
        parser = blocks["p"].declaration
        assert isinstance(parser, core.Parser)
        _, headers, metadata, standard = parser.parameters
        assert isinstance(standard.type, Struct)
        self.headers = self.laid_out(ctx, headers, "headers")
        self.metadata = self.laid_out(ctx, metadata, "metadata", "userMetadata")
        if isinstance(self.metadata, RecordPlace):
            _collect(self.metadata, (), self._kept)
        self._list_ids |= {number: id_ for id_, number in enumerate(sorted(self._kept), 1)}
        self.standard = ctx.storage.metadata(standard.type, "standard_metadata", "standard_metadata")
        places = self.headers, self.metadata, self.standard
        self._bind(ctx, blocks["p"], None, *places)
        lower_parser(ctx, blocks["p"], "parser")
        for self.stage, block in (("ingress", blocks["ig"]), ("egress", blocks["eg"])):
            self._bind(ctx, block, *places)
            self.pipeline(ctx, self.stage, block)
        for self.stage, block in (("update", blocks.get("ck")), ("verify", blocks.get("vr"))):
            if block is not None:
                self._bind(ctx, block, self.headers, self.metadata)
                calls = "verify_checksum and update_checksum calls"
                text = f"control {block.declaration.name} can only have {calls} on BMv2"
                self.straight(ctx, block, text, is_empty=True)
        self.stage = "deparser"
        self._bind(ctx, blocks["dep"], None, self.headers)
        self.deparser(ctx, "deparser", blocks["dep"])
        declare_unused_arrays(ctx, main)
        self._field_lists(ctx)
        for header, names in _ALIASES.items():
            aliased = [name for name in names if name in self.standard.parts]
            ctx.program.aliases += [(f"{header}.{name}", ("standard_metadata", name)) for name in aliased]

    def _bind(self, ctx: Context, block: Instance, *places: Place | None) -> None:
        declaration = block.declaration
        assert isinstance(declaration, core.Parser | core.Control)
        for parameter, place in zip(declaration.parameters, places, strict=True):
            if place is not None:
                ctx.bindings[parameter] = place

    # -- field lists

    def _field_lists(self, ctx: Context) -> None:
        for number, id_ in self._list_ids.items():
            fields = [] if number is None else self._kept.get(number, [])
            elements = [field for field in fields if isinstance(field, ir.Field)]
            name = "fl" if number is None else f"field_list{number}"
            ctx.program.add("field_lists", name, elements=elements)["id"] = id_

    def preserve(self, call: ExternCall, number: int) -> Const:
        """The list that an argument names; without the argument one that no field is in."""
        list_number = None
        if number < len(call.e.arguments):
            argument = call.argument(number)
            list_number = call.ctx.instance.number(argument)
            if list_number is None:
                raise call.refuse("the field list must be known at compile time", argument.span)
        return Const(self._list_ids.setdefault(list_number, len(self._list_ids) + 1))

    # -- direct meters

    def direct_meter(self, ctx: Context, meter: Instance) -> Json:
        if meter.name not in self.direct_meters:
            unit = member_of(next(iter(meter.arguments.values())))
            unit = UNITS.get(unit, unit)
            self.direct_meters[meter.name] = ctx.program.add(
                "meter_arrays", meter.name, meter.node.span, is_direct=True, rate_count=2, type=unit, size=0
            )
        return self.direct_meters[meter.name]

    def attach_meter(self, ctx: Context, table: core.Table, lowered: ir.Table, meter: Instance) -> None:
        item = self.direct_meter(ctx, meter)
        if "result_target" not in item:
            raise ctx.refuse(table.span, f"no action of table {table.name} reads its direct meter")
        item |= {"binding": lowered.name, "size": lowered.size}
        lowered.attributes["direct_meters"] = meter.name


def _collect(place: RecordPlace, numbers: tuple[int, ...], lists: dict[int, list[Value]]) -> None:
    annotations = {p.name: p.annotations for p in place.type.fields} if isinstance(place.type, Struct) else {}
    for name, inner in place.parts.items():
        note = core.annotation(annotations.get(name, ()), "field_list")
        here = (*numbers, *(v for v in note.values if isinstance(v, int))) if note else numbers
        if isinstance(inner, RecordPlace):
            _collect(inner, here, lists)
            continue
        for number in here:
            fields = lists.setdefault(number, [])
            fields += [leaf.ref for leaf in leaves(inner) if isinstance(leaf, ScalarPlace)]


def _target(call: ExternCall) -> V1Model:
    assert isinstance(call.target, V1Model)
    return call.target


# ---------------------------------------------------------------- functions


def _hash(call: ExternCall) -> Operand | None:
    inputs = hash_inputs(call.ctx, call.values[3], call.argument(3))
    made = Named("calculation", calculation(call, call.member(1), inputs))
    return Primitive("modify_field_with_hash_based_offset", Result(0), argument(2), lambda _: made, argument(4))(call)


def _checksum(call: ExternCall) -> None:
    ctx, name = call.ctx, call.name
    verify = name.startswith("verify")
    if _target(call).stage != ("verify" if verify else "update"):
        purpose = "verifies checksums" if verify else "updates checksums"
        raise call.refuse(f"{name} can only be called in the control that {purpose}")
    condition, data, target = (call.argument(number) for number in range(3))
    inputs = checksum_inputs(ctx, data, name)
    if name.endswith("payload"):
        inputs.append(Named("payload", None))
    made = calculation(call, call.member(3), inputs)
    place = ctx.locate(target)
    if not isinstance(place, ScalarPlace) or not isinstance(place.ref, ir.Field):
        raise call.refuse(f"{name} needs a field of a header", target.span)
    number = len(ctx.program.objects["checksums"])
    ctx.program.add(
        "checksums",
        f"cksum_{number - 1}" if number else "cksum",
        call.e.span,
        target=[place.ref.header, place.ref.name],
        type="generic",
        calculation=made,
        verify=verify,
        update=not verify,
        if_cond=ctx.value(condition),
    )


def _digest(call: ExternCall) -> Value:
    arguments = call.e.type_arguments
    return learn_list(call, 1, str(arguments[0]) if arguments else "digest")


def _mark_to_drop(call: ExternCall) -> None:
    """On a copy of standard metadata: drop, and take the fields over from the real one."""
    ctx, standard = call.ctx, _target(call).standard
    place = ctx.locate(call.argument(0)) if call.e.arguments else standard
    names = ("egress_spec", "mcast_grp") if place is not standard else ()
    fields = [(standard.parts[name], place.parts[name]) for name in names]
    kept = [ctx.temporary(real.type) for real, _ in fields]
    for copy, (real, _) in zip(kept, fields, strict=True):
        _copy(ctx, copy, real)
    ctx.call("mark_to_drop", Named("header", "standard_metadata"))
    ctx.written(standard)
    for copy, (real, dropped) in zip(kept, fields, strict=True):
        _copy(ctx, dropped, real)
        _copy(ctx, real, copy)


def _copy(ctx: Context, target: Place, source: Place) -> None:
    assert isinstance(target, ScalarPlace)
    ctx.store(target, ctx.scalar(source))


def _clone(call: ExternCall) -> None:
    kind, session = call.member(0), call.value(1)
    preserved = _target(call).preserve(call, 2)
    if kind not in _CLONES:
        raise call.refuse(f"simple_switch does not have CloneType.{kind}")
    call.ctx.call(_CLONES[kind], session, preserved)


def _again(call: ExternCall) -> None:
    """resubmit and recirculate."""
    call.ctx.call(call.name.partition("_")[0], _target(call).preserve(call, 0))


def _log(call: ExternCall) -> None:
    """A message and the values that it shows; a struct or header among them is shown field by field."""
    text, *rest = call.values
    assert isinstance(text, Text)
    first, *pieces = text.text.split("{}")
    values: list[Value] = []
    for operand in rest:
        kind = call.argument(1).type
        parts = [(part(operand, name), inner) for name, inner in members(kind) if isinstance(kind, Struct | Tuple)]
        for shown, inner in parts or [(operand, kind)]:
            first += _show(call, shown, inner, values) + (pieces.pop(0) if pieces else "")
    call.ctx.call("log_msg", Text("{}".join([first, *pieces])), ir.Vector("parameters_vector", tuple(values)))


def _show(call: ExternCall, operand: Operand, kind: Type, values: list[Value]) -> str:
    """The part of a message that shows a value."""
    operand = placed(call.ctx, operand)
    if isinstance(kind, Struct | Header):
        parts = [f"{name}:{_show(call, part(operand, name), inner, values)}" for name, inner in members(kind)]
        return f"({','.join(parts)})"
    if not is_scalar(kind):
        raise call.refuse(f"log_msg cannot show a value of type {kind}", call.ctx.span)
    number = call.ctx.scalar(operand)
    values.append(operators.as_data(number) if underlying(kind) == BOOL else number)
    return "{}"


def _read_direct_meter(call: ExternCall) -> None:
    """The switch itself writes the colour where the table is looked up: note where."""
    ctx, meter = call.ctx, call.receiver
    place = ctx.locate(call.argument(0))
    if not isinstance(place, ScalarPlace) or not isinstance(place.ref, ir.Field):
        raise call.refuse("a direct meter writes to a field")
    target = [place.ref.header, place.ref.name]
    if _target(call).direct_meter(ctx, meter).setdefault("result_target", target) != target:
        raise call.refuse(f"all calls of read of direct meter {meter.name} must have the same result")
    ctx.written(place)


V1Model.FUNCTIONS = {
    **Target.FUNCTIONS,
    "hash": _hash,
    "random": Primitive("modify_field_rng_uniform", Result(0), argument(1), argument(2)),
    "digest": Primitive("generate_digest", argument(0), _digest),
    "mark_to_drop": _mark_to_drop,
    **dict.fromkeys(("clone", "clone_preserving_field_list", "clone3"), _clone),
    **dict.fromkeys(("resubmit", "resubmit_preserving_field_list"), _again),
    **dict.fromkeys(("recirculate", "recirculate_preserving_field_list"), _again),
    "truncate": Primitive("truncate", argument(0)),
    "log_msg": _log,
    **{f"{do}_checksum{what}": _checksum for do in ("verify", "update") for what in ("", "_with_payload")},
}
V1Model.METHODS = {
    ("counter", "count"): Primitive("count", array, argument(0)),
    ("direct_counter", "count"): nothing,
    ("meter", "execute_meter"): Primitive("execute_meter", array, argument(0), Result(1)),
    ("direct_meter", "read"): _read_direct_meter,
    ("register", "read"): Primitive("register_read", Result(0), array, argument(1)),
    ("register", "write"): Primitive("register_write", array, argument(0), argument(1)),
}
