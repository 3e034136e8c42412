# SPDX-License-Identifier: Apache-2.0
"""ICMPv6 errors as RFC 4443 wants them; scapy is the oracle for lengths and checksums."""

import asyncio
from types import SimpleNamespace

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import (
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
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from detour.control.punt import (
    PUNT_HOP_LIMIT,
    PUNT_SID_EXHAUSTED,
    Responder,
    TokenBucket,
    answer,
    upper_layer,
)
from detour.topo.address import host_address, locator

SOURCE = host_address(0, 1, 1)
HERE = locator(5)


def frame(payload, dst="fd00:3::1", src="fd00:0:1:1::1", mac="02:00:00:ff:ff:ff") -> bytes:
    return bytes(Ether(dst=mac, src="02:00:00:00:00:07") / IPv6(src=src, dst=dst, hlim=1) / payload)


def checked(reply: bytes | None) -> Ether:
    """The reply, with lengths and checksum confirmed by scapy."""
    assert reply is not None
    packet = Ether(reply)
    assert packet[IPv6].plen == len(reply) - 54
    again = packet.copy()
    del again[IPv6].plen
    del again[IPv6].payload.cksum
    assert bytes(again) == reply
    return packet


def test_time_exceeded() -> None:
    original = frame(UDP(sport=9, dport=4791) / (b"x" * 100))
    packet = checked(answer(original, PUNT_HOP_LIMIT, HERE))
    assert packet.dst == "02:00:00:00:00:07"
    assert (packet[IPv6].src, packet[IPv6].dst) == ("fcbb:bb00:5::", "fd00:0:1:1::1")
    assert packet[ICMPv6TimeExceeded].code == 0
    assert bytes(packet)[54 + 8 :] == original[14:]


def test_quotes_what_fits_into_the_minimal_mtu() -> None:
    original = frame(UDP() / (b"y" * 1400))
    packet = checked(answer(original, PUNT_HOP_LIMIT, HERE))
    assert len(packet) == 14 + 1280
    assert bytes(packet)[62:] == original[14 : 14 + 1232]


def test_parameter_problem_points_at_the_upper_layer() -> None:
    packet = checked(answer(frame(IPv6ExtHdrHopByHop() / UDP() / b"z"), PUNT_SID_EXHAUSTED, HERE))
    assert packet[ICMPv6ParamProblem].code == 4
    assert packet[ICMPv6ParamProblem].ptr == 48


def test_echo_requests_are_answered() -> None:
    assert answer(frame(ICMPv6EchoRequest()), PUNT_HOP_LIMIT, HERE) is not None
    assert answer(frame(ICMPv6ND_NS(tgt="fe80::1")), PUNT_HOP_LIMIT, HERE) is not None


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
        frame(IPv6ExtHdrHopByHop() / UDP())[:58],
        frame(UDP())[:40],
        b"",
    ],
)
def test_silence_where_rfc_4443_wants_it(silent: bytes) -> None:
    assert answer(silent, PUNT_HOP_LIMIT, HERE) is None


def test_other_reasons_are_not_answered() -> None:
    assert answer(frame(UDP()), 10, HERE) is None


def test_upper_layer_behind_a_later_fragment() -> None:
    packet = frame(IPv6ExtHdrFragment(offset=9, nh=17) / Raw(b"b" * 16))[14:]
    upper = upper_layer(packet)
    assert upper is not None
    assert (upper.protocol, upper.offset, upper.fragment) == (17, 48, True)


def test_token_bucket() -> None:
    now = [0.0]
    bucket = TokenBucket(rate=10, burst=2, clock=lambda: now[0])
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    now[0] = 0.1
    assert [bucket.take() for _ in range(2)] == [True, False]
    now[0] = 100
    assert [bucket.take() for _ in range(3)] == [True, True, False]


def test_responder_answers_and_holds_back() -> None:
    sent: list[bytes] = []

    async def packet_out(reply: bytes) -> None:
        sent.append(reply)

    switch = SimpleNamespace(target=SimpleNamespace(device_id=1), packet_out=packet_out)
    responder = Responder({1: 5}, rate=0.001, burst=2)
    for _ in range(4):
        asyncio.run(responder(switch, frame(UDP()), {"reason": PUNT_HOP_LIMIT, "ingress_port": 1}))  # type: ignore[arg-type]
    assert len(sent) == responder.answered == 2
    assert responder.suppressed == 2
