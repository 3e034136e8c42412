# SPDX-License-Identifier: Apache-2.0
"""Action sets as groups of an action profile, which all entries with the same set share.

    stored = grouped(plan[device], held, profiles)  # of a switch that holds `held`
    ungrouped(stored)                               # the entities of the plan again

A hash chooses by place, and a switch places the members of a group in the order in which they were created. So members
are numbered in that order, and a set is a list of members with rising numbers: of those that other sets have, or new
ones. Members that nothing needs any more stay: a link that comes back finds its own, in its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from detour.control.entries import (
    Action,
    ActionProfileGroup,
    ActionProfileMember,
    ActionSet,
    Entity,
    GroupEntry,
    Stored,
    TableEntry,
    WeightedAction,
)

_Group = tuple[str, int]
"""an action profile, and the number of one of its groups"""
_Set = tuple[str, ActionSet]


def ungrouped(stored: Sequence[Stored]) -> list[Entity]:
    """The entities, with action sets for groups; entries with one group share its set."""
    sets = _sets(stored)
    entities: list[Entity] = []
    for each in stored:
        if isinstance(each, GroupEntry):
            entities.append(TableEntry(each.table, each.match, sets[each.profile, each.group], each.priority))
        elif not isinstance(each, ActionProfileMember | ActionProfileGroup):
            entities.append(each)
    return entities


def _sets(stored: Iterable[Stored]) -> dict[_Group, ActionSet]:
    actions: dict[tuple[str, int], Action] = {}
    groups: list[ActionProfileGroup] = []
    for each in stored:
        if isinstance(each, ActionProfileMember):
            actions[each.profile, each.member] = each.action
        elif isinstance(each, ActionProfileGroup):
            groups.append(each)
    return {
        (group.profile, group.group): ActionSet(
            tuple(WeightedAction(actions[group.profile, member], weight) for member, weight in group.members)
        )
        for group in groups
    }


def one_shots(stored: Iterable[Stored], profiles: Mapping[str, str]) -> set[str]:
    """The action profiles with sets that stay with their entries; a switch has no groups beside them."""
    entries = (each for each in stored if isinstance(each, TableEntry) and isinstance(each.action, ActionSet))
    return {profiles[each.table] for each in entries if each.table in profiles}


def grouped(target: Iterable[Entity], held: Sequence[Stored], profiles: Mapping[str, str]) -> list[Stored]:
    """Return what a switch that holds `held` is to store for the entities of `target`. `profiles`: the action profile
    of a table. A set stays with its entry if the table has none, or where sets do so on the switch (`one_shots`)."""
    apart = one_shots(held, profiles)
    stored: list[Stored] = []
    entries: dict[_Set, list[TableEntry]] = {}
    for entity in target:
        if isinstance(entity, TableEntry) and isinstance(entity.action, ActionSet):
            profile = profiles.get(entity.table)
            if profile is not None and profile not in apart:
                entries.setdefault((profile, entity.action), []).append(entity)
                continue
        stored.append(entity)
    groups, members = _numbered(entries, held), _Members(held, entries)
    for (profile, choices), number in groups.items():
        stored.append(ActionProfileGroup(profile, number, members.of(profile, choices)))
        for each in entries[profile, choices]:
            stored.append(GroupEntry(each.table, each.match, profile, number, each.priority))
    return [*members.all, *stored]


def _numbered(entries: Mapping[_Set, Sequence[TableEntry]], held: Sequence[Stored]) -> dict[_Set, int]:
    """The number of each set's group: of the group that has the set, or of the one that all its entries, and no others,
    lead to up to now, which then changes under them, or of a new one."""
    present = _sets(held)
    group_of: dict[object, _Group] = {}
    users = Counter[_Group]()
    for each in held:
        if isinstance(each, GroupEntry):
            group_of[each.key] = group = each.profile, each.group
            users[group] += 1
    numbers: dict[_Set, int] = {}
    for (profile, number), choices in present.items():
        if (profile, choices) in entries:
            numbers.setdefault((profile, choices), number)
    kept = {(profile, number) for (profile, _), number in numbers.items()}
    taken = {number for _, number in present}
    fresh = (number for number in count(1) if number not in taken)
    for (profile, choices), listed in entries.items():
        if (profile, choices) not in numbers:
            led_to = {group_of.get(entry.key) for entry in listed}
            group = led_to.pop() if len(led_to) == 1 else None
            if group is None or group in kept or users[group] > len(listed):
                numbers[profile, choices] = next(fresh)
            else:
                numbers[profile, choices] = group[1]
    return numbers


class _Members:
    """The members of a switch: those that it has, and those that sets need besides."""

    def __init__(self, held: Iterable[Stored], sets: Iterable[_Set]) -> None:
        self.all = sorted((e for e in held if isinstance(e, ActionProfileMember)), key=lambda e: e.member)
        self._numbers: dict[tuple[str, Action], list[int]] = {}
        for each in self.all:
            self._numbers.setdefault((each.profile, each.action), []).append(each.member)
        needed = {(profile, choice.action) for profile, choices in sets for choice in choices.choices}
        for each in sorted(needed - self._numbers.keys(), key=lambda each: (each[1].name, each[1].params)):
            self._add(*each)  # sets are mostly in order of the ports

    def _add(self, profile: str, action: Action) -> int:
        number = self.all[-1].member + 1 if self.all else 1
        self.all.append(ActionProfileMember(profile, number, action))
        self._numbers.setdefault((profile, action), []).append(number)
        return number

    def of(self, profile: str, choices: ActionSet) -> tuple[tuple[int, int], ...]:
        """The members of a group, in order, and their weights."""
        chosen: list[tuple[int, int]] = []
        last = 0
        for choice in choices.choices:
            numbers = self._numbers[profile, choice.action]
            at = bisect_right(numbers, last)
            last = numbers[at] if at < len(numbers) else self._add(profile, choice.action)
            chosen.append((last, choice.weight))
        return tuple(chosen)
