# SPDX-License-Identifier: Apache-2.0
"""Clos networks of several planes, which meet in NICs alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.placement.jobs import FlowSet
from detour.control.placement.place import place
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.control.verifier.verifier import verify
from detour.fabric.backends.virtual.scheme import LinkSettings
from detour.topo.failures import parse_failure
from detour.topo.graph import FAR, distances
from detour.topo.paths import path_usids, shortest_paths
from detour.topo.spec import parse_topology


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_planes(planes, pods, spines, hosts, rails):
    leaves = pods * rails
    text = f"clos:planes={planes},leaves={leaves},spines={spines},hosts={hosts}"
    topology = parse_topology(text + (f",rails={rails}" if rails > 1 else ""))
    nics, of_plane = leaves * hosts, leaves + spines
    assert (topology.planes, topology.nics) == (planes, tuple(range(nics)))
    assert len(topology.switches) == nics + planes * of_plane
    assert [host.switch for host in topology.hosts] == list(range(nics))
    links = LinkSettings()
    for link in topology.links:
        if link.kind == "host":
            assert (links.rate_of(link), links.delay_of(link)) == (planes * links.rate_bps, 0)
    # Planes are joined by NICs alone.
    distance, plane = distances(topology), (np.arange(nics, len(topology.switches)) - nics) // of_plane
    apart = plane[:, None] != plane[None, :]
    assert (distance[nics:, nics:] >= FAR)[apart].all()
    for a in topology.hosts:
        for b in topology.hosts[a.index + 1 :]:
            paths = list(shortest_paths(topology, a.switch, b.switch))
            assert len(paths) in (planes, planes * spines)
            assert all(not topology.switches[s].is_nic for path in paths for s in path[1:-1])
            assert all(len(path_usids(topology, path, b)) == len(path) for path in paths)


def test_nics_of_a_rail_have_leaves_of_their_own():
    topology = parse_topology("clos:planes=2,leaves=4,spines=1,hosts=2,rails=2")
    leaf_of = [[peer.index for peer in topology.switches[nic].ports[1:] if peer] for nic in range(8)]
    assert leaf_of == [[8 + i, 13 + i] for i in (0, 1, 0, 1, 2, 3, 2, 3)]


@pytest.mark.parametrize("down", [(), ("s12",), ("s12", "s0-s20"), ("s0-s12", "s0-s16", "s1-s20", "s1-s24", "s18")])
def test_routes_pass_no_nic_whatever_fails(down):
    topology = parse_topology("clos:planes=4,leaves=2,spines=2,hosts=6")
    failures = frozenset(parse_failure(topology, name) for name in down)
    report = verify(plan(topology, Policy(), failures), topology, failures)
    assert report.ok, report.problems
    assert report.longest.shortest <= 5


def test_hosts_without_a_common_plane_are_disconnected():
    topology = parse_topology("clos:planes=2,leaves=1,spines=1,hosts=3")
    failures = frozenset(parse_failure(topology, name) for name in ("s0-s3", "s1-s5"))
    report = verify(plan(topology, Policy(), failures), topology, failures)
    assert report.ok
    assert report.disconnected == 2


def test_placed_paths_stay_in_a_plane():
    topology = parse_topology("clos:planes=2,leaves=2,spines=1,hosts=2")
    flows = FlowSet(np.array([0, 0, 1, 1], np.int32), np.array([2, 3, 2, 3], np.int32), np.zeros(4, np.int32), ("a",))
    placement = place(topology, flows)
    assert placement.busiest == 2
    assert all(not topology.switches[s].is_nic for flow in range(4) for s in placement.path(flow)[1:-1])
    with pytest.raises(DetourError, match="would pass through NICs"):
        place(topology, flows, detours=True)


def test_leaves_that_rails_cannot_share():
    with pytest.raises(DetourError, match="leaves=3 of a plane cannot be divided among rails=2"):
        parse_topology("clos:planes=2,leaves=3,spines=1,hosts=1,rails=2")
