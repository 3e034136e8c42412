# SPDX-License-Identifier: Apache-2.0
"""Puts a plan's entries straight into a switch's state: for virtual time and benchmarks, which leave P4Runtime out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from detour.base.errors import DetourError
from detour.control import entries
from detour.control.groups import grouped
from detour.engine import tables
from detour.engine.compiler import model
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.topo import Switch


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
    """Add a switch of a topology to a network that has not started, with its program and its entries; return its
    state. `domain`: see `Network.add_switch`."""
    device = switch.device_id
    network.add_switch(device, switch.name, priorities=priorities, domain=domain)
    state = SwitchState(program, seed << 16 | device, network.tick_ps)
    load(network, device, state, entities)
    network.set_pipeline(device, program, state)
    return state


def load(network: Network, device: int, state: SwitchState, entities: Iterable[entries.Entity]) -> None:
    """Write the entities of a plan for one switch, whose tables are empty."""
    for entity in grouped(entities, (), profiles_of(state)):
        match entity:
            case entries.MeterConfig():
                rates = tables.MeterRates(entity.cir, entity.cburst, entity.pir, entity.pburst)
                state.meters[entity.meter].configure(entity.index, rates)
            case entries.CloneSession():
                copies = [(replica.port, replica.instance) for replica in entity.replicas]
                network.set_clone_session(device, entity.session, copies, entity.packet_length)
            case entries.MulticastGroup():
                copies = [(replica.port, replica.instance) for replica in entity.replicas]
                network.set_multicast_group(device, entity.group, copies)
            case _:
                _write(state, entity)


def write(state: SwitchState, entities: Iterable[entries.TableEntry | entries.DefaultAction]) -> None:
    """Write entries and default actions into empty tables."""
    for entity in grouped(entities, (), profiles_of(state)):
        _write(state, entity)


def profiles_of(state: SwitchState) -> dict[str, str]:
    """The action profiles of the tables that have one."""
    return {name: table.profile.name for name, table in state.tables.items() if table.profile is not None}


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
    """Write what two plans for a switch that has traffic differ in; of tables, groups and default actions only."""
    for number, entity in enumerate((*change.insert, *change.modify)):
        _write(state, entity, fresh=number < len(change.insert))
    for entity in change.delete:
        match entity:
            case entries.TableEntry() | entries.GroupEntry():
                table = state.tables[entity.table]
                table.delete(table.find(_key(table, entity), entity.priority))
            case entries.ActionProfileGroup():
                state.action_profiles[entity.profile].delete_group(entity.group)
            case _:
                raise _fixed(entity)


def _fixed(entity: entries.Stored) -> DetourError:
    return DetourError(f"{type(entity).__name__} cannot be changed while traffic flows")


def _key(table: tables.MatchTable, entry: entries.TableEntry | entries.GroupEntry) -> tuple[Any, ...]:
    given = dict(entry.match)
    return tuple(_element(field, given.get(field.name)) for field in table.spec.key)


def _write(state: SwitchState, entity: entries.Stored, *, fresh: bool = True) -> None:
    """Write an entity, or, if it is not `fresh`, change the one that is there."""
    match entity:
        case entries.TableEntry() | entries.GroupEntry():
            _write_entry(state.tables[entity.table], entity, fresh)
        case entries.DefaultAction():
            table = state.tables[entity.table]
            table.set_default(*_call(table.spec.actions, entity.action))
        case entries.ActionProfileMember() if fresh:
            profile = state.action_profiles[entity.profile]
            profile.add_member(entity.member, *_call(profile.spec.actions.values(), entity.action))
        case entries.ActionProfileGroup():
            profile = state.action_profiles[entity.profile]
            put = profile.add_group if fresh else profile.set_group
            put(entity.group, [tables.GroupMember(member, weight) for member, weight in entity.members])
        case _:
            raise _fixed(entity)


def _write_entry(table: tables.MatchTable, entry: entries.TableEntry | entries.GroupEntry, fresh: bool) -> None:
    key = _key(table, entry)
    if isinstance(entry, entries.GroupEntry):
        target, params = tables.GroupRef(entry.group), ()
    else:
        assert isinstance(entry.action, entries.Action)  # the table has no action profile
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


def _call(actions: Iterable[model.ActionIr], action: entries.Action) -> tuple[str, tuple[int, ...]]:
    """The action as the table that has `actions` takes it; other tables may have another one of that name."""
    kind = next(a for a in actions if a.name == action.name)
    return action.name, tuple(action[parameter.name] for parameter in kind.params)
