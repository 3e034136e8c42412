# SPDX-License-Identifier: Apache-2.0
"""The packet replication engine as compiled code finds it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.engine.loop import replicate
from detour.engine.pre import MAX_GROUP, MAX_SESSION, Replication
from tests.native import compiled


@compiled
def _find(offsets, replicas, size, number):
    return replicate.find(offsets, replicas, size, number)


@compiled
def _block(block, index):
    return (
        replicate.count(block),
        replicate.cut(block),
        replicate.replica_port(block, index),
        replicate.replica_rid(block, index),
    )


def _read(offsets, blocks, number):
    block = _find(offsets.ctypes.data, blocks.ctypes.data, len(offsets), number)
    if block == 0:
        return None
    count, cut, _, _ = _block(block, 0)
    return [_block(block, i)[2:] for i in range(count)], cut


_replicas = st.lists(st.tuples(st.integers(0, 511), st.integers(0, 65535)), max_size=5, unique=True)
_changes = st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.none() | _replicas, st.integers(0, 99)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(_changes)
def test_what_was_set_is_found(changes):
    pre = Replication()
    groups, sessions = {}, {}
    for is_group, number, replicas, length in changes:
        if is_group:
            pre.set_group(number, replicas)
            groups[number] = None if replicas is None else (replicas, 0)
        else:
            pre.set_session(number, replicas, length)
            sessions[number] = None if replicas is None else (replicas, length)
    for number in range(8):
        assert _read(pre.group_offsets, pre.blocks, number) == groups.get(number)
        assert _read(pre.session_offsets, pre.blocks, number) == sessions.get(number)
    pre.clear()
    assert _read(pre.group_offsets, pre.blocks, 3) is None


def test_bounds():
    pre = Replication()
    pre.set_group(MAX_GROUP, [(511, 65535)])
    pre.set_session(MAX_SESSION, [(0, 0)])
    pre.set_session(0, [(0, 0)])
    assert _read(pre.group_offsets, pre.blocks, MAX_GROUP) == ([(511, 65535)], 0)
    assert _read(pre.group_offsets, pre.blocks, MAX_GROUP + 1) is None
    assert _read(pre.group_offsets, pre.blocks, -1) is None
    for wrong in (
        lambda: pre.set_group(0, []),
        lambda: pre.set_group(MAX_GROUP + 1, []),
        lambda: pre.set_session(-1, []),
        lambda: pre.set_session(MAX_SESSION + 1, []),
        lambda: pre.set_group(1, [(512, 0)]),
        lambda: pre.set_group(1, [(1, 65536)]),
        lambda: pre.set_session(1, [(1, 1)], length=-1),
    ):
        with pytest.raises(DetourError):
            wrong()
    assert pre.groups == {MAX_GROUP: ((511, 65535),)}


def _group(pre, number):
    block = _read(pre.group_offsets, pre.blocks, number)
    return block and block[0]


def test_changing_one_group_of_many_touches_no_other():
    pre = Replication()
    for group in range(1, MAX_GROUP + 1):  # rebuilding all of them each time would take hours
        pre.set_group(group, [(group % 500, group)])
    for group in range(1, 10_001):
        pre.set_group(group, [(1, group), (2, group), (3, 0)])
    assert _group(pre, 10_000) == [(1, 10_000), (2, 10_000), (3, 0)]
    assert _group(pre, MAX_GROUP) == [(MAX_GROUP % 500, MAX_GROUP)]


def test_room_that_was_given_back_is_used_again():
    pre = Replication()
    for size in (3, 40, 3):
        pre.set_group(1, [(port, 0) for port in range(size)])
    words = len(pre.blocks)
    for turn in range(1000):
        pre.set_group(1 + turn % 2, [(port, turn) for port in range(40)])
        pre.set_group(1 + turn % 2, None)
        assert _group(pre, 1 + turn % 2) is None
    assert len(pre.blocks) <= 2 * words
