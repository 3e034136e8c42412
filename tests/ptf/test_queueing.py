# SPDX-License-Identifier: Apache-2.0
"""Queuing delay in the Transit Measurement option and ECN marks, over a queue that is held up."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from scapy.layers.inet6 import HBHOptUnknown, IPv6ExtHdrHopByHop
from scapy.packet import Packet

from tests.ptf.base_test import (
    Mask,
    Switch,
    send_packet,
    verify_forwarded,
    verify_no_other_packets,
    verify_packet,
    verify_packets,
)
from tests.ptf.packets import delay_of, frame, host, ip, transit, udp

SLOW = 2
RATE = 20
"""Packets a second through the port that is held up: a burst enters before the first of it has left even where the
machine is busy."""
BURST = 30
"""BMv2 takes in 32 frames at once and loses more."""
PERIOD_US = 1_000_000 // RATE
NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3
ALWAYS = 0xFFFFFFFF


@pytest.fixture
def slow(switch: Switch) -> Switch:
    """Routes group 5 over a port that is held up and group 6 over one that is not."""
    switch.route("fd00:5::", 32, [SLOW])
    switch.route("fd00:6::", 32, [3])
    return switch


def burst(switch: Switch, packets: list[Packet], port: int = SLOW) -> list[bytes]:
    """Sends packets at once through the slow port and returns what comes out, in order."""
    switch.platform.slow_down(port, RATE)
    for packet in packets:
        send_packet(switch, 1, packet)
    received = [switch.take(port) for _ in packets]
    switch.platform.slow_down(port, 1_000_000)
    return received


def delayed(group: int, delay: int = 0, **fields: Any) -> Packet:
    """A packet with the Transit Measurement option."""
    return frame(ip(host(group), **fields), transit(delay), udp())


def test_the_delay_grows_with_the_queue(slow: Switch) -> None:
    delays = [delay_of(d) for d in burst(slow, [delayed(5)] * 8)]
    for position, (before, after) in enumerate(itertools.pairwise(delays)):
        assert after > before, f"packet {position + 1} waited behind packet {position}: {delays}"
    assert delays[7] - delays[1] == pytest.approx(6 * PERIOD_US, rel=0.25), delays


def test_the_delay_is_added_to_what_there_is(slow: Switch) -> None:
    delays = [delay_of(d) for d in burst(slow, [delayed(5, delay=d * 1_000_000) for d in range(6)])]
    queued = [d - i * 1_000_000 for i, d in enumerate(delays)]
    assert queued == sorted(queued)
    assert queued[5] >= 4 * PERIOD_US * 0.75


def test_the_delay_saturates(slow: Switch) -> None:
    high = 0xFFFFFFFF - 2 * PERIOD_US
    received = burst(slow, [delayed(5, delay=high)] * 8)
    delays = [delay_of(d) for d in received]
    assert delays[0] < 0xFFFFFFFF
    assert delays[6:] == [0xFFFFFFFF, 0xFFFFFFFF]
    assert all(d >= high for d in delays), "it never wraps"


def test_the_greatest_delay_stays(slow: Switch) -> None:
    verify_forwarded(slow, 1, delayed(6, delay=0xFFFFFFFF), delayed(6, delay=0xFFFFFFFF, hlim=63), 3)


def test_nothing_but_delay_and_hop_limit_changes(slow: Switch) -> None:
    (received,) = burst(slow, [delayed(5, delay=12345)])
    assert Mask(delayed(5, hlim=63)).ignore(14 + 40 + 4, 4).matches(received)
    assert 12345 <= delay_of(received) < 12345 + 1_000_000


def test_an_idle_queue_adds_little(slow: Switch) -> None:
    send_packet(slow, 1, delayed(6))
    started = time.monotonic()
    received = slow.take(3)
    assert delay_of(received) <= (time.monotonic() - started) * 1e6 + 1_000_000


@pytest.mark.parametrize(
    "header",
    [
        IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x3F, optlen=4, optdata=b"\1\2\3\4")]),
        IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x3E, optlen=2, optdata=b"\1\2")]),
        IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x3E, optlen=12, optdata=bytes(12))]),
    ],
    ids=["another option", "another length", "a longer header"],
)
def test_other_hop_by_hop_headers_are_not_touched(slow: Switch, header: IPv6ExtHdrHopByHop) -> None:
    (received,) = burst(slow, [frame(ip(host(5)), header, udp())])
    assert received == bytes(frame(ip(host(5), hlim=63), header, udp()))


def test_an_option_inside_an_inner_packet_is_not_touched(slow: Switch) -> None:
    inside = ip(host(7)) / transit(77) / udp()
    (received,) = burst(slow, [frame(ip(host(5)), inside)])
    assert received == bytes(frame(ip(host(5), hlim=63), inside))


def test_a_higher_priority_overtakes(slow: Switch) -> None:
    slow.insert("dscp", {"hdr.ipv6.dscp": 48}, action=("set_priority", {"priority": 7}))
    low = [frame(ip(host(5), fl=n), udp()) for n in range(8)]
    high = frame(ip(host(5), fl=99, tc=48 << 2), udp())
    received = burst(slow, [*low, high])
    order = [int.from_bytes(data[14:18], "big") & 0xFFFFF for data in received]
    assert order.index(99) < 4, order
    assert [n for n in order if n != 99] == list(range(8))


def marking(switch: Switch, action: str, port: int = SLOW, **arguments: int) -> None:
    """Marks at a port."""
    switch.insert("marking", {"std.egress_port": port}, action=(action, arguments))


def marks(received: list[bytes]) -> list[bool]:
    """Which of the packets say congestion experienced."""
    return [(data[15] >> 4) & 3 == CE for data in received]


def plain(group: int, ecn: int, hlim: int = 64) -> Packet:
    """A packet with an ECN codepoint."""
    return frame(ip(host(group), tc=ecn, hlim=hlim), udp())


@pytest.mark.parametrize("ecn", [ECT0, ECT1])
def test_step_marks_above_k(slow: Switch, ecn: int) -> None:
    marking(slow, "step", k=4)
    marked = marks(burst(slow, [plain(5, ecn)] * 12))
    first = marked.index(True)
    # The first packet may have left before the next one came, so that the queue is one shorter.
    assert first in (5, 6), marked
    assert all(marked[first:])
    packets, octets = slow.counter("ecn_marked", SLOW)
    assert packets == 12 - first
    assert octets == packets * len(bytes(plain(5, ecn)))


def test_marking_changes_nothing_else(slow: Switch) -> None:
    marking(slow, "step", k=0)
    received = burst(slow, [plain(5, ECT0)] * 4)
    assert received[-1] == bytes(plain(5, CE, hlim=63))


@pytest.mark.parametrize("action", [("step", {"k": 0}), ("red", {"kmin": 0, "kmax": 0, "slope": ALWAYS})])
def test_packets_that_cannot_be_marked_are_left_alone(slow: Switch, action: tuple[str, dict[str, int]]) -> None:
    marking(slow, action[0], **action[1])
    assert not any(marks(burst(slow, [plain(5, NOT_ECT)] * 6)))
    assert slow.counter("ecn_marked", SLOW)[0] == 0


def test_an_empty_queue_marks_nothing(slow: Switch) -> None:
    marking(slow, "step", port=3, k=0)
    for _ in range(4):
        send_packet(slow, 1, plain(6, ECT0))
        verify_packet(slow, plain(6, ECT0, hlim=63), 3)
    verify_no_other_packets(slow)


def test_a_mark_from_elsewhere_stays(slow: Switch) -> None:
    verify_forwarded(slow, 1, plain(6, CE), plain(6, CE, hlim=63), 3)


def test_other_ports_do_not_mark(slow: Switch) -> None:
    marking(slow, "step", port=4, k=0)
    assert not any(marks(burst(slow, [plain(5, ECT0)] * 6)))


@pytest.mark.shared_p4
def test_red_marks_nothing_up_to_kmin_and_all_above_kmax(slow: Switch) -> None:
    marking(slow, "red", kmin=3, kmax=7, slope=0)
    marked = marks(burst(slow, [plain(5, ECT0)] * 14))
    first = marked.index(True)
    assert first in (8, 9), marked
    assert all(marked[first:])


@pytest.mark.shared_p4
def test_red_between_kmin_and_kmax_with_certainty(slow: Switch) -> None:
    marking(slow, "red", kmin=3, kmax=63, slope=ALWAYS // 8)
    marked = marks(burst(slow, [plain(5, ECT0)] * 12))
    assert not any(marked[:4]), marked
    assert any(marked[4:]), marked


def test_red_in_between_marks_some(slow: Switch) -> None:
    marking(slow, "red", kmin=0, kmax=1000, slope=ALWAYS // 40)
    marked = marks(burst(slow, [plain(5, ECT0)] * BURST))
    # The chance grows from 0 to 0.7: eleven are expected; none or all would be less than one in ten thousand.
    assert 0 < sum(marked) < BURST


@pytest.mark.shared_p4
def test_a_channel_is_written_into_the_packet(slow: Switch) -> None:
    slow.insert("dscp", {"hdr.ipv6.dscp": 8}, action=("set_priority", {"priority": 1}))
    slow.insert("channel", {"hdr.ipv6.dscp": 8}, action=("set_channel", {"dscp": 9, "priority": 1}), priority=1)
    for before, after in ((8, 9), (9, 9)):
        send_packet(slow, 1, frame(ip(host(6), tc=before << 2), udp()))
        verify_packets(slow, frame(ip(host(6), tc=after << 2, hlim=63), udp()), [3])
