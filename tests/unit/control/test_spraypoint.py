# SPDX-License-Identifier: Apache-2.0
"""Spraypoint's plan: acyclic, complete, as long and as wide as its paper and our own check of it say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, ActionSet, TableEntry
from detour.control.groups import grouped
from detour.control.planner import plan, plan_switch, route_bounds
from detour.control.policy import Policy
from detour.control.routes.routing import switch_route
from detour.control.routes.spraypoint import (
    UNREACHED,
    Pointing,
    SpraypointParameters,
    level_count,
    plan_spraypoint,
    pointings,
)
from detour.control.routings import routing
from detour.control.verifier.trace import Tracer
from detour.control.verifier.verifier import verify
from detour.topo import parse_topology
from detour.topo.failures import NONE, parse_failure
from detour.topo.graph import live_graph
from detour.topo.measures import disjoint_paths

SMALL = parse_topology("rng:n=24,d=6,hosts=2")
POLICY = Policy(routing=routing("spraypoint"), valiant=False)


def planned(topology, failures=NONE, **chosen):
    return dict(pointings(topology, SpraypointParameters(**chosen), failures))


def check(topology, failures, pointing: Pointing, members: int) -> None:
    """Every hop lowers the level by one, everybody that can reach the destination points, to `members` at most."""
    graph = live_graph(topology, failures)
    live = (graph.neighbour >= 0).any(axis=1)
    assert ((pointing.level != UNREACHED) == (live | (pointing.level == 0))).all()
    switches, columns = np.nonzero(pointing.next_hop)
    assert (pointing.level[graph.neighbour[switches, columns]] == pointing.level[switches] - 1).all()
    count = pointing.next_hop.sum(axis=1)
    assert (count[pointing.level > 0] >= 1).all()
    assert (count <= members).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 40), st.integers(3, 8), st.integers(1, 5), st.integers(1, 3), st.integers(0, 1000), st.data())
def test_pointing_never_loops_and_reaches_every_destination(n, d, p, h, seed, data):
    topology = parse_topology(f"rng:n={2 * n},d={d},hosts=1,seed={seed}")
    links = [link.name for link in topology.links if link.kind != "host"]
    down = data.draw(st.lists(st.sampled_from(links), max_size=2, unique=True))
    failures = frozenset(parse_failure(topology, name) for name in down)
    assume(d >= 4 or not down)  # two links less may cut a switch of three off
    for pointing in planned(topology, failures, p=p, h=h, seed=seed).values():
        check(topology, failures, pointing, h)


def test_levels_of_the_paper():
    assert level_count(1000, 64, 4) == 1
    assert level_count(960, 64, 4) == 1
    assert level_count(100_000, 32, 4) == 3


def test_path_lengths_and_cuts_are_those_of_our_check():
    """An independent program finds a mean of 3.53 links and a median cut of 18 for n = 160, d = 20, p = h = 2."""
    topology = parse_topology("rng:n=160,d=20,hosts=1")
    graph, plan = live_graph(topology), planned(topology, p=2)
    lengths, cuts = [], []
    for target, (level, next_hop) in plan.items():
        length = np.zeros(160)
        for switch in np.argsort(level, kind="stable")[1:].tolist():
            length[switch] = 1 + length[graph.neighbour[switch][next_hop[switch]]].mean()
        lengths += [1 + length[graph.neighbour[source]].mean() for source in range(160) if source != target]
    for source, target in np.random.default_rng(1).choice(160, (60, 2)).tolist():
        if source != target:
            sprayed = np.zeros((161, 161), np.int32)  # the sender's side of `source` is a switch of its own
            switches, columns = np.nonzero(plan[target].next_hop)
            sprayed[switches, graph.neighbour[switches, columns]] = 1
            sprayed[160, graph.neighbour[source]] = 1
            cuts.append(disjoint_paths(sprayed, 160, target))
    assert np.mean(lengths) == pytest.approx(3.53, abs=0.02)
    assert np.median(cuts) == 18
    assert min(cuts) >= 13


def test_a_failed_link_changes_little():
    topology = parse_topology("rng:n=160,d=20,hosts=1")
    failed = frozenset([parse_failure(topology, topology.links[200].name)])
    before, after = planned(topology), planned(topology, failed)
    changed = sum(int((before[t].next_hop != after[t].next_hop).any(axis=1).sum()) for t in before)
    assert 0 < changed < 0.02 * 160 * 160


def test_a_switch_of_the_papers_fabric_holds_some_thousand_objects():
    """One entry for each of 959 destinations; there are 2,016 pairs of 64 ports for them to share."""
    topology = parse_topology("rng:n=960,d=64,hosts=1")
    profiles = {schema.ROUTE: "route", schema.SPRAY: "spray"}
    entities = plan_switch(topology, POLICY, NONE, topology.switches[7])
    pointing = list(plan_spraypoint(topology, POLICY, NONE, topology.switches[7]))
    assert sum(isinstance(each, TableEntry) and each.table == schema.ROUTE for each in pointing) == 959
    assert len(grouped(pointing, (), profiles)) < 2000
    assert len(grouped(entities, (), profiles)) < 4000  # with as many routes to the switches' uSIDs


def proven(entries, failures=NONE):
    return verify(entries, SMALL, failures, route_bounds(SMALL, POLICY, failures))


def test_what_is_written_is_proven_also_around_failures():
    for names in ((), ("s0-s1",), ("s3", "s0-s1")):
        failures = frozenset(parse_failure(SMALL, name) for name in names)
        report = proven(plan(SMALL, POLICY, failures), failures)
        assert report.ok, report.problems
        live = 24 - sum(failure.kind == "switch" for failure in failures)
        assert report.pairs == 2 * live * (2 * live - 1)
        assert report.longest.shortest <= report.bound.shortest <= 6
        assert report.disjoint_paths
        assert report.disjoint_paths.median >= 5  # 6 (1 - e^-2) = 5.2


def changed(entries, table, action):
    """The entries where switch 1 has another action for the first entry of a table."""
    at = next(i for i, each in enumerate(entries[1]) if isinstance(each, TableEntry) and each.table == table)
    return entries | {1: [*entries[1][:at], replace(entries[1][at], action=action), *entries[1][at + 1 :]]}


def test_wrong_entries_are_found():
    entries = plan(SMALL, POLICY)
    one = ActionSet.of([Action.of(schema.SPRAY_TOWARDS, port=3)])
    assert "sprays over ports ['3'], live neighbours" in proven(changed(entries, schema.SPRAY, one)).problems[0]
    no_port = ActionSet.of([Action.of(schema.SPRAY_TOWARDS, port=99)])
    assert proven(changed(entries, schema.SPRAY, no_port)).failed >= 2 * 46
    without = entries | {
        1: [each for each in entries[1] if not (isinstance(each, TableEntry) and each.table == schema.SENDING_PORTS)]
    }
    assert "packets from ports [] are sprayed, hosts are at ['1', '2']" in proven(without).problems[0]


def test_a_loop_of_pointing_switches_is_found():
    entries = dict(plan(SMALL, POLICY))
    a, b = (SMALL.links[60].a, SMALL.links[60].b)
    target = next(s for s in SMALL.switches if s.index not in (a[0], b[0]))
    for (switch, port), device in ((a, a[0] + 1), (b, b[0] + 1)):
        entry = switch_route(target, ActionSet.of([Action.of(schema.FORWARD, port=port)]))
        assert SMALL.switches[switch].device_id == device
        entries[device] = [entry if isinstance(e, TableEntry) and e.key == entry.key else e for e in entries[device]]
    report = proven(entries)
    assert report.failed
    assert "round again" in report.problems[0]


def test_packets_are_traced_as_they_are_sprayed():
    tracer = Tracer(plan(SMALL, POLICY), SMALL)
    ways = {tracer.trace(SMALL.hosts[0], SMALL.hosts[40], sport).hops[0].out_port for sport in range(40)}
    assert ways == {3, 4, 5, 6, 7, 8}
    assert all(tracer.trace(SMALL.hosts[0], SMALL.hosts[40], sport).delivered for sport in range(40))
    assert [hop.table for hop in tracer.trace(SMALL.hosts[0], SMALL.hosts[1]).hops] == [schema.ROUTE]


def test_numbers_out_of_range_are_refused():
    with pytest.raises(DetourError, match="h=0 is not 1 to 64"):
        SpraypointParameters(h=0)
