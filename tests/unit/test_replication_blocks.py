# SPDX-License-Identifier: Apache-2.0
"""Memory of the packet replication engine: a change touches its own replicas only, and room is used again."""

from __future__ import annotations

from detour.engine.pre import MAX_GROUP, Replication


def found(pre: Replication, group: int) -> list[tuple[int, int]] | None:
    """The replicas that compiled code would find."""
    at = int(pre.group_offsets[group])
    if at < 0:
        return None
    count = int(pre.blocks[at])
    words = pre.blocks[at + 2 : at + 2 + 2 * count].tolist()
    return list(zip(words[::2], words[1::2], strict=True))


def test_changing_one_group_of_many_touches_no_other() -> None:
    pre = Replication()
    for group in range(1, MAX_GROUP + 1):  # rebuilding all of them each time would take hours
        pre.set_group(group, [(group % 500, group)])
    for group in range(1, 10_001):
        pre.set_group(group, [(1, group), (2, group), (3, 0)])
    assert found(pre, 10_000) == [(1, 10_000), (2, 10_000), (3, 0)]
    assert found(pre, MAX_GROUP) == [(MAX_GROUP % 500, MAX_GROUP)]


def test_room_that_was_given_back_is_used_again() -> None:
    pre = Replication()
    for size in (3, 40, 3):
        pre.set_group(1, [(port, 0) for port in range(size)])
    words = len(pre.blocks)
    for turn in range(1000):
        pre.set_group(1 + turn % 2, [(port, turn) for port in range(40)])
        pre.set_group(1 + turn % 2, None)
        assert found(pre, 1 + turn % 2) is None
    assert len(pre.blocks) <= 2 * words
