# SPDX-License-Identifier: Apache-2.0
"""Loss detection: by SACK (RFC 6675), by time (RACK, RFC 8985), by duplicate ACKs (RFC 6582), by timeout.

`c.rack` chooses. With RACK a segment is lost if one that was sent later has arrived, and a round trip and a quarter
have passed since it was sent; the quarter is left out once three later ones have arrived and no reordering was seen.
Without it a segment is lost if three that were sent behind it were SACKed (RFC 6675's IsLost), and a retransmission is
found lost by timeout only.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.times import MAX_TIME
from detour.hosts.ip.layout import StackGlobals
from detour.hosts.ip.tcp import control, lists, rto
from detour.hosts.ip.tcp.layout import FLIGHT, RANGES, SACKED, SEEN, ConnRecord, SegmentRecord, range_of, segment, slot

_DUPLICATES = 3


@inner()
def in_recovery(c: ConnRecord) -> bool:
    """Return whether what was lost last is not acknowledged yet."""
    return c.snd_una < c.recover


@inner()
def reducing(c: ConnRecord) -> bool:
    """Return whether that was found without a timeout; what may be sent is then said by `prr_limit`, not by the
    window."""
    return c.recover_fs > 0 and in_recovery(c)


@inner()
def _lose(g: StackGlobals, c: ConnRecord, i: int, place: int, now: int) -> None:
    """A segment in flight is lost. The first of an episode is sent again whatever the window is. Congestion control is
    not told of a retransmission that is lost within its episode, as in Linux; RFC 5681 (4.3) takes it as a second
    indication of congestion. If the window is cut within one, another begins."""
    x = slot(g, i, place)
    within, window = reducing(c), c.cwnd
    if not within or x.count == 0:
        control.lost(c, x.txn, now)
    if not within or c.cwnd < window:
        c.recover = c.snd_nxt
        c.recover_fs = c.seg_nxt - c.seg_una - c.n_sacked - c.dupacks + c.delivered
        c.prr_delivered = 0
        c.prr_out = 0
        c.prr_limit = 1
    lists.out_of_flight(g, c, i, place)
    lists.into_lost(g, c, i, place)
    c.lost += 1


@inner()
def reduce(c: ConnRecord, safe: bool) -> None:
    """Proportional rate reduction (RFC 9937): how much may be sent for what an ACK delivered. `safe`: it moved
    `snd_una`, and showed no further loss. The RFC's ssthresh is here the window that congestion control has set, which
    may change meanwhile. Its SndCnt is `prr_limit` - `prr_out`. All is counted in segments."""
    if c.delivered == 0 or not reducing(c):
        return
    c.prr_delivered += c.delivered
    pipe, target = lists.pipe(c), int64(c.cwnd)
    if pipe > target:
        room = -(-c.prr_delivered * target // c.recover_fs) - c.prr_out
    else:
        room = min(max(c.prr_delivered - c.prr_out, c.delivered) + safe, target - pipe)
    c.prr_limit = c.prr_out + max(room, 0 if c.prr_out > 0 else 1)


@inner()
def detect(g: StackGlobals, c: ConnRecord, i: int, now: int) -> None:
    """After an acknowledgement, or when time has passed: what is lost now."""
    c.reorder_due = MAX_TIME
    if c.sack_ok == 0:
        return
    if c.rack != 0:
        _detect_by_time(g, c, i, now)
    else:
        _detect_by_order(g, c, i, now)


@inner()
def _detect_by_time(g: StackGlobals, c: ConnRecord, i: int, now: int) -> None:
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
def _detect_by_order(g: StackGlobals, c: ConnRecord, i: int, now: int) -> None:
    """RFC 6675, 4, IsLost: of segments below the third highest that was SACKed none is left."""
    number = max(c.scanned, c.seg_una)
    while number < c.high3:
        x = segment(g, i, number)
        if x.state == FLIGHT and x.count == 0:
            _lose(g, c, i, number & (c.ring - 1), now)
        number += 1
    c.scanned = max(c.scanned, number)


@inner()
def note_delivered(c: ConnRecord, x: SegmentRecord, number: int, now: int) -> None:
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
def note_sacked(c: ConnRecord, number: int) -> None:
    """Keep the three highest segments that were SACKed."""
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
def duplicate(g: StackGlobals, c: ConnRecord, i: int, now: int) -> None:
    """A duplicate ACK of a peer without SACK: at the third the first segment is lost (RFC 5681, 3.2)."""
    c.dupacks += 1
    c.delivered = 1
    first = c.seg_una & (c.ring - 1)
    if c.dupacks == _DUPLICATES and not in_recovery(c) and slot(g, i, first).state == FLIGHT:
        _lose(g, c, i, first, now)


@inner()
def partial(g: StackGlobals, c: ConnRecord, i: int, count: int, now: int) -> None:
    """Such a peer has acknowledged `count` segments. Within recovery the next one is lost as well (RFC 6582, 3.2)."""
    if in_recovery(c) and c.seg_una < c.seg_nxt:
        counted = min(c.dupacks, max(count - 1, 0))
        c.dupacks -= counted
        c.delivered -= counted
        first = c.seg_una & (c.ring - 1)
        x = slot(g, i, first)
        if x.state == FLIGHT and x.count == 0 and x.end <= c.recover:
            _lose(g, c, i, first, now)
    else:
        c.dupacks = 0


@inner()
def on_timeout(g: StackGlobals, c: ConnRecord, i: int, now: int) -> None:
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
    c.recover_fs = 0
    c.backoff += 1
    c.retries += 1
    c.want_probe = 0
    c.probe_end = 0
    c.rto_due = now + rto.timeout(c)
    c.probe_due = MAX_TIME
    c.reorder_due = MAX_TIME
