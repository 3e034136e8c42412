# SPDX-License-Identifier: Apache-2.0
"""Timers of sockets, and the sockets that may send now (`hosts.scheduling`)."""

from __future__ import annotations

from detour.base.heap import HeapEntry
from detour.base.jit import inner
from detour.hosts.ip.layout import MAX_TIME, IpHostRecord, SocketRecord, StackGlobals, heap_at, host_row, socket_row
from detour.hosts.scheduling import make_deadlines, make_round


@inner(forceinline=True)
def _heap_row(g: StackGlobals, host: int, k: int) -> HeapEntry:
    return heap_at(g.heaps, host * g.per_host + k)


make_ready, take_ready = make_round(socket_row, host_row)
_advance, _top, first_key, _postpone_top, _remove = make_deadlines(socket_row, host_row, _heap_row)


@inner()
def set_due(g: StackGlobals, i: int, s: SocketRecord, when: int) -> None:
    """Socket `i` wants to be called at `when` (MAX_TIME: not at all)."""
    s.due = when
    if when != MAX_TIME:
        _advance(g, i, s, when)


@inner()
def first_due(g: StackGlobals, host: int, h: IpHostRecord) -> int:
    """The first deadline of a host, ps."""
    while h.heap_size > 0:
        s = socket_row(g, _top(g, host))
        if s.due <= s.heap_key:
            break
        if s.due == MAX_TIME:
            _remove(g, s)
        else:
            _postpone_top(g, host, s.due)
    return first_key(g, host)


@inner()
def take_due(g: StackGlobals, host: int, h: IpHostRecord, now: int) -> int:
    """Remove and return a socket whose deadline has passed, or -1."""
    if first_due(g, host, h) > now:
        return -1
    i = _top(g, host)
    s = socket_row(g, i)
    s.due = MAX_TIME
    _remove(g, s)
    return i
