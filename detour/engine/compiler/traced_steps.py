# SPDX-License-Identifier: Apache-2.0
"""Records of what parsers, tables, actions and deparsers do, for code generators that have a `RecordWriter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detour.engine import phv
from detour.engine.compiler.context import FunctionContext, HeaderRef
from detour.engine.compiler.expressions import Number
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.lookup import key_value
from detour.engine.compiler.model import ActionIr, Json, TableIr
from detour.engine.compiler.slots import record_words, spaced
from detour.engine.compiler.tracing import AnyNumber, RecordWriter

ELEMENT = "$element"
"""the value of a record that says which element of a stack is meant; the record names the first one"""


def writer(ctx: FunctionContext) -> RecordWriter:
    """Return the record writer of a compilation that has one."""
    assert ctx.trace is not None
    return ctx.trace


def extracted(ctx: FunctionContext, ref: HeaderRef, here: str, count: Value, op: Json) -> None:
    writer(ctx).record(ctx.f, "extract", _element(ref), data=(here, count), at=op, **header_of(ref))


def transition(ctx: FunctionContext, state: Json, to: str | None, key: list[Value], chosen: Json) -> None:
    """A parser state is left; `chosen` is the transition in the JSON."""
    values = [(key_name(k), v) for k, v in zip(state["transition_key"], key, strict=True)]
    facts = {"state": state["name"], "next": to or "accept", "case": case_of(chosen)}
    writer(ctx).record(ctx.f, "parser_transition", values, at=state, **facts)


def row_of(f: Function, table: TableIr, record: str, base: str) -> Value:
    """The row of a record, i64."""
    first, last = (Value(64, f.value(f"ptrtoint ptr {p} to i64")) for p in (base, record))
    return f.raw("udiv", f.op("sub", last, first), const(64, 8 * spaced(record_words(table))))


def lookup(ctx: FunctionContext, table: TableIr, record: str, base: str, hit: Value) -> None:
    row = row_of(ctx.f, table, record, base)
    values = [(k.name or f"{k.header}.{k.field}", key_value(ctx, k)) for k in table.key]
    values += [("$row", row), ("$hit", ctx.f.resize(hit, 8))]
    match = [k.match_type for k in table.key]
    writer(ctx).record(ctx.f, "table_lookup", values, at=table.json, table=table.name, match=match)


def action(ctx: FunctionContext, action: ActionIr, arguments: str, table: TableIr) -> None:
    f = ctx.f
    values = []
    for p in action.params:
        v = f.load(64 * p.words, f.at(arguments, 8 * p.offset), 8)
        values.append((p.name, f.resize(v, p.bits)))
    writer(ctx).record(f, "action", values, at=action.json, action=action.name, table=table.name)


def value_of(ctx: FunctionContext, ref: HeaderRef, name: str) -> Number | None:
    """A field as it is now; none if its length varies."""
    if name == "$valid$":
        return Number(ctx.is_valid(ref), False)
    spec = find_field(ref.header, name)
    if spec.variable:
        return None
    return Number(ctx.f.resize(ctx.load_field(ref, spec), spec.bits), spec.signed)


def assigned(
    ctx: FunctionContext, ref: HeaderRef, name: str, before: Number | None, at: Json, what: str = "assign"
) -> None:
    """A field was written; what it was before, and what it is."""
    after = value_of(ctx, ref, name)
    values: list[tuple[str, AnyNumber]] = []
    if before is not None and after is not None:
        values = [("before", before), ("after", after)]
    writer(ctx).record(ctx.f, "assign", [*values, *_element(ref)], at=at, field=f"{ref.header.name}.{name}", by=what)


def standard(ctx: FunctionContext, names: Sequence[str]) -> list[tuple[str, Value]]:
    places = [(name, *phv.STANDARD_FIELDS[name]) for name in names]
    return [(name, ctx.f.load(8 * size, ctx.f.at("%phv", offset), 4)) for name, offset, size in places]


def header_of(ref: HeaderRef) -> dict[str, Any]:
    return {"header": ref.header.name, "type": ref.type.name}


def _element(ref: HeaderRef) -> list[tuple[str, Value]]:
    """The index of an element of a stack, where it is found at run time; then `ref.header` is the first one."""
    return [] if ref.index is None else [(ELEMENT, ref.index)]


def case_of(chosen: Json) -> str:
    """The case of a transition as P4 would write it."""
    if chosen is None or chosen["type"] == "default":
        return "default"
    if chosen["type"] == "parse_vset":
        return str(chosen["value"])
    mask = chosen.get("mask")
    return chosen["value"] if mask is None else f"{chosen['value']} &&& {mask}"


def key_name(k: Json) -> str:
    """A field, or what else a transition selects by."""
    if k["type"] == "lookahead":
        return f"lookahead({k['value'][0]}, {k['value'][1]})"
    return ".".join(str(part) for part in k["value"])
