# SPDX-License-Identifier: Apache-2.0
"""Rows of a table in chains, for native code: a chain takes rows at its end, and gives them back from its beginning.

    append, take_first = make_chain(record_by_address(Row))  # Row has a field `next`

Rows that were never in use are not touched, so a table that is never full takes no memory for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from detour.base.jit import inner
from detour.base.structs import Int64, NativeRecord

_NONE = -1


class RowTable(NativeRecord):
    """Rows for chains."""

    rows: Int64  # address
    room: Int64  # how many there are
    used: Int64  # how many were ever in use
    free: Int64  # the first that is not any more; -1: none


class Chain(NativeRecord):
    """Rows in their order: the first, the last, how many."""

    head: Int64
    tail: Int64
    count: Int64


class _Row(Protocol):
    next: Any  # the row behind it, in a chain or among the free ones; -1: none


_R = TypeVar("_R", bound=_Row)


@inner
def is_full(table: RowTable) -> bool:
    """Return whether all rows are in use."""
    return table.free < 0 and table.used == table.room


def make_chain(
    row_at: Callable[[int, int], _R],
) -> tuple[Callable[[RowTable, Chain], _R], Callable[[RowTable, Chain], _R]]:
    """Return the functions that append a row of a table, which is not full, to a chain, and that take the first one off
    a chain, which is not empty. The latter is free then: read it before the next one is appended."""

    @inner
    def append(table: RowTable, chain: Chain) -> _R:
        index = table.free
        if index < 0:
            index = table.used
            table.used += 1
        else:
            table.free = row_at(table.rows, index).next
        row = row_at(table.rows, index)
        row.next = _NONE
        if chain.count == 0:
            chain.head = index
        else:
            row_at(table.rows, chain.tail).next = index
        chain.tail = index
        chain.count += 1
        return row

    @inner
    def take_first(table: RowTable, chain: Chain) -> _R:
        index = chain.head
        row = row_at(table.rows, index)
        chain.head = row.next
        chain.count -= 1
        row.next = table.free
        table.free = index
        return row

    return append, take_first
