# SPDX-License-Identifier: Apache-2.0
"""The portable architectures: PSA for psa_switch and PNA for pna_nic. Their externs are instances of
`extern_instances`, and metadata of the architecture are headers of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from detour.p4 import core, ir
from detour.p4.bmv2.common import Target
from detour.p4.bmv2.externs import (
    Argument,
    ExternCall,
    Primitive,
    Result,
    algorithm,
    argument,
    array,
    fields,
    fields_of,
    learn_list,
    member_of,
    nothing,
    size_of,
)
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Named, Value
from detour.p4.lower import operators
from detour.p4.lower.context import Context
from detour.p4.lower.parsers import lower_parser
from detour.p4.lower.places import Operand, Place
from detour.p4.types import Bits, Struct, Type, underlying
from detour.p4.types import Extern as ExternType

_COUNTER_TYPES = {"PACKETS": 1, "PACKETS_AND_BYTES": 2}
_RESULT = Result()


class Portable(Target):
    """Base of PSA and PNA."""

    METADATA: ClassVar[frozenset[str]] = frozenset()
    """Structs that the switch itself reads or writes, without the `_t` of their names."""

    def __init__(self) -> None:
        super().__init__()
        self.by_type: dict[Type, Place] = {}

    def blocks(
        self, ctx: Context, blocks: list[Instance], names: tuple[str, str, str], headers: tuple[int, int, int]
    ) -> None:
        """A parser, a control and a deparser. Parameter `headers` of each is the struct of headers."""
        (parser, control, deparser), (first, second, third) = blocks, headers
        self._bind(ctx, parser, first)
        lower_parser(ctx, parser, names[0])
        self._bind(ctx, control, second)
        self.pipeline(ctx, names[1], control)
        self._bind(ctx, deparser, third)
        self.deparser(ctx, names[2], deparser)

    def _bind(self, ctx: Context, block: Instance, headers: int) -> None:
        """Bind the parameters of a parser or control. All blocks share what has the same type."""
        declaration = block.declaration
        assert isinstance(declaration, core.Parser | core.Control)
        for number, parameter in enumerate(declaration.parameters):
            kind, name = parameter.type, str(parameter.type).removesuffix("_t")
            if isinstance(kind, ExternType):
                continue
            if kind not in self.by_type and isinstance(kind, Struct) and name in self.METADATA:
                self.by_type[kind] = ctx.storage.metadata(kind, name, str(kind))
            elif kind not in self.by_type:
                root, prefix = ("headers", "") if number == headers else ("metadata", "userMetadata")
                self.by_type[kind] = self.laid_out(ctx, parameter, root, prefix)
            ctx.bindings[parameter] = self.by_type[kind]


class Psa(Portable):
    """An ingress and an egress pipeline, each with a parser and a deparser."""

    PROPERTIES = frozenset(("psa_implementation", "psa_direct_counter"))
    TIMEOUTS = frozenset(("psa_idle_timeout", "idle_timeout_with_auto_delete"))
    METADATA = frozenset(
        f"psa_{name}_metadata"
        for name in (
            *("ingress_parser_input", "ingress_input", "ingress_output"),
            *("egress_parser_input", "egress_input", "egress_output", "egress_deparser_input"),
        )
    )

    def build(self, ctx: Context, main: Instance) -> None:
        for name, headers in (("ingress", (1, 0, 4)), ("egress", (1, 0, 3))):
            pipeline = main.arguments[name]
            assert isinstance(pipeline, Instance)
            blocks = [each for each in pipeline.arguments.values() if isinstance(each, Instance)]
            self.blocks(ctx, blocks, (f"{name}_parser", name, f"{name}_deparser"), headers)


class Pna(Portable):
    """The main parser, control and deparser. BMv2's pna_nic has no control before them."""

    PROPERTIES = frozenset(("pna_implementation", "pna_direct_counter"))
    TIMEOUTS = frozenset(("pna_idle_timeout", "idle_timeout_with_auto_delete"))
    METADATA = frozenset(("pna_main_parser_input_metadata", "pna_main_input_metadata", "pna_main_output_metadata"))

    def build(self, ctx: Context, main: Instance) -> None:
        names = ("main_parser", "main_control", "main_deparser")
        blocks: dict[str, Instance] = {}
        for name, block in main.arguments.items():
            if isinstance(block, Instance):
                blocks[{"mp": names[0], "mc": names[1], "md": names[2]}.get(name, name)] = block
        self.blocks(ctx, [blocks[name] for name in names], names, (1, 0, 1))


# ---------------------------------------------------------------- externs


def _instance(*attributes: tuple[str, str, Callable[[ExternCall], object]]) -> Argument:
    """An instance of an extern, declared with attributes (name, type, value) when it is used first."""

    def named(call: ExternCall) -> Named:
        receiver = call.receiver
        if call.ctx.program.declare(receiver.name):
            values = [{"name": name, "type": kind, "value": made(call)} for name, kind, made in attributes]
            item = call.ctx.program.add("extern_instances", receiver.name, receiver.node.span)
            item |= {"type": receiver.declaration.name, "attribute_values": values}
        return Named("extern", receiver.name)

    return named


def _size(call: ExternCall) -> str:
    return f"0x{size_of(call.constructed(0)):08x}"


def _counter(call: ExternCall) -> Value:
    receiver = call.receiver
    if receiver.name not in call.ctx.program.declared:
        size = size_of(call.constructed(0))
        call.ctx.program.add("counter_arrays", receiver.name, receiver.node.span, size=size, is_direct=False)
    return _COUNTER(call)


_COUNTER = _instance(
    ("n_counters", "hexstr", _size),
    ("type", "hexstr", lambda call: f"0x{_COUNTER_TYPES.get(member_of(call.constructed(1)), 0):x}"),
)
_METER = _instance(
    ("is_direct", "hexstr", lambda _: "0x0"),
    ("n_meters", "hexstr", _size),
    ("rate_count", "hexstr", lambda _: "0x2"),
    ("type", "string", lambda call: member_of(call.constructed(1)).lower()),
)
_HASH = _instance(("algo", "string", lambda call: algorithm(member_of(call.constructed(0)))))
_CHECKSUM = _instance()


def _hash(call: ExternCall) -> Operand | None:
    return (_HASH_IN_BOUNDS if len(call.values) == 3 else _PLAIN_HASH)(call)


_PLAIN_HASH = Primitive("_Hash_get_hash", _HASH, _RESULT, fields(0))
_HASH_IN_BOUNDS = Primitive("_Hash_get_hash_mod", _HASH, _RESULT, argument(0), fields(1), argument(2))


def _bound(number: int) -> Argument:
    """A bound of random numbers."""

    def made(call: ExternCall) -> Value:
        kind = underlying(call.e.type)
        return Const(size_of(call.constructed(number)), kind.width if isinstance(kind, Bits) else 32)

    return made


def _checksum(name: str, *arguments: Argument | Result) -> Primitive:
    return Primitive(f"_InternetChecksum_{name}", _CHECKSUM, *arguments)


def _select(call: ExternCall) -> Value:
    """The first value for packets from the network, the second for packets from the host."""
    direction, from_net, from_host = map(call.ctx.scalar, call.values)
    return operators.choose(operators.compare("==", direction, Const(0, 32)), from_net, from_host)


def _add_entry(call: ExternCall) -> Value:
    name, data, timeout = call.values
    found = fields_of(call.ctx, data, call.argument(1), copy=True)
    parameters = ir.Vector("parameters_vector", tuple(found))
    call.ctx.call("add_entry", call.ctx.scalar(name), parameters, call.ctx.scalar(timeout))
    return ir.Truth(True)


Portable.METHODS = {
    ("Counter", "count"): Primitive("_Counter_count", _counter, argument(0)),
    ("DirectCounter", "count"): nothing,
    ("Meter", "execute"): Primitive("_Meter_execute", _METER, argument(0), _RESULT),
    ("Register", "read"): Primitive("register_read", _RESULT, array, argument(0)),
    ("Register", "write"): Primitive("register_write", array, argument(0), argument(1)),
    ("Hash", "get_hash"): _hash,
    ("Random", "read"): Primitive("modify_field_rng_uniform", _RESULT, _bound(0), _bound(1)),
    ("Digest", "pack"): Primitive("generate_digest", lambda call: learn_list(call, 0, call.receiver.name)),
    ("InternetChecksum", "clear"): _checksum("clear"),
    ("InternetChecksum", "add"): _checksum("add", fields(0)),
    ("InternetChecksum", "subtract"): _checksum("subtract", fields(0)),
    ("InternetChecksum", "get"): _checksum("get", _RESULT),
    ("InternetChecksum", "get_state"): _checksum("get_state", _RESULT),
    ("InternetChecksum", "set_state"): _checksum("set_state", argument(0)),
}
Pna.FUNCTIONS = {
    **Target.FUNCTIONS,
    "send_to_port": Primitive("send_to_port", argument(0)),
    "drop_packet": Primitive("drop_packet"),
    "mirror_packet": Primitive("mirror_packet", argument(0), argument(1)),
    "recirculate": Primitive("recirculate"),
    "restart_expire_timer": Primitive("restart_expire_timer"),
    "set_entry_expire_time": Primitive("set_entry_expire_time", argument(0)),
    "SelectByDirection": _select,
    "add_entry": _add_entry,
}
