# SPDX-License-Identifier: Apache-2.0
"""CounterEntry, MeterEntry and RegisterEntry, those of table entries, and ValueSetEntry (spec, same titles).

All of them exist always, so they can only be modified: one cell, or without index all cells of an array. BMv2's own
server refuses registers. Its meters have no counters per colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finsy.proto import p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities import common, table, table_read
from detour.engine.p4runtime.entities.common import Ids, PendingUpdate
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.match import MatchCodec
from detour.engine.p4runtime.p4data import DataType
from detour.engine.p4runtime.store import EntityStore, TableStore


class ArrayKind:
    """One kind of array: its cells, and how messages show them."""

    name = ""

    def check(self, entry: Any) -> None:
        """Refuse what no message of this kind may have."""

    def decode(self, info: Any, entry: Any, what: str) -> Any:
        """Return a cell's value from a message."""
        raise NotImplementedError

    def write(self, array: Any, index: int, value: Any) -> None:
        """Set a cell."""
        array.write(index, value)

    def fill(self, info: Any, array: Any, index: int, out: Any) -> None:
        """Show a cell."""
        raise NotImplementedError

    def prepare(self, store: EntityStore, kind: int, entry: Any) -> PendingUpdate:
        """An update of an array's cells."""
        info = schema.find(getattr(store.schema, f"{self.name}s"), getattr(entry, f"{self.name}_id"), self.name)
        what = f"{self.name} {info.name}"
        common.modify_only(kind, what)
        self.check(entry)
        cells = common.indices(entry, info.size, what)
        value = self.decode(info, entry, what)
        array = getattr(store.state, f"{self.name}s")[info.name]

        def apply() -> None:
            for index in cells:
                self.write(array, index, value)

        return apply

    def read(self, store: EntityStore, entry: Any, ids: Ids) -> Iterator[p4r.Entity]:
        """One cell, one array, or all arrays (of which those with a type that P4Data cannot show are left out)."""
        self.check(entry)
        id_field = f"{self.name}_id"
        id_ = getattr(entry, id_field)
        for info in common.selected(getattr(store.schema, f"{self.name}s"), id_, self.name, ids):
            if not id_ and isinstance(info, schema.Register) and info.type is None:
                continue
            array = getattr(store.state, f"{self.name}s")[info.name]
            for index in common.indices(entry, info.size, f"{self.name} {info.name}") if id_ else range(info.size):
                entity = p4r.Entity()
                out = getattr(entity, f"{self.name}_entry")
                setattr(out, id_field, info.id)
                out.index.index = index
                self.fill(info, array, index, out)
                yield entity


class DirectKind(ArrayKind):
    """One of which table entries have cells as well."""

    verb = ""

    def write_direct(self, engine: Any, handle: int, value: Any) -> None:
        """Set the cell of an entry."""
        raise NotImplementedError

    def fill_direct(self, info: Any, engine: Any, handle: int, out: Any) -> None:
        """Show the cell of an entry."""
        raise NotImplementedError

    def _owner(self, store: EntityStore, table_id: int) -> TableStore:
        owner = store.table(table_id)
        if getattr(owner.info, self.name) is None:
            raise invalid(f"{owner.info.where} has no direct {self.name}")
        return owner

    def prepare_direct(self, store: EntityStore, kind: int, entry: Any) -> PendingUpdate:
        """An update of the cell of an entry."""
        owner = self._owner(store, entry.table_entry.table_id)
        what = f"direct {self.name} of {owner.info.where}"
        common.modify_only(kind, what)
        self.check(entry)
        locate = table.locator(owner, entry.table_entry)
        value = self.decode(getattr(owner.info, self.name), entry, what)
        return lambda: self.write_direct(owner.engine, locate(), value)

    def read_direct(self, store: EntityStore, entry: Any, ids: Ids) -> Iterator[p4r.Entity | None]:
        """Read the cells of one entry, of a table's entries, or of all tables (table_id 0)."""
        self.check(entry)
        filter_entry = entry.table_entry
        if filter_entry.table_id:
            self._owner(store, filter_entry.table_id)
        if filter_entry.is_default_action:
            raise Refused(Code.UNIMPLEMENTED, f"BMv2 does not {self.verb} default entries")
        for owner in common.selected(store.tables, filter_entry.table_id, "table", ids):
            info = getattr(owner.info, self.name)
            if info is None:
                continue
            for each in table_read.entries(owner, filter_entry, must_exist=True):
                if each is None:
                    yield None
                    continue
                entity = p4r.Entity()
                out = getattr(entity, f"direct_{self.name}_entry")
                table_read.fill_key(owner, each, out.table_entry)
                self.fill_direct(info, owner.engine, each.handle, out)
                yield entity


class _Counters(DirectKind):
    name, verb = "counter", "count"

    def decode(self, info: schema.Counter, entry: Any, what: str) -> tuple[int, int] | None:
        """None, without data: nothing changes."""
        return common.counts(entry.data, what) if entry.HasField("data") else None

    def write(self, array: Any, index: int, value: tuple[int, int] | None) -> None:
        if value is not None:
            array.write(index, *value)

    def fill(self, info: schema.Counter, array: Any, index: int, out: p4r.CounterEntry) -> None:
        common.fill_counter(info, array.read(index), out.data)

    def write_direct(self, engine: Any, handle: int, value: tuple[int, int] | None) -> None:
        if value is not None:
            engine.set_counter(handle, *value)

    def fill_direct(self, info: schema.Counter, engine: Any, handle: int, out: p4r.DirectCounterEntry) -> None:
        common.fill_counter(info, engine.counter(handle), out.data)


class _Meters(DirectKind):
    name, verb = "meter", "meter"

    def check(self, entry: Any) -> None:
        common.no_colour_counters(entry)

    def decode(self, info: schema.MeterInfo, entry: Any, what: str) -> Any:
        """None, without config: back to green for all."""
        return common.decode_rates(info, entry.config) if entry.HasField("config") else None

    def write(self, array: Any, index: int, value: Any) -> None:
        array.configure(index, value)

    def fill(self, info: schema.MeterInfo, array: Any, index: int, out: p4r.MeterEntry) -> None:
        common.fill_rates(array.config(index), out, "config")

    def write_direct(self, engine: Any, handle: int, value: Any) -> None:
        engine.set_meter(handle, value)

    def fill_direct(self, info: schema.MeterInfo, engine: Any, handle: int, out: p4r.DirectMeterEntry) -> None:
        common.fill_rates(engine.meter(handle), out, "config")


class _Registers(ArrayKind):
    name = "register"

    def decode(self, info: schema.Register, entry: p4r.RegisterEntry, what: str) -> int:
        if not entry.HasField("data"):
            raise invalid(f"{what}: there is no data to write")
        return _type(info).decode(entry.data, what)

    def fill(self, info: schema.Register, array: Any, index: int, out: p4r.RegisterEntry) -> None:
        _type(info).encode(iter((array.read(index),)), out.data)


def _type(info: schema.Register) -> DataType:
    if info.type is None:
        raise Refused(Code.UNIMPLEMENTED, f"register {info.name}: its type cannot be shown as P4Data")
    return info.type


COUNTER_ENTRIES, METER_ENTRIES, REGISTER_ENTRIES = _Counters(), _Meters(), _Registers()


# -- parser value sets


def prepare_value_set(store: EntityStore, kind: int, entry: p4r.ValueSetEntry) -> PendingUpdate:
    """MODIFY only: replaces all members."""
    info = schema.find(store.schema.value_sets, entry.value_set_id, "value set")
    what = f"value set {info.name}"
    common.modify_only(kind, what)
    if len(entry.members) > info.size:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{what}: {len(entry.members)} members, it takes {info.size}")
    if info.key is None:
        raise Refused(Code.UNIMPLEMENTED, f"{what}: BMv2's value sets support exact matches only")
    values = [_pack(info.key, m) for m in entry.members]
    if len(set(values)) < len(values):
        raise Refused(Code.ALREADY_EXISTS, f"{what}: a member is given twice")
    engine = store.state.value_sets[info.name]
    return lambda: engine.replace(values)


def _pack(key: MatchCodec, member: p4r.ValueSetMember) -> int:
    """The components side by side, first on the left, as the engine wants them."""
    value = 0
    for f, element in zip(key.fields, key.decode(member.match), strict=True):
        value = value << f.bits | element
    return value


def _unpack(key: MatchCodec, value: int) -> tuple[int, ...]:
    elements = []
    for f in reversed(key.fields):
        elements.append(value & ((1 << f.bits) - 1))
        value >>= f.bits
    return tuple(reversed(elements))


def read_value_sets(store: EntityStore, entry: p4r.ValueSetEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One set or all sets, with all members."""
    for info in common.selected(store.schema.value_sets, entry.value_set_id, "value set", ids):
        entity = p4r.Entity()
        out = entity.value_set_entry
        out.value_set_id = info.id
        if info.key is not None:
            for value in store.state.value_sets[info.name].values:
                info.key.encode(_unpack(info.key, value), out.members.add().match)
        yield entity
