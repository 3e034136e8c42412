# SPDX-License-Identifier: Apache-2.0
"""What is found lost: by SACK (RFC 6675), by time (RACK, RFC 8985), by duplicate ACKs (RFC 6582), by timeout.

`c.rack` chooses. With RACK a segment is lost if one that was sent later has arrived, and a round trip and a quarter
have passed since it was sent; the quarter is left out once three later ones have arrived and no reordering was seen.
Without it a segment is lost if three that were sent behind it were SACKed (RFC 6675's IsLost), and a retransmission is
found lost by timeout only.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import inner
from detour.base.times import MAX_TIME
from detour.hosts.ip.tcp import control, lists, rto
from detour.hosts.ip.tcp.layout import FLIGHT, RANGES, SACKED, SEEN
from detour.hosts.ip.tcp.rows import range_of, segment, slot

_DUPLICATES = 3


@inner()
def in_recovery(c: Any) -> bool:
    """Whether what was lost last is not acknowledged yet."""
    return c.snd_una < c.recover


@inner()
def _lose(g: Any, c: Any, i: int, place: int, now: int) -> None:
    """A segment in flight is lost. The first of an episode is sent again whatever the window is."""
    x = slot(g, i, place)
    if not in_recovery(c):
        c.recover = c.snd_nxt
        c.force = 1
    control.lost(c, x.txn, now)
    lists.out_of_flight(g, c, i, place)
    lists.into_lost(g, c, i, place)
    c.lost += 1


@inner()
def detect(g: Any, c: Any, i: int, now: int) -> None:
    """After an acknowledgement, or when time has passed: what is lost now."""
    c.reorder_due = MAX_TIME
    if c.sack_ok == 0:
        return
    if c.rack != 0:
        _detect_by_time(g, c, i, now)
    else:
        _detect_by_order(g, c, i, now)


@inner()
def _detect_by_time(g: Any, c: Any, i: int, now: int) -> None:
    """RFC 8985, 6.2, steps 4 and 5."""
    patience = min(c.min_rtt >> 2, c.srtt)
    if c.reordering == 0 and (in_recovery(c) or c.n_sacked >= _DUPLICATES):
        patience = 0
    place = c.flight_head
    while place >= 0:
        x = slot(g, i, place)
        following = x.next
        if x.txn >= c.rack_txn:
            return
        left = x.sent + c.rack_rtt + patience - now
        if left > 0:
            c.reorder_due = now + left
            return
        _lose(g, c, i, place, now)
        place = following


@inner()
def _detect_by_order(g: Any, c: Any, i: int, now: int) -> None:
    """RFC 6675, 4, IsLost: of segments below the third highest that was SACKed none is left."""
    number = max(c.scanned, c.seg_una)
    while number < c.high3:
        x = segment(g, i, number)
        if x.state == FLIGHT and x.count == 0:
            _lose(g, c, i, number & (c.ring - 1), now)
        number += 1
    c.scanned = max(c.scanned, number)


@inner()
def note_delivered(c: Any, x: Any, number: int, now: int) -> None:
    """A segment has arrived: is it the newest in order of transmission, was order kept (RFC 8985, 6.2, 1 to 3)?"""
    rtt = now - x.sent
    if x.count > 0 and rtt < c.min_rtt:
        return  # an earlier transmission has arrived
    if x.end > c.rack_end:
        c.rack_end = x.end
    elif x.end < c.rack_end and x.count == 0:
        c.reordering = 1
    if x.txn > c.rack_txn:
        c.rack_txn = x.txn
        c.rack_sent = x.sent
        c.rack_rtt = rtt


@inner()
def note_sacked(c: Any, number: int) -> None:
    """Keeps the three highest segments that were SACKed."""
    if number > c.high1:
        c.high3 = c.high2
        c.high2 = c.high1
        c.high1 = number
    elif number > c.high2:
        c.high3 = c.high2
        c.high2 = number
    elif number > c.high3:
        c.high3 = number


@inner()
def duplicate(g: Any, c: Any, i: int, now: int) -> None:
    """A duplicate ACK of a peer without SACK: at the third the first segment is lost (RFC 5681, 3.2)."""
    c.dupacks += 1
    first = c.seg_una & (c.ring - 1)
    if c.dupacks == _DUPLICATES and not in_recovery(c) and slot(g, i, first).state == FLIGHT:
        _lose(g, c, i, first, now)


@inner()
def partial(g: Any, c: Any, i: int, count: int, now: int) -> None:
    """Such a peer has acknowledged `count` segments. Within recovery the next one is lost as well (RFC 6582, 3.2)."""
    if in_recovery(c) and c.seg_una < c.seg_nxt:
        c.dupacks = max(c.dupacks - max(count - 1, 0), 0)
        first = c.seg_una & (c.ring - 1)
        x = slot(g, i, first)
        if x.state == FLIGHT and x.count == 0 and x.end <= c.recover:
            _lose(g, c, i, first, now)
            c.force = 1
    else:
        c.dupacks = 0


@inner()
def on_timeout(g: Any, c: Any, i: int, now: int) -> None:
    """All that is not SACKed is lost, and goes again in order (RFC 5681, 3.1; RFC 6675, 5.1). If the first one is
    SACKed the peer has thrown away what it had (RFC 2018, 8): then all are."""
    c.rtos += 1
    reneged = c.seg_una < c.seg_nxt and segment(g, i, c.seg_una).state == SACKED
    control.timed_out(c, c.inflight, now)
    lists.forget(c)
    for number in range(c.seg_una, c.seg_nxt):
        x = segment(g, i, number)
        if x.state == SACKED and not reneged:
            c.n_sacked += 1
        else:
            lists.into_lost(g, c, i, number & (c.ring - 1))
    if reneged:
        for k in range(SEEN):
            range_of(g, i, RANGES + k).right = 0
    c.dupacks = 0
    c.recover = c.snd_nxt
    c.force = 1
    c.backoff += 1
    c.retries += 1
    c.want_probe = 0
    c.probe_end = 0
    c.rto_due = now + rto.timeout(c)
    c.probe_due = MAX_TIME
    c.reorder_due = MAX_TIME
