# SPDX-License-Identifier: Apache-2.0
"""Snapshots for long Reads, and for any Read beside a large Write: copies of the objects that are named, made while
nobody writes.

The spec wants a Read to show a state before or after any Write ("Parallelism of Read and Write Requests"). A
copy is some memory and a few milliseconds; the answer, which may be much larger and is as slow as its reader, is made
from it while everybody else goes on. Objects that clients or packets replace as a whole are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from finsy.proto import p4r

from detour.engine.p4runtime.store import EntityStore, ProfileStore, TableStore

T = TypeVar("T")
_MESSAGE_BYTES = 256  # of a kept message, beside its bytes
_ARRAYS = {  # kind of entity: (field of the id, the schema's objects, the state's)
    "counter_entry": ("counter_id", "counters"),
    "meter_entry": ("meter_id", "meters"),
    "register_entry": ("register_id", "registers"),
    "value_set_entry": ("value_set_id", "value_sets"),
}


class Scope:
    """The objects of a store that some entities, of a Read or a Write, name."""

    def __init__(self, store: EntityStore, requests: Iterable[p4r.Entity]) -> None:
        self.store = store
        self.tables: set[int] = set()
        self.profiles: set[int] = set()
        self.arrays: set[tuple[str, int]] = set()  # name of the schema's dictionary, id
        self.replication = self.digests = False
        for request in requests:
            # Large batches are of entries of few tables.
            if request.table_entry.table_id not in self.tables:
                self._add(request)
        users = (store.tables[id_].info.profile for id_ in self.tables)
        self.profiles |= {profile.id for profile in users if profile is not None}

    def _add(self, request: p4r.Entity) -> None:
        name = request.WhichOneof("entity")
        match name:
            case "table_entry":
                self.tables |= _chosen(self.store.tables, request.table_entry.table_id)
            case "direct_counter_entry" | "direct_meter_entry":
                self.tables |= _chosen(self.store.tables, getattr(request, name).table_entry.table_id)
            case "action_profile_member" | "action_profile_group":
                self.profiles |= _chosen(self.store.profiles, getattr(request, name).action_profile_id)
            case "packet_replication_engine_entry":
                self.replication = True
            case "digest_entry":
                self.digests = True
            case _ if name in _ARRAYS:
                field, kind = _ARRAYS[name]
                ids = _chosen(getattr(self.store.schema, kind), getattr(getattr(request, name), field))
                self.arrays |= {(kind, id_) for id_ in ids}

    def bytes(self) -> int:
        """About the memory that a snapshot takes."""
        store = self.store
        size = 0
        for table in (store.tables[id_] for id_ in self.tables):
            size += table.engine.snapshot_bytes + sum(len(note.metadata) for note in table.notes.values())
            size += sum(shot.message.ByteSize() + _MESSAGE_BYTES for shot in table.one_shots.values())
        size += sum(store.profiles[id_].engine.snapshot_bytes for id_ in self.profiles)
        size += sum(_array(store, kind, id_).snapshot_bytes for kind, id_ in self.arrays)
        if self.replication:
            size += sum(m.ByteSize() + _MESSAGE_BYTES for m in (*store.groups.values(), *store.sessions.values()))
        return size


def _chosen(objects: Mapping[int, Any], id_: int) -> set[int]:
    if not id_:
        return set(objects)
    return {id_} if id_ in objects else set()


def _array(store: EntityStore, kind: str, id_: int) -> Any:
    return getattr(store.state, kind)[getattr(store.schema, kind)[id_].name]


class _Snapshot:
    """The part of an `EntityStore` that readers of entities use."""

    def __init__(self, scope: Scope, live: bool) -> None:
        store = scope.store
        self._run = store.run if live else None
        self.schema, self.target = store.schema, store.target
        self.translation = store.translation.snapshot()
        self.profiles = store.profiles | {id_: self._profile(store.profiles[id_]) for id_ in scope.profiles}
        self.tables = store.tables | {id_: self._table(store.tables[id_]) for id_ in scope.tables}
        # Arrays by name: copies of those that are read, the others as they are.
        self.state = SimpleNamespace(**{kind: dict(getattr(store.state, kind)) for _, kind in _ARRAYS.values()})
        for kind, id_ in scope.arrays:
            getattr(self.state, kind)[getattr(store.schema, kind)[id_].name] = _array(store, kind, id_).snapshot()
        self.groups = dict(store.groups) if scope.replication else store.groups
        self.sessions = dict(store.sessions) if scope.replication else store.sessions
        self.digests = dict(store.digests) if scope.digests else store.digests

    def _profile(self, profile: ProfileStore) -> ProfileStore:
        other = copy(profile)
        other.engine, other.sizes = profile.engine.snapshot(), dict(profile.sizes)
        return other

    def _table(self, table: TableStore) -> TableStore:
        other = copy(table)
        other.copied_ps = self.now_ps()
        other.profile = self.profiles[table.info.profile.id] if table.info.profile else None
        other.engine = table.engine.snapshot(other.profile.engine if other.profile else None)
        other.notes, other.one_shots = dict(table.notes), dict(table.one_shots)
        return other

    def table(self, id_: int) -> TableStore:
        """As `Store.table`."""
        return EntityStore.table(cast(EntityStore, self), id_)

    def run(self, function: Callable[[], T]) -> T:
        """No packet runs on a copy, but on what was not copied."""
        return function() if self._run is None else self._run(function)

    def now_ps(self) -> int:
        """Loop time."""
        return self.target.now_ps


def take(scope: Scope, live: bool = False) -> EntityStore:
    """Copies. The caller keeps writers away; packets do not run meanwhile. `live`: also what is not in the scope will
    be read."""
    return cast(EntityStore, scope.store.run(lambda: _Snapshot(scope, live)))
