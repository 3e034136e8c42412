# SPDX-License-Identifier: Apache-2.0
"""Plans for adaptive.p4 and for virtual channels."""

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, DefaultAction, Entity, Plan, TableEntry, Ternary
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.control.routes.adaptive import group_links
from detour.control.routings import routing as chosen
from detour.control.verifier.trace import Trace, Tracer
from detour.control.verifier.verifier import verify
from detour.topo import parse_failure, parse_topology

D1 = parse_topology("d1")
UGAL = Policy(routing=chosen("adaptive:threshold=7"), channels=3)
PLAN = plan(D1, UGAL)
UGAL_ROUTINGS = ("ugal-local", "ugal-global")


def down(*names: str):
    return frozenset(parse_failure(D1, name) for name in names)


def entries(entities: list[Entity], table: str) -> list[TableEntry]:
    return [e for e in entities if isinstance(e, TableEntry) and e.table == table]


def default(entities: list[Entity]) -> Action:
    (action,) = [e.action for e in entities if isinstance(e, DefaultAction) and e.table == schema.MODE]
    return action


@pytest.mark.parametrize("text", ["d1", "d2", "dragonfly:p=2,a=3,h=2,wiring=consecutive"])
def test_group_links_are_one_to_every_other_group(text):
    topology = parse_topology(text)
    for group in range(topology.groups):
        links = group_links(topology, group)
        assert list(links) == [other for other in range(topology.groups) if other != group]
        for other, (device, port) in links.items():
            switch = topology.switches[device - 1]
            peer = switch.peer(port)
            assert switch.group == group
            assert peer is not None
            assert peer.kind == "global"
            assert topology.switches[peer.index].group == other


def test_a_failed_link_is_no_group_link():
    assert 8 not in group_links(D1, 0, down("s0-s35"))
    assert 0 not in group_links(D1, 8, down("s0-s35"))


def test_parallel_links_have_no_single_load():
    topology = parse_topology("dragonfly:p=1,a=4,h=2,g=5")
    with pytest.raises(DetourError, match="more than one link; g = a\\*h \\+ 1 groups are required"):
        group_links(topology, 0)
    with pytest.raises(DetourError, match="more than one link"):
        plan(topology, Policy(routing=chosen("adaptive")))
    assert verify(plan(topology, Policy(routing=chosen("minimal"), channels=2)), topology).ok


def test_what_a_switch_decides():
    assert default(PLAN[1]) == Action.of(schema.UGAL, usable=0b111111110, t=7)
    assert default(PLAN[6]) == Action.of(schema.UGAL, usable=0b111111101, t=7)
    assert not entries(PLAN[1], schema.MODE)
    assert {e.field(schema.IN_PORT) for e in entries(PLAN[1], schema.HOST_PORTS)} == {1, 2}
    assert {e.field(schema.VIA) for e in entries(PLAN[1], schema.TOWARDS_GROUP)} == set(range(1, 9))
    assert not entries(PLAN[1], schema.DETOUR)
    random = plan(D1, Policy(routing=chosen("random")))[1]
    assert default(random) == Action.of(schema.RANDOM_GROUP, usable=0b111111110)
    minimal = plan(D1, Policy(routing=chosen("minimal")))[1]
    assert default(minimal) == Action(schema.MINIMAL)
    assert not entries(minimal, schema.TOWARDS_GROUP)


def test_failed_links_are_no_candidates():
    planned = plan(D1, UGAL, down("s0-s35"))
    assert default(planned[1])["usable"] == 0b011111110
    # Group 1 may go by way of 0 and 8, but not from one to the other.
    usable = {e.field(schema.DESTINATION_GROUP): e.members()[0]["usable"] for e in entries(planned[6], schema.MODE)}
    assert default(planned[6])["usable"] == 0b111111101
    assert usable == {0: 0b011111101, 8: 0b111111100}


def test_what_a_switch_with_ugal_looks_at():
    local, wide = (
        plan(D1, Policy(routing=chosen(f"{routing}:threshold=4"), channels=3))[1] for routing in UGAL_ROUTINGS
    )
    assert default(local) == Action.of(schema.UGAL_LOCAL, usable=0b111111110, t=4)
    assert default(wide) == Action.of(schema.UGAL_GLOBAL, usable=0b111111110, t=4)
    for table, field in ((schema.SHORTEST_LOAD, schema.DESTINATION_GROUP), (schema.DETOUR_LOAD, schema.VIA)):
        ports = {entry.field(field): entry.members()[0]["port"] for entry in entries(local, table)}
        assert set(ports) == set(range(1, 9))
        for via, port in ports.items():
            (towards,) = [e for e in entries(local, schema.TOWARDS_GROUP) if e.field(schema.VIA) == via]
            assert port in [member["port"] for member in towards.members()], "the port that the packet would take"
        assert not entries(wide, table)


@pytest.mark.parametrize("names", [(), ("s0-s35",), ("s5",), ("s0-s1",), ("h7",), ("s0:6", "s0:7", "s1:6", "s2")])
@pytest.mark.parametrize("routing", ["adaptive", "minimal", "random", "ugal-local", "ugal-global"])
def test_all_decisions_lead_to_the_right_host(names, routing):
    failures = down(*names)
    report = verify(plan(D1, Policy(routing=chosen(routing)), failures), D1, failures)
    assert report.ok, report.problems
    inside, outside = 72 * 7, 72 * 64
    if not names:
        assert report.paths == 72 * 71 + inside + 7 * outside
        assert report.longest == (4, 4 if routing == "minimal" else 6)


def next_channels(planned: Plan) -> dict[tuple[int, int, int], int]:
    """The virtual channel that packets leave a switch in, by (switch, port that they come in by, channel), from the
    entries."""
    following: dict[tuple[int, int, int], int] = {}
    for device, entities in planned.items():
        for entry in entries(entities, schema.CHANNEL):
            into, dscp = entry.field(schema.IN_PORT), entry.field(schema.DSCP_FIELD)
            assert isinstance(into, Ternary)
            assert into.mask == schema.PORT_MASK
            assert isinstance(dscp, int)
            (member,) = entry.members()
            assert member["priority"] == member["dscp"]
            assert following.setdefault((device - 1, into.value, dscp), member["dscp"]) == member["dscp"]
    return following


def channels_of(following: dict[tuple[int, int, int], int], trace: Trace) -> list[int]:
    """The virtual channel that the packet leaves each switch in."""
    levels = [0]
    for hop in trace.hops:
        levels.append(following.get((hop.switch, hop.in_port, levels[-1]), levels[-1]))
    return levels[1:]


@pytest.mark.parametrize(("routing", "channels"), [("adaptive", 3), ("random", 3), ("minimal", 2), ("ugal-local", 3)])
def test_no_cycle_of_channels(routing, channels):
    """The channel dependency graph of all ways, one node a (switch, port, channel), has no cycle."""
    planned = plan(D1, Policy(routing=chosen(routing), channels=channels))
    tracer, following = Tracer(planned, D1), next_channels(planned)
    after: dict[tuple[int, int, int], set[tuple[int, int, int]]] = {}
    most = 0
    heads = [hosts[0] for hosts in D1.hosts_of]
    for source in heads:
        for target in heads:
            if source == target:
                continue
            vias = [g for g in range(9) if g not in (source.group, target.group) and source.group != target.group]
            for via in [None, *(vias if routing != "minimal" else ())]:
                trace = tracer.trace(source, target, via=via)
                assert trace.delivered, trace.outcome
                groups = [D1.switches[s].group for s in trace.switches]
                assert via is None or via in groups
                levels = channels_of(following, trace)
                most = max(most, *levels)
                nodes = [(h.switch, h.out_port or 0, v) for h, v in zip(trace.hops, levels, strict=True)]
                for one, other in pairwise(nodes):
                    after.setdefault(one, set()).add(other)
    assert most == channels - 1
    assert not has_cycle(after)


def has_cycle(after: dict[tuple[int, int, int], set[tuple[int, int, int]]]) -> bool:
    return not nx.is_directed_acyclic_graph(nx.DiGraph([(a, b) for a, others in after.items() for b in others]))


def test_one_channel_has_a_cycle():
    """What Fig. 2 of the paper shows; it also shows that `has_cycle` sees one."""
    tracer = Tracer(PLAN, D1)
    after: dict[tuple[int, int, int], set[tuple[int, int, int]]] = {}
    for source in D1.hosts:
        for via in range(9):
            target = D1.hosts[(source.index + 8 * 4) % 72]
            if via not in (source.group, target.group):
                hops = tracer.trace(source, target, via=via).hops
                nodes = [(h.switch, h.out_port or 0, 0) for h in hops]
                for one, other in pairwise(nodes):
                    after.setdefault(one, set()).add(other)
    assert has_cycle(after)


def test_priorities_of_channels():
    priorities = {e.field(schema.DSCP_FIELD): e.members()[0]["priority"] for e in entries(PLAN[1], schema.DSCP)}
    assert priorities == {0: 0, 1: 1, 2: 2, 48: 7}
    assert len(entries(PLAN[1], schema.CHANNEL)) == 2 * 2
    for off in (0, 1):
        assert not entries(plan(D1, Policy(channels=off))[1], schema.CHANNEL)
    assert len(entries(plan(D1, Policy(channels=3))[1], schema.CHANNEL)) == 4  # the sender's detours as well


@pytest.mark.parametrize(
    ("text", "policy", "words"),
    [
        ("fat-tree:k=4", Policy(routing=chosen("adaptive")), "no third group for detours"),
        ("fat-tree:k=4", Policy(channels=3), "up-down routes, which cannot deadlock"),
        ("dragonfly:p=1,a=2,h=1,g=2", Policy(routing=chosen("random")), "no third group"),
        (
            "dragonfly:p=1,a=8,h=8",
            Policy(routing=chosen("adaptive")),
            "has 65 groups, adaptive.p4 knows the loads of 64",
        ),
        (
            "dragonfly:p=1,a=8,h=8",
            Policy(routing=chosen("ugal-local")),
            "has 65 groups, ugal.p4 knows the loads of 64",
        ),
    ],
)
def test_what_a_topology_does_not_allow(text, policy, words):
    with pytest.raises(DetourError, match=words):
        plan(parse_topology(text), policy)


def test_two_channels_are_refused_with_the_reason():
    with pytest.raises(DetourError, match="can deadlock: a detour passes two global links"):
        Policy(routing=chosen("adaptive"), channels=2)


def changed(device: int, table: str, **edit: object) -> Plan:
    return {
        **PLAN,
        device: [
            replace(e, **edit) if isinstance(e, TableEntry | DefaultAction) and e.table == table else e
            for e in PLAN[device]
        ],
    }


def test_the_verifier_sees_disagreement_and_wrong_ports():
    report = verify(changed(2, schema.MODE, action=Action.of(schema.UGAL, usable=0b111111010, t=7)), D1)
    assert any("s1: does not agree with its group on going to group" in p for p in report.problems)
    report = verify(changed(2, schema.HOST_PORTS, match=((schema.IN_PORT, 5),)), D1)
    assert any("s1: host_ports are" in p for p in report.problems)
