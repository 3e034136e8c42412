# SPDX-License-Identifier: Apache-2.0
"""Multicast groups and clone sessions (section 9.5), and externs (9.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finsy.proto import p4r

from detour.conformance.steps import *

_MULTICAST, _CLONE = sample.multicast(), sample.clone()


def _round_trip(entity: Recipe, back: Recipe | None = None) -> CheckStep:
    return stores(entity.insert, back or entity, request=entity.every)


def _many(message: Any) -> None:
    message.replicas.extend(p4r.Replica(port=b"\3", instance=100 + i) for i in range(64))


def _backup(port: bytes, instance: int) -> Recipe:
    backups = p4r.BackupReplica(port=port, instance=instance)
    return _MULTICAST.but("replicas[0].backup_replicas", [backups])


def _table_of(section: str, one: Recipe) -> Iterator[tuple[Any, ...]]:
    for name, text, changed in (
        ("instance_0", "instance 0 is allowed", one.but("replicas[0].instance", 0)),
        ("no_replicas", "without replicas it is accepted", one.but("replicas", None)),
        ("many_replicas", "64 replicas are accepted", one.altered(_many)),
    ):
        yield name, section, f"{text} and read back", _round_trip(changed)
    for name, text, sent, back in (
        ("port", "a port of one byte is read back", b"\7", b"\7"),
        ("port_padded", "a padded port is read back in its shortest form", b"\0\0\7", b"\7"),
        ("port_wide", "a port of nine bits is read back", b"\1\1", b"\1\1"),
    ):
        yield name, "8.3", text, _round_trip(one.but("replicas[0].port", sent), one.but("replicas[0].port", back))
    for update in ("INSERT", "MODIFY"):
        for name, text, changed in (
            ("instance_too_large", "an instance above what the target has",
             one.but("replicas[0].instance", 0xFFFFFFFF)),
            ("duplicate", "the same port and instance twice", one.altered(lambda m: m.replicas.append(m.replicas[0]))),
            ("no_port", "a replica without port", one.but("replicas[0].port", None)),
        ):  # fmt: skip
            before = [prepare(one)] if update == "MODIFY" else []
            yield (f"{update.lower()}_{name}", section, f"{update} with {text} is INVALID_ARGUMENT", *before,
                   refuse(INVALID_ARGUMENT, changed.update(update)))  # fmt: skip
    yield ("read_ignores", section, "a read considers the id only", prepare(one),
           holds(one.but("replicas", [p4r.Replica(port=b"\x09", instance=9)]), one))  # fmt: skip


_UNSET = p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())
_NO_EXTERN = p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=0x81, extern_id=NO_ID))
checks = [
    *rows("multicast", *_table_of("9.5.1", _MULTICAST),
        ("metadata", "9.5.1", "metadata is returned as it was written",
         _round_trip(_MULTICAST.but("metadata", b"\0 opaque \xff"))),
        ("backup", "9.5.1", "backup replicas are read back in their order, or UNIMPLEMENTED",
         _round_trip(_backup(b"\5", 5))),
        ("same_backup", "9.5.1", "a backup with the port of its replica is INVALID_ARGUMENT, or UNIMPLEMENTED",
         refuse(INVALID_ARGUMENT, _backup(b"\1", 77).insert)), title="multicast: ",
    ),
    *rows("clone", *_table_of("9.5.2", _CLONE),
        ("length", "9.5.2", "packet_length_bytes is read back", _round_trip(_CLONE.but("packet_length_bytes", 100))),
        ("class", "9.5.2", "class_of_service is read back", _round_trip(_CLONE.but("class_of_service", 2))),
        ("length_negative", "9.5.2", "a negative packet_length_bytes is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, _CLONE.but("packet_length_bytes", -1).insert)), title="clone: ",
    ),
    *rows("pre",
        ("unset", "12", "a packet replication entry in which nothing is set is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, p4r.Update(type=p4r.Update.INSERT, entity=_UNSET))),
        ("ids", "9.5", "the same number may be a multicast group and a clone session",
         prepare(_MULTICAST), _round_trip(_CLONE)),
    ),
    *rows("extern",
        ("unknown", "9.9", "an extern that P4Info does not have is refused",
         refuse(WRONG_ID, Recipe(lambda _: _NO_EXTERN).insert)),
    ),
]  # fmt: skip
