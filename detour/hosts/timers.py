# SPDX-License-Identifier: Apache-2.0
"""Deadlines: for each host a binary heap of the QPs that have one.

Deadlines of a busy QP move into the future with every ACK. So a heap key is a lower bound of the QP's deadline;
it is made exact only when it reaches the top (`paths`, `lerp` say what the deadline is). An earlier deadline
sifts up at once (`advance`).
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import njit
from detour.hosts.jit import inner
from detour.hosts.state import NIL


@inner
def _put(hs: Any, host: int, place: int, i: int) -> None:
    hs.heap[host, place] = i
    hs.qp[i]["heap_pos"] = place


@inner
def _sift_up(hs: Any, host: int, place: int) -> None:
    i = hs.heap[host, place]
    key = hs.qp[i]["heap_key"]
    while place > 0:
        parent = (place - 1) >> 1
        other = hs.heap[host, parent]
        if hs.qp[other]["heap_key"] <= key:
            break
        _put(hs, host, place, other)
        place = parent
    _put(hs, host, place, i)


@inner
def _sift_down(hs: Any, host: int, place: int) -> None:
    i = hs.heap[host, place]
    key = hs.qp[i]["heap_key"]
    size = hs.host[host]["heap_size"]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size:
            left, right = hs.heap[host, child], hs.heap[host, child + 1]
            if hs.qp[right]["heap_key"] < hs.qp[left]["heap_key"]:
                child += 1
        other = hs.heap[host, child]
        if hs.qp[other]["heap_key"] >= key:
            break
        _put(hs, host, place, other)
        place = child
    _put(hs, host, place, i)


@inner
def advance(hs: Any, i: int, q: Any, when: int) -> None:
    """Makes sure that QP `i` is looked at by `when`."""
    host = q["host"]
    if q["heap_pos"] == NIL:
        size = hs.host[host]["heap_size"]
        hs.host[host]["heap_size"] = size + 1
        q["heap_key"] = when
        _put(hs, host, size, i)
        _sift_up(hs, host, size)
    elif when < q["heap_key"]:
        q["heap_key"] = when
        _sift_up(hs, host, q["heap_pos"])


@inner
def top(hs: Any, host: int) -> int:
    """QP with the smallest key, or `NIL`."""
    return hs.heap[host, 0] if hs.host[host]["heap_size"] else NIL


@inner
def postpone_top(hs: Any, host: int, when: int) -> None:
    """The top's deadline is `when`, no earlier than its key."""
    hs.qp[hs.heap[host, 0]]["heap_key"] = when
    _sift_down(hs, host, 0)


@njit
def remove(hs: Any, q: Any) -> None:
    """The QP has no deadline any more."""
    place = q["heap_pos"]
    if place == NIL:
        return
    host = q["host"]
    q["heap_pos"] = NIL
    size = hs.host[host]["heap_size"] - 1
    hs.host[host]["heap_size"] = size
    if place < size:
        _put(hs, host, place, hs.heap[host, size])
        _sift_down(hs, host, place)
        _sift_up(hs, host, hs.qp[hs.heap[host, place]]["heap_pos"])
