# SPDX-License-Identifier: Apache-2.0
"""Lines: frames on their way, in order of arrival, with one pending event for the first of them.

A link is a line in each direction. Frames that wait to come in (from sockets, from Python, from recirculation)
are lines as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.engine.loop import heap, pool
from detour.engine.loop.jit import inner
from detour.engine.loop.layout import CLASS_PFC, TO_CPU, TO_IO, TO_SINK, UNLIMITED_PS, UP_PACKET_IN, UP_SINK
from detour.engine.loop.native import line_at, load8, port_at, slot_at, store8, switch_at
from detour.engine.loop.outside import send_frame
from detour.engine.loop.up import tell

_PS_PER_SECOND_OF_BITS = 8 * 1_000_000_000_000
_NO_DETAIL = np.int64(0)


@inner(forceinline=True)
def duration(rate_bps: int, size: int) -> int:
    """Time in ps that `size` bytes take at a rate (0: unlimited)."""
    if rate_bps == 0:
        return UNLIMITED_PS
    return max(size * _PS_PER_SECOND_OF_BITS // rate_bps, 1)


@inner()
def append(g: Any, index: int, slot: int, time: int) -> None:
    """Puts a frame at the end of a line, to arrive at `time` (not before the frame in front of it)."""
    line = line_at(g.lines, index)
    frame = slot_at(g.slots, slot)
    frame.next = -1
    frame.time = time
    if line.count == 0:
        line.head = slot
        heap.schedule(g, line.entity, time)
    else:
        slot_at(g.slots, line.tail).next = slot
    line.tail = slot
    line.count += 1


@inner()
def pop(g: Any, index: int) -> int:
    """Takes the first frame off a line and sets the line's event to the next one."""
    line = line_at(g.lines, index)
    slot = line.head
    line.head = slot_at(g.slots, slot).next
    line.count -= 1
    if line.count > 0:
        heap.schedule(g, line.entity, slot_at(g.slots, line.head).time)
        pool.prefetch_next(g, line.head)
    else:
        heap.cancel(g, line.entity)
    return slot


@inner()
def flush(g: Any, index: int) -> int:
    """Drops all frames of a line and returns how many they were."""
    line = line_at(g.lines, index)
    count = line.count
    slot = line.head
    for _ in range(count):
        following = slot_at(g.slots, slot).next
        pool.give_back(g, slot)
        slot = following
    line.count = 0
    line.head = -1
    heap.cancel(g, line.entity)
    return count


@inner(forceinline=True)
def _draw(line: Any) -> int:
    """The line's next random number, 32 bits (xorshift64, and a product that does not overflow 63 bits)."""
    x = line.random
    x ^= (x >> 12) & 0x000FFFFFFFFFFFFF
    x ^= x << 25
    x ^= (x >> 27) & 0x0000001FFFFFFFFF
    line.random = x
    return ((((x >> 32) & 0xFFFFFFFF) * 1812433253) >> 16) & 0xFFFFFFFF


@inner()
def _mishap(g: Any, index: int, slot: int, arrival: int) -> bool:
    """Injects the line's faults into a frame; False if it is lost. A duplicate arrives right before it."""
    line = line_at(g.lines, index)
    frame = slot_at(g.slots, slot)
    if line.loss > 0 and _draw(line) < line.loss:
        line.lost += 1
        pool.give_back(g, slot)
        return False
    if line.duplicate > 0 and _draw(line) < line.duplicate:
        copy = pool.copy_frame(g, slot)
        if copy >= 0:
            line.duplicated += 1
            append(g, index, copy, arrival)
    if line.corrupt > 0 and _draw(line) < line.corrupt and frame.length > 0:
        line.corrupted += 1
        where = g.bytes + frame.start + _draw(line) % frame.length
        store8(where, load8(where) ^ (1 << (_draw(line) & 7)))
    return True


@inner()
def send(g: Any, index: int, slot: int) -> int:
    """Sends a frame now and returns when the sender is free again. The frame arrives a delay after that.

    PFC frames are spared injected faults: senders repeat them, which `pfc` leaves out."""
    line = line_at(g.lines, index)
    size = slot_at(g.slots, slot).wire + g.overhead_bytes
    busy = duration(line.rate_bps, size)
    line.packets += 1
    line.bytes += slot_at(g.slots, slot).wire
    if line.rate_bps != 0:
        line.busy_ps += busy
    arrival = g.now + busy + line.delay_ps
    if line.up == 0:
        line.cut += 1
        pool.give_back(g, slot)
    elif line.faulty == 0 or slot_at(g.slots, slot).port == CLASS_PFC or _mishap(g, index, slot, arrival):
        if line.kind >= TO_IO and line.count == 0 and line.rate_bps == 0 and line.delay_ps == 0:
            leave(g, index, slot)
        else:
            append(g, index, slot, arrival)
    return g.now + busy


@inner()
def leave(g: Any, index: int, slot: int) -> None:
    """A frame leaves the fabric: to a socket, to the controller, to a sink."""
    line = line_at(g.lines, index)
    if line.kind == TO_IO:
        send_frame(g, line.index, slot)
        return
    if line.kind == TO_CPU:
        switch = switch_at(g.switches, port_at(g.ports, line.index).switch)
        if switch.wants_packet_in != 0 and _tell_frame(g, UP_PACKET_IN, line.index, slot):
            switch.packet_ins += 1
        else:
            switch.packet_in_drops += 1
    elif line.kind == TO_SINK:
        _tell_frame(g, UP_SINK, line.index, slot)
    pool.give_back(g, slot)


@inner()
def _tell_frame(g: Any, kind: int, port: int, slot: int) -> bool:
    frame = slot_at(g.slots, slot)
    return tell(g, kind, port, _NO_DETAIL, g.bytes + frame.start, frame.length, frame.wire)
