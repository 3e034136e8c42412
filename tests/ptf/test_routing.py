# SPDX-License-Identifier: Apache-2.0
"""Longest-prefix routes, ECMP, hop limits and what has no route."""

from __future__ import annotations

import pytest
from scapy.packet import Packet, Raw

from tests.ptf.base_test import (
    Switch,
    send_packet,
    verify_dropped,
    verify_forwarded,
    verify_no_other_packets,
    verify_packet,
    verify_packets,
    verify_punted,
)
from tests.ptf.packets import frame, host, ip, udp

HOP_LIMIT = 6
NO_ROUTE = 3
PUNT_LIMIT = 9
SCOPE = 14
NOT_IPV6 = 2


def test_the_longest_prefix_wins(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [2])
    switch.route("fd00:5:1::", 48, [3])
    switch.route("fd00:5:1:2::", 64, [4])
    for dst, port in ((host(5, 9), 2), (host(5, 1, 9), 3), (host(5, 1, 2), 4)):
        packet = frame(ip(dst), udp())
        send_packet(switch, 1, packet)
        packet["IPv6"].hlim -= 1
        verify_packets(switch, packet, [port])


@pytest.mark.shared_p4
def test_the_last_hop_writes_the_hosts_mac(switch: Switch) -> None:
    switch.route("fd00::", 64, [2], mac=0x020000000042)
    packet = frame(ip(host(0)), udp())
    send_packet(switch, 1, packet)
    packet["IPv6"].hlim -= 1
    packet["Ether"].dst = "02:00:00:00:00:42"
    verify_packets(switch, packet, [2])


def test_other_hops_leave_macs_alone(switch: Switch) -> None:
    switch.route("fd00::", 64, [2])
    verify_forwarded(switch, 3, frame(ip(host(0)), udp()), frame(ip(host(0), hlim=63), udp()), 2)


@pytest.mark.parametrize("hlim", [0, 1, 64])
def test_no_route_goes_to_the_controller(switch: Switch, hlim: int) -> None:
    packet = frame(ip(host(7), hlim=hlim), udp())
    verify_punted(switch, 3, packet, NO_ROUTE)
    assert switch.counter("reasons", NO_ROUTE)[0] == 1


@pytest.mark.shared_p4
def test_multicast_without_a_route_is_dropped_and_counted(switch: Switch) -> None:
    verify_dropped(switch, 1, frame(ip("ff02::1"), udp()), SCOPE)


def test_multicast_with_a_route_is_forwarded(switch: Switch) -> None:
    switch.route("ff0e::", 16, [2])
    verify_forwarded(switch, 1, frame(ip("ff0e::1"), udp()), frame(ip("ff0e::1", hlim=63), udp()), 2)


def test_other_protocols_than_ipv6_are_dropped_and_counted(switch: Switch) -> None:
    switch.route("fd00::", 16, [2])
    packet = frame(ip(host(7)), udp())
    packet["Ether"].type = 0x0800
    verify_dropped(switch, 1, packet, NOT_IPV6)


@pytest.mark.shared_p4
@pytest.mark.parametrize("group", [0, 5], ids=["in this group", "to another"])
@pytest.mark.parametrize("hlim", [0, 1])
def test_an_exceeded_hop_limit_goes_to_the_controller(switch: Switch, hlim: int, group: int) -> None:
    switch.route(f"fd00:{group}::", 32, [2])
    verify_punted(switch, 4, frame(ip(host(group), hlim=hlim), udp()), HOP_LIMIT)


def test_hop_limit_two_still_goes_through(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [2])
    verify_forwarded(switch, 4, frame(ip(host(5), hlim=2), udp()), frame(ip(host(5), hlim=1), udp()), 2)


def path_of(switch: Switch, sport: int, fl: int = 0, layer: Packet | None = None) -> int:
    """The port that a packet with this UDP source port leaves by."""
    packet = frame(ip(host(5), fl=fl), udp(sport=sport)) if layer is None else frame(ip(host(5), fl=fl, nh=59), layer)
    send_packet(switch, 1, packet)
    packet["IPv6"].hlim -= 1
    switch.barrier()
    ports = [p for p in (2, 3, 4, 5) if switch.waiting(p)]
    assert len(ports) == 1
    verify_packet(switch, packet, ports[0])
    return ports[0]


PATHS = [i * 7919 & 0x7FFF for i in range(24)]


def test_equal_paths_are_all_used_and_one_source_port_keeps_to_one(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [2, 3, 4, 5])
    chosen = {sport: path_of(switch, sport) for sport in PATHS}
    assert set(chosen.values()) == {2, 3, 4, 5}
    assert all(path_of(switch, sport) == port for sport, port in list(chosen.items())[:4])


def test_switches_choose_independently(switch: Switch) -> None:
    """Else the links behind one switch's choice that agree with another one's would never be used."""
    switch.route("fd00:5::", 32, [2, 3])
    first = [path_of(switch, sport) for sport in PATHS]
    switch.node(node_id=2)
    second = [path_of(switch, sport) for sport in PATHS]
    assert set(zip(first, second, strict=True)) == {(2, 2), (2, 3), (3, 2), (3, 3)}


def test_the_flow_label_is_the_path_of_what_is_not_udp(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [2, 3, 4, 5])
    chosen = {path_of(switch, 0, fl=fl, layer=Raw(b"no UDP")) for fl in PATHS}
    assert chosen == {2, 3, 4, 5}


def test_bytes_behind_the_ipv6_packet_are_carried_along(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [2])
    padding = b"\0" * 7
    send_packet(switch, 1, bytes(frame(ip(host(5)), udp())) + padding)
    verify_packets(switch, bytes(frame(ip(host(5), hlim=63), udp())) + padding, [2])


def test_large_and_minimal_packets(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [2])
    for size in (0, 1, 1000, 1400):
        send_packet(switch, 1, frame(ip(host(5)), udp(payload=bytes(size))))
        verify_packet(switch, frame(ip(host(5), hlim=63), udp(payload=bytes(size))), 2)
    verify_no_other_packets(switch)
