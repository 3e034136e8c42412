# SPDX-License-Identifier: Apache-2.0
"""Placements on small damaged networks against a mixed-integer program of its own over all paths there are."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from detour.control.placement import exact
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork
from detour.control.placement.place import place
from detour.control.placement.placement import Placement
from detour.control.placement.repair import repair
from detour.topo import Topology, parse_topology
from detour.topo.failures import Failure, Failures
from detour.topo.paths import SwitchPath, shortest_paths

CLOS = ["leaf-spine:leaves=4,spines=3,hosts=3", "fat-tree:k=4"]
OTHERS = ["dragonfly:p=1,a=3,h=1", "jellyfish:n=8,s=5,hosts=2"]


@cache
def topology(spec: str) -> Topology:
    return parse_topology(spec)


@st.composite
def damaged(draw: st.DrawFn, specs: list[str]) -> tuple[Topology, FlowSet, Failures]:
    """A network, flows (with bytes in half of the cases) that can be placed, and failed links between switches."""
    network = topology(draw(st.sampled_from(specs)))
    links = [link.index for link in network.links if link.kind != "host"]
    down = frozenset(Failure("link", link) for link in draw(st.sets(st.sampled_from(links), max_size=len(links) // 4)))
    host = st.integers(0, len(network.hosts) - 1)
    pairs = draw(st.lists(st.tuples(host, host).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=14))
    ends = np.array(pairs, np.int32)
    sizes = draw(st.none() | st.lists(st.integers(1, 40), min_size=len(pairs), max_size=len(pairs)))
    flows = FlowSet(
        ends[:, 0].copy(),
        ends[:, 1].copy(),
        np.zeros(len(pairs), np.int32),
        ("job",),
        bytes=None if sizes is None else np.array(sizes, np.int64),
    )
    live = PlacementNetwork(network, down)
    assume(not len(live.unreachable(flows.source, flows.target)))
    return network, flows, down


def within(network: Topology, a: int, b: int, down: Failures, most: int) -> list[SwitchPath]:
    """All simple paths of at most so many links."""
    live = PlacementNetwork(network, down).link >= 0
    paths, stack = [], [(a,)]
    while stack:
        path = stack.pop()
        if path[-1] == b:
            paths.append(path)
        elif len(path) <= most:
            stack += [(*path, y) for y in np.flatnonzero(live[path[-1]]).tolist() if y not in path]
    return paths


def least_busy(network: Topology, flows: FlowSet, down: Failures, *, detours: bool = False) -> int:
    """What the busiest link carries at least, every flow on one path."""
    rows, columns, entries, owner = [], [], [], []
    number: dict[tuple[int, int], int] = {}
    for flow in range(len(flows)):
        a, b = (network.hosts[ends[flow]].switch for ends in (flows.source, flows.target))
        shortest = list(shortest_paths(network, a, b, down))
        for path in within(network, a, b, down, max(5, len(shortest[0]) - 1)) if detours else shortest:
            for hop in itertools.pairwise(path):
                rows.append(number.setdefault(hop, len(number)))
                columns.append(len(owner))
                entries.append(int(flows.size[flow]))
            owner.append(flow)
    loads, choice = np.zeros((len(number), len(owner) + 1)), np.zeros((len(flows), len(owner) + 1))
    loads[rows, columns] = entries
    loads[:, -1] = -1
    choice[owner, np.arange(len(owner))] = 1
    solution = milp(
        np.eye(len(owner) + 1)[-1],
        integrality=np.append(np.ones(len(owner)), 0),
        bounds=Bounds(0, np.inf),
        constraints=[LinearConstraint(loads, -np.inf, 0), LinearConstraint(choice, 1, 1)],
    )
    assert solution.status == 0
    return round(solution.fun)


def check(placement: Placement, best: int, down: Failures) -> None:
    """Paths are there and lead to where they should; bounds hold."""
    network = placement.network.topology
    for flow in range(len(placement.flows)):
        path = placement.path(flow)
        ends = (network.hosts[host[flow]].switch for host in (placement.flows.source, placement.flows.target))
        assert (path[0], path[-1]) == tuple(ends)
        if not placement.network.detours:
            assert path in list(shortest_paths(network, path[0], path[-1], down))
        assert len(set(path)) == len(path)
        assert all(placement.network.link[hop] >= 0 for hop in itertools.pairwise(path))
    assert placement.bound <= best <= placement.busiest
    assert placement.lower_bound <= placement.collisions


PROFILE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


@PROFILE
@given(damaged(CLOS + OTHERS))
def test_a_small_placement_is_the_best_and_known_to_be(case: tuple[Topology, FlowSet, Failures]) -> None:
    network, flows, down = case
    best = least_busy(network, flows, down)
    placement = place(network, flows, down)
    check(placement, best, down)
    assert placement.busiest == best == placement.bound


@PROFILE
@given(damaged(CLOS + OTHERS))
def test_without_the_solver_the_busiest_link_is_within_one_flow(case: tuple[Topology, FlowSet, Failures]) -> None:
    network, flows, down = case
    best = least_busy(network, flows, down)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MAX_UNKNOWNS", 0)
        placement = place(network, flows, down)
        check(placement, best, down)
        assert placement.busiest <= best + flows.size.max()
        repaired = repair(place(network, flows), down)
    after = repaired.placement
    assert not len(repaired.lost)
    assert after.bound <= best <= after.busiest <= best + flows.size.max()


@PROFILE
@given(damaged(CLOS))
def test_what_heals_is_as_good_as_before(case: tuple[Topology, FlowSet, Failures]) -> None:
    network, flows, down = case
    before = place(network, flows)
    healed = repair(repair(before, down).placement, frozenset()).placement
    assert healed.busiest <= before.busiest
    assert flows.bytes is not None or healed.collisions <= before.collisions


@settings(PROFILE, max_examples=30)
@given(damaged(OTHERS))
def test_detours_make_the_busiest_link_less_busy(case: tuple[Topology, FlowSet, Failures]) -> None:
    network, flows, down = case
    best = least_busy(network, flows, down, detours=True)
    placement = place(network, flows, down, detours=True)
    check(placement, best, down)
    assert placement.busiest <= best + flows.size.max()
    assert placement.busiest <= place(network, flows, down).busiest
