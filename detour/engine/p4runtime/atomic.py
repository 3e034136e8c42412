# SPDX-License-Identifier: Apache-2.0
"""ROLLBACK_ON_ERROR and DATAPLANE_ATOMIC (spec, "Batch Atomicity"): all of a batch, or nothing.

The whole batch is carried out between two packets, so it is atomic for them as well, and both levels are the same to
us. Before an update is carried out, the updates that would take it back are noted; when one fails, those of its
predecessors are carried out in reverse order.

What could not be taken back exactly is refused with UNIMPLEMENTED, as the spec lets us: a selector picks members by the
order in which they were made, so a member that is deleted and made again may take another's place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from finsy.proto import p4r

from detour.base.garbage import HELD_OFF
from detour.engine.p4runtime.entities import ENTITIES, table_read
from detour.engine.p4runtime.entities.common import DELETE, INSERT, MODIFY, WHOLE_ENTRY, Ids, PendingUpdate
from detour.engine.p4runtime.errors import Code, Outcomes, Refused, log, refusal
from detour.engine.p4runtime.read import everything
from detour.engine.p4runtime.store import EntityStore, TableStore
from detour.engine.p4runtime.write import Updates, prepare, prepare_numbers
from detour.engine.tables import NoSuchEntry

_OPPOSITE: dict[int, Any] = {INSERT: DELETE, MODIFY: MODIFY, DELETE: INSERT}


def write_atomically(store: EntityStore, updates: Updates, ids: Ids = None) -> Outcomes:
    """Carry out a batch as a whole; return what became of each update."""
    ready: list[PendingUpdate] = []
    with HELD_OFF:
        store.translation.begin(partial(everything, store))
        for i, update in enumerate(updates):
            try:
                ready.append(prepare(store, update, ids))
            except Exception as e:
                return _failed(len(updates), i, e)
        return store.run(lambda: _carry_out(store, updates, ready))


def _failed(count: int, index: int, error: Exception) -> Outcomes:
    """The one that failed, and the others, which were not carried out or were taken back."""
    errors = Outcomes(count)
    errors[index] = refusal(error)
    aborted = Refused(Code.ABORTED, f"not carried out: update {index} of the batch failed")
    for i in range(count):
        if i != index:
            errors[i] = aborted
    return errors


def _carry_out(store: EntityStore, updates: Updates, ready: list[PendingUpdate]) -> Outcomes:
    for update in updates:
        _check(store, update)
    undo: list[p4r.Update] = []
    for i, (update, operation) in enumerate(zip(updates, ready, strict=True)):
        try:
            inverse = list(_inverse(store, update))
            operation()
        except Exception as e:
            for each in reversed(undo):
                _take_back(store, each)
            return _failed(len(updates), i, e)
        undo.extend(inverse)
    return Outcomes(len(updates))


def _take_back(store: EntityStore, update: p4r.Update) -> None:
    try:
        prepare_numbers(store, update.type, update.entity)()
    except Exception:
        log.exception("a batch could not be rolled back entirely: %s", update)


def _check(store: EntityStore, update: p4r.Update) -> None:
    """Refuse what could not be taken back exactly."""
    entity = update.entity
    kind = entity.WhichOneof("entity")
    if kind == "action_profile_member" and update.type == DELETE:
        raise Refused(Code.UNIMPLEMENTED, "a batch that deletes members of action profiles cannot be atomic")
    if kind == "table_entry" and update.type != INSERT:
        table = store.table(entity.table_entry.table_id)
        if table.profile is not None and table.profile.one_shots:
            raise Refused(Code.UNIMPLEMENTED, "a batch that changes one-shots cannot be atomic")


def _inverse(store: EntityStore, update: p4r.Update) -> Iterator[p4r.Update]:
    """The updates that take one back. Nothing, if it will fail anyway because what it names is not there."""
    kind = update.type
    try:
        entity = store.translation.inward(update.entity, kind)
        name = entity.WhichOneof("entity") or ""
        match name:
            case "table_entry":
                yield from _inverse_of_entry(store, kind, entity.table_entry)
            case "direct_counter_entry" | "direct_meter_entry":
                yield _before_direct(store, name, entity)
            case _ if kind == INSERT:
                yield p4r.Update(type=DELETE, entity=entity)
            case _:  # by id: members, groups, replication, digests; by index or all: cells; value sets
                for before in filter(None, ENTITIES[name].read(store, getattr(entity, name), None)):
                    yield p4r.Update(type=_OPPOSITE[kind], entity=before)
    except NoSuchEntry:
        return


def _inverse_of_entry(store: EntityStore, kind: int, entry: p4r.TableEntry) -> Iterator[p4r.Update]:
    table = store.table(entry.table_id)
    if entry.is_default_action:
        before = p4r.Entity(table_entry=p4r.TableEntry(table_id=entry.table_id, is_default_action=True))
        if table.engine.default_changed:
            (before,) = filter(None, table_read.read(store, before.table_entry, None))
        yield p4r.Update(type=MODIFY, entity=before)
    elif kind == INSERT:
        key = p4r.TableEntry(table_id=entry.table_id, match=entry.match, priority=entry.priority)
        yield p4r.Update(type=DELETE, entity=p4r.Entity(table_entry=key))
    else:
        yield p4r.Update(type=_OPPOSITE[kind], entity=_before(store, table, entry))


def _before(store: EntityStore, table: TableStore, entry: p4r.TableEntry) -> p4r.Entity:
    """An entry as it is now, in a form that can be written."""
    key = table.info.key.decode(entry.match)
    now = table.engine.get(table.engine.find(key, entry.priority))
    entity = table_read.show(store, table, now, WHOLE_ENTRY)
    if entity.table_entry.is_const:  # only its direct resources can be written
        entity.table_entry.is_const = False
        entity.table_entry.ClearField("action")
    return entity


def _before_direct(store: EntityStore, name: str, entity: p4r.Entity) -> p4r.Update:
    entry = getattr(entity, name).table_entry
    before = _before(store, store.table(entry.table_id), entry).table_entry
    restored = p4r.Entity()
    if name == "direct_counter_entry":
        restored.direct_counter_entry.table_entry.CopyFrom(before)
        restored.direct_counter_entry.data.CopyFrom(before.counter_data)
    else:
        restored.direct_meter_entry.table_entry.CopyFrom(before)
        if before.HasField("meter_config"):
            restored.direct_meter_entry.config.CopyFrom(before.meter_config)
    return p4r.Update(type=MODIFY, entity=restored)
