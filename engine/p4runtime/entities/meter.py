# SPDX-License-Identifier: Apache-2.0
"""MeterEntry and DirectMeterEntry (spec, same title). BMv2's meters have no counters per colour."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities import meter_config, table, table_read
from detour.engine.p4runtime.entities.common import Ids, PendingUpdate, indices, modify_only, selected
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import EntityStore, TableStore


def prepare(store: EntityStore, kind: int, entry: p4r.MeterEntry) -> PendingUpdate:
    """MODIFY only; without config back to green for all, without index all cells."""
    info = schema.find(store.schema.meters, entry.meter_id, "meter")
    what = f"meter {info.name}"
    modify_only(kind, what)
    meter_config.no_counters(entry)
    cells = indices(entry, info.size, what)
    rates = meter_config.decode(info, entry.config) if entry.HasField("config") else None
    array = store.state.meters[info.name]

    def apply() -> None:
        for index in cells:
            array.configure(index, rates)

    return apply


def read(store: EntityStore, entry: p4r.MeterEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One cell, one array or all arrays."""
    meter_config.no_counters(entry)
    for info in selected(store.schema.meters, entry.meter_id, "meter", ids):
        cells = indices(entry if entry.meter_id else p4r.MeterEntry(), info.size, f"meter {info.name}")
        array = store.state.meters[info.name]
        for index in cells:
            entity = p4r.Entity()
            out = entity.meter_entry
            out.meter_id = info.id
            out.index.index = index
            meter_config.fill(array.config(index), out, "config")
            yield entity


def prepare_direct(store: EntityStore, kind: int, entry: p4r.DirectMeterEntry) -> PendingUpdate:
    """MODIFY only; without config back to green for all."""
    found, info = _metered(store, entry.table_entry.table_id)
    modify_only(kind, f"direct meter of {found.info.where}")
    meter_config.no_counters(entry)
    locate = table.locator(found, entry.table_entry)
    rates = meter_config.decode(info, entry.config) if entry.HasField("config") else None
    return lambda: found.engine.set_meter(locate(), rates)


def _metered(store: EntityStore, table_id: int) -> tuple[TableStore, schema.MeterInfo]:
    found = store.table(table_id)
    if found.info.meter is None:
        raise invalid(f"{found.info.where} has no direct meter")
    return found, found.info.meter


def read_direct(store: EntityStore, entry: p4r.DirectMeterEntry, ids: Ids) -> Iterator[p4r.Entity | None]:
    """Of one entry, of a table's entries, or of all tables (table_id 0)."""
    meter_config.no_counters(entry)
    wanted = entry.table_entry
    if wanted.table_id:
        _metered(store, wanted.table_id)
    if wanted.is_default_action:
        raise Refused(Code.UNIMPLEMENTED, "BMv2 does not meter default entries")
    for found in selected(store.tables, wanted.table_id, "table", ids):
        if found.info.meter is None:
            continue
        for each in table_read.entries(found, wanted, must_exist=True):
            if each is None:
                yield None
                continue
            entity = p4r.Entity()
            out = entity.direct_meter_entry
            table_read.fill_key(found, each, out.table_entry)
            meter_config.fill(found.engine.meter(each.handle), out, "config")
            yield entity
