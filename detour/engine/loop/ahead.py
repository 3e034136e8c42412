# SPDX-License-Identifier: Apache-2.0
"""Before a node's turn in a window: asks the cache for what its pending events will touch.

One event leads from its entity to a line or a port, from there to a packet, and on to the packet's bytes: each step
would wait for memory. All events of a node take every step together instead, so that their waits overlap.
"""

from __future__ import annotations

from typing import Any

from detour.engine.loop import pool
from detour.engine.loop.jit import inner
from detour.engine.loop.layout import CACHE_LINE, ENTITY, LINE, NIC, ON_LINE, ON_PORT, PORT, QUEUE, TO_PORT
from detour.engine.loop.native import (
    entity_at,
    heap_at,
    highest_bit,
    line_at,
    node_at,
    port_at,
    prefetch,
    queue_at,
    slot_at,
)

_ENTITY, _LINE, _PORT, _QUEUE, _NIC = (each.itemsize for each in (ENTITY, LINE, PORT, QUEUE, NIC))


@inner(forceinline=True)
def _two_lines(address: int) -> None:
    prefetch(address)
    prefetch(address + CACHE_LINE)


@inner(forceinline=True)
def _prefetch_entity(g: Any, who: int) -> None:
    """Where its line, port or interface is."""
    entity = entity_at(g.entities, who)
    if entity.kind == ON_LINE:
        prefetch(g.lines + entity.index * _LINE)
    elif entity.kind == ON_PORT:
        _two_lines(g.ports + entity.index * _PORT)
    else:
        _two_lines(g.nics + entity.index * _NIC)


@inner(forceinline=True)
def _prefetch_first(g: Any, who: int) -> None:
    """The packet that arrives with its port; the queue that is served with its line."""
    entity = entity_at(g.entities, who)
    if entity.kind == ON_LINE:
        line = line_at(g.lines, entity.index)
        if line.count > 0:
            pool.prefetch_slot(g, line.head)
            pool.prefetch_frame(g, line.head)
        if line.kind == TO_PORT:
            _two_lines(g.ports + line.index * _PORT)
    elif entity.kind == ON_PORT:
        port = port_at(g.ports, entity.index)
        _two_lines(g.lines + port.line * _LINE)
        if port.filled > 0:
            prefetch(g.queues + (port.queues + highest_bit(port.filled)) * _QUEUE)


@inner(forceinline=True)
def _prefetch_waiting(g: Any, who: int, step: int) -> None:
    """The first packet of the queue that is served: its slot, then its headers. The second one on a line."""
    entity = entity_at(g.entities, who)
    if entity.kind == ON_LINE and step == 0:
        line = line_at(g.lines, entity.index)
        if line.count > 1:
            behind = slot_at(g.slots, line.head).next
            pool.prefetch_slot(g, behind)
            pool.prefetch_frame(g, behind)
    if entity.kind != ON_PORT:
        return
    port = port_at(g.ports, entity.index)
    if port.filled > 0:
        queue = queue_at(g.queues, port.queues + highest_bit(port.filled))
        if step == 0:
            pool.prefetch_slot(g, queue.head)
        elif slot_at(g.slots, queue.head).phv >= 0:
            pool.prefetch_egress(g, queue.head)


@inner()
def look_ahead(g: Any, node: int, end: int) -> None:
    """Asks for what the events of a node before `end` need."""
    row = node_at(g.nodes, node)
    for step in range(5):
        for k in range(row.first, row.first + row.pending):
            event = heap_at(g.heap, k)
            if event.time < end:
                if step == 0:
                    prefetch(g.entities + event.entity * _ENTITY)
                elif step == 1:
                    _prefetch_entity(g, event.entity)
                elif step == 2:
                    _prefetch_first(g, event.entity)
                else:
                    _prefetch_waiting(g, event.entity, step - 3)
