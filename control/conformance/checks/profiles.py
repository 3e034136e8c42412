# SPDX-License-Identifier: Apache-2.0
"""Members, groups and one-shots (section 9.2): what refers to what, weights, sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finsy.proto import p4r

from detour.control.conformance.samples import at
from detour.control.conformance.steps import *

_MEMBER, _NEXT_HOP = sample.member(), sample.member(0, "indirect")
_GROUP, _ONE_SHOT = sample.group(0, 1), sample.one_shot()
_ACTIONS = "action.action_profile_action_set.action_profile_actions"
_WITH_MEMBER, _WITH_GROUP = prepare(_MEMBER), prepare(_MEMBER, _GROUP)


def _stores_group(group: Recipe, *others: Recipe, back: Recipe | None = None) -> CheckStep:
    """The group must be accepted and be read back, as `back`, beside others."""
    return stores(group.insert, *others, back or group, request=_GROUP.every)


def _small_profile(samples: Samples) -> int:
    size = samples.profile("indirect").size
    if not 0 < size <= 64:
        raise MissingObject("the program has no small action profile")
    return size


def _next_hops(count: Callable[[Samples], int]) -> Recipe:
    return many(lambda n: sample.member(n, "indirect"), count)


def _watched(port: Any) -> Recipe:
    return _GROUP.but("members[0].watch_port", port)


def _all_watched(port: Any) -> Recipe:
    return _ONE_SHOT.but(f"{_ACTIONS}[0].watch_port", port).but(f"{_ACTIONS}[1].watch_port", port)


def _padded(samples: Samples) -> bytes:
    return b"\0" + samples.port


def _refuses_ports(*ports: Any) -> list[CheckStep]:
    return [refuse(INVALID_ARGUMENT, _watched(port).insert) for port in ports]


def _points(table: str, **to: int) -> CheckStep:
    entity = sample.pointer(table, **to)
    return stores(entity.insert, request=entity.own)


def _action_set(samples: Samples) -> p4r.ActionProfileActionSet:
    action = p4r.ActionProfileAction(action=samples.action("indirect"), weight=1)
    return p4r.ActionProfileActionSet(action_profile_actions=[action])


def _bad_one_shot(codes: Any, path: str, value: Any) -> CheckStep:
    return refuse(codes, _ONE_SHOT.but(f"{_ACTIONS}[0]{path}", value).insert)


def _members_beside(session: CheckSession) -> None:
    answer = session.write(_MEMBER.insert.make(session.samples))
    if not answer.code:
        answer = session.write(sample.pointer("selecting", 1, member=1).insert.make(session.samples))
    session.same(answer.codes, [INVALID_ARGUMENT], "codes of member or entry")


def _again_and_again(session: CheckSession) -> None:
    for _ in range((min(session.samples.profile("selecting").size, 64) or 64) // 2 + 1):
        accept(_ONE_SHOT.insert)(session)
        accept(_ONE_SHOT.delete)(session)


_MEMBERS = [
    *rows("member",
        ("id_0", "9.2.1", "member_id 0 in a Write is refused",
         refuse(INVALID_ARGUMENT, _MEMBER.but("member_id", 0).insert)),
        ("no_action", "9.2.1", "INSERT of a member without action is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, _MEMBER.but("action", None).insert)),
        ("modify_no_action", "9.2.1", "MODIFY of a member without action is INVALID_ARGUMENT",
         _WITH_MEMBER, refuse(INVALID_ARGUMENT, _MEMBER.but("action", None).modify)),
        ("unknown_action", "9.2.1", "a member with an action that P4Info does not have is refused",
         refuse(WRONG_ID, _MEMBER.but("action.action_id", NO_ID).insert)),
        ("foreign_action", "9.2.1", "a member with an action that its tables do not have is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, _MEMBER.but("action", lambda s: s.foreign_action("selecting")).insert)),
        ("full", "9.2.1", "more members than the profile's size are RESOURCE_EXHAUSTED",
         prepare(_next_hops(_small_profile)),
         refuse(FULL, Recipe(lambda s: s.member(_small_profile(s), "indirect")).insert)),
        ("size", "9.2.1", "an action profile takes as many members as P4Info's size says",
         accept(_next_hops(lambda s: min(s.profile("indirect").size, 64)).insert),
         reads(_NEXT_HOP.own, "members", lambda s: min(s.profile("indirect").size, 64))),
        ("in_group", "9.2.1", "DELETE of a member that a group has is FAILED_PRECONDITION",
         _WITH_GROUP, refuse(IN_USE, _MEMBER.delete)),
        ("in_entry", "9.2.1", "DELETE of a member that an entry of an indirect table has is FAILED_PRECONDITION",
         prepare(_NEXT_HOP, sample.pointer("indirect", member=1)), refuse(IN_USE, _NEXT_HOP.delete)),
        ("in_selecting_entry", "9.2.1", "DELETE of a member that an entry of a group table has is FAILED_PRECONDITION",
         prepare(_MEMBER, sample.pointer("selecting", member=1)), refuse(IN_USE, _MEMBER.delete)),
        ("freed", "9.2.1", "a member can be deleted once no group has it",
         prepare(_MEMBER, sample.member(1), sample.group(0, 1, 1)), do(_GROUP.modify), accept(sample.member(1).delete)),
        ("modify_in_group", "9.2.4", "the arguments of a member's action can be modified while a group has it",
         _WITH_GROUP, stores(_MEMBER.but("action", lambda s: s.action("selecting", 9)).modify)),
        ("ids_of_profiles", "9.2.1", "the same member id in two profiles is two members",
         accept(_MEMBER.insert, _NEXT_HOP.insert), holds(_MEMBER.every, _MEMBER, _NEXT_HOP)),
    ),
]  # fmt: skip
_GROUPS = [
    *rows("group",
        ("id_scope", "9.2.2", "the same id may name a member and a group of one selector",
         _WITH_MEMBER, _stores_group(_GROUP)),
        ("id_0", "9.2.2", "group_id 0 in a Write is refused",
         _WITH_MEMBER, refuse(INVALID_ARGUMENT, _GROUP.but("group_id", 0).insert)),
        ("empty", "9.2.4", "an empty group may be made, whatever packets do then", _stores_group(sample.group(0))),
        ("weights", "9.2.2", "weights of members are read back",
         prepare(_MEMBER, sample.member(1)), _stores_group(sample.group(0, 3, 5))),
        ("missing_member", "9.2.2", "INSERT of a group with a member that does not exist is NOT_FOUND",
         _WITH_MEMBER, refuse(NOT_FOUND, sample.group(0, 1, 1).insert)),
        ("modify_missing_member", "9.2.2", "MODIFY of a group with a member that does not exist is NOT_FOUND",
         _WITH_GROUP, refuse(NOT_FOUND, sample.group(0, 1, 1).modify)),
        ("weight_0", "9.2.2", "a weight of 0 is INVALID_ARGUMENT",
         _WITH_MEMBER, refuse(INVALID_ARGUMENT, sample.group(0, 0).insert)),
        ("weight_negative", "9.2.2", "a negative weight is INVALID_ARGUMENT",
         _WITH_MEMBER, refuse(INVALID_ARGUMENT, sample.group(0, -1).insert)),
        ("modify_weight_0", "9.2.2", "MODIFY with a weight of 0 is INVALID_ARGUMENT",
         _WITH_GROUP, refuse(INVALID_ARGUMENT, sample.group(0, 0).modify)),
        ("duplicate", "9.2.2", "a member that occurs twice in a group is refused", _WITH_MEMBER,
         refuse((INVALID_ARGUMENT, EXISTS), _GROUP.altered(lambda m: m.members.add(member_id=1, weight=1)).insert)),
        ("watch_port", "9.2.2", "watch ports of members are read back",
         _WITH_MEMBER, _stores_group(_watched(lambda s: s.port))),
        ("watch_port_padded", "8.3", "a padded watch port is accepted and read back in its shortest form",
         _WITH_MEMBER, _stores_group(_watched(_padded), back=_watched(lambda s: s.port))),
        ("watch_port_missing", "9.2.2", "a watch port that the device does not have is INVALID_ARGUMENT",
         _WITH_MEMBER, *_refuses_ports(b"\x7f\xff\xff\x01", lambda s: s.absent_port)),
        ("max_size_changed", "9.2.2", "MODIFY with another max_size is INVALID_ARGUMENT",
         prepare(_MEMBER, _GROUP.but("max_size", 4)), refuse(INVALID_ARGUMENT, _GROUP.but("max_size", 5).modify)),
        ("max_size", "9.2.2", "max_size is read back", _WITH_MEMBER, _stores_group(_GROUP.but("max_size", 4))),
        ("max_size_exceeded", "9.2.2.1", "a group larger than its max_size is refused",
         prepare(_MEMBER, sample.member(1)),
         refuse((FULL, INVALID_ARGUMENT), sample.group(0, 1, 1).but("max_size", 1).insert)),
        ("in_entry", "9.2.2", "DELETE of a group that an entry has is FAILED_PRECONDITION",
         _WITH_GROUP, prepare(sample.pointer("selecting", group=1)), refuse(IN_USE, sample.group(0).delete)),
        ("freed", "9.2.2", "a group can be deleted once no entry has it",
         _WITH_GROUP, prepare(sample.pointer("selecting", group=1)), do(sample.pointer("selecting", group=1).delete),
         accept(sample.group(0).delete)),
        ("member_in_two", "9.2.2", "a member may be in several groups",
         _WITH_GROUP, _stores_group(sample.group(1, 1), _GROUP)),
        ("without_selector", "9.2.2", "a group in an action profile without selector is refused", refuse(WRONG_ID,
             sample.group(0).but("action_profile_id", lambda s: s.profile("indirect").preamble.id).insert)),
    ),
]  # fmt: skip
_ENTRIES = [
    *rows("indirect",
        ("selecting_member", "9.1.2", "an entry of a group table may point to a member",
         _WITH_MEMBER, _points("selecting", member=1)),
        ("group", "9.1.2", "an entry of a group table may point to a group",
         _WITH_GROUP, _points("selecting", group=1)),
        ("missing_member", "9.1.2", "an entry that points to a missing member is NOT_FOUND",
         refuse(NOT_FOUND, sample.pointer("indirect", member=77).insert)),
        ("missing_selecting_member", "9.1.2", "an entry of a group table with a missing member is NOT_FOUND",
         refuse(NOT_FOUND, sample.pointer("selecting", member=77).insert)),
        ("missing_group", "9.1.2", "an entry that points to a missing group is NOT_FOUND",
         refuse(NOT_FOUND, sample.pointer("selecting", group=77).insert)),
        ("modify_missing_member", "9.1.2", "MODIFY of an entry to a missing member is NOT_FOUND",
         prepare(_NEXT_HOP, sample.pointer("indirect", member=1)),
         refuse(NOT_FOUND, sample.pointer("indirect", member=77).modify)),
        ("action", "9.1.2", "an action in an indirect table is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.entry("indirect").insert)),
        ("action_in_selecting", "9.1.2", "an action in a group table is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.entry("selecting").insert)),
        ("group_in_indirect", "9.1.2", "a group in a table whose profile has no selector is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.pointer("indirect", group=1).insert)),
        ("one_shot", "9.1.2", "a one-shot in a table whose profile has no selector is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.pointer("indirect").but("action.action_profile_action_set",
             _action_set).insert)),
    ),
]  # fmt: skip
_ONE_SHOTS = [
    *rows("one_shot",
        ("same_action", "9.2.3", "actions that occur twice in a one-shot are not merged",
         stores(_ONE_SHOT.but(f"{_ACTIONS}[1].action", lambda s: s.action("selecting")).insert, request=_ONE_SHOT.own)),
        ("watch_port", "9.2.3", "watch ports of a one-shot are read back",
         stores(_all_watched(lambda s: s.port).insert, request=_ONE_SHOT.own)),
        ("watch_port_padded", "8.3", "a padded watch port in a one-shot is read back in its shortest form",
         stores(_all_watched(_padded).insert, _all_watched(lambda s: s.port), request=_ONE_SHOT.own)),
        ("weight_0", "9.2.3", "a weight of 0 in a one-shot is INVALID_ARGUMENT",
         _bad_one_shot(INVALID_ARGUMENT, ".weight", 0)),
        ("weight_negative", "9.2.3", "a negative weight in a one-shot is INVALID_ARGUMENT",
         _bad_one_shot(INVALID_ARGUMENT, ".weight", -1)),
        ("unknown_action", "9.2.3", "an action that the table does not have is refused in a one-shot",
         _bad_one_shot(WRONG_ID, ".action.action_id", NO_ID)),
        ("no_action", "9.2.3", "a one-shot with an action that is not set is INVALID_ARGUMENT",
         _bad_one_shot(WRONG_ID, ".action", None)),
        ("param_missing", "9.2.3", "a missing parameter in a one-shot is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, _ONE_SHOT.altered(lambda m: at(m, f"{_ACTIONS}[0].action.params").pop()).insert)),
        ("beside_groups", "9.2.3", "a one-shot beside members of the same selector is INVALID_ARGUMENT",
         prepare(_MEMBER, sample.pointer("selecting", 1, member=1)), refuse(INVALID_ARGUMENT, _ONE_SHOT.insert)),
        ("before_members", "9.2.3", "an entry that points to a member beside a one-shot is INVALID_ARGUMENT",
         prepare(_ONE_SHOT), _members_beside),
        ("deleted", "9.2.3", "a one-shot's members and group go with its entry: it can be made again and again",
         _again_and_again),
    ),
]  # fmt: skip
checks = [*_MEMBERS, *_GROUPS, *_ENTRIES, *_ONE_SHOTS]
