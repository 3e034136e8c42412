# SPDX-License-Identifier: Apache-2.0
"""The three theories of a fabric: over all paths, over those that a routing allows, and under fixed shares."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander.demand import Demand, all_to_all, demand_of, upper_bound
from detour.control.expander.families import FAMILIES, weighted_routes
from detour.control.expander.optimum import optimum
from detour.control.expander.routes import PathPolicy
from detour.control.expander.splits import ecmp, split_loads, split_throughput, spraypoint, weighted_throughput
from detour.control.expander.throughput import solve, throughput
from detour.control.routes.spraypoint import SpraypointParameters
from detour.topo.expander import equal_cost_clos, jellyfish, xpander
from detour.topo.expander.polar import polarfly
from detour.topo.expander.quasirandom import quasi_random

K4 = xpander(4, 3, hosts=1)
IN_PAIRS = Demand(np.array([[0, 1], [1, 0], [2, 3], [3, 2]], np.int32), np.ones(4))
RING = jellyfish(5, 2, hosts=1)
SPLITTINGS = (ecmp, spraypoint, partial(spraypoint, settings=SpraypointParameters(p=2, h=3)))


@pytest.mark.parametrize(
    ("network", "demand", "theta"),
    [
        (K4, all_to_all(K4), 3),  # direct links only
        (K4, IN_PAIRS, 2),  # 12 channels: 4 direct, and two links for all else
        (K4.without({0}), IN_PAIRS, 1.5),  # 0-1 is down: two detours of two links, a half of which 2 and 3 take
        (RING, demand_of("neighbour-matching", RING), 1.25),  # the long way round takes four links the other way
    ],
)
def test_optimum_worked_out_by_hand(monkeypatch, network, demand, theta):
    for first in (64, 1):  # with a single path to begin with the others have to be found
        monkeypatch.setattr("detour.control.expander.optimum._FIRST_PATHS", first)
        result = optimum(network, demand, gap=0.001)
        assert result.gap <= 0.001
        assert result.theta == pytest.approx(theta, rel=0.0011)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(["random-matching", "hubs:0.3", "uniform", "neighbour-matching"]), st.integers(1, 1000))
def test_optimum_is_no_less_than_any_routing_and_no_more_than_the_bound(pattern, seed):
    network = jellyfish(10, 3, hosts=3, seed=seed)
    demand = demand_of(pattern, network, seed)
    best = optimum(network, demand)
    assert best.gap <= 0.02
    assert best.theta <= upper_bound(network, demand) * (1 + 1e-9)
    every = throughput(network, PathPolicy(1024, 0), demand, "exact").theta
    assert best.theta <= every * (1 + 1e-6) <= best.theta * 1.0201
    for family in FAMILIES:
        paths = weighted_routes(family, network, demand.pairs, seed=seed)
        allowed = solve(paths.routes, demand, "exact").theta
        assert weighted_throughput(paths, demand) <= allowed * (1 + 1e-6)
        assert allowed <= best.theta * 1.0201
    for splitting in SPLITTINGS:
        assert split_throughput(network, demand, splitting) <= best.theta * 1.0201


def test_matchings_on_polarfly_leave_little_to_find():
    network = polarfly(11, 8)
    theta = {pattern: optimum(network, demand_of(pattern, network)) for pattern in ("ring", "neighbour-matching")}
    assert all(result.gap <= 0.02 for result in theta.values())
    assert all(0.49 < result.theta < 0.525 for result in theta.values())


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SPLITTINGS), st.integers(8, 20), st.integers(4, 6), st.integers(1, 1000))
def test_what_goes_into_a_switch_comes_out(splitting, half, degree, seed):
    network = jellyfish(2 * half, degree, hosts=2, seed=seed).without({seed % half})
    demand = demand_of("uniform", network, seed)
    loads, neighbour = split_loads(network, demand, splitting), network.channels.neighbour
    assert (loads[neighbour < 0] == 0).all()
    into = np.bincount(neighbour[neighbour >= 0], loads[neighbour >= 0], minlength=network.size)
    sent, got = (np.bincount(ends, demand.amount, minlength=network.size) for ends in demand.pairs.T)
    assert into + sent == pytest.approx(loads.sum(axis=1) + got)


def test_fixed_shares_worked_out_by_hand():
    assert split_throughput(K4, all_to_all(K4), ecmp) == pytest.approx(3)
    assert split_throughput(K4, IN_PAIRS, ecmp) == pytest.approx(1)
    # A third over each neighbour. Links between the pairs carry a third as a first and a third as a second one.
    assert split_throughput(K4, IN_PAIRS, spraypoint) == pytest.approx(1.5)
    assert weighted_throughput(weighted_routes("spraypoint", K4, IN_PAIRS.pairs), IN_PAIRS) == pytest.approx(1.5)
    clos = equal_cost_clos(64, 28, 8)
    demand = demand_of("random-matching", clos)
    assert 0 < split_throughput(clos, demand, ecmp) <= optimum(clos, demand).theta * 1.02
    with pytest.raises(DetourError, match=r"s\d has no next hop to s\d"):
        split_throughput(RING.without(range(2)), all_to_all(RING), ecmp)


def test_spraypoint_as_modelled():
    network = quasi_random(160, 20, 20)
    demand = demand_of("random-matching", network)
    parameters = SpraypointParameters(p=2, h=2)
    loads = split_loads(network, demand, partial(spraypoint, settings=parameters))
    assert loads.sum() / demand.amount.sum() == pytest.approx(3.53, abs=0.02)  # links of a way
    # What its paths allow if somebody chooses among them, which hashes do not.
    paths = weighted_routes("spraypoint", network, demand.pairs, k=256, spraypoint=parameters)
    assert 1 / solve(paths.routes, demand, "approximate", 0.02).theta == pytest.approx(3.17, rel=0.04)
    assert loads.max() > 6
