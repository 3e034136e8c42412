# SPDX-License-Identifier: Apache-2.0
"""Puts a plan's entries straight into a switch's state: for virtual time and benchmarks, which leave P4Runtime out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from detour.control.entries import (
    Action,
    ActionSet,
    CloneSession,
    DefaultAction,
    Entity,
    Lpm,
    MeterConfig,
    MulticastGroup,
    Range,
    TableEntry,
    Ternary,
)
from detour.engine import tables
from detour.engine.compiler import model
from detour.engine.network import Network
from detour.engine.state import SwitchState


def load(network: Network, device: int, state: SwitchState, entities: Iterable[Entity]) -> int:
    """Writes the entities of a plan for one switch; returns how many they are."""
    groups: dict[tuple[str, ActionSet], int] = {}
    count = 0
    for count, entity in enumerate(entities, start=1):  # noqa: B007
        match entity:
            case TableEntry():
                _insert(state, entity, groups)
            case DefaultAction():
                name, params = _call(state, entity.action)
                state.tables[entity.table].set_default(name, params)
            case MeterConfig():
                rates = tables.MeterConfig(entity.cir, entity.cburst, entity.pir, entity.pburst)
                state.meters[entity.meter].configure(entity.index, rates)
            case CloneSession():
                copies = [(replica.port, replica.instance) for replica in entity.replicas]
                network.set_clone_session(device, entity.session, copies, entity.packet_length)
            case MulticastGroup():
                copies = [(replica.port, replica.instance) for replica in entity.replicas]
                network.set_multicast_group(device, entity.group, copies)
    return count


def _insert(state: SwitchState, entry: TableEntry, groups: dict[tuple[str, ActionSet], int]) -> None:
    table = state.tables[entry.table]
    given = dict(entry.match)
    key = tuple(_element(field, given.get(field.name)) for field in table.spec.key)
    if isinstance(entry.action, ActionSet):
        table.insert(key, tables.GroupRef(_group(state, table, entry.action, groups)), (), entry.priority)
    else:
        table.insert(key, *_call(state, entry.action), entry.priority)


def _element(field: model.KeyField, value: Any) -> Any:
    match value:
        case Lpm():
            return value.value, value.prefix_len
        case Ternary():
            return value.value, value.mask
        case Range():
            return value.low, value.high
        case None if field.match_type == "lpm":
            return 0, 0
        case None if field.match_type == "range":
            return 0, (1 << field.bits) - 1
    return value


def _group(
    state: SwitchState, table: tables.MatchTable, choices: ActionSet, groups: dict[tuple[str, ActionSet], int]
) -> int:
    """The group of a set of actions; equal sets of a table share one."""
    profile = table.profile
    assert profile is not None
    key = profile.name, choices
    if key not in groups:
        first = len(list(profile.members())) + 1
        members = []
        for number, choice in enumerate(choices.choices, start=first):
            profile.add_member(number, *_call(state, choice.action))
            members.append(tables.GroupMember(number, choice.weight))
        groups[key] = len(groups) + 1
        profile.add_group(groups[key], members)
    return groups[key]


def _call(state: SwitchState, action: Action) -> tuple[str, tuple[int, ...]]:
    known = next(a for a in state.program.model.actions if a.name == action.name)
    return action.name, tuple(action[parameter.name] for parameter in known.params)
