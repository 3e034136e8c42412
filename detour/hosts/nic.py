# SPDX-License-Identifier: Apache-2.0
"""Scheduling in a NIC: which QP sends next, control messages before data, and what a pause stops.

Each host has a ring of control messages (ACK, NAK, CNP, PTR), a ring of PTMs and a round of QPs that may have something
to send (`scheduling`). PTMs travel in the class of data and are paused with it; so they have a ring of their own, where
nothing waits behind them.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.records import QueuePair, RdmaHost, RingEnds
from detour.hosts.rows import cfg_row, host_row, qp_row
from detour.hosts.scheduling import make_round
from detour.hosts.state import NIL, Handle

CTL_NONE, CTL_ACK, CTL_PTM, CTL_PTR, CTL_CNP = 0, 1, 2, 3, 4


activate, take_active = make_round(qp_row, host_row)


@inner
def deactivate(hs: Handle, i: int, q: QueuePair) -> None:
    """QP `i` has nothing to send any more: the round goes on without it."""
    if not q.active:
        return
    h = host_row(hs, q.host)
    last = h.active_tail
    while True:
        first = take_active(hs, h)
        if first != i:
            activate(hs, first, qp_row(hs, first))
        if first == last:
            return


@inner
def _push(hs: Handle, h: RdmaHost, ring: RingEnds) -> int:
    """Index of a fresh entry at the end of one of the host's rings; `NIL` if it is full (then the message is lost,
    which every protocol here survives)."""
    depth = cfg_row(hs).control_depth
    if ring.tail == ring.head:
        # An empty ring begins anew, so that what waits for a moment only stays in the processor's cache.
        ring.head = ring.tail = 0
    if ring.tail - ring.head >= depth:
        h.control_dropped += 1
        return NIL
    index = ring.tail & (depth - 1)
    ring.tail += 1
    return index


@inner
def push_control(hs: Handle, host: int) -> int:
    """`_push` for the ring of control messages."""
    h = host_row(hs, host)
    return _push(hs, h, h.ctl)


@inner
def push_ptm(hs: Handle, host: int) -> int:
    """`_push` for the ring of PTMs."""
    h = host_row(hs, host)
    return _push(hs, h, h.ptm)


@inner
def pop(hs: Handle, ring: RingEnds) -> int:
    """Remove the oldest entry, of which there must be one; its index is valid until the next push."""
    index = ring.head & (cfg_row(hs).control_depth - 1)
    ring.head += 1
    return index


@inner
def waits(ring: RingEnds) -> bool:
    """Return whether a ring has an entry."""
    return ring.head != ring.tail


@inner
def may_send_data(hs: Handle, h: RdmaHost) -> bool:
    """Return whether the priority of data is not paused."""
    return h.paused == 0 or not (h.paused >> cfg_row(hs).data_priority) & 1


@inner
def has_work(hs: Handle, host: int) -> bool:
    """Return whether a host may have something to send now."""
    h = host_row(hs, host)
    if waits(h.ctl):
        return True
    return may_send_data(hs, h) and (h.active_head != NIL or waits(h.ptm))
