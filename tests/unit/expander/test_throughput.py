# SPDX-License-Identifier: Apache-2.0
"""Demands, bounds, and throughput against cases that can be worked out by hand and against each other."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander import DEMAND_PATTERNS
from detour.control.expander.demand import all_to_all, demand_of, hop_distances, near_worst, uniform_random, upper_bound
from detour.control.expander.routes import PathPolicy, compute
from detour.control.expander.throughput import exact, solve, throughput
from detour.topo.expander import equal_cost_clos, fcplus, xpander

NETWORK = fcplus(30, 10, 4, hosts=5, seed=4)


def test_two_neighbours_of_a_complete_graph():
    # K4, one server a switch, all to all: 3 demands of 1/3 over direct links only, 3 links each: theta = 3.
    network = xpander(4, 3, hosts=1)
    result = throughput(network, PathPolicy(1, 0), all_to_all(network))
    assert result.theta == pytest.approx(3)
    assert upper_bound(network, all_to_all(network)) == pytest.approx(3)


def test_a_permutation_on_a_complete_graph():
    # K4 in pairs: the direct link and two detours of two links. Every detour takes links that the other pair's detours
    # take in the same direction: x direct + 2y, y <= 1/2: theta = 2.
    network = xpander(4, 3, hosts=1)
    demand = near_worst(network)._replace(pairs=np.array([[0, 1], [1, 0], [2, 3], [3, 2]], np.int32))
    assert throughput(network, PathPolicy(3, 0), demand).theta == pytest.approx(2)


@pytest.mark.parametrize("pattern", ["near-worst", "uniform", "all-to-all"])
def test_the_approximation_encloses_the_exact_result(pattern):
    demand = demand_of(pattern, NETWORK, 3)
    routes = compute(NETWORK, PathPolicy(8, 2), demand.pairs)
    best = exact(routes, demand)
    assert best.upper / best.lower - 1 < 1e-4
    near = solve(routes, demand, "approximate", 0.01)
    assert near.gap <= 0.01
    assert best.lower * 0.99 <= near.theta <= best.upper * (1 + 1e-9)
    assert best.upper <= near.theta * (1 + near.gap) * (1 + 1e-9)
    assert near.theta <= upper_bound(NETWORK, demand)


def test_what_would_take_highs_long_is_approximated(monkeypatch):
    demand = near_worst(NETWORK)
    routes = compute(NETWORK, PathPolicy(8, 2), demand.pairs)
    assert solve(routes, demand).method == "exact"
    monkeypatch.setattr("detour.control.expander.throughput.EXACT_WORK", routes.total)
    result = solve(routes, demand, gap=0.02)
    assert result.method == "approximate"
    assert result.gap <= 0.02


def test_more_priorities_and_more_paths_carry_more():
    demand = near_worst(NETWORK)
    theta = [throughput(NETWORK, PathPolicy(k, p), demand).theta for k, p in ((2, 1), (8, 1), (8, 2), (32, 2))]
    assert theta == sorted(theta)


def test_every_switch_sends_what_its_servers_can():
    for network in (NETWORK, equal_cost_clos(60, 40, 8)):
        for demand in (all_to_all(network), uniform_random(network, 5), near_worst(network)):
            sent = np.bincount(demand.pairs[:, 0], demand.amount, network.size)
            assert (sent <= network.hosts + 1e-9).all()
            assert sent.sum() >= 0.9 * network.hosts.sum()
            assert (demand.pairs[:, 0] != demand.pairs[:, 1]).all()


def test_uniform_random_is_an_eighth_of_the_switches_and_seeded():
    one, two = uniform_random(NETWORK, 5), uniform_random(NETWORK, 5)
    assert np.array_equal(one.pairs, two.pairs)
    assert not np.array_equal(one.pairs, uniform_random(NETWORK, 6).pairs)
    assert np.bincount(one.pairs[:, 0]).tolist() == [4] * 30


def test_near_worst_is_the_farthest_permutation():
    demand, distance = near_worst(NETWORK), hop_distances(NETWORK)
    assert sorted(demand.pairs[:, 1].tolist()) == list(range(30))
    mine = distance[demand.pairs[:, 0], demand.pairs[:, 1]].sum()
    rng = np.random.default_rng(1)
    for _ in range(200):
        other = rng.permutation(30)
        assert distance[np.arange(30), other].sum() <= mine


def test_goal_near_worst_of_table_eight():
    network = fcplus(120, 22, seed=1)
    demand = near_worst(network)
    assert throughput(network, PathPolicy(32, 1), demand).theta >= 0.645
    assert throughput(network, PathPolicy(32, 2), demand).theta >= 0.72


def test_unknown_names_are_refused():
    with pytest.raises(DetourError, match="there are all-to-all"):
        demand_of("worst", NETWORK)
    demand = near_worst(NETWORK)
    with pytest.raises(DetourError, match="there are auto"):
        throughput(NETWORK, PathPolicy(4), demand, "guess")
    with pytest.raises(DetourError, match="different pairs"):
        solve(compute(NETWORK, PathPolicy(4)), demand)


@pytest.mark.parametrize("pattern", [re.sub(":[FS]", ":0.4", pattern) for pattern in DEMAND_PATTERNS])
@settings(max_examples=5, deadline=None)
@given(st.integers(1, 1000))
def test_no_switch_sends_or_gets_more_than_its_servers(pattern, seed):
    demand = demand_of(pattern, NETWORK, seed)
    sent, got = (np.bincount(ends, demand.amount, minlength=NETWORK.size) for ends in demand.pairs.T)
    assert (demand.pairs[:, 0] != demand.pairs[:, 1]).all()
    assert len(np.unique(demand.pairs, axis=0)) == len(demand.pairs)
    assert sent.max() == pytest.approx(5)
    assert got.max() <= 5 + 1e-9 or pattern in ("uniform", "moe:0.4")
    assert np.array_equal(demand_of(pattern, NETWORK, seed).pairs, demand.pairs)


def test_matchings_and_rings():
    linked = {frozenset(link) for link in NETWORK.links.tolist()}
    for pattern in ("random-matching", "longest-matching", "ring", "ring-random"):
        pairs = demand_of(pattern, NETWORK, 2).pairs
        assert sorted(pairs[:, 0]) == sorted(pairs[:, 1]) == list(range(30))
    near = demand_of("neighbour-matching", NETWORK, 2).pairs
    assert all(frozenset(pair) in linked for pair in near.tolist())
    assert len(near) == len(set(near[:, 1])) == 30
    assert demand_of("ring", NETWORK).pairs[-1].tolist() == [29, 0]
    successor = dict(demand_of("ring-random", NETWORK, 2).pairs.tolist())
    path = [0]
    while successor[path[-1]] != 0:
        path.append(successor[path[-1]])
    assert len(path) == 30
    with pytest.raises(DetourError, match="no two switches with hosts are linked"):
        demand_of("neighbour-matching", equal_cost_clos(64, 40, 8))


def test_popular_experts_get_more():
    pairs, amount = demand_of("moe:0.5", NETWORK, 3)
    got = np.bincount(pairs[:, 1], amount)
    assert len(pairs) == 30 * 29
    # Every switch sends the first 2 ** 0.5 times what it sends the second.
    first, second = np.argsort(-got)[:2].tolist()
    to = {tuple(pair): value for pair, value in zip(pairs.tolist(), amount.tolist(), strict=True)}
    others = [switch for switch in range(30) if switch not in (first, second)]
    assert [to[switch, first] / to[switch, second] for switch in others] == pytest.approx([2**0.5] * 28)


def test_cliques_and_hubs():
    taking_part = demand_of("clique:0.2", NETWORK, 3).pairs
    assert len(np.unique(taking_part)) == 6
    assert len(taking_part) == 6 * 5
    # 6 hubs and 24 others of 5 servers: hubs send all, the others a quarter.
    pairs, amount = demand_of("hubs:0.2", NETWORK, 3)
    sent = np.bincount(pairs[:, 0], amount)
    assert np.unique(sent.round(9), return_counts=True)[1].tolist() == [24, 6]
    assert sent.min() == pytest.approx(5 / 4)
    assert len(pairs) == 2 * 6 * 24
    whole, all_of_it = demand_of("clique:1", NETWORK), all_to_all(NETWORK)
    assert np.array_equal(whole.pairs, all_of_it.pairs)
    assert whole.amount == pytest.approx(all_of_it.amount)
    for wrong in ("clique", "clique:", "hubs:0", "hubs:1.5", "clique:many", "cliques:0.5"):
        with pytest.raises(DetourError, match=r"not a number above 0 and up to 1|there are all-to-all"):
            demand_of(wrong, NETWORK)
