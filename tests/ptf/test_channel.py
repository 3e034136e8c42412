# SPDX-License-Identifier: Apache-2.0
"""Virtual channels and lossless priority switching (`qos.channel`), in both programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scapy.packet import Packet

from tests.ptf.base_test import Switch, send_packet, verify_forwarded, verify_packets, verify_punted
from tests.ptf.conftest import BACKENDS, switch_with
from tests.ptf.packets import frame, host, ip, udp, usids

GLOBAL, LOCAL, OUT, OTHER_OUT = 1, 2, 3, 4
PORT = 0x1FF
FIRST = 8
"""DSCP of the first channel in these tests; barrier packets have 0 and are to stay as they are."""
EXHAUSTED = 7


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Where the switch runs."""
    return request.param


@pytest.fixture(params=["fabric", "adaptive"])
def switch(request: pytest.FixtureRequest, backend: str) -> Iterator[Switch]:
    """Node 1 in group 0, groups 5 and 6 behind two ports, DSCP 48 with priority 7."""
    for under_test in switch_with(backend, request.param):
        under_test.route("fd00:5::", 32, [OUT])
        under_test.route("fd00:6::", 32, [OTHER_OUT])
        under_test.insert("dscp", {"hdr.ipv6.dscp": 48}, action=("set_priority", {"priority": 7}))
        yield under_test


def channel(switch: Switch, dscp: int, to: int, priority: int | None = None, **ports: int) -> None:
    """`ports`: in_port, out_port."""
    match: dict[str, int | tuple[int, int]] = {"hdr.ipv6.dscp": dscp}
    if "in_port" in ports:
        match["meta.in_port"] = (ports["in_port"], PORT)
    if "out_port" in ports:
        match["std.egress_spec"] = (ports["out_port"], PORT)
    action = ("set_channel", {"dscp": to, "priority": to & 7 if priority is None else priority})
    switch.insert("channel", match, action=action, priority=1)


def packet(dscp: int = FIRST, ecn: int = 0, group: int = 5, hlim: int = 64, payload: bytes = b"payload") -> Packet:
    """A packet from another group with a DSCP."""
    return frame(ip(host(group), src=host(8), tc=dscp << 2 | ecn, hlim=hlim), udp(payload=payload))


def test_without_entries_the_dscp_stays(switch: Switch) -> None:
    for dscp in (0, 1, 2, 48):
        verify_forwarded(switch, GLOBAL, packet(dscp), packet(dscp, hlim=63), OUT)


def test_the_channel_rises_at_global_ports_only(switch: Switch) -> None:
    channel(switch, 8, 9, in_port=GLOBAL)
    channel(switch, 9, 10, in_port=GLOBAL)
    for before, after in ((8, 9), (9, 10), (10, 10), (0, 0), (48, 48)):
        for ecn in (0, 1, 2, 3):
            verify_forwarded(switch, GLOBAL, packet(before, ecn), packet(after, ecn, hlim=63), OUT)
        verify_forwarded(switch, LOCAL, packet(before), packet(before, hlim=63), OUT)


def test_the_pair_of_ports_decides(switch: Switch) -> None:
    channel(switch, FIRST, 4, in_port=GLOBAL, out_port=OUT)
    channel(switch, FIRST, 5, in_port=GLOBAL, out_port=OTHER_OUT)
    for into, group, out, dscp in ((GLOBAL, 5, OUT, 4), (GLOBAL, 6, OTHER_OUT, 5), (LOCAL, 5, OUT, FIRST)):
        verify_forwarded(switch, into, packet(group=group), packet(dscp, group=group, hlim=63), out)


def test_the_channels_priority_counts(switch: Switch) -> None:
    """A packet that changes into a channel of high priority overtakes those that wait in the old one."""
    channel(switch, FIRST, 9, priority=6, in_port=GLOBAL)
    switch.platform.slow_down(OUT, 50)
    for number in range(8):
        send_packet(switch, LOCAL, packet(payload=bytes([number] * 30)))
    send_packet(switch, GLOBAL, packet(payload=bytes([99] * 30)))
    order = [switch.take(OUT)[-1] for _ in range(9)]
    switch.platform.slow_down(OUT, 1_000_000)
    assert order.index(99) < 5, order
    assert [n for n in order if n != 99] == list(range(8))


def test_a_packet_that_goes_round_inside_the_switch_rises_once(switch: Switch) -> None:
    switch.local_sid(usids(1), 48, "un")
    switch.route(usids(2), 48, [OUT])
    for dscp in (8, 9):
        channel(switch, dscp, dscp + 1, in_port=GLOBAL)
    send_packet(switch, GLOBAL, frame(ip(usids(1, 1, 1, 2), tc=8 << 2), udp()))
    for _ in range(3):
        switch.barrier()
    verify_packets(switch, frame(ip(usids(2), hlim=61, tc=9 << 2), udp()), [OUT])


def test_what_goes_to_the_controller_stays_as_it_is(switch: Switch) -> None:
    switch.local_sid(usids(1), 48, "un")
    channel(switch, FIRST, 9, in_port=GLOBAL)
    exhausted = frame(ip(usids(1), tc=FIRST << 2), udp())
    verify_punted(switch, GLOBAL, exhausted, EXHAUSTED)
