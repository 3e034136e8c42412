# SPDX-License-Identifier: Apache-2.0
"""Truncated and malformed packets of every header: dropped, counted, and the switch goes on."""

from __future__ import annotations

import random

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.ptf.base_test import (
    Switch,
    send_packet,
    verify_dropped,
    verify_forwarded,
    verify_no_other_packets,
    verify_packets,
)
from tests.ptf.packets import frame, host, ip, srh, transit, udp, usids

FORWARDED, MALFORMED, NOT_IPV6, SCOPE = 0, 1, 2, 14
VERDICTS = range(16)
SHORTEST_FRAME = 14
"""What a Linux interface takes; shorter ones come from the controller."""


@pytest.fixture
def routed(switch: Switch) -> Switch:
    """A switch on which every well-formed packet of these tests would get through."""
    switch.local_sid(usids(1), 48, "un")
    switch.route(usids(2), 48, [2])
    switch.route("fd00::", 16, [3])
    return switch


def inside() -> Packet:
    """An inner packet."""
    return ip(host(5), src=host(1)) / transit(1) / udp(payload=b"")


WHOLE = {
    "udp": frame(ip(host(5)), udp(payload=b"")),
    "transit": frame(ip(host(5)), transit(0), udp(payload=b"")),
    "srh": frame(ip(usids(1)), srh([usids(2), usids(3)], 1), udp(payload=b"")),
    "transit and srh": frame(ip(usids(1)), transit(0), srh([usids(2)], 1), udp(payload=b"")),
    "inner": frame(ip(usids(1)), inside()),
    "srh and inner": frame(ip(usids(1)), srh([usids(2)], 0), inside()),
}


def still_works(switch: Switch) -> None:
    """A good packet gets through."""
    verify_forwarded(switch, 1, frame(ip(host(5)), udp()), frame(ip(host(5), hlim=63), udp()), 3)


@pytest.mark.shared_p4
@pytest.mark.parametrize("name", WHOLE)
def test_a_frame_cut_anywhere_is_dropped(routed: Switch, name: str) -> None:
    data = bytes(WHOLE[name])
    for length in range(SHORTEST_FRAME, len(data)):
        send_packet(routed, 1, data[:length])
        if length % 16 == 0:
            routed.barrier(rounds=2)  # a port takes in so many frames at once and no more
    verify_no_other_packets(routed, rounds=2)
    dropped = routed.counter("reasons", MALFORMED)[0]
    assert dropped == len(data) - SHORTEST_FRAME
    still_works(routed)


def test_frames_shorter_than_ethernet_are_dropped(routed: Switch) -> None:
    data = bytes(WHOLE["udp"])
    for length in range(1, 20):
        routed.packet_out(data[:length])
    still_works(routed)
    while routed.counter("reasons", MALFORMED)[0] < 19:
        still_works(routed)
    assert routed.counter("reasons", MALFORMED)[0] == 19


@pytest.mark.parametrize("extra", [1, 8, 60000])
@pytest.mark.parametrize("name", WHOLE)
def test_a_payload_length_beyond_the_frame_is_dropped(routed: Switch, name: str, extra: int) -> None:
    packet = Ether(bytes(WHOLE[name]))
    packet["IPv6"].plen += extra
    verify_dropped(routed, 1, packet, MALFORMED)
    still_works(routed)


WRONG_FIELDS = {
    # packet, layer (which one of several), field, its values, verdict
    "version": ("udp", "IPv6", 1, "version", (0, 4, 5, 7, 15), MALFORMED),
    "inner version": ("inner", "IPv6", 2, "version", (4,), MALFORMED),
    "ether type": ("udp", "Ether", 1, "type", (0x0000, 0x0800, 0x0806, 0x86DC, 0x86DE, 0xFFFF), NOT_IPV6),
}


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_what_is_no_ipv6_is_dropped(routed: Switch, name: str) -> None:
    whole, layer, number, field, values, verdict = WRONG_FIELDS[name]
    for value in values:
        packet = Ether(bytes(WHOLE[whole]))
        setattr(packet.getlayer(layer, number), field, value)
        send_packet(routed, 1, packet)
    verify_no_other_packets(routed)
    assert routed.counter("reasons", verdict)[0] == len(values)


def test_an_inner_packet_of_another_version_is_carried_unread(routed: Switch) -> None:
    for dst, out, port in ((host(5), host(5), 3), (usids(1, 2), usids(2), 2)):
        packet = frame(ip(dst), inside())
        packet["IPv6"].payload.version = 4
        send_packet(routed, 1, packet)
        packet["IPv6"].dst = out
        packet["IPv6"].hlim -= 1
        verify_packets(routed, packet, [port])


UNREAD = {
    # next header and what follows the IPv6 header
    "a datagram shorter than its header": [(17, bytes(length)) for length in range(8)],
    "a header that the packet ends in": [
        (next_header, bytes((17, 9, 4, 9, 9, 0, 0, 0))[:length].ljust(length, b"\x60"))
        for next_header in (0, 41, 43, 60)
        for length in (0, 1, 2, 3, 7, 39)
    ],
    "unknown next headers": [(next_header, bytes(range(20))) for next_header in (6, 44, 50, 58, 59, 255)],
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_cannot_be_read_is_carried(routed: Switch, name: str) -> None:
    for next_header, data in UNREAD[name]:
        for dst, out, port in ((host(5), host(5), 3), (usids(1, 2), usids(2), 2)):
            before, after = (
                bytes(frame(ip(address, nh=next_header, plen=len(data), hlim=hlim))) + data
                for address, hlim in ((dst, 64), (out, 63))
            )
            verify_forwarded(routed, 1, before, after, port)


@pytest.mark.shared_p4
@pytest.mark.parametrize("source", ["ff02::1", "ff0e::1", "::", "::1", "fe80::1", "febf::1"])
def test_a_source_that_no_router_forwards_is_dropped(routed: Switch, source: str) -> None:
    for dst in (host(5), usids(1, 2), usids(1), "2001:db8::1"):
        send_packet(routed, 1, frame(ip(dst, src=source), udp()))
    verify_no_other_packets(routed)
    assert routed.counter("reasons", SCOPE)[0] == 4


@pytest.mark.parametrize("source", ["fec0::1", "::2", "2001:db8::1", "fe00::1"])
def test_any_other_source_is_forwarded(routed: Switch, source: str) -> None:
    send_packet(routed, 1, frame(ip(host(5), src=source), udp()))
    verify_packets(routed, frame(ip(host(5), src=source, hlim=63), udp()), [3])


@pytest.mark.parametrize("kind", [0, 2, 3, 255])
def test_other_routing_headers_are_carried_unread(routed: Switch, kind: int) -> None:
    packet = frame(ip(host(5)), srh([usids(2)], 9), udp())
    packet["IPv6ExtHdrSegmentRouting"].type = kind
    send_packet(routed, 1, packet)
    packet["IPv6"].hlim -= 1
    verify_packets(routed, packet, [3])


@pytest.mark.shared_p4
def test_random_bytes_do_no_harm(routed: Switch) -> None:
    rng = random.Random(4711)
    headers = [bytes(p) for p in WHOLE.values()]
    before = sum(routed.counter("reasons", r)[0] for r in VERDICTS if r != FORWARDED)
    for number in range(200):
        data = bytearray(rng.choice(headers))
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(12, len(data))] = rng.randrange(256)
        send_packet(routed, 1, bytes(data))
        if number % 16 == 0:
            routed.barrier(rounds=7)
    routed.barrier(rounds=7)
    assert sum(routed.counter("reasons", r)[0] for r in VERDICTS if r != FORWARDED) > before
    for port in (1, 2, 3, 4, 5, 6):
        while routed.waiting(port):
            routed.take(port)
    still_works_after_punts(routed)


def still_works_after_punts(switch: Switch) -> None:
    """A good packet gets through, whatever lies with the controller."""
    while not switch.client.packets.empty():
        switch.client.packets.get()
    still_works(switch)
