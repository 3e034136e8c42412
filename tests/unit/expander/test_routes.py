# SPDX-License-Identifier: Apache-2.0
"""DF-KSP against an enumeration in plain Python; paths, priorities, counts, CSV."""

import csv
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander.counts import examined, mean_paths
from detour.control.expander.proof import prove
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute, write_csv
from detour.topo.expander import Expander, equal_cost_clos, fc, fcplus, jellyfish, slimfly, xpander

SMALL = fcplus(24, 10, 4, hosts=2, seed=7)


@lru_cache(maxsize=1)
def layers_of(network: Expander) -> dict[tuple[int, int], tuple[int, int]]:
    """The layers at both ends of a link, in either direction."""
    layers = {}
    for (a, b), (la, lb) in zip(network.links.tolist(), network.layer.tolist(), strict=True):
        layers[a, b], layers[b, a] = (la, lb), (lb, la)
    return layers


def down_ups(network: Expander, path: list[int]) -> int:
    """T_du of a path of switches, from the layers alone: how often it goes down and then up."""
    heights = [height for hop in pairwise(path) for height in layers_of(network)[hop]]
    rises = [b > a for a, b in pairwise(heights) if a != b]
    return sum(then and not first for first, then in pairwise(rises))


def simple_paths(network: Expander, source: int, target: int, most: int) -> list[list[int]]:
    """All simple paths of at most so many links."""
    neighbours: dict[int, list[int]] = {}
    for a, b in network.links.tolist():
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    complete, stack = [], [[source]]
    while stack:
        path = stack.pop()
        for peer in neighbours[path[-1]]:
            if peer == target:
                complete.append([*path, peer])
            elif peer not in path and len(path) < most:
                stack.append([*path, peer])
    return complete


def lengths(paths: list[tuple[list[int], list[int]]]) -> list[int]:
    return sorted(len(priorities) for _, priorities in paths)


@pytest.mark.parametrize("priorities", [1, 2, 0])
@pytest.mark.parametrize("ties", ["diverse", "plain"])
def test_the_k_shortest_admitted_paths(priorities, ties):
    routes = compute(SMALL, PathPolicy(12, priorities, ties))
    for source, target in ((0, 5), (5, 0), (3, 23), (17, 2)):
        mine = routes.of(source, target)
        longest = max(lengths(mine))
        every = simple_paths(SMALL, source, target, longest)
        admitted = [p for p in every if not priorities or down_ups(SMALL, p) < priorities]
        assert lengths(mine) == sorted(len(p) - 1 for p in admitted)[:12]
        assert all(path in admitted for path, _ in mine)
        assert len({tuple(path) for path, _ in mine}) == 12


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_paths_are_simple_and_rise_where_they_go_down_and_up(seed, priorities):
    network = fcplus(24, 10, 4, hosts=1, seed=seed)
    for source, target, path, levels in compute(network, PathPolicy(8, priorities)):
        assert (path[0], path[-1]) == (source, target)
        assert len(set(path)) == len(path)
        assert levels == sorted(levels)
        assert levels[-1] == down_ups(network, path) < priorities
        for i in range(1, len(levels)):
            assert levels[i] == down_ups(network, path[: i + 2])


def test_reverses_of_computed_routes_are_those_computed_the_other_way():
    routes = compute(SMALL, PathPolicy(6, 1))
    for a in range(3):
        forward, back = routes.of(a, 20), routes.of(20, a)
        assert [path[::-1] for path, _ in forward] == [path for path, _ in back]


def test_some_pairs_alone_get_the_same_number_and_lengths():
    every = compute(SMALL, PathPolicy(9, 1))
    pairs = np.array([[4, 9], [9, 4], [2, 3]], np.int32)
    some = compute(SMALL, PathPolicy(9, 1), pairs)
    for a, b in pairs.tolist():
        assert lengths(some.of(a, b)) == lengths(every.of(a, b))


def most_shared(routes: ExpanderRoutes) -> float:
    """How many paths of a pair share a channel, the mean over pairs of the greatest number."""
    most = []
    for a, b in routes.pairs.tolist():
        used: dict[tuple[int, int], int] = {}
        for path, _ in routes.of(a, b):
            for hop in pairwise(path):
                used[hop] = used.get(hop, 0) + 1
        most.append(max(used.values()))
    return float(np.mean(most))


def test_diverse_ties_share_links_less():
    shared = {ties: most_shared(compute(SMALL, PathPolicy(12, 2, ties))) for ties in ("diverse", "plain")}
    assert shared["diverse"] < 0.75 * shared["plain"]


def test_disjoint_paths_share_no_link():
    network = fc(30, 14, 4, hosts=1, seed=2)
    for a, b in ((0, 1), (4, 19)):
        routes = compute(network, PathPolicy(32, 1, disjoint=True, max_hops=6))
        used = [frozenset(hop) for path, _ in routes.of(a, b) for hop in pairwise(path)]
        assert len(used) == len(set(used))


def test_a_clos_routes_up_and_down_between_edges_only():
    network = equal_cost_clos(60, 40, 8)
    routes = compute(network, PathPolicy(4, 1))
    assert set(routes.pairs.ravel().tolist()) == set(network.tors.tolist())
    assert routes.length.max() <= 4


def test_counts_agree_with_plain_enumeration():
    every = [
        [p for b in range(24) if b != a for p in simple_paths(SMALL, a, b, 4) if down_ups(SMALL, p) == 0]
        for a in (0, 11, 23)
    ]
    expected = [sum(len(p) - 1 == h for paths in every for p in paths) / (3 * 23) for h in range(5)]
    assert mean_paths(SMALL, 4, 1, sources=3).tolist() == pytest.approx(expected)


def test_n_p4_of_table_four():
    assert mean_paths(fcplus(400, 18, 4), 4, sources=100).sum() == pytest.approx(20.82, rel=0.015)


def test_k2_lies_between_the_paths_kept_and_the_paths_there_are():
    routes = compute(SMALL, PathPolicy(12, 2))
    k2 = examined(routes)
    assert k2.exact
    assert k2.mean >= 12
    assert examined(compute(SMALL, PathPolicy(12, 8))).mean == pytest.approx(12, rel=0.02)  # nothing is refused


@pytest.mark.parametrize(
    ("network", "policy", "text"),
    [
        (SMALL, PathPolicy(0), "k=0 paths"),
        (SMALL, PathPolicy(4, 9), "9 priorities"),
        (SMALL, PathPolicy(4, ties="odd"), "there are diverse, plain"),
        (SMALL, PathPolicy(4, max_hops=99), "1 to 32"),
        (SMALL, PathPolicy(4, max_hops=1), "no path from s"),
        (jellyfish(60, 22, hosts=1), PathPolicy(4, 1, max_hops=6), "give --max-hops 5 or less, or 2 priorities"),
    ],
)
def test_what_makes_no_sense_is_refused(network, policy, text):
    with pytest.raises(DetourError) as error:
        compute(network, policy)
    assert text in str(error.value)


def test_csv_has_a_line_for_every_path(tmp_path):
    routes = compute(SMALL, PathPolicy(3, 2))
    write_csv(routes, tmp_path / "paths.csv")
    rows = list(csv.DictReader((tmp_path / "paths.csv").open()))
    assert len(rows) == routes.total == 3 * 24 * 23
    for row in rows[:200]:
        path, levels = [int(x) for x in row["switches"].split()], [int(x) for x in row["priorities"].split()]
        assert (path[0], path[-1]) == (int(row["source"]), int(row["destination"]))
        assert int(row["hops"]) == len(levels) == len(path) - 1
        assert levels[0] == 1
        assert levels[-1] == 1 + down_ups(SMALL, path)


@pytest.mark.parametrize(
    "network",
    [jellyfish(30, 5, hosts=1, seed=4), xpander(30, 5, hosts=1), slimfly(18, 5, hosts=1)],
    ids=lambda n: n.family,
)
def test_any_graph_has_paths_in_one_priority_and_all_of_three_links_in_two(network):
    one = compute(network, PathPolicy(4, 1, max_hops=5))
    assert prove(one).deadlock_free
    for _, _, switches, priorities in one:
        heights = [int(network.layer[network.links == switch][0]) for switch in switches]
        top = heights.index(max(heights))
        assert heights == sorted(heights[:top]) + sorted(heights[top:], reverse=True)
        assert set(priorities) == {0}
    free, two = (compute(network, PathPolicy(6, priorities, max_hops=3), partial=True) for priorities in (0, 2))
    assert [switches for _, _, switches, _ in free] == [switches for _, _, switches, _ in two]
    assert prove(two).deadlock_free
    assert not prove(free).deadlock_free


def test_half_as_many_priorities_as_links_and_one_more_are_enough():
    network = jellyfish(40, 3, hosts=1, seed=5)
    for hops, priorities in ((3, 2), (5, 3), (7, 4)):
        free, few = (compute(network, PathPolicy(8, p, max_hops=hops), partial=True) for p in (0, priorities))
        assert [switches for _, _, switches, _ in free] == [switches for _, _, switches, _ in few]
