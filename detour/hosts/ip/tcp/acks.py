# SPDX-License-Identifier: Apache-2.0
"""Processing of acknowledgements: data that arrived, cumulatively and by SACK, and data that may be sent."""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.memory import load32be
from detour.hosts.cc import control as cc
from detour.hosts.ip.layout import StackGlobals
from detour.hosts.ip.tcp import control, lists, recovery, rto
from detour.hosts.ip.tcp import layout as tcp
from detour.hosts.ip.tcp.layout import ConnRecord, SegmentRecord, range_of, segment

_HALF = 1 << 31
_LOW = 0xFFFFFFFF


@inner()
def offset(base: int, initial: int, seq: int) -> int:
    """The offset of a number on the wire that is nearest to `base`."""
    return base + ((seq - initial - base + _HALF) & _LOW) - _HALF


@inner()
def on_ack(g: StackGlobals, c: ConnRecord, i: int, ack: int, window: int, flags: int, bare: bool, now: int) -> None:
    """An acceptable ACK of offset `ack`, not above what was sent; `bare`: without data."""
    marked = 1 if flags & tcp.ECE and c.ecn_ok != 0 else 0
    c.ece_acks += marked
    edge = ack + (window << c.shift_out)
    same_window = edge == c.snd_edge
    if ack >= c.snd_una:
        # The right edge may not shrink (RFC 9293, 3.8.6), so a smaller one is old.
        c.snd_edge = max(c.snd_edge, edge)
        c.last_window = window << c.shift_out
    before, sacked_before, lost_before = c.seg_una, c.n_sacked, c.lost
    advanced = ack > c.snd_una
    has_blocks = c.blocks > 0 and c.sack_ok != 0
    newest = _cumulative(g, c, i, ack, marked, now) if advanced else -1
    if has_blocks:
        newest = max(newest, _blocks(g, c, i, ack, marked, now))
    if newest >= 0:
        rto.measured(c, newest)
    if marked != 0 and c.snd_una > c.cwr_point:
        c.want_cwr = 1
        c.cwr_point = c.snd_nxt
    c.delivered = c.seg_una - before + c.n_sacked - sacked_before
    if c.sack_ok == 0:
        if advanced:
            recovery.partial(g, c, i, c.seg_una - before, now)
        elif bare and same_window and c.seg_una < c.seg_nxt and ack == c.snd_una:
            recovery.duplicate(g, c, i, now)
    recovery.detect(g, c, i, now)
    recovery.reduce(c, advanced and c.lost == lost_before)
    _settle(g, c, i, advanced or (c.n_sacked > sacked_before and _before_the_first(g, c, i, newest, now)), now)
    control.note(c, now)


@inner()
def _before_the_first(g: StackGlobals, c: ConnRecord, i: int, newest: int, now: int) -> bool:
    """Return whether the round trip of what has arrived began before the first missing segment was last sent: that one
    may be on its way still. What was sent later says nothing of it, and must not put its timeout off (as in Linux)."""
    return newest >= 0 and newest > now - segment(g, i, c.seg_una).sent


@inner()
def _settle(g: StackGlobals, c: ConnRecord, i: int, progress: bool, now: int) -> None:
    """Timers, and what a tail loss probe has shown (RFC 8985, 7.4)."""
    if c.last_window == 0:
        c.retries = 0  # the peer is there (RFC 9293, 3.8.6.1)
    if c.probe_end > 0 and c.snd_una >= c.probe_end:
        if c.probe_again == 1:
            control.lost(c, c.probe_txn, now)  # it has made good a loss that nobody else told
        c.probe_end = 0
    if c.seg_una == c.seg_nxt and c.state >= tcp.ESTABLISHED:
        rto.stop(c)
        c.retries = 0
        if c.snd_end + c.fin > c.snd_nxt and c.snd_edge <= c.snd_nxt:
            c.rto_due = now + rto.timeout(c)  # to probe a window of 0
    elif progress:
        c.retries = 0
        reorder = c.reorder_due
        rto.restart(c, now)
        c.reorder_due = reorder


@inner()
def _arrived(g: StackGlobals, c: ConnRecord, i: int, number: int, marked: int, now: int) -> int:
    """A segment that was not known to have arrived; returns its round trip, -1 if it was sent more than once."""
    x = segment(g, i, number)
    place = number & (c.ring - 1)
    rtt = now - x.sent if x.count == 0 else -1
    recovery.note_delivered(c, x, number, now)
    if x.state == tcp.FLIGHT:
        control.acked(c, x.end - x.start, x.txn, rtt, marked, now)
        lists.out_of_flight(g, c, i, place)
    elif x.state == tcp.SEGMENT_LOST:
        control.acked(c, x.end - x.start, x.txn, rtt, marked, now)
        lists.out_of_lost(g, c, i, place)
        c.spurious += 1
        cc.on_spurious(c, now)
    return rtt


@inner()
def _cumulative(g: StackGlobals, c: ConnRecord, i: int, ack: int, marked: int, now: int) -> int:
    """All up to `ack` has arrived; returns the round trip of the newest segment of these, -1: not known."""
    c.snd_una = ack
    c.acked_ps = now
    newest = -1
    while c.seg_una < c.seg_nxt:
        x = segment(g, i, c.seg_una)
        if x.end > ack:
            x.start = max(x.start, ack)
            break
        if x.state == tcp.SACKED:
            c.n_sacked -= 1
        else:
            newest = max(-1, _arrived(g, c, i, c.seg_una, marked, now))
        c.seg_una += 1
    return newest


@inner()
def _find(g: StackGlobals, c: ConnRecord, i: int, at: int) -> int:
    """The first segment that begins at an offset or above."""
    low, high = c.seg_una, c.seg_nxt
    while low < high:
        middle = (low + high) >> 1
        if segment(g, i, middle).start < at:
            low = middle + 1
        else:
            high = middle
    return low


@inner()
def _blocks(g: StackGlobals, c: ConnRecord, i: int, ack: int, marked: int, now: int) -> int:
    """The blocks of a SACK option; returns the round trip of the newest segment of them."""
    newest = -1
    first = 0
    if _is_duplicate(c, ack):
        first = 1
        c.dup_sacks += 1
        c.probe_again = 0 if c.probe_end > 0 else c.probe_again
    for k in range(first, c.blocks):
        left = offset(c.snd_una, c.iss, load32be(c.blocks_at + 8 * k))
        right = offset(c.snd_una, c.iss, load32be(c.blocks_at + 8 * k + 4))
        if right <= left or left < c.snd_una or right > c.snd_nxt:
            continue
        left, right = _unseen(g, c, i, left, right)
        number = _find(g, c, i, left)
        while number < c.seg_nxt and _covered(c, segment(g, i, number), right):
            x = segment(g, i, number)
            if x.state != tcp.SACKED:
                newest = max(newest, _arrived(g, c, i, number, marked, now))
                x.state = tcp.SACKED
                c.n_sacked += 1
                recovery.note_sacked(c, number)
            number += 1
    return newest


@inner()
def _covered(c: ConnRecord, x: SegmentRecord, right: int) -> bool:
    """Return whether a block that ends at `right` has a segment, of which a FIN behind data may be left out."""
    ends = x.end == c.snd_end + 1 and x.start < c.snd_end
    return x.end <= right or (ends and c.snd_end <= right)


@inner()
def _is_duplicate(c: ConnRecord, ack: int) -> bool:
    """Return whether the first block reports a duplicate: below the ACK, or within the second block (RFC 2883, 4)."""
    left = offset(c.snd_una, c.iss, load32be(c.blocks_at))
    right = offset(c.snd_una, c.iss, load32be(c.blocks_at + 4))
    if right <= ack:
        return True
    if c.blocks < 2:
        return False
    l2 = offset(c.snd_una, c.iss, load32be(c.blocks_at + 8))
    r2 = offset(c.snd_una, c.iss, load32be(c.blocks_at + 12))
    return l2 <= left and right <= r2


@inner()
def _unseen(g: StackGlobals, c: ConnRecord, i: int, left: int, right: int) -> tuple[int, int]:
    """The part of a block that was not gone through before. Blocks come again and grow, mostly at their end."""
    for k in range(tcp.SEEN):
        r = range_of(g, i, tcp.RANGES + k)
        if r.left <= left and right <= r.right:
            return right, right
        if r.left <= left <= r.right:
            left = r.right
            r.right = right
            return left, right
        if left < r.left and r.left <= right <= r.right:
            right = r.left
            r.left = left
            return left, right
    r = range_of(g, i, tcp.RANGES + (c.seen_next & (tcp.SEEN - 1)))
    c.seen_next += 1
    r.left = left
    r.right = right
    return left, right
