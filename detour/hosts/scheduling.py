# SPDX-License-Identifier: Apache-2.0
"""Scheduling within a host: who sends next, and who is called when; the same for queue pairs and sockets.

Each host has a round of those that may have something to send, linked through their rows, and a binary heap of those
that have a deadline. Deadlines of a busy sender move into the future with every packet. So a heap key is a lower bound,
which is made exact only when it reaches the top (`postpone_top`); an earlier deadline sifts up at once (`advance`). All
costs next to nothing a packet, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from detour.base.heap import HeapEntry, make_heap
from detour.base.jit import inner, int64
from detour.base.structs import Int64, NativeRecord
from detour.base.times import MAX_TIME

NIL = -1
_FIRST = int64(0)
_G = TypeVar("_G")


class ScheduledHost(NativeRecord):
    """Fields that hosts of every stack have."""

    mac: Int64
    rng: Int64
    now: Int64  # time of the last call
    paused: Int64  # mask of priorities that must not be sent
    active_head: Int64  # round of those that may have something to send
    active_tail: Int64
    heap_size: Int64  # heap of deadlines, and the first one's key
    heap_first: Int64


class Scheduled(Protocol):
    """Fields of whoever sends."""

    host: int
    active: int
    active_next: int
    heap_pos: int
    heap_key: int


def make_round(
    row: Callable[[_G, int], Scheduled], host_row: Callable[[_G, int], ScheduledHost]
) -> tuple[Callable[[_G, int, Scheduled], None], Callable[[_G, ScheduledHost], int]]:
    """`activate(g, i, s)`: sender `i` may have something to send, it gets the last place in the round; `take(g, h)`
    removes and returns the first one, or `NIL`."""

    @inner
    def activate(g: _G, i: int, s: Scheduled) -> None:
        if s.active:
            return
        s.active = 1
        s.active_next = NIL
        h = host_row(g, s.host)
        if h.active_tail == NIL:
            h.active_head = i
        else:
            row(g, h.active_tail).active_next = i
        h.active_tail = i

    @inner
    def take(g: _G, h: ScheduledHost) -> int:
        i = h.active_head
        if i == NIL:
            return NIL
        s = row(g, i)
        s.active = 0
        h.active_head = s.active_next
        if h.active_head == NIL:
            h.active_tail = NIL
        return i

    return activate, take


def make_deadlines(
    row: Callable[[_G, int], Scheduled],
    host_row: Callable[[_G, int], ScheduledHost],
    heap_row: Callable[[_G, int, int], HeapEntry],
) -> tuple[
    Callable[[_G, int, Scheduled, int], None],
    Callable[[_G, int], int],
    Callable[[_G, int], int],
    Callable[[_G, int, int], None],
    Callable[[_G, Scheduled], None],
]:
    """`advance(g, i, s, when)`: sender `i` is looked at by `when`; `top(g, host)`: the one with the smallest key, or
    `NIL`; `first_key(g, host)`: that key, `MAX_TIME` without any; `postpone_top(g, host, when)`: the top's deadline is
    `when`, no earlier than its key; `remove(g, s)`: a sender has no deadline any more."""

    @inner(forceinline=True)
    def moved(g: _G, i: int, place: int, key: int) -> None:
        s = row(g, i)
        s.heap_pos = place
        s.heap_key = key
        if place == 0:
            host_row(g, s.host).heap_first = key

    up, down, remove_at = make_heap(heap_row, moved, ways=2)

    @inner
    def advance(g: _G, i: int, s: Scheduled, when: int) -> None:
        if s.heap_pos == NIL:
            h = host_row(g, s.host)
            h.heap_size += 1
            up(g, s.host, h.heap_size - 1, when, i)
        elif when < s.heap_key:
            up(g, s.host, s.heap_pos, when, i)

    @inner
    def top(g: _G, host: int) -> int:
        return heap_row(g, host, _FIRST).who if host_row(g, host).heap_size else int64(NIL)

    @inner
    def first_key(g: _G, host: int) -> int:
        h = host_row(g, host)
        return h.heap_first if h.heap_size else MAX_TIME

    @inner
    def postpone_top(g: _G, host: int, when: int) -> None:
        down(g, host, host_row(g, host).heap_size, _FIRST, when, heap_row(g, host, _FIRST).who)

    @inner
    def remove(g: _G, s: Scheduled) -> None:
        place = s.heap_pos
        if place == NIL:
            return
        s.heap_pos = NIL
        h = host_row(g, s.host)
        h.heap_size -= 1
        remove_at(g, s.host, h.heap_size, place)

    return advance, top, first_key, postpone_top, remove
