# SPDX-License-Identifier: Apache-2.0
"""What the kinds of entities share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from finsy.proto import p4r

from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.schema import find

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
MAX_COUNT = (1 << 63) - 1

PendingUpdate = Callable[[], object]
Ids = Collection[int] | None
"""P4Info ids that a role may see or write; None: all of them."""

T = TypeVar("T")


def modify_only(kind: int, what: str) -> None:
    """For entities that always exist."""
    if kind != MODIFY:
        raise invalid(f"{what} can only be modified, neither inserted nor deleted")


def selected(objects: dict[int, T], id_: int, kind: str, ids: Ids) -> Iterator[T]:
    """The object with that id, or all of them for id 0, as far as the role may see them."""
    if id_:
        found = find(objects, id_, kind)
        if ids is None or id_ in ids:
            yield found
        return
    for each, value in objects.items():
        if ids is None or each in ids:
            yield value


def indices(message: Any, size: int, what: str) -> range:
    """The index of an array entity, or all indices if it has none."""
    if not message.HasField("index"):
        return range(size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{what}: the index {index} is negative")
    if index >= size:
        raise Refused(Code.OUT_OF_RANGE, f"{what}: index {index} is not in 0..{size - 1}")
    return range(index, index + 1)


def counts(data: p4r.CounterData, what: str) -> tuple[int, int]:
    """(packets, bytes) of a message."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"{what}: a counter cannot be negative")
    return data.packet_count, data.byte_count
