# SPDX-License-Identifier: Apache-2.0
"""Random topologies with random failures: whatever is planned is proven, and single packets agree with the proof."""

from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from detour.control.entries import difference
from detour.control.planner import plan
from detour.control.routes.hashes import DETOUR_BIT, PATHS
from detour.control.verifier.trace import Tracer
from detour.control.verifier.verifier import verify
from detour.topo import Failure, Topology
from detour.topo.clos import fat_tree, leaf_spine
from detour.topo.dragonfly import dragonfly
from detour.topo.failures import Failures, dead_links
from detour.topo.graph import FAR, GLOBAL, distances, hops
from detour.topo.paths import bounds, shortest_paths

FEW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def dragonflies(draw: st.DrawFn) -> Topology:
    p, a, h = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    g = draw(st.integers(2, a * h + 1))
    return dragonfly(p, a, h, g, draw(st.sampled_from(["palmtree", "consecutive"])))


leaf_spines = st.builds(leaf_spine, st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
fat_trees = st.builds(fat_tree, st.sampled_from([2, 4]), st.integers(1, 2))
topologies = st.one_of(dragonflies(), dragonflies(), leaf_spines, fat_trees)


@st.composite
def broken(draw: st.DrawFn, most: float = 0.5) -> tuple[Topology, Failures]:
    """A topology and what is down in it: from nothing to a good part of all links and a few switches."""
    topology = draw(topologies)
    links = draw(st.sets(st.integers(0, len(topology.links) - 1), max_size=int(len(topology.links) * most)))
    switches = draw(st.sets(st.integers(0, len(topology.switches) - 1), max_size=2))
    return topology, frozenset(
        [Failure("link", index) for index in links] + [Failure("switch", index) for index in switches]
    )


@FEW
@given(broken())
def test_plans_are_proven_or_the_pair_is_disconnected(case):
    topology, failures = case
    report = verify(plan(topology, failures=failures), topology, failures)
    assert report.ok, report.problems
    assert report.pairs == connected_pairs(topology, failures)
    hosts = len(topology.hosts)
    assert report.pairs + report.disconnected == hosts * (hosts - 1)


def connected_pairs(topology: Topology, failures: Failures) -> int:
    """Counted by walking the links, without distances."""
    dead = dead_links(topology, failures)
    part = list(range(len(topology.switches)))
    for _ in topology.switches:
        for link in topology.links:
            if link.kind != "host" and link.index not in dead:
                low = min(part[link.a[0]], part[link.b[0]])
                part[link.a[0]] = part[link.b[0]] = low
    live = [part[k.a[0]] for k in topology.links if k.kind == "host" and k.index not in dead]
    return sum(live.count(each) * (live.count(each) - 1) for each in set(live))


@FEW
@given(broken(), st.data())
def test_single_packets_agree_with_the_proof(case, data):
    topology, failures = case
    assume(len(topology.hosts) > 1)
    tracer = Tracer(plan(topology, failures=failures), topology, failures)
    source = data.draw(st.sampled_from(topology.hosts))
    target = data.draw(st.sampled_from([host for host in topology.hosts if host != source]))
    sport = data.draw(st.integers(0, 0xFFFF))
    trace = tracer.trace(source, target, sport)
    dead = dead_links(topology, failures)
    alive = all(topology.link(f"s{host.switch}-{host.name}").index not in dead for host in (source, target))
    connected = alive and int(distances(topology, failures)[source.switch, target.switch]) < FAR
    assert trace.delivered == connected, trace.outcome
    if connected:
        limit = bounds(topology, failures)
        assert len(trace.hops) <= (limit.detour if sport & DETOUR_BIT else limit.shortest)
        if not sport & DETOUR_BIT:
            assert trace.path(topology) in set(shortest_paths(topology, source.switch, target.switch, failures))


@FEW
@given(broken(most=0.2), st.data())
def test_whatever_is_sabotaged_the_verifier_agrees_with_packets(case, data):
    """One entry left out: if any packet of a connected pair is lost by that, the verifier must say so."""
    topology, failures = case
    planned = plan(topology, failures=failures)
    assume(planned)
    device = data.draw(st.sampled_from(sorted(planned)))
    victim = data.draw(st.integers(0, len(planned[device]) - 1))
    sabotaged = {**planned, device: planned[device][:victim] + planned[device][victim + 1 :]}
    tracer, fine = Tracer(sabotaged, topology, failures), Tracer(planned, topology, failures)
    sport = data.draw(st.integers(0, PATHS - 1)) | data.draw(st.sampled_from([0, DETOUR_BIT]))
    pairs = [(a, b) for a in topology.hosts for b in topology.hosts if a != b][:400]
    lost = [
        (a.name, b.name)
        for a, b in pairs
        if fine.trace(a, b, sport).delivered and not tracer.trace(a, b, sport).delivered
    ]
    if lost:
        assert not verify(sabotaged, topology, failures).ok, lost


@FEW
@given(broken())
def test_planning_is_deterministic_and_differences_lead_from_state_to_state(case):
    topology, failures = case
    before, after = plan(topology), plan(topology, failures=failures)
    assert after == plan(topology, failures=failures)
    for device, target in after.items():
        state: dict[Any, Any] = {entity.key: entity for entity in before[device]}
        change = difference(before[device], target)
        for entity in (*change.insert, *change.modify):
            state[entity.key] = entity
        for entity in change.delete:
            del state[entity.key]
        assert set(state.values()) == set(target)


@FEW
@given(dragonflies())
def test_wirings_share_global_links_out_evenly(topology):
    group = [switch.group for switch in topology.switches]
    links = [frozenset((group[k.a[0]], group[k.b[0]])) for k in topology.links if k.kind == "global"]
    counts = {pair: links.count(pair) for pair in set(links)}
    assert len(counts) == topology.groups * (topology.groups - 1) // 2
    assert len(set(counts.values())) == 1
    ends = [end for k in topology.links for end in ((k.a, k.b) if k.kind != "host" else (k.a,))]
    assert len(ends) == len(set(ends))


@FEW
@given(topologies)
def test_distances_are_metrics(topology):
    distance = distances(topology)
    assert (distance == distance.T).all()
    assert (distance.diagonal() == 0).all()
    for link in topology.links:
        if link.kind != "host":
            weight = GLOBAL if link.kind == "global" else 1
            assert (distance[link.a[0]] <= distance[link.b[0]] + weight).all()
    assert (hops(distance) < len(topology.switches) + 1).all()
