# SPDX-License-Identifier: Apache-2.0
"""Torus, HyperX and the Clos of rails: degrees, distances and addresses, and that routes over them are proven."""

from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.planner import plan
from detour.control.verifier.verifier import verify
from detour.topo import Topology, parse_topology
from detour.topo.graph import distances

DIMS = st.lists(st.integers(2, 5), min_size=1, max_size=3).filter(lambda sizes: prod(sizes) <= 50)


def degrees(topology: Topology) -> set[int]:
    """Numbers of links to other switches."""
    return {sum(p is not None and p.kind != "host" for p in switch.ports) for switch in topology.switches}


def check(topology: Topology) -> None:
    """What every topology must be: each host has an address of its own, each port one end of one link."""
    assert len({host.address for host in topology.hosts}) == len(topology.hosts)
    for link in topology.links:
        peer = topology.switches[link.a[0]].peer(link.a[1])
        assert peer is not None
        assert (peer.index, peer.link) == (link.b[0], link.index)
    report = verify(plan(topology), topology)
    assert report.ok, report.problems
    assert report.pairs == len(topology.hosts) * (len(topology.hosts) - 1)


@settings(max_examples=12, deadline=None)
@given(DIMS, st.integers(1, 2))
def test_a_torus(sizes, hosts):
    topology = parse_topology(f"torus:dims={'x'.join(map(str, sizes))},hosts={hosts}")
    assert degrees(topology) == {sum(2 if size > 2 else 1 for size in sizes)}
    assert int(distances(topology).max()) == sum(size // 2 for size in sizes)
    theirs = nx.grid_graph(tuple(reversed(sizes)), periodic=True)
    assert len([link for link in topology.links if link.kind != "host"]) == nx.Graph(theirs).number_of_edges()
    assert parse_topology(topology.spec) == topology
    check(topology)


@settings(max_examples=12, deadline=None)
@given(DIMS, st.integers(1, 2))
def test_a_hyperx(sizes, hosts):
    topology = parse_topology(f"hyperx:dims={'x'.join(map(str, sizes))},hosts={hosts}")
    assert degrees(topology) == {sum(size - 1 for size in sizes)}
    places = np.array(list(np.ndindex(*sizes)))
    hamming = (places[:, None, :] != places[None, :, :]).sum(axis=2)
    assert np.array_equal(distances(topology), hamming)
    check(topology)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_a_clos_of_rails(pods, rails, servers, spines, cores):
    topology = parse_topology(f"rail-clos:pods={pods},rails={rails},servers={servers},spines={spines},cores={cores}")
    leaves = pods * rails
    assert (len(topology.switches), len(topology.hosts)) == (leaves + rails * spines + cores, leaves * servers)
    between = distances(topology)[:leaves, :leaves]
    rail = np.arange(leaves) % rails
    same = rail[:, None] == rail[None, :]
    assert between[same & ~np.eye(leaves, dtype=bool)].tolist() == [2] * (leaves * (pods - 1))
    assert set(between[~same].tolist()) <= {4}
    assert [host.switch for host in topology.hosts] == [h // servers for h in range(leaves * servers)]
    check(topology)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("torus:dims=4", None),
        ("torus:dims=4x", "dims=4x is not of the form 4x4x2"),
        ("torus:dims=4x1", "a dimension has at least 2 switches"),
        ("torus:dims=2x2x2x2x2x2x2x2x2", "9 dimensions"),
        ("hyperx:dims=4x4,hosts=0", "hosts=0 is less than 1"),
        ("hyperx:dims=400x2,hosts=200", "600 ports"),
        ("hyperx:hosts=2", "dims missing; wanted: dims=, \\[hosts=\\]"),
        ("rail-clos:pods=1,rails=0,servers=1,spines=1", "rails=0 is less than 1"),
        ("rail-clos:pods=2,rails=2,servers=500,spines=20", "520 ports"),
    ],
)
def test_numbers_that_make_none(text, reason):
    if reason is None:
        assert len(parse_topology(text).hosts) == 4
        return
    with pytest.raises(DetourError, match=reason):
        parse_topology(text)
