# SPDX-License-Identifier: Apache-2.0
"""The ports at which the lossless priority rises."""

from itertools import pairwise

import pytest

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.expander.rising import plan_rising, rising_ports
from detour.control.expander.routes import PathPolicy, compute
from detour.control.planner import plan
from detour.control.policy import Policy as FabricPolicy
from detour.topo import parse_topology
from detour.topo.expander import fcplus, jellyfish

NETWORK = fcplus(24, 10, 4, hosts=2, seed=7)


def port_to(switch: int, neighbour: int) -> int:
    ports = parse_topology(NETWORK.spec).switches[switch].ports
    return next(i for i, peer in enumerate(ports, 1) if peer and peer.kind != "host" and peer.index == neighbour)


def test_the_priority_rises_where_the_routes_say():
    rising = [set(rising_ports(NETWORK, switch)) for switch in range(24)]
    routes = compute(NETWORK, PathPolicy(12, 2))
    seen = 0
    for source in range(0, 24, 5):
        for target in range(1, 24, 7):
            for path, priorities in routes.of(source, target) if source != target else []:
                for (a, x, b), (low, high) in zip(
                    zip(path, path[1:], path[2:], strict=False), pairwise(priorities), strict=True
                ):
                    assert ((port_to(x, a), port_to(x, b)) in rising[x]) == (high == low + 1)
                    seen += high > low
    assert seen > 20


def test_uncrossed_pairs_never_rise_and_no_port_returns():
    for switch, hosts in enumerate(NETWORK.hosts.tolist()):
        assert all(i > hosts and o > hosts and i != o for i, o in rising_ports(NETWORK, switch))


def channel_entries(topology, policy):
    planned = plan(topology, policy)
    return [[e for e in planned[s.device_id] if getattr(e, "table", "") == schema.CHANNEL] for s in topology.switches]


def test_the_planner_raises_every_priority_but_the_last():
    topology = NETWORK.topology
    counts = [2 * len(rising_ports(NETWORK, switch)) for switch in range(24)]
    planned = channel_entries(topology, FabricPolicy(valiant=False, channels=3))
    assert [len(entries) for entries in planned] == counts
    assert planned[5] == list(plan_rising(NETWORK, 5, 3))
    assert channel_entries(topology, FabricPolicy(valiant=False)) == [[]] * 24


def test_three_priorities_fit_the_table_of_the_papers_switch():
    network = fcplus(120, 22)
    most = max(len(list(plan_rising(network, switch, 3))) for switch in range(network.size))
    assert 200 < most < schema.TABLE_SIZE[schema.CHANNEL]


def test_a_network_without_layers_has_no_priorities_to_rise_between():
    with pytest.raises(DetourError, match="has no layers"):
        plan(jellyfish(12, 4, hosts=1).topology, FabricPolicy(valiant=False, channels=2))
