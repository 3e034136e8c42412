# SPDX-License-Identifier: Apache-2.0
"""Validation of ACKs at the sender. docs/transports-reference.md has the table of all fields, of data too.

That a frame is of this connection is known by then: its QPN has the row's generation in it. What is asked here is
whether it can be an answer to what this connection sent, and whether its fields agree with each other as those of a
responder do. One that fails is dropped as a whole and counted (`st_answers_dropped`): it acknowledges nothing, marks
nothing and measures nothing.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.frames import wire
from detour.hosts.frames.wire import unwrap
from detour.hosts.records import QueuePair, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row, frame_row, slot_row
from detour.hosts.state import QPS_RTS, Handle


@inner
def is_answer(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame) -> bool:
    """Return whether the ACK or NAK in `f` can answer packets of QP `i`: its PSN is in [snd_una - window, snd_nxt), the
    packet that caused it has been sent, and so has everything that it says has arrived."""
    una = q.snd_una
    # Behind a remote access error nothing is sent any more, but it was, and is answered.
    end = q.snd_nxt if q.nak_seq < 0 else q.nak_end
    psn = unwrap(f.psn, una)
    trigger = unwrap(f.trigger, una)
    if psn < una - cfg_row(hs).window or psn >= end or trigger >= end:
        return False
    if f.syndrome == wire.SYNDROME_ACK:
        if psn >= q.snd_nxt or not _was_sent(hs, i, q, trigger, f.count):
            return False
        return not q.selective or _map_agrees(f, psn, trigger, end, una)
    if f.syndrome == wire.SYNDROME_SEQUENCE:
        return not q.selective and psn < trigger and _was_sent(hs, i, q, trigger, f.count)
    if f.syndrome == wire.SYNDROME_ACCESS:  # what was refused was never acknowledged
        return psn == trigger and psn >= una
    trimmed = f.syndrome == wire.SYNDROME_TRIMMED and q.selective != 0
    return (trimmed or f.syndrome == wire.SYNDROME_RNR) and psn == trigger and _was_sent(hs, i, q, trigger, f.count)


@inner
def _was_sent(hs: Handle, i: int, q: QueuePair, seq: int, count: int) -> bool:
    """Return whether packet `seq`, if it is not acknowledged yet, was sent `count` times before at least. Counts are
    modulo 128, so half of them are behind the last one."""
    if count > wire.COUNT_MASK:
        return False
    if seq < q.snd_una:
        return True
    last = slot_row(hs, i, seq & (cfg_row(hs).window - 1)).count
    return ((last - count) & wire.COUNT_MASK) <= wire.COUNT_MASK >> 1


@inner
def _map_agrees(f: ReceivedFrame, psn: int, trigger: int, end: int, una: int) -> bool:
    """Return whether the bitmap begins where a responder begins it, names what was sent only, and, unless all before
    the packet that caused the ACK has arrived, that one too."""
    if f.bitmap == 0:
        return trigger <= psn
    base = unwrap(f.base, una)
    if base != max(psn + 1, trigger - wire.SACK_BEHIND):
        return False
    if trigger > psn and not (f.bitmap >> (trigger - base)) & 1:
        return False
    room = end - base
    return room >= wire.SACK_BITS or (room > 0 and f.bitmap >> room == 0)


@inner
def is_notification(hs: Handle, i: int, q: QueuePair) -> bool:
    """Return whether the CNP in `frame_row(hs)` is one that this QP's peer may send: both run DCQCN with CNPs and a
    packet was sent."""
    if q.state != QPS_RTS or not q.rate_based or cfg_row(hs).cnp_interval_ps == 0:
        return False
    return q.st_packets > 0 and frame_row(hs).psn == 0


@inner
def is_about_this_path(hs: Handle, i: int, q: QueuePair) -> bool:
    """Return whether the CNP in `frame_row(hs)` is about the path that packets take now, and not about one that was
    left."""
    c = candidate_row(hs, i, q.cand)
    return c.packets > 0 and frame_row(hs).sport == c.sport
