# SPDX-License-Identifier: Apache-2.0
"""Native hosts: frames to and from the transports in `detour.hosts.endpoint`, and their deadlines.

The host's uplink asks its transport for a frame whenever it is free and something happened. The timer's event is
re-armed lazily: it is moved only when the deadline becomes earlier; when it fires too early it is set again.
"""

from __future__ import annotations

from typing import Any

from detour.engine.loop import channels, heap, pfc, pool
from detour.engine.loop.hosts import deadline, expire, not_before, pause, receive, transmit
from detour.engine.loop.jit import inner
from detour.engine.loop.layout import CLASS_PFC, MAX_TIME, UNLIMITED_PS
from detour.engine.loop.native import load8, nic_at, slot_at

_WHEN_POOL_IS_EMPTY_PS = 1_000_000


@inner(forceinline=True)
def _class_of(frame: int) -> int:
    """Class of an IPv6 frame: DSCP 0 to 7 are the class of that number, all others the highest one."""
    dscp = ((load8(frame + 14) & 0xF) << 2) | (load8(frame + 15) >> 6)
    return min(dscp, 7)


@inner()
def arrive(g: Any, data: Any, hs: Any, index: int, slot_index: int) -> None:
    """A frame arrives at a host."""
    nic = nic_at(g.nics, index)
    frame = slot_at(g.slots, slot_index)
    if frame.port == CLASS_PFC:
        nic.pauses += 1
        nic.paused = pfc.masked(g, slot_index, nic.paused)
        pool.give_back(g, slot_index)
        pause(hs, nic.host, nic.paused)
        serve(g, data, hs, index)
        return
    nic.rx_packets += 1
    nic.rx_bytes += frame.wire
    receive(hs, nic.host, data, frame.start, frame.wire, g.now)
    pool.give_back(g, slot_index)
    serve(g, data, hs, index)


@inner()
def serve(g: Any, data: Any, hs: Any, index: int) -> None:
    """Sends the host's next frame if its uplink is free, and looks after its timer."""
    nic = nic_at(g.nics, index)
    if g.now < nic.busy_until:
        if heap.pending_time(g, nic.entity) > nic.busy_until:
            heap.schedule(g, nic.entity, nic.busy_until)
    else:
        _send_next(g, data, hs, nic)
    _arm(g, hs, nic)


@inner()
def _send_next(g: Any, data: Any, hs: Any, nic: Any) -> None:
    slot_index = pool.take(g)
    if slot_index < 0:
        nic.pool_waits += 1
        heap.schedule(g, nic.entity, g.now + _WHEN_POOL_IS_EMPTY_PS)
        return
    frame = slot_at(g.slots, slot_index)
    length = transmit(hs, nic.host, data, frame.start, g.now)
    if length <= 0:
        pool.give_back(g, slot_index)
        return
    frame.length = min(length, g.stored)
    frame.wire = length
    frame.port = _class_of(g.bytes + frame.start)
    nic.tx_packets += 1
    nic.tx_bytes += length
    nic.busy_until = max(channels.send(g, nic.channel, slot_index), g.now + UNLIMITED_PS)
    heap.schedule(g, nic.entity, nic.busy_until)


@inner()
def _arm(g: Any, hs: Any, nic: Any) -> None:
    pending = heap.pending_time(g, nic.timer)
    if not_before(hs, nic.host) >= pending:
        return
    time = deadline(hs, nic.host)
    if time < MAX_TIME and time < pending:
        heap.schedule(g, nic.timer, max(time, g.now))


@inner()
def timer(g: Any, data: Any, hs: Any, index: int) -> None:
    """A host's timer fires: if its deadline has passed say so, else set the timer again."""
    nic = nic_at(g.nics, index)
    heap.cancel(g, nic.timer)
    if deadline(hs, nic.host) <= g.now:
        expire(hs, nic.host, g.now)
        serve(g, data, hs, index)
        if deadline(hs, nic.host) <= g.now:
            # Never call a transport twice at the same time, or one that forgets to move on stops the clock.
            heap.schedule(g, nic.timer, g.now + UNLIMITED_PS)
    else:
        _arm(g, hs, nic)
