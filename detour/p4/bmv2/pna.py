# SPDX-License-Identifier: Apache-2.0
"""The Portable NIC Architecture for pna_nic."""

from __future__ import annotations

from collections.abc import Mapping

from detour.p4 import core, ir
from detour.p4.bmv2.common import fields_of
from detour.p4.bmv2.portable import Portable
from detour.p4.elaborate import Block as Instance
from detour.p4.ir import Const, Text, Value
from detour.p4.lower import operators
from detour.p4.lower.calls import NOTHING, arguments_of
from detour.p4.lower.context import Context, as_value
from detour.p4.lower.parsers import lower_parser
from detour.p4.lower.places import Operand

_PLAIN = frozenset(
    ("send_to_port", "drop_packet", "mirror_packet", "recirculate", "restart_expire_timer", "set_entry_expire_time")
)


class Pna(Portable):
    """The main parser, control and deparser. BMv2's pna_nic has no control before them."""

    PREFIX = "pna"
    METADATA = frozenset(("pna_main_parser_input_metadata", "pna_main_input_metadata", "pna_main_output_metadata"))

    def build(self, ctx: Context, main: Instance) -> None:
        blocks = main.arguments
        parser, control, deparser = (self._block(blocks, *names) for names in _BLOCKS)
        self.bind_block(ctx, parser, 1)
        ctx.program.parsers.append(lower_parser(ctx, parser, "main_parser"))
        self.bind_block(ctx, control, 0)
        self.pipeline(ctx, "main_control", control)
        self.bind_block(ctx, deparser, 1)
        self.deparser(ctx, "main_deparser", deparser)

    @staticmethod
    def _block(blocks: Mapping[str, object], *names: str) -> Instance:
        block = next(blocks[name] for name in names if name in blocks)
        assert isinstance(block, Instance)
        return block

    def function(self, ctx: Context, e: core.CallFunction) -> Operand:
        name = e.function.name
        if name in _PLAIN:
            ctx.call(name, *(as_value(ctx, value or NOTHING) for value in arguments_of(ctx, e)))
            return NOTHING
        if name == "SelectByDirection":
            return self._select(ctx, e)
        if name == "add_entry":
            return self._add_entry(ctx, e)
        return self.core_function(ctx, e)

    def _select(self, ctx: Context, e: core.CallFunction) -> Operand:
        """The first value for packets from the network, the second for packets from the host."""
        direction, from_net, from_host = (as_value(ctx, value or NOTHING) for value in arguments_of(ctx, e))
        return operators.choose(operators.compare("==", direction, Const(0, 32)), from_net, from_host)

    def _add_entry(self, ctx: Context, e: core.CallFunction) -> Operand:
        name, data, timeout = arguments_of(ctx, e)
        assert isinstance(name, Text)
        assert data is not None
        assert e.arguments[1] is not None
        fields: tuple[Value, ...] = tuple(fields_of(ctx, data, e.arguments[1].type, copy=True))
        ctx.call("add_entry", name, ir.Vector("parameters_vector", fields), as_value(ctx, timeout or NOTHING))
        return ir.Truth(True)


_BLOCKS = (("main_parser", "mp"), ("main_control", "mc"), ("main_deparser", "md"))
