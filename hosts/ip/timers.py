# SPDX-License-Identifier: Apache-2.0
"""When sockets want to be called, and which of them may send now.

Each host has a heap of deadlines and a round of sockets that may have something to send. A deadline that moves further
away is left in the heap where it is, and looked at again when it comes: for timers that every packet postpones.
"""

from __future__ import annotations

from detour.base.heap import HeapEntry, make_heap
from detour.base.jit import inner, int64
from detour.hosts.ip.layout import MAX_TIME, IpHostRecord, SocketRecord, StackGlobals
from detour.hosts.ip.rows import heap_at, host_at, socket_at


@inner(forceinline=True)
def _entry(g: StackGlobals, first: int, k: int) -> HeapEntry:
    return heap_at(g.heaps, first + k)


@inner(forceinline=True)
def _moved(g: StackGlobals, i: int, place: int, time: int) -> None:
    s = socket_at(g.sockets, i)
    s.pos = place
    s.key = time


_up, _down, _remove = make_heap(_entry, _moved, ways=2)


@inner()
def _note_first(g: StackGlobals, h: IpHostRecord, base: int) -> None:
    h.heap_first = heap_at(g.heaps, base).time if h.heap_size > 0 else MAX_TIME


@inner()
def set_due(g: StackGlobals, s: SocketRecord, i: int, when: int) -> None:
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
def _remove_first(g: StackGlobals, h: IpHostRecord, base: int) -> None:
    socket_at(g.sockets, heap_at(g.heaps, base).who).pos = -1
    h.heap_size -= 1
    _remove(g, base, h.heap_size, int64(0))


@inner()
def first_due(g: StackGlobals, host: int, h: IpHostRecord) -> int:
    """The first deadline of a host, ps."""
    base = host * g.per_host
    while h.heap_size > 0:
        top = heap_at(g.heaps, base)
        s = socket_at(g.sockets, top.who)
        if s.due <= top.time:
            break
        if s.due == MAX_TIME:
            _remove_first(g, h, base)
        else:
            _down(g, base, h.heap_size, int64(0), s.due, top.who)
    _note_first(g, h, base)
    return h.heap_first


@inner()
def take_due(g: StackGlobals, host: int, h: IpHostRecord, now: int) -> int:
    """Removes and returns a socket whose deadline has passed, or -1."""
    if first_due(g, host, h) > now:
        return -1
    base = host * g.per_host
    i = heap_at(g.heaps, base).who
    socket_at(g.sockets, i).due = MAX_TIME
    _remove_first(g, h, base)
    _note_first(g, h, base)
    return i


@inner()
def make_ready(g: StackGlobals, s: SocketRecord, i: int) -> None:
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
def take_ready(g: StackGlobals, h: IpHostRecord) -> int:
    """Removes and returns the first socket of the round, of which there must be one."""
    i = h.ready_head
    s = socket_at(g.sockets, i)
    s.ready = 0
    h.ready_head = s.next
    if h.ready_head < 0:
        h.ready_tail = -1
    return i
