# SPDX-License-Identifier: Apache-2.0
"""Behaviour of PSA and PNA beside the program: metadata that the architecture sets before a parser or control runs, its
reaction to the metadata that a control leaves, and primitives of their externs (Portable Switch Architecture 1.2,
sections 6 and 7; Portable NIC Architecture 0.7).

The loop knows v1model's standard metadata only; these are translated to them. A resubmitted packet keeps its ingress
port, as the specification says; psa_switch sets it to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from detour.engine import phv
from detour.engine.compiler import values
from detour.engine.compiler.calculations import hash_by
from detour.engine.compiler.context import FunctionContext
from detour.engine.compiler.expressions import Number, low
from detour.engine.compiler.ir import FALSE, TRUE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Json, named
from detour.engine.compiler.portable import EGRESS_PARSER, PNA, PSA, V1MODEL
from detour.engine.compiler.primitives import Extern, assign_number, execute_meter, primitive

PSA_PORT_RECIRCULATE = 0xFFFFFFFA
_PNA_INPUT = "pna_main_parser_input_metadata"
_PASSES = ("recirculated", "pass")
"""of that, in pna_nic's pna.p4 and in the specification's; the fields that a pass counts in"""
_PATHS = ("NORMAL", "NORMAL_UNICAST", "NORMAL_MULTICAST", "CLONE_I2E", "CLONE_E2E", "RESUBMIT", "RECIRCULATE")
"""PSA_PacketPath_t"""
_TO_INGRESS = {phv.TYPE_RESUBMIT: "RESUBMIT", phv.TYPE_RECIRCULATION: "RECIRCULATE"}
_TO_EGRESS = {
    phv.TYPE_REPLICATION: "NORMAL_MULTICAST", phv.TYPE_INGRESS_CLONE: "CLONE_I2E", phv.TYPE_EGRESS_CLONE: "CLONE_E2E",
}  # fmt: skip


def _set(ctx: FunctionContext, header: str, **fields: Value) -> None:
    ref = ctx.header(header)
    for name, value in fields.items():
        values.store(ctx, ref, find_field(ref.header, name), value)


def _get(ctx: FunctionContext, header: str, field: str) -> Value:
    ref = ctx.header(header)
    return ctx.load_field(ref, find_field(ref.header, field))


def _is_set(ctx: FunctionContext, header: str, field: str) -> Value:
    value = _get(ctx, header, field)
    return ctx.f.compare("ne", value, const(value.bits, 0))


def _is(ctx: FunctionContext, instance_type: int) -> Value:
    return ctx.f.compare("eq", ctx.fixed(phv.INSTANCE_TYPE), const(32, instance_type))


def _path(ctx: FunctionContext, paths: Mapping[int, str], otherwise: str) -> Value:
    path = const(32, _PATHS.index(otherwise))
    for instance_type, name in paths.items():
        path = ctx.f.select(_is(ctx, instance_type), const(32, _PATHS.index(name)), path)
    return path


def _or_zero(ctx: FunctionContext, condition: Value, value: Value) -> Value:
    return ctx.f.select(condition, value, const(value.bits, 0))


def before_parser(ctx: FunctionContext, name: str) -> None:
    """Set what a parser may read."""
    if ctx.model.architecture == PNA:
        _set(ctx, _PNA_INPUT, input_port=ctx.fixed(phv.INGRESS_PORT))
    elif name == EGRESS_PARSER:
        path = _path(ctx, _TO_EGRESS, "NORMAL_UNICAST")
        _set(ctx, "psa_egress_parser_input_metadata", egress_port=ctx.fixed(phv.EGRESS_PORT), packet_path=path)
    elif ctx.model.architecture == PSA:
        again = _is(ctx, phv.TYPE_RECIRCULATION)
        port = ctx.f.select(again, const(32, PSA_PORT_RECIRCULATE), ctx.fixed(phv.INGRESS_PORT))
        path = _path(ctx, _TO_INGRESS, "NORMAL")
        _set(ctx, "psa_ingress_parser_input_metadata", ingress_port=port, packet_path=path)


def preserved(ctx: FunctionContext) -> None:
    """Copy, in `preserve`, from `%src` to `%phv` the fields that a resubmitted or recirculated packet keeps beside the
    program's list."""
    f = ctx.f
    if ctx.model.architecture == PSA:
        ctx.set_fixed(phv.INGRESS_PORT, f.load(32, f.at("%src", phv.INGRESS_PORT), 4))
    elif ctx.model.architecture == PNA:
        ref = ctx.header(_PNA_INPUT)
        for spec in (each for each in ref.type.fields if each.name in _PASSES):
            place = ctx.place(ref, spec)
            before = f.load(8 * place.size, f.at("%src", place.offset), place.align)
            _set(ctx, _PNA_INPUT, **{spec.name: f.op("add" if spec.bits > 1 else "or", before, const(before.bits, 1))})


def before_control(ctx: FunctionContext, name: str) -> None:
    """Set the input of a control, and its output as it is before it runs."""
    if ctx.model.architecture == V1MODEL:
        return
    error = ctx.fixed(phv.PARSER_ERROR)
    arrival, departure = (ctx.fixed(p, 64) for p in (phv.INGRESS_GLOBAL_TIMESTAMP, phv.EGRESS_GLOBAL_TIMESTAMP))
    if ctx.model.architecture == PNA and name == "ingress":
        fields = ("direction", *_PASSES, "loopedback", "input_port")
        names = {spec.name for spec in ctx.header(_PNA_INPUT).type.fields}
        came = {field: _get(ctx, _PNA_INPUT, field) for field in fields if field in names}
        _set(ctx, "pna_main_input_metadata", **came, timestamp=arrival, parser_error=error)
        _set(ctx, "pna_main_input_metadata", class_of_service=const(8, 0))
        ctx.set_fixed(phv.EGRESS_SPEC, ctx.drop_port())
    elif ctx.model.architecture == PSA and name == "ingress":
        came = {f: _get(ctx, "psa_ingress_parser_input_metadata", f) for f in ("ingress_port", "packet_path")}
        _set(ctx, "psa_ingress_input_metadata", **came, ingress_timestamp=arrival, parser_error=error)
        nothing = dict.fromkeys(("class_of_service", "clone", "resubmit", "multicast_group"), FALSE)
        _set(ctx, "psa_ingress_output_metadata", **nothing, drop=TRUE)
    elif ctx.model.architecture == PSA:
        came = {f: _get(ctx, "psa_egress_parser_input_metadata", f) for f in ("egress_port", "packet_path")}
        _set(ctx, "psa_egress_input_metadata", **came, egress_timestamp=departure, parser_error=error)
        # The metadata of a clone are zero.
        service = _get(ctx, "psa_ingress_output_metadata", "class_of_service")
        _set(ctx, "psa_egress_input_metadata", class_of_service=service, instance=ctx.fixed(phv.EGRESS_RID))
        _set(ctx, "psa_egress_output_metadata", clone=FALSE, drop=FALSE)


def after_control(ctx: FunctionContext, name: str) -> None:
    """Translate a control's output: what becomes of the packet."""
    if ctx.model.architecture == PNA and name == "ingress":
        again = ctx.f.compare("ne", ctx.fixed(phv.RECIRCULATE), const(32, 0))
        ctx.set_fixed(phv.EGRESS_SPEC, ctx.f.select(again, const(32, 0), ctx.fixed(phv.EGRESS_SPEC)))
    if ctx.model.architecture != PSA:
        return
    f, out = ctx.f, f"psa_{name}_output_metadata"
    session = f.op("add", f.resize(_get(ctx, out, "clone_session_id"), 32), const(32, 1))
    ctx.set_fixed(phv.CLONE_SESSION, _or_zero(ctx, _is_set(ctx, out, "clone"), session))
    ctx.set_fixed(phv.CLONE_FIELDS, const(32, 1))  # of which a clone gets nothing
    drop = _is_set(ctx, out, "drop")
    if name == "egress":
        port = ctx.fixed(phv.EGRESS_PORT)
        _set(ctx, "psa_egress_deparser_input_metadata", egress_port=port)
        ctx.set_fixed(phv.EGRESS_SPEC, f.select(drop, ctx.drop_port(), ctx.fixed(phv.EGRESS_SPEC)))
        again = f.compare("eq", port, const(32, PSA_PORT_RECIRCULATE))
        ctx.set_fixed(phv.RECIRCULATE, f.resize(again, 32))
        return
    port = f.resize(_get(ctx, out, "egress_port"), 32)
    ctx.set_fixed(phv.EGRESS_SPEC, f.select(drop, ctx.drop_port(), port))
    kept = f.negate(drop)
    ctx.set_fixed(phv.RESUBMIT, f.resize(f.op("and", kept, _is_set(ctx, out, "resubmit")), 32))
    group = f.resize(_get(ctx, out, "multicast_group"), 32)
    ctx.set_fixed(phv.MCAST_GRP, _or_zero(ctx, kept, group))
    ctx.set_fixed(phv.PRIORITY, f.resize(_get(ctx, out, "class_of_service"), 32))


# -- externs


@primitive("send_to_port", 1, extern=Extern({"port": (0, 32)}))
def _send_to_port(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.EGRESS_SPEC, low(ctx, args[0], 32))


@primitive("drop_packet", 0)
def _drop_packet(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.EGRESS_SPEC, ctx.drop_port())


@primitive("mirror_packet", 2, extern=Extern({"slot": (0, 32), "session": (1, 32)}))
def _mirror(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.CLONE_SESSION, ctx.f.op("add", low(ctx, args[1], 32), const(32, 1)))
    ctx.set_fixed(phv.CLONE_FIELDS, const(32, 1))


@primitive("_Meter_execute", 3, extern=Extern({"index": (1, 32)}, result=2, of=0, name="meter"))
def _meter(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    execute_meter(ctx, args, _portable_colour)


def _portable_colour(ctx: FunctionContext, colour: Value) -> Value:
    """v1model's green, yellow, red (0, 1, 2) as PSA and PNA number them (1, 2, 0)."""
    red = ctx.f.compare("eq", colour, const(32, 2))
    return ctx.f.select(red, const(32, 0), ctx.f.op("add", colour, const(32, 1)))


@primitive("_Hash_get_hash", 2, extern=Extern(result=0, of=1, name="hash"))
def _hash(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    assign_number(ctx, args[0], Number(_hash_of(ctx, args[1], call), False))


def _hash_of(ctx: FunctionContext, calculation: Json, call: Json) -> Value:
    return hash_by(ctx, named(ctx.model.calculations, calculation, "calculation", call), call)


# -- InternetChecksum: the first argument is the field that holds its sum, in ones' complement (RFC 1071)


def _checksum(method: str, count: int, value: Callable[[FunctionContext, list[Json], Json], Value], to: int) -> None:
    """A method with `count` parameters that assigns a value to one of them."""

    def write(ctx: FunctionContext, args: list[Json], call: Json) -> None:
        assign_number(ctx, args[to], Number(value(ctx, args, call), False))

    extern = Extern(result=to, of=0, name=f"InternetChecksum.{method}")
    primitive(f"_InternetChecksum_{method}", count, extern=extern)(write)


def _state(ctx: FunctionContext, args: list[Json], call: Json) -> Value:
    return low(ctx, args[0], 16)


def _complement(ctx: FunctionContext, value: Value) -> Value:
    return ctx.f.op("xor", value, const(value.bits, 0xFFFF))


def _with(ctx: FunctionContext, args: list[Json], call: Json, subtracts: bool) -> Value:
    """The sum with what a calculation's input adds to it; the calculation itself gives the complement."""
    f, part = ctx.f, ctx.f.resize(_hash_of(ctx, args[1], call), 16)
    both = (_state(ctx, args, call), part if subtracts else _complement(ctx, part))
    total = f.op("add", *(f.resize(each, 32) for each in both))
    return f.resize(f.op("add", f.op("and", total, const(32, 0xFFFF)), f.lshr(total, 16)), 16)


def _result(ctx: FunctionContext, args: list[Json], call: Json) -> Value:
    return _complement(ctx, _state(ctx, args, call))


_checksum("clear", 1, lambda ctx, args, call: const(16, 0), to=0)
_checksum("add", 2, partial(_with, subtracts=False), to=0)
_checksum("subtract", 2, partial(_with, subtracts=True), to=0)
_checksum("set_state", 2, lambda ctx, args, call: low(ctx, args[1], 16), to=0)
_checksum("get_state", 2, _state, to=1)
_checksum("get", 2, _result, to=1)
_checksum(
    "get_verify", 3, lambda ctx, args, call: ctx.f.compare("eq", low(ctx, args[2], 16), _result(ctx, args, call)), to=1
)
