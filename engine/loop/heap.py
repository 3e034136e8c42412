# SPDX-License-Identifier: Apache-2.0
"""Pending events: 4-ary heaps ordered by time in which an entity stands at most once.

An entity is whoever may have an event pending: a channel, a port, a host's uplink, a host's timer. Because each
knows its place in the heap, an event can be moved or cancelled, and the heap never outgrows the fabric.

Every entity belongs to a node, and every node has a heap of its own (`entry` says why). Events of the same time are
ordered by a draw: a hash of seed, time and entity. No port is favoured, and the order does not depend on who scheduled
first, so it is the same however the fabric is divided into nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.jit import inner
from detour.engine.loop.layout import ENTITY_BITS, ENTITY_MASK, MAX_TIME
from detour.engine.loop.native import entity_at, heap_at, node_at

_POSITIVE = (1 << 63) - 1
_A = 0x1E3779B97F4A7C15
_B = 0x2545F4914F6CDD1D


@inner(forceinline=True)
def tie(time: int, entity: int, seed: int) -> int:
    """What orders events of the same time: 39 bits of a hash, then the entity, so that no two are equal. Without a seed
    the hash is linear: of two entities one comes first most of the time."""
    mixed = (((int(time) + int(entity) * _A) & _POSITIVE) * _B) & _POSITIVE
    if seed != 0:
        mixed ^= int(seed)
        mixed = ((mixed ^ (mixed >> 32)) * _A) & _POSITIVE
    return ((mixed >> ENTITY_BITS) << ENTITY_BITS) | entity


@inner(forceinline=True)
def entity_of(order: int) -> int:
    """The entity of an event with that `tie`."""
    return order & ENTITY_MASK


@inner(forceinline=True)
def _place(g: Any, base: int, k: int, time: int, order: int) -> None:
    entry = heap_at(g.heap, base + k)
    entry.time = time
    entry.tie = order
    entity_at(g.entities, entity_of(order)).position = k


@inner()
def _sift_up(g: Any, base: int, k: int, time: int, order: int) -> None:
    """Moves the hole at `k` towards the top until the event fits into it."""
    while k > 0:
        parent = (k - 1) >> 2
        above = heap_at(g.heap, base + parent)
        if above.time < time or (above.time == time and above.tie < order):
            break
        _place(g, base, k, above.time, above.tie)
        k = parent
    _place(g, base, k, time, order)


@inner()
def _sift_down(g: Any, base: int, size: int, k: int, time: int, order: int) -> None:
    """Moves the hole at `k` towards the leaves until the event fits into it."""
    while True:
        child = 4 * k + 1
        if child >= size:
            break
        best = child
        best_time = heap_at(g.heap, base + child).time
        best_tie = heap_at(g.heap, base + child).tie
        for other in range(child + 1, min(child + 4, size)):
            entry = heap_at(g.heap, base + other)
            if entry.time < best_time or (entry.time == best_time and entry.tie < best_tie):
                best = other
                best_time = entry.time
                best_tie = entry.tie
        if time < best_time or (time == best_time and order < best_tie):
            break
        _place(g, base, k, best_time, best_tie)
        k = best
    _place(g, base, k, time, order)


@inner()
def schedule(g: Any, entity: int, time: int) -> None:
    """Sets the entity's event to `time`; moves the one that it has."""
    who = entity_at(g.entities, entity)
    node = node_at(g.nodes, np.int64(who.node))
    who.stamp += 1
    order = tie(time, entity, g.tie_seed)
    k = np.int64(who.position)
    if k < 0:
        k = node.pending
        node.pending = k + 1
        _sift_up(g, node.first, k, time, order)
    elif time < heap_at(g.heap, node.first + k).time:
        _sift_up(g, node.first, k, time, order)
    else:
        _sift_down(g, node.first, node.pending, k, time, order)


@inner()
def cancel(g: Any, entity: int) -> None:
    """Removes the entity's event, if it has one."""
    gone = entity_at(g.entities, entity)
    k = np.int64(gone.position)
    if k < 0:
        return
    gone.position = -1
    gone.stamp += 1
    node = node_at(g.nodes, np.int64(gone.node))
    last = node.pending - 1
    node.pending = last
    if k == last:
        return
    moved = heap_at(g.heap, node.first + last)
    time, order = moved.time, moved.tie
    removed = heap_at(g.heap, node.first + k)
    if time < removed.time or (time == removed.time and order < removed.tie):
        _sift_up(g, node.first, k, time, order)
    else:
        _sift_down(g, node.first, last, k, time, order)


@inner(forceinline=True)
def pending_time(g: Any, entity: int) -> int:
    """When the entity's event is due, `MAX_TIME` if it has none."""
    who = entity_at(g.entities, entity)
    if who.position < 0:
        return MAX_TIME
    return heap_at(g.heap, node_at(g.nodes, np.int64(who.node)).first + np.int64(who.position)).time


@inner(forceinline=True)
def first_time(g: Any, node: int) -> int:
    """Time of a node's next event, `MAX_TIME` if there is none."""
    row = node_at(g.nodes, node)
    if row.pending == 0:
        return MAX_TIME
    return heap_at(g.heap, row.first).time
