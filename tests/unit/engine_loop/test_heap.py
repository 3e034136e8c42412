# SPDX-License-Identifier: Apache-2.0
"""The event heap against Python's sort."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.engine.loop import heap
from detour.engine.loop.memory import Memory
from detour.engine.loop.native import global_at, heap_at, node_at
from tests.native import compiled

_ENTITIES = 12


@compiled
def _schedule(globals_, entity, time):
    heap.schedule(global_at(globals_, 0), entity, time)


@compiled
def _cancel(globals_, entity):
    heap.cancel(global_at(globals_, 0), entity)


@compiled
def _pop(globals_):
    g = global_at(globals_, 0)
    if node_at(g.nodes, 0).pending == 0:
        return -1, -1
    time, entity = heap_at(g.heap, 0).time, heap.entity_of(heap_at(g.heap, 0).who)
    heap.cancel(g, entity)
    return time, entity


@compiled
def _tie(time, entity, seed):
    return heap.tie(time, entity, seed)


_operation = st.one_of(
    st.tuples(st.just("schedule"), st.integers(0, _ENTITIES - 1), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, _ENTITIES - 1)),
    st.just(("pop",)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_operation, max_size=80), st.integers(0, 3))
def test_order_is_time_then_tie(operations, seed):
    memory = Memory(1, 64)
    memory.g["tie_seed"] = seed
    for index in range(_ENTITIES):
        memory.add_entity(0, index)
    pending: dict[int, tuple[int, int]] = {}
    for operation in [*operations, *[("pop",)] * _ENTITIES]:
        if operation[0] == "schedule":
            _schedule(memory.address, operation[1], operation[2])
            pending[operation[1]] = (operation[2], _tie(operation[2], operation[1], seed))
        elif operation[0] == "cancel":
            _cancel(memory.address, operation[1])
            pending.pop(operation[1], None)
        else:
            first = min(pending, key=lambda e: pending[e], default=-1)
            time = pending.pop(first)[0] if first >= 0 else -1
            assert _pop(memory.address) == (time, first)
    assert memory.row("nodes", 0)["pending"] == 0


@pytest.mark.parametrize("pair", [(1, 2), (2, 5), (7, 11), (3, 4_000)])
def test_of_two_periodic_entities_each_comes_first_as_often(pair):
    for period in (1, 86_560, 1 << 20):
        first = sum(_tie(period * k, pair[0], 77) < _tie(period * k, pair[1], 77) for k in range(2_000))
        assert 880 < first < 1_120  # five standard deviations of a fair coin


def test_the_order_is_drawn_from_the_seed():
    orders = {tuple(_tie(86_560 * k, 1, seed) < _tie(86_560 * k, 2, seed) for k in range(64)) for seed in range(1, 21)}
    assert len(orders) == 20
