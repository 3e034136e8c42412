# SPDX-License-Identifier: Apache-2.0
"""Output queues of a port: admission, order of service, occupancy.

Strict priority as in simple_switch: the queue with the highest number goes first. A queue may have a rate, in packets
a second as BMv2's or in bits a second: then each packet has an earliest time of departure, and queues below it are
served meanwhile. Queues with a quantum share by deficit round robin what strict ones leave. Queues that the other end
has paused (PFC) are passed over. Ports with rates or quanta are `managed`; the others pay nothing for it. A program may
rank its packets: a queue, and those of a round among each other, then go by rank, the lowest first, and by arrival and
turn among equals (PIFO: Sivaraman et al., SIGCOMM 2016).
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.engine.loop import buffers, pool
from detour.engine.loop.layout import MAX_TIME, LoopGlobals, PortRecord, QueueRecord, SlotRecord, SwitchRecord
from detour.engine.loop.native import (
    highest_bit,
    load8,
    load16,
    load64,
    phv_at,
    port_at,
    queue_at,
    slot_at,
    store16,
    store32,
    switch_at,
)

_PS_PER_SECOND_OF_BITS = 8 * 1_000_000_000_000


@inner(forceinline=True)
def admits(queue: QueueRecord, wire: int) -> bool:
    """Return whether the queue's own limits let a frame of `wire` bytes be enqueued."""
    if queue.packets >= queue.limit_packets:
        return False
    return queue.limit_bytes == 0 or queue.bytes + wire <= queue.limit_bytes


@inner(forceinline=True)
def _stores(g: LoopGlobals, switch: SwitchRecord, queue: QueueRecord, slot: SlotRecord) -> bool:
    """Return whether queue and memory have room for a packet, which then has it."""
    return admits(queue, slot.wire) and (switch.buffer_bytes == 0 or buffers.admit(g, switch, queue, slot))


@inner()
def _trim(g: LoopGlobals, port: PortRecord, switch: SwitchRecord, slot_index: int) -> int:
    """Cut a packet that its queue has no room for, if the program wants that. Return the queue that has room for what
    is left, -1: none, and the packet is whole."""
    slot, phv = slot_at(g.slots, slot_index), pool.phv_address(g, slot_index)
    std, whole = phv_at(phv, 0), slot.wire
    left, priority = load16(phv + switch.trim_to), load8(phv + switch.trim_priority)
    if (
        left < std.payload_offset
        or left >= whole
        or priority >= port.priorities
        or buffers.is_lossless(g, switch, slot)
    ):
        return -1
    slot.wire = left
    if not _stores(g, switch, queue_at(g.queues, port.queues + priority), slot):
        slot.wire = whole
        return -1
    slot.length = min(slot.length, left)
    std.priority = priority
    store16(phv + switch.trimmed, whole - left)
    switch.trims += 1
    return priority


@inner()
def _drop(g: LoopGlobals, switch: SwitchRecord, queue: QueueRecord, slot_index: int) -> None:
    slot = slot_at(g.slots, slot_index)
    queue.drops += 1
    queue.drop_bytes += slot.wire
    if admits(queue, slot.wire):
        buffers.count_drop(g, switch, slot)
    pool.give_back(g, slot_index)


@inner(forceinline=True)
def enqueue(g: LoopGlobals, port_index: int, priority: int, slot_index: int) -> bool:
    """Put a packet into a queue; False if it is full (the packet is dropped and counted), unless what is left when it
    is trimmed finds room in another one."""
    port = port_at(g.ports, port_index)
    queue = queue_at(g.queues, port.queues + priority)
    slot = slot_at(g.slots, slot_index)
    switch = switch_at(g.switches, port.switch)
    if not _stores(g, switch, queue, slot):
        priority = _trim(g, port, switch, slot_index) if switch.trim_to != 0 else -1
        if priority < 0:
            _drop(g, switch, queue, slot_index)
            return False
    append(g, port_index, priority, slot_index)
    return True


@inner(forceinline=True)
def append(g: LoopGlobals, port_index: int, priority: int, slot_index: int) -> None:
    """Put a packet that has its part of the switch's memory into a queue."""
    port = port_at(g.ports, port_index)
    queue = queue_at(g.queues, port.queues + priority)
    slot = slot_at(g.slots, slot_index)
    switch = switch_at(g.switches, port.switch)
    slot.next = -1
    slot.time = g.now if port.managed == 0 else _departure(g, queue, slot.wire)
    if queue.packets == 0:
        queue.head = queue.tail = slot_index
        port.filled |= 1 << priority
        port.used |= 1 << priority
    elif switch.queue_rank != 0 and _rank(g, switch, slot_index) < _rank(g, switch, queue.tail):
        _insert_by_rank(g, switch, queue, slot_index)
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


@inner(forceinline=True)
def _rank(g: LoopGlobals, switch: SwitchRecord, slot_index: int) -> int:
    return load64(pool.phv_address(g, slot_index) + switch.queue_rank)


@inner()
def _insert_by_rank(g: LoopGlobals, switch: SwitchRecord, queue: QueueRecord, slot_index: int) -> None:
    """Put a packet in front of the first one of higher rank, which there is."""
    rank = _rank(g, switch, slot_index)
    before, behind = -1, queue.head
    while _rank(g, switch, behind) <= rank:
        before, behind = behind, slot_at(g.slots, behind).next
    slot_at(g.slots, slot_index).next = behind
    if before < 0:
        queue.head = slot_index
    else:
        slot_at(g.slots, before).next = slot_index
    if queue.interval_ps != 0 or queue.rate_bps != 0:
        _keep_departures(g, slot_index)


@inner()
def _keep_departures(g: LoopGlobals, slot_index: int) -> None:
    """A packet has the last time of departure of its queue, but not the last place: times stay with the places."""
    last, behind = slot_at(g.slots, slot_index).time, slot_at(g.slots, slot_index).next
    while behind >= 0:
        slot_at(g.slots, slot_index).time = slot_at(g.slots, behind).time
        slot_index, behind = behind, slot_at(g.slots, behind).next
    slot_at(g.slots, slot_index).time = last


@inner()
def _departure(g: LoopGlobals, queue: QueueRecord, wire: int) -> int:
    """The earliest time at which a packet that is enqueued now may leave, by the queue's rates."""
    time = max(g.now, queue.last_ps + queue.interval_ps) if queue.interval_ps != 0 else g.now
    if queue.rate_bps != 0:
        time = max(time, queue.last_ps + queue.last_bytes * _PS_PER_SECOND_OF_BITS // queue.rate_bps)
    queue.last_ps = time
    queue.last_bytes = wire
    return time


@inner(forceinline=True)
def choose(g: LoopGlobals, port_index: int) -> int:
    """The queue to serve now, or -1 if none is ready."""
    port = port_at(g.ports, port_index)
    candidates = port.filled & ~port.paused
    if port.managed != 0:
        return _choose_managed(g, port, candidates)
    return highest_bit(candidates) if candidates > 0 else -1


@inner()
def _choose_managed(g: LoopGlobals, port: PortRecord, candidates: int) -> int:
    """Strict queues first, then those of the round; of all only those whose first packet may leave by its rate."""
    ready = candidates
    while candidates > 0:
        priority = highest_bit(candidates)
        candidates ^= 1 << priority
        if slot_at(g.slots, queue_at(g.queues, port.queues + priority).head).time > g.now:
            ready ^= 1 << priority
    strict = ready & ~(port.managed >> 1)
    if strict > 0:
        return highest_bit(strict)
    if ready <= 0:
        return -1
    switch = switch_at(g.switches, port.switch)
    return _next_in_round(g, port, _lowest(g, switch, port, ready) if switch.queue_rank != 0 else ready)


@inner()
def _lowest(g: LoopGlobals, switch: SwitchRecord, port: PortRecord, ready: int) -> int:
    """Return the mask of the queues whose first packet has the lowest rank."""
    lowest, least, candidates = 0, MAX_TIME, ready
    while candidates > 0:
        priority = highest_bit(candidates)
        candidates ^= 1 << priority
        rank = _rank(g, switch, queue_at(g.queues, port.queues + priority).head)
        if rank < least:
            lowest, least = 0, rank
        if rank == least:
            lowest |= 1 << priority
    return lowest


@inner()
def _next_in_round(g: LoopGlobals, port: PortRecord, ready: int) -> int:
    """Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): a queue is given its quantum when its turn comes, and
    sends as long as its first packet is no longer than what it has been given and not used."""
    while True:
        priority = port.turn >> 1
        if (ready >> priority) & 1:
            queue = queue_at(g.queues, port.queues + priority)
            if port.turn & 1 == 0:
                queue.deficit += queue.quantum
                port.turn |= 1
            if queue.deficit >= slot_at(g.slots, queue.head).wire:
                return priority
        above = ready & ~((2 << priority) - 1)
        candidates = above if above > 0 else ready
        port.turn = 2 * highest_bit(candidates & -candidates)


@inner()
def next_ready(g: LoopGlobals, port_index: int) -> int:
    """The time when the first packet may leave that its queue's rate holds back (`MAX_TIME`: there is none)."""
    port = port_at(g.ports, port_index)
    time = MAX_TIME
    candidates = port.filled & ~port.paused if port.managed != 0 else 0
    while candidates > 0:
        priority = highest_bit(candidates)
        queue = queue_at(g.queues, port.queues + priority)
        time = min(time, slot_at(g.slots, queue.head).time)
        candidates ^= 1 << priority
    return time


@inner(forceinline=True)
def dequeue(g: LoopGlobals, port_index: int, priority: int) -> int:
    """Take the first packet out of a queue that has one, and out of the switch's memory."""
    slot_index = take_first(g, port_index, priority)
    switch = switch_at(g.switches, port_at(g.ports, port_index).switch)
    if switch.buffer_bytes != 0:
        buffers.release(g, switch, slot_at(g.slots, slot_index))
    return slot_index


@inner(forceinline=True)
def take_first(g: LoopGlobals, port_index: int, priority: int) -> int:
    """Take the first packet out of a queue that has one."""
    port = port_at(g.ports, port_index)
    queue = queue_at(g.queues, port.queues + priority)
    slot_index = queue.head
    slot = slot_at(g.slots, slot_index)
    queue.head = slot.next
    queue.packets -= 1
    queue.bytes -= slot.wire
    if queue.packets == 0:
        port.filled ^= 1 << priority
    if port.managed != 0:
        queue.deficit = max(queue.deficit - slot.wire, 0) if queue.packets > 0 else 0
    port.waiting -= 1
    if port.mirror != 0:
        store32(port.mirror, port.waiting)
    return slot_index


@inner()
def flush(g: LoopGlobals, port_index: int) -> int:
    """Drop everything that waits at a port and return how many packets that were."""
    port = port_at(g.ports, port_index)
    dropped = 0
    for priority in range(port.priorities):
        while queue_at(g.queues, port.queues + priority).packets > 0:
            pool.give_back(g, dequeue(g, port_index, priority))
            dropped += 1
    return dropped
