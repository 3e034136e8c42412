# SPDX-License-Identifier: Apache-2.0
"""RECONCILE_AND_COMMIT: the forwarding state of the old config, written again under the new one.

What differs from the state in which a config begins is read as entities and inserted. An entity that the new config
refuses (its table is gone, an action has another parameter, ...) means that the state cannot be preserved.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.read import Reader
from detour.engine.p4runtime.store import EntityStore
from detour.engine.p4runtime.write import write

_BATCH = 1024


def carry_over(old: EntityStore, new: EntityStore) -> None:
    """Copies state; INVALID_ARGUMENT names the first entity that does not fit."""
    for updates in _batches(old, new):
        for update, error in zip(updates, write(new, updates), strict=True):
            if error is not None:
                name = update.entity.WhichOneof("entity")
                raise invalid(f"the state cannot be preserved: a {name} does not fit the new config: {error.text}")


def _batches(old: EntityStore, new: EntityStore) -> Iterator[list[p4r.Update]]:
    """Members before groups before entries; what depends on an entry is part of it."""
    for kind, request in _everything():
        reader = Reader(old, [request])
        for response in reader.chunks():
            updates = [u for e in response.entities if (u := _update(kind, e, old, new)) is not None]
            for at in range(0, len(updates), _BATCH):
                yield updates[at : at + _BATCH]
        if (error := reader.errors[0]) is not None:
            raise error


def _everything() -> Iterator[tuple[int, p4r.Entity]]:
    insert, modify = p4r.Update.INSERT, p4r.Update.MODIFY
    entity = p4r.Entity
    table = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
    yield insert, entity(action_profile_member=p4r.ActionProfileMember())
    yield insert, entity(action_profile_group=p4r.ActionProfileGroup())
    yield insert, entity(table_entry=table)
    yield modify, entity(table_entry=p4r.TableEntry(is_default_action=True))
    yield insert, entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())
    yield insert, entity(digest_entry=p4r.DigestEntry())
    yield modify, entity(value_set_entry=p4r.ValueSetEntry())
    yield modify, entity(counter_entry=p4r.CounterEntry())
    yield modify, entity(meter_entry=p4r.MeterEntry())
    yield modify, entity(register_entry=p4r.RegisterEntry())


def _update(kind: int, entity: p4r.Entity, old: EntityStore, new: EntityStore) -> p4r.Update | None:
    """The update that carries an entity over, None if the new state has it by itself."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return _table_update(kind, entity, old, new)
        case "value_set_entry" if not entity.value_set_entry.members:
            return None
        case "counter_entry" if not (entity.counter_entry.data.packet_count or entity.counter_entry.data.byte_count):
            return None
        case "meter_entry" if not entity.meter_entry.HasField("config"):
            return None
        case "register_entry" if _is_zero(entity.register_entry.data):
            return None
    return p4r.Update(type=kind, entity=entity)  # type: ignore[arg-type]


def _table_update(kind: int, entity: p4r.Entity, old: EntityStore, new: EntityStore) -> p4r.Update | None:
    entry = entity.table_entry
    table = old.tables[entry.table_id]
    if entry.is_const:
        return None
    if entry.is_default_action:
        return p4r.Update(type=kind, entity=entity) if table.engine.default_changed else None  # type: ignore[arg-type]
    counterpart = new.tables.get(entry.table_id)
    if table.info.preset and counterpart is not None and _initial(counterpart, entry):
        return p4r.Update(type=p4r.Update.MODIFY, entity=entity)
    return p4r.Update(type=kind, entity=entity)  # type: ignore[arg-type]


def _initial(table, entry: p4r.TableEntry) -> bool:  # type: ignore[no-untyped-def]
    try:
        table.engine.find(table.info.key.decode(entry.match), entry.priority)
    except Exception:
        return False
    return True


def _is_zero(data) -> bool:  # type: ignore[no-untyped-def]
    return not any(data.bitstring) and not any(data.enum_value) and not data.bool
