# SPDX-License-Identifier: Apache-2.0
"""RegisterEntry (spec, same title): read and write, which BMv2's own server refuses."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities.common import Ids, PendingUpdate, indices, modify_only, selected
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.p4data import DataType
from detour.engine.p4runtime.store import EntityStore


def _type(info: schema.Register) -> DataType:
    if info.type is None:
        raise Refused(Code.UNIMPLEMENTED, f"register {info.name}: its type cannot be shown as P4Data")
    return info.type


def prepare(store: EntityStore, kind: int, entry: p4r.RegisterEntry) -> PendingUpdate:
    """MODIFY only; without index all cells."""
    info = schema.find(store.schema.registers, entry.register_id, "register")
    what = f"register {info.name}"
    modify_only(kind, what)
    cells = indices(entry, info.size, what)
    if not entry.HasField("data"):
        raise invalid(f"{what}: there is no data to write")
    value = _type(info).decode(entry.data, what)
    array = store.state.registers[info.name]

    def apply() -> None:
        for index in cells:
            array.write(index, value)

    return apply


def read(store: EntityStore, entry: p4r.RegisterEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One cell, one array or all arrays (of which those with a type that P4Data cannot show are left out)."""
    for info in selected(store.schema.registers, entry.register_id, "register", ids):
        if info.type is None and not entry.register_id:
            continue
        type_ = _type(info)
        cells = indices(entry if entry.register_id else p4r.RegisterEntry(), info.size, f"register {info.name}")
        array = store.state.registers[info.name]
        for index in cells:
            entity = p4r.Entity()
            out = entity.register_entry
            out.register_id = info.id
            out.index.index = index
            type_.encode(iter((array.read(index),)), out.data)
            yield entity
