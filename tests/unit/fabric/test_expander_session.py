# SPDX-License-Identifier: Apache-2.0
"""An FC+ network booted on each target: verified, and paths that go down and up again change their priority there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path as File

import networkx
import pytest
from scapy.layers.inet6 import IPv6
from scapy.utils import PcapNgReader

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.control import schema
from detour.control.entries import Action, DefaultAction, Entity, TableEntry
from detour.control.expander.routes import PathPolicy, compute
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.results import ReroutedSenders
from detour.fabric.operations.session import Session
from detour.fabric.traffic.expander import scheme_of
from detour.fabric.traffic.flows import Choice, PatternSink, PatternSource
from detour.hosts.verbs import Path
from detour.topo import parse_topology
from detour.topo.expander import fcplus
from detour.topo.expander.booted import expander_of
from detour.topo.paths import named_switches
from tests.unit.fabric.sessions import IN_REAL_TIME, TARGETS, on

NETWORK = fcplus(8, 4, 3, hosts=1, seed=1)


def turning_path() -> tuple[list[int], list[int]]:
    """The longest path of DF-KSP with two priorities that uses both."""
    routes = compute(NETWORK, PathPolicy(8, 2, max_hops=5))
    paths = [(switches, priorities) for _, _, switches, priorities in routes if priorities[-1] == 1]
    return max(paths, key=lambda path: (len(path[0]), path))


def dscps_on(folder: File, switch: int, neighbour: int) -> list[int]:
    """DSCPs of the packets with uSID lists on the link from a switch to a neighbour."""
    ports = NETWORK.topology.switches[switch].ports
    port = next(n for n, peer in enumerate(ports, 1) if peer and peer.kind != "host" and peer.index == neighbour)
    own = NETWORK.topology.switches[neighbour].node_id
    with PcapNgReader(str(folder / f"s{switch}-{port}.pcapng")) as packets:
        headers = [p[IPv6] for p in packets if IPv6 in p and p[IPv6].dst.startswith(f"fcbb:bb00:{own:x}:")]
    return [packet.tc >> 2 for packet in headers]


@pytest.mark.parametrize("target", IN_REAL_TIME)
def test_a_path_that_turns_changes_its_priority_there(target: str, tmp_path: File) -> None:
    switches, priorities = turning_path()
    assert set(priorities) == {0, 1}
    with boot(UpOptions(target, NETWORK.spec, pcap=str(tmp_path))) as session:
        assert session.verify().verified
        usid = ",".join(f"s{switch}" for switch in switches[1:])
        result = session.send(f"h{switches[0]}", f"h{switches[-1]}", 3000, usid=usid)
        assert result.bytes_ok == 3000
        assert result.paths[0].switches == [f"s{switch}" for switch in switches]
    for (here, there), priority in zip(pairwise(switches), priorities, strict=True):
        seen = dscps_on(tmp_path, here, there)
        assert len(seen) >= 3
        assert set(seen) == {priority}, f"s{here} to s{there}"


# -- what is proven of what switches hold -----------------------------------------------------------------


@pytest.fixture(scope="module", params=IN_REAL_TIME)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with boot(UpOptions(request.param, NETWORK.spec)) as running:
        yield running


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
    proof = session.prove(8)
    assert proof.deadlock_free
    assert (proof.topology, proof.switches, proof.lossless) == (NETWORK.spec, 8, [0, 1])
    assert proof.entries == sum(map(len, held(session).values()))
    assert proof.failed.dependencies > proof.plain_traffic.dependencies >= proof.installed.dependencies > 0
    assert (proof.failed.links, proof.failed.unrouted, proof.senders.lists) == ([], 0, 0)
    assert "cycle" not in json.loads(json.dumps(as_json(proof)))


def test_a_wrong_entry_is_seen_and_its_circle_named(session: Session) -> None:
    device, right, wrong = closing(session)
    session.control.rewrite({device: [right]}, {device: [wrong]})
    try:
        proof = session.prove(8)
        assert not proof.deadlock_free
        assert proof.installed.acyclic  # listed routes never go back
        assert not proof.failed.acyclic
        circle = proof.cycle
        assert isinstance(circle, list)
        ends = [name.split(" in ")[0].split(">") for name in circle]
        assert all(a[1] == b[0] for a, b in zip(ends, [*ends[1:], ends[0]], strict=True))
        assert {name.split(" in ")[1] for name in circle} == {"1"}
        assert f"s{device - 1}" in {name for pair in ends for name in pair}
    finally:
        session.provision()
    assert session.prove(8).deadlock_free


def test_a_wrong_default_is_seen(session: Session) -> None:
    """Whoever lets all other packets into a lossless class lets plain ones close a cycle there."""
    before = {switch.device_id: [] for switch in session.topology.switches}
    wrong = DefaultAction(schema.DSCP, Action.of(schema.SET_PRIORITY, priority=0))
    session.control.rewrite(before, {device: [wrong] for device in before})  # type: ignore[arg-type]
    try:
        proof = session.prove(8)
        assert proof.installed.acyclic
        assert not proof.failed.acyclic
        assert proof.cycle
    finally:
        session.provision()
    assert session.prove(8).deadlock_free


def test_what_is_down_counts(session: Session) -> None:
    link = next(link.name for link in session.topology.links if link.kind != "host")
    session.fail(link)
    session.fail("s3")
    try:
        proof = session.prove(8)
        assert proof.deadlock_free
        assert link in proof.failed.links
        assert len(proof.failed.links) == 5 - (link.split("-")[0] == "s3" or link.split("-")[1] == "s3")
        assert proof.failed.unrouted >= 2 * 7
        assert proof.switches == 7
    finally:
        session.heal()


def test_only_expanders_are_proven() -> None:
    with (
        on("engine", "leaf-spine:leaves=2,spines=2,hosts=1") as running,
        pytest.raises(DetourError, match="is not an expander"),
    ):
        running.prove()


@pytest.mark.parametrize("spec", ["jellyfish:n=8,s=4,hosts=1", "equal-cost-clos:servers=8,switches=4,p=6"])
def test_other_expanders_hold_the_same_proof(spec: str) -> None:
    with on("engine", parse_topology(spec).spec) as running:
        assert running.verify().verified
        assert running.prove(4).deadlock_free


# -- senders whose list has lost a link -------------------------------------------------------------------


class Sending:
    """Messages on given lists, which `done` finishes."""

    def __init__(self, session: Session, lists: list[tuple[int, ...]], length: int) -> None:
        self.session, self.length, self.flows = session, length, []
        for seed, switches in enumerate(lists):
            hosts = session.topology.hosts
            usids = (*(x + 1 for x in switches[1:]), hosts[switches[-1]].node_id)
            stream = PatternSource(seed, length), PatternSink(seed)
            choice = Choice((Path(0, usids),))
            flow = session.pump.open(switches[0], switches[-1], choice, stream, slot_bytes=8_000)
            self.flows.append(flow)
            session.live.open(flow)

    def some(self) -> None:
        """Until half of it has arrived."""
        enough = sum(flow.bytes_ok for flow in self.flows) + self.length * len(self.flows) // 8
        self.session.pump.run(self.flows, lambda: sum(flow.bytes_ok for flow in self.flows) >= enough)

    def lists(self) -> list[tuple[int, ...] | None]:
        hosts = self.session.topology.hosts
        paths = [flow.paths[0] for flow in self.flows]
        return [
            named_switches(self.session.topology, hosts[flow.source_host], path.usids) if path.usids else None
            for flow, path in zip(self.flows, paths, strict=True)
        ]

    def done(self) -> None:
        """All arrives as it was sent."""
        self.session.pump.run(self.flows)
        ends = [(flow.failure, flow.bytes_ok, flow.bytes_wrong) for flow in self.flows]
        for live in self.session.live.all():
            self.session.live.close(live.name)
        for flow in self.flows:
            self.session.pump.close_flow(flow)
        assert ends == [(None, self.length, 0)] * len(self.flows)


@pytest.fixture(params=TARGETS)
def sending_session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with on(request.param, NETWORK.spec, scheme_of("2L", 2)) as running:
        yield running


def through(lists: Sequence[Sequence[int] | None], link: Sequence[int]) -> list[int]:
    """Which of the lists use a link, in whatever direction."""
    return [i for i, switches in enumerate(lists) if switches and set(link) in map(set, pairwise(switches))]


def test_senders_avoid_what_fails_and_return(sending_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session = sending_session
    routes = compute(NETWORK, PathPolicy(2, 2, max_hops=5))
    own = [tuple(switches) for source, _, switches, _ in routes if source < 3]
    sending = Sending(session, own, 24_000 if session.fabric.target == "bmv2" else 160_000)
    steps: list[bool] = []
    reroute = session.live.reroute

    def proven(name: str, path: Path) -> None:
        reroute(name, path)
        if len(steps) < 6:  # each takes a while
            steps.append(session.prove(4).deadlock_free)

    monkeypatch.setattr(session.live, "reroute", proven)
    sending.some()
    first, second = (0, own[0][1]), own[-1][-2:]
    failed = session.fail(f"s{first[0]}-s{first[1]}")
    hit = through(own, first)
    assert hit
    assert isinstance(failed.senders, ReroutedSenders)
    assert failed.senders == ReroutedSenders(moved=len(hit), returned=0, by_address=0)
    now = sending.lists()
    assert [i for i in range(len(own)) if now[i] != own[i]] == hit
    assert not through(now, first)
    assert session.prove(4).senders.lists == len(own)
    sending.some()
    session.fail(f"s{second[0]}-s{second[1]}")
    now = sending.lists()
    assert not through(now, first)
    assert not through(now, second)
    kept = len(through(own, second))
    healed = session.heal(f"s{first[0]}-s{first[1]}")
    assert isinstance(healed.senders, ReroutedSenders)
    assert healed.senders.returned == len([i for i in hit if i not in through(own, second)])
    assert not through(sending.lists(), second)
    sending.some()
    session.heal()
    assert sending.lists() == own
    assert kept
    assert steps
    assert all(steps)
    sending.done()


def test_senders_in_a_network_from_a_file_avoid_what_fails_and_return(tmp_path: File) -> None:
    graph = networkx.random_regular_graph(4, 9, seed=2)
    networkx.write_edgelist(graph, tmp_path / "net.edges", data=False)
    with boot(UpOptions("engine", f"graph:{tmp_path}/net.edges,grown=1")) as session:
        network = expander_of(session.topology)
        assert network.size == 10
        routes = compute(network, PathPolicy(1, 2, max_hops=5))
        own = [tuple(switches) for source, _, switches, _ in routes if source in (0, 9)]
        sending = Sending(session, own, 40_000)
        sending.some()
        link = own[0][:2]
        hit = through(own, link)
        failed = session.fail(f"s{min(link)}-s{max(link)}")
        assert failed.senders == ReroutedSenders(moved=len(hit), returned=0, by_address=0)
        now = sending.lists()
        assert [i for i in range(len(own)) if now[i] != own[i]] == hit
        assert not through(now, link)
        proof = session.prove(4)
        assert proof.deadlock_free
        assert proof.senders.lists == len(own)
        healed = session.heal()
        assert healed.senders == ReroutedSenders(moved=0, returned=len(hit), by_address=0)
        assert sending.lists() == own
        sending.done()


def test_who_begins_while_a_link_is_down_avoids_it_as_well(session: Session) -> None:
    routes = compute(NETWORK, PathPolicy(1, 2, max_hops=5))
    own = next(tuple(switches) for source, _, switches, _ in routes if source == 0 and len(switches) == 2)
    link = f"s{own[0]}-s{own[1]}"
    session.fail(link)
    try:
        usid = ",".join(f"s{x}" for x in own[1:])
        sent = session.send(f"h{own[0]}", f"h{own[1]}", 5_000, usid=usid)
        assert sent.bytes_ok == 5_000
        used = sent.paths[-1]
        assert used.path.startswith("usid:")
        assert not through([tuple(int(name[1:]) for name in used.switches)], own)
    finally:
        session.heal()


def test_whom_no_list_helps_sends_by_address_until_one_does(session: Session) -> None:
    own = next((0, peer.index) for peer in session.topology.switches[0].ports if peer and peer.kind != "host")
    sending = Sending(session, [own], 40_000)
    sending.some()
    cut = [f"s{a}-s{b}" for a, b in all_links(session) if own[1] in (a, b)]
    rerouted = [session.fail(name).senders for name in cut]
    assert sending.lists() == [None]
    assert isinstance(rerouted[-1], ReroutedSenders)
    assert sum(senders.by_address for senders in rerouted if isinstance(senders, ReroutedSenders)) == 1
    back = session.heal(cut[-1]).senders
    assert isinstance(back, ReroutedSenders)
    assert back.moved + back.returned == 1
    session.heal()
    assert sending.lists() == [own]
    sending.done()


def all_links(session: Session) -> list[tuple[int, int]]:
    return [(link.a[0], link.b[0]) for link in session.topology.links if link.kind != "host"]


def test_who_was_rerouted_by_hand_stays_there(session: Session) -> None:
    routes = compute(NETWORK, PathPolicy(8, 2, max_hops=5))
    paths = [tuple(switches) for a, b, switches, _ in routes if (a, b) == (0, 5)]
    own, chosen = paths[0], next(path for path in paths if not through([path], paths[0][:2]))
    sending = Sending(session, [own], 40_000)
    sending.some()
    session.fail(f"s{own[0]}-s{own[1]}")
    assert sending.lists() != [own]
    session.reroute("h0-h5", ",".join(f"s{x}" for x in chosen[1:]))
    session.heal()
    assert sending.lists() == [chosen]
    sending.done()


# -- networks from files ------------------------------------------------------------------------------------


def test_a_network_from_a_file_is_booted(tmp_path: File) -> None:
    path = tmp_path / "house.edges"
    path.write_text("a b\nb c {'speed': 2}\nc d\nd e\ne a {'delay_us': 50}\na c\n")
    with on("engine", f"graph:{path}") as session:
        assert session.verify().verified
        assert session.send("h0", "h3", 3000).bytes_ok == 3000
        assert session.send("h1", "h4", 3000, usid="s2,s3,s4").paths[0].switches == ["b", "c", "d", "e"]


def test_a_table_of_links_is_booted(tmp_path: File) -> None:
    """The links between switches are faster and longer than those of hosts."""
    path = tmp_path / "net.csv"
    path.write_text("a,b,gbps,delay_ns\nh0,s0,100,\nh1,s2,100,\ns0,s1,400,500\ns1,s2,400,\ns0,s3,,\ns3,s2,,\n")
    with on("engine", str(path)) as session:
        assert session.verify().verified
        assert session.send("h0", "h1", 3000).bytes_ok == 3000
        assert session.topology.spec.startswith(f"{path}#")
