# SPDX-License-Identifier: Apache-2.0
"""The sending half of a connection: SYN, lost segments, new data, the FIN, acknowledgements (RFC 6675, 5, NextSeg)."""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.times import MAX_TIME
from detour.hosts.cc import control as cc
from detour.hosts.ip import neighbours, timers
from detour.hosts.ip.layout import SocketRecord, StackGlobals, socket_row
from detour.hosts.ip.tcp import control, lists, recovery, rto
from detour.hosts.ip.tcp import layout as tcp
from detour.hosts.ip.tcp.layout import ConnRecord, SegmentRecord, conn_row, segment, slot
from detour.hosts.ip.tcp.receiver import acknowledged
from detour.hosts.ip.tcp.segments import put_segment, put_syn

_NONE = int64(0)


@inner()
def _allowed(c: ConnRecord) -> bool:
    """Return whether a segment may go now. One may always be under way."""
    pipe = lists.pipe(c)
    return pipe == 0 or (c.prr_out < c.prr_limit if recovery.reducing(c) else pipe + 1 <= c.cwnd)


@inner()
def new_length(g: StackGlobals, c: ConnRecord) -> int:
    """Bytes of the next new segment, the FIN counted as one; 0: there is none, or the peer has no room. Small segments
    are not sent while data are under way, unless it is the end (RFC 9293, 3.8.6.2.1)."""
    if c.state not in (tcp.ESTABLISHED, tcp.CLOSE_WAIT, tcp.FIN_WAIT_1, tcp.CLOSING, tcp.LAST_ACK):
        return 0
    if c.seg_nxt - c.seg_una >= c.ring:
        return 0
    left = c.snd_end - c.snd_nxt
    if left < 0:
        return 0  # all is sent, the FIN too
    size = min(left, c.mss)
    ends = size == left
    room = c.snd_edge - c.snd_nxt
    if size > room:
        if room <= 0 or c.seg_nxt > c.seg_una:
            return 0
        size, ends = room, False
    if ends and c.fin != 0 and size + 1 <= room:
        size += 1
    elif size < c.mss and not ends and c.seg_nxt > c.seg_una:
        return 0
    return size


@inner()
def wants(g: StackGlobals, c: ConnRecord, now: int) -> bool:
    """Return whether there may be something to send now."""
    if c.want_syn != 0 or c.want_ack != 0:
        return True
    if c.state < tcp.ESTABLISHED:
        return False
    if c.want_probe != 0:
        return True
    if c.lost_head < 0 and new_length(g, c) == 0:
        return False
    if not _allowed(c):
        return False
    if now < c.pace_next:
        c.pace_wait = 1
        return False
    return True


@inner()
def write(g: StackGlobals, i: int, frame: int, now: int) -> int:
    """The next segment of connection `i`; returns bytes stored << 32 | on the wire, 0: none goes now."""
    s, c = socket_row(g, i), conn_row(g, i)
    if c.state == tcp.CLOSED:
        return 0
    if not neighbours.reachable(g, s, i):
        if s.failed != 0 and c.state == tcp.SYN_SENT:
            _give_up(c, now)
            s.failed = 0
            s.closed = 1
        return 0
    s.failed = 0
    c.pace_wait = 0
    both = _next(g, s, c, i, frame, now)
    if both != 0 and wants(g, c, now):
        timers.make_ready(g, i, s)
    rto.arm(g, s, c, i)
    return both


@inner()
def _give_up(c: ConnRecord, now: int) -> None:
    c.state = tcp.CLOSED
    c.error = tcp.UNREACHABLE
    c.closed_ps = now
    c.want_syn = 0
    c.want_ack = 0
    rto.stop(c)


@inner()
def _next(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, frame: int, now: int) -> int:
    if c.want_syn != 0:
        return _syn(g, s, c, i, frame, now)
    if c.want_ack != 0 and (c.ranges > 0 or c.dup_right > 0 or c.state < tcp.ESTABLISHED):
        return _bare(g, s, c, i, frame, now)
    if c.state >= tcp.ESTABLISHED:
        if c.want_probe != 0:
            both = _probe(g, s, c, i, frame, now)
            if both != 0:  # else all was acknowledged before its turn came
                return both
        if c.lost_head >= 0 and _allowed(c) and now >= c.pace_next:
            return _again(g, s, c, i, c.lost_head, frame, now)
        size = new_length(g, c)
        if size > 0 and c.lost_head < 0 and _allowed(c):
            if now >= c.pace_next:
                return _new(g, s, c, i, size, frame, now)
            c.pace_wait = 1
    if c.want_ack != 0:
        return _bare(g, s, c, i, frame, now)
    return 0


@inner()
def _syn(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, frame: int, now: int) -> int:
    c.want_syn = 0
    flags = tcp.SYN
    if c.state == tcp.SYN_RECEIVED:
        flags |= tcp.ACK
        if c.ecn_ok != 0:
            flags |= tcp.ECE
        c.want_ack = 0
    elif c.ecn != 0 and c.retries == 0:  # without ECN if that may be why it was lost (RFC 3168, 6.1.1.1)
        flags |= tcp.ECE | tcp.CWR
    c.last_sent = now
    c.tx_segments += 1
    c.rto_due = now + rto.timeout(c)
    return put_syn(g, s, c, i, frame, int64(flags), now)


@inner()
def _bare(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, frame: int, now: int) -> int:
    """An acknowledgement without data."""
    acknowledged(c)
    return put_segment(g, s, c, i, frame, c.snd_nxt, _NONE, _NONE, False, now)


@inner()
def _put(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, x: SegmentRecord, frame: int, now: int) -> int:
    """Write a segment of the stream that goes out now, the first time or again."""
    x.sent = now
    x.txn = c.next_txn
    c.next_txn += 1
    c.last_sent = now
    flags = int64(0)
    data = min(x.end, c.snd_end) - x.start
    if x.end > c.snd_end:
        flags |= tcp.FIN
        if c.state == tcp.ESTABLISHED:
            c.state = tcp.FIN_WAIT_1
        elif c.state == tcp.CLOSE_WAIT:
            c.state = tcp.LAST_ACK
    if x.end >= c.snd_end:
        flags |= tcp.PSH
    first = x.count == 0
    if first and c.want_cwr != 0:
        flags |= tcp.CWR
        c.want_cwr = 0
    acknowledged(c)
    both = put_segment(g, s, c, i, frame, x.start, data, flags, first, now)
    c.tx_bytes += data
    c.prr_out += 1
    if c.rto_due == MAX_TIME:
        c.rto_due = now + rto.timeout(c)
    control.sent(c, both & 0xFFFFFFFF, x.txn, now)
    return both


@inner()
def _new(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, size: int, frame: int, now: int) -> int:
    """New data, or the FIN."""
    if c.seg_una == c.seg_nxt:
        if c.srtt > 0 and now - c.last_sent > rto.timeout(c):
            cc.on_idle(c, now)
        c.rto_due = MAX_TIME  # it may stand for a window of 0
    x = segment(g, i, c.seg_nxt)
    x.start = c.snd_nxt
    x.end = c.snd_nxt + size
    x.count = 0
    place = c.seg_nxt & (c.ring - 1)
    c.seg_nxt += 1
    c.snd_nxt = x.end
    both = _put(g, s, c, i, x, frame, now)
    lists.into_flight(g, c, i, place)
    due = c.rto_due
    rto.restart(c, now)
    c.rto_due = due
    return both


@inner()
def _again(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, place: int, frame: int, now: int) -> int:
    """A segment that was lost, or in flight (a probe), once more. Never as ECN capable (RFC 3168, 6.1.5)."""
    x = slot(g, i, place)
    if x.state == tcp.SEGMENT_LOST:
        lists.out_of_lost(g, c, i, place)
    elif x.state == tcp.FLIGHT:
        lists.out_of_flight(g, c, i, place)
    x.count += 1
    c.retransmitted += 1
    both = _put(g, s, c, i, x, frame, now)
    lists.into_flight(g, c, i, place)
    return both


@inner()
def _probe(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, frame: int, now: int) -> int:
    """A tail loss probe: new data if there are any, else the last segment again (RFC 8985, 7.3). 0: there is nothing
    under way any more, or the last segment is not."""
    c.want_probe = 0
    if c.seg_una == c.seg_nxt:
        return 0
    size = new_length(g, c)
    c.probe_again = 0
    if size > 0:
        both = _new(g, s, c, i, size, frame, now)
    else:
        last = segment(g, i, c.seg_nxt - 1)
        if last.state != tcp.FLIGHT:
            return 0
        c.probe_again = 1
        c.probe_txn = last.txn
        both = _again(g, s, c, i, (c.seg_nxt - 1) & (c.ring - 1), frame, now)
    c.probes += 1
    c.probe_end = c.snd_nxt
    c.probe_due = MAX_TIME
    c.rto_due = now + rto.timeout(c)
    return both
