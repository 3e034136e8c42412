# SPDX-License-Identifier: Apache-2.0
"""Max-min fair rates by progressive filling."""

import random

import numpy as np
import pytest

from detour.experiments.maxmin import bound_gbps, hosts_bound_gbps, max_min, routes
from detour.experiments.nonshortest import paper, pfc_gain
from detour.topo import parse_topology

TREE = parse_topology("fat-tree:k=4,blocking=2")


def test_a_chain_of_links() -> None:
    # One connection crosses both links, each link has one of its own, the second has two.
    assert max_min([[0, 1], [0], [1], [1]], 1.0, 2) == pytest.approx([1 / 3, 2 / 3, 1 / 3, 1 / 3])


def test_every_connection_has_a_bottleneck() -> None:
    rng = random.Random(1)
    for _ in range(50):
        links = rng.randrange(2, 12)
        paths = [rng.sample(range(links), rng.randrange(1, min(links, 4) + 1)) for _ in range(rng.randrange(1, 40))]
        rates = max_min(paths, 10.0, links)
        load = np.zeros(links)
        for path, rate in zip(paths, rates, strict=True):
            load[path] += rate
        assert load.max() <= 10 * (1 + 1e-9)
        for path, rate in zip(paths, rates, strict=True):
            full = [link for link in path if load[link] > 10 * (1 - 1e-9)]
            # max-min fair: on some full link of its path nobody has more
            assert any(
                all(other <= rate * (1 + 1e-9) for q, other in zip(paths, rates, strict=True) if link in q)
                for link in full
            )


def test_routes_are_shortest_paths_from_host_to_host() -> None:
    pairs = pfc_gain.draw(TREE, 200, 1)
    for (source, target), route in zip(pairs, routes(TREE, pairs, 1), strict=True):
        a, b = TREE.hosts[source], TREE.hosts[target]
        hops = 2 if a.switch == b.switch else 4 if a.group == b.group else 6
        assert len(route) == hops
        at = a.switch
        for directed in route[1:-1]:
            link = TREE.links[directed // 2]
            ends = (link.a[0], link.b[0])[:: -1 if directed % 2 else 1]
            assert ends[0] == at
            at = ends[1]
        assert at == b.switch


def test_edges_that_block_bound_what_leaves_them() -> None:
    # All hosts of edge 0 send to edge 1 of the same pod: two links up carry what four hosts could send.
    half = [(h.index, h.index + 4) for h in TREE.hosts_of[0]]
    assert 100 <= bound_gbps(TREE, half, 10**11, 1) <= 200


def test_the_papers_table_1_is_below_the_bound() -> None:
    tree = parse_topology(pfc_gain.FAT_TREE)
    assert len(tree.hosts) == 512
    for connections, _, without_pfc, with_pfc, gain in paper.TABLE_1:
        assert 100 * (without_pfc / with_pfc - 1) == pytest.approx(gain, abs=0.35)
        if 256 <= connections <= 8_192:
            bound = bound_gbps(tree, pfc_gain.draw(tree, connections, 1), 10**11, 1)
            assert without_pfc < bound


def test_only_the_links_of_hosts_bound_what_paths_cannot_change() -> None:
    dragonfly = parse_topology("dragonfly:p=2,a=4,h=2")
    # Host 0 sends to 10 and 11, of which 11 hears from two more: a third each, and what 0 has left goes to 10.
    pairs = [(0, 10), (0, 11), (1, 11), (2, 11)]
    assert hosts_bound_gbps(dragonfly, pairs, 10**11) == pytest.approx(500 / 3)
    assert hosts_bound_gbps(dragonfly, [(0, 10), (0, 11), (1, 10), (1, 11)], 10**11) == pytest.approx(200)
    assert hosts_bound_gbps(dragonfly, [(0, 10), (0, 11), (1, 11)], 10**11) == pytest.approx(150)
