# SPDX-License-Identifier: Apache-2.0
"""Dependency graphs: FC+ has no cycle for any seed, KSP has one, a planted one is found."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.control.expander.proof import channel_names, find_cycle, prove
from detour.control.expander.routes import PathPolicy, compute
from detour.control.expander.tagger import assign
from detour.topo.expander import fc, fcplus, jellyfish


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_fcplus_never_depends_on_itself(seed, priorities):
    routes = compute(fcplus(24, 10, 4, hosts=1, seed=seed), PathPolicy(8, priorities))
    proof = prove(routes)
    assert proof.deadlock_free
    assert len(proof.priorities) == priorities
    assert (proof.between > 0) == (priorities > 1)
    if priorities == 1:
        assert assign(routes).priorities == 1


def test_dependencies_are_those_of_the_paths():
    routes = compute(fcplus(24, 10, 4, hosts=1, seed=3), PathPolicy(4, 2))
    inside: list[set] = [set(), set()]
    used: list[set] = [set(), set()]
    between = set()
    for _, _, path, levels in routes:
        hops = list(pairwise(path))
        for hop, level in zip(hops, levels, strict=True):
            used[level].add(hop)
        for (first, second), (low, high) in zip(pairwise(hops), pairwise(levels), strict=True):
            (inside[low] if low == high else between).add((first, second))
    proof = prove(routes)
    assert [p.channels for p in proof.priorities] == [len(u) for u in used]
    assert [p.dependencies for p in proof.priorities] == [len(d) for d in inside]
    assert proof.between == len(between)


def test_ksp_has_a_cycle_and_needs_more_priorities():
    network = jellyfish(60, 8, hosts=1, seed=2)
    routes = compute(network, PathPolicy(8, 0))
    proof = prove(routes)
    assert not proof.deadlock_free
    names = channel_names(network, proof.priorities[0].cycle)
    turns = {hop for _, _, path, _ in routes for hop in pairwise(pairwise(path))}
    closed = [tuple(int(end[1:]) for end in name.split(">")) for name in [*names, names[0]]]
    assert all(pair in turns for pair in pairwise(closed))
    tags = assign(routes)
    assert 2 <= tags.priorities <= tags.unmerged


def test_fc_is_free_of_deadlocks_with_disjoint_paths():
    assert prove(compute(fc(30, 14, 4, hosts=1), PathPolicy(32, 1, disjoint=True, max_hops=6))).deadlock_free


def test_a_planted_cycle_is_found_and_nothing_else():
    network = fcplus(24, 10, 4, hosts=1, seed=3)
    ch = network.channels
    n, width = ch.neighbour.shape
    depends = np.zeros((n, width, width), np.bool_)
    # A tail of three channels, then a triangle or longer cycle of switches found by walking.
    cycle = next(
        (a, b, c)
        for a in range(n)
        for b in ch.neighbour[a].tolist()
        for c in ch.neighbour[b].tolist()
        if c != a and a in ch.neighbour[c]
    )
    column = {(x, int(y)): c for x in range(n) for c, y in enumerate(ch.neighbour[x])}

    def depend(x: int, y: int, z: int) -> None:
        depends[x, column[x, y], column[y, z]] = True

    outside = next(int(y) for y in ch.neighbour[cycle[0]] if y not in cycle)
    depend(outside, cycle[0], cycle[1])
    assert find_cycle(depends, network) == ()
    for i in range(3):
        depend(cycle[i], cycle[(i + 1) % 3], cycle[(i + 2) % 3])
    names = channel_names(network, find_cycle(depends, network))
    assert sorted(names) == sorted(f"s{cycle[i]}>s{cycle[(i + 1) % 3]}" for i in range(3))
    depends[cycle[0], column[cycle[0], cycle[1]]] = False
    assert find_cycle(depends, network) == ()
