# SPDX-License-Identifier: Apache-2.0
"""Before a node runs its window: prefetches into the cache what its pending events will touch.

One event leads from its entity to a channel or a port, from there to a packet, and on to the packet's bytes: each step
would wait for memory. All events of a node take every step together instead, so that their waits overlap. (Steps of
several nodes by turns gain nothing more: so many lines at once are what memory is limited by.)
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop import pool
from detour.engine.loop.heap import entity_of
from detour.engine.loop.layout import (
    CACHE_LINE,
    ON_CHANNEL,
    ON_PORT,
    PORTS_PER_SWITCH,
    TO_HOST,
    TO_PORT,
    ChannelRecord,
    EntityRecord,
    LoopGlobals,
    NicRecord,
    PortRecord,
    QueueRecord,
    SwitchRecord,
)
from detour.engine.loop.native import (
    call2,
    call4,
    channel_at,
    entity_at,
    heap_at,
    highest_bit,
    load32,
    nic_at,
    node_at,
    port_at,
    prefetch,
    prefetch_lines,
    queue_at,
    slot_at,
    stack_at,
    switch_at,
)

_COUNTED = int64(16)
"""bytes that a port has of a counter"""
_REACH = int64(1024)
"""Bytes of every counter and register that are asked for at most."""

_MOST_PORTS = int64(64)
"""Of a switch's ports, how many are asked for before it is known which of them will send."""

_LATELY = int64(4)
"""Windows within which a port has sent something of which that is likely."""

_HOT = 2 * CACHE_LINE
"""Of a row of ports, channels or interfaces, what most packets touch."""

_SWITCH_HOT = 5 * CACHE_LINE
_MAP_HOT = 2 * CACHE_LINE
"""The same of a switch, and of its ports by number."""

_ENTITY, _CHANNEL, _PORT, _QUEUE, _NIC, _SWITCH = (
    each.dtype.itemsize for each in (EntityRecord, ChannelRecord, PortRecord, QueueRecord, NicRecord, SwitchRecord)
)


@inner(forceinline=True)
def _prefetch_entity(g: LoopGlobals, who: int) -> None:
    """Return where its channel, port or interface is."""
    entity = entity_at(g.entities, who)
    index = int64(entity.index)
    if entity.kind == ON_CHANNEL:
        prefetch(g.channels + index * _CHANNEL)
    elif entity.kind == ON_PORT:
        prefetch_lines(g.ports + index * _PORT, _HOT)
    else:
        prefetch(g.nics + index * _NIC)


@inner(forceinline=True)
def _prefetch_first(g: LoopGlobals, who: int) -> None:
    """The packet that arrives with its port or interface; the queue that is served with its channel."""
    entity = entity_at(g.entities, who)
    index = int64(entity.index)
    if entity.kind == ON_CHANNEL:
        channel = channel_at(g.channels, index)
        if channel.count > 0:
            pool.prefetch_slot(g, channel.head)
            pool.prefetch_frame(g, channel.head)
        if channel.kind == TO_PORT:
            prefetch_lines(g.ports + channel.index * _PORT, _HOT)
        elif channel.kind == TO_HOST:
            pool.prefetch_rest(g, channel.head)
            prefetch(g.nics + channel.index * _NIC)
    elif entity.kind == ON_PORT:
        port = port_at(g.ports, index)
        prefetch_lines(g.channels + port.channel * _CHANNEL, _HOT)
        _prefetch_queues(g, port.queues, port.filled)


@inner(forceinline=True)
def _prefetch_queues(g: LoopGlobals, first: int, which: int) -> None:
    """The rows of a port's queues that have their bit set in `which`."""
    while which > 0:
        priority = highest_bit(which)
        prefetch(g.queues + (first + priority) * _QUEUE)
        which ^= 1 << priority


@inner(forceinline=True)
def _prefetch_second(g: LoopGlobals, index: int) -> None:
    """The slot of the second packet on a channel, and the way back from where it arrives: answers leave there, and what
    they allow."""
    channel = channel_at(g.channels, index)
    if channel.count > 1:
        pool.prefetch_slot(g, int64(slot_at(g.slots, channel.head).next))
    if channel.kind == TO_PORT:
        port = port_at(g.ports, channel.index)
        prefetch_lines(g.switches + port.switch * _SWITCH, _SWITCH_HOT)
        prefetch_lines(_port_map(g, port.switch), _MAP_HOT)
        prefetch_lines(g.channels + port.channel * _CHANNEL, _HOT)
        _prefetch_queues(g, port.queues, port.used)
        prefetch(g.entities + port.entity * _ENTITY)
    elif channel.kind == TO_HOST:
        nic = nic_at(g.nics, channel.index)
        prefetch_lines(g.channels + nic.channel * _CHANNEL, _HOT)
        prefetch(g.entities + nic.entity * _ENTITY)
        prefetch(g.entities + nic.timer * _ENTITY)


@inner(forceinline=True)
def _prefetch_third(g: LoopGlobals, index: int, end: int) -> None:
    """The frame of the second packet on a channel if it arrives in time, and the slot of the third; the channel back as
    an entity, and what is behind the port or interface."""
    channel = channel_at(g.channels, index)
    if channel.count > 1:
        behind = int64(slot_at(g.slots, channel.head).next)
        if slot_at(g.slots, behind).time < end:
            pool.prefetch_frame(g, behind)
            if channel.kind == TO_HOST:
                pool.prefetch_rest(g, behind)
            if channel.count > 2:
                pool.prefetch_slot(g, int64(slot_at(g.slots, behind).next))
    if channel.kind == TO_PORT:
        port = port_at(g.ports, channel.index)
        _prefetch_switch(g, port.switch, end)
        prefetch(g.entities + channel_at(g.channels, port.channel).entity * _ENTITY)
    elif channel.kind == TO_HOST:
        nic = nic_at(g.nics, channel.index)
        prefetch(g.entities + channel_at(g.channels, nic.channel).entity * _ENTITY)
        _prefetch_host(g, channel, channel.head, int64(0))


@inner(forceinline=True)
def _prefetch_fourth(g: LoopGlobals, index: int, end: int) -> None:
    """Prefetch the lines with which a switch's ports send, or with which a QP handles its packet."""
    channel = channel_at(g.channels, index)
    if channel.kind == TO_PORT:
        _prefetch_outputs(g, port_at(g.ports, channel.index).switch, end)
    elif channel.kind == TO_HOST:
        _prefetch_host(g, channel, channel.head, int64(1))
        if channel.count > 1:
            second = int64(slot_at(g.slots, channel.head).next)
            if slot_at(g.slots, second).time < end:
                _prefetch_host(g, channel, second, int64(0))


@inner(forceinline=True)
def _prefetch_host(g: LoopGlobals, channel: ChannelRecord, slot: int, step: int) -> None:
    """Prefetch the lines that a host's stack needs for a packet of its channel."""
    nic = nic_at(g.nics, channel.index)
    stack = stack_at(nic.stack, 0)
    if stack.prefetch != 0:
        call4(stack.prefetch, stack.state, nic.host, pool.address(g, slot), step)


@inner(forceinline=True)
def prefetch_arrivals(g: LoopGlobals, channel: ChannelRecord) -> None:
    """Prefetch for the packets behind one that arrives at a host, each one step more: host and QP, then the rows that
    these lead to."""
    if channel.count > 1 and slot_at(g.slots, channel.head).time < g.window_end:
        second = int64(slot_at(g.slots, channel.head).next)
        _prefetch_host(g, channel, channel.head, int64(1))
        _prefetch_host(g, channel, second, int64(0))
        if channel.count > 2:
            third = int64(slot_at(g.slots, second).next)
            pool.prefetch_next(g, third)
            pool.prefetch_rest(g, third)


@inner(forceinline=True)
def _port_map(g: LoopGlobals, switch: int) -> int:
    """Return where the list of a switch's ports by number begins."""
    return g.port_map + 4 * PORTS_PER_SWITCH * switch


@inner(forceinline=True)
def _prefetch_switch(g: LoopGlobals, index: int, end: int) -> None:
    """The state of the P4 program of a switch and its ports, once in a window."""
    switch = switch_at(g.switches, index)
    if switch.prefetched != end and switch.ready != 0:
        switch.prefetched = end
        call2(switch.prefetch, switch.state, min(switch.numbers * _COUNTED, _REACH))
        ports = _port_map(g, index)
        for number in range(min(switch.numbers, _MOST_PORTS)):
            port = load32(ports + 4 * number)
            if port >= 0:
                prefetch_lines(g.ports + port * _PORT, _HOT)


@inner(forceinline=True)
def _prefetch_outputs(g: LoopGlobals, index: int, end: int) -> None:
    """Queues, channels and events of those ports of a switch that have sent something lately, once in a window."""
    switch = switch_at(g.switches, index)
    if switch.ports_prefetched == end:
        return
    switch.ports_prefetched = end
    ports = _port_map(g, index)
    for number in range(min(switch.numbers, _MOST_PORTS)):
        at = load32(ports + 4 * number)
        if at >= 0:
            port = port_at(g.ports, at)
            if port.busy_until >= end - _LATELY * g.lookahead_ps:
                _prefetch_queues(g, port.queues, port.used)
                prefetch_lines(g.channels + port.channel * _CHANNEL, _HOT)
                prefetch(g.entities + port.entity * _ENTITY)


@inner(forceinline=True)
def _prefetch_queued(g: LoopGlobals, index: int, step: int) -> None:
    """The first packet of the queue that is served: its slot, then its headers."""
    port = port_at(g.ports, index)
    if port.filled > 0:
        queue = queue_at(g.queues, port.queues + highest_bit(port.filled))
        if step == 0:
            pool.prefetch_slot(g, queue.head)
        elif step == 1 and slot_at(g.slots, queue.head).phv >= 0:
            pool.prefetch_egress(g, queue.head)


@inner(forceinline=True)
def _prefetch_further(g: LoopGlobals, who: int, step: int, end: int) -> None:
    """The last three steps."""
    entity = entity_at(g.entities, who)
    index = int64(entity.index)
    if entity.kind == ON_PORT:
        _prefetch_queued(g, index, step)
    elif entity.kind == ON_CHANNEL and channel_at(g.channels, index).count > 0:
        if step == 0:
            _prefetch_second(g, index)
        elif step == 1:
            _prefetch_third(g, index, end)
        else:
            _prefetch_fourth(g, index, end)


@inner()
def prefetch_node(g: LoopGlobals, node: int, end: int) -> None:
    """Ask for what the events of a node before `end` need."""
    row = node_at(g.nodes, node)
    for step in range(6):
        for k in range(row.first, row.first + row.pending):
            event = heap_at(g.heap, k)
            if event.time < end:
                who = entity_of(event.who)
                if step == 0:
                    prefetch(g.entities + who * _ENTITY)
                elif step == 1:
                    _prefetch_entity(g, who)
                elif step == 2:
                    _prefetch_first(g, who)
                else:
                    _prefetch_further(g, who, step - 3, end)
