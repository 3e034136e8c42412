# SPDX-License-Identifier: Apache-2.0
"""Multicast groups and clone sessions."""

from __future__ import annotations

from finsy.proto import p4r

from tests.ptf.p4rt import clone_session
from tests.unit.p4runtime.harness import Client, FakeNetwork, multicast, refusals

INVALID, NOT_FOUND, EXISTS, RANGE, UNIMPLEMENTED = 3, 5, 6, 11, 12


def test_multicast_groups(client: Client, network: FakeNetwork) -> None:
    one, two = multicast(1, (1, 0), (510, 7), metadata=b"m"), multicast(65535)
    client.insert(two, one)
    assert network.groups[1] == {1: [(1, 0), (510, 7)], 65535: []}
    assert client.read(multicast(0)) == [one, two]
    assert client.read(multicast(1)) == [one]
    client.modify(multicast(1, (3, 3)))
    client.delete(two)
    assert network.groups[1] == {1: [(3, 3)]}
    assert client.read(p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())) == [
        multicast(1, (3, 3))
    ]


def test_clone_sessions(client: Client, network: FakeNetwork) -> None:
    one = clone_session(1, (510, 0), length=128, cos=7)
    client.insert(one, clone_session(32767))
    assert network.sessions[1] == {1: ([(510, 0)], 128), 32767: ([], 0)}
    assert client.read(clone_session(0)) == [one, clone_session(32767)]
    client.modify(clone_session(1, (4, 4)))
    client.delete(clone_session(32767))
    assert network.sessions[1] == {1: ([(4, 4)], 0)}
    assert client.read(clone_session(1)) == [clone_session(1, (4, 4))]


def test_wrong_replication(client: Client, network: FakeNetwork) -> None:
    client.insert(multicast(1), clone_session(1))
    no_port = multicast(2)
    no_port.packet_replication_engine_entry.multicast_group_entry.replicas.add(instance=1)
    backup = multicast(2, (1, 1))
    replica = backup.packet_replication_engine_entry.multicast_group_entry.replicas[0]
    replica.backup_replicas.add(port=b"\x02")
    wrong = [
        (multicast(0), INVALID),
        (multicast(65536), INVALID),
        (multicast(1), EXISTS),
        (multicast(2, (512, 0)), RANGE),
        (multicast(2, (1, 65536)), INVALID),
        (multicast(2, (1, 1), (1, 1)), INVALID),
        (no_port, INVALID),
        (backup, UNIMPLEMENTED),
        (clone_session(0), INVALID),
        (clone_session(32768), INVALID),
        (clone_session(1), EXISTS),
        (clone_session(2, length=-1), INVALID),
        (clone_session(2, cos=8), INVALID),
        (clone_session(2, (512, 0)), INVALID),
        (p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()), INVALID),
    ]
    assert client.refusals(*(("INSERT", e) for e, _ in wrong)) == [code for _, code in wrong]
    missing = [multicast(9), clone_session(9)]
    assert client.refusals(*((k, e) for k in ("MODIFY", "DELETE") for e in missing)) == [NOT_FOUND] * 4
    assert refusals(lambda: client.read(*missing)) == [NOT_FOUND, NOT_FOUND]
    assert (network.groups[1], network.sessions[1]) == ({1: []}, {1: ([], 0)})
