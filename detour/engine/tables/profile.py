# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors: members (an action with arguments) and groups of members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler import model
from detour.engine.compiler.slots import GROUP_MEMBERS, MEMBERS, PROFILE_GROUPS
from detour.engine.tables.arguments import Arguments
from detour.engine.tables.errors import EntryExists, NoSuchEntry, TableError, TableFull
from detour.engine.tables.rows import Handles, Rows

_SNAPSHOT_BYTES = 512  # for a member or a group: its places in dictionaries


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member's place in a group. With `watch_port` set it is skipped while that port is down."""

    member: int
    weight: int = 1
    watch_port: int | None = None


@dataclass(slots=True)
class _Group:
    row: int
    members: tuple[GroupMember, ...]
    max_size: int
    offset: int
    capacity: int


class ActionProfile:
    """Members and groups by the ids that the controller gives them. A group's members are chosen by hash % size, in the
    order in which the members were created (BMv2's order of handles), each as often as its weight says."""

    def __init__(
        self, spec: model.ActionProfileIr, sw: NDArray[np.int64], slot: int, actions: list[model.ActionIr]
    ) -> None:
        self.name, self.spec, self.max_size = spec.name, spec, spec.max_size
        self.changes = 0
        """how often members' actions and groups were written, as of a `MatchTable`"""
        self._arguments = Arguments(spec.name, tuple(spec.actions.values()), actions)
        words = max((a.words for a in spec.actions.values()), default=0)
        self._members, self._groups, self._lists = (
            Rows(sw, slot + place, stride)
            for place, stride in ((MEMBERS, 1 + words), (PROFILE_GROUPS, 2), (GROUP_MEMBERS, 1))
        )
        self._member_handles, self._group_handles = Handles(), Handles()
        self._member_rows: dict[int, int] = {}
        self._member_ids: dict[int, int] = {}
        self._group_ids: dict[int, int] = {}
        self._group_of: dict[int, _Group] = {}
        self._users: dict[int, int] = {}  # member row -> groups and entries that use it
        self._group_users: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}  # capacity -> offsets of lists that nobody uses
        self._end = 0
        self._down: set[int] = set()

    def add_member(self, member: int, action: str | int, params: tuple[int, ...] = ()) -> None:
        if member in self._member_rows:
            raise EntryExists(f"{self.name}: member {member} exists")
        if len(self._member_rows) >= self.max_size:
            raise TableFull(f"{self.name}: it takes {self.max_size} members")
        words = self._arguments.encode(action, params)
        row = self._member_handles.take()
        self._members.reserve(row + 1)
        self._member_rows[member], self._member_ids[row], self._users[row] = row, member, 0
        self._write(row, words)

    def _write(self, row: int, words: list[int]) -> None:
        self.changes += 1
        self._members.write(row * self._members.stride, words)

    def modify_member(self, member: int, action: str | int, params: tuple[int, ...] = ()) -> None:
        self._write(self.member_row(member), self._arguments.encode(action, params))

    def delete_member(self, member: int) -> None:
        """Remove a member that no group and no entry uses."""
        row = self.member_row(member)
        if self._users[row]:
            raise TableError(f"{self.name}: member {member} is in use")
        del self._member_rows[member], self._member_ids[row], self._users[row]
        self._member_handles.release(row)

    def member_row(self, member: int) -> int:
        """Return where native code finds the member."""
        row = self._member_rows.get(member)
        if row is None:
            raise NoSuchEntry(f"{self.name}: there is no member {member}")
        return row

    def member(self, member: int) -> tuple[model.ActionIr, tuple[int, ...]]:
        at = self.member_row(member) * self._members.stride
        return self._arguments.decode(self._members.flat[at : at + self._members.stride])

    def members(self) -> Iterator[int]:
        return iter(self._member_rows)

    def add_group(self, group: int, members: Iterable[GroupMember] = (), max_size: int = 0) -> None:
        """Create a group; `max_size` 0 = no limit."""
        if self.spec.selector is None:
            raise TableError(f"{self.name}: an action profile without selector has no groups")
        if group in self._group_of:
            raise EntryExists(f"{self.name}: group {group} exists")
        chosen = self._checked(group, members, max_size)
        row = self._group_handles.take()
        self._groups.reserve(row + 1)
        self._group_of[group] = g = _Group(row, (), max_size, 0, 0)
        self._group_users[row], self._group_ids[row] = 0, group
        self._assign(g, chosen)

    def set_group(self, group: int, members: Iterable[GroupMember]) -> None:
        g = self._group(group)
        self._assign(g, self._checked(group, members, g.max_size))

    def delete_group(self, group: int) -> None:
        """Remove a group that no entry uses."""
        g = self._group(group)
        if self._group_users[g.row]:
            raise TableError(f"{self.name}: group {group} is in use")
        self._assign(g, ())
        del self._group_of[group], self._group_users[g.row], self._group_ids[g.row]
        self._group_handles.release(g.row)

    def group(self, group: int) -> tuple[tuple[GroupMember, ...], int]:
        """Members of a group and its `max_size`."""
        g = self._group(group)
        return g.members, g.max_size

    def groups(self) -> Iterator[int]:
        return iter(self._group_of)

    def group_row(self, group: int) -> int:
        """Return where native code finds the group."""
        return self._group(group).row

    def member_id(self, row: int) -> int:
        """The member in that row; KeyError if there is none."""
        return self._member_ids[row]

    def group_id(self, row: int) -> int:
        """The group in that row; KeyError if there is none."""
        return self._group_ids[row]

    def member_rows(self) -> list[int]:
        """The rows of all members in order; BMv2 calls them handles."""
        return sorted(self._member_ids)

    def group_rows(self) -> list[int]:
        """The rows of all groups in order."""
        return sorted(self._group_ids)

    @property
    def following(self) -> tuple[int, int]:
        """The rows that the next member and the next group will have."""
        return self._member_handles.following, self._group_handles.following

    def snapshot(self) -> ActionProfile:
        """A copy to be read: writes go on in the original."""
        other = copy(self)
        other._members = self._members.snapshot(self._member_handles.end)
        other._member_rows, other._member_ids = self._member_rows.copy(), self._member_ids.copy()
        other._group_ids = self._group_ids.copy()
        other._group_of = {group: replace(g) for group, g in self._group_of.items()}
        return other

    @property
    def snapshot_bytes(self) -> int:
        """About the memory that a snapshot takes."""
        rows = self._member_handles.end * self._members.stride * 8
        return rows + (len(self._member_rows) + len(self._group_of)) * _SNAPSHOT_BYTES

    def set_port_state(self, port: int, up: bool) -> None:
        """Tell that a port went up or down; members that watch it are skipped while it is down."""
        before = port in self._down
        (self._down.discard if up else self._down.add)(port)
        if before != (not up):
            for g in self._group_of.values():
                if any(m.watch_port == port for m in g.members):
                    self._publish(g)

    def use_member(self, row: int, count: int) -> None:
        """A table entry began (+1) or ceased (-1) to point to that member."""
        self._users[row] += count

    def use_group(self, row: int, count: int) -> None:
        """A table entry began (+1) or ceased (-1) to point to that group."""
        self._group_users[row] += count

    def clear(self) -> None:
        """Remove all groups and members, used or not (the caller has cleared the tables)."""
        for g in list(self._group_of.values()):
            self._assign(g, ())
        self._group_of.clear()
        self._member_rows.clear()
        self._member_ids.clear()
        self._group_ids.clear()
        self._users.clear()
        self._group_users.clear()
        self._member_handles, self._group_handles = Handles(), Handles()

    def _group(self, group: int) -> _Group:
        g = self._group_of.get(group)
        if g is None:
            raise NoSuchEntry(f"{self.name}: there is no group {group}")
        return g

    def _checked(self, group: int, members: Iterable[GroupMember], max_size: int) -> tuple[GroupMember, ...]:
        chosen = tuple(members)
        for m in chosen:
            self.member_row(m.member)
            if m.weight < 1:
                raise TableError(f"{self.name}: member {m.member} in group {group} has weight {m.weight}")
        if max_size and sum(m.weight for m in chosen) > max_size:
            raise TableFull(f"{self.name}: group {group} takes {max_size} members")
        return chosen

    def _assign(self, g: _Group, members: tuple[GroupMember, ...]) -> None:
        for m in g.members:
            self._users[self._member_rows[m.member]] -= 1
        for m in members:
            self._users[self._member_rows[m.member]] += 1
        g.members = members
        self.changes += 1
        self._publish(g)

    def _publish(self, g: _Group) -> None:
        """Write the list of a group's live members and the group's row."""
        live = [m for m in g.members if m.watch_port is None or m.watch_port not in self._down]
        rows = sorted((self._member_rows[m.member], m.weight) for m in live)
        slots = [row for row, weight in rows for _ in range(weight)]
        self._allocate(g, len(slots))
        for i, row in enumerate(slots):
            self._lists.flat[g.offset + i] = row
        self._groups.flat[2 * g.row] = g.offset
        self._groups.flat[2 * g.row + 1] = len(slots)

    def _allocate(self, g: _Group, count: int) -> None:
        """Give the group room for `count` members: a power of two, taken from lists given back before."""
        need = 1 << (count - 1).bit_length() if count else 0
        if need == g.capacity:
            return
        if g.capacity:
            self._free.setdefault(g.capacity, []).append(g.offset)
        g.capacity, g.offset = need, 0
        if need:
            free = self._free.get(need)
            if free:
                g.offset = free.pop()
            else:
                g.offset = self._end
                self._end += need
                self._lists.reserve(self._end)
