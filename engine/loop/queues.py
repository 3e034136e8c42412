# SPDX-License-Identifier: Apache-2.0
"""Output queues of a port: admission, order of service, occupancy.

Strict priority as in simple_switch: the queue with the highest number goes first. A queue may have BMv2's rate
in packets a second: then each packet has an earliest time of departure, and queues below it are served
meanwhile. Queues that the other end has paused (PFC) are passed over.
"""

from __future__ import annotations

from typing import Any

from detour.engine.loop import buffers, pool
from detour.engine.loop.jit import inner
from detour.engine.loop.layout import MAX_TIME
from detour.engine.loop.native import highest_bit, port_at, queue_at, slot_at, store32, switch_at


@inner()
def admits(queue: Any, wire: int) -> bool:
    """Whether a frame of `wire` bytes may join the queue, as far as the queue's own limits go."""
    if queue.packets >= queue.limit_packets:
        return False
    return queue.limit_bytes == 0 or queue.bytes + wire <= queue.limit_bytes


@inner()
def join(g: Any, port_index: int, priority: int, slot_index: int) -> bool:
    """Puts a packet into a queue; False if it is full (the packet is dropped and counted)."""
    port = port_at(g.ports, port_index)
    queue = queue_at(g.queues, port.queues + priority)
    slot = slot_at(g.slots, slot_index)
    switch = switch_at(g.switches, port.switch)
    if not admits(queue, slot.wire) or (switch.buffer_bytes != 0 and not buffers.admit(g, switch, queue, slot)):
        queue.drops += 1
        queue.drop_bytes += slot.wire
        pool.give_back(g, slot_index)
        return False
    slot.next = -1
    slot.time = g.now
    if port.paced != 0 and queue.interval_ps != 0:
        slot.time = max(g.now, queue.last_ps + queue.interval_ps)
        queue.last_ps = slot.time
    if queue.packets == 0:
        queue.head = slot_index
        port.filled |= 1 << priority
        port.used |= 1 << priority
    else:
        slot_at(g.slots, queue.tail).next = slot_index
    queue.tail = slot_index
    queue.packets += 1
    queue.bytes += slot.wire
    queue.peak_packets = max(queue.peak_packets, queue.packets)
    queue.peak_bytes = max(queue.peak_bytes, queue.bytes)
    port.waiting += 1
    if port.mirror != 0:
        store32(port.mirror, port.waiting)
    return True


@inner()
def choose(g: Any, port_index: int) -> int:
    """The queue to serve now, or -1 if none is ready."""
    port = port_at(g.ports, port_index)
    candidates = port.filled & ~port.paused
    while candidates > 0:
        priority = highest_bit(candidates)
        queue = queue_at(g.queues, port.queues + priority)
        if port.paced == 0 or slot_at(g.slots, queue.head).time <= g.now:
            return priority
        candidates ^= 1 << priority
    return -1


@inner()
def next_ready(g: Any, port_index: int) -> int:
    """When the first packet may leave that its queue's rate holds back (`MAX_TIME`: there is none)."""
    port = port_at(g.ports, port_index)
    time = MAX_TIME
    candidates = port.filled & ~port.paused if port.paced != 0 else 0
    while candidates > 0:
        priority = highest_bit(candidates)
        queue = queue_at(g.queues, port.queues + priority)
        time = min(time, slot_at(g.slots, queue.head).time)
        candidates ^= 1 << priority
    return time


@inner()
def leave(g: Any, port_index: int, priority: int) -> int:
    """Takes the first packet out of a queue that has one."""
    port = port_at(g.ports, port_index)
    queue = queue_at(g.queues, port.queues + priority)
    slot_index = queue.head
    slot = slot_at(g.slots, slot_index)
    queue.head = slot.next
    queue.packets -= 1
    queue.bytes -= slot.wire
    if queue.packets == 0:
        port.filled ^= 1 << priority
    port.waiting -= 1
    if port.mirror != 0:
        store32(port.mirror, port.waiting)
    switch = switch_at(g.switches, port.switch)
    if switch.buffer_bytes != 0:
        buffers.release(g, switch, slot)
    return slot_index


@inner()
def flush(g: Any, port_index: int) -> int:
    """Drops everything that waits at a port and returns how many packets that were."""
    port = port_at(g.ports, port_index)
    dropped = 0
    for priority in range(port.priorities):
        while queue_at(g.queues, port.queues + priority).packets > 0:
            pool.give_back(g, leave(g, port_index, priority))
            dropped += 1
    return dropped
