# SPDX-License-Identifier: Apache-2.0
"""Changes of a table's entries, possible ones and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detour.engine.tables import EntryExists, MemberRef, NoSuchEntry, TableError, TableFull
from tests.fuzz.reference import Row
from tests.fuzz.table_program import RESULT_BITS, Key
from tests.fuzz.tried import Tried

_BURST = 1500
"""Entries inserted in a row, now and then, so that everything grows while packets come."""
_MOST_ENTRIES = 3000
_NONSENSE: tuple[Any, ...] = (-1, 1 << 300, None, "x", 1.5, (1, 2, 3), (), [1], (0, -1), (-1, 0), b"\0", (None, None))


class Entries:
    """`packets(n)` sends packets between changes."""

    def __init__(self, tried: Tried, packets: Callable[[int], None]) -> None:
        self._tried, self._packets = tried, packets
        self._stale: list[int] = []

    def insert(self) -> None:
        """A new entry, the same again, or one too many."""
        tried = self._tried
        target = tried.target()
        if target is None:
            return
        key, priority = tried.key(), tried.rng.randrange(1, 20)
        call = lambda: tried.table.insert(key, target[1], target[2], priority)  # noqa: E731
        if tried.expected.same(key, priority):
            tried.refused(EntryExists, call, f"the entry {key} twice")
            return
        if len(tried.expected.rows) >= tried.layout.size:
            tried.refused(TableFull, call, "one entry more than fit")
            return
        try:
            handle = call()
        except Exception as e:
            tried.fail(f"insert {key}: {type(e).__name__}: {e}")
            return
        if handle in tried.expected.rows:
            tried.fail(f"handle {handle} was given twice")
        tried.expected.rows[handle] = Row(key, priority, handle, target[0])
        tried.most = max(tried.most, len(tried.expected.rows))

    def delete(self) -> None:
        """Removes one of the entries."""
        tried = self._tried
        if tried.expected.rows:
            handle = tried.rng.choice(list(tried.expected.rows))
            tried.table.delete(handle)
            del tried.expected.rows[handle]
            self._stale.append(handle)

    def modify(self) -> None:
        """Gives an entry another action."""
        tried = self._tried
        target = tried.target()
        if target is not None and tried.expected.rows:
            handle = tried.rng.choice(list(tried.expected.rows))
            tried.table.modify(handle, target[1], target[2])
            tried.expected.rows[handle].target = target[0]

    def wrong_handle(self) -> None:
        """Calls with handles that are gone or never were."""
        tried = self._tried
        handle = tried.rng.choice((-1, 1 << 40, len(tried.expected.rows) + 5, *self._stale[-3:]))
        if handle in tried.expected.rows:
            return
        target = tried.target() or (None, MemberRef(1), ())
        table = tried.table
        calls = (
            lambda: table.delete(handle),
            lambda: table.modify(handle, target[1], target[2]),
            lambda: table.get(handle),
            lambda: table.last_hit(handle),
        )
        tried.refused(NoSuchEntry, tried.rng.choice(calls), f"handle {handle}, which is none")
        if tried.layout.counters:
            tried.refused(NoSuchEntry, lambda: table.counter(handle), f"counter of handle {handle}")

    def wrong_key(self) -> None:
        """Calls with keys, actions and arguments that do not fit."""
        tried = self._tried
        target = tried.target()
        if target is None:
            return
        key = list(tried.key())
        at = tried.rng.randrange(len(key))
        value = tried.rng.choice((*_NONSENSE, (1 << tried.layout.keys[at].bits, 1), 1 << tried.layout.keys[at].bits))
        if not _fits(tried.layout.keys[at], value):
            key[at] = value
            tried.refused(TableError, lambda: tried.table.insert(tuple(key), target[1], target[2], 1), f"the key {key}")
        tried.refused(TableError, lambda: tried.table.insert((*key, 0), target[1], target[2], 1), "a key too long")
        tried.refused(TableError, lambda: tried.table.insert(tried.key(), "none such", (), 1), "an unknown action")
        if tried.profile is None:
            key = tried.key()
            tried.refused(
                TableError, lambda: tried.table.insert(key, "mark", (1 << RESULT_BITS,), 1), "a wide argument"
            )
            tried.refused(TableError, lambda: tried.table.insert(key, "mark", (), 1), "too few arguments")
            tried.refused(TableError, lambda: tried.table.insert(key, MemberRef(1), (), 1), "a member")

    def set_default(self) -> None:
        """Another default action."""
        tried = self._tried
        target = tried.target()
        if target is not None and tried.profile is None:
            tried.table.set_default(target[1], target[2])
            tried.expected.default = target[0]

    def clear(self) -> None:
        """Removes everything."""
        tried = self._tried
        tried.table.clear()
        self._stale += tried.expected.rows
        tried.expected.rows.clear()
        if tried.profile is not None and tried.rng.random() < 0.5:
            tried.profile.clear()
            for of in (tried.expected.members, tried.expected.created, tried.expected.groups):
                of.clear()

    def grow(self) -> None:
        """Many entries at once, with packets between them."""
        tried = self._tried
        room = min(tried.layout.size, _MOST_ENTRIES) - len(tried.expected.rows)
        for number in range(min(room, tried.rng.randrange(_BURST))):
            tried.board.beat()
            self.insert()
            tried.changes += 1
            if number % 100 == 0:
                self._packets(4)

    def read_back(self) -> None:
        """Everything that can be read is what was written."""
        tried = self._tried
        rows = tried.expected.rows
        if len(tried.table) != len(rows):
            tried.fail(f"{len(tried.table)} entries, expected {len(rows)}")
        handles = [e.handle for e in tried.table.entries()]
        if handles != sorted(rows):
            tried.fail(f"handles {handles[:20]}, expected {sorted(rows)[:20]}")
        for handle in tried.rng.sample(handles, min(len(handles), 10)):
            row, entry = rows[handle], tried.table.get(handle)
            if tried.expected.canonical(entry.key) != tried.expected.canonical(row.key):
                tried.fail(f"key {entry.key} of handle {handle}, expected {row.key}")
            if (
                tried.table.find(row.key, row.priority) != handle
                or tried.table.find(entry.key, entry.priority) != handle
            ):
                tried.fail(f"handle {handle} is not found by its key {row.key}")
            if tried.layout.counters and tried.table.counter(handle)[0] != row.hits:
                tried.fail(f"{tried.table.counter(handle)} packets counted at handle {handle}, expected {row.hits}")


def _fits(k: Key, element: Any) -> bool:
    """Whether something of `_NONSENSE` is an element after all."""
    full = (1 << k.bits) - 1
    number = isinstance(element, int) and 0 <= element <= full
    first, second = -1, -1
    if isinstance(element, tuple) and len(element) == 2 and all(isinstance(e, int) for e in element):
        first, second = element
    pair = 0 <= first <= full and second >= 0
    match k.kind:
        case "exact":
            return number
        case "lpm":
            return pair and second <= k.bits
        case "range":
            return pair and first <= second <= full
    return element is None or number or (pair and second <= full)
