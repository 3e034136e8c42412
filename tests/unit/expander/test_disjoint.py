# SPDX-License-Identifier: Apache-2.0
"""Paths that share no link: against a greedy choice in plain Python and a maximum flow, and what K2 says of them."""

import os
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.control.expander.counts import examined
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.topo.expander import Expander, fc, fcplus, jellyfish

pytestmark = pytest.mark.slow


def admitted(network: Expander, source: int, target: int, priorities: int, most: int) -> list[list[int]]:
    """All simple paths of at most so many links that the priorities admit, by length, then in the order of columns."""
    ch = network.channels
    neighbour, leave, enter = ch.neighbour.tolist(), ch.leave.tolist(), ch.enter.tolist()
    paths: list[list[int]] = []
    stack = [([source], 0, 0)]
    while stack:
        path, position, spent = stack.pop()
        if path[-1] == target:
            paths.append(path)
            continue
        if len(path) > most:
            continue
        x = path[-1]
        for c in reversed(range(len(neighbour[x]))):
            y, more = neighbour[x][c], spent + (leave[x][c] < position)
            if y >= 0 and y not in path and (not priorities or more < priorities):
                stack.append(([*path, y], enter[x][c], more))
    return sorted(paths, key=len)


def links(path: list[int]) -> set[frozenset[int]]:
    return {frozenset(hop) for hop in pairwise(path)}


def greedy(paths: list[list[int]], k: int) -> list[list[int]]:
    taken: list[list[int]] = []
    used: set[frozenset[int]] = set()
    for path in paths:
        if len(taken) < k and not links(path) & used:
            taken.append(path)
            used |= links(path)
    return taken


def max_flow(network: Expander, source: int, target: int) -> int:
    """How many paths without a common link there can be at most, by augmenting paths (Menger)."""
    room: dict[int, dict[int, int]] = {x: {} for x in range(network.size)}
    for a, b in network.links.tolist():
        room[a][b] = room[b][a] = 1
    flow = 0
    while True:
        before, queue = {source: source}, [source]
        for x in queue:
            for y, left in room[x].items():
                if left and y not in before:
                    before[y] = x
                    queue.append(y)
        if target not in before:
            return flow
        flow, y = flow + 1, target
        while y != source:
            room[before[y]][y] -= 1
            room[y][before[y]] += 1
            y = before[y]


NETWORKS = [
    (fcplus(16, 6, hosts=1, seed=3), 1, 5),
    (fcplus(16, 6, hosts=1, seed=4), 2, 5),
    (fc(12, 8, 3, hosts=1, seed=2), 1, 4),
    (jellyfish(16, 5, hosts=1, seed=1), 0, 6),
]


@pytest.mark.parametrize(("network", "priorities", "most"), NETWORKS)
def test_the_shortest_of_what_is_left_is_taken_until_nothing_is_left(network, priorities, most):
    routes = compute(network, PathPolicy(32, priorities, disjoint=True, max_hops=most))
    for source, target in routes.pairs.tolist():
        if source > target:
            continue
        mine = [path for path, _ in routes.of(source, target)]
        assert mine == greedy(admitted(network, source, target, priorities, most), 32)
        assert len(mine) <= max_flow(network, source, target)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_there_are_no_more_than_a_flow_finds_and_not_many_less(seed, priorities):
    network = fcplus(24, 8, hosts=1, seed=seed)
    routes = compute(network, PathPolicy(32, priorities, disjoint=True))
    flow = [max_flow(network, a, b) for a, b in routes.pairs.tolist()]
    counts = np.diff(routes.first)
    assert (counts <= flow).all()
    if not priorities:
        # A path that is short can block two longer ones, but each blocks no more than it has links.
        assert counts.sum() >= 0.9 * np.sum(flow)


def expected_k2(network: Expander, routes: ExpanderRoutes) -> float:
    """K2 by its definition, from paths that are listed one by one."""
    total = 0.0
    for source, target in routes.pairs.tolist():
        taken = [len(path) - 1 for path, _ in routes.of(source, target)]
        every = [len(path) - 1 for path in admitted(network, source, target, 0, max(taken))]
        last = taken.count(max(taken))
        total += sum(n < max(taken) for n in every) + last * (every.count(max(taken)) + 1) / (last + 1)
    return total / len(routes.pairs)


@pytest.mark.parametrize(("network", "priorities", "most"), NETWORKS)
def test_k2_counts_paths_until_the_last_one_that_is_taken(network, priorities, most):
    routes = compute(network, PathPolicy(32, priorities, disjoint=True, max_hops=most))
    k2 = examined(routes)
    assert k2.exact
    assert k2.mean >= routes.mean_paths
    assert k2.mean == pytest.approx(expected_k2(network, routes))


def test_the_command_ends_and_its_k2_is_a_number_of_paths(run_json):
    report = run_json("fcplus", "paths", "--n", "60", "--s", "14", "--k", "32", "--disjoint")
    assert report["paths"] / report["pairs"] <= 14
    assert report["k2_mean"] >= report["paths"] / report["pairs"]


@pytest.mark.parametrize("disjoint", [False, True])
def test_threads_change_nothing(monkeypatch, disjoint):
    network, policy = fcplus(24, 10, 4, hosts=1), PathPolicy(32, 1, disjoint=disjoint)
    monkeypatch.setattr("detour.control.expander.routes._CHUNK_ROWS", 5_000)
    lists = []
    for cores in (1, 4):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        lists.append(list(compute(network, policy)))
    assert lists[0] == lists[1]
