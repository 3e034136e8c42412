# SPDX-License-Identifier: Apache-2.0
"""An FC+ network booted on each target: verified, and paths that go down and up again change their priority there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from scapy.layers.inet6 import IPv6
from scapy.utils import PcapNgReader

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.control import schema
from detour.control.entries import Action, DefaultAction, Entity, TableEntry
from detour.control.expander.routes import PathPolicy, compute
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from detour.topo import parse_topology
from detour.topo.expander import fcplus

NETWORK = fcplus(8, 4, 3, hosts=1, seed=1)


def turning_path() -> tuple[list[int], list[int]]:
    """The longest path of DF-KSP with two priorities that uses both."""
    routes = compute(NETWORK, PathPolicy(8, 2, max_hops=5))
    paths = [(switches, priorities) for _, _, switches, priorities in routes if priorities[-1] == 1]
    return max(paths, key=lambda path: (len(path[0]), path))


def dscps_on(folder: Path, switch: int, neighbour: int) -> list[int]:
    """DSCPs of the packets with uSID lists on the link from a switch to a neighbour."""
    ports = NETWORK.topology.switches[switch].ports
    port = next(n for n, peer in enumerate(ports, 1) if peer and peer.kind != "host" and peer.index == neighbour)
    own = NETWORK.topology.switches[neighbour].node_id
    with PcapNgReader(str(folder / f"s{switch}-{port}.pcapng")) as packets:
        found = [p[IPv6] for p in packets if IPv6 in p and p[IPv6].dst.startswith(f"fcbb:bb00:{own:x}:")]
    return [packet.tc >> 2 for packet in found]


@pytest.mark.parametrize("target", ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def test_a_path_that_turns_changes_its_priority_there(target: str, tmp_path: Path) -> None:
    switches, priorities = turning_path()
    assert set(priorities) == {0, 1}
    session = boot(UpOptions(target, NETWORK.spec, pcap=str(tmp_path)))
    try:
        assert session.verify().verified
        usid = ",".join(f"s{switch}" for switch in switches[1:])
        result = session.send(f"h{switches[0]}", f"h{switches[-1]}", 3000, usid=usid)
        assert result.bytes_ok == 3000
        assert result.paths[0].switches == [f"s{switch}" for switch in switches]
    finally:
        session.close()
    for (here, there), priority in zip(pairwise(switches), priorities, strict=True):
        seen = dscps_on(tmp_path, here, there)
        assert len(seen) >= 3
        assert set(seen) == {priority}, f"s{here} to s{there}"


# -- what is proven of what switches hold -----------------------------------------------------------------


@pytest.fixture(scope="module", params=["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    running = boot(UpOptions(request.param, NETWORK.spec))
    yield running
    running.close()


@contextmanager
def boot_of(spec: str) -> Iterator[Session]:
    running = boot(UpOptions("engine", parse_topology(spec).spec))
    try:
        yield running
    finally:
        running.close()


def held(session: Session) -> dict[int, list[Entity]]:
    return {device: list(entities) for device, entities in session.control.read().items()}


def closing(session: Session) -> tuple[int, TableEntry, TableEntry]:
    """(switch, entry, a wrong one in its place): where packets leave the last lossless class they would stay in it."""
    topology = session.topology
    for device, entities in held(session).items():
        for entry in entities:
            if isinstance(entry, TableEntry) and entry.table == schema.CHANNEL and entry.members()[0]["dscp"] == 2:
                into, out = (entry.field(name).value for name in (schema.IN_PORT, schema.EGRESS_SPEC_FIELD))  # type: ignore[union-attr]
                ports = topology.switches[device - 1].ports
                if into == out and ports[into - 1] is not None:  # back where it came from: two switches suffice
                    stay = Action.of(schema.SET_CHANNEL, dscp=1, priority=1)
                    return device, entry, TableEntry(entry.table, entry.match, stay, entry.priority)
    raise AssertionError("no such entry")


def test_a_fabric_that_runs_is_proven_from_what_it_holds(session: Session) -> None:
    found = session.prove(8)
    assert found.deadlock_free
    assert (found.topology, found.switches, found.lossless) == (NETWORK.spec, 8, [0, 1])
    assert found.entries == sum(map(len, held(session).values()))
    assert found.failed.dependencies > found.plain_traffic.dependencies >= found.installed.dependencies > 0
    assert (found.failed.links, found.failed.unrouted, found.senders.lists) == ([], 0, 0)
    assert "cycle" not in json.loads(json.dumps(as_json(found)))


def test_a_wrong_entry_is_seen_and_its_circle_named(session: Session) -> None:
    device, right, wrong = closing(session)
    session.control.rewrite({device: [right]}, {device: [wrong]})
    try:
        found = session.prove(8)
        assert not found.deadlock_free
        assert found.installed.acyclic  # listed routes never go back
        assert not found.failed.acyclic
        circle = found.cycle
        assert isinstance(circle, list)
        ends = [name.split(" in ")[0].split(">") for name in circle]
        assert all(a[1] == b[0] for a, b in zip(ends, [*ends[1:], ends[0]], strict=True))
        assert {name.split(" in ")[1] for name in circle} == {"1"}
        assert f"s{device - 1}" in {name for pair in ends for name in pair}
    finally:
        session.provision()
    assert session.prove(8).deadlock_free


def test_a_wrong_default_is_seen(session: Session) -> None:
    """Whoever lets all other packets into a lossless class lets plain ones close a circle there."""
    before = {switch.device_id: [] for switch in session.topology.switches}
    wrong = DefaultAction(schema.DSCP, Action.of(schema.SET_PRIORITY, priority=0))
    session.control.rewrite(before, {device: [wrong] for device in before})  # type: ignore[arg-type]
    try:
        found = session.prove(8)
        assert found.installed.acyclic
        assert not found.failed.acyclic
        assert found.cycle
    finally:
        session.provision()
    assert session.prove(8).deadlock_free


def test_what_is_down_counts(session: Session) -> None:
    link = next(link.name for link in session.topology.links if link.kind != "host")
    session.fail(link)
    session.fail("s3")
    try:
        found = session.prove(8)
        assert found.deadlock_free
        assert link in found.failed.links
        assert len(found.failed.links) == 5 - (link.split("-")[0] == "s3" or link.split("-")[1] == "s3")
        assert found.failed.unrouted >= 2 * 7
        assert found.switches == 7
    finally:
        session.heal()


def test_only_expanders_are_proven() -> None:
    with boot_of("leaf-spine:leaves=2,spines=2,hosts=1") as running, pytest.raises(DetourError, match="is no expander"):
        running.prove()


@pytest.mark.parametrize("spec", ["jellyfish:n=8,s=4,hosts=1", "equal-cost-clos:servers=8,switches=4,p=6"])
def test_other_expanders_hold_the_same_proof(spec: str) -> None:
    with boot_of(spec) as running:
        assert running.verify().verified
        assert running.prove(4).deadlock_free
