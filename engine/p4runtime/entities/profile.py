# SPDX-License-Identifier: Apache-2.0
"""ActionProfileMember and ActionProfileGroup (spec, same title)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from finsy.proto import p4r

from detour.engine.p4runtime.entities import selector
from detour.engine.p4runtime.entities.common import DELETE, INSERT, Ids, PendingUpdate, selected
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import EntityStore, ProfileStore
from detour.engine.tables import EntryExists, GroupMember, NoSuchEntry, TableError

# -- members


def prepare_member(store: EntityStore, kind: int, message: p4r.ActionProfileMember) -> PendingUpdate:
    """INSERT, MODIFY, DELETE of a member."""
    found = _profile(store, message.action_profile_id)
    member = message.member_id
    if not member:
        raise invalid(f"action profile {found.info.name}: 0 is not a member id")
    if kind == DELETE:
        return partial(_delete_member, found, member)
    if not message.HasField("action"):
        raise invalid(f"action profile {found.info.name}: member {member} needs an action")
    action, params = found.info.actions.decode(message.action)
    if kind == INSERT:
        return partial(_insert_member, found, member, action, params)
    return lambda: found.engine.modify_member(member, action, params)


def _profile(store: EntityStore, id_: int) -> ProfileStore:
    found = store.profiles.get(id_)
    if found is None:
        raise invalid(f"the program has no action profile with id {id_:#x}")
    return found


def _insert_member(found: ProfileStore, member: int, action: int, params: tuple[int, ...]) -> None:
    found.forbid_references()
    found.engine.add_member(member, action, params)


def _delete_member(found: ProfileStore, member: int) -> None:
    found.engine.member_row(member)  # NOT_FOUND comes first
    try:
        found.engine.delete_member(member)
    except NoSuchEntry:
        raise
    except TableError as e:
        raise Refused(Code.FAILED_PRECONDITION, str(e)) from e


def read_members(store: EntityStore, wanted: p4r.ActionProfileMember, ids: Ids) -> Iterator[p4r.Entity]:
    """One member (NOT_FOUND if there is none), or all of one profile or of all."""
    for found in selected(store.profiles, wanted.action_profile_id, "action profile", ids):
        if found.one_shots:  # hidden members are not for clients
            continue
        if wanted.action_profile_id and wanted.member_id:
            chosen = [wanted.member_id]
        else:
            chosen = sorted(found.engine.members())
        for member in chosen:
            action, params = found.engine.member(member)
            entity = p4r.Entity()
            out = entity.action_profile_member
            out.action_profile_id, out.member_id = found.info.id, member
            found.info.actions.encode(action, params, out.action)
            yield entity


# -- groups


def prepare_group(store: EntityStore, kind: int, message: p4r.ActionProfileGroup) -> PendingUpdate:
    """INSERT, MODIFY, DELETE of a group."""
    found = _profile(store, message.action_profile_id)
    where, group = f"action profile {found.info.name}", message.group_id
    if not found.info.selector:
        raise invalid(f"{where} has no selector, so there are no groups")
    if not group:
        raise invalid(f"{where}: 0 is not a group id")
    if kind == DELETE:
        return partial(_delete_group, found, group)
    members = [
        GroupMember(m.member_id, selector.weight(found.info, m), selector.watch_port(found.info, m))
        for m in message.members
    ]
    if len({m.member for m in members}) < len(members):
        raise invalid(f"{where}: group {group} has a member twice; use its weight")
    limit = _max_size(found, message)
    size = selector.group_size(found.info, (m.weight for m in members))
    if 0 < limit < size:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{where}: group {group} has size {size}, at most {limit} was agreed")
    if kind == INSERT:
        return partial(_insert_group, found, group, members, message.max_size)
    return partial(_modify_group, found, group, members, message.max_size)


def _max_size(found: ProfileStore, message: p4r.ActionProfileGroup) -> int:
    """The limit of a group (spec, "Rules on Setting max_size").

    The spec wants max_size to be positive when P4Info has a max_group_size, p4runtime.proto says that 0 then means
    max_group_size; we accept what either accepts.
    """
    largest, asked = found.info.max_group_size, message.max_size
    if asked < 0 or 0 < largest < asked:
        raise invalid(f"action profile {found.info.name}: max_size {asked} is not in 0..{largest or 'any'}")
    if asked > selector.MAX_GROUP_WEIGHT:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"action profile {found.info.name}: max_size {asked} is too large")
    return asked or largest


def _insert_group(found: ProfileStore, group: int, members: list[GroupMember], max_size: int) -> None:
    found.forbid_references()
    if group in found.sizes:
        raise EntryExists(f"{found.engine.name}: group {group} exists")
    found.engine.add_group(group, members)
    found.sizes[group] = max_size


def _modify_group(found: ProfileStore, group: int, members: list[GroupMember], max_size: int) -> None:
    if group not in found.sizes:
        raise NoSuchEntry(f"{found.engine.name}: there is no group {group}")
    if found.sizes[group] != max_size:
        raise invalid(f"{found.engine.name}: group {group} was made with max_size {found.sizes[group]}, not {max_size}")
    found.engine.set_group(group, members)


def _delete_group(found: ProfileStore, group: int) -> None:
    if group not in found.sizes:
        raise NoSuchEntry(f"{found.engine.name}: there is no group {group}")
    try:
        found.engine.delete_group(group)
    except TableError as e:
        raise Refused(Code.FAILED_PRECONDITION, str(e)) from e
    del found.sizes[group]


def read_groups(store: EntityStore, wanted: p4r.ActionProfileGroup, ids: Ids) -> Iterator[p4r.Entity]:
    """One group (NOT_FOUND if there is none), or all of one selector or of all."""
    for found in selected(store.profiles, wanted.action_profile_id, "action profile", ids):
        if wanted.action_profile_id and wanted.group_id:
            if wanted.group_id not in found.sizes:
                raise NoSuchEntry(f"{found.engine.name}: there is no group {wanted.group_id}")
            chosen = [wanted.group_id]
        else:
            chosen = sorted(found.sizes)
        for group in chosen:
            yield _show_group(found, group)


def _show_group(found: ProfileStore, group: int) -> p4r.Entity:
    entity = p4r.Entity()
    out = entity.action_profile_group
    out.action_profile_id, out.group_id, out.max_size = found.info.id, group, found.sizes[group]
    for m in found.engine.group(group)[0]:
        member = out.members.add()
        member.member_id = m.member
        member.weight = 0 if found.info.weights_disallowed else m.weight
        selector.show_watch_port(m.watch_port, member)
    return entity
