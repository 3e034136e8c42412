# SPDX-License-Identifier: Apache-2.0
"""The receiving half of a connection: order, early segments, which acknowledgements are sent and when (RFC 9293,
3.10.7.4; RFC 5681, 4.2; RFC 3168, 6.1.3; RFC 8257, 3.2).

The application takes everything at once, and what it takes is a pattern that is compared on arrival; so nothing is
stored but which ranges came early.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.times import MAX_TIME
from detour.hosts.ip import rings
from detour.hosts.ip.layout import ParsedFrame, SocketRecord, StackGlobals, host_row
from detour.hosts.ip.pattern import is_pattern
from detour.hosts.ip.tcp.layout import CWR, RANGES, ConnRecord, range_of
from detour.hosts.ip.tcp.segments import put_segment

_CE = int64(3)
_NONE = int64(0)


@inner()
def on_data(
    g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, f: ParsedFrame, left: int, right: int, now: int
) -> bool:
    """Bytes of offsets `left` to below `right` came in; True if what is expected next moved."""
    c.rx_segments += 1
    _note_marks(g, s, c, i, f, now)
    if right <= c.rcv_nxt:
        old(c, left, right)
        return False
    if right > c.rcv_edge and right > c.rcv_nxt + c.rcv_buffer:
        c.rx_dropped += 1  # beyond what was offered
        c.want_ack = 1
        return False
    if c.check != 0 and g.elide == 0 and not is_pattern(g, f.at + f.header, left - 1, f.here - f.header):
        c.corrupt += 1
    if left > c.rcv_nxt:
        _early(g, c, i, left, right)
        return False
    before = c.rcv_nxt
    _deliver(c, right, now)
    filled = c.ranges > 0
    _join(g, c, i, now)
    # A segment that fills a gap, wholly or in part, is acknowledged at once; else every second one is.
    c.unacked += 1
    big = c.rcv_nxt - before >= 2 * c.mss
    if filled or c.unacked >= 2 or big or c.quick > 0:
        c.want_ack = 1
        c.quick = max(c.quick - 1, 0)
    elif c.delack_due == MAX_TIME:
        c.delack_due = now + c.delack_ps
    return True


@inner()
def _deliver(c: ConnRecord, right: int, now: int) -> None:
    """The application takes everything up to `right`."""
    if c.rx_bytes == 0:
        c.first_byte_ps = now
    c.rx_bytes += right - c.rcv_nxt
    c.last_byte_ps = now
    c.rcv_nxt = right


@inner()
def _note_marks(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, f: ParsedFrame, now: int) -> None:
    """ECN. A receiver of DCTCP acknowledges at once when marks begin or end, with what was before (RFC 8257, 3.2)."""
    if c.ecn_ok == 0:
        return
    ce = 1 if f.tos & 3 == _CE else 0
    c.rx_ce += ce
    if c.accurate_ecn != 0:
        if ce != c.echo and c.unacked > 0:
            acknowledge(g, s, c, i, now)
        c.echo = ce
        return
    if f.flags & CWR:
        c.echo = 0
    if ce:
        c.echo = 1


@inner()
def acknowledge(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, now: int) -> None:
    """An acknowledgement of what has come so far, before anything else goes."""
    h = host_row(g, s.host)
    frame = rings.room(g, h, s.host)
    if frame == 0:
        return
    both = put_segment(g, s, c, i, frame, c.snd_nxt, _NONE, _NONE, False, now)
    rings.push(g, h, s.host, both >> 32, both & 0xFFFFFFFF)
    acknowledged(c)


@inner()
def acknowledged(c: ConnRecord) -> None:
    """An acknowledgement goes out, alone or with data."""
    c.want_ack = 0
    c.unacked = 0
    c.delack_due = MAX_TIME
    c.acks_sent += 1


@inner()
def old(c: ConnRecord, left: int, right: int) -> None:
    """Report a segment that had arrived before (RFC 2883)."""
    c.rx_duplicates += 1
    c.dup_left = left
    c.dup_right = right
    c.want_ack = 1


@inner()
def _early(g: StackGlobals, c: ConnRecord, i: int, left: int, right: int) -> None:
    """Enter a range that came before what is expected; ranges that touch become one."""
    c.rx_early += 1
    c.want_ack = 1
    at = int64(0)
    while at < c.ranges and range_of(g, i, at).right < left:
        at += 1
    if at < c.ranges and range_of(g, i, at).left <= left and right <= range_of(g, i, at).right:
        old(c, left, right)
        return
    merged = at
    low, high, present = left, right, int64(0)
    while merged < c.ranges and range_of(g, i, merged).left <= right:
        r = range_of(g, i, merged)
        low = min(low, r.left)
        high = max(high, r.right)
        present += r.right - r.left
        merged += 1
    if merged == at and c.ranges == RANGES:
        c.rx_dropped += 1
        return
    _move(g, c, i, merged, at + 1)
    r = range_of(g, i, at)
    r.left = low
    r.right = high
    c.held += high - low - present
    _remember(c, left)


@inner()
def _move(g: StackGlobals, c: ConnRecord, i: int, source: int, target: int) -> None:
    """Ranges from `source` on begin at `target`."""
    shift = target - source
    if shift > 0:
        for k in range(c.ranges - 1, source - 1, -1):
            r, t = range_of(g, i, k), range_of(g, i, k + shift)
            t.left = r.left
            t.right = r.right
    elif shift < 0:
        for k in range(source, c.ranges):
            r, t = range_of(g, i, k), range_of(g, i, k + shift)
            t.left = r.left
            t.right = r.right
    c.ranges += shift


@inner()
def _remember(c: ConnRecord, point: int) -> None:
    """The newest arrivals, for the order of SACK blocks."""
    c.recent2 = c.recent1
    c.recent1 = c.recent0
    c.recent0 = point


@inner()
def _join(g: StackGlobals, c: ConnRecord, i: int, now: int) -> None:
    """Take in early segments that are in order now."""
    while c.ranges > 0:
        r = range_of(g, i, 0)
        if r.left > c.rcv_nxt:
            return
        c.held -= r.right - r.left
        if r.right > c.rcv_nxt:
            _deliver(c, r.right, now)
        _move(g, c, i, int64(1), int64(0))
