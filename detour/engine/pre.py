# SPDX-License-Identifier: Apache-2.0
"""The packet replication engine of one switch: multicast groups and clone sessions.

Kept in dictionaries for Python and in int32 arrays for compiled code (`detour.engine.loop.replicate`): a table of
offsets by group or session id, and the blocks of replicas that they lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.dataplane import HIGHEST_PORT
from detour.base.errors import DetourError

PortInstance = tuple[int, int]
"""(egress port, replication id)"""

MAX_GROUP = (1 << 16) - 1
MAX_SESSION = (1 << 15) - 1
_HEAD = 2
"""Words of a block before its replicas."""
_FIRST_WORDS = 64
_NO_GROUPS = np.full(MAX_GROUP + 1, -1, np.int32)


@dataclass(frozen=True)
class CloneSessionState:
    """Receivers of clones, and the bytes to which clones are cut (0: not)."""

    replicas: tuple[PortInstance, ...]
    length: int = 0


class _Blocks:
    """Blocks of words in one array that grows by doubling. A block has room for a power of two of words; one that is
    given back is taken again for the next of its size."""

    def __init__(self) -> None:
        self.array = np.zeros(_FIRST_WORDS, np.int32)
        self._end = 0
        self._free: dict[int, list[int]] = {}

    def put(self, words: Sequence[int]) -> int:
        """Write a new block and return its offset."""
        room = _room(len(words))
        free = self._free.get(room)
        if free:
            offset = free.pop()
        else:
            offset, self._end = self._end, self._end + room
            if self._end > len(self.array):
                grown = np.zeros(max(self._end, 2 * len(self.array)), np.int32)
                grown[:offset] = self.array[:offset]
                self.array = grown
        self.array[offset : offset + len(words)] = words
        return offset

    def give_back(self, offset: int, count: int) -> None:
        """A block of `count` words is needed no more."""
        self._free.setdefault(_room(count), []).append(offset)


def _room(count: int) -> int:
    return 1 << (count - 1).bit_length()


class Replication:
    """Groups and sessions of one switch. Change them only while the loop stands (`Network.call`).

    `group_offsets`, `session_offsets` and `blocks` are what compiled code reads; a change may move `blocks`. It costs
    as much as the replicas that it names, however many groups there are. Switches without groups share one table of
    offsets, which would be a quarter of the memory of each.
    """

    def __init__(self) -> None:
        self.group_offsets = _NO_GROUPS
        self.session_offsets = np.full(MAX_SESSION + 1, -1, np.int32)
        self.changes = 0
        """how often anything has changed"""
        self._forget()

    def _forget(self) -> None:
        self.changes += 1
        self.groups: dict[int, tuple[PortInstance, ...]] = {}
        self.sessions: dict[int, CloneSessionState] = {}
        self._blocks = _Blocks()

    @property
    def blocks(self) -> NDArray[np.int32]:
        """Return where the offsets lead to."""
        return self._blocks.array

    def set_group(self, group: int, replicas: Sequence[PortInstance] | None) -> None:
        """Set a multicast group; `None` deletes it."""
        if not 1 <= group <= MAX_GROUP:
            raise DetourError(f"multicast group {group}: ids are 1 to {MAX_GROUP}")
        checked = None if replicas is None else _checked(f"multicast group {group}", replicas)
        old = self.groups.get(group)
        if self.group_offsets is _NO_GROUPS:
            self.group_offsets = _NO_GROUPS.copy()
        self._replace(self.group_offsets, group, old, checked, 0)
        if checked is None:
            self.groups.pop(group, None)
        else:
            self.groups[group] = checked

    def set_session(self, session: int, replicas: Sequence[PortInstance] | None, length: int = 0) -> None:
        """Set a clone session; `None` deletes it."""
        if not 0 <= session <= MAX_SESSION:
            raise DetourError(f"clone session {session}: ids are 0 to {MAX_SESSION}")
        if not 0 <= length < 1 << 31:
            raise DetourError(f"clone session {session}: length {length} is out of range")
        checked = None if replicas is None else _checked(f"clone session {session}", replicas)
        old = self.sessions.get(session)
        self._replace(self.session_offsets, session, old.replicas if old else None, checked, length)
        if checked is None:
            self.sessions.pop(session, None)
        else:
            self.sessions[session] = CloneSessionState(checked, length)

    def clear(self) -> None:
        self.group_offsets = _NO_GROUPS
        self.session_offsets.fill(-1)
        self._forget()

    def _replace(
        self,
        offsets: NDArray[np.int32],
        number: int,
        old: tuple[PortInstance, ...] | None,
        new: tuple[PortInstance, ...] | None,
        length: int,
    ) -> None:
        self.changes += 1
        if old is not None:
            self._blocks.give_back(int(offsets[number]), _HEAD + 2 * len(old))
        offsets[number] = -1 if new is None else self._blocks.put(_block(new, length))


def _checked(what: str, replicas: Sequence[PortInstance]) -> tuple[PortInstance, ...]:
    for port, rid in replicas:
        if not 0 <= port <= HIGHEST_PORT:
            raise DetourError(f"{what}: port {port} is not 0 to {HIGHEST_PORT}")
        if not 0 <= rid <= 0xFFFF:
            raise DetourError(f"{what}: replication id {rid} is not 0 to 65535")
    return tuple((int(port), int(rid)) for port, rid in replicas)


def _block(replicas: Sequence[PortInstance], length: int) -> list[int]:
    return [len(replicas), length, *(number for replica in replicas for number in replica)]
