# SPDX-License-Identifier: Apache-2.0
"""Members, groups and one-shots (section 9.2): what refers to what, weights, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from finsy.proto import p4r

from detour.control.conformance.checks.entities import duplicate
from detour.control.conformance.link import Canonical
from detour.control.conformance.model import SHOULD, check
from detour.control.conformance.samples import NO_ID, MissingObject
from detour.control.conformance.session import CheckSession, delete, insert, modify

_INVALID, _MISSING, _USED = Canonical.INVALID_ARGUMENT, Canonical.NOT_FOUND, Canonical.FAILED_PRECONDITION
_WRONG_ID = (_INVALID, _MISSING)


def _entry(session: CheckSession, n: int = 0, member: int = 0, group: int = 0, selecting: bool = True) -> p4r.Entity:
    """An entry that points to a member or a group."""
    samples = session.samples
    entity = samples.entry(samples.selecting if selecting else samples.indirect, n, action=False)
    if group:
        entity.table_entry.action.action_profile_group_id = group
    else:
        entity.table_entry.action.action_profile_member_id = member
    return entity


def _members(session: CheckSession, count: int = 2, selector: bool = True) -> None:
    session.prepare(*(session.samples.member(n, selector) for n in range(count)))


def _group(session: CheckSession, *weights: int, **fields: Any) -> p4r.Entity:
    """A group of members 1, 2, ... with these weights."""
    entity = session.samples.group(0)
    for member, weight in enumerate(weights, 1):
        entity.action_profile_group.members.add(member_id=member, weight=weight, **fields)
    return entity


def _profile(session: CheckSession, selector: bool = True) -> Any:
    samples = session.samples
    table = samples.selecting if selector else samples.indirect
    return samples.object("action_profiles", lambda p: p.preamble.id == table.implementation_id)


@check("member.id_0", "9.2.1", "member_id 0 in a Write is refused")
def _member_id_0(session: CheckSession) -> None:
    entity = session.samples.member()
    entity.action_profile_member.member_id = 0
    session.refuse(_INVALID, insert(entity))


@check("member.no_action", "9.2.1", "INSERT of a member without action is INVALID_ARGUMENT")
def _member_no_action(session: CheckSession) -> None:
    entity = session.samples.member()
    entity.action_profile_member.ClearField("action")
    session.refuse(_INVALID, insert(entity))


@check("member.modify_no_action", "9.2.1", "MODIFY of a member without action is INVALID_ARGUMENT")
def _member_modify_no_action(session: CheckSession) -> None:
    _members(session, 1)
    entity = session.samples.member()
    entity.action_profile_member.ClearField("action")
    session.refuse(_INVALID, modify(entity))


@check("member.unknown_action", "9.2.1", "a member with an action that P4Info does not have is refused")
def _member_unknown_action(session: CheckSession) -> None:
    entity = session.samples.member()
    entity.action_profile_member.action.action_id = NO_ID
    session.refuse(_WRONG_ID, insert(entity))


@check("member.foreign_action", "9.2.1", "a member with an action that its tables do not have is INVALID_ARGUMENT")
def _member_foreign_action(session: CheckSession) -> None:
    samples = session.samples
    own = {r.id for r in samples.selecting.action_refs}
    other = samples.object("actions", lambda a: a.preamble.id not in own)
    entity = samples.member()
    entity.action_profile_member.action.CopyFrom(samples.call(other.preamble.id))
    session.refuse(_INVALID, insert(entity))


@check("member.full", "9.2.1", "more members than the profile's size are RESOURCE_EXHAUSTED", SHOULD)
def _member_full(session: CheckSession) -> None:
    size = _profile(session, False).size
    if not 0 < size <= 64:
        raise MissingObject("the program has no small action profile")
    _members(session, size, False)
    session.refuse(Canonical.RESOURCE_EXHAUSTED, insert(session.samples.member(size, False)))


@check("member.size", "9.2.1", "an action profile takes as many members as P4Info's size says", SHOULD)
def _member_size(session: CheckSession) -> None:
    size = min(_profile(session, False).size, 64)
    session.accept(*(insert(session.samples.member(n, False)) for n in range(size)))
    profile_id = session.samples.indirect.implementation_id
    request = p4r.Entity(action_profile_member=p4r.ActionProfileMember(action_profile_id=profile_id))
    session.same(len(session.read(request)), size, "members")


@check("member.in_group", "9.2.1", "DELETE of a member that a group has is FAILED_PRECONDITION")
def _member_in_group(session: CheckSession) -> None:
    _members(session, 1)
    session.prepare(_group(session, 1))
    session.refuse(_USED, delete(session.samples.member()))


def _member_in_entry(session: CheckSession, selecting: bool) -> None:
    _members(session, 1, selecting)
    session.prepare(_entry(session, 0, member=1, selecting=selecting))
    session.refuse(_USED, delete(session.samples.member(0, selecting)))


@check("member.in_entry", "9.2.1", "DELETE of a member that an entry of an indirect table has is FAILED_PRECONDITION")
def _member_in_indirect(session: CheckSession) -> None:
    _member_in_entry(session, False)


@check("member.in_selecting_entry", "9.2.1", "DELETE of a member that an entry of a group table has is "
       "FAILED_PRECONDITION")  # fmt: skip
def _member_in_selecting(session: CheckSession) -> None:
    _member_in_entry(session, True)


@check("member.freed", "9.2.1", "a member can be deleted once no group has it")
def _member_freed(session: CheckSession) -> None:
    _members(session)
    session.prepare(_group(session, 1, 1))
    session.do(modify(_group(session, 1)))
    session.accept(delete(session.samples.member(1)))


@check("member.modify_in_group", "9.2.4", "the arguments of a member's action can be modified while a group has it")
def _member_modify_in_group(session: CheckSession) -> None:
    _members(session, 1)
    session.prepare(_group(session, 1))
    entity = session.samples.member()
    entity.action_profile_member.action.CopyFrom(session.samples.action(session.samples.selecting, 9))
    session.accept(modify(entity))
    key = p4r.ActionProfileMember(action_profile_id=entity.action_profile_member.action_profile_id, member_id=1)
    session.holds(p4r.Entity(action_profile_member=key), entity)


@check("member.ids_of_profiles", "9.2.1", "the same member id in two profiles is two members")
def _member_scopes(session: CheckSession) -> None:
    entities = [session.samples.member(0, True), session.samples.member(0, False)]
    session.accept(*map(insert, entities))
    session.holds(p4r.Entity(action_profile_member=p4r.ActionProfileMember()), *entities)


@check("group.id_scope", "9.2.2", "the same id may name a member and a group of one selector")
def _group_scope(session: CheckSession) -> None:
    _members(session, 1)
    session.accept(insert(_group(session, 1)))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), _group(session, 1))


@check("group.id_0", "9.2.2", "group_id 0 in a Write is refused")
def _group_id_0(session: CheckSession) -> None:
    _members(session, 1)
    entity = _group(session, 1)
    entity.action_profile_group.group_id = 0
    session.refuse(_INVALID, insert(entity))


@check("group.empty", "9.2.4", "an empty group may be made, whatever packets do then")
def _group_empty(session: CheckSession) -> None:
    session.accept(insert(_group(session)))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), _group(session))


@check("group.weights", "9.2.2", "weights of members are read back")
def _group_weights(session: CheckSession) -> None:
    _members(session)
    session.accept(insert(_group(session, 3, 5)))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), _group(session, 3, 5))


def _bad_group(session: CheckSession, codes: int | Sequence[int], update: Any, *weights: int, **fields: Any) -> None:
    _members(session, 1)
    if update is modify:
        session.prepare(_group(session, 1))
    session.refuse(codes, update(_group(session, *weights, **fields)))


@check("group.missing_member", "9.2.2", "INSERT of a group with a member that does not exist is NOT_FOUND")
def _group_missing(session: CheckSession) -> None:
    _bad_group(session, _MISSING, insert, 1, 1)


@check("group.modify_missing_member", "9.2.2", "MODIFY of a group with a member that does not exist is NOT_FOUND")
def _group_modify_missing(session: CheckSession) -> None:
    _bad_group(session, _MISSING, modify, 1, 1)


@check("group.weight_0", "9.2.2", "a weight of 0 is INVALID_ARGUMENT")
def _group_weight_0(session: CheckSession) -> None:
    _bad_group(session, _INVALID, insert, 0)


@check("group.weight_negative", "9.2.2", "a negative weight is INVALID_ARGUMENT")
def _group_weight_negative(session: CheckSession) -> None:
    _bad_group(session, _INVALID, insert, -1)


@check("group.modify_weight_0", "9.2.2", "MODIFY with a weight of 0 is INVALID_ARGUMENT")
def _group_modify_weight(session: CheckSession) -> None:
    _bad_group(session, _INVALID, modify, 0)


@check("group.duplicate", "9.2.2", "a member that occurs twice in a group is refused")
def _group_duplicate(session: CheckSession) -> None:
    _members(session, 1)
    entity = _group(session, 1)
    entity.action_profile_group.members.add(member_id=1, weight=1)
    session.refuse((_INVALID, Canonical.ALREADY_EXISTS), insert(entity))


@check("group.watch_port", "9.2.2", "watch ports of members are read back")
def _group_watch(session: CheckSession) -> None:
    _members(session, 1)
    session.accept(insert(_group(session, 1, watch_port=b"\1")))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), _group(session, 1, watch_port=b"\1"))


@check("group.watch_port_padded", "8.3", "a padded watch port is accepted and read back in its shortest form")
def _group_watch_padded(session: CheckSession) -> None:
    _members(session, 1)
    session.accept(insert(_group(session, 1, watch_port=b"\0\0\1")))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), _group(session, 1, watch_port=b"\1"))


@check("group.watch_port_missing", "9.2.2", "a watch port that no device can have is INVALID_ARGUMENT")
def _group_watch_missing(session: CheckSession) -> None:
    _bad_group(session, _INVALID, insert, 1, watch_port=b"\x7f\xff\xff\x01")


@check("group.max_size_changed", "9.2.2", "MODIFY with another max_size is INVALID_ARGUMENT")
def _group_max_size(session: CheckSession) -> None:
    _members(session, 1)
    entity = _group(session, 1)
    entity.action_profile_group.max_size = 4
    session.prepare(entity)
    entity.action_profile_group.max_size = 5
    session.refuse(_INVALID, modify(entity))


@check("group.max_size", "9.2.2", "max_size is read back")
def _group_max_size_read(session: CheckSession) -> None:
    _members(session, 1)
    entity = _group(session, 1)
    entity.action_profile_group.max_size = 4
    session.accept(insert(entity))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), entity)


@check("group.max_size_exceeded", "9.2.2.1", "a group larger than its max_size is refused")
def _group_too_large(session: CheckSession) -> None:
    _members(session)
    entity = _group(session, 1, 1)
    entity.action_profile_group.max_size = 1
    session.refuse((Canonical.RESOURCE_EXHAUSTED, _INVALID), insert(entity))


@check("group.in_entry", "9.2.2", "DELETE of a group that an entry has is FAILED_PRECONDITION")
def _group_in_entry(session: CheckSession) -> None:
    _members(session, 1)
    session.prepare(_group(session, 1), _entry(session, 0, group=1))
    session.refuse(_USED, delete(_group(session)))


@check("group.freed", "9.2.2", "a group can be deleted once no entry has it")
def _group_freed(session: CheckSession) -> None:
    _members(session, 1)
    session.prepare(_group(session, 1), _entry(session, 0, group=1))
    session.do(delete(_entry(session, 0, group=1)))
    session.accept(delete(_group(session)))


@check("group.member_in_two", "9.2.2", "a member may be in several groups")
def _group_shared(session: CheckSession) -> None:
    _members(session, 1)
    second = _group(session, 1)
    second.action_profile_group.group_id = 2
    session.prepare(_group(session, 1))
    session.accept(insert(second))
    session.holds(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), _group(session, 1), second)


@check("group.without_selector", "9.2.2", "a group in an action profile without selector is refused")
def _group_no_selector(session: CheckSession) -> None:
    entity = session.samples.group(0)
    entity.action_profile_group.action_profile_id = session.samples.indirect.implementation_id
    session.refuse(_WRONG_ID, insert(entity))


# -- entries that point to them


def _points(session: CheckSession, selecting: bool, group: bool) -> None:
    _members(session, 1, selecting)
    if group:
        session.prepare(_group(session, 1))
    entity = _entry(session, 0, selecting=selecting, **{"group" if group else "member": 1})
    session.accept(insert(entity))
    table = entity.table_entry.table_id
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=table)), entity)


@check("indirect.selecting_member", "9.1.2", "an entry of a group table may point to a member")
def _points_to_member(session: CheckSession) -> None:
    _points(session, True, False)


@check("indirect.group", "9.1.2", "an entry of a group table may point to a group")
def _points_to_group(session: CheckSession) -> None:
    _points(session, True, True)


@check("indirect.missing_member", "9.1.2", "an entry that points to a missing member is NOT_FOUND")
def _missing_member(session: CheckSession) -> None:
    session.refuse(_MISSING, insert(_entry(session, 0, member=77, selecting=False)))


@check("indirect.missing_selecting_member", "9.1.2", "an entry of a group table with a missing member is NOT_FOUND")
def _missing_selecting_member(session: CheckSession) -> None:
    session.refuse(_MISSING, insert(_entry(session, 0, member=77)))


@check("indirect.missing_group", "9.1.2", "an entry that points to a missing group is NOT_FOUND")
def _missing_group(session: CheckSession) -> None:
    session.refuse(_MISSING, insert(_entry(session, 0, group=77)))


@check("indirect.modify_missing_member", "9.1.2", "MODIFY of an entry to a missing member is NOT_FOUND")
def _modify_missing_member(session: CheckSession) -> None:
    _members(session, 1, False)
    session.prepare(_entry(session, 0, member=1, selecting=False))
    session.refuse(_MISSING, modify(_entry(session, 0, member=77, selecting=False)))


def _wrong_oneof(session: CheckSession, selecting: bool, fill: Any) -> None:
    samples = session.samples
    table = samples.selecting if selecting else samples.indirect
    entity = samples.entry(table, 0, action=False)
    fill(entity.table_entry.action, samples.action(table))
    session.refuse(_INVALID, insert(entity))


@check("indirect.action", "9.1.2", "an action in an indirect table is INVALID_ARGUMENT")
def _action_in_indirect(session: CheckSession) -> None:
    _wrong_oneof(session, False, lambda to, action: to.action.CopyFrom(action))


@check("indirect.action_in_selecting", "9.1.2", "an action in a group table is INVALID_ARGUMENT")
def _action_in_selecting(session: CheckSession) -> None:
    _wrong_oneof(session, True, lambda to, action: to.action.CopyFrom(action))


@check("indirect.group_in_indirect", "9.1.2", "a group in a table whose profile has no selector is INVALID_ARGUMENT")
def _group_in_indirect(session: CheckSession) -> None:
    _wrong_oneof(session, False, lambda to, action: setattr(to, "action_profile_group_id", 1))


@check("indirect.one_shot", "9.1.2", "a one-shot in a table whose profile has no selector is INVALID_ARGUMENT")
def _one_shot_in_indirect(session: CheckSession) -> None:
    _wrong_oneof(
        session, False,
        lambda to, action: to.action_profile_action_set.action_profile_actions.add(action=action, weight=1),
    )  # fmt: skip


# -- one-shots


def _bad_one_shot(session: CheckSession, codes: int | Sequence[int], change: Any) -> None:
    entity = session.samples.one_shot()
    change(entity.table_entry.action.action_profile_action_set.action_profile_actions)
    session.refuse(codes, insert(entity))


@check("one_shot.same_action", "9.2.3", "actions that occur twice in a one-shot are not merged")
def _one_shot_same(session: CheckSession) -> None:
    entity = session.samples.one_shot()
    actions = entity.table_entry.action.action_profile_action_set.action_profile_actions
    actions[1].action.CopyFrom(actions[0].action)
    session.accept(insert(entity))
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id)), entity)


@check("one_shot.watch_port", "9.2.3", "watch ports of a one-shot are read back")
def _one_shot_watch(session: CheckSession) -> None:
    entity = session.samples.one_shot()
    for action in entity.table_entry.action.action_profile_action_set.action_profile_actions:
        action.watch_port = b"\1"
    session.accept(insert(entity))
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id)), entity)


@check("one_shot.watch_port_padded", "8.3", "a padded watch port in a one-shot is read back in its shortest form")
def _one_shot_watch_padded(session: CheckSession) -> None:
    entity = session.samples.one_shot()
    sent = duplicate(entity)
    for message, port in ((entity, b"\1"), (sent, b"\0\1")):
        for action in message.table_entry.action.action_profile_action_set.action_profile_actions:
            action.watch_port = port
    session.accept(insert(sent))
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id)), entity)


@check("one_shot.weight_0", "9.2.3", "a weight of 0 in a one-shot is INVALID_ARGUMENT")
def _one_shot_weight(session: CheckSession) -> None:
    _bad_one_shot(session, _INVALID, lambda actions: setattr(actions[0], "weight", 0))


@check("one_shot.weight_negative", "9.2.3", "a negative weight in a one-shot is INVALID_ARGUMENT")
def _one_shot_negative(session: CheckSession) -> None:
    _bad_one_shot(session, _INVALID, lambda actions: setattr(actions[0], "weight", -1))


@check("one_shot.unknown_action", "9.2.3", "an action that the table does not have is refused in a one-shot")
def _one_shot_action(session: CheckSession) -> None:
    _bad_one_shot(session, _WRONG_ID, lambda actions: setattr(actions[0].action, "action_id", NO_ID))


@check("one_shot.no_action", "9.2.3", "a one-shot with an action that is not set is INVALID_ARGUMENT")
def _one_shot_no_action(session: CheckSession) -> None:
    _bad_one_shot(session, _WRONG_ID, lambda actions: actions[0].ClearField("action"))


@check("one_shot.param_missing", "9.2.3", "a missing parameter in a one-shot is INVALID_ARGUMENT")
def _one_shot_param(session: CheckSession) -> None:
    if not session.samples.action(session.samples.selecting).params:
        raise MissingObject("the table with a selector has no action with parameters")
    _bad_one_shot(session, _INVALID, lambda actions: actions[0].action.params.pop())


@check("one_shot.beside_groups", "9.2.3", "a one-shot beside members of the same selector is INVALID_ARGUMENT")
def _one_shot_beside(session: CheckSession) -> None:
    _members(session, 1)
    session.prepare(_entry(session, 1, member=1))
    session.refuse(_INVALID, insert(session.samples.one_shot()))


@check("one_shot.before_members", "9.2.3", "an entry that points to a member beside a one-shot is INVALID_ARGUMENT")
def _members_beside(session: CheckSession) -> None:
    session.prepare(session.samples.one_shot())
    answer = session.write(insert(session.samples.member()))
    codes = answer.codes if answer.code else session.write(insert(_entry(session, 1, member=1))).codes
    session.same(codes, [_INVALID], "codes of member or entry")


@check("one_shot.deleted", "9.2.3", "a one-shot's members and group go with its entry: it can be made again and again")
def _one_shot_again(session: CheckSession) -> None:
    size = min(_profile(session).size, 64) or 64
    for _ in range(size // 2 + 1):
        session.accept(insert(session.samples.one_shot()))
        session.accept(delete(session.samples.one_shot()))
