# SPDX-License-Identifier: Apache-2.0
"""Instances of externs in P4Info: counters, meters, registers, action profiles, digests of the three architectures."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i

from detour.p4 import core, types
from detour.p4.elaborate import Block
from detour.p4.p4info.annotations import OF_SELECTORS, SAID_ELSEWHERE
from detour.p4.p4info.collect import PROPERTIES, Collection

OF_VALUE_SETS = SAID_ELSEWHERE | {"match"}

_SELECTORS = frozenset({"action_selector", "ActionSelector"})


def notifies_idle(table: core.Table, block: Block) -> bool:
    """Return whether controllers hear of entries that no packet has hit for a while."""
    for name in ("support_timeout", "psa_idle_timeout"):
        value = block.value(table.properties[name]) if name in table.properties else None
        if isinstance(value, core.Literal):
            return bool(value.value)
        if isinstance(value, core.EnumMember):
            return value.name == "NOTIFY_CONTROL"
    return False


def _notes(builder: Collection, block: Block) -> tuple[core.Annotation, ...]:
    """Annotations of an instance; of one that a property of a table makes, those of the property."""
    if isinstance(block.node, core.Instance):
        return block.node.annotations
    if block not in builder.profiles:
        return ()
    notes = builder.profiles[block][0].table.property_annotations
    return next((notes[name] for name in PROPERTIES if name in notes), ())


def write(builder: Collection, field: str, block: Block) -> None:
    """Add an instance to one of P4Info's lists. Which fields its message has tells what is to say of it."""
    message = getattr(builder.info, field).add()
    has = message.DESCRIPTOR.fields_by_name
    is_selector = block.declaration.name in _SELECTORS
    notes = _notes(builder, block)
    is_profile = field == "action_profiles"
    builder.preamble(message, field, block.name, notes, without=OF_SELECTORS if is_profile else SAID_ELSEWHERE)
    values = [one for one in block.arguments.values() if isinstance(one, core.Expression)]
    assert isinstance(block.type, types.Extern)
    kinds = block.type.arguments
    if "size" in has and (at := int(is_selector)) < len(values):
        # A selector's first argument is the hash function.
        message.size = block.number(values[at]) or 0
    if "spec" in has and (units := [one.name for one in values if isinstance(one, core.EnumMember)]):
        unit = units[-1].upper()
        message.spec.unit = message.spec.Unit.Value("BOTH" if unit == "PACKETS_AND_BYTES" else unit)
    if "direct_table_id" in has:
        message.direct_table_id = builder.id_of("tables", builder.direct[block].name)
    if "type_spec" in has:
        message.type_spec.CopyFrom(builder.types.spec(kinds[0]))
    # v1model does not name the types of indexes. Those of counters and registers stand behind the type of the value.
    at = 0 if field == "meters" else 1
    is_named = "index_type_name" in has and builder.arch != "v1model" and at < len(kinds)
    if is_named and (name := builder.types.name(kinds[at])):
        message.index_type_name.name = name
    if is_profile:
        message.table_ids.extend(builder.id_of("tables", one.name) for one in builder.profiles.get(block, ()))
        if is_selector:
            _selector(message, {one.name: one.values[0] for one in notes if one.values})


def _selector(message: p4i.ActionProfile, notes: dict[str, Any]) -> None:
    message.with_selector = True
    message.max_group_size = notes.get("max_group_size", 0)
    if notes.get("selector_size_semantics") == "sum_of_members":
        message.sum_of_members.SetInParent()
        if "max_member_weight" in notes:
            message.sum_of_members.max_member_weight = notes["max_member_weight"]
    elif notes.get("selector_size_semantics") == "sum_of_weights":
        message.sum_of_weights.SetInParent()
