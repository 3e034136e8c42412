# SPDX-License-Identifier: Apache-2.0
"""CounterEntry and DirectCounterEntry (spec, same title)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities import table, table_read
from detour.engine.p4runtime.entities.common import Ids, PendingUpdate, counts, indices, modify_only, selected
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import EntityStore, TableStore


def prepare(store: EntityStore, kind: int, entry: p4r.CounterEntry) -> PendingUpdate:
    """MODIFY only; without data it changes nothing, without index it changes all cells."""
    info = schema.find(store.schema.counters, entry.counter_id, "counter")
    what = f"counter {info.name}"
    modify_only(kind, what)
    cells = indices(entry, info.size, what)
    values = counts(entry.data, what) if entry.HasField("data") else None
    array = store.state.counters[info.name]

    def apply() -> None:
        if values is not None:
            for index in cells:
                array.write(index, *values)

    return apply


def read(store: EntityStore, entry: p4r.CounterEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One cell, one array or all arrays."""
    for info in selected(store.schema.counters, entry.counter_id, "counter", ids):
        cells = indices(entry if entry.counter_id else p4r.CounterEntry(), info.size, f"counter {info.name}")
        array = store.state.counters[info.name]
        for index in cells:
            entity = p4r.Entity()
            out = entity.counter_entry
            out.counter_id = info.id
            out.index.index = index
            table_read.fill_counter(info, array.read(index), out.data)
            yield entity


def prepare_direct(store: EntityStore, kind: int, entry: p4r.DirectCounterEntry) -> PendingUpdate:
    """MODIFY only."""
    found = _counted(store, entry.table_entry.table_id)
    what = f"direct counter of {found.info.where}"
    modify_only(kind, what)
    locate = table.locator(found, entry.table_entry)
    values = counts(entry.data, what) if entry.HasField("data") else None

    def apply() -> None:
        handle = locate()
        if values is not None:
            found.engine.set_counter(handle, *values)

    return apply


def _counted(store: EntityStore, table_id: int) -> TableStore:
    found = store.table(table_id)
    if found.info.counter is None:
        raise invalid(f"{found.info.where} has no direct counter")
    return found


def read_direct(store: EntityStore, entry: p4r.DirectCounterEntry, ids: Ids) -> Iterator[p4r.Entity | None]:
    """Of one entry, of a table's entries, or of all tables (table_id 0)."""
    wanted = entry.table_entry
    if wanted.table_id:
        _counted(store, wanted.table_id)
    if wanted.is_default_action:
        raise Refused(Code.UNIMPLEMENTED, "BMv2 does not count default entries")
    for found in selected(store.tables, wanted.table_id, "table", ids):
        if found.info.counter is None:
            continue
        for each in table_read.entries(found, wanted, must_exist=True):
            if each is None:
                yield None
                continue
            entity = p4r.Entity()
            out = entity.direct_counter_entry
            table_read.fill_key(found, each, out.table_entry)
            table_read.fill_counter(found.info.counter, found.engine.counter(each.handle), out.data)
            yield entity
