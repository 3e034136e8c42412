# SPDX-License-Identifier: Apache-2.0
"""Puts a plan's entries straight into a switch's state: for virtual time and benchmarks, which leave P4Runtime out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from detour.base.errors import DetourError
from detour.control import entries
from detour.engine import tables
from detour.engine.compiler import model
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.topo import Switch


class _Groups:
    """Numbers of the groups that a switch has already. Planners share equal sets of actions among entries: looking
    for the same object first spares hashing its contents."""

    def __init__(self, taken: int = 0) -> None:
        """`taken`: the highest number that is in use already."""
        self._taken = taken
        self._by_value: dict[tuple[str, entries.ActionSet], int] = {}
        self._by_object: dict[tuple[str, int], tuple[entries.ActionSet, int]] = {}

    def find(self, profile: str, choices: entries.ActionSet) -> int | None:
        """The group of a set of actions in a profile."""
        by_object = self._by_object.get((profile, id(choices)))
        if by_object is not None:
            return by_object[1]
        number = self._by_value.get((profile, choices))
        if number is not None:
            self._by_object[profile, id(choices)] = choices, number
        return number

    def new(self, profile: str, choices: entries.ActionSet) -> int:
        """A number for a set that has none."""
        number = self._taken + len(self._by_value) + 1
        self._by_value[profile, choices] = number
        self._by_object[profile, id(choices)] = choices, number
        return number


def install(
    network: Network,
    switch: Switch,
    program: Program,
    entities: Iterable[entries.Entity],
    *,
    priorities: int,
    seed: int = 0,
    domain: int = -1,
) -> SwitchState:
    """Adds a switch of a topology to a network that has not started, with its program and its entries; returns its
    state. `domain`: see `Network.add_switch`."""
    device = switch.device_id
    network.add_switch(device, switch.name, priorities=priorities, domain=domain)
    state = SwitchState(program, seed << 16 | device, network.tick_ps)
    load(network, device, state, entities)
    network.set_pipeline(device, program, state)
    return state


def load(network: Network, device: int, state: SwitchState, entities: Iterable[entries.Entity]) -> None:
    """Writes the entities of a plan for one switch."""
    groups = _Groups()
    for entity in entities:
        match entity:
            case entries.TableEntry() | entries.DefaultAction():
                _write(state, entity, groups)
            case entries.MeterConfig():
                rates = tables.MeterRates(entity.cir, entity.cburst, entity.pir, entity.pburst)
                state.meters[entity.meter].configure(entity.index, rates)
            case entries.CloneSession():
                copies = [(replica.port, replica.instance) for replica in entity.replicas]
                network.set_clone_session(device, entity.session, copies, entity.packet_length)
            case entries.MulticastGroup():
                copies = [(replica.port, replica.instance) for replica in entity.replicas]
                network.set_multicast_group(device, entity.group, copies)


def write(state: SwitchState, entities: Iterable[entries.TableEntry | entries.DefaultAction]) -> None:
    """Writes entries and default actions into empty tables."""
    groups = _Groups()
    for entity in entities:
        _write(state, entity, groups)


def _write(state: SwitchState, entity: entries.TableEntry | entries.DefaultAction, groups: _Groups) -> None:
    if isinstance(entity, entries.TableEntry):
        _insert(state, entity, groups)
    else:
        _set_default(state.tables[entity.table], entity)


def read_back(state: SwitchState, names: Collection[str] | None = None) -> list[entries.Entity]:
    """Entries and default actions of all tables of a switch, or of those named, as they are. Entries that lead to the
    same group share its set of actions."""
    held: list[entries.Entity] = []
    sets: dict[tuple[str, object], entries.ActionSet] = {}
    for name, table in state.tables.items():
        if names is not None and name not in names:
            continue
        if table.default is not None and table.default_changed:
            held.append(entries.DefaultAction(name, _action(table.default)))
        for entry in table.entries():
            match = {field.name: _value(field, part) for field, part in zip(table.spec.key, entry.key, strict=True)}
            keys = {field: value for field, value in match.items() if value is not None}
            if entry.target is None:
                action = _action(entry)
            elif (action := sets.get((name, entry.target))) is None:
                action = sets[name, entry.target] = _choices(table.profile, entry.target)
            held.append(entries.TableEntry.of(name, keys, action, entry.priority))
    return held


def _value(field: model.KeyField, part: Any) -> entries.MatchValue | None:
    """Return the entry's value of a field, None if it has none."""
    if field.match_type == "lpm":
        return entries.Lpm(part[0], part[1], field.bits) if part[1] else None
    if field.match_type == "ternary":
        return entries.Ternary(*part) if part is not None and part[1] else None
    if field.match_type == "range":
        return entries.Range(*part)
    return part if field.match_type == "exact" else None  # a selector's field is not part of the match


def _action(entry: tables.Entry) -> entries.Action:
    assert entry.action is not None  # the table is a direct one
    names = (parameter.name for parameter in entry.action.params)
    return entries.Action(entry.action.name, tuple(zip(names, entry.params, strict=True)))


def _choices(profile: tables.ActionProfile | None, target: tables.MemberRef | tables.GroupRef) -> entries.ActionSet:
    assert profile is not None  # the table is an indirect one
    if isinstance(target, tables.MemberRef):
        members = (tables.GroupMember(target.member, 1),)
    else:
        members, _ = profile.group(target.group)
    weighted = []
    for each in members:
        kind, params = profile.member(each.member)
        names = (parameter.name for parameter in kind.params)
        weighted.append(
            entries.WeightedAction(entries.Action(kind.name, tuple(zip(names, params, strict=True))), each.weight)
        )
    return entries.ActionSet(tuple(weighted))


def rewrite(state: SwitchState, change: entries.Difference) -> None:
    """Writes what two plans for a switch that has traffic differ in; of tables and default actions only. Groups that
    nothing uses any more stay."""
    numbers = [number for profile in state.action_profiles.values() for number in profile.groups()]
    groups = _Groups(max(numbers, default=0))
    for number, entity in enumerate((*change.insert, *change.modify)):
        match entity:
            case entries.TableEntry():
                _insert(state, entity, groups, fresh=number < len(change.insert))
            case entries.DefaultAction():
                _set_default(state.tables[entity.table], entity)
            case _:
                raise DetourError(f"{type(entity).__name__} cannot be changed while traffic flows")
    for entity in change.delete:
        if isinstance(entity, entries.TableEntry):
            table = state.tables[entity.table]
            table.delete(table.find(_key(table, entity), entity.priority))


def _key(table: tables.MatchTable, entry: entries.TableEntry) -> tuple[Any, ...]:
    given = dict(entry.match)
    return tuple(_element(field, given.get(field.name)) for field in table.spec.key)


def _insert(state: SwitchState, entry: entries.TableEntry, groups: _Groups, *, fresh: bool = True) -> None:
    """Writes an entry, or, if it is not `fresh`, gives the one that is there another action."""
    table = state.tables[entry.table]
    key = _key(table, entry)
    if isinstance(entry.action, entries.ActionSet):
        target, params = tables.GroupRef(_group(state, table, entry.action, groups)), ()
    else:
        target, params = _call(table.spec.actions, entry.action)
    if fresh:
        table.insert(key, target, params, entry.priority)
    else:
        table.modify(table.find(key, entry.priority), target, params)


def _element(field: model.KeyField, value: Any) -> Any:
    match value:
        case entries.Lpm():
            return value.value, value.prefix_len
        case entries.Ternary():
            return value.value, value.mask
        case entries.Range():
            return value.low, value.high
        case None if field.match_type == "lpm":
            return 0, 0
        case None if field.match_type == "range":
            return 0, (1 << field.bits) - 1
    return value


def _group(state: SwitchState, table: tables.MatchTable, choices: entries.ActionSet, groups: _Groups) -> int:
    """The group of a set of actions; equal sets of a table share one."""
    profile = table.profile
    assert profile is not None
    number = groups.find(profile.name, choices)
    if number is not None:
        return number
    first = len(list(profile.members())) + 1
    members = []
    for member, choice in enumerate(choices.choices, start=first):
        profile.add_member(member, *_call(profile.spec.actions.values(), choice.action))
        members.append(tables.GroupMember(member, choice.weight))
    number = groups.new(profile.name, choices)
    profile.add_group(number, members)
    return number


def _set_default(table: tables.MatchTable, entity: entries.DefaultAction) -> None:
    table.set_default(*_call(table.spec.actions, entity.action))


def _call(actions: Iterable[model.ActionIr], action: entries.Action) -> tuple[str, tuple[int, ...]]:
    """The action as the table that has `actions` takes it; other tables may have another one of that name."""
    kind = next(a for a in actions if a.name == action.name)
    return action.name, tuple(action[parameter.name] for parameter in kind.params)
