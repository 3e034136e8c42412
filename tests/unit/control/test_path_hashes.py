# SPDX-License-Identifier: Apache-2.0
"""The data plane's choices repeated, and source ports for paths."""

import numpy as np
import pytest

from detour.control import schema
from detour.control.planner import plan
from detour.control.routes.candidates import candidates
from detour.control.routes.hashes import (
    DETOUR_BIT,
    PATHS,
    crc16,
    path_hashes,
    pick_member,
    pick_via,
    probe_ports,
    via_ports,
)
from detour.control.verifier.trace import Tracer
from detour.topo import parse_failure, parse_topology
from detour.topo.paths import host_paths, via_paths

D1 = parse_topology("d1")


def test_crc16_is_bmv2s():
    assert crc16(b"123456789") == 0xBB3D
    assert crc16(bytes((0x0B, 0xB8, 0x1F, 0x90))) == 0x5D8A  # behavioral-model, tests/test_calculations.cpp
    assert crc16(b"") == 0


def test_hashes_of_all_paths():
    hashes = path_hashes()
    assert hashes.shape == (PATHS,)
    assert all(int(hashes[path]) == crc16(path.to_bytes(2, "big")) for path in range(0, PATHS, 97))


def test_members_are_chosen_by_path_and_switch():
    spread = 0x1234 * ((5 * 0x9E3779B1) | 1) * (0x1234 + 5) % 2**32
    assert pick_member(0x1234, 5, 7) == crc16(spread.to_bytes(4, "big")) % 7
    assert pick_member(0x1234, 5, 1) == 0


@pytest.mark.parametrize("groups", [3, 4, 9, 19, 33, 1025])
@pytest.mark.parametrize("start", [0, 12345, 32767])
def test_every_intermediate_group_has_a_port(groups, start):
    for source, destination in ((0, 1), (groups - 1, 0), (1, groups - 1)):
        ports = via_ports(source, destination, groups, start)
        assert sorted(ports) == [g for g in range(groups) if g not in (source, destination)]
        for via, port in ports.items():
            assert port & DETOUR_BIT
            assert pick_via(port % PATHS, source, destination, groups) == via


def test_probes():
    ports = probe_ports(0, 8, 9)
    assert len(ports) == len(set(ports)) == 8
    assert [port >> 15 for port in ports] == [0] + [1] * 7
    assert probe_ports(3, 3, 9) == (0,)
    assert probe_ports(0, 1, 0, start=40000) == (40000 - PATHS,)
    assert probe_ports(0, 8, 9, start=77) != ports


def test_candidates_of_a_dragonfly():
    tracer = Tracer(plan(D1), D1)
    for source, target in ((D1.hosts[0], D1.hosts[66]), (D1.hosts[71], D1.hosts[10])):
        found = candidates(tracer, D1, source, target)
        assert [c.via for c in found] == [None, *(g for g in range(9) if g not in (source.group, target.group))]
        assert [c.path for c in found[:1]] == host_paths(D1, source, target)
        for c in found[1:]:
            assert c.via is not None
            assert list(via_paths(D1, source.switch, target.switch, c.via)) == [c.path]
    assert [c.path for c in candidates(tracer, D1, D1.hosts[0], D1.hosts[1])] == [(0,)]


def test_candidates_leave_out_what_failed():
    failures = frozenset({parse_failure(D1, "s0-s35")})
    tracer = Tracer(plan(D1, failures=failures), D1, failures)
    found = candidates(tracer, D1, D1.hosts[10], D1.hosts[64], failures)  # group 1 to group 8
    assert [c.via for c in found if c.via is not None] == [2, 3, 4, 5, 6, 7]


def test_candidates_of_a_leaf_spine_are_all_spines():
    topology = parse_topology("leaf-spine:leaves=3,spines=8,hosts=2")
    tracer = Tracer(plan(topology), topology)
    for start in (0, 999):
        found = candidates(tracer, topology, topology.hosts[0], topology.hosts[5], start=start)
        assert [c.path[1] for c in found] == list(range(3, 11))
        for c in found:
            trace = tracer.trace(topology.hosts[0], topology.hosts[5], c.sport)
            assert trace.switches == c.path
            assert all(hop.table == schema.ROUTE for hop in trace.hops)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (3, 17), (5, 20)])
def test_successive_switches_choose_independently(first, second):
    """As evenly as chance: a CRC alone would leave half of a fat-tree's cores unused."""
    joint = np.zeros((4, 4))
    for path in range(0, 32768, 8):
        joint[pick_member(path, first, 4), pick_member(path, second, 4)] += 1
    assert joint.min() > 256 * 0.7
    assert joint.max() < 256 * 1.3


@pytest.mark.parametrize("text", ["fat-tree:k=4", "fat-tree:k=8"])
def test_candidates_of_a_fat_tree_are_all_cores(text):
    topology = parse_topology(text)
    tracer = Tracer(plan(topology), topology)
    source, target = topology.hosts[1], topology.hosts[-1]
    found = candidates(tracer, topology, source, target)
    assert [c.path for c in found] == sorted(host_paths(topology, source, target))
