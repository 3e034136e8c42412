# SPDX-License-Identifier: Apache-2.0
"""ranking.p4: what has waited longest so far leaves a queue first. BMv2's queues know no ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from scapy.packet import Packet

from tests.ptf.base_test import Switch, send_packet
from tests.ptf.conftest import switch_with
from tests.ptf.packets import frame, host, ip, transit, udp
from tests.ptf.platforms import PORTS
from tests.ptf.test_queueing import SLOW, burst

PROGRAMS = ("adaptive", "qcn", "ugal")
S = 1_000_000
"""ticks of a second in real time"""


def _backend(name: str) -> list[object]:
    marks = [pytest.mark.bmv2] if name == "bmv2" else []
    return [pytest.param((name, program), id=f"{name}-{program}", marks=marks) for program in PROGRAMS]


@pytest.fixture(params=itertools.chain(_backend("engine"), _backend("bmv2")))
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    for each in switch_with(*request.param):
        each.route("fd00:5::", 32, [SLOW])
        yield each


@pytest.mark.parametrize("oldest_first", [True, False])
def test_the_order_of_a_queue(switch: Switch, oldest_first: bool, request: pytest.FixtureRequest) -> None:
    """Packets that have waited 100 to 500 s elsewhere behind one that is on the line."""
    if oldest_first:
        switch.set_default("order", ("oldest_first", {}))
    waited = [0, 200, 500, None, 100, 300, 400]
    packets = [frame(ip(host(5), fl=n), *([] if s is None else [transit(s * S)]), udp()) for n, s in enumerate(waited)]
    through = burst if "bmv2" in request.node.callspec.id else behind_the_first
    received = [int.from_bytes(data[14:18], "big") & 0xFFFFF for data in through(switch, packets)]
    by_rank = oldest_first and through is not burst
    assert received == ([0, 2, 6, 5, 1, 4, 3] if by_rank else list(range(7)))


def behind_the_first(switch: Switch, packets: list[Packet]) -> list[bytes]:
    """Like `burst`, but all have come before the second one leaves, however busy the machine is. (BMv2 sets the time at
    which a packet leaves when it comes.)"""
    switch.platform.slow_down(SLOW, 1)
    send_packet(switch, 1, packets[0])
    first = switch.take(SLOW)
    for packet in packets[1:]:
        send_packet(switch, 1, packet)
    switch.barrier(ports=[port for port in PORTS if port != SLOW])
    switch.platform.slow_down(SLOW, 1_000_000)
    return [first, *(switch.take(SLOW) for _ in packets[1:])]
