# SPDX-License-Identifier: Apache-2.0
"""One-shot action selector programming (spec, same title): a group and its members that live with one entry.

The members and the group get ids that no client can name. What was written is kept and read back as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r

from detour.engine.p4runtime.entities import selector
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.schema import Profile
from detour.engine.p4runtime.store import OneShot, ProfileStore
from detour.engine.tables import GroupMember, TableFull


@dataclass(frozen=True, slots=True)
class OneShotActions:
    """A checked message: (action, arguments), weight, watch port for each member."""

    message: p4r.ActionProfileActionSet
    actions: tuple[tuple[int, tuple[int, ...]], ...]
    weights: tuple[int, ...]
    ports: tuple[int | None, ...]


def decode(profile: Profile, message: p4r.ActionProfileActionSet) -> OneShotActions:
    """Checks a one-shot against P4Info."""
    where = f"action profile {profile.name}"
    if not profile.selector:
        raise invalid(f"{where} has no selector, so there are no one-shots")
    if message.action_selection_mode or message.size_semantics:
        raise Refused(Code.UNIMPLEMENTED, f"{where}: a group has no selection mode or size semantics of its own")
    every = message.action_profile_actions
    weights = tuple(selector.weight(profile, a) for a in every)
    size = selector.group_size(profile, weights)
    if 0 < profile.max_group_size < size:
        raise invalid(f"{where}: a group of size {size}, the largest is {profile.max_group_size}")
    kept = p4r.ActionProfileActionSet()
    kept.CopyFrom(message)
    return OneShotActions(
        kept,
        tuple(profile.actions.decode(a.action) for a in every),
        weights,
        tuple(selector.watch_port(profile, a) for a in every),
    )


def create(store: ProfileStore, wanted: OneShotActions) -> OneShot:
    """Makes members and group, or nothing."""
    store.forbid_one_shots()
    members = tuple(store.hidden_id() for _ in wanted.actions)
    made = []
    try:
        for id_, (action, params) in zip(members, wanted.actions, strict=True):
            store.engine.add_member(id_, action, params)
            made.append(id_)
        group = store.hidden_id()
        store.engine.add_group(group, _group(members, wanted))
    except Exception:
        for id_ in made:
            store.engine.delete_member(id_)
        raise
    store.one_shots += 1
    return OneShot(wanted.message, group, members)


def _group(members: tuple[int, ...], wanted: OneShotActions) -> list[GroupMember]:
    return [GroupMember(*m) for m in zip(members, wanted.weights, wanted.ports, strict=True)]


def replace(store: ProfileStore, old: OneShot, wanted: OneShotActions) -> OneShot:
    """Gives a group other members. It reuses their places, so a full profile can still be modified."""
    engine = store.engine
    extra = len(wanted.actions) - len(old.members)
    if extra > 0 and sum(1 for _ in engine.members()) + extra > engine.max_size:
        raise TableFull(f"{engine.name}: it takes {engine.max_size} members")
    members = old.members[: len(wanted.actions)] + tuple(store.hidden_id() for _ in range(extra))
    engine.set_group(old.group, ())
    for id_, (action, params) in zip(members, wanted.actions, strict=True):
        if id_ in old.members:
            engine.modify_member(id_, action, params)
        else:
            engine.add_member(id_, action, params)
    for id_ in old.members[len(wanted.actions) :]:
        engine.delete_member(id_)
    engine.set_group(old.group, _group(members, wanted))
    return OneShot(wanted.message, old.group, members)


def remove(store: ProfileStore, old: OneShot) -> None:
    """Deletes group and members; the entry is gone already."""
    store.engine.delete_group(old.group)
    for id_ in old.members:
        store.engine.delete_member(id_)
    store.one_shots -= 1
