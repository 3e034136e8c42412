# SPDX-License-Identifier: Apache-2.0
"""Pending events: 4-ary heaps ordered by time in which an entity stands at most once.

An entity is whoever may have an event pending: a channel, a port, a host's uplink, a host's timer. Because each
knows its place in the heap, an event can be moved or cancelled, and the heap never outgrows the fabric.

Every entity belongs to a node, and every node has a heap of its own (`entry` says why). Events of the same time are
ordered by a draw: a hash of seed, time and entity. No port is favoured, and the order does not depend on who scheduled
first, so it is the same however the fabric is divided into nodes.
"""

from __future__ import annotations

from detour.base.heap import HeapEntry, make_heap
from detour.base.jit import inner, int64
from detour.engine.loop.layout import ENTITY_BITS, ENTITY_MASK, MAX_TIME, LoopGlobals
from detour.engine.loop.native import entity_at, heap_at, node_at

_POSITIVE = (1 << 63) - 1
_A = 0x1E3779B97F4A7C15
_B = 0x2545F4914F6CDD1D


@inner(forceinline=True)
def tie(time: int, entity: int, seed: int) -> int:
    """Return the order among events of the same time: 39 bits of a hash, then the entity, so that no two are equal.
    Without a seed the hash is linear: of two entities one comes first most of the time."""
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
def _entry(g: LoopGlobals, first: int, k: int) -> HeapEntry:
    return heap_at(g.heap, first + k)


@inner(forceinline=True)
def _moved(g: LoopGlobals, order: int, k: int, time: int) -> None:
    entity_at(g.entities, entity_of(order)).position = k


_up, _down, _remove = make_heap(_entry, _moved, ways=4, total=True)


@inner()
def schedule(g: LoopGlobals, entity: int, time: int) -> None:
    """Set the entity's event to `time`; move the one that it has."""
    who = entity_at(g.entities, entity)
    node = node_at(g.nodes, int64(who.node))
    who.stamp += 1
    order = tie(time, entity, g.tie_seed)
    k = int64(who.position)
    if k < 0:
        k = node.pending
        node.pending = k + 1
        _up(g, node.first, k, time, order)
    elif time < heap_at(g.heap, node.first + k).time:
        _up(g, node.first, k, time, order)
    else:
        _down(g, node.first, node.pending, k, time, order)


@inner()
def cancel(g: LoopGlobals, entity: int) -> None:
    """Remove the entity's event, if it has one."""
    gone = entity_at(g.entities, entity)
    k = int64(gone.position)
    if k < 0:
        return
    gone.position = -1
    gone.stamp += 1
    node = node_at(g.nodes, int64(gone.node))
    last = node.pending - 1
    node.pending = last
    _remove(g, node.first, last, k)


@inner(forceinline=True)
def pending_time(g: LoopGlobals, entity: int) -> int:
    """The time of the entity's event, `MAX_TIME` if it has none."""
    who = entity_at(g.entities, entity)
    if who.position < 0:
        return MAX_TIME
    return heap_at(g.heap, node_at(g.nodes, int64(who.node)).first + int64(who.position)).time


@inner(forceinline=True)
def first_time(g: LoopGlobals, node: int) -> int:
    """Time of a node's next event, `MAX_TIME` if there is none."""
    row = node_at(g.nodes, node)
    if row.pending == 0:
        return MAX_TIME
    return heap_at(g.heap, row.first).time
