# SPDX-License-Identifier: Apache-2.0
"""RECONCILE_AND_COMMIT: the forwarding state of the old config, written again under the new one.

What differs from the state in which a config begins is read as entities and inserted. An entity that the new config
refuses (its table is gone, an action has another parameter, ...) means that the state cannot be preserved.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime.entities.common import INSERT, MODIFY, WHOLE_ENTRY
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.read import Reader
from detour.engine.p4runtime.store import EntityStore, TableStore
from detour.engine.p4runtime.write import write

_BATCH = 1024
_EVERYTHING = (
    # how it is written again, what is read
    (INSERT, p4r.Entity(action_profile_member=p4r.ActionProfileMember())),
    (INSERT, p4r.Entity(action_profile_group=p4r.ActionProfileGroup())),
    (INSERT, p4r.Entity(table_entry=WHOLE_ENTRY)),
    (MODIFY, p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True))),
    (INSERT, p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())),
    (INSERT, p4r.Entity(digest_entry=p4r.DigestEntry())),
    (MODIFY, p4r.Entity(value_set_entry=p4r.ValueSetEntry())),
    (MODIFY, p4r.Entity(counter_entry=p4r.CounterEntry())),
    (MODIFY, p4r.Entity(meter_entry=p4r.MeterEntry())),
    (MODIFY, p4r.Entity(register_entry=p4r.RegisterEntry())),
)


def carry_over(old: EntityStore, new: EntityStore) -> None:
    """Copies state; INVALID_ARGUMENT names the first entity that does not fit."""
    for updates in _batches(old, new):
        for update, error in zip(updates, write(new, updates), strict=True):
            if error is not None:
                name = update.entity.WhichOneof("entity")
                raise invalid(f"the state cannot be preserved: a {name} does not fit the new config: {error.text}")


def _batches(old: EntityStore, new: EntityStore) -> Iterator[list[p4r.Update]]:
    """Members before groups before entries; what depends on an entry is part of it."""
    for kind, request in _EVERYTHING:
        reader = Reader(old, [request])
        for response in reader.chunks():
            updates = [u for e in response.entities if (u := _update(kind, e, old, new)) is not None]
            for at in range(0, len(updates), _BATCH):
                yield updates[at : at + _BATCH]
        if (error := reader.errors[0]) is not None:
            raise error


def _update(kind: int, entity: p4r.Entity, old: EntityStore, new: EntityStore) -> p4r.Update | None:
    """The update that carries an entity over, None if the new state has it by itself."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            entry = entity.table_entry
            table, counterpart = old.tables[entry.table_id], new.tables.get(entry.table_id)
            if entry.is_const or (entry.is_default_action and not table.engine.default_changed):
                return None
            if table.info.preset and counterpart is not None and _initial(counterpart, entry):
                kind = MODIFY
        case "value_set_entry" if not entity.value_set_entry.members:
            return None
        case "counter_entry" if not (entity.counter_entry.data.packet_count or entity.counter_entry.data.byte_count):
            return None
        case "meter_entry" if not entity.meter_entry.HasField("config"):
            return None
        case "register_entry":
            data = entity.register_entry.data
            if not any(data.bitstring) and not any(data.enum_value) and not data.bool:
                return None
    return p4r.Update(type=kind, entity=entity)  # type: ignore[arg-type]


def _initial(table: TableStore, entry: p4r.TableEntry) -> bool:
    try:
        table.engine.find(table.info.key.decode(entry.match), entry.priority)
    except Exception:
        return False
    return True
