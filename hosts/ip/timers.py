# SPDX-License-Identifier: Apache-2.0
"""When sockets want to be called, and which of them may send now.

Each host has a heap of deadlines and a round of sockets that may have something to send. A deadline that moves further
away is left in the heap where it is, and looked at again when it comes: for timers that every packet postpones.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import inner
from detour.hosts.ip.layout import MAX_TIME
from detour.hosts.ip.rows import heap_at, host_at, socket_at


@inner()
def _put(g: Any, base: int, place: int, time: int, i: int) -> None:
    entry = heap_at(g.heaps, base + place)
    entry.time = time
    entry.socket = i
    s = socket_at(g.sockets, i)
    s.pos = place
    s.key = time


@inner()
def _up(g: Any, base: int, place: int, time: int, i: int) -> None:
    """Puts an entry at a place or above."""
    while place > 0:
        above = (place - 1) >> 1
        other = heap_at(g.heaps, base + above)
        if other.time <= time:
            break
        _put(g, base, place, other.time, other.socket)
        place = above
    _put(g, base, place, time, i)


@inner()
def _down(g: Any, base: int, size: int, place: int, time: int, i: int) -> None:
    """Puts an entry at a place or below."""
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap_at(g.heaps, base + child + 1).time < heap_at(g.heaps, base + child).time:
            child += 1
        other = heap_at(g.heaps, base + child)
        if other.time >= time:
            break
        _put(g, base, place, other.time, other.socket)
        place = child
    _put(g, base, place, time, i)


@inner()
def _note_first(g: Any, h: Any, base: int) -> None:
    h.heap_first = heap_at(g.heaps, base).time if h.heap_size > 0 else MAX_TIME


@inner()
def set_due(g: Any, s: Any, i: int, when: int) -> None:
    """Socket `i` wants to be called at `when` (MAX_TIME: not at all)."""
    s.due = when
    if when == MAX_TIME or (s.pos >= 0 and s.key <= when):
        return
    h = host_at(g.hosts, s.host)
    base = s.host * g.per_host
    if s.pos < 0:
        h.heap_size += 1
        _up(g, base, h.heap_size - 1, when, i)
    else:
        _up(g, base, s.pos, when, i)
    _note_first(g, h, base)


@inner()
def _remove_first(g: Any, h: Any, base: int) -> None:
    socket_at(g.sockets, heap_at(g.heaps, base).socket).pos = -1
    h.heap_size -= 1
    if h.heap_size > 0:
        last = heap_at(g.heaps, base + h.heap_size)
        _down(g, base, h.heap_size, 0, last.time, last.socket)


@inner()
def first_due(g: Any, host: int, h: Any) -> int:
    """The first deadline of a host, ps."""
    base = host * g.per_host
    while h.heap_size > 0:
        top = heap_at(g.heaps, base)
        s = socket_at(g.sockets, top.socket)
        if s.due <= top.time:
            break
        if s.due == MAX_TIME:
            _remove_first(g, h, base)
        else:
            _down(g, base, h.heap_size, 0, s.due, top.socket)
    _note_first(g, h, base)
    return h.heap_first


@inner()
def take_due(g: Any, host: int, h: Any, now: int) -> int:
    """Removes and returns a socket whose deadline has passed, or -1."""
    if first_due(g, host, h) > now:
        return -1
    base = host * g.per_host
    i = heap_at(g.heaps, base).socket
    socket_at(g.sockets, i).due = MAX_TIME
    _remove_first(g, h, base)
    _note_first(g, h, base)
    return i


@inner()
def make_ready(g: Any, s: Any, i: int) -> None:
    """Socket `i` may have something to send: it gets the last place in the round."""
    if s.ready != 0:
        return
    s.ready = 1
    s.next = -1
    h = host_at(g.hosts, s.host)
    if h.ready_tail < 0:
        h.ready_head = i
    else:
        socket_at(g.sockets, h.ready_tail).next = i
    h.ready_tail = i


@inner()
def take_ready(g: Any, h: Any) -> int:
    """Removes and returns the first socket of the round, of which there must be one."""
    i = h.ready_head
    s = socket_at(g.sockets, i)
    s.ready = 0
    h.ready_head = s.next
    if h.ready_head < 0:
        h.ready_tail = -1
    return i
