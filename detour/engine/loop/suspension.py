# SPDX-License-Identifier: Apache-2.0
"""Frames of some flows that leave the network for a while, wherever they are, and come back as if it had not passed.
Between two slices only.

A flow's frames are known by the destination QP in their BTH. Those that are taken are rows of a table, chained in the
order in which they were taken.
"""

from __future__ import annotations

from detour.base.chain import Chain, RowTable, is_full, make_chain
from detour.base.jit import inner, int64
from detour.base.memory import load16be, load32be
from detour.base.pointers import record_by_address
from detour.base.structs import Int64, NativeRecord
from detour.engine.loop import buffers, channels, heap, pool, queues, switch
from detour.engine.loop.layout import TO_HOST, TO_PORT, LoopGlobals, SwitchRecord
from detour.engine.loop.native import (
    channel_at,
    global_at,
    load8,
    nic_at,
    phv_at,
    port_at,
    queue_at,
    slot_at,
    switch_at,
)
from detour.hosts.frames.sizes import ETHERNET, IPV6, UDP


class TakenFrame(NativeRecord):
    """A frame that was taken: its slot, its place, its priority there (-1: the place is a channel, else a port), and
    how long it still takes to arrive."""

    slot: Int64
    place: Int64
    priority: Int64
    left: Int64
    next: Int64  # see `base.chain`


class FrameTable(NativeRecord):
    """Store of taken frames. `marks`: address of a byte for each QP, which says whether frames to it are taken
    (`DATA`, `ANSWERS`) or not (0); the number on the wire of the QP of row i is `first_qpn` + i, above `qpn_mask`
    anything. `data`: counts those to QPs with the mark `DATA`."""

    table: RowTable
    marks: Int64
    first_qpn: Int64
    qpn_mask: Int64
    data: Int64


DATA, ANSWERS = 1, 2
"""marks of QPs by what comes to them"""

_append, _take_first = make_chain(record_by_address(TakenFrame))

_ON_CHANNEL = int64(-1)
_OPTION = 8
_TYPE_IPV6, _HOP_BY_HOP, _IN_IPV6, _IN_UDP, _PORT_ROCE = 0x86DD, 0, 41, 17, 4791
_NOBODY = int64(-1)
_U32 = 0xFFFFFFFF


@inner()
def _destination(frame: int) -> int:
    """The destination QP of a frame, -1: it is not RoCEv2."""
    if load16be(frame + ETHERNET - 2) != _TYPE_IPV6:
        return _NOBODY
    following, at = load8(frame + ETHERNET + 6), frame + ETHERNET + IPV6
    if following == _HOP_BY_HOP:
        following = load8(at)
        at += _OPTION
    if following == _IN_IPV6:
        following = load8(at + 6)
        at += IPV6
    if following != _IN_UDP or load16be(at + 2) != _PORT_ROCE:
        return _NOBODY
    return load32be(at + UDP + 4) & 0xFFFFFF


@inner()
def _is_taken(g: LoopGlobals, frames: FrameTable, slot: int) -> bool:
    """Return whether a frame is for a QP that is marked, and the table has room for it."""
    number = _destination(pool.address(g, slot))
    if number < frames.first_qpn or is_full(frames.table):
        return False
    mark = load8(frames.marks + ((number - frames.first_qpn) & frames.qpn_mask))
    frames.data += int(mark == DATA)
    return mark != 0


@inner()
def _note(frames: FrameTable, chain: Chain, slot: int, place: int, priority: int, left: int) -> None:
    row = _append(frames.table, chain)
    row.slot = slot
    row.place = place
    row.priority = priority
    row.left = left


@inner()
def loop_at(address: int) -> LoopGlobals:
    """The loop's globals."""
    return global_at(address, int64(0))


@inner()
def time_left(g: LoopGlobals, port: int, nic: int) -> int:
    """Return for how long a port, or a NIC if there is none, sends what it has begun to."""
    if port >= 0:
        return max(port_at(g.ports, port).busy_until - g.now, 0)
    return max(nic_at(g.nics, nic).busy_until - g.now, 0)


@inner()
def waiting(g: LoopGlobals, port: int) -> int:
    """Return how many packets wait at a port."""
    return port_at(g.ports, port).waiting


@inner()
def lossless_behind(g: LoopGlobals, index: int) -> int:
    """Return the switch to which a channel leads, if it pauses what comes by it when its memory is short (PFC); -1: it
    does not."""
    channel = channel_at(g.channels, index)
    if channel.kind != TO_PORT:
        return _NOBODY
    switch = port_at(g.ports, channel.index).switch
    return switch if switch_at(g.switches, switch).lossless != 0 else _NOBODY


@inner()
def switch_of(g: LoopGlobals, index: int) -> SwitchRecord:
    """A switch and its memory (`engine.loop.buffers`)."""
    return switch_at(g.switches, index)


@inner()
def occupy(g: LoopGlobals, port: int, nic: int, left: int) -> None:
    """A port, or a NIC if there is none, sends nothing else for so long at least."""
    if port >= 0:
        row = port_at(g.ports, port)
        row.busy_until = max(row.busy_until, g.now + left)
    else:
        one = nic_at(g.nics, nic)
        one.busy_until = max(one.busy_until, g.now + left)


@inner()
def kick(g: LoopGlobals, index: int) -> None:
    """A NIC may have something to send."""
    nic = nic_at(g.nics, index)
    heap.schedule(g, int64(nic.entity), max(g.now, nic.busy_until))


@inner()
def set_rate(g: LoopGlobals, index: int, rate_bps: int) -> None:
    """Set the rate of a channel."""
    channel_at(g.channels, index).rate_bps = rate_bps


@inner()
def take_off_channel(g: LoopGlobals, index: int, frames: FrameTable, chain: Chain) -> None:
    """Take the frames of marked QPs off a channel."""
    channel = channel_at(g.channels, index)
    slot, before, had = channel.head, int64(-1), channel.count
    for _ in range(had):
        frame = slot_at(g.slots, slot)
        following = frame.next
        if _is_taken(g, frames, slot):
            _note(frames, chain, slot, index, _ON_CHANNEL, frame.time - g.now)
            channel.count -= 1
            if before < 0:
                channel.head = following
            else:
                slot_at(g.slots, before).next = following
        else:
            before = slot
        slot = following
    channel.tail = before
    if channel.count == 0:
        heap.cancel(g, channel.entity)
    elif channel.count != had:
        slot_at(g.slots, before).next = -1
        heap.schedule(g, channel.entity, slot_at(g.slots, channel.head).time)


@inner()
def take_out_of_port(g: LoopGlobals, index: int, frames: FrameTable, chain: Chain) -> None:
    """Take them out of the queues of a port."""
    port = port_at(g.ports, index)
    for priority in range(port.priorities):
        for _ in range(queue_at(g.queues, port.queues + priority).packets):
            slot = queues.take_first(g, index, priority)
            if _is_taken(g, frames, slot):
                _note(frames, chain, slot, index, int64(priority), int64(0))
            else:
                queues.append(g, index, priority, slot)


@inner()
def drop(address: int, frames: FrameTable, chain: Chain) -> None:
    """End the frames to QPs with a mark; the others keep their order. `address`: of the loop's globals."""
    g = global_at(address, int64(0))
    for _ in range(chain.count):
        row = _take_first(frames.table, chain)
        slot, place, priority, left = row.slot, row.place, row.priority, row.left
        number = _destination(pool.address(g, slot))
        if load8(frames.marks + ((number - frames.first_qpn) & frames.qpn_mask)) == 0:
            _note(frames, chain, slot, place, priority, left)
            continue
        if priority != _ON_CHANNEL:
            owner = switch_at(g.switches, port_at(g.ports, place).switch)
            if owner.buffer_bytes != 0:
                buffers.release(g, owner, slot_at(g.slots, slot))
            # Each worker has PHVs of its own, and nobody gives others some of them.
            worker, phv = int64(0), slot_at(g.slots, slot).phv
            while phv >= global_at(address, worker).phvs_end:
                worker += 1
            pool.give_back_phv(global_at(address, worker), slot)
        pool.give_back(g, slot)


@inner()
def put_back(g: LoopGlobals, frames: FrameTable, chain: Chain, elapsed: int) -> None:
    """Put all frames back, in the order in which they were taken, `elapsed` ps later."""
    while chain.count > 0:
        row = _take_first(frames.table, chain)
        slot, place, priority, left = row.slot, row.place, row.priority, row.left
        if priority == _ON_CHANNEL:
            channels.insert(g, place, slot, g.now + left)
            continue
        std = phv_at(pool.phv_address(g, slot), 0)
        std.enq_timestamp = (std.enq_timestamp + elapsed // g.tick_ps) & _U32
        queues.append(g, place, priority, slot)
        switch.wake_later(g, place)


@inner()
def credit(g: LoopGlobals, index: int, packets: int, size: int) -> None:
    """Count frames of `size` bytes that were not sent as sent on a channel and received."""
    channel = channel_at(g.channels, index)
    channel.packets += packets
    channel.bytes += packets * size
    channel.busy_ps += packets * channels.duration(channel.rate_bps, size + g.overhead_bytes)
    if channel.kind == TO_PORT:
        port = port_at(g.ports, channel.index)
        port.rx_packets += packets
        port.rx_bytes += packets * size
    elif channel.kind == TO_HOST:
        nic = nic_at(g.nics, channel.index)
        nic.rx_packets += packets
        nic.rx_bytes += packets * size
