# SPDX-License-Identifier: Apache-2.0
"""Source-bit Valiant: bit 0 takes the shortest path, bit 1 a group that is neither source nor destination."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from scapy.packet import Packet

from tests.ptf.base_test import (
    Switch,
    send_packet,
    verify_forwarded,
    verify_no_other_packets,
    verify_packet,
    verify_packets,
    verify_punted,
)
from tests.ptf.packets import frame, host, ip, srh, udp, usids

pytestmark = pytest.mark.shared_p4("trim")

GROUPS = 6
DETOUR = 0x8000
ALL_GROUPS = {1: 2, 2: 3, 3: 4, 4: 5}
"""intermediate group -> port"""
SHORTEST = 1
HOP_LIMIT = 6


def crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xA001 if crc & 1 else 0)
    return crc


def via_of(path: int, source: int, destination: int) -> int:
    """The intermediate group that the program's documentation promises for a path."""
    others = [g for g in range(GROUPS) if g not in (source, destination)]
    return others[crc16(path.to_bytes(2, "big")) % (GROUPS - 2)]


def group(switch: Switch, number: int, detours: Mapping[int, int] | None = None, destination: int = 5) -> None:
    """Makes the switch one of group `number`: shortest path over port 1, `detours`: group -> port."""
    switch.node(node_id=7, group=number, groups=GROUPS)
    switch.route(f"fd00:{destination:x}::", 32, [SHORTEST])
    for via, port in (detours or {}).items():
        switch.insert("detour", {"meta.via": via}, one_shot=[(("towards", {"port": port}), 1)])


def steered(sport: int, src: int = 0, dst: int = 5, hlim: int = 64) -> Packet:
    """A packet from group to group with a source port."""
    return frame(ip(host(dst), src=host(src), hlim=hlim), udp(sport=sport))


PATHS = [i * 7919 & 0x7FFF for i in range(20)]


def test_bit_0_in_the_source_group_takes_the_shortest_path(switch: Switch) -> None:
    group(switch, 0, ALL_GROUPS)
    for path in PATHS:
        send_packet(switch, 6, steered(path))
        verify_packet(switch, steered(path, hlim=63), SHORTEST)
    verify_no_other_packets(switch)


@pytest.mark.parametrize(("source", "destination"), [(0, 5), (2, 5), (4, 5), (5, 1), (0, 2)])
def test_bit_1_in_the_source_group_goes_by_way_of_another_group(switch: Switch, source: int, destination: int) -> None:
    """The hash picks among the groups before, between and behind source and destination."""
    vias = [g for g in range(GROUPS) if g not in (source, destination)]
    ports = dict(zip(vias, (2, 3, 4, 5), strict=True))
    group(switch, source, ports, destination)
    used = set()
    for path in PATHS:
        via = via_of(path, source, destination)
        send_packet(switch, 6, steered(DETOUR | path, source, destination))
        verify_packet(switch, steered(DETOUR | path, source, destination, hlim=63), ports[via])
        used.add(via)
    assert used == set(vias), "these paths show all intermediate groups"
    verify_no_other_packets(switch)


@pytest.mark.parametrize("sport", [3, DETOUR | 3])
@pytest.mark.parametrize("number", [3, 5], ids=["intermediate", "destination"])
def test_outside_the_source_group_both_take_the_shortest_path(switch: Switch, number: int, sport: int) -> None:
    group(switch, number, {1: 2, 2: 3, 4: 5})
    verify_forwarded(switch, 6, steered(sport), steered(sport, hlim=63), SHORTEST)


def test_inside_one_group_there_is_no_detour(switch: Switch) -> None:
    group(switch, 5, {0: 2, 1: 2, 2: 3, 3: 4, 4: 5})
    verify_forwarded(switch, 6, steered(DETOUR | 9, src=5), steered(DETOUR | 9, src=5, hlim=63), SHORTEST)


@pytest.mark.parametrize("groups", [0, 1, 2])
def test_fewer_than_three_groups_have_no_detour(switch: Switch, groups: int) -> None:
    switch.node(node_id=7, group=0, groups=groups)
    switch.route("fd00:1::", 32, [SHORTEST])
    switch.insert("detour", {"meta.via": 1}, one_shot=[(("towards", {"port": 2}), 1)])
    verify_forwarded(switch, 6, steered(DETOUR | 9, dst=1), steered(DETOUR | 9, dst=1, hlim=63), SHORTEST)


def test_a_group_without_an_entry_is_not_used(switch: Switch) -> None:
    group(switch, 0, {2: 3, 3: 4, 4: 5})
    path = next(p for p in PATHS if via_of(p, 0, 5) == 1)
    verify_forwarded(switch, 6, steered(DETOUR | path), steered(DETOUR | path, hlim=63), SHORTEST)


def test_a_group_that_is_cut_off_from_the_destination_is_not_used(switch: Switch) -> None:
    group(switch, 0, ALL_GROUPS)
    switch.route("fd00:3::", 32, [6])
    switch.insert("cut_off", {"meta.via": 1, "destination_group": 5}, action=("NoAction", {}))
    path = next(p for p in PATHS if via_of(p, 0, 5) == 1)
    verify_forwarded(switch, 6, steered(DETOUR | path), steered(DETOUR | path, hlim=63), SHORTEST)
    # Towards another group it still serves.
    path = next(p for p in PATHS if via_of(p, 0, 3) == 1)
    verify_forwarded(switch, 6, steered(DETOUR | path, dst=3), steered(DETOUR | path, dst=3, hlim=63), 2)


def test_detours_over_several_links_of_one_group(switch: Switch) -> None:
    switch.node(node_id=7, group=0, groups=3)
    switch.route("fd00:2::", 32, [SHORTEST])
    choices = [(("towards", {"port": p}), 1) for p in (2, 3, 4)]
    switch.insert("detour", {"meta.via": 1}, one_shot=choices)
    for path in PATHS:
        send_packet(switch, 6, steered(DETOUR | path, dst=2))
    switch.barrier()
    counts = {p: len(switch.waiting(p)) for p in (1, 2, 3, 4)}
    assert counts[1] == 0
    assert all(counts[p] > 0 for p in (2, 3, 4))
    assert sum(counts.values()) == len(PATHS)


@pytest.mark.parametrize("hlim", [0, 1])
def test_an_exceeded_hop_limit_goes_to_the_controller(switch: Switch, hlim: int) -> None:
    group(switch, 0, ALL_GROUPS)
    verify_punted(switch, 6, steered(DETOUR | 5, hlim=hlim), HOP_LIMIT)


@pytest.mark.parametrize("hlim", [2, 32])
def test_a_detour_behind_a_tunnel_costs_one_hop(switch: Switch, hlim: int) -> None:
    """Decapsulation has counted this switch in the inner hop limit already."""
    group(switch, 0, ALL_GROUPS)
    switch.local_sid(usids(7), 48, "un")
    packet = steered(DETOUR | 5, hlim=hlim)
    send_packet(switch, 6, frame(ip(usids(7)), packet["IPv6"]))
    verify_packets(switch, steered(DETOUR | 5, hlim=hlim - 1), [1 + via_of(5, 0, 5)])


def test_a_detour_behind_the_last_segment_costs_one_hop(switch: Switch) -> None:
    group(switch, 0, ALL_GROUPS)
    switch.local_sid(usids(7), 48, "un")
    send_packet(switch, 6, frame(ip(usids(7), hlim=2), srh([host(5)], 1), udp(sport=DETOUR | 5)))
    expected = frame(ip(host(5), hlim=1), srh([host(5)], 0), udp(sport=DETOUR | 5))
    verify_packets(switch, expected, [1 + via_of(5, 0, 5)])


@pytest.mark.parametrize(("src", "dst"), [("2001:db8::1", host(5)), (host(0), "2001:db8:5::1"), (host(0), usids(9))])
def test_only_host_addresses_take_detours(switch: Switch, src: str, dst: str) -> None:
    group(switch, 0, ALL_GROUPS)
    switch.route("2001:db8::", 32, [SHORTEST])
    switch.route(usids(9), 48, [SHORTEST])
    send_packet(switch, 6, frame(ip(dst, src=src), udp(sport=DETOUR | 5)))
    verify_packets(switch, frame(ip(dst, src=src, hlim=63), udp(sport=DETOUR | 5)), [SHORTEST])


@pytest.mark.parametrize(("src", "dst"), [(0, GROUPS), (0, 0xFFFF)])
def test_groups_outside_the_fabric_take_no_detour(switch: Switch, src: int, dst: int) -> None:
    group(switch, 0, ALL_GROUPS)
    switch.route(f"fd00:{dst:x}::", 32, [SHORTEST])
    send_packet(switch, 6, steered(DETOUR | 5, src=src, dst=dst))
    verify_packets(switch, steered(DETOUR | 5, src=src, dst=dst, hlim=63), [SHORTEST])
