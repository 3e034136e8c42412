# SPDX-License-Identifier: Apache-2.0
"""Packets that were sent and not acknowledged: two lists per QP, linked through its slots.

The flight list is in order of transmission, whatever the sequence numbers, so everything before a given entry
was sent earlier. Path epochs follow one another in it; `epoch_head` is the current epoch's first entry. A QP that
sprays has such a list for each of its candidate paths instead, without epochs (`multipath`). The lost list is first in,
first out. Slots are indexed by sequence number modulo window.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.records import QueuePair
from detour.hosts.rows import candidate_row, cfg_row, slot_row
from detour.hosts.state import NIL, NO_CANDIDATE, SLOT_ACKED, SLOT_FLIGHT, SLOT_LOST, Handle


@inner
def seq_of(hs: Handle, q: QueuePair, index: int) -> int:
    """Sequence number of the packet in a slot that is in use."""
    return q.snd_una + ((index - q.snd_una) & (cfg_row(hs).window - 1))


@inner
def _link(hs: Handle, i: int, index: int, tail: int) -> None:
    s = slot_row(hs, i, index)
    s.next = NIL
    s.prev = tail
    if tail != NIL:
        slot_row(hs, i, tail).next = index


@inner
def append(hs: Handle, i: int, q: QueuePair, index: int, now: int) -> None:
    """The packet in slot `index`, which is on no list, goes out now on the current path."""
    s = slot_row(hs, i, index)
    s.state = SLOT_FLIGHT
    s.sent = now
    s.txn = q.next_txn
    s.before = s.cand if s.epoch == q.epoch else NO_CANDIDATE
    s.epoch = q.epoch
    s.cand = q.cand
    q.next_txn += 1
    q.inflight += 1
    if q.sprays:
        c = candidate_row(hs, i, q.cand)
        _link(hs, i, index, c.tail)
        if c.tail == NIL:
            c.head = index
        c.tail = index
        c.flying += 1
        return
    _link(hs, i, index, q.flight_tail)
    if q.flight_tail == NIL:
        q.flight_head = index
    q.flight_tail = index
    if q.epoch_head == NIL:
        q.epoch_head = index


@inner
def _unlink(hs: Handle, i: int, index: int) -> tuple[int, int]:
    """Join the neighbours of a slot on its list, and return them; at an end of the list one is NIL."""
    s = slot_row(hs, i, index)
    before, after = s.prev, s.next
    if before != NIL:
        slot_row(hs, i, before).next = after
    if after != NIL:
        slot_row(hs, i, after).prev = before
    return before, after


@inner
def _take_from_flight(hs: Handle, i: int, q: QueuePair, index: int) -> None:
    s = slot_row(hs, i, index)
    before, after = _unlink(hs, i, index)
    if q.sprays:
        c = candidate_row(hs, i, s.cand)
        if before == NIL:
            c.head = after
        if after == NIL:
            c.tail = before
        c.flying -= 1
        q.inflight -= 1
        return
    if q.epoch_head == index:
        q.epoch_head = after
    if before == NIL:
        q.flight_head = after
    if after == NIL:
        q.flight_tail = before
    if s.epoch == q.epoch:
        q.inflight -= 1


@inner
def _take_from_lost(hs: Handle, i: int, q: QueuePair, index: int) -> None:
    before, after = _unlink(hs, i, index)
    if before == NIL:
        q.lost_head = after
    if after == NIL:
        q.lost_tail = before
    q.n_lost -= 1


@inner
def take(hs: Handle, i: int, q: QueuePair, index: int) -> None:
    """Take a packet off the list that it is on and count it as acknowledged."""
    s = slot_row(hs, i, index)
    if s.state == SLOT_FLIGHT:
        _take_from_flight(hs, i, q, index)
    elif s.state == SLOT_LOST:
        _take_from_lost(hs, i, q, index)
    s.state = SLOT_ACKED


@inner
def lose(hs: Handle, i: int, q: QueuePair, index: int) -> None:
    """Move a packet in flight to the end of the lost list."""
    _take_from_flight(hs, i, q, index)
    slot_row(hs, i, index).state = SLOT_LOST
    _link(hs, i, index, q.lost_tail)
    if q.lost_tail == NIL:
        q.lost_head = index
    q.lost_tail = index
    q.n_lost += 1
    q.st_lost += 1


@inner
def rewind(hs: Handle, i: int, q: QueuePair) -> None:
    """Go-back-N: moves all packets in flight to the front of the lost list, in order."""
    while q.flight_tail != NIL:
        index = q.flight_tail
        _take_from_flight(hs, i, q, index)
        head = q.lost_head
        s = slot_row(hs, i, index)
        s.state = SLOT_LOST
        s.prev = NIL
        s.next = head
        if head == NIL:
            q.lost_tail = index
        else:
            slot_row(hs, i, head).prev = index
        q.lost_head = index
        q.n_lost += 1
        q.st_lost += 1


@inner
def clear(q: QueuePair) -> None:
    """Empty both lists."""
    q.flight_head = NIL
    q.flight_tail = NIL
    q.epoch_head = NIL
    q.lost_head = NIL
    q.lost_tail = NIL
    q.inflight = 0
    q.n_lost = 0
