# SPDX-License-Identifier: Apache-2.0
"""Spraypoint's plan: acyclic, complete, as long and as wide as its paper and our own check of it say."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.routes.spraypoint import UNREACHED, Pointing, SpraypointSettings, level_count, pointings
from detour.topo import parse_topology
from detour.topo.failures import NONE, parse_failure
from detour.topo.graph import live_graph
from detour.topo.measures import disjoint_paths


def planned(topology, failures=NONE, **chosen):
    return dict(pointings(topology, SpraypointSettings(**chosen), failures))


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
    for pointing in planned(topology, failures, waypoints=p, members=h, seed=seed).values():
        check(topology, failures, pointing, h)


def test_levels_of_the_paper():
    assert level_count(1000, 64, 4) == 1
    assert level_count(960, 64, 4) == 1
    assert level_count(100_000, 32, 4) == 3


def test_path_lengths_and_cuts_are_those_of_our_check():
    """An independent program finds a mean of 3.53 links and a median cut of 18 for n = 160, d = 20, p = h = 2."""
    topology = parse_topology("rng:n=160,d=20,hosts=1")
    graph, plan = live_graph(topology), planned(topology, waypoints=2)
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


def test_numbers_out_of_range_are_refused():
    with pytest.raises(DetourError, match="members=0 is not 1 to 64"):
        SpraypointSettings(members=0)
