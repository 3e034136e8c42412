# SPDX-License-Identifier: Apache-2.0
"""Watched flows: what switches count of them, read over P4Runtime."""

from __future__ import annotations

import time

import pytest

from detour.control import schema
from detour.control.p4runtime.watching import CLASS_BOUNDS, slot_cells
from tests.ptf.base_test import Switch, send_packet, verify_packet
from tests.ptf.packets import frame, host, ip, number, udp, usids

SOURCE, LABEL, SLOT = host(0, 0, 1), 0x1ABC, 255
SLOW, RATE = 2, 50
PERIOD_US = 1_000_000 // RATE


@pytest.fixture
def watching(switch: Switch) -> Switch:
    """Watches the flow with `LABEL` from host 1 of group 0."""
    switch.route("fd00:5::", 32, [4])
    switch.route("fd00:6::", 32, [SLOW])
    switch.route(usids(2), 48, [4])
    switch.local_sid(usids(1), 48, "un")
    match = {"hdr.ipv6.src_addr": number(SOURCE), "flow_label": LABEL}
    switch.insert("watched", match, action=("watch", {"slot": SLOT}))
    return switch


def cells(switch: Switch) -> list[tuple[int, int]]:
    return [switch.counter(name.rpartition(".")[2], index) for name, index in slot_cells(SLOT)]


def through(switch: Switch, label: int, dst: str = host(5), out: str | None = None, **fields: int) -> int:
    """Forwards a packet to port 4; returns its bytes."""
    packet = frame(ip(dst, src=SOURCE, fl=label, **fields), udp())
    send_packet(switch, 1, packet)
    packet["IPv6"].hlim -= 1
    packet["IPv6"].dst = out or dst
    verify_packet(switch, packet, 4)
    return len(packet)


def test_a_flow_counts_whatever_usid_comes_next(watching: Switch) -> None:
    octets = sum(through(watching, LABEL, usids(1, 2, left), usids(2, left)) for left in (7, 8, 9))
    octets += through(watching, LABEL)
    unmarked, marked, *waited = cells(watching)
    assert (unmarked, marked[0]) == ((4, octets), 0)
    assert sum(packets for packets, _ in waited) == 4


def test_other_labels_and_other_sources_do_not(watching: Switch) -> None:
    for label in (0, LABEL ^ 1, LABEL ^ 0x1000):
        through(watching, label)
    other = frame(ip(host(5), src=host(0, 0, 2), fl=LABEL), udp())
    send_packet(watching, 1, other)
    other["IPv6"].hlim -= 1
    verify_packet(watching, other, 4)
    assert cells(watching) == [(0, 0)] * len(cells(watching))
    through(watching, LABEL | 1 << 13)
    assert cells(watching)[0][0] == 1, "the bits above the sender's do not matter"


@pytest.mark.shared_p4
def test_marks_and_delays_of_a_queue_that_is_held_up(watching: Switch) -> None:
    watching.insert("marking", {"std.egress_port": SLOW}, action=("step", {"k": 2}))
    count = 8
    watching.platform.slow_down(SLOW, RATE)
    began = time.monotonic()
    for _ in range(count):
        send_packet(watching, 1, frame(ip(host(6), src=SOURCE, fl=LABEL, tc=2), udp()))
    sending_us = 1e6 * (time.monotonic() - began)
    for _ in range(count):
        watching.take(SLOW)
    watching.platform.slow_down(SLOW, 1_000_000)
    unmarked, marked, *waited = cells(watching)
    assert unmarked[0] + marked[0] == count
    assert 1 <= marked[0] <= 6
    classes = [number for number, (packets, _) in enumerate(waited) for _ in range(packets)]
    assert len(classes) == count
    assert len(waited) == schema.DELAY_CLASSES
    # The last one waits behind six or seven others, less the time that sending took; the first one behind nobody.
    assert CLASS_BOUNDS[min(classes[-1] + 1, len(CLASS_BOUNDS) - 1)] > 5 * PERIOD_US - sending_us
    assert CLASS_BOUNDS[classes[0]] < 5 * PERIOD_US


@pytest.mark.shared_p4
def test_waits_beyond_the_last_bound_are_in_the_last_class(watching: Switch) -> None:
    """At a packet a second the second one waits longer than 2^19 us, and the first one may."""
    watching.platform.slow_down(SLOW, 1)
    for _ in range(2):
        send_packet(watching, 1, frame(ip(host(6), src=SOURCE, fl=LABEL), udp()))
    for _ in range(2):
        watching.take(SLOW)
    watching.platform.slow_down(SLOW, 1_000_000)
    _, _, *waited = cells(watching)
    assert waited[-1][0] in (1, 2)
    assert sum(packets for packets, _ in waited) == 2
