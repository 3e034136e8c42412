# SPDX-License-Identifier: Apache-2.0
"""What switches do by (in-port, out-port) alone is what the routes say, on random networks without cycles."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.control.expander.proof import prove
from detour.control.expander.routes import PathPolicy, compute
from detour.control.routes.queueing import rising_ports
from detour.topo.expander import Expander, fcplus

SHAPES = st.sampled_from([(16, 6, 3), (16, 6, 4), (20, 8, 5), (24, 10, 4), (24, 10, 6)])


def walk(network: Expander, switches: list[int], rising: list[set[tuple[int, int]]], last: int) -> list[int]:
    """The priority of every hop as the switches of a path switch it."""
    ports = {
        (s, int(peer)): int(network.hosts[s]) + 1 + column
        for s in switches
        for column, peer in enumerate(network.channels.neighbour[s].tolist())
    }
    found = [0]
    for (before, here), (_, after) in pairwise(pairwise(switches)):
        rises = (ports[here, before], ports[here, after]) in rising[here]
        found.append(min(last, found[-1] + rises))
    return found


@settings(max_examples=20, deadline=None)
@given(shape=SHAPES, seed=st.integers(1, 1000), priorities=st.integers(2, 3))
def test_switches_raise_the_priority_where_the_routes_do(
    shape: tuple[int, int, int], seed: int, priorities: int
) -> None:
    n, s, v = shape
    network = fcplus(n, s, v, hosts=1, seed=seed)
    routes = compute(network, PathPolicy(6, priorities, max_hops=5))
    rising = [set(rising_ports(network, switch)) for switch in range(n)]
    for row in np.random.default_rng(seed).integers(0, routes.total, 60).tolist():
        pair = int(np.searchsorted(routes.first, row, side="right")) - 1
        switches, planned = routes.path(row, int(routes.pairs[pair, 0]))
        assert walk(network, switches, rising, priorities - 1) == planned
    assert prove(routes).deadlock_free
