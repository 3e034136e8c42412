# SPDX-License-Identifier: Apache-2.0
"""ActionProfileMember and ActionProfileGroup, and one-shots (spec, same titles).

A one-shot is a group that lives with one entry. It and its members get ids that no client can name; what was written is
kept and read back as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from finsy.proto import p4r

from detour.engine.p4runtime.bytestrings import encode
from detour.engine.p4runtime.entities.common import DELETE, INSERT, Ids, PendingUpdate, selected
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.schema import Profile, find
from detour.engine.p4runtime.store import EntityStore, OneShot, ProfileStore
from detour.engine.tables import EntryExists, GroupMember, NoSuchEntry, TableError, TableFull

# A weight takes as many slots of the group's list; the spec leaves the limit to the target.
_MAX_GROUP_WEIGHT = 1 << 16

Member = p4r.ActionProfileGroup.Member | p4r.ActionProfileAction

# -- members


def prepare_member(store: EntityStore, kind: int, message: p4r.ActionProfileMember) -> PendingUpdate:
    """INSERT, MODIFY, DELETE of a member."""
    profile = find(store.profiles, message.action_profile_id, "action profile")
    member = message.member_id
    if not member:
        raise invalid(f"action profile {profile.info.name}: 0 is not a member id")
    if kind == DELETE:
        return partial(_delete_member, profile, member)
    if not message.HasField("action"):
        raise invalid(f"action profile {profile.info.name}: member {member} needs an action")
    action, params = profile.info.actions.decode(message.action)
    if kind == INSERT:
        return partial(_insert_member, profile, member, action, params)
    return lambda: profile.engine.modify_member(member, action, params)


def _insert_member(profile: ProfileStore, member: int, action: int, params: tuple[int, ...]) -> None:
    profile.forbid_references()
    profile.engine.add_member(member, action, params)


def _delete_member(profile: ProfileStore, member: int) -> None:
    profile.engine.member_row(member)  # NOT_FOUND comes first
    try:
        profile.engine.delete_member(member)
    except NoSuchEntry:
        raise
    except TableError as e:
        raise Refused(Code.FAILED_PRECONDITION, str(e)) from e


def read_members(store: EntityStore, request: p4r.ActionProfileMember, ids: Ids) -> Iterator[p4r.Entity]:
    """One member (NOT_FOUND if there is none), or all of one profile or of all."""
    for profile in selected(store.profiles, request.action_profile_id, "action profile", ids):
        if profile.one_shots:  # hidden members are not for clients
            continue
        if request.action_profile_id and request.member_id:
            chosen = [request.member_id]
        else:
            chosen = sorted(profile.engine.members())
        for member in chosen:
            action, params = profile.engine.member(member)
            entity = p4r.Entity()
            out = entity.action_profile_member
            out.action_profile_id, out.member_id = profile.info.id, member
            profile.info.actions.encode(action, params, out.action)
            yield entity


# -- groups


def prepare_group(store: EntityStore, kind: int, message: p4r.ActionProfileGroup) -> PendingUpdate:
    """INSERT, MODIFY, DELETE of a group."""
    profile = find(store.profiles, message.action_profile_id, "action profile")
    where, group = f"action profile {profile.info.name}", message.group_id
    if not profile.info.selector:
        raise invalid(f"{where} has no selector, so there are no groups")
    if not group:
        raise invalid(f"{where}: 0 is not a group id")
    if kind == DELETE:
        return partial(_delete_group, profile, group)
    info = profile.info
    members = [GroupMember(m.member_id, _weight(info, m), _watch_port(store, info, m)) for m in message.members]
    if len({m.member for m in members}) < len(members):
        raise invalid(f"{where}: group {group} has a member twice; use its weight")
    limit = _max_size(profile, message)
    size = _group_size(profile.info, (m.weight for m in members))
    if 0 < limit < size:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{where}: group {group} has size {size}, the agreed maximum is {limit}")
    return partial(_insert_group if kind == INSERT else _modify_group, profile, group, members, message.max_size)


def _max_size(profile: ProfileStore, message: p4r.ActionProfileGroup) -> int:
    """The limit of a group (spec, "Rules on Setting max_size"). The spec wants max_size to be positive when P4Info has
    a max_group_size, p4runtime.proto says that 0 then means max_group_size; we accept what either accepts."""
    largest, asked = profile.info.max_group_size, message.max_size
    if asked < 0 or 0 < largest < asked:
        raise invalid(f"action profile {profile.info.name}: max_size {asked} is not in 0..{largest or 'any'}")
    if asked > _MAX_GROUP_WEIGHT:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"action profile {profile.info.name}: max_size {asked} is too large")
    return asked or largest


def _insert_group(profile: ProfileStore, group: int, members: list[GroupMember], max_size: int) -> None:
    profile.forbid_references()
    if group in profile.sizes:
        raise EntryExists(f"{profile.engine.name}: group {group} exists")
    profile.engine.add_group(group, members)
    profile.sizes[group] = max_size


def _modify_group(profile: ProfileStore, group: int, members: list[GroupMember], max_size: int) -> None:
    if group not in profile.sizes:
        raise NoSuchEntry(f"{profile.engine.name}: there is no group {group}")
    if profile.sizes[group] != max_size:
        raise invalid(
            f"{profile.engine.name}: group {group} was created with max_size {profile.sizes[group]}, not {max_size}"
        )
    profile.engine.set_group(group, members)


def _delete_group(profile: ProfileStore, group: int) -> None:
    if group not in profile.sizes:
        raise NoSuchEntry(f"{profile.engine.name}: there is no group {group}")
    try:
        profile.engine.delete_group(group)
    except TableError as e:
        raise Refused(Code.FAILED_PRECONDITION, str(e)) from e
    del profile.sizes[group]


def read_groups(store: EntityStore, request: p4r.ActionProfileGroup, ids: Ids) -> Iterator[p4r.Entity]:
    """One group (NOT_FOUND if there is none), or all of one selector or of all."""
    for profile in selected(store.profiles, request.action_profile_id, "action profile", ids):
        if request.action_profile_id and request.group_id:
            if request.group_id not in profile.sizes:
                raise NoSuchEntry(f"{profile.engine.name}: there is no group {request.group_id}")
            chosen = [request.group_id]
        else:
            chosen = sorted(profile.sizes)
        for group in chosen:
            yield _show_group(profile, group)


def _show_group(profile: ProfileStore, group: int) -> p4r.Entity:
    entity = p4r.Entity()
    out = entity.action_profile_group
    out.action_profile_id, out.group_id, out.max_size = profile.info.id, group, profile.sizes[group]
    for m in profile.engine.group(group)[0]:
        member = out.members.add()
        member.member_id = m.member
        member.weight = 0 if profile.info.weights_disallowed else m.weight
        if m.watch_port is not None:
            member.watch_port = encode(m.watch_port)
    return entity


# -- weights and watch ports, of groups and one-shots alike


def _weight(profile: Profile, message: Member) -> int:
    """The weight of a member (spec, "Group Programming")."""
    value, where = message.weight, f"action profile {profile.name}"
    if profile.weights_disallowed:
        if value:
            raise invalid(f"{where}: weights are not allowed, leave them out")
        return 1
    if value < 1:
        raise invalid(f"{where}: a weight of {value}; weights are 1 or more")
    if profile.sum_of_members and 0 < profile.max_member_weight < value:
        raise invalid(f"{where}: a weight of {value}, the largest is {profile.max_member_weight}")
    return value


def _watch_port(store: EntityStore, profile: Profile, message: Member) -> int | None:
    """The port whose state decides whether the member is used: one that the switch has (spec, "Group Programming")."""
    kind = message.WhichOneof("watch_kind")
    if kind is None or (kind == "watch_port" and not message.watch_port):
        return None
    port = message.watch if kind == "watch" else int.from_bytes(message.watch_port, "big")
    if not store.target.has_port(port):
        raise invalid(f"action profile {profile.name}: watch port {port}: the switch has no such port")
    return port


def _group_size(profile: Profile, weights: Iterable[int]) -> int:
    """Size of a group as P4Info means it: weights, or members."""
    every = list(weights)
    if sum(every) > _MAX_GROUP_WEIGHT:
        raise Refused(
            Code.RESOURCE_EXHAUSTED,
            f"action profile {profile.name}: weights of {sum(every)} in all, a group takes {_MAX_GROUP_WEIGHT}",
        )
    return len(every) if profile.sum_of_members else sum(every)


# -- one-shots


@dataclass(frozen=True, slots=True)
class OneShotActions:
    """A checked message: (action, arguments), weight, watch port for each member."""

    message: p4r.ActionProfileActionSet
    actions: tuple[tuple[int, tuple[int, ...]], ...]
    weights: tuple[int, ...]
    ports: tuple[int | None, ...]


def decode_one_shot(store: EntityStore, profile: Profile, message: p4r.ActionProfileActionSet) -> OneShotActions:
    """Check a one-shot against P4Info."""
    where = f"action profile {profile.name}"
    if not profile.selector:
        raise invalid(f"{where} has no selector, so there are no one-shots")
    if message.action_selection_mode or message.size_semantics:
        raise Refused(Code.UNIMPLEMENTED, f"{where}: a group has no selection mode or size semantics of its own")
    every = message.action_profile_actions
    weights = tuple(_weight(profile, a) for a in every)
    size = _group_size(profile, weights)
    if 0 < profile.max_group_size < size:
        raise invalid(f"{where}: a group of size {size}, the largest is {profile.max_group_size}")
    actions = tuple(profile.actions.decode(a.action) for a in every)
    ports = tuple(_watch_port(store, profile, a) for a in every)
    kept = p4r.ActionProfileActionSet()
    kept.CopyFrom(message)
    for each, port in zip(kept.action_profile_actions, ports, strict=True):  # in the shortest form, whatever came
        if each.watch_port and port is not None:
            each.watch_port = encode(port)
        for param in each.action.params:
            param.value = encode(int.from_bytes(param.value, "big"))
    return OneShotActions(kept, actions, weights, ports)


def create_one_shot(store: ProfileStore, new: OneShotActions) -> OneShot:
    """Make members and group, or nothing."""
    store.forbid_one_shots()
    members = tuple(store.hidden_id() for _ in new.actions)
    added = []
    try:
        for id_, (action, params) in zip(members, new.actions, strict=True):
            store.engine.add_member(id_, action, params)
            added.append(id_)
        group = store.hidden_id()
        store.engine.add_group(group, _members(members, new))
    except Exception:
        for id_ in added:
            store.engine.delete_member(id_)
        raise
    store.one_shots += 1
    return OneShot(new.message, group, members)


def _members(members: tuple[int, ...], new: OneShotActions) -> list[GroupMember]:
    return [GroupMember(*m) for m in zip(members, new.weights, new.ports, strict=True)]


def replace_one_shot(store: ProfileStore, old: OneShot, new: OneShotActions) -> OneShot:
    """Give a group other members. It reuses their places, so a full profile can still be modified."""
    engine = store.engine
    extra = len(new.actions) - len(old.members)
    if extra > 0 and sum(1 for _ in engine.members()) + extra > engine.max_size:
        raise TableFull(f"{engine.name}: it takes {engine.max_size} members")
    members = old.members[: len(new.actions)] + tuple(store.hidden_id() for _ in range(extra))
    engine.set_group(old.group, ())
    for id_, (action, params) in zip(members, new.actions, strict=True):
        if id_ in old.members:
            engine.modify_member(id_, action, params)
        else:
            engine.add_member(id_, action, params)
    for id_ in old.members[len(new.actions) :]:
        engine.delete_member(id_)
    engine.set_group(old.group, _members(members, new))
    return OneShot(new.message, old.group, members)


def remove_one_shot(store: ProfileStore, old: OneShot) -> None:
    """Delete group and members; the entry is gone already."""
    store.engine.delete_group(old.group)
    for id_ in old.members:
        store.engine.delete_member(id_)
    store.one_shots -= 1
