# SPDX-License-Identifier: Apache-2.0
"""spraypoint.p4: what comes from a host is sprayed, what comes from a switch is pointed on, by the port of entry alone.

The switch is switch 3 of group 0. Hosts are at ports 5 and 6, other switches at ports 1 to 4; packets for switch 5 of
the group point to ports 3 and 4.
"""

from __future__ import annotations

from collections import Counter

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from detour.control.routes.hashes import pick_member
from tests.ptf.base_test import Switch, send_packet, verify_forwarded, verify_punted
from tests.ptf.packets import frame, host, ip, number, udp, usids

HOST_PORT, OWN_PORT = 5, 6
AROUND = [1, 2, 3, 4]
POINTED = [3, 4]
PUNT_HOP_LIMIT = 6
NODE, MAC = 4, 0x02_00_00_00_00_09


def packet(destination: str = host(0, 5, 1), hlim: int = 64, sport: int = 77) -> Packet:
    return frame(ip(destination, src=host(0, 3), hlim=hlim), udp(sport=sport))


def prepared(switch: Switch, how: tuple[str, dict[str, int]] | None = None) -> None:
    switch.node(node_id=NODE, group=0, groups=0)
    switch.route("fd00:0:5::", 48, POINTED)
    switch.route("fd00:0:3:1::", 64, [OWN_PORT], mac=MAC)
    switch.route(usids(6), 48, [2])
    for port in (HOST_PORT, OWN_PORT):
        switch.insert("host_ports", {"meta.in_port": port}, action=("host", {}))
    switch.insert("own_hosts", {"destination_switch": number(host(0, 3)) >> 80}, action=("NoAction", {}))
    spray = [(("towards", {"port": port}), 1) for port in AROUND]
    switch.insert("spray", {"from_host": 1}, one_shot=spray)
    if how is not None:
        switch.set_default("granularity", how)


def left(switch: Switch, into: int, packets: list[Packet]) -> dict[int, list[Packet]]:
    """What left for other switches, by port."""
    for each in packets:
        send_packet(switch, into, each)
        switch.barrier()
    return {port: [Ether(data) for data in switch.waiting(port)] for port in AROUND if switch.waiting(port)}


SPORTS = range(100, 164)
FLOWS = [packet(sport=sport) for sport in SPORTS]


def test_flows_from_hosts_are_sprayed_over_all_neighbours(spraypoint: Switch) -> None:
    prepared(spraypoint)
    out = left(spraypoint, HOST_PORT, FLOWS)
    hashed = Counter(AROUND[pick_member(sport, NODE, len(AROUND))] for sport in SPORTS)
    assert {port: len(packets) for port, packets in out.items()} == hashed
    assert sorted(out) == AROUND
    assert all(each.hlim == 63 for packets in out.values() for each in packets)


def test_flows_from_switches_are_pointed_on(spraypoint: Switch) -> None:
    prepared(spraypoint)
    out = left(spraypoint, 1, FLOWS)
    assert sorted(out) == POINTED
    assert sum(map(len, out.values())) == len(FLOWS)


def test_a_flow_keeps_its_way(spraypoint: Switch) -> None:
    prepared(spraypoint)
    assert len(left(spraypoint, HOST_PORT, [packet()] * 10)) == 1


@pytest.mark.parametrize(("into", "ports"), [(HOST_PORT, AROUND), (1, POINTED)], ids=["sprayed", "pointed"])
def test_every_packet_can_have_its_own_way(spraypoint: Switch, into: int, ports: list[int]) -> None:
    prepared(spraypoint, ("by_packet", {}))
    # 1 in 2.5e7 that one of four is never drawn in 64.
    assert sorted(left(spraypoint, into, [packet()] * 64)) == ports


def test_a_flow_that_pauses_can_have_another_way(spraypoint: Switch) -> None:
    """A gap of no time at all makes every packet a flowlet; one of an hour makes all packets one."""
    prepared(spraypoint, ("by_flowlet", {"gap": 0}))
    assert len(left(spraypoint, HOST_PORT, [packet()] * 32)) > 1
    for port in AROUND:
        while spraypoint.waiting(port):
            spraypoint.take(port)
    spraypoint.set_default("granularity", ("by_flowlet", {"gap": 3600 * 10**9}))
    assert len(left(spraypoint, HOST_PORT, [packet()] * 10)) == 1


def test_hosts_of_the_same_switch_are_not_sprayed(spraypoint: Switch) -> None:
    prepared(spraypoint)
    expected = packet(host(0, 3, 1), hlim=63)
    expected[Ether].dst = "02:00:00:00:00:09"
    verify_forwarded(spraypoint, HOST_PORT, packet(host(0, 3, 1)), expected, OWN_PORT)


def test_a_list_of_usids_is_followed(spraypoint: Switch) -> None:
    prepared(spraypoint)
    listed = frame(ip(usids(6, 0x8007)), udp())
    expected = frame(ip(usids(6, 0x8007), hlim=63), udp())
    verify_forwarded(spraypoint, HOST_PORT, listed, expected, 2)


@pytest.mark.parametrize("into", [HOST_PORT, 1])
def test_the_hop_limit_counts(spraypoint: Switch, into: int) -> None:
    prepared(spraypoint)
    verify_punted(spraypoint, into, packet(hlim=1), PUNT_HOP_LIMIT)


def test_without_neighbours_the_routes_serve(spraypoint: Switch) -> None:
    spraypoint.node(node_id=NODE, group=0, groups=0)
    spraypoint.route("fd00:0:5::", 48, [4])
    spraypoint.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("host", {}))
    verify_forwarded(spraypoint, HOST_PORT, packet(), packet(hlim=63), 4)
