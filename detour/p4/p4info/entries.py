# SPDX-License-Identifier: Apache-2.0
"""Entries of tables in the source, as the `WriteRequest` with which a controller would insert them."""

from __future__ import annotations

from finsy.proto import p4r

from detour.p4 import core, types
from detour.p4.elaborate import Block, Elaboration
from detour.p4.messages import Messages
from detour.p4.p4info.build import Builder
from detour.p4.p4info.collect import TableIn
from detour.p4.p4info.names import numbered
from detour.p4.p4info.typeinfo import as_bytes, bitwidth

_WITH_PRIORITY = frozenset({"ternary", "range", "optional"})


def entries(program: core.Program, elaboration: Elaboration, messages: Messages) -> p4r.WriteRequest:
    """All entries of the program's tables; of each table, those that win first."""
    builder = Builder(program, elaboration, messages)
    request = p4r.WriteRequest()
    for one in builder.tables:
        needs_priority = any(key.match_kind in _WITH_PRIORITY for key in one.table.keys)
        # Of constant entries the first that matches wins.
        given = [
            (entry.priority or len(one.table.entries) - place, entry) for place, entry in enumerate(one.table.entries)
        ]
        if needs_priority and not one.table.entries_are_constant:
            given.sort(key=lambda pair: pair[0], reverse=one.block.largest_wins(one.table))
        for priority, entry in given:
            update = request.updates.add(type=p4r.Update.INSERT)
            _entry(update.entity.table_entry, builder, one, entry, priority if needs_priority else 0)
    return request


def _entry(message: p4r.TableEntry, builder: Builder, one: TableIn, entry: core.Entry, priority: int) -> None:
    message.table_id = builder.id_of("tables", one.name)
    message.priority = priority
    message.is_const = entry.constant or one.table.entries_are_constant
    for (identifier, key), value in zip(numbered(one.table.keys), entry.keys, strict=False):
        _match(message, one.block, identifier, key, value)
    action = message.action.action
    action.action_id = builder.action_id(one.block, entry.use.action)
    for identifier, value in builder.arguments(one.block, entry.use):
        action.params.add(param_id=identifier, value=value)


def _match(message: p4r.TableEntry, block: Block, identifier: int, key: core.Key, value: core.Expression) -> None:
    """Add a match field; none for one that matches everything."""
    bits = bitwidth(key.expression.type) or types.width(key.expression.type)
    full = (1 << bits) - 1
    low, other = _bounds(block, key.match_kind, value, full)
    if low is None:
        return
    encoded = as_bytes(low, bits)
    if key.match_kind == "exact":
        message.match.add(field_id=identifier).exact.value = encoded
    elif key.match_kind == "optional":
        message.match.add(field_id=identifier).optional.value = encoded
    elif key.match_kind == "range":
        if (low, other) != (0, full):
            field = message.match.add(field_id=identifier).range
            field.low, field.high = encoded, as_bytes(other, bits)
    elif other & full:
        field = message.match.add(field_id=identifier)
        if key.match_kind == "lpm":
            field.lpm.value, field.lpm.prefix_len = as_bytes(low & other, bits), (other & full).bit_count()
        else:
            field.ternary.value, field.ternary.mask = as_bytes(low & other, bits), as_bytes(other, bits)


def _bounds(block: Block, kind: str, value: core.Expression, full: int) -> tuple[int | None, int]:
    """Value and mask, or least and greatest value, of a key; None for any value."""
    if isinstance(value, core.Anything):
        return None, 0
    if isinstance(value, core.MaskSet):
        return block.number(value.value), block.number(value.mask) or 0
    if isinstance(value, core.RangeSet):
        return block.number(value.low), block.number(value.high) or 0
    number = block.number(value)
    return number, (number or 0) if kind == "range" else full
