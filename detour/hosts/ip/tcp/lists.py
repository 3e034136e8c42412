# SPDX-License-Identifier: Apache-2.0
"""The two lists of segments: in flight, in order of transmission; and lost, in order of being sent again."""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.ip.layout import StackGlobals
from detour.hosts.ip.tcp.layout import FLIGHT, SEGMENT_LOST, ConnRecord, slot


@inner()
def into_flight(g: StackGlobals, c: ConnRecord, i: int, place: int) -> None:
    """A segment goes out: the last one of those in flight."""
    x = slot(g, i, place)
    x.state = FLIGHT
    x.next = -1
    x.prev = c.flight_tail
    if c.flight_tail < 0:
        c.flight_head = place
    else:
        slot(g, i, c.flight_tail).next = place
    c.flight_tail = place
    c.inflight += 1


@inner()
def out_of_flight(g: StackGlobals, c: ConnRecord, i: int, place: int) -> None:
    """A segment is in flight no more."""
    x = slot(g, i, place)
    if x.prev < 0:
        c.flight_head = x.next
    else:
        slot(g, i, x.prev).next = x.next
    if x.next < 0:
        c.flight_tail = x.prev
    else:
        slot(g, i, x.next).prev = x.prev
    c.inflight -= 1


@inner()
def into_lost(g: StackGlobals, c: ConnRecord, i: int, place: int) -> None:
    """A segment is lost: the last one to be sent again."""
    x = slot(g, i, place)
    x.state = SEGMENT_LOST
    x.next = -1
    x.prev = c.lost_tail
    if c.lost_tail < 0:
        c.lost_head = place
    else:
        slot(g, i, c.lost_tail).next = place
    c.lost_tail = place
    c.n_lost += 1


@inner()
def out_of_lost(g: StackGlobals, c: ConnRecord, i: int, place: int) -> None:
    """A segment that was lost is sent again, or has arrived."""
    x = slot(g, i, place)
    if x.prev < 0:
        c.lost_head = x.next
    else:
        slot(g, i, x.prev).next = x.next
    if x.next < 0:
        c.lost_tail = x.prev
    else:
        slot(g, i, x.next).prev = x.prev
    c.n_lost -= 1


@inner()
def pipe(c: ConnRecord) -> int:
    """Segments under way; of a peer without SACK each duplicate ACK says that one has left."""
    return c.inflight if c.sack_ok != 0 else max(c.inflight - c.dupacks, 0)


@inner()
def forget(c: ConnRecord) -> None:
    """Both lists are empty."""
    c.flight_head = -1
    c.flight_tail = -1
    c.lost_head = -1
    c.lost_tail = -1
    c.inflight = 0
    c.n_lost = 0
    c.n_sacked = 0
