# SPDX-License-Identifier: Apache-2.0
"""Channels: frames on their way, in order of arrival, with one pending event for the first of them.

A link is a channel in each direction. Frames that wait to come in (from sockets, from Python, from recirculation)
are channels as well.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop import heap, mail, pool
from detour.engine.loop.layout import (
    CLASS_PFC,
    JITTER_SHIFT,
    TO_CPU,
    TO_HOST,
    TO_INGRESS,
    TO_IO,
    TO_SINK,
    UNLIMITED_PS,
    UP_PACKET_IN,
    UP_SINK,
    ChannelRecord,
    LoopGlobals,
)
from detour.engine.loop.log import log_upcall
from detour.engine.loop.native import channel_at, load8, port_at, slot_at, store8, switch_at
from detour.engine.loop.socket_io import send_frame

_PS_PER_SECOND_OF_BITS = 8 * 1_000_000_000_000
_NO_DETAIL = int64(0)


@inner(forceinline=True)
def duration(rate_bps: int, size: int) -> int:
    """Time in ps that `size` bytes take at a rate (0: unlimited)."""
    if rate_bps == 0:
        return UNLIMITED_PS
    return max(size * _PS_PER_SECOND_OF_BITS // rate_bps, 1)


@inner()
def append(g: LoopGlobals, index: int, slot: int, time: int) -> None:
    """Put a frame at the end of a channel, to arrive at `time` (not before the frame in front of it)."""
    channel = channel_at(g.channels, index)
    frame = slot_at(g.slots, slot)
    frame.next = -1
    frame.time = time
    if channel.count == 0:
        channel.head = slot
        heap.schedule(g, channel.entity, time)
    else:
        slot_at(g.slots, channel.tail).next = slot
    channel.tail = slot
    channel.count += 1


@inner()
def insert(g: LoopGlobals, index: int, slot: int, time: int) -> None:
    """Put a frame between those that a channel has, to arrive at `time`; behind those of the same time."""
    channel = channel_at(g.channels, index)
    if channel.count == 0 or slot_at(g.slots, channel.tail).time <= time:
        append(g, index, slot, time)
        return
    frame = slot_at(g.slots, slot)
    frame.time = time
    channel.count += 1
    if slot_at(g.slots, channel.head).time > time:
        frame.next = channel.head
        channel.head = slot
        heap.schedule(g, channel.entity, time)
        return
    before = channel.head
    while slot_at(g.slots, slot_at(g.slots, before).next).time <= time:
        before = slot_at(g.slots, before).next
    frame.next = slot_at(g.slots, before).next
    slot_at(g.slots, before).next = slot


@inner(forceinline=True)
def pop(g: LoopGlobals, index: int) -> int:
    """Take the first frame off a channel and set the channel's event to the next one."""
    channel = channel_at(g.channels, index)
    slot = channel.head
    channel.head = slot_at(g.slots, slot).next
    channel.count -= 1
    if channel.count > 0:
        time = slot_at(g.slots, channel.head).time
        heap.schedule(g, channel.entity, time)
        if time < g.window_end:
            pool.prefetch_next(g, channel.head)
            if channel.kind == TO_HOST:
                pool.prefetch_rest(g, channel.head)
    else:
        heap.cancel(g, channel.entity)
    return slot


@inner()
def flush(g: LoopGlobals, index: int) -> int:
    """Drop all frames of a channel and return how many they were."""
    channel = channel_at(g.channels, index)
    count = channel.count
    slot = channel.head
    for _ in range(count):
        following = slot_at(g.slots, slot).next
        pool.give_back(g, slot)
        slot = following
    channel.count = 0
    channel.head = -1
    heap.cancel(g, channel.entity)
    return count


@inner(forceinline=True)
def _draw(channel: ChannelRecord) -> int:
    """The channel's next random number, 32 bits (xorshift64, and a product that does not overflow 63 bits)."""
    x = channel.random
    x ^= (x >> 12) & 0x000FFFFFFFFFFFFF
    x ^= x << 25
    x ^= (x >> 27) & 0x0000001FFFFFFFFF
    channel.random = x
    return ((((x >> 32) & 0xFFFFFFFF) * 1812433253) >> 16) & 0xFFFFFFFF


@inner()
def _lateness(channel: ChannelRecord) -> int:
    """Delay of the next frame of a channel, ps: with its probability up to `late_ps`, evenly spread."""
    if channel.late == 0 or _draw(channel) >= channel.late:
        return 0
    return 1 + _draw(channel) % channel.late_ps


@inner(forceinline=True)
def _jittered(g: LoopGlobals, channel: ChannelRecord, size: int, arrival: int) -> int:
    """The arrival time of a frame on a channel with jitter: behind its time by a draw, evenly spread, but in order."""
    # Of 32 random bits 24 count: with a jitter of 100 ms and more the product has room in 63 bits.
    arrival += ((_draw(channel) >> 8) * (channel.jitter * size >> JITTER_SHIFT)) >> 24
    return max(arrival, slot_at(g.slots, channel.tail).time) if channel.count > 0 and channel.late_ps == 0 else arrival


@inner()
def deliver(g: LoopGlobals, index: int, slot: int, arrival: int) -> None:
    """A frame is on its way, or out already where the way takes no time."""
    channel = channel_at(g.channels, index)
    if channel.faulty != 0 and channel.late_ps != 0:
        insert(g, index, slot, arrival)
    elif channel.kind >= TO_IO and channel.count == 0 and channel.rate_bps == 0 and channel.delay_ps == 0:
        leave(g, index, slot)
    else:
        append(g, index, slot, arrival)


@inner(forceinline=True)
def _set_out(g: LoopGlobals, index: int, slot: int, arrival: int) -> None:
    """The same, or the frame is mailed to the worker that executes the other end."""
    if g.known_until <= arrival < g.first_arrival:
        g.first_arrival = arrival
    worker = channel_at(g.channels, index).mailbox
    if worker != 0:
        mail.post(g, worker - 1, index, slot, arrival)
    else:
        deliver(g, index, slot, arrival)


@inner()
def _inject_faults(g: LoopGlobals, index: int, slot: int, arrival: int) -> bool:
    """Inject the faults of a channel into a frame; False if it is lost. A duplicate arrives right before it."""
    channel = channel_at(g.channels, index)
    frame = slot_at(g.slots, slot)
    if channel.loss > 0 and _draw(channel) < channel.loss:
        channel.lost += 1
        pool.give_back(g, slot)
        return False
    if channel.duplicate > 0 and _draw(channel) < channel.duplicate:
        copy = pool.copy_frame(g, slot)
        if copy >= 0:
            channel.duplicated += 1
            _set_out(g, index, copy, arrival)
    if channel.corrupt > 0 and _draw(channel) < channel.corrupt and frame.length > 0:
        channel.corrupted += 1
        where = g.slots + frame.start + _draw(channel) % frame.length
        store8(where, load8(where) ^ (1 << (_draw(channel) & 7)))
    return True


@inner(forceinline=True)
def prefetch_tail(g: LoopGlobals, index: int) -> None:
    """Ask the cache for the frame that a frame will follow which is about to be written for that channel."""
    channel = channel_at(g.channels, index)
    if channel.mailbox == 0 and channel.count > 0:
        pool.prefetch_slot(g, channel.tail)


@inner(forceinline=True)
def send(g: LoopGlobals, index: int, slot: int) -> int:
    """Send a frame now and return when the sender is free again. The frame arrives a delay after that."""
    return send_at(g, index, slot, g.now)


@inner(forceinline=True)
def send_at(g: LoopGlobals, index: int, slot: int, begin: int) -> int:
    """The same with a frame that begins to leave now or later, after those before it.

    PFC frames are spared injected faults: senders repeat them, which `pfc` leaves out."""
    channel = channel_at(g.channels, index)
    size = slot_at(g.slots, slot).wire + g.overhead_bytes
    busy = duration(channel.rate_bps, size)
    channel.packets += 1
    channel.bytes += slot_at(g.slots, slot).wire
    if channel.rate_bps != 0:
        channel.busy_ps += busy
    arrival = begin + busy + channel.delay_ps
    if channel.mailbox == 0 and channel.jitter != 0:
        arrival = _jittered(g, channel, size, arrival)
    if channel.up == 0:
        channel.cut += 1
        pool.give_back(g, slot)
    elif channel.faulty == 0 or (slot_at(g.slots, slot).port == CLASS_PFC and channel.kind != TO_INGRESS):
        _set_out(g, index, slot, arrival)
    elif _inject_faults(g, index, slot, arrival):
        _set_out(g, index, slot, arrival + _lateness(channel))
    return begin + busy


@inner()
def leave(g: LoopGlobals, index: int, slot: int) -> None:
    """A frame leaves the fabric: to a socket, to the controller, to a sink."""
    channel = channel_at(g.channels, index)
    if channel.kind == TO_IO:
        send_frame(g, channel.index, slot)
        return
    if channel.kind == TO_CPU:
        switch = switch_at(g.switches, port_at(g.ports, channel.index).switch)
        if switch.wants_packet_in != 0 and _log_frame(g, UP_PACKET_IN, channel.index, slot):
            switch.packet_ins += 1
        else:
            switch.packet_in_drops += 1
    elif channel.kind == TO_SINK:
        _log_frame(g, UP_SINK, channel.index, slot)
    pool.give_back(g, slot)


@inner()
def _log_frame(g: LoopGlobals, kind: int, port: int, slot: int) -> bool:
    frame = slot_at(g.slots, slot)
    return log_upcall(g, kind, port, _NO_DETAIL, g.slots + frame.start, frame.length, frame.wire)
