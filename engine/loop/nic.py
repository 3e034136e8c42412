# SPDX-License-Identifier: Apache-2.0
"""Native hosts: frames to and from the transports in `detour.hosts.endpoint`, and their deadlines.

The host's uplink asks its transport for a frame whenever it is free and something happened. The timer's event is
re-armed lazily: it is moved only when the deadline becomes earlier; when it fires too early it is set again.

Transports are compiled into the loop; another stack (`hosts.stacks`) is called by its functions' addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.engine.loop import channels, heap, pfc, pool
from detour.engine.loop.hosts import deadline, expire, not_before, pause, receive, transmit
from detour.engine.loop.jit import inner
from detour.engine.loop.layout import CLASS_PFC, MAX_TIME, UNLIMITED_PS
from detour.engine.loop.native import call2, call3, call5, call6, load8, load16, nic_at, slot_at, stack_at
from detour.hosts.stacks import STORED_SHIFT, WIRE_MASK

_WHEN_POOL_IS_EMPTY_PS = 1_000_000


_IPV4 = np.int64(0x0008)
"""EtherType 0x0800 as a little-endian number"""


@inner(forceinline=True)
def _class_of(frame: int) -> int:
    """Class of a frame: DSCP 0 to 7 are the class of that number, all others the highest one."""
    if load16(frame + 12) == _IPV4:
        return min(load8(frame + 15) >> 2, 7)
    dscp = ((load8(frame + 14) & 0xF) << 2) | (load8(frame + 15) >> 6)
    return min(dscp, 7)


@inner(forceinline=True)
def _deadline(hs: Any, nic: Any) -> int:
    if nic.stack != 0:
        stack = stack_at(nic.stack, 0)
        return call2(stack.deadline, stack.state, nic.host)
    return deadline(hs, nic.host)


@inner(forceinline=True)
def _not_before(hs: Any, nic: Any) -> int:
    if nic.stack != 0:
        stack = stack_at(nic.stack, 0)
        return call2(stack.not_before, stack.state, nic.host)
    return not_before(hs, nic.host)


@inner(forceinline=True)
def _expire(hs: Any, nic: Any, now: int) -> None:
    if nic.stack != 0:
        stack = stack_at(nic.stack, 0)
        call3(stack.expire, stack.state, nic.host, now)
    else:
        expire(hs, nic.host, now)


@inner(forceinline=True)
def _pause(hs: Any, nic: Any) -> None:
    if nic.stack != 0:
        stack = stack_at(nic.stack, 0)
        call3(stack.pause, stack.state, nic.host, nic.paused)
    else:
        pause(hs, nic.host, nic.paused)


@inner(forceinline=True)
def _receive(g: Any, data: Any, hs: Any, nic: Any, frame: Any) -> None:
    if nic.stack != 0:
        stack = stack_at(nic.stack, 0)
        call6(stack.receive, stack.state, nic.host, g.bytes + frame.start, frame.length, frame.wire, g.now)
    else:
        receive(hs, nic.host, data, frame.start, frame.wire, g.now)


@inner(forceinline=True)
def _transmit(g: Any, data: Any, hs: Any, nic: Any, frame: Any) -> int:
    """Writes the host's next frame into a slot; returns its length on the wire, 0: there is none."""
    if nic.stack != 0:
        stack = stack_at(nic.stack, 0)
        both = call5(stack.transmit, stack.state, nic.host, g.bytes + frame.start, g.stored, g.now)
        frame.length = both >> STORED_SHIFT
        return both & WIRE_MASK
    length = transmit(hs, nic.host, data, frame.start, g.now)
    frame.length = min(length, g.stored)
    return length


@inner()
def arrive(g: Any, data: Any, hs: Any, index: int, slot_index: int) -> None:
    """A frame arrives at a host."""
    nic = nic_at(g.nics, index)
    frame = slot_at(g.slots, slot_index)
    if frame.port == CLASS_PFC:
        nic.pauses += 1
        nic.paused = pfc.masked(g, slot_index, nic.paused)
        pool.give_back(g, slot_index)
        _pause(hs, nic)
        serve(g, data, hs, index)
        return
    nic.rx_packets += 1
    nic.rx_bytes += frame.wire
    _receive(g, data, hs, nic, frame)
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
    length = _transmit(g, data, hs, nic, frame)
    if length <= 0:
        pool.give_back(g, slot_index)
        return
    frame.wire = length
    frame.port = _class_of(g.bytes + frame.start)
    nic.tx_packets += 1
    nic.tx_bytes += length
    nic.busy_until = max(channels.send(g, nic.channel, slot_index), g.now + UNLIMITED_PS)
    heap.schedule(g, nic.entity, nic.busy_until)


@inner()
def _arm(g: Any, hs: Any, nic: Any) -> None:
    pending = heap.pending_time(g, nic.timer)
    if _not_before(hs, nic) >= pending:
        return
    time = _deadline(hs, nic)
    if time < MAX_TIME and time < pending:
        heap.schedule(g, nic.timer, max(time, g.now))


@inner()
def timer(g: Any, data: Any, hs: Any, index: int) -> None:
    """A host's timer fires: if its deadline has passed say so, else set the timer again."""
    nic = nic_at(g.nics, index)
    heap.cancel(g, nic.timer)
    if _deadline(hs, nic) <= g.now:
        _expire(hs, nic, g.now)
        serve(g, data, hs, index)
        if _deadline(hs, nic) <= g.now:
            # Never call a transport twice at the same time, or one that forgets to move on stops the clock.
            heap.schedule(g, nic.timer, g.now + UNLIMITED_PS)
    else:
        _arm(g, hs, nic)
