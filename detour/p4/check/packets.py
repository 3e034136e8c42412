# SPDX-License-Identifier: Apache-2.0
"""Methods of packets whose arguments must be more than their types say (specification, sections 12.8 and 15.1)."""

from __future__ import annotations

from detour.p4 import types
from detour.p4.check.arguments import Bound
from detour.p4.check.checker import Checker
from detour.p4.check.typenames import describe, has_varbit
from detour.p4.source import Located


def check_packet_call(c: Checker, kind: types.Extern, method: str, bound: Bound, at: Located) -> None:
    """Check a call of `packet_in` or `packet_out`; others pass."""
    if kind.name == "packet_in" and method == "extract":
        _check_extract(c, bound, at)
    elif kind.name == "packet_in" and method == "lookahead":
        for argument in bound.bindings.values():
            _check_lookahead(c, argument, at)
    elif kind.name == "packet_out" and method == "emit":
        value = bound.arguments[0]
        if value is not None and not _emittable(value.type):
            c.fail(value, f"emit needs headers, or a structure or stack of them, not {describe(value.type)}")


def _check_extract(c: Checker, bound: Bound, at: Located) -> None:
    kind = bound.parameters[0].type
    at = bound.arguments[0] or at
    if isinstance(kind, types.TypeVariable):
        return
    if not isinstance(kind, types.Header):
        c.fail(at, f"extract needs a header, not {describe(kind)}")
    varbits = [part.name for part in kind.fields if isinstance(part.type, types.Varbits)]
    if len(varbits) > 1:
        text = f"{describe(kind)} has two varbit fields, {varbits[0]} and {varbits[1]}, and cannot be extracted"
        c.fail(c.field_spans.get((kind.declaration, varbits[0]), at), text)
    if len(bound.parameters) == 1 and has_varbit(kind):
        c.fail(at, f"{describe(kind)} has a varbit field", "Give its size: extract(header, bits).")
    if len(bound.parameters) == 2 and not has_varbit(kind):
        c.fail(at, f"{describe(kind)} has no varbit field", "Leave the size away: extract(header).")


def _check_lookahead(c: Checker, kind: types.Type, at: Located) -> None:
    if isinstance(kind, types.TypeVariable):
        return
    try:
        types.width(kind)
    except TypeError:
        c.fail(at, f"lookahead needs a type with a size, not {describe(kind)}")
    if has_varbit(kind):
        c.fail(at, f"lookahead needs a type with a fixed size: {describe(kind)} has a varbit field")


def _emittable(kind: types.Type) -> bool:
    if isinstance(kind, types.Struct | types.Tuple | types.Stack):
        return all(map(_emittable, types.components(kind)))
    return isinstance(kind, types.Header | types.Union | types.TypeVariable)
