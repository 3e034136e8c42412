# SPDX-License-Identifier: Apache-2.0
"""Executing events in virtual time: all in order, node by node, or by workers side by side.

Usually all entities are one node, and events are executed in order of time. In a large fabric that is slow, since the
processor's cache holds the tables and queues of a few switches only. So there every switch (with its hosts) may be a
node, and a window of time no longer than the shortest link between nodes is executed node by node: what one does within
the window cannot reach another one before it ends (conservative synchronisation, Chandy and Misra). Each node executes
its own events in the same order either way, so the results are the same.

So they are if nodes are divided among workers, each of which is a thread with globals of its own (`run_windows`).
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop import channels, heap, mail, nic, pfc, pool, prefetch, switch
from detour.engine.loop.layout import (
    BUDGET,
    CLASS_PFC,
    DRAIN,
    MAX_TIME,
    ON_CHANNEL,
    ON_NIC,
    ON_PORT,
    POOL_EMPTY,
    REACHED,
    TO_HOST,
    TO_INGRESS,
    TO_INPUT,
    TO_PORT,
    WOKEN,
    LoopGlobals,
)
from detour.engine.loop.log import must_drain
from detour.engine.loop.native import channel_at, entity_at, heap_at, mail_at, node_at, slot_at
from detour.engine.loop.socket_io import wall_ns

_NO_CLASS = int64(0)
"""Of frames from sockets and from Python, which have left no queue."""

ONLY = int64(0)
"""The one node of a fabric that is not divided."""

EVENTS_AT_ONCE = 128
"""Events between two looks at what else there is to do."""

_FEW_NODES = int64(64)
"""whose state stays in the cache from one window to the next, so that asking for it takes longer than it saves"""

_NEVER = int64(-1)

_AHEAD = 8
"""mail whose slots are asked for before it is taken in"""


@inner(forceinline=True)
def _channel_event(g: LoopGlobals, index: int) -> int:
    """The first frame of a channel arrives. Returns the port that may send now, -1: none."""
    slot = channels.pop(g, index)
    channel = channel_at(g.channels, index)
    kind, where, traffic_class = channel.kind, channel.index, _NO_CLASS
    if kind == TO_HOST:
        prefetch.prefetch_arrivals(g, channel)
        nic.arrive(g, where, slot)
        return -1
    if kind > TO_INPUT and (kind != TO_INGRESS or channel.up == 0):
        _leave(g, index, slot)
        return -1
    if kind != TO_INPUT:
        if kind == TO_PORT:
            traffic_class = slot_at(g.slots, slot).port
        else:
            where = slot_at(g.slots, slot).port
        if traffic_class == CLASS_PFC:
            pfc.receive(g, where, slot)
            return where
        where = switch.arrive(g, where, slot, traffic_class)
    return switch.run_ingress(g, where, slot) if where >= 0 else -1


@inner()
def arrive_at_once(g: LoopGlobals, port: int, slot: int, time: int) -> None:
    """A frame from outside arrives before whatever else happens, so it needs no event."""
    g.now = time
    g.events += 1
    where = switch.arrive(g, port, slot, _NO_CLASS)
    leaves_by = switch.run_ingress(g, where, slot) if where >= 0 else -1
    if leaves_by >= 0:
        switch.serve(g, leaves_by)


@inner()
def _leave(g: LoopGlobals, index: int, slot: int) -> None:
    channel = channel_at(g.channels, index)
    if channel.kind == TO_INGRESS:
        channel.cut += 1
        pool.give_back(g, slot)
    else:
        channels.leave(g, index, slot)


@inner()
def step(g: LoopGlobals, node: int) -> None:
    """Execute a node's next event. It keeps its place in the heap until its entity moves or cancels it."""
    top = heap_at(g.heap, node_at(g.nodes, node).first)
    g.now = top.time
    g.events += 1
    who = heap.entity_of(top.who)
    entity = entity_at(g.entities, who)
    kind, stamp = entity.kind, entity.stamp
    port = index = int64(entity.index)
    if kind == ON_CHANNEL:
        port = _channel_event(g, index)
    if kind <= ON_PORT:
        if port >= 0:
            switch.serve(g, port)
    elif kind == ON_NIC:
        nic.serve(g, index)
    else:
        nic.timer(g, index)
    # Most events schedule the next one of their entity. That moves this one down; taking it out first would sift twice.
    if entity.stamp == stamp:
        heap.cancel(g, who)


@inner()
def run_free(g: LoopGlobals, until: int, budget: int) -> int:
    """Virtual time, one node."""
    while budget > 0:
        for _ in range(EVENTS_AT_ONCE):
            if heap.first_time(g, ONLY) > until:
                g.now = max(g.now, until)
                return REACHED
            step(g, ONLY)
            if must_drain(g):
                return DRAIN
        budget -= EVENTS_AT_ONCE
        if g.wake != 0:
            return WOKEN
    return BUDGET


@inner()
def _take_in(g: LoopGlobals) -> None:
    """Take in the mail of the other workers from the window that has ended."""
    for sender in range(g.workers):
        box = mail.mailbox(g, g.round - 1, sender, g.worker)
        for k in range(box.count):
            if k + _AHEAD < box.count:
                pool.prefetch_slot(g, mail_at(box.mails, k + _AHEAD).slot)
            row = mail_at(box.mails, k)
            if row.channel == mail.FREE_SLOTS:
                mail.take_slots(g, row.slot)
            else:
                g.used += 1
                channels.deliver(g, row.channel, row.slot, slot_at(g.slots, row.slot).time)
        box.count = 0


@inner()
def _run_nodes(g: LoopGlobals, side: int, end: int, backwards: bool) -> int:
    """A worker's nodes of one side up to the end of a window; returns when the first event after it is, of those that
    they have when it is their turn. Every other time backwards, for the last ones are still in the cache."""
    first = MAX_TIME
    begin, behind = (g.begin_0, g.end_0) if side == 0 else (g.begin_1, g.end_1)
    for k in range(behind - begin):
        node = behind - 1 - k if backwards else begin + k
        if node_at(g.nodes, node).side != side:
            continue
        time = heap.first_time(g, node)
        if time < end:
            before, begun = g.events, 0 if g.measured == 0 else wall_ns(g)
            if g.node_count > _FEW_NODES:
                prefetch.prefetch_node(g, node, end)
                if k + 1 < behind - begin:
                    prefetch.prefetch_next_node(g, node - 1 if backwards else node + 1)
            while time < end:
                step(g, node)
                time = heap.first_time(g, node)
            row = node_at(g.nodes, node)
            row.events += g.events - before
            if g.measured != 0:
                row.cost_ns += wall_ns(g) - begun
        first = min(first, time)
    return first


@inner()
def _first_event(g: LoopGlobals, side: int) -> int:
    """Return the first event of a worker's nodes of one side."""
    return _run_nodes(g, side, _NEVER, False)


@inner()
def run_windows(g: LoopGlobals, until: int, budget: int) -> int:
    """Virtual time, many nodes: all, or with workers a worker's part. `budget` events of all workers, which all return
    the same. Between two slices all nodes have been executed up to loop time.

    Where nodes are of two sides, these take turns, and each runs up to a lookahead after the other: windows are twice
    as long, so a node's state is brought into the cache half as often."""
    events_before, drops_before = g.events, g.pool_drops
    side, why = int64(0), int64(REACHED)
    first, other = _first_event(g, int64(0)), _first_event(g, int64(1))  # events of this side, and of the other one
    turns = int64(0)
    known = int64(0)  # the other side has been executed up to here
    g.first_arrival = MAX_TIME
    while True:
        first, events, stop = min(first, g.first_arrival), g.events - events_before, g.wake
        if g.workers > 1:
            stop += 2 * (g.pool_drops != drops_before)
            mail.meet(g, first, other, events, stop)
            first, other, events, stop = MAX_TIME, MAX_TIME, 0, 0
            for worker in range(g.workers):
                row = mail.progress(g, g.round - 1, worker)
                first, other = min(first, row.next_time), min(other, row.other_time)
                events += row.events
                stop |= row.stop
            _take_in(g)
        begin = min(first, other)
        if begin > until:
            g.now = max(g.now, until)
            return REACHED
        if stop != 0:
            why = WOKEN if stop == 1 else POOL_EMPTY
        elif events >= budget:
            why = BUDGET
        if why != REACHED and (begin >= known or stop > 1):
            return why
        # What the other side did before `known` is here. What it does later arrives at `end` at the earliest.
        known = max(known, begin)
        end = known if why != REACHED else min(known + g.lookahead_ps, until + 1)
        g.known_until = end if g.sides == 1 else known
        g.window_end = end
        g.first_arrival = MAX_TIME
        if g.workers > 1:
            mail.share_slots(g)
        first = _run_nodes(g, side, end, turns // g.sides % 2 == 1)
        turns += 1
        known = end
        g.now = end - 1
        if g.sides == 2:
            first, other, side = other, first, 1 - side
