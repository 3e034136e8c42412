# SPDX-License-Identifier: Apache-2.0
"""Methods of packets whose arguments must be more than their types say (specification, sections 12.8 and 15.1)."""

from __future__ import annotations

from detour.p4 import syntax
from detour.p4.check.arguments import Bound
from detour.p4.check.checker import Checker
from detour.p4.check.typenames import describe, has_varbit
from detour.p4.types import Extern, Header, Stack, Struct, Tuple, Type, TypeVariable, Union, Varbits, width


def check_packet_call(c: Checker, kind: Extern, method: str, bound: Bound, node: syntax.Call) -> None:
    """Checks a call of `packet_in` or `packet_out`; others pass."""
    if kind.name == "packet_in":
        if method == "extract":
            _extract(c, bound, node)
        elif method == "lookahead":
            _lookahead(c, bound, node)
    elif kind.name == "packet_out" and method == "emit":
        value = bound.arguments[0]
        if value is not None and not _emittable(value.type):
            c.fail(value.span, f"emit needs headers, or a structure or stack of them, not {describe(value.type)}")


def _extract(c: Checker, bound: Bound, node: syntax.Call) -> None:
    kind = bound.parameters[0].type
    value = bound.arguments[0]
    span = value.span if value is not None else node.span
    if isinstance(kind, TypeVariable):
        return
    if not isinstance(kind, Header):
        c.fail(span, f"extract needs a header, not {describe(kind)}")
    varbits = [part.name for part in kind.fields if isinstance(part.type, Varbits)]
    if len(varbits) > 1 and kind.declaration is not None:
        at = c.field_spans.get((kind.declaration, varbits[0]), span)
        c.fail(at, f"{describe(kind)} has two varbit fields, {varbits[0]} and {varbits[1]}, and cannot be extracted")
    if len(bound.parameters) == 1 and has_varbit(kind):
        c.fail(span, f"{describe(kind)} has a varbit field", "Give its size: extract(header, bits).")
    if len(bound.parameters) == 2 and not has_varbit(kind):
        c.fail(span, f"{describe(kind)} has no varbit field", "Leave the size away: extract(header).")


def _lookahead(c: Checker, bound: Bound, node: syntax.Call) -> None:
    for kind in bound.bindings.values():
        if isinstance(kind, TypeVariable):
            continue
        try:
            width(kind)
        except TypeError:
            c.fail(node.span, f"lookahead needs a type with a size, not {describe(kind)}")
        if has_varbit(kind):
            c.fail(node.span, f"lookahead needs a type with a fixed size: {describe(kind)} has a varbit field")


def _emittable(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return all(_emittable(part.type) for part in kind.fields)
    if isinstance(kind, Tuple):
        return all(map(_emittable, kind.elements))
    if isinstance(kind, Stack):
        return _emittable(kind.element)
    return isinstance(kind, Header | Union | TypeVariable)
