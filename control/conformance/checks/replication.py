# SPDX-License-Identifier: Apache-2.0
"""Multicast groups and clone sessions (section 9.5), and externs (9.9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from finsy.proto import p4r

from detour.control.conformance.checks.entities import inner
from detour.control.conformance.link import Canonical
from detour.control.conformance.model import add, check
from detour.control.conformance.samples import NO_ID
from detour.control.conformance.session import CheckSession, insert, modify

_INVALID = Canonical.INVALID_ARGUMENT


def _make(session: CheckSession, kind: str) -> p4r.Entity:
    return getattr(session.samples, kind)()


def _wide(kind: str) -> p4r.Entity:
    entity = p4r.Entity()
    name = "multicast_group_entry" if kind == "multicast" else "clone_session_entry"
    getattr(entity.packet_replication_engine_entry, name).SetInParent()
    return entity


def _round_trip(kind: str, change: Callable[[Any], object], session: CheckSession) -> None:
    entity = _make(session, kind)
    change(inner(entity))
    session.accept(insert(entity))
    session.holds(_wide(kind), entity)


def _refused(kind: str, update: Callable[[p4r.Entity], p4r.Update], change: Callable[[Any], object],
             session: CheckSession) -> None:  # fmt: skip
    entity = _make(session, kind)
    if update is modify:
        session.prepare(entity)
    change(inner(entity))
    session.refuse(_INVALID, update(entity))


def _port(port: bytes, as_read: bytes, session: CheckSession, kind: str) -> None:
    sent, expected = _make(session, kind), _make(session, kind)
    inner(sent).replicas[0].port, inner(expected).replicas[0].port = port, as_read
    session.accept(insert(sent))
    session.holds(_wide(kind), expected)


def _add_backup(group: Any) -> None:
    group.replicas[0].backup_replicas.add(port=b"\5", instance=5)


def _same_backup(group: Any) -> None:
    group.replicas[0].backup_replicas.add(port=group.replicas[0].port, instance=77)


for _kind, _section in (("multicast", "9.5.1"), ("clone", "9.5.2")):
    for _name, _text, _change in (
        ("instance_0", "instance 0 is allowed", lambda m: setattr(m.replicas[0], "instance", 0)),
        ("no_replicas", "without replicas it is accepted", lambda m: m.ClearField("replicas")),
        (
            "many_replicas",
            "64 replicas are accepted",
            lambda m: m.replicas.extend(p4r.Replica(port=b"\3", instance=100 + i) for i in range(64)),
        ),
    ):
        add(f"{_kind}.{_name}", _section, f"{_kind}: {_text} and read back", partial(_round_trip, _kind, _change))
    for _name, _text, _sent, _back in (
        ("port", "a port of one byte is read back", b"\7", b"\7"),
        ("port_padded", "a padded port is read back in its shortest form", b"\0\0\7", b"\7"),
        ("port_wide", "a port of nine bits is read back", b"\1\1", b"\1\1"),
    ):
        add(f"{_kind}.{_name}", "8.3", f"{_kind}: {_text}", partial(_port, _sent, _back, kind=_kind))
    for _word, _update in (("insert", insert), ("modify", modify)):
        add(
            f"{_kind}.{_word}_instance_too_large",
            _section,
            f"{_kind}: {_word.upper()} with an instance above what the target has is INVALID_ARGUMENT",
            partial(_refused, _kind, _update, lambda m: setattr(m.replicas[0], "instance", 0xFFFFFFFF)),
        )
        add(
            f"{_kind}.{_word}_duplicate",
            _section,
            f"{_kind}: {_word.upper()} with the same port and instance twice is INVALID_ARGUMENT",
            partial(_refused, _kind, _update, lambda m: m.replicas.append(m.replicas[0])),
        )
        add(f"{_kind}.{_word}_no_port", _section,
            f"{_kind}: {_word.upper()} with a replica without port is INVALID_ARGUMENT",
            partial(_refused, _kind, _update, lambda m: m.replicas[0].ClearField("port")))  # fmt: skip

add("multicast.metadata", "9.5.1", "multicast: metadata is returned as it was written",
    partial(_round_trip, "multicast", lambda m: setattr(m, "metadata", b"\0 opaque \xff")))  # fmt: skip
add("multicast.backup", "9.5.1", "multicast: backup replicas are read back in their order, or UNIMPLEMENTED",
    partial(_round_trip, "multicast", _add_backup))  # fmt: skip
add("multicast.same_backup", "9.5.1", "multicast: a backup with the port of its replica is INVALID_ARGUMENT, or "
    "UNIMPLEMENTED", partial(_refused, "multicast", insert, _same_backup))  # fmt: skip
add("clone.length", "9.5.2", "clone: packet_length_bytes is read back",
    partial(_round_trip, "clone", lambda m: setattr(m, "packet_length_bytes", 100)))  # fmt: skip
add("clone.class", "9.5.2", "clone: class_of_service is read back",
    partial(_round_trip, "clone", lambda m: setattr(m, "class_of_service", 2)))  # fmt: skip
add("clone.length_negative", "9.5.2", "clone: a negative packet_length_bytes is INVALID_ARGUMENT",
    partial(_refused, "clone", insert, lambda m: setattr(m, "packet_length_bytes", -1)))  # fmt: skip


def _ignores(kind: str, session: CheckSession) -> None:
    entity = _make(session, kind)
    session.prepare(entity)
    request = _make(session, kind)
    del inner(request).replicas[:]
    inner(request).replicas.add(port=b"\x09", instance=9)
    session.holds(request, entity)


add("multicast.read_ignores", "9.5.1", "multicast: a read considers the id only", partial(_ignores, "multicast"))
add("clone.read_ignores", "9.5.2", "clone: a read considers the id only", partial(_ignores, "clone"))


@check("pre.unset", "12", "a packet replication entry in which nothing is set is INVALID_ARGUMENT")
def _pre_unset(session: CheckSession) -> None:
    entity = p4r.Entity()
    entity.packet_replication_engine_entry.SetInParent()
    session.refuse(_INVALID, insert(entity))


@check("pre.ids", "9.5", "the same number may be a multicast group and a clone session")
def _pre_ids(session: CheckSession) -> None:
    session.prepare(_make(session, "multicast"))
    session.accept(insert(_make(session, "clone")))
    session.holds(_wide("clone"), _make(session, "clone"))


@check("extern.unknown", "9.9", "an extern that P4Info does not have is refused")
def _extern(session: CheckSession) -> None:
    session.refuse((_INVALID, Canonical.NOT_FOUND),
                   insert(p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=0x81, extern_id=NO_ID))))  # fmt: skip
