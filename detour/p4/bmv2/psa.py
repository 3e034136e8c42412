# SPDX-License-Identifier: Apache-2.0
"""The Portable Switch Architecture for psa_switch."""

from __future__ import annotations

from detour.p4.bmv2.portable import Portable
from detour.p4.elaborate import Block as Instance
from detour.p4.lower.context import Context
from detour.p4.lower.parsers import lower_parser


class Psa(Portable):
    """An ingress and an egress pipeline, each with a parser and a deparser."""

    PREFIX = "psa"
    METADATA = frozenset(
        f"psa_{name}_metadata"
        for name in (
            *("ingress_parser_input", "ingress_input", "ingress_output"),
            *("egress_parser_input", "egress_input", "egress_output", "egress_deparser_input"),
        )
    )

    def build(self, ctx: Context, main: Instance) -> None:
        for name in ("ingress", "egress"):
            pipeline = next(
                each
                for each in main.arguments.values()
                if isinstance(each, Instance) and each.declaration.name == f"{name.capitalize()}Pipeline"
            )
            parser, control, deparser = pipeline.arguments.values()
            assert isinstance(parser, Instance)
            assert isinstance(control, Instance)
            assert isinstance(deparser, Instance)
            self.bind_block(ctx, parser, 1)
            ctx.program.parsers.append(lower_parser(ctx, parser, f"{name}_parser"))
            self.bind_block(ctx, control, 0)
            self.pipeline(ctx, name, control)
            self.bind_block(ctx, deparser, 4 if name == "ingress" else 3)
            self.deparser(ctx, f"{name}_deparser", deparser)
