# SPDX-License-Identifier: Apache-2.0
"""Calls to congestion control, and the curve of its window.

The hooks are those of `hosts.cc.plugin`. `q.inflight` is what is on its way (RFC 6675's pipe); while `on_lost` and
`on_rto` run it is what is not acknowledged (FlightSize), of which RFC 5681 wants the half. `packet.marked`: the
acknowledgement had ECE.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import float64, inner, int64
from detour.base.times import MAX_TIME
from detour.hosts.cc import control, plugin
from detour.hosts.ip.tcp.layout import ConnRecord, point_at


@inner()
def begin(c: ConnRecord, now: int) -> None:
    """The connection is established."""
    c.cwnd_initial = float64(c.initial_window)
    c.cwnd = c.cwnd_initial
    c.ssthresh = np.inf
    c.pace_next = 0
    c.cc_timer = MAX_TIME
    plugin.call(c, plugin.HOOK_PATH, now)


@inner()
def sent(c: ConnRecord, length: int, txn: int, now: int) -> None:
    """A segment goes out. Unless the algorithm does it, it is paced at a little more than a window a round trip."""
    if c.pacing != 0 and c.srtt > 0:
        gain = 2.0 if c.cwnd < c.ssthresh else 1.2
        c.pace_next = max(c.pace_next, now) + int64(c.srtt / (gain * max(c.cwnd, 1.0)))
    control.on_sent(c, length, txn, now)


@inner()
def acked(c: ConnRecord, nbytes: int, txn: int, rtt: int, marked: int, now: int) -> None:
    """A segment has arrived; it still counts as in flight. `rtt`: -1 if it was sent more than once."""
    packet = plugin.packet_of(c)
    packet.rtt = rtt
    packet.delay = packet.hops = -1
    packet.marked = marked
    control.on_acked(c, nbytes, txn, False, now)


@inner()
def lost(c: ConnRecord, txn: int, now: int) -> None:
    """A segment was found lost."""
    pipe = c.inflight
    # Without what duplicate ACKs have let go beyond the window (RFC 5681, 3.2, step 2).
    c.inflight = min(c.seg_nxt - c.seg_una, int64(c.cwnd))
    control.on_lost(c, txn, True, now)
    c.inflight = pipe


@inner()
def timed_out(c: ConnRecord, count: int, now: int) -> None:
    """The retransmission timeout has passed; so many segments count as lost."""
    plugin.packet_of(c).lost = count
    pipe = c.inflight
    # Without what SACKs have let go beyond the window while one segment was missing.
    c.inflight = min(c.seg_nxt - c.seg_una, int64(c.cwnd))
    plugin.call(c, plugin.HOOK_RTO, now)
    c.inflight = pipe


@inner()
def note(c: ConnRecord, now: int) -> None:
    """A point of the curve, if one is wanted now."""
    if now < c.trace_next or c.trace_taken >= c.trace_room:
        return
    point = point_at(c.trace, c.trace_taken)
    point.time_ps = now
    point.cwnd = c.cwnd
    point.ssthresh = c.ssthresh
    point.inflight = c.inflight
    point.srtt_ps = c.srtt
    point.acked = c.snd_una - 1
    c.trace_taken += 1
    c.trace_next = now + c.trace_apart_ps
