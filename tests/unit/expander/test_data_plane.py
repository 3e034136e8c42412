# SPDX-License-Identifier: Apache-2.0
"""uSID lists of routes and the ports at which the lossless priority rises."""

from itertools import pairwise

import pytest

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.expander.data_plane import check_lengths, plan_rising, rising_ports, sid_paths
from detour.control.expander.routes import Policy, compute
from detour.topo import parse_topology
from detour.topo.expander import fc, fcplus

NETWORK = fcplus(24, 10, 4, hosts=2, seed=7)


def port_to(switch: int, neighbour: int) -> int:
    ports = parse_topology(NETWORK.spec).switches[switch].ports
    return next(i for i, peer in enumerate(ports, 1) if peer and peer.kind != "host" and peer.index == neighbour)


def test_the_priority_rises_where_the_routes_say():
    rising = [set(pairs) for pairs in rising_ports(NETWORK)]
    routes = compute(NETWORK, Policy(12, 2))
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
    for switch, pairs in enumerate(rising_ports(NETWORK)):
        hosts = int(NETWORK.hosts[switch])
        assert all(i > hosts and o > hosts and i != o for i, o in pairs)


def test_sid_lists_name_the_switches_and_the_host():
    topology = NETWORK.topology
    routes = compute(NETWORK, Policy(12, 2, max_hops=5))
    for path in sid_paths(routes, topology.hosts[0], topology.hosts[-1]):
        assert path.usids == (*(s + 1 for s in path.switches[1:]), topology.hosts[-1].node_id)
        assert len(path.priorities) == len(path.switches) - 1
    check_lengths(routes)


def test_paths_of_more_than_six_usids_are_refused():
    network = fc(30, 14, 8, hosts=1, seed=2)
    routes = compute(network, Policy(600, 1))
    assert routes.length.max() > 6
    with pytest.raises(DetourError, match=r"needs \d+ uSIDs, at most 6 fit; fewer paths"):
        check_lengths(routes)


def test_table_entries_raise_every_priority_but_the_last():
    planned, rising = plan_rising(NETWORK, 3), rising_ports(NETWORK)
    assert [len(entries) for entries in planned] == [2 * len(pairs) for pairs in rising]
    assert plan_rising(NETWORK, 1) == [[] for _ in range(24)]
    assert max(map(len, plan_rising(fcplus(120, 22), 3))) < schema.TABLE_SIZE[schema.CHANNEL]
