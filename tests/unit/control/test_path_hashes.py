# SPDX-License-Identifier: Apache-2.0
"""The data plane's choices repeated."""

import numpy as np
import pytest

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


@pytest.mark.parametrize(("first", "second"), [(1, 2), (3, 17), (5, 20)])
def test_successive_switches_choose_independently(first, second):
    """As evenly as chance: a CRC alone would leave half of a fat-tree's cores unused."""
    joint = np.zeros((4, 4))
    for path in range(0, 32768, 8):
        joint[pick_member(path, first, 4), pick_member(path, second, 4)] += 1
    assert joint.min() > 256 * 0.7
    assert joint.max() < 256 * 1.3
