# SPDX-License-Identifier: Apache-2.0
"""Sets of paths for senders: simple, right at both ends, weighted, and as many as theory says."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander.demand import demand_of, hop_distances
from detour.control.expander.families import FAMILIES, MOST_LINKS, WeightedRoutes, weighted_routes
from detour.control.expander.routes import all_pairs
from detour.control.expander.splits import weighted_throughput
from detour.topo.expander import jellyfish, xpander
from detour.topo.expander.polar import polarfly


def check(network, pairs, result, k):
    routes, weights = result
    assert np.array_equal(routes.pairs, pairs)
    assert (weights > 0).all()
    assert np.add.reduceat(weights, routes.first[:-1]) == pytest.approx(np.ones(len(pairs)))
    linked = {frozenset(link) for row, link in enumerate(network.links.tolist()) if row not in network.down}
    for i, pair in enumerate(pairs.tolist()):
        rows = range(int(routes.first[i]), int(routes.first[i + 1]))
        paths = [tuple(routes.path(row, pair[0])[0]) for row in rows]
        assert 1 <= len(set(paths)) == len(paths) <= k
        assert [len(path) for path in paths] == sorted(len(path) for path in paths)
        for path in paths:
            assert [path[0], path[-1]] == pair
            assert len(set(path)) == len(path) <= MOST_LINKS + 1
            assert all(frozenset(link) in linked for link in pairwise(path))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(5, 12), st.integers(4, 5), st.integers(2, 40), st.integers(1, 99))
def test_paths_are_simple_join_their_pair_and_weigh_one(family, half, degree, k, seed):
    network = jellyfish(2 * half, degree, hosts=1, seed=seed).without({seed % (half * degree)})
    pairs = np.random.default_rng(seed).permutation(all_pairs(network))[:20]
    check(network, pairs, weighted_routes(family, network, pairs, k=k, seed=seed), 1024 if "shortest" in family else k)


@pytest.mark.parametrize("q", [3, 4, 7])
def test_wmp_on_polarfly_has_the_paths_of_its_paper(q):
    network = polarfly(q)
    pairs, distance = all_pairs(network), hop_distances(network)
    routes, weights = weighted_routes("wmp", network, pairs)
    for i, (a, b) in enumerate(pairs.tolist()):
        rows = slice(int(routes.first[i]), int(routes.first[i + 1]))
        count = np.bincount(routes.length[rows], minlength=5).tolist()
        if distance[a, b] == 2:
            assert count in ([0, 0, 1, q - 1, 0], [0, 0, 1, q, 0])
            assert weights[rows][0] / weights[rows][1] == pytest.approx(1 + 10.5 / q)
        else:  # no path of three links: there is no cycle of four
            assert [*count[:2], count[3]] == [0, 1, 0]
            assert count[4] >= q - 2
    assert 0.27 < weights.max() < 0.31 or q != 7  # about 30 % and 12 % (section 3.4)


def test_relief_spreads_over_the_links_of_neighbours():
    network = polarfly(11)
    demand = demand_of("neighbour-matching", network)
    routes, weights = weighted_routes("wmp", network, demand.pairs)
    for pair in demand.pairs.tolist():
        stops = [path for path, _ in routes.of(*pair)]
        assert len({path[1] for path in stops}) == len({path[-2] for path in stops}) == len(stops) >= 10
    # Were the first paths taken of all that there are, the busiest link would carry twice as much.
    assert weighted_throughput(WeightedRoutes(routes, weights), demand) > 0.16 * 8


def test_senders_spray_like_switches():
    # K4: of the source's three neighbours one is the destination, the others are next to it.
    network = xpander(4, 3, hosts=1)
    routes, weights = weighted_routes("spraypoint", network, np.array([[0, 3]], np.int32))
    assert [stops for stops, _ in routes.of(0, 3)] == [[0, 3], [0, 1, 3], [0, 2, 3]]
    assert weights == pytest.approx([1 / 3] * 3)
    # More ways than k: as many over each neighbour, which keep their shares.
    network = jellyfish(64, 12, hosts=1)
    pairs = np.array([[5, 40], [7, 9]], np.int32)
    whole, whole_weights = weighted_routes("spraypoint", network, pairs, k=1024)
    some, weights = weighted_routes("spraypoint", network, pairs, k=16)
    for i in range(2):
        begun, taken = (routes.columns[routes.first[i] : routes.first[i + 1], 0] for routes in (whole, some))
        had, has = np.bincount(begun, minlength=12), np.bincount(taken, minlength=12)
        assert ((has >= has.max() - 1) | (has == had)).all()
        assert has.sum() == min(16, had.sum())
        shares = np.bincount(begun, whole_weights[whole.first[i] : whole.first[i + 1]])
        assert np.bincount(taken, weights[some.first[i] : some.first[i + 1]]) == pytest.approx(shares)


def test_the_union_of_all_shortest_paths_and_all_of_two_links():
    network = xpander(4, 3, hosts=1)
    routes, weights = weighted_routes("shortest-union", network, np.array([[0, 3]], np.int32), k=1)
    assert routes.length.tolist() == [1, 2, 2]
    assert weights == pytest.approx([1 / 3] * 3)
    far = polarfly(4)
    assert set(weighted_routes("shortest-union", far, all_pairs(far)).routes.length.tolist()) == {1, 2}


def test_paths_that_share_no_link():
    network = jellyfish(40, 6, hosts=1)
    routes, _ = weighted_routes("edge-disjoint", network, np.array([[0, 20], [3, 5]], np.int32))
    for pair in ((0, 20), (3, 5)):
        links = [frozenset(link) for stops, _ in routes.of(*pair) for link in pairwise(stops)]
        assert len(set(links)) == len(links)
    assert np.diff(routes.first).tolist() == [6, 6]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_pairs_without_paths_are_refused(family):
    ring = xpander(12, 2, hosts=1, seed=3)
    far = np.argwhere(hop_distances(ring) == 6)[:1].astype(np.int32)
    with pytest.raises(DetourError, match=r"no path from s\d+ to s\d+"):
        weighted_routes(family, ring, far)
    with pytest.raises(DetourError, match="there are wmp, spraypoint"):
        weighted_routes("shorter", ring, far)
