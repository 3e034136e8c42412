# SPDX-License-Identifier: Apache-2.0
"""Before a node runs its window: prefetches into the cache what its pending events will touch.

One event leads from its entity to a channel or a port, from there to a packet, and on to the packet's bytes: each step
would wait for memory. All events of a node take every step together instead, so that their waits overlap. (Steps of
several nodes by turns gain nothing more: so many lines at once are what memory is limited by.)
"""

from __future__ import annotations

from detour.base.heap import HeapEntry
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
    NodeRecord,
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
    store32,
    switch_at,
)

_COUNTED = int64(16)
"""bytes that a port has of a counter"""
_REACH = int64(1024)
"""Bytes of every counter and register that are asked for at most."""

_MOST_PORTS = int64(64)
"""Of a switch's ports, how many are asked for before it is known which of them will send."""

_MOST_EVENTS = int64(2048)
"""Of a node, how many are looked at: so many items has each of these lists, in the memory of `scratch`."""
_MOST_AHEAD = int64(128)
"""Of the node after it."""
_LINKS, _PORTS, _HOSTS, _SENDERS = (int64(which) for which in range(4))

_LATELY = int64(4)
"""Windows within which a port has sent something of which that is likely."""

_HOT = 2 * CACHE_LINE
"""Of a row of ports, channels or interfaces, what most packets touch."""

_SWITCH_HOT = 6 * CACHE_LINE
_MAP_HOT = 2 * CACHE_LINE
"""The same of a switch, and of its ports by number."""

_ENTITY, _CHANNEL, _PORT, _QUEUE, _NIC, _SWITCH, _NODE, _ENTRY = (
    each.dtype.itemsize
    for each in (EntityRecord, ChannelRecord, PortRecord, QueueRecord, NicRecord, SwitchRecord, NodeRecord, HeapEntry)
)


@inner(forceinline=True)
def _prefetch_queues(g: LoopGlobals, first: int, which: int) -> None:
    """The rows of a port's queues that have their bit set in `which`."""
    while which > 0:
        priority = highest_bit(which)
        prefetch(g.queues + (first + priority) * _QUEUE)
        which ^= 1 << priority


# The entities of a node are first sorted by what they are: a loop over those of one kind has no branches that the
# processor would guess wrong.


@inner(forceinline=True)
def _item(g: LoopGlobals, which: int, place: int) -> int:
    """Return where an item of a list is."""
    return g.scratch + 4 * (which * _MOST_EVENTS + place)


@inner(forceinline=True)
def _due(g: LoopGlobals, node: int, end: int) -> int:
    """List the entities of a node whose events are before `end`, and ask for them; return how many there are."""
    row = node_at(g.nodes, node)
    count = int64(0)
    for k in range(min(row.pending, _MOST_EVENTS)):
        event = heap_at(g.heap, row.first + k)
        who = entity_of(event.who)
        store32(_item(g, _LINKS, count), who)
        count += event.time < end
    for place in range(count):
        prefetch(g.entities + load32(_item(g, _LINKS, place)) * _ENTITY)
    return count


@inner(forceinline=True)
def _by_entity(g: LoopGlobals, count: int) -> tuple[int, int]:
    """List channels and ports of entities, and ask for them and for interfaces; return how many there are of both."""
    channels, ports = int64(0), int64(0)
    for place in range(count):
        entity = entity_at(g.entities, load32(_item(g, _LINKS, place)))
        index, is_channel, is_port = int64(entity.index), entity.kind == ON_CHANNEL, entity.kind == ON_PORT
        row = (
            g.channels + index * _CHANNEL
            if is_channel
            else g.ports + index * _PORT
            if is_port
            else g.nics + index * _NIC
        )
        prefetch(row)
        prefetch(row + CACHE_LINE * is_port)
        store32(_item(g, _LINKS, channels), index)
        store32(_item(g, _PORTS, ports), index)
        channels += is_channel
        ports += is_port
    return channels, ports


@inner(forceinline=True)
def _by_channel(g: LoopGlobals, count: int) -> tuple[int, int]:
    """List channels that lead to switches and to hosts, and ask for their first packets; return how many there are of
    both."""
    links, hosts = int64(0), int64(0)
    for place in range(count):
        index = load32(_item(g, _LINKS, place))
        channel = channel_at(g.channels, index)
        if channel.count > 0:
            pool.prefetch_slot(g, channel.head)
            pool.prefetch_frame(g, channel.head)
            store32(_item(g, _LINKS, links), index)
            store32(_item(g, _HOSTS, hosts), index)
            links += channel.kind == TO_PORT
            hosts += channel.kind == TO_HOST
    return links, hosts


@inner(forceinline=True)
def _prefetch_ends(g: LoopGlobals, links: int, hosts: int, ports: int) -> None:
    """Ask for the ports and interfaces at which packets arrive; for the channels and queues of ports that send."""
    for place in range(links):
        prefetch_lines(g.ports + channel_at(g.channels, load32(_item(g, _LINKS, place))).index * _PORT, _HOT)
    for place in range(hosts):
        channel = channel_at(g.channels, load32(_item(g, _HOSTS, place)))
        pool.prefetch_rest(g, channel.head)
        prefetch(g.nics + channel.index * _NIC)
    for place in range(ports):
        port = port_at(g.ports, load32(_item(g, _PORTS, place)))
        prefetch_lines(g.channels + port.channel * _CHANNEL, _HOT)
        _prefetch_queues(g, port.queues, port.filled)


@inner(forceinline=True)
def _second(g: LoopGlobals, channel: ChannelRecord) -> int:
    """The slot of the second packet of a channel, -1 if there is none."""
    return int64(slot_at(g.slots, channel.head).next)


@inner(forceinline=True)
def _prefetch_behind(g: LoopGlobals, which: int, count: int, end: int) -> None:
    """Ask for the frames of second packets that arrive in time, and for the slots of third ones."""
    for place in range(count):
        behind = _second(g, channel_at(g.channels, load32(_item(g, which, place))))
        if behind >= 0 and slot_at(g.slots, behind).time < end:
            pool.prefetch_frame(g, behind)
            if which == _HOSTS:
                pool.prefetch_rest(g, behind)
            third = int64(slot_at(g.slots, behind).next)
            if third >= 0:
                pool.prefetch_slot(g, third)


@inner(forceinline=True)
def _prefetch_third(g: LoopGlobals, hosts: int, end: int) -> None:
    """Ask for the frames of third packets of hosts that arrive in time: the first one's arrival looks at them."""
    for place in range(hosts):
        behind = _second(g, channel_at(g.channels, load32(_item(g, _HOSTS, place))))
        if behind >= 0 and slot_at(g.slots, behind).time < end:
            third = int64(slot_at(g.slots, behind).next)
            if third >= 0 and slot_at(g.slots, third).time < end:
                pool.prefetch_frame(g, third)
                pool.prefetch_rest(g, third)


@inner(forceinline=True)
def _prefetch_arrival(g: LoopGlobals, links: int, hosts: int) -> None:
    """Ask for the slots of second packets, for what switches have, and for what hosts answer with."""
    for place in range(links):
        channel = channel_at(g.channels, load32(_item(g, _LINKS, place)))
        behind = _second(g, channel)
        if behind >= 0:
            pool.prefetch_slot(g, behind)
        port = port_at(g.ports, channel.index)
        prefetch_lines(g.channels + port.channel * _CHANNEL, _HOT)
        _prefetch_queues(g, port.queues, port.used)
        prefetch(g.entities + port.entity * _ENTITY)
        if place == 0:
            _prefetch_record(g, port.switch)
    for place in range(hosts):
        channel = channel_at(g.channels, load32(_item(g, _HOSTS, place)))
        behind = _second(g, channel)
        if behind >= 0:
            pool.prefetch_slot(g, behind)
        nic = nic_at(g.nics, channel.index)
        prefetch_lines(g.channels + nic.channel * _CHANNEL, _HOT)
        prefetch(g.entities + nic.entity * _ENTITY)
        prefetch(g.entities + nic.timer * _ENTITY)


@inner(forceinline=True)
def _prefetch_states(g: LoopGlobals, links: int, hosts: int, end: int) -> None:
    """Ask for the state of switches and hosts at which packets arrive, and for the channels back as entities."""
    for place in range(links):
        port = port_at(g.ports, channel_at(g.channels, load32(_item(g, _LINKS, place))).index)
        _prefetch_switch(g, port.switch, end)
        prefetch(g.entities + channel_at(g.channels, port.channel).entity * _ENTITY)
    for place in range(hosts):
        channel = channel_at(g.channels, load32(_item(g, _HOSTS, place)))
        nic = nic_at(g.nics, channel.index)
        prefetch(g.entities + channel_at(g.channels, nic.channel).entity * _ENTITY)
        _prefetch_host(g, channel, channel.head, int64(0))


@inner(forceinline=True)
def _prefetch_answers(g: LoopGlobals, links: int, hosts: int, end: int) -> int:
    """Ask for the lines with which switches' ports send, or with which a QP handles its packet; return how many ports
    are listed that may send."""
    senders = int64(0)
    for place in range(links):
        channel = channel_at(g.channels, load32(_item(g, _LINKS, place)))
        senders = _prefetch_outputs(g, port_at(g.ports, channel.index).switch, end, senders)
    for place in range(hosts):
        channel = channel_at(g.channels, load32(_item(g, _HOSTS, place)))
        _prefetch_host(g, channel, channel.head, int64(1))
        behind = _second(g, channel)
        if behind >= 0 and slot_at(g.slots, behind).time < end:
            _prefetch_host(g, channel, behind, int64(0))
    return senders


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
def _prefetch_record(g: LoopGlobals, switch: int) -> None:
    """Ask for what `_prefetch_switch` begins with: the record of a switch, and its ports by number."""
    prefetch_lines(g.switches + switch * _SWITCH, _SWITCH_HOT)
    prefetch_lines(_port_map(g, switch), _MAP_HOT)


@inner(forceinline=True)
def _prefetch_switch(g: LoopGlobals, index: int, end: int) -> None:
    """The state of the P4 program of a switch and its ports, once in a window."""
    switch = switch_at(g.switches, index)
    if switch.prefetched != end and switch.ready != 0:
        switch.prefetched = end
        call2(switch.prefetch, switch.state, int64(0))
        ports = _port_map(g, index)
        for number in range(min(switch.numbers, _MOST_PORTS)):
            port = load32(ports + 4 * number)
            if port >= 0:
                prefetch_lines(g.ports + port * _PORT, _HOT)


@inner(forceinline=True)
def _prefetch_outputs(g: LoopGlobals, index: int, end: int, senders: int) -> int:
    """Queues, channels and events of those ports of a switch that have sent something lately, once in a window. Add
    them to the list of `senders`."""
    switch = switch_at(g.switches, index)
    if switch.ports_prefetched == end:
        return senders
    switch.ports_prefetched = end
    if switch.ready != 0:
        call2(switch.prefetch, switch.state, min(switch.numbers * _COUNTED, _REACH))
    ports = _port_map(g, index)
    for number in range(min(switch.numbers, _MOST_PORTS)):
        at = load32(ports + 4 * number)
        if at >= 0:
            port = port_at(g.ports, at)
            if port.busy_until >= end - _LATELY * g.lookahead_ps:
                _prefetch_queues(g, port.queues, port.used)
                prefetch_lines(g.channels + port.channel * _CHANNEL, _HOT)
                prefetch(g.entities + port.entity * _ENTITY)
                store32(_item(g, _SENDERS, senders), at)
                senders = min(senders + 1, _MOST_EVENTS - 1)
    return senders


@inner(forceinline=True)
def _prefetch_tails(g: LoopGlobals, senders: int) -> None:
    """Prefetch what packets of ports are linked to: the last of queues and channels, or an empty channel's receiver."""
    for place in range(senders):
        port = port_at(g.ports, load32(_item(g, _SENDERS, place)))
        channel = channel_at(g.channels, port.channel)
        if channel.mailbox == 0 and channel.count > 0:
            pool.prefetch_slot(g, channel.tail)
        elif channel.mailbox == 0:
            prefetch(g.nodes + int64(entity_at(g.entities, channel.entity).node) * _NODE)
        if port.filled > 0:
            pool.prefetch_slot(g, queue_at(g.queues, port.queues + highest_bit(port.filled)).tail)


@inner(forceinline=True)
def _prefetch_pending(g: LoopGlobals, senders: int) -> None:
    """Prefetch where the receivers of empty channels will have their events."""
    for place in range(senders):
        channel = channel_at(g.channels, port_at(g.ports, load32(_item(g, _SENDERS, place))).channel)
        if channel.mailbox == 0 and channel.count == 0:
            row = node_at(g.nodes, int64(entity_at(g.entities, channel.entity).node))
            prefetch(g.heap + (row.first + row.pending) * _ENTRY)
            prefetch(g.heap + (row.first + (row.pending >> 2)) * _ENTRY)


@inner(forceinline=True)
def _prefetch_queued(g: LoopGlobals, count: int, step: int) -> None:
    """The first packets of the queues that are served: their slots, then their headers."""
    for place in range(count):
        port = port_at(g.ports, load32(_item(g, _PORTS, place)))
        if port.filled > 0:
            queue = queue_at(g.queues, port.queues + highest_bit(port.filled))
            if step == 0:
                pool.prefetch_slot(g, queue.head)
            elif slot_at(g.slots, queue.head).phv >= 0:
                pool.prefetch_egress(g, queue.head)


@inner(forceinline=True)
def prefetch_next_node(g: LoopGlobals, node: int) -> None:
    """Ask for the pending events and the switch of a node whose turn is next: `prefetch_node` begins with them."""
    row = node_at(g.nodes, node)
    prefetch_lines(g.heap + row.first * _ENTRY, min(row.pending, _MOST_AHEAD) * _ENTRY)
    if row.switch >= 0:
        _prefetch_record(g, row.switch)


@inner()
def prefetch_node(g: LoopGlobals, node: int, end: int) -> None:
    """Ask for what the events of a node before `end` need."""
    switch = node_at(g.nodes, node).switch
    if switch >= 0:
        _prefetch_switch(g, switch, end)
    channels, ports = _by_entity(g, _due(g, node, end))
    links, hosts = _by_channel(g, channels)
    _prefetch_ends(g, links, hosts, ports)
    _prefetch_arrival(g, links, hosts)
    _prefetch_queued(g, ports, int64(0))
    _prefetch_behind(g, _LINKS, links, end)
    _prefetch_behind(g, _HOSTS, hosts, end)
    _prefetch_states(g, links, hosts, end)
    _prefetch_third(g, hosts, end)
    _prefetch_queued(g, ports, int64(1))
    senders = _prefetch_answers(g, links, hosts, end)
    _prefetch_tails(g, senders)
    _prefetch_pending(g, senders)
