# SPDX-License-Identifier: Apache-2.0
"""The kinds of entities: how each is written and read."""

from __future__ import annotations

from typing import Any, NamedTuple

from detour.engine.p4runtime.entities import arrays, digest, pre, profile, table, table_read
from detour.engine.p4runtime.entities.arrays import COUNTER_ENTRIES, METER_ENTRIES, REGISTER_ENTRIES


class EntityKind(NamedTuple):
    """One kind of entity.

    `prepare(store, kind, message)` checks an update against P4Info (without looking at state, in any thread) and
    returns a function that carries it out; that runs while no packet is processed and either does all or raises.
    `read(store, message, role_ids)`: the entities that match a read request. `id_path`: of the P4Info id by which roles
    are told apart. `volatile`: packets change it, so it must not be read while a packet is at it.
    """

    prepare: Any
    read: Any
    id_path: str
    volatile: bool = False


ENTITIES = {
    "table_entry": EntityKind(table.prepare, table_read.read, "table_id"),
    "action_profile_member": EntityKind(profile.prepare_member, profile.read_members, "action_profile_id"),
    "action_profile_group": EntityKind(profile.prepare_group, profile.read_groups, "action_profile_id"),
    "meter_entry": EntityKind(METER_ENTRIES.prepare, METER_ENTRIES.read, "meter_id"),
    "direct_meter_entry": EntityKind(METER_ENTRIES.prepare_direct, METER_ENTRIES.read_direct, "table_entry.table_id"),
    "counter_entry": EntityKind(COUNTER_ENTRIES.prepare, COUNTER_ENTRIES.read, "counter_id", volatile=True),
    "direct_counter_entry": EntityKind(
        COUNTER_ENTRIES.prepare_direct, COUNTER_ENTRIES.read_direct, "table_entry.table_id", volatile=True
    ),
    "packet_replication_engine_entry": EntityKind(pre.prepare, pre.read, ""),
    "value_set_entry": EntityKind(arrays.prepare_value_set, arrays.read_value_sets, "value_set_id"),
    "register_entry": EntityKind(REGISTER_ENTRIES.prepare, REGISTER_ENTRIES.read, "register_id", volatile=True),
    "digest_entry": EntityKind(digest.prepare, digest.read, "digest_id"),
}
"""by the name of the message's field"""
