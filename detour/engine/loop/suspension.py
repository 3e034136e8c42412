# SPDX-License-Identifier: Apache-2.0
"""Frames of some flows are taken out of the network, wherever they are, and come back as they were (`engine.suspension`
says what for). Between two slices only.

A flow's frames are known by the destination QP in their BTH.
"""

from __future__ import annotations

from detour.base.arrays import Int64s1, Int64s2
from detour.base.jit import inner, int64
from detour.base.memory import load16be, load32be
from detour.base.native import Part
from detour.engine.loop import channels, heap, pool, queues, switch
from detour.engine.loop.layout import LoopGlobals
from detour.engine.loop.native import channel_at, global_at, load8, phv_at, port_at, queue_at, slot_at
from detour.hosts.frames.sizes import ETHERNET, IPV6, UDP

SUSPENSION = Part("suspension", __name__)

FIELDS = 4
"""of a frame that was taken: its slot, its place, its priority there (-1: the place is a channel, else a port), and how
long it still takes to arrive"""
_SLOT, _PLACE, _PRIORITY, _LEFT = range(FIELDS)
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
def _is_marked(g: LoopGlobals, slot: int, marks: int, first: int, mask: int) -> bool:
    """Return whether a frame is for a QP that is marked: `marks` has a byte for each row."""
    number = _destination(pool.address(g, slot))
    return number >= first and load8(marks + ((number - first) & mask)) != 0


@inner()
def _note(taken: Int64s2, count: int, slot: int, place: int, priority: int, left: int) -> None:
    taken[count, _SLOT] = slot
    taken[count, _PLACE] = place
    taken[count, _PRIORITY] = priority
    taken[count, _LEFT] = left


@inner()
def _take_off(g: LoopGlobals, index: int, marks: int, first: int, mask: int, taken: Int64s2, count: int) -> int:
    """Take the frames of marked QPs off a channel; returns how many frames are taken by now."""
    channel = channel_at(g.channels, index)
    slot, before, had = channel.head, int64(-1), channel.count
    for _ in range(had):
        frame = slot_at(g.slots, slot)
        following = frame.next
        if _is_marked(g, slot, marks, first, mask):
            _note(taken, count, slot, index, _ON_CHANNEL, frame.time - g.now)
            count += 1
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
    return count


@inner()
def _take_out(g: LoopGlobals, index: int, marks: int, first: int, mask: int, taken: Int64s2, count: int) -> int:
    """The same for the queues of a port."""
    port = port_at(g.ports, index)
    for priority in range(port.priorities):
        for _ in range(queue_at(g.queues, port.queues + priority).packets):
            slot = queues.dequeue(g, index, priority)
            if _is_marked(g, slot, marks, first, mask):
                _note(taken, count, slot, index, priority, int64(0))
                count += 1
            else:
                queues.enqueue(g, index, priority, slot)
    return count


@SUSPENSION.entry
def take_frames(
    globals_: int, marks: int, first: int, mask: int, links: Int64s1, ports: Int64s1, taken: Int64s2
) -> int:
    """Takes the frames of marked QPs off channels and out of the queues of ports; returns how many. The number on the
    wire of the QP of row i is `first` + i, above `mask` anything; `taken` has room for all frames that are there."""
    g, count = global_at(globals_, 0), 0
    for k in range(len(links)):
        count = _take_off(g, links[k], marks, first, mask, taken, count)
    for k in range(len(ports)):
        count = _take_out(g, ports[k], marks, first, mask, taken, count)
    return count


@SUSPENSION.entry
def put_frames(globals_: int, taken: Int64s2, count: int, elapsed: int) -> None:
    """Puts frames back, in the order in which they were taken, `elapsed` ps later."""
    g = global_at(globals_, 0)
    for k in range(count):
        slot, place, priority = taken[k, _SLOT], taken[k, _PLACE], taken[k, _PRIORITY]
        if priority == _ON_CHANNEL:
            channels.insert(g, place, slot, g.now + taken[k, _LEFT])
            continue
        std = phv_at(pool.phv_address(g, slot), 0)
        std.enq_timestamp = (std.enq_timestamp + elapsed // g.tick_ps) & _U32
        if queues.enqueue(g, place, priority, slot):
            switch.wake_later(g, place)
