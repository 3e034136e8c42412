# SPDX-License-Identifier: Apache-2.0
"""PacketReplicationEngineEntry: multicast groups and clone sessions (spec, same title)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

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
_KINDS = {
    # field of the message: what it is called, the field of its id, the highest id
    "multicast_group_entry": ("multicast group", "multicast_group_id", MAX_GROUP),
    "clone_session_entry": ("clone session", "session_id", MAX_SESSION),
}


def _entries(store: EntityStore, field: str) -> dict[int, Any]:
    return store.groups if field == "multicast_group_entry" else store.sessions


def prepare(store: EntityStore, kind: int, message: p4r.PacketReplicationEngineEntry) -> PendingUpdate:
    """INSERT, MODIFY, DELETE of either."""
    field = message.WhichOneof("type")
    if field is None:
        raise invalid("packet replication: neither a multicast group nor a clone session is given")
    (name, id_field, highest), entries = _KINDS[field], _entries(store, field)
    entry = getattr(message, field)
    id_ = getattr(entry, id_field)
    what = f"{name} {id_}"
    if not 1 <= id_ <= highest:
        raise invalid(f"{what}: ids are 1 to {highest}")
    if kind == DELETE:
        return partial(_delete, store, entries, id_, what)
    if isinstance(entry, p4r.CloneSessionEntry):
        if entry.class_of_service > _MAX_CLASS:
            raise invalid(f"{what}: class of service {entry.class_of_service} is not in 0..{_MAX_CLASS}")
        if entry.packet_length_bytes < 0:
            raise invalid(f"{what}: a packet length of {entry.packet_length_bytes} bytes")
    kept = type(entry)()
    kept.CopyFrom(entry)
    _normalise(kept.replicas, what)
    return partial(_put, store, entries, id_, kept, kind, what)


def _normalise(replicas: Iterable[p4r.Replica], what: str) -> None:
    """Check replicas and make their ports canonical."""
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
    """Hand an entry to the engine."""
    replicas = [
        (int.from_bytes(r.port, "big") if r.WhichOneof("port_kind") == "port" else r.egress_port, r.instance)
        for r in message.replicas
    ]
    if isinstance(message, p4r.MulticastGroupEntry):
        store.target.set_group(message.multicast_group_id, replicas)
    else:
        store.target.set_session(message.session_id, replicas, message.packet_length_bytes)


def install_all(store: EntityStore) -> None:
    """Give the engine what the store has and nothing else, when the store goes live."""
    store.target.clear_replication()
    for message in (*store.groups.values(), *store.sessions.values()):
        install(store, message)


def read(store: EntityStore, request: p4r.PacketReplicationEngineEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One entry (NOT_FOUND if there is none), all of a kind for id 0, or all of both kinds."""
    asked = request.WhichOneof("type")
    for field, (name, id_field, _) in _KINDS.items():
        if asked not in (None, field):
            continue
        entries, id_ = _entries(store, field), getattr(getattr(request, field), id_field)
        if id_ and id_ not in entries:
            raise NoSuchEntry(f"there is no {name} {id_}")
        for number in (id_,) if id_ else sorted(entries):
            entity = p4r.Entity()
            getattr(entity.packet_replication_engine_entry, field).CopyFrom(entries[number])
            yield entity
