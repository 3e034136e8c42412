# SPDX-License-Identifier: Apache-2.0
"""Round trips, the retransmission timeout (RFC 6298) and when a connection wants to be called."""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.times import MAX_TIME
from detour.hosts.ip import timers
from detour.hosts.ip.layout import SocketRecord, StackGlobals
from detour.hosts.ip.tcp.layout import ESTABLISHED, ConnRecord


@inner()
def measured(c: ConnRecord, rtt: int) -> None:
    """A round trip of a segment that was sent once (section 3)."""
    if c.srtt == 0:
        c.srtt = rtt
        c.rttvar = rtt >> 1
    else:
        c.rttvar += (abs(c.srtt - rtt) - c.rttvar) >> 2
        c.srtt += (rtt - c.srtt) >> 3
    c.min_rtt = rtt if c.min_rtt == 0 else min(c.min_rtt, rtt)
    c.rto = min(max(c.srtt + max(c.tick_ps, 4 * c.rttvar), c.min_rto_ps), c.max_rto_ps)
    c.backoff = 0


@inner()
def timeout(c: ConnRecord) -> int:
    """The timeout, backed off (5.5)."""
    return min(c.rto << min(c.backoff, 16), c.max_rto_ps)


@inner()
def restart(c: ConnRecord, now: int) -> None:
    """Data are under way: the timeout begins anew (5.3), and so does that of the tail loss probe (RFC 8985, 7.2)."""
    c.rto_due = now + timeout(c)
    c.probe_due = MAX_TIME
    quiet = c.n_lost == 0 and c.n_sacked == 0 and c.backoff == 0 and c.snd_una >= c.recover
    if c.rack != 0 and c.sack_ok != 0 and quiet and c.srtt > 0 and c.state >= ESTABLISHED and c.probe_end == 0:
        wait = 2 * c.srtt
        if c.inflight == 1:
            wait += c.delack_ps
        if now + wait < c.rto_due:
            c.probe_due = now + wait


@inner()
def stop(c: ConnRecord) -> None:
    """Nothing is under way (5.2)."""
    c.rto_due = MAX_TIME
    c.probe_due = MAX_TIME
    c.reorder_due = MAX_TIME


@inner()
def arm(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int) -> None:
    """Set the deadline to the first of all that are pending."""
    due = min(c.rto_due, c.probe_due, c.reorder_due, c.delack_due)
    due = min(due, c.cc_timer, c.wait_due)
    if c.state >= ESTABLISHED:
        due = min(due, c.stop_ps)
    if c.pace_wait != 0:
        due = min(due, c.pace_next)
    timers.set_due(g, i, s, due)
