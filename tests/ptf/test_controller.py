# SPDX-License-Identifier: Apache-2.0
"""Packets to and from the controller: packet-in, packet-out, access rules, copies, the punt meter."""

from __future__ import annotations

import pytest

from tests.ptf.base_test import (
    Mask,
    Switch,
    send_packet,
    verify_forwarded,
    verify_no_other_packets,
    verify_packet,
    verify_packet_in,
    verify_packets,
    verify_punted,
)
from tests.ptf.p4rt import clone_session
from tests.ptf.packets import frame, host, ip, number, transit, udp, usids
from tests.ptf.platforms import CPU_PORT

DENIED, HOP_LIMIT, EXHAUSTED, PUNT_LIMIT, PUNTED = 5, 6, 7, 9, 10
CPU_SESSION = 1


@pytest.mark.shared_p4
@pytest.mark.parametrize("port", [1, 4, 6])
def test_packet_out_leaves_by_the_port_named_untouched(switch: Switch, port: int) -> None:
    packet = frame(ip(host(5), hlim=1), transit(5), udp())
    switch.packet_out(bytes(packet), port)
    verify_packet(switch, Mask(packet).ignore(14 + 40 + 4, 4), port)
    verify_no_other_packets(switch)


def test_packet_out_that_is_no_ipv6(switch: Switch) -> None:
    data = bytes(range(40))
    switch.packet_out(data, 3)
    verify_packets(switch, data, [3])


def test_packet_out_without_a_port_is_routed(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    switch.packet_out(bytes(frame(ip(host(5)), udp())))
    verify_packets(switch, frame(ip(host(5), hlim=63), udp()), [4])


def test_packet_out_through_own_usids_goes_round(switch: Switch) -> None:
    switch.local_sid(usids(1), 48, "un")
    switch.route(usids(2), 48, [2])
    switch.packet_out(bytes(frame(ip(usids(1, 1, 1, 2)), udp())))
    verify_packet(switch, frame(ip(usids(2), hlim=61), udp()), 2)
    verify_no_other_packets(switch)


def test_packet_out_without_a_port_can_come_back(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    packet = frame(ip(host(5), hlim=1), udp())
    switch.packet_out(bytes(packet))
    verify_packet_in(switch, packet, CPU_PORT, HOP_LIMIT)


def rule(switch: Switch, action: str, priority: int = 10, **match: object) -> object:
    """An access rule; `match`: port, dport (UDP) or dst (address)."""
    fields: dict[str, object] = {}
    if "port" in match:
        fields["std.ingress_port"] = (match["port"], 0x1FF)
    if "dport" in match:
        fields["hdr.udp.dst_port"] = (match["dport"], match["dport"])
    if "dst" in match:
        fields["hdr.ipv6.dst_addr"] = (number(str(match["dst"])), (1 << 128) - 1)
    return switch.insert("rules", fields, action=(action, {}), priority=priority)


def test_a_denied_packet_is_dropped(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    rule(switch, "deny", dport=53)
    send_packet(switch, 1, frame(ip(host(5)), udp(dport=53)))
    verify_no_other_packets(switch)
    verify_forwarded(switch, 1, frame(ip(host(5)), udp(dport=54)), frame(ip(host(5), hlim=63), udp(dport=54)), 4)


@pytest.mark.shared_p4
def test_a_punted_packet_goes_to_the_controller_only(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    rule(switch, "punt", dport=179)
    verify_punted(switch, 3, frame(ip(host(5)), transit(17), udp(dport=179)), PUNTED)


@pytest.mark.shared_p4
def test_a_copied_packet_goes_to_the_controller_too(switch: Switch) -> None:
    switch.client.insert(clone_session(CPU_SESSION, (CPU_PORT, 1)))
    switch.route("fd00:5::", 32, [4])
    rule(switch, "copy_to_cpu", dport=179)
    packet = frame(ip(host(5)), udp(dport=179))
    send_packet(switch, 3, packet)
    verify_packet_in(switch, packet, 3, PUNTED)
    verify_packets(switch, frame(ip(host(5), hlim=63), udp(dport=179)), [4])


def test_a_copy_can_be_cut(switch: Switch) -> None:
    if switch.platform.name == "bmv2":
        pytest.skip("PI for BMv2 refuses clone sessions that cut packets")
    switch.client.insert(clone_session(CPU_SESSION, (CPU_PORT, 1), length=64))
    switch.route("fd00:5::", 32, [4])
    rule(switch, "copy_to_cpu", dport=179)
    packet = frame(ip(host(5)), udp(dport=179, payload=bytes(300)))
    send_packet(switch, 3, packet)
    # The cut is made on what leaves the switch: the four bytes for the controller count.
    verify_packet_in(switch, bytes(packet)[:60], 3, PUNTED)
    verify_packets(switch, frame(ip(host(5), hlim=63), udp(dport=179, payload=bytes(300))), [4])


def test_a_copy_of_a_dropped_packet(switch: Switch) -> None:
    switch.client.insert(clone_session(CPU_SESSION, (CPU_PORT, 1)))
    rule(switch, "copy_to_cpu", dport=179)
    verify_punted(switch, 2, frame(ip(usids(9)), udp(dport=179)), PUNTED)


def test_without_a_session_nothing_is_copied(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    rule(switch, "copy_to_cpu", dport=179)
    verify_forwarded(switch, 3, frame(ip(host(5)), udp(dport=179)), frame(ip(host(5), hlim=63), udp(dport=179)), 4)


@pytest.fixture
def round_trip(switch: Switch) -> Switch:
    """Node 1: packets for its uSIDs go round; node 2 is behind port 2."""
    switch.client.insert(clone_session(CPU_SESSION, (CPU_PORT, 1)))
    switch.local_sid(usids(1), 48, "un")
    switch.route(usids(2), 48, [2])
    return switch


def test_a_rule_on_a_port_holds_in_later_rounds(round_trip: Switch) -> None:
    rule(round_trip, "deny", port=3, dst=usids(1, 2))
    packet = frame(ip(usids(1, 1, 2)), udp())
    send_packet(round_trip, 3, packet)
    verify_no_other_packets(round_trip, rounds=2)
    assert round_trip.counter("reasons", DENIED)[0] == 1
    send_packet(round_trip, 4, packet)
    round_trip.barrier(rounds=2)
    verify_packets(round_trip, frame(ip(usids(2), hlim=62), udp()), [2])


def test_a_packet_is_copied_once_however_often_it_goes_round(round_trip: Switch) -> None:
    rule(round_trip, "copy_to_cpu", dport=179)
    packet = frame(ip(usids(1, 1, 1, 2)), udp(dport=179))
    send_packet(round_trip, 3, packet)
    verify_packet_in(round_trip, packet, 3, PUNTED)
    round_trip.barrier(rounds=3)
    verify_packets(round_trip, frame(ip(usids(2), hlim=61), udp(dport=179)), [2])


def test_a_rule_may_copy_in_a_later_round(round_trip: Switch) -> None:
    rule(round_trip, "copy_to_cpu", port=3, dst=usids(1, 2))
    send_packet(round_trip, 3, frame(ip(usids(1, 1, 2)), udp()))
    verify_packet_in(round_trip, frame(ip(usids(1, 2), hlim=63), udp()), 3, PUNTED)
    round_trip.barrier(rounds=2)
    verify_packets(round_trip, frame(ip(usids(2), hlim=62), udp()), [2])


def test_the_controllers_own_packets_are_not_copied_in_later_rounds(round_trip: Switch) -> None:
    rule(round_trip, "copy_to_cpu", dst=usids(1, 2))
    round_trip.packet_out(bytes(frame(ip(usids(1, 1, 2)), udp())))
    verify_packet(round_trip, frame(ip(usids(2), hlim=62), udp()), 2)
    verify_no_other_packets(round_trip)


def test_the_rule_with_the_highest_priority_decides(switch: Switch) -> None:
    switch.route("fd00:5::", 32, [4])
    rule(switch, "deny", priority=1, port=1)
    rule(switch, "permit", priority=2, port=1)
    verify_forwarded(switch, 1, frame(ip(host(5)), udp()), frame(ip(host(5), hlim=63), udp()), 4)


@pytest.mark.shared_p4
def test_the_punt_meter_bounds_what_the_controller_gets(switch: Switch) -> None:
    # One packet a second with a burst of four: a burst of ten gets four through, five if a second begins.
    switch.client.modify(switch.schema.meter("punt_meter", HOP_LIMIT, (1, 4, 1, 4)))
    switch.route("fd00:5::", 32, [4])
    packet = frame(ip(host(5), hlim=1), udp())
    for _ in range(10):
        send_packet(switch, 1, packet)
    switch.barrier()
    dropped = switch.counter("reasons", PUNT_LIMIT)[0]
    passed = switch.counter("reasons", HOP_LIMIT)[0]
    assert passed in (4, 5)
    assert passed + dropped == 10
    for _ in range(passed):
        verify_packet_in(switch, packet, 1, HOP_LIMIT)
    assert switch.client.packets.empty()


def test_reasons_are_metered_apart(switch: Switch) -> None:
    switch.client.modify(switch.schema.meter("punt_meter", HOP_LIMIT, (1, 1, 1, 1)))
    switch.local_sid(usids(1), 48, "un")
    packet = frame(ip(usids(1)), udp())
    for _ in range(6):
        send_packet(switch, 1, packet)
    for _ in range(6):
        verify_packet_in(switch, packet, 1, EXHAUSTED)
    verify_no_other_packets(switch)
