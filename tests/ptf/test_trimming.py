# SPDX-License-Identifier: Apache-2.0
"""trim.p4: classes that are trimmed are forwarded like others while queues have room, and cut to their headers else."""

from __future__ import annotations

import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from tests.ptf.base_test import Switch, send_packet, verify_forwarded
from tests.ptf.packets import frame, host, ip, udp

IN, OUT = 1, 3
CUT = 144
TRIMMED = 50
"""DSCP"""


def test_packets_that_find_room_are_whole(trim: Switch) -> None:
    trim.route("fd00:5::", 32, [OUT])
    trim.insert("classes", {"hdr.ipv6.dscp": 0}, action=("trim", {"bytes": 144, "priority": 0}))
    for dscp in (0, 48):
        sent, got = (
            frame(ip(host(5), src=host(8), tc=dscp << 2, hlim=hops), udp(payload=bytes(1000))) for hops in (64, 63)
        )
        verify_forwarded(trim, IN, sent, got, OUT)


@pytest.mark.parametrize("headers", [1, 2])
def test_packets_that_find_no_room_are_cut(trim_engine: Switch, headers: int) -> None:
    trim_engine.route("fd00:5::", 32, [OUT])
    trim_engine.insert("classes", {"hdr.ipv6.dscp": 0}, action=("trim", {"bytes": CUT, "priority": 1}))
    whole = frame(*[ip(host(5), src=host(8))] * headers, udp(payload=bytes(1000)))
    trim_engine.platform.slow_down(OUT, 20)
    for _ in range(100):  # a queue has room for 64
        send_packet(trim_engine, IN, whole)
    trim_engine.platform.slow_down(OUT, 1_000_000)
    received = [Ether(trim_engine.take(OUT)) for _ in range(100)]
    cut = [packet for packet in received if len(packet) == CUT]
    assert len(cut) > 15
    assert {len(packet) for packet in received} == {CUT, len(whole)}
    for packet in cut:
        for number in range(1, headers + 1):
            header = packet.getlayer(IPv6, number)
            assert header is not None
            assert (header.tc >> 2, header.plen) == (TRIMMED, CUT - 14 - 40 * number)
