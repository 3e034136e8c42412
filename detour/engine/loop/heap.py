# SPDX-License-Identifier: Apache-2.0
"""Pending events: a 4-ary heap ordered by (time, sequence) in which an entity stands at most once.

An entity is whoever may have an event pending: a line, a port, a host's uplink, a host's timer. Because each
knows its place in the heap, an event can be moved or cancelled, and the heap never outgrows the fabric.
"""

from __future__ import annotations

from typing import Any

from detour.engine.loop.jit import inner
from detour.engine.loop.layout import MAX_TIME
from detour.engine.loop.native import entity_at, heap_at


@inner(forceinline=True)
def _place(g: Any, k: int, time: int, sequence: int, entity: int) -> None:
    entry = heap_at(g.heap, k)
    entry.time = time
    entry.sequence = sequence
    entry.entity = entity
    entity_at(g.entities, entity).position = k


@inner()
def _rise(g: Any, k: int, time: int, sequence: int, entity: int) -> None:
    """Moves the hole at `k` towards the top until the event fits into it."""
    while k > 0:
        parent = (k - 1) >> 2
        above = heap_at(g.heap, parent)
        if above.time < time or (above.time == time and above.sequence < sequence):
            break
        _place(g, k, above.time, above.sequence, above.entity)
        k = parent
    _place(g, k, time, sequence, entity)


@inner()
def _sink(g: Any, k: int, time: int, sequence: int, entity: int) -> None:
    """Moves the hole at `k` towards the leaves until the event fits into it."""
    size = g.heap_size
    while True:
        child = 4 * k + 1
        if child >= size:
            break
        best = child
        best_time = heap_at(g.heap, child).time
        best_sequence = heap_at(g.heap, child).sequence
        for other in range(child + 1, min(child + 4, size)):
            entry = heap_at(g.heap, other)
            if entry.time < best_time or (entry.time == best_time and entry.sequence < best_sequence):
                best = other
                best_time = entry.time
                best_sequence = entry.sequence
        if time < best_time or (time == best_time and sequence < best_sequence):
            break
        _place(g, k, best_time, best_sequence, heap_at(g.heap, best).entity)
        k = best
    _place(g, k, time, sequence, entity)


@inner()
def schedule(g: Any, entity: int, time: int) -> None:
    """Sets the entity's event to `time`, after all others of that time; moves the one that it has."""
    g.sequence += 1
    k = entity_at(g.entities, entity).position
    if k < 0:
        k = g.heap_size
        g.heap_size = k + 1
        _rise(g, k, time, g.sequence, entity)
    elif time < heap_at(g.heap, k).time:
        _rise(g, k, time, g.sequence, entity)
    else:
        _sink(g, k, time, g.sequence, entity)


@inner()
def cancel(g: Any, entity: int) -> None:
    """Removes the entity's event, if it has one."""
    k = entity_at(g.entities, entity).position
    if k < 0:
        return
    entity_at(g.entities, entity).position = -1
    last = g.heap_size - 1
    g.heap_size = last
    if k == last:
        return
    moved = heap_at(g.heap, last)
    time, sequence, who = moved.time, moved.sequence, moved.entity
    removed = heap_at(g.heap, k)
    if time < removed.time or (time == removed.time and sequence < removed.sequence):
        _rise(g, k, time, sequence, who)
    else:
        _sink(g, k, time, sequence, who)


@inner(forceinline=True)
def pending_time(g: Any, entity: int) -> int:
    """When the entity's event is due, `MAX_TIME` if it has none."""
    k = entity_at(g.entities, entity).position
    if k < 0:
        return MAX_TIME
    return heap_at(g.heap, k).time


@inner(forceinline=True)
def first_time(g: Any) -> int:
    """Time of the next event, `MAX_TIME` if there is none."""
    if g.heap_size == 0:
        return MAX_TIME
    return heap_at(g.heap, 0).time
