# SPDX-License-Identifier: Apache-2.0
"""`packet_in` and `packet_out`: extract, lookahead, advance, emit (sections 13.8 and 16)."""

from __future__ import annotations

from detour.p4 import core, ir
from detour.p4.ir import Named
from detour.p4.lower.context import NOTHING, Context
from detour.p4.lower.places import (
    HeaderPlace,
    Operand,
    Place,
    ScalarPlace,
    StackPlace,
    UnionPlace,
    header_ref,
    leaves,
    scalar_width,
)
from detour.p4.types import Header, Varbits


def packet_method(ctx: Context, e: core.CallMethod) -> Operand:
    match e.method.name:
        case "extract":
            _extract(ctx, e)
        case "lookahead":
            # In a temporary: BMv2 cannot compute with bits that follow directly.
            place = ctx.temporary(e.type)
            _look(ctx, place, 0, e)
            return ctx.contents(place)
        case "advance":
            assert e.arguments[0] is not None
            ctx.call("advance", ctx.value(e.arguments[0]))
        case "emit":
            _emit(ctx, e)
        case _:
            raise ctx.refuse(e.span, f"BMv2 does not have packet_in.{e.method.name}")
    return NOTHING


def _extract(ctx: Context, e: core.CallMethod) -> None:
    target, place = _target(ctx, e, e.arguments[0])
    if len(e.arguments) == 1:
        ctx.call("extract", target)
    else:
        assert e.arguments[1] is not None
        if isinstance(place.type, Header) and not any(isinstance(f.type, Varbits) for f in place.type.fields):
            raise ctx.refuse(e.span, f"header {place.type} has no varbit field", "call extract with one argument")
        ctx.call("extract_VL", target, ctx.value(e.arguments[1]))
    ctx.written(place)


def _target(ctx: Context, e: core.CallMethod, argument: core.Expression | None) -> tuple[Named, Place]:
    """Return what is extracted to: a header, or the next element of a stack."""
    if isinstance(argument, core.StackMember) and argument.name == "next":
        stack = ctx.locate(argument.base)
        assert isinstance(stack, StackPlace)
        return Named("stack", stack.ref.name), stack
    if isinstance(argument, core.Member) and isinstance(argument.base, core.StackMember):
        stack = ctx.locate(argument.base.base)
        assert isinstance(stack, StackPlace)
        return Named("union_stack", (stack.ref.name, argument.name)), stack
    place = ctx.temporary(e.type_arguments[0]) if argument is None else ctx.locate(argument)
    if isinstance(place, HeaderPlace) and isinstance(place.ref, Named):
        return Named("regular", place.ref.name), place
    raise ctx.refuse(e.span, "BMv2 extracts only to headers and to the next element of a stack")


def _look(ctx: Context, place: Place, offset: int, e: core.CallMethod) -> int:
    """Fill a place from an offset on; return the offset behind it."""
    if isinstance(place, ScalarPlace):
        if isinstance(place.type, Varbits):
            raise ctx.refuse(e.span, "lookahead of a type with a varbit field")
        bits = scalar_width(place.type)[0]
        ctx.call("assign", place.ref, ir.Lookahead(offset, bits))
        ctx.written(place)
        return offset + bits
    if isinstance(place, UnionPlace):
        raise ctx.refuse(e.span, f"lookahead of a type with the header union {place.type}")
    if isinstance(place, HeaderPlace):
        ctx.call("add_header", header_ref(place))
        ctx.written(place)
    for each in place.parts.values():
        offset = _look(ctx, each, offset, e)
    return offset


def _emit(ctx: Context, e: core.CallMethod) -> None:
    assert e.arguments[0] is not None
    operand = ctx.evaluate(e.arguments[0])
    if isinstance(operand, ir.Value):
        return
    for leaf in leaves(operand if isinstance(operand, Place) else ctx.locate(e.arguments[0])):
        if not isinstance(leaf, HeaderPlace) or not isinstance(leaf.ref, Named):
            raise ctx.refuse(e.span, "BMv2 emits headers only")
        ctx.call("emit", leaf.ref)
