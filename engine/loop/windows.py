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
from detour.engine.loop import channels, heap, mail, nic, pool, prefetch, switch
from detour.engine.loop.layout import (
    BUDGET,
    DRAIN,
    MAX_TIME,
    ON_CHANNEL,
    ON_NIC,
    ON_PORT,
    ON_TIMER,
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

NO_CLASS = int64(0)
"""Of frames from sockets and from Python, which have left no queue."""

ONLY = int64(0)
"""The one node of a fabric that is not divided."""

EVENTS_AT_ONCE = 128
"""Events between two looks at what else there is to do."""

_AHEAD = 8
"""mail whose slots are asked for before it is taken in"""


@inner()
def _channel_event(g: LoopGlobals, index: int) -> None:
    """The first frame of a channel arrives."""
    slot = channels.pop(g, index)
    channel = channel_at(g.channels, index)
    if channel.kind == TO_PORT:
        switch.arrive(g, channel.index, slot, slot_at(g.slots, slot).port)
    elif channel.kind == TO_HOST:
        nic.arrive(g, channel.index, slot)
    elif channel.kind == TO_INPUT:
        switch.run_ingress(g, channel.index, slot)
    elif channel.kind == TO_INGRESS:
        if channel.up != 0:
            switch.arrive(g, slot_at(g.slots, slot).port, slot, NO_CLASS)
        else:
            channel.cut += 1
            pool.give_back(g, slot)
    else:
        channels.leave(g, index, slot)


@inner()
def step(g: LoopGlobals, node: int) -> None:
    """Executes a node's next event. It keeps its place in the heap until its entity moves or cancels it."""
    top = heap_at(g.heap, node_at(g.nodes, node).first)
    g.now = top.time
    g.events += 1
    who = heap.entity_of(top.who)
    entity = entity_at(g.entities, who)
    kind = entity.kind
    index = int64(entity.index)
    if kind == ON_CHANNEL:
        _channel_event(g, index)
        return
    # Most events schedule the next one of their entity. That moves this one down; taking it out first would sift twice.
    stamp = entity.stamp
    if kind == ON_PORT:
        switch.serve(g, index)
    elif kind == ON_NIC:
        nic.serve(g, index)
    elif kind == ON_TIMER:
        nic.timer(g, index)
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
    """What the other workers have mailed in the window that has ended."""
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
def _run_nodes(g: LoopGlobals, end: int) -> int:
    """A worker's nodes up to the end of a window; returns when the first event after it is, of those that they have
    when it is their turn."""
    first = MAX_TIME
    for node in range(g.node_begin, g.node_end):
        time = heap.first_time(g, node)
        if time < end:
            before, begun = g.events, 0 if g.measured == 0 else wall_ns(g)
            prefetch.prefetch_node(g, node, end)
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
def _first_event(g: LoopGlobals) -> int:
    """Of a worker's nodes."""
    first = MAX_TIME
    for node in range(g.node_begin, g.node_end):
        first = min(first, heap.first_time(g, node))
    return first


@inner()
def run_windows(g: LoopGlobals, until: int, budget: int) -> int:
    """Virtual time, many nodes: all, or with workers a worker's part. `budget` events of all workers, which all return
    the same. Between two slices loop time is the end of a window."""
    events_before, drops_before = g.events, g.pool_drops
    first = _first_event(g)
    g.first_arrival = MAX_TIME
    while True:
        begin, events, stop = min(first, g.first_arrival), g.events - events_before, g.wake
        if g.workers > 1:
            stop += 2 * (g.pool_drops != drops_before)
            mail.meet(g, begin, events, stop)
            begin, events, stop = MAX_TIME, 0, 0
            for worker in range(g.workers):
                row = mail.progress(g, g.round - 1, worker)
                begin = min(begin, row.next_time)
                events += row.events
                stop |= row.stop
            _take_in(g)
        if begin > until:
            g.now = max(g.now, until)
            return REACHED
        if stop != 0:
            return WOKEN if stop == 1 else POOL_EMPTY
        if events >= budget:
            return BUDGET
        # What a node does at `begin` reaches another one at `end` at the earliest, so all before `end` is known here.
        end = min(begin + g.lookahead_ps, until + 1)
        g.window_end = end
        g.first_arrival = MAX_TIME
        if g.workers > 1:
            mail.share_slots(g)
        first = _run_nodes(g, end)
        g.now = end - 1
