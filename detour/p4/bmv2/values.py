# SPDX-License-Identifier: Apache-2.0
"""Values, places in the source and calls of primitives as JSON (JSON_format.md, "The type value object")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from detour.p4 import ir
from detour.p4.ir import Json, hexadecimal
from detour.p4.source import Span


def expression(value: ir.Value | None) -> Json:
    """A value inside of an expression."""
    return None if value is None else _WRITERS[type(value)](value)


def wrapped(value: ir.Value) -> Json:
    return {"type": "expression", "value": expression(value)}


def parameter(value: ir.Value) -> Json:
    """An argument of a primitive: what BMv2 computes is wrapped once more."""
    if isinstance(value, ir.Data):
        return {"type": "runtime_data", "value": value.number}
    return wrapped(value) if isinstance(value, ir.Op | ir.Truth | ir.LastField) else expression(value)


def _operator(value: ir.Op) -> Json:
    right = value.right if isinstance(value.right, int) else expression(value.right)
    inner = {"op": value.operator, "left": expression(value.left), "right": right}
    if value.condition is not None:
        inner["cond"] = expression(value.condition)
    return {"type": "expression", "value": inner}


def _last(value: ir.LastField) -> Json:
    if value.member:
        return {"type": "union_stack_field", "value": [value.stack, value.member, value.name]}
    return {"type": "stack_field", "value": [value.stack, value.name]}


_WRITERS: dict[type, Callable[[Any], Json]] = {
    ir.Const: lambda v: {"type": "hexstr", "value": hexadecimal(v.number, v.width)},
    ir.Truth: lambda v: {"type": "bool", "value": v.value},
    ir.Field: lambda v: {"type": "field", "value": [v.header, v.name]},
    ir.LastField: _last,
    ir.Data: lambda v: {"type": "local", "value": v.number},
    ir.Lookahead: lambda v: {"type": "lookahead", "value": [v.offset, v.width]},
    ir.Text: lambda v: {"type": "string", "value": v.text},
    ir.Named: lambda v: {"type": v.kind, "value": list(v.name) if isinstance(v.name, tuple) else v.name},
    ir.Vector: lambda v: {"type": v.kind, "value": [parameter(each) for each in v.values]},
    ir.Op: _operator,
}


def source_info(span: Span) -> Json:
    """Return where something stands: columns from 0, and of the text the first line, without the `;`."""
    first, newline, _ = span.text.partition("\n")
    line, column = span.file.position(span.start)
    fragment = f"{first.rstrip()} ..." if newline else first.removesuffix(";")
    return {"filename": span.file.name, "line": line, "column": column - 1, "source_fragment": fragment}


def _object(item: dict[str, Json]) -> Json:
    return {key: plain(value) for key, value in item.items() if type(value) is not Span or value.file.name}


def _list(items: Iterable[Json]) -> Json:
    return [plain(each) for each in items]


_PLAIN = {**_WRITERS, dict: _object, list: _list, tuple: _list, Span: source_info}


def plain(item: Json) -> Json:
    """The JSON of an object in whose attributes there are values and places in the source."""
    write = _PLAIN.get(type(item))
    return item if write is None else write(item)


def placed(item: dict[str, Json], span: Span) -> Json:
    """The object with its place, if it has one."""
    return {**item, "source_info": source_info(span)} if span.file.name else item


def call(each: ir.Call) -> Json:
    """A call of a primitive."""
    return placed({"op": each.op, "parameters": [parameter(argument) for argument in each.arguments]}, each.span)
