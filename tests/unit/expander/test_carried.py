# SPDX-License-Identifier: Apache-2.0
"""The most that a network carries in all, beside what every pair can have."""

from __future__ import annotations

import numpy as np
import pytest

from detour.control.expander import carried
from detour.control.expander.carried import carried_by_shares, carried_over_paths
from detour.control.expander.demand import Demand, demand_of
from detour.control.expander.families import weighted_routes
from detour.control.expander.splits import ecmp, split_throughput, spraypoint
from detour.control.expander.throughput import solve
from detour.topo.expander import jellyfish
from detour.topo.expander.flat import ordered_network


def line() -> tuple:
    """Switches 0 - 1 - 2 with 2 hosts each; 0 sends 2 to 2, and 1 sends 1 to 2: both over the link from 1."""
    network = ordered_network("line", "line", np.full(3, 2, np.int32), np.array([[0, 1], [1, 2]], np.int32))
    return network, Demand(np.array([[0, 2], [1, 2]], np.int32), np.array([2.0, 1.0]))


def test_one_link_is_shared_by_all_who_need_it():
    """Of 3 that are asked for 1 arrives, at any limit that allows it; theta would be the same third."""
    network, demand = line()
    routes = weighted_routes("ksp", network, demand.pairs).routes
    for limit, share in ((1.0, 1 / 3), (0.5, 1 / 3), (0.2, 0.2)):
        assert carried_over_paths(routes, demand, limit) == pytest.approx(share, abs=1e-6)
        assert carried_by_shares(network, demand, ecmp, limit) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("pattern", ["random-matching", "uniform"])
def test_a_bad_link_stops_its_own_pairs_only(pattern):
    """The sum is never below what all can have at once, nor above the limit; for one share of paths it is more."""
    network = jellyfish(24, 5, hosts=4, seed=2)
    demand = demand_of(pattern, network, 1)
    routes = weighted_routes("ksp", network, demand.pairs, k=8).routes
    theta = solve(routes, demand).theta
    assert theta - 1e-6 <= carried_over_paths(routes, demand, 1.0) <= 1.0
    assert carried_over_paths(routes, demand, theta / 2) == pytest.approx(theta / 2, abs=1e-6)
    for split in (ecmp, spraypoint):
        assert carried_by_shares(network, demand, split, 1.0) > split_throughput(network, demand, split) + 0.01


def test_many_paths_are_not_given_to_highs(monkeypatch):
    network = jellyfish(24, 5, hosts=4, seed=2)
    demand = demand_of("uniform", network, 1)
    routes = weighted_routes("ksp", network, demand.pairs, k=8).routes
    whole = carried_over_paths(routes, demand, 1.0)
    monkeypatch.setattr(carried, "MOST_PATHS", 1)
    assert whole * 0.7 < carried_over_paths(routes, demand, 1.0) <= whole
