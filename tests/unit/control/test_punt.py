# SPDX-License-Identifier: Apache-2.0
"""ICMPv6 errors as RFC 4443 wants them; scapy is the oracle for lengths and checksums."""

import asyncio
from types import SimpleNamespace

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6ND_Redirect,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from detour.control.p4runtime import punt
from detour.topo.address import host_address, locator

SOURCE = host_address(0, 1, 1)
HERE = locator(5)


def frame(payload, dst="fd00:3::1", src="fd00:0:1:1::1", mac="02:00:00:ff:ff:ff") -> bytes:
    return bytes(Ether(dst=mac, src="02:00:00:00:00:07") / IPv6(src=src, dst=dst, hlim=1) / payload)


def checked(reply: bytes | None) -> Packet:
    """The reply, with lengths and checksum confirmed by scapy."""
    assert reply is not None
    packet = Ether(reply)
    assert packet[IPv6].plen == len(reply) - 54
    again = packet.copy()
    del again[IPv6].plen
    del again[IPv6].payload.cksum
    assert bytes(again) == reply
    return packet


def test_time_exceeded():
    original = frame(UDP(sport=9, dport=4791) / (b"x" * 100))
    packet = checked(punt.answer(original, punt.PUNT_HOP_LIMIT, HERE))
    assert packet.dst == "02:00:00:00:00:07"
    assert (packet[IPv6].src, packet[IPv6].dst) == ("fcbb:bb00:5::", "fd00:0:1:1::1")
    assert packet[ICMPv6TimeExceeded].code == 0
    assert bytes(packet)[54 + 8 :] == original[14:]


def test_quotes_what_fits_into_the_minimal_mtu():
    original = frame(UDP() / (b"y" * 1400))
    packet = checked(punt.answer(original, punt.PUNT_HOP_LIMIT, HERE))
    assert len(packet) == 14 + 1280
    assert bytes(packet)[62:] == original[14 : 14 + 1232]


def test_parameter_problem_points_at_the_upper_layer():
    packet = checked(punt.answer(frame(IPv6ExtHdrHopByHop() / UDP() / b"z"), punt.PUNT_SID_EXHAUSTED, HERE))
    assert packet[ICMPv6ParamProblem].code == 4
    assert packet[ICMPv6ParamProblem].ptr == 48


def test_destination_unreachable():
    original = frame(UDP(sport=9, dport=4791) / (b"x" * 100), dst="fd00:77::1")
    packet = checked(punt.answer(original, punt.PUNT_NO_ROUTE, HERE))
    assert (packet[IPv6].src, packet[IPv6].dst) == ("fcbb:bb00:5::", "fd00:0:1:1::1")
    assert packet[ICMPv6DestUnreach].code == 0
    assert packet[ICMPv6DestUnreach].unused == 0
    assert bytes(packet)[54 + 8 :] == original[14:]


def test_padding_is_not_quoted():
    original = frame(UDP(sport=9, dport=4791))
    assert punt.answer(original + b"pad", punt.PUNT_NO_ROUTE, HERE) == punt.answer(original, punt.PUNT_NO_ROUTE, HERE)


def chain(*layers: Packet, nh: int | None = None) -> bytes:
    """An IPv6 packet of extension headers; `nh`: what is said to follow the last one."""
    packet = IPv6(src="fd00::1", dst="fcbb:bb00:5::")
    for layer in layers:
        packet = packet / layer
    if nh is not None:
        packet.lastlayer().nh = nh
    return bytes(packet)


def srh(left: int, last: int, length: int, nh: int = 17) -> Packet:
    """A segment routing header of `length` units behind the first eight octets."""
    return Raw(bytes((nh, length, 4, left, last, 0, 0, 0)) + bytes(8 * length))


def behind(layer: Packet, nh: int = 43) -> bytes:
    """`layer` right behind the IPv6 header."""
    return bytes(IPv6(src="fd00::1", dst="fcbb:bb00:5::", nh=nh) / layer)


def options(octets: int, nh: int) -> Packet:
    """A header of options."""
    return Raw(bytes((nh, octets // 8 - 1, 0x1E, 4)) + bytes(octets - 4))


TRANSIT = Raw(b"\x2b\0\x3e\x04\0\0\0\0")


@pytest.mark.parametrize(
    ("packet", "code", "pointer"),
    [
        (behind(srh(2, 0, 2) / UDP()), punt.ERRONEOUS_FIELD, 43),  # segments left beyond last entry + 1
        (behind(srh(1, 1, 2) / UDP()), punt.ERRONEOUS_FIELD, 43),  # last entry beyond the header
        (behind(srh(1, 0, 1) / UDP()), punt.ERRONEOUS_FIELD, 43),
        (behind(srh(1, 0, 0) / UDP()), punt.ERRONEOUS_FIELD, 43),
        (behind(srh(1, 255, 255)), punt.ERRONEOUS_FIELD, 43),
        (behind(TRANSIT / srh(9, 1, 4), nh=0), punt.ERRONEOUS_FIELD, 51),
        (behind(options(16, 43) / srh(9, 1, 4), nh=60), punt.ERRONEOUS_FIELD, 59),
        (behind(srh(9, 8, 18) / UDP()), punt.HEADER_TOO_BIG, 40),
        (behind(srh(0, 8, 18) / UDP()), punt.HEADER_TOO_BIG, 40),
        (behind(options(72, 43) / srh(1, 0, 2), nh=60), punt.HEADER_TOO_BIG, 40),
        (behind(options(8, 60) / options(8, 43) / srh(1, 0, 2), nh=60), punt.TOO_MANY_HEADERS, 48),
        (behind(options(8, 60) / options(8, 43) / srh(1, 0, 2), nh=0), punt.TOO_MANY_HEADERS, 48),
        (behind(srh(0, 0, 2, nh=60) / options(8, 41)), punt.TOO_MANY_HEADERS, 64),
        (behind(options(8, 0) / options(8, 17) / UDP(), nh=60), punt.UNRECOGNIZED_NEXT_HEADER, 40),
        (chain(IPv6ExtHdrRouting(type=3, segleft=1), UDP()), punt.ERRONEOUS_FIELD, 42),
        (chain(IPv6ExtHdrRouting(type=3, segleft=0), UDP()), punt.SR_UPPER_LAYER_HEADER, 48),
        (behind(srh(0, 0, 2) / UDP()), punt.SR_UPPER_LAYER_HEADER, 64),
        (chain(IPv6ExtHdrFragment(offset=0, m=1, nh=17), UDP()), punt.SR_UPPER_LAYER_HEADER, 48),
        (chain(UDP()), punt.SR_UPPER_LAYER_HEADER, 40),
        (chain(nh=59), punt.SR_UPPER_LAYER_HEADER, 40),
        (chain(AH(nh=17, payloadlen=4, icv=b"1" * 12), UDP()), punt.SR_UPPER_LAYER_HEADER, 40),
    ],
)
def test_parameter_problems_of_a_sid(packet, code, pointer):
    assert punt.sid_problem(packet) == (code, pointer)
    original = bytes(Ether(dst="02:00:00:ff:ff:ff", src="02:00:00:00:00:07"))[:12] + b"\x86\xdd" + packet
    reply = checked(
        punt.answer(original, punt.PUNT_BAD_SRH if code == punt.ERRONEOUS_FIELD else punt.PUNT_SID_EXHAUSTED, HERE)
    )
    assert (reply[ICMPv6ParamProblem].code, reply[ICMPv6ParamProblem].ptr) == (code, pointer)


@pytest.mark.parametrize(
    "packet",
    [
        behind(srh(2, 0, 2))[:60],  # cut within the SRH
        behind(options(16, 43))[:50],
        behind(Raw(b"\x11"), nh=43),
        chain(IPv6ExtHdrFragment(offset=9, nh=17), Raw(b"b" * 16)),
        behind(Raw(bytes(39)), nh=41),
    ],
)
def test_nothing_is_said_of_headers_that_are_not_there(packet):
    assert punt.sid_problem(packet) is None


def test_echo_requests_are_answered():
    assert punt.answer(frame(ICMPv6EchoRequest()), punt.PUNT_HOP_LIMIT, HERE) is not None
    assert punt.answer(frame(ICMPv6EchoRequest()), punt.PUNT_NO_ROUTE, HERE) is not None
    assert punt.answer(frame(ICMPv6ND_NS(tgt="fe80::1")), punt.PUNT_HOP_LIMIT, HERE) is not None


@pytest.mark.parametrize(
    "silent",
    [
        frame(ICMPv6TimeExceeded() / b"a"),
        frame(ICMPv6ParamProblem() / b"a"),
        frame(IPv6ExtHdrHopByHop() / ICMPv6TimeExceeded() / b"a"),
        frame(IPv6ExtHdrRouting() / ICMPv6TimeExceeded() / b"a"),
        frame(ICMPv6ND_Redirect() / b"a"),
        frame(UDP(), dst="ff02::1"),
        frame(UDP(), src="ff02::1"),
        frame(UDP(), src="::"),
        frame(UDP(), mac="ff:ff:ff:ff:ff:ff"),
        frame(UDP(), mac="33:33:00:00:00:01"),
        frame(IPv6ExtHdrFragment(offset=9, nh=58) / Raw(b"b" * 16)),
        frame(IPv6ExtHdrFragment(offset=9, nh=60) / Raw(b"\x11\0\x1e\4" + bytes(12))),
        frame(IPv6ExtHdrHopByHop() / UDP())[:58],
        frame(AH(nh=58, payloadlen=4, icv=b"1" * 12) / ICMPv6DestUnreach() / b"a"),
        frame(UDP())[:40],
        b"",
    ],
)
@pytest.mark.parametrize(
    "reason", [punt.PUNT_NO_ROUTE, punt.PUNT_HOP_LIMIT, punt.PUNT_SID_EXHAUSTED, punt.PUNT_BAD_SRH]
)
def test_silence_where_rfc_4443_wants_it(silent, reason):
    assert punt.answer(silent, reason, HERE) is None


def test_other_reasons_are_not_answered():
    assert punt.answer(frame(UDP()), 10, HERE) is None


def test_upper_layer_behind_a_later_fragment():
    packet = frame(IPv6ExtHdrFragment(offset=9, nh=17) / Raw(b"b" * 16))[14:]
    upper = punt.upper_layer(packet)
    assert upper is not None
    assert (upper.protocol, upper.offset, upper.fragment) == (17, 48, True)


def test_token_bucket():
    now = [0.0]
    bucket = punt.TokenBucket(rate=10, burst=2, clock=lambda: now[0])
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    now[0] = 0.1
    assert [bucket.take() for _ in range(2)] == [True, False]
    now[0] = 100
    assert [bucket.take() for _ in range(3)] == [True, True, False]


def test_responder_answers_and_holds_back():
    sent: list[bytes] = []

    async def packet_out(reply: bytes) -> None:
        sent.append(reply)

    switch = SimpleNamespace(target=SimpleNamespace(device_id=1), packet_out=packet_out)
    responder = punt.Responder({1: 5}, rate=0.001, burst=2)
    for _ in range(4):
        asyncio.run(responder(switch, frame(UDP()), {"reason": punt.PUNT_HOP_LIMIT, "ingress_port": 1}))  # type: ignore[arg-type]
    assert len(sent) == responder.answered == 2
    assert responder.suppressed == 2
