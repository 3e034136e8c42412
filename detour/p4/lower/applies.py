# SPDX-License-Identifier: Apache-2.0
"""What a call leads to: a table, a block that is inlined, the packet, or an extern of the architecture."""

from __future__ import annotations

from detour.p4 import core, elaborate
from detour.p4.ir import Block
from detour.p4.lower.calls import NOTHING, bind, declare_locals, inline, object_of
from detour.p4.lower.context import Context, Frame, evaluates
from detour.p4.lower.packets import packet_method
from detour.p4.lower.parsers import apply_parser
from detour.p4.lower.places import Operand
from detour.p4.lower.tables import apply_table, invoke_action
from detour.p4.types import Extern as ExternType


@evaluates(core.CallAction)
def _call_action(ctx: Context, e: core.CallAction) -> Operand:
    if ctx.action is None and not ctx.parsing:
        invoke_action(ctx, e)
    else:
        frame = Frame(Block())
        bind(ctx, e.action.parameters, e.arguments, frame, e.action)
        inline(ctx, frame, e.action.body)
    return NOTHING


@evaluates(core.Apply)
def _apply(ctx: Context, e: core.Apply) -> Operand:
    target = e.target
    if isinstance(target, core.Ref) and isinstance(target.declaration, core.Table):
        apply_table(ctx, target.declaration, e.span)
        return NOTHING
    block = object_of(ctx, target)
    if not isinstance(block, elaborate.Block):
        raise ctx.refuse(e.span, "it is not known at compile time what is applied here")
    if isinstance(block.declaration, core.Parser):
        apply_parser(ctx, block, e)
    else:
        _apply_control(ctx, block, e)
    return NOTHING


def _apply_control(ctx: Context, block: elaborate.Block, e: core.Apply) -> None:
    control = block.declaration
    assert isinstance(control, core.Control)
    frame = Frame(Block())
    bind(ctx, control.parameters, e.arguments, frame)
    outer, ctx.instance = ctx.instance, block
    declare_locals(ctx, control.locals)
    inline(ctx, frame, control.body)
    ctx.instance = outer


@evaluates(core.CallMethod)
def _call_method(ctx: Context, e: core.CallMethod) -> Operand:
    kind = e.receiver.type
    if isinstance(kind, ExternType) and kind.name in ("packet_in", "packet_out"):
        return packet_method(ctx, e)
    receiver = object_of(ctx, e.receiver)
    if not isinstance(receiver, elaborate.Block):
        raise ctx.refuse(e.span, f"it is not known at compile time whose {e.method.name} is called here")
    return ctx.architecture.method(ctx, e, receiver)
