# SPDX-License-Identifier: Apache-2.0
"""The packet replication engine of one switch: multicast groups and clone sessions.

Kept in dictionaries for Python and in int32 arrays for compiled code (`detour.engine.loop.replicate`): a table of
offsets by group or session id, and the blocks of replicas that they lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.errors import DetourError

Replica = tuple[int, int]
"""(egress port, replication id)"""

MAX_GROUP = (1 << 16) - 1
MAX_SESSION = (1 << 15) - 1
_MAX_PORT = 511


@dataclass(frozen=True)
class CloneSession:
    """Where clones go, and to how many bytes they are cut (0: not)."""

    replicas: tuple[Replica, ...]
    length: int = 0


class Replication:
    """Groups and sessions of one switch. Change them only while the loop stands (`Network.call`).

    `group_offsets`, `session_offsets` and `blocks` are what compiled code reads; a change may move `blocks`.
    """

    def __init__(self) -> None:
        self.groups: dict[int, tuple[Replica, ...]] = {}
        self.sessions: dict[int, CloneSession] = {}
        self.group_offsets = np.full(MAX_GROUP + 1, -1, np.int32)
        self.session_offsets = np.full(MAX_SESSION + 1, -1, np.int32)
        self.blocks = np.zeros(0, np.int32)

    def set_group(self, group: int, replicas: Sequence[Replica] | None) -> None:
        """Sets a multicast group; `None` deletes it."""
        if not 1 <= group <= MAX_GROUP:
            raise DetourError(f"multicast group {group}: ids are 1 to {MAX_GROUP}")
        if replicas is None:
            self.groups.pop(group, None)
        else:
            self.groups[group] = _checked(f"multicast group {group}", replicas)
        self._rebuild()

    def set_session(self, session: int, replicas: Sequence[Replica] | None, length: int = 0) -> None:
        """Sets a clone session; `None` deletes it."""
        if not 0 <= session <= MAX_SESSION:
            raise DetourError(f"clone session {session}: ids are 0 to {MAX_SESSION}")
        if not 0 <= length < 1 << 31:
            raise DetourError(f"clone session {session}: length {length} is out of range")
        if replicas is None:
            self.sessions.pop(session, None)
        else:
            self.sessions[session] = CloneSession(_checked(f"clone session {session}", replicas), length)
        self._rebuild()

    def clear(self) -> None:
        """Deletes everything."""
        self.groups.clear()
        self.sessions.clear()
        self._rebuild()

    def _rebuild(self) -> None:
        """Writes all blocks anew; changes are rare and groups are few."""
        words: list[int] = []
        self.group_offsets.fill(-1)
        self.session_offsets.fill(-1)
        for group, replicas in self.groups.items():
            self.group_offsets[group] = len(words)
            words += _block(replicas, 0)
        for number, session in self.sessions.items():
            self.session_offsets[number] = len(words)
            words += _block(session.replicas, session.length)
        self.blocks = np.array(words, np.int32)


def _checked(what: str, replicas: Sequence[Replica]) -> tuple[Replica, ...]:
    for port, rid in replicas:
        if not 0 <= port <= _MAX_PORT:
            raise DetourError(f"{what}: port {port} is not 0 to {_MAX_PORT}")
        if not 0 <= rid <= 0xFFFF:
            raise DetourError(f"{what}: replication id {rid} is not 0 to 65535")
    if len(set(replicas)) != len(replicas):
        raise DetourError(f"{what}: a replica (port, id) is given twice")
    return tuple((int(port), int(rid)) for port, rid in replicas)


def _block(replicas: Sequence[Replica], length: int) -> list[int]:
    return [len(replicas), length, *(number for replica in replicas for number in replica)]
