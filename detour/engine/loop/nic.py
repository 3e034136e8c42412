# SPDX-License-Identifier: Apache-2.0
"""Hosts: frames to and from their stacks, and their deadlines.

The host's uplink asks its stack for a frame whenever it is free and something happened. The timer's event is
re-armed lazily: it is moved only when the deadline becomes earlier; when it fires too early it is set again.

A host's stack (`hosts.stacks`) is called by its functions' addresses.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop import channels, heap, pfc, pool
from detour.engine.loop.layout import CLASS_PFC, MAX_TIME, UNLIMITED_PS, LoopGlobals, NicRecord
from detour.engine.loop.native import call2, call3, call5, call6, load8, load16, nic_at, slot_at, stack_at
from detour.hosts.stacks import STORED_SHIFT, WIRE_MASK

_WHEN_POOL_IS_EMPTY_PS = 1_000_000


_IPV4 = int64(0x0008)
"""EtherType 0x0800 as a little-endian number"""


@inner(forceinline=True)
def _class_of(frame: int) -> int:
    """Class of a frame: DSCP 0 to 7 are the class of that number, all others the highest one."""
    if load16(frame + 12) == _IPV4:
        return min(load8(frame + 15) >> 2, 7)
    dscp = ((load8(frame + 14) & 0xF) << 2) | (load8(frame + 15) >> 6)
    return min(dscp, 7)


@inner(forceinline=True)
def _deadline(nic: NicRecord) -> int:
    stack = stack_at(nic.stack, 0)
    return call2(stack.deadline, stack.state, nic.host)


@inner(forceinline=True)
def _not_before(nic: NicRecord) -> int:
    stack = stack_at(nic.stack, 0)
    return call2(stack.not_before, stack.state, nic.host)


@inner()
def arrive(g: LoopGlobals, index: int, slot_index: int) -> None:
    """A frame arrives at a host."""
    nic = nic_at(g.nics, index)
    frame = slot_at(g.slots, slot_index)
    if frame.port == CLASS_PFC:
        nic.pauses += 1
        nic.paused = pfc.masked(g, slot_index, nic.paused)
        pool.give_back(g, slot_index)
        stack = stack_at(nic.stack, 0)
        call3(stack.pause, stack.state, nic.host, nic.paused)
        serve(g, index)
        return
    nic.rx_packets += 1
    nic.rx_bytes += frame.wire
    stack = stack_at(nic.stack, 0)
    call6(stack.receive, stack.state, nic.host, g.slots + frame.start, frame.length, frame.wire, g.now)
    pool.give_back(g, slot_index)
    serve(g, index)


@inner()
def serve(g: LoopGlobals, index: int) -> None:
    """Send the host's next frame if its uplink is free, and look after its timer."""
    nic = nic_at(g.nics, index)
    if g.now < nic.busy_until:
        if heap.pending_time(g, int64(nic.entity)) > nic.busy_until:
            heap.schedule(g, int64(nic.entity), nic.busy_until)
    else:
        _send_next(g, nic)
    _arm(g, nic)


@inner()
def _send_next(g: LoopGlobals, nic: NicRecord) -> None:
    slot_index = pool.take(g)
    if slot_index < 0:
        nic.pool_waits += 1
        heap.schedule(g, int64(nic.entity), g.now + _WHEN_POOL_IS_EMPTY_PS)
        return
    channels.prefetch_tail(g, int64(nic.channel))
    frame = slot_at(g.slots, slot_index)
    stack = stack_at(nic.stack, 0)
    both = call5(stack.transmit, stack.state, nic.host, g.slots + frame.start, g.stored, g.now)
    if both == 0:
        pool.give_back(g, slot_index)
        return
    length = both & WIRE_MASK
    frame.length = both >> STORED_SHIFT
    frame.wire = length
    frame.port = _class_of(g.slots + frame.start)
    nic.tx_packets += 1
    nic.tx_bytes += length
    nic.busy_until = max(channels.send(g, int64(nic.channel), slot_index), g.now + UNLIMITED_PS)
    heap.schedule(g, int64(nic.entity), nic.busy_until)


@inner()
def _arm(g: LoopGlobals, nic: NicRecord) -> None:
    pending = heap.pending_time(g, int64(nic.timer))
    if _not_before(nic) >= pending:
        return
    time = _deadline(nic)
    if time < MAX_TIME and time < pending:
        heap.schedule(g, int64(nic.timer), max(time, g.now))


@inner()
def timer(g: LoopGlobals, index: int) -> None:
    """A host's timer fires: if its deadline has passed say so, else set the timer again."""
    nic = nic_at(g.nics, index)
    heap.cancel(g, int64(nic.timer))
    if _deadline(nic) <= g.now:
        stack = stack_at(nic.stack, 0)
        call3(stack.expire, stack.state, nic.host, g.now)
        serve(g, index)
        if _deadline(nic) <= g.now:
            # Never call a stack twice at the same time, or one that forgets to move on stops the clock.
            heap.schedule(g, int64(nic.timer), g.now + UNLIMITED_PS)
    else:
        _arm(g, nic)
