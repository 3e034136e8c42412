# SPDX-License-Identifier: Apache-2.0
"""Frames from outside, as they are, at given times: scapy's packets, or bytes."""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.memory import load64, move_bytes
from detour.hosts.ip import timers
from detour.hosts.ip.layout import RawRecord, StackGlobals, raw_row, socket_row


@inner()
def _due(r: RawRecord) -> int:
    return r.base_ps + load64(r.times + 8 * r.next_one)


@inner()
def begin(g: StackGlobals, i: int) -> None:
    """All is set up: the first frame is due."""
    timers.set_due(g, i, socket_row(g, i), _due(raw_row(g, i)))


@inner()
def write(g: StackGlobals, i: int, frame: int, room: int, now: int) -> int:
    """The next frame; returns bytes stored << 32 | on the wire, 0: none goes now."""
    s, r = socket_row(g, i), raw_row(g, i)
    if r.next_one == r.count or now < _due(r):
        return 0
    start = load64(r.offsets + 8 * r.next_one)
    length = load64(r.offsets + 8 * r.next_one + 8) - start
    stored = min(length, room)
    move_bytes(frame, r.frames + start, stored)
    r.tx_packets += 1
    r.tx_bytes += length
    r.next_one += 1
    if r.next_one == r.count and r.repeat > 1:
        r.repeat -= 1
        r.next_one = 0
        r.base_ps += r.interval_ps
    if r.next_one < r.count:
        timers.set_due(g, i, s, _due(r))
    else:
        s.closed = 1
    return (stored << 32) | length
