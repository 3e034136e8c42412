# SPDX-License-Identifier: Apache-2.0
"""Deadlines: for each host a binary heap of the QPs that have one.

Deadlines of a busy QP move into the future with every ACK. So a heap key is a lower bound of the QP's deadline;
it is made exact only when it reaches the top (`paths`, `lerp` say what the deadline is). An earlier deadline
sifts up at once (`advance`).
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts.records import QueuePair
from detour.hosts.rows import heap_row, host_row, qp_row
from detour.hosts.state import MAX_TIME, NIL, Handle


@inner
def _qp_at(hs: Handle, host: int, place: int) -> int:
    """The QP at a place in the heap."""
    return int64(heap_row(hs, host, place).qp)


@inner
def _put(hs: Handle, host: int, place: int, i: int) -> None:
    q = qp_row(hs, i)
    heap_row(hs, host, place).qp = i
    q.heap_pos = place
    if place == 0:
        host_row(hs, host).heap_first = q.heap_key


@inner
def _sift_up(hs: Handle, host: int, place: int) -> None:
    i = _qp_at(hs, host, place)
    key = qp_row(hs, i).heap_key
    while place > 0:
        parent = (place - 1) >> 1
        other = _qp_at(hs, host, parent)
        if qp_row(hs, other).heap_key <= key:
            break
        _put(hs, host, place, other)
        place = parent
    _put(hs, host, place, i)


@inner
def _sift_down(hs: Handle, host: int, place: int) -> None:
    i = _qp_at(hs, host, place)
    key = qp_row(hs, i).heap_key
    size = host_row(hs, host).heap_size
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other = _qp_at(hs, host, child)
        if child + 1 < size:
            right = _qp_at(hs, host, child + 1)
            if qp_row(hs, right).heap_key < qp_row(hs, other).heap_key:
                child, other = child + 1, right
        if qp_row(hs, other).heap_key >= key:
            break
        _put(hs, host, place, other)
        place = child
    _put(hs, host, place, i)


@inner
def advance(hs: Handle, i: int, q: QueuePair, when: int) -> None:
    """Makes sure that QP `i` is looked at by `when`."""
    host = q.host
    if q.heap_pos == NIL:
        size = host_row(hs, host).heap_size
        host_row(hs, host).heap_size = size + 1
        q.heap_key = when
        _put(hs, host, size, i)
        _sift_up(hs, host, size)
    elif when < q.heap_key:
        q.heap_key = when
        _sift_up(hs, host, q.heap_pos)


@inner
def top(hs: Handle, host: int) -> int:
    """QP with the smallest key, or `NIL`."""
    return _qp_at(hs, host, int64(0)) if host_row(hs, host).heap_size else int64(NIL)


@inner
def first_key(hs: Handle, host: int) -> int:
    """The smallest key, `MAX_TIME` without any: no deadline is earlier."""
    h = host_row(hs, host)
    return h.heap_first if h.heap_size else MAX_TIME


@inner
def postpone_top(hs: Handle, host: int, when: int) -> None:
    """The top's deadline is `when`, no earlier than its key."""
    qp_row(hs, _qp_at(hs, host, int64(0))).heap_key = when
    _sift_down(hs, host, int64(0))


@inner
def remove(hs: Handle, q: QueuePair) -> None:
    """The QP has no deadline any more."""
    place = q.heap_pos
    if place == NIL:
        return
    host = q.host
    q.heap_pos = NIL
    size = host_row(hs, host).heap_size - 1
    host_row(hs, host).heap_size = size
    if place < size:
        moved = _qp_at(hs, host, size)
        _put(hs, host, place, moved)
        _sift_down(hs, host, place)
        _sift_up(hs, host, qp_row(hs, moved).heap_pos)
