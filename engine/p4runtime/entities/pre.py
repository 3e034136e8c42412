# SPDX-License-Identifier: Apache-2.0
"""PacketReplicationEngineEntry: multicast groups and clone sessions (spec, same title)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeVar

from finsy.proto import p4r

from detour.engine.p4runtime.bytestrings import decode, encode
from detour.engine.p4runtime.entities.common import DELETE, INSERT, Ids, PendingUpdate
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import EntityStore
from detour.engine.pre import MAX_GROUP, MAX_SESSION
from detour.engine.tables import EntryExists, NoSuchEntry

_PORT_BITS = 9
_MAX_INSTANCE = (1 << 16) - 1
_MAX_CLASS = 7  # v1model's priority is bit<3>

M = TypeVar("M", p4r.MulticastGroupEntry, p4r.CloneSessionEntry)


def prepare(store: EntityStore, kind: int, message: p4r.PacketReplicationEngineEntry) -> PendingUpdate:
    """INSERT, MODIFY, DELETE of either."""
    match message.WhichOneof("type"):
        case "multicast_group_entry":
            return _prepare_group(store, kind, message.multicast_group_entry)
        case "clone_session_entry":
            return _prepare_session(store, kind, message.clone_session_entry)
    raise invalid("packet replication: neither a multicast group nor a clone session is given")


def _prepare_group(store: EntityStore, kind: int, message: p4r.MulticastGroupEntry) -> PendingUpdate:
    group = message.multicast_group_id
    what = f"multicast group {group}"
    if not 1 <= group <= MAX_GROUP:
        raise invalid(f"{what}: ids are 1 to {MAX_GROUP}")
    if kind == DELETE:
        return partial(_delete, store, store.groups, group, what)
    kept = p4r.MulticastGroupEntry()
    kept.CopyFrom(message)
    _normalise(kept.replicas, what)
    return partial(_put, store, store.groups, group, kept, kind, what)


def _prepare_session(store: EntityStore, kind: int, message: p4r.CloneSessionEntry) -> PendingUpdate:
    session = message.session_id
    what = f"clone session {session}"
    if not 1 <= session <= MAX_SESSION:
        raise invalid(f"{what}: ids are 1 to {MAX_SESSION}")
    if kind == DELETE:
        return partial(_delete, store, store.sessions, session, what)
    if message.class_of_service > _MAX_CLASS:
        raise invalid(f"{what}: class of service {message.class_of_service} is not in 0..{_MAX_CLASS}")
    if message.packet_length_bytes < 0:
        raise invalid(f"{what}: a packet length of {message.packet_length_bytes} bytes")
    kept = p4r.CloneSessionEntry()
    kept.CopyFrom(message)
    _normalise(kept.replicas, what)
    return partial(_put, store, store.sessions, session, kept, kind, what)


def _normalise(replicas: Iterable[p4r.Replica], what: str) -> None:
    """Checks replicas and makes their ports canonical."""
    seen = set()
    for r in replicas:
        if r.backup_replicas:
            raise Refused(Code.UNIMPLEMENTED, f"{what}: backup replicas are not supported")
        match r.WhichOneof("port_kind"):
            case "port":
                port = decode(r.port, _PORT_BITS, f"{what}: port")
                r.port = encode(port)
            case "egress_port":
                port = r.egress_port
                if port >> _PORT_BITS:
                    raise invalid(f"{what}: port {port} exceeds {_PORT_BITS} bits")
            case _:
                raise invalid(f"{what}: a replica has no port")
        if r.instance > _MAX_INSTANCE:
            raise invalid(f"{what}: instance {r.instance} is not in 0..{_MAX_INSTANCE}")
        if (port, r.instance) in seen:
            raise invalid(f"{what}: the replica (port {port}, instance {r.instance}) is given twice")
        seen.add((port, r.instance))


def _put(store: EntityStore, entries: dict[int, M], id_: int, message: M, kind: int, what: str) -> None:
    if kind == INSERT and id_ in entries:
        raise EntryExists(f"{what} exists")
    if kind != INSERT and id_ not in entries:
        raise NoSuchEntry(f"there is no {what}")
    if store.live:
        install(store, message)
    entries[id_] = message


def _delete(store: EntityStore, entries: dict[int, M], id_: int, what: str) -> None:
    if id_ not in entries:
        raise NoSuchEntry(f"there is no {what}")
    if store.live:
        if isinstance(entries[id_], p4r.MulticastGroupEntry):
            store.target.set_group(id_, None)
        else:
            store.target.set_session(id_, None)
    del entries[id_]


def install(store: EntityStore, message: p4r.MulticastGroupEntry | p4r.CloneSessionEntry) -> None:
    """Hands an entry to the engine."""
    replicas = [
        (int.from_bytes(r.port, "big") if r.WhichOneof("port_kind") == "port" else r.egress_port, r.instance)
        for r in message.replicas
    ]
    if isinstance(message, p4r.MulticastGroupEntry):
        store.target.set_group(message.multicast_group_id, replicas)
    else:
        store.target.set_session(message.session_id, replicas, message.packet_length_bytes)


def install_all(store: EntityStore) -> None:
    """When a store goes live: the engine gets what it has and nothing else."""
    store.target.clear_replication()
    for message in (*store.groups.values(), *store.sessions.values()):
        install(store, message)


def read(store: EntityStore, wanted: p4r.PacketReplicationEngineEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One entry (NOT_FOUND if there is none), all of a kind for id 0, or all of both kinds."""
    kind = wanted.WhichOneof("type")
    if kind in (None, "multicast_group_entry"):
        for group in _chosen(store.groups, wanted.multicast_group_entry.multicast_group_id, "multicast group"):
            entity = p4r.Entity()
            entity.packet_replication_engine_entry.multicast_group_entry.CopyFrom(group)
            yield entity
    if kind in (None, "clone_session_entry"):
        for session in _chosen(store.sessions, wanted.clone_session_entry.session_id, "clone session"):
            entity = p4r.Entity()
            entity.packet_replication_engine_entry.clone_session_entry.CopyFrom(session)
            yield entity


def _chosen(entries: dict[int, M], id_: int, kind: str) -> list[M]:
    if not id_:
        return [entries[i] for i in sorted(entries)]
    if id_ not in entries:
        raise NoSuchEntry(f"there is no {kind} {id_}")
    return [entries[id_]]
