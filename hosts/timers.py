# SPDX-License-Identifier: Apache-2.0
"""Deadlines: for each host a binary heap of the QPs that have one.

Deadlines of a busy QP move into the future with every ACK. So a heap key is a lower bound of the QP's deadline;
it is made exact only when it reaches the top (`paths`, `lerp` say what the deadline is). An earlier deadline
sifts up at once (`advance`).
"""

from __future__ import annotations

from detour.base.heap import make_heap
from detour.base.jit import inner, int64
from detour.hosts.records import QueuePair
from detour.hosts.rows import heap_row, host_row, qp_row
from detour.hosts.state import MAX_TIME, NIL, Handle

_FIRST = int64(0)


@inner(forceinline=True)
def _moved(hs: Handle, i: int, place: int, key: int) -> None:
    q = qp_row(hs, i)
    q.heap_pos = place
    q.heap_key = key
    if place == 0:
        host_row(hs, q.host).heap_first = key


_up, _down, _remove = make_heap(heap_row, _moved, ways=2)


@inner
def advance(hs: Handle, i: int, q: QueuePair, when: int) -> None:
    """Makes sure that QP `i` is looked at by `when`."""
    if q.heap_pos == NIL:
        h = host_row(hs, q.host)
        h.heap_size += 1
        _up(hs, q.host, h.heap_size - 1, when, i)
    elif when < q.heap_key:
        _up(hs, q.host, q.heap_pos, when, i)


@inner
def top(hs: Handle, host: int) -> int:
    """QP with the smallest key, or `NIL`."""
    return heap_row(hs, host, _FIRST).who if host_row(hs, host).heap_size else int64(NIL)


@inner
def first_key(hs: Handle, host: int) -> int:
    """The smallest key, `MAX_TIME` without any: no deadline is earlier."""
    h = host_row(hs, host)
    return h.heap_first if h.heap_size else MAX_TIME


@inner
def postpone_top(hs: Handle, host: int, when: int) -> None:
    """The top's deadline is `when`, no earlier than its key."""
    _down(hs, host, host_row(hs, host).heap_size, _FIRST, when, heap_row(hs, host, _FIRST).who)


@inner
def remove(hs: Handle, q: QueuePair) -> None:
    """The QP has no deadline any more."""
    place = q.heap_pos
    if place == NIL:
        return
    q.heap_pos = NIL
    h = host_row(hs, q.host)
    h.heap_size -= 1
    _remove(hs, q.host, h.heap_size, place)
