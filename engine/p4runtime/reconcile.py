# SPDX-License-Identifier: Apache-2.0
"""RECONCILE_AND_COMMIT: the forwarding state of the old config, written again under the new one.

What differs from the state in which a config begins is read as entities and inserted. An entity that the new config
refuses (its table is gone, an action has another parameter, ...) means that the state cannot be preserved.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime.entities.common import INSERT, MODIFY
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.read import WHOLE_STATE, Reader
from detour.engine.p4runtime.store import EntityStore, TableStore
from detour.engine.p4runtime.write import write

_BATCH = 1024
_MODIFIED = ("value_set_entry", "counter_entry", "meter_entry", "register_entry")


def carry_over(old: EntityStore, new: EntityStore) -> None:
    """Copies state; INVALID_ARGUMENT names the first entity that does not fit."""
    new.translation.inherit(old.translation)
    new.references.strict = False  # tables come in any order
    for updates in _batches(old, new):
        for update, error in zip(updates, write(new, updates), strict=True):
            if error is not None:
                name = update.entity.WhichOneof("entity")
                raise invalid(f"the state cannot be preserved: a {name} does not fit the new config: {error.text}")
    new.references.verify()


def _batches(old: EntityStore, new: EntityStore) -> Iterator[list[p4r.Update]]:
    """Members before groups before entries; what depends on an entry is part of it."""
    for request in WHOLE_STATE:
        reader = Reader(old, [request])
        for response in reader.chunks():
            updates = [u for e in response.entities if (u := _update(e, old, new)) is not None]
            for at in range(0, len(updates), _BATCH):
                yield updates[at : at + _BATCH]
        if (error := reader.errors[0]) is not None:
            raise error


def _update(entity: p4r.Entity, old: EntityStore, new: EntityStore) -> p4r.Update | None:
    """The update that carries an entity over, None if the new state has it by itself."""
    name = entity.WhichOneof("entity")
    kind = MODIFY if name in _MODIFIED or entity.table_entry.is_default_action else INSERT
    match name:
        case "table_entry":
            entry = entity.table_entry
            table, counterpart = old.tables[entry.table_id], new.tables.get(entry.table_id)
            if entry.is_const or (entry.is_default_action and not table.engine.default_changed):
                return None
            if table.info.preset and counterpart is not None and _initial(new, counterpart, entity):
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


def _initial(new: EntityStore, table: TableStore, entity: p4r.Entity) -> bool:
    try:
        entry = new.translation.inward(entity).table_entry
        table.engine.find(table.info.key.decode(entry.match), entry.priority)
    except Exception:
        return False
    return True
