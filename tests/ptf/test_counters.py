# SPDX-License-Identifier: Apache-2.0
"""Every counter counts the packets and bytes that it says it does."""

from __future__ import annotations

import pytest

from tests.ptf.base_test import Switch, send_packet, verify_packet
from tests.ptf.packets import frame, host, ip, udp, usids

FORWARDED, NOT_IPV6, NO_ROUTE, UNKNOWN_SID, DENIED = 0, 2, 3, 4, 5


def send_and_take(switch: Switch, count: int, dst: str, port: int) -> int:
    """Forwards `count` packets; returns their bytes."""
    octets = 0
    for size in range(count):
        packet = frame(ip(dst), udp(payload=bytes(size)))
        send_packet(switch, 1, packet)
        packet["IPv6"].hlim -= 1
        verify_packet(switch, packet, port)
        octets += len(packet)
    return octets


def test_ports_count_packets_and_bytes_on_every_stage(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    octets = send_and_take(switch, 5, host(5), 4)
    assert switch.counter("port_rx", 1) == (5, octets)
    assert switch.counter("port_enqueued", 4) == (5, octets)
    assert switch.counter("port_tx", 4) == (5, octets)
    assert switch.counter("reasons", FORWARDED) == (5, octets)
    for port in (2, 3, 5, 6):
        assert switch.counter("port_rx", port) == (0, 0)
        assert switch.counter("port_tx", port) == (0, 0)


def test_dropped_packets_are_received_but_not_enqueued(switch: Switch) -> None:
    for dst, reason in ((host(5), NO_ROUTE), (usids(9), UNKNOWN_SID)):
        before = switch.counter("port_rx", 1)[0]
        packet = frame(ip(dst), udp())
        send_packet(switch, 1, packet)
        switch.barrier()
        assert switch.counter("reasons", reason) == (1, len(packet))
        assert switch.counter("port_rx", 1)[0] - before == 1 + 6, "the packet and six of the barrier"
    assert switch.counter("port_enqueued", 511) == (0, 0)


def test_routes_count_what_they_forward(switch: Switch) -> None:
    wide = switch.route("fd00:5::", 32, [4])
    narrow = switch.route("fd00:5:1::", 48, [3])
    send_and_take(switch, 3, host(5, 2), 4)
    send_and_take(switch, 2, host(5, 1), 3)
    assert switch.direct_counter(wide) == 3
    assert switch.direct_counter(narrow) == 2


def test_sids_count_what_they_catch(switch: Switch) -> None:
    switch.route(usids(2), 48, [2])
    un = switch.local_sid(usids(1), 48, "un")
    ua = switch.local_sid(usids(0xE003), 48, "ua", port=3)
    for ids, port in (((1, 2), 2), ((1, 2), 2), ((0xE003, 2), 3)):
        send_packet(switch, 1, frame(ip(usids(*ids)), udp()))
        verify_packet(switch, frame(ip(usids(2), hlim=63), udp()), port)
    assert switch.direct_counter(un) == 2
    assert switch.direct_counter(ua) == 1


def test_detours_count_what_goes_by_them(switch: Switch) -> None:
    switch.node(group=0, groups=3)
    detour = switch.insert("detour", {"meta.via": 1}, one_shot=[(("towards", {"port": 3}), 1)])
    packet = frame(ip(host(2)), udp(sport=0x8001))
    for _ in range(3):
        send_packet(switch, 1, packet)
        verify_packet(switch, frame(ip(host(2), hlim=63), udp(sport=0x8001)), 3)
    assert switch.direct_counter(detour) == 3


@pytest.mark.shared_p4
def test_access_rules_count(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    match = {"hdr.ipv6.next_hdr": (17, 0xFF), "hdr.udp.dst_port": (4000, 5000)}
    permit = switch.insert("rules", match, action=("permit", {}), priority=10)
    deny = switch.insert("rules", {"std.ingress_port": (1, 0x1FF)}, action=("deny", {}), priority=5)
    send_and_take(switch, 4, host(5), 4)
    send_packet(switch, 1, frame(ip(host(5)), udp(dport=53)))
    send_packet(switch, 2, frame(ip(host(5)), udp(dport=53)))
    verify_packet(switch, frame(ip(host(5), hlim=63), udp(dport=53)), 4)
    assert switch.direct_counter(permit) == 4
    assert switch.direct_counter(deny) == 1
    assert switch.counter("reasons", DENIED)[0] == 1
    switch.client.delete(deny)  # it would drop barrier packets


def test_counters_can_be_set_and_cleared(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    send_and_take(switch, 2, host(5), 4)
    cell = switch.schema.counter("port_tx", 4)
    cell.counter_entry.data.packet_count = 0
    cell.counter_entry.data.byte_count = 0
    switch.client.modify(cell)
    assert switch.counter("port_tx", 4) == (0, 0)
    octets = send_and_take(switch, 1, host(5), 4)
    assert switch.counter("port_tx", 4) == (1, octets)


def test_all_cells_of_a_counter_can_be_read_at_once(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    send_and_take(switch, 3, host(5), 4)
    cells = switch.client.read(switch.schema.counter("port_tx"))
    assert len(cells) == 512
    counts = {c.counter_entry.index.index: c.counter_entry.data.packet_count for c in cells}
    assert counts[4] == 3
    assert sum(counts.values()) == 3
