# SPDX-License-Identifier: Apache-2.0
"""Changes of members and groups of an action profile, possible ones and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detour.engine.tables import EntryExists, GroupMember, NoSuchEntry, TableError, TableFull
from tests.fuzz.reference import Group
from tests.fuzz.tried import Tried


class Members:
    """For tables with a profile; groups only for those with a selector."""

    def __init__(self, tried: Tried) -> None:
        self._tried = tried

    def member(self) -> None:
        """Creates, changes, or creates once more."""
        tried = self._tried
        assert tried.profile is not None
        profile, member = tried.profile, tried.rng.randrange(1, 30)
        target, action, params = tried.action()
        if member in tried.expected.members:
            tried.refused(EntryExists, lambda: profile.add_member(member, action, params), "a member twice")
            profile.modify_member(member, action, params)
        elif len(tried.expected.members) >= profile.max_size:
            tried.refused(TableFull, lambda: profile.add_member(member, action, params), "a member too many")
            return
        else:
            tried.refused(NoSuchEntry, lambda: profile.modify_member(member, action, params), "no such member")
            profile.add_member(member, action, params)
            used = set(tried.expected.created.values())
            tried.expected.created[member] = next(n for n in range(len(used) + 1) if n not in used)
        tried.expected.members[member] = target

    def remove_member(self) -> None:
        """Removes a member, if that is possible."""
        tried = self._tried
        assert tried.profile is not None
        member = tried.rng.randrange(1, 30)
        if self._removed(
            "member", member, tried.expected.members, tried.expected.member_used, tried.profile.delete_member
        ):
            del tried.expected.created[member]

    def remove_group(self) -> None:
        """Removes a group, if that is possible."""
        tried = self._tried
        assert tried.profile is not None
        group = tried.rng.randrange(1, 12)
        self._removed("group", group, tried.expected.groups, tried.expected.group_used, tried.profile.delete_group)

    def _removed(
        self, what: str, number: int, held: dict[int, Any], used: Callable[[int], bool], delete: Callable[[int], None]
    ) -> bool:
        if number not in held:
            self._tried.refused(NoSuchEntry, lambda: delete(number), f"no such {what}")
        elif used(number):
            self._tried.refused(TableError, lambda: delete(number), f"a {what} in use")
        else:
            delete(number)
            del held[number]
            return True
        return False

    def _members(self) -> list[GroupMember]:
        tried = self._tried
        chosen = tried.rng.sample(list(tried.expected.members), tried.rng.randrange(len(tried.expected.members) + 1))
        ports = (None, None, None, 1, 2)
        return [GroupMember(m, tried.rng.choice((1, 1, 1, 2, 9)), tried.rng.choice(ports)) for m in chosen]

    def group(self) -> None:
        """Creates or replaces a group, or tries to."""
        tried = self._tried
        assert tried.profile is not None
        profile, group = tried.profile, tried.rng.randrange(1, 12)
        members = self._members()
        stranger = [*members, GroupMember(99)]
        if group in tried.expected.groups:
            tried.refused(EntryExists, lambda: profile.add_group(group, members), "a group twice")
            tried.refused(NoSuchEntry, lambda: profile.set_group(group, stranger), "a member that is none")
            profile.set_group(group, members)
        else:
            tried.refused(NoSuchEntry, lambda: profile.set_group(group, members), "no such group")
            tried.refused(NoSuchEntry, lambda: profile.add_group(group, stranger), "a member that is none")
            profile.add_group(group, members)
        tried.expected.groups[group] = Group([(m.member, m.weight, m.watch_port) for m in members])

    def port(self) -> None:
        """A port that members watch goes up or down."""
        tried = self._tried
        port, up = tried.rng.choice((1, 2, 3)), tried.rng.random() < 0.5
        tried.runner.state.set_port_state(port, up)
        (tried.expected.down.discard if up else tried.expected.down.add)(port)
