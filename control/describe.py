# SPDX-License-Identifier: Apache-2.0
"""Entities for people."""

from __future__ import annotations

from typing import NamedTuple

from detour.control import schema
from detour.control.entries import (
    Action,
    ActionSet,
    CloneSession,
    DefaultAction,
    Entity,
    Lpm,
    MatchValue,
    MeterConfig,
    MulticastGroup,
    Range,
    TableEntry,
    Ternary,
)
from detour.topo import address

_IPV6_BITS = 128


def short(name: str) -> str:
    """The last part of a name in P4: `FabricIngress.router.route` is `route`."""
    return name.rpartition(".")[2]


def match_text(value: MatchValue) -> str:
    """`fd00:1::/32`, `17&0xff`, `5..10`, `3`."""
    match value:
        case Lpm():
            if value.bits == _IPV6_BITS:
                return address.prefix_text(value.value, value.prefix_len)
            return f"{value.value:#x}/{value.prefix_len}"
        case Ternary():
            return f"{value.value:#x}&{value.mask:#x}"
        case Range():
            return f"{value.low}..{value.high}"
        case _:
            return str(value)


def action_text(action: Action) -> str:
    """`deliver(mac=02:00:00:00:00:01, port=1)`."""
    params = (f"{name}={address.mac_text(v) if name == 'mac' else v}" for name, v in action.params)
    return f"{short(action.name)}({', '.join(params)})"


def actions_text(action: Action | ActionSet) -> str:
    """An action, or those of an action set in the selector's order; weights other than 1 come before."""
    if isinstance(action, Action):
        return action_text(action)
    return " | ".join(f"{c.weight}*" * (c.weight != 1) + action_text(c.action) for c in action.choices)


class EntityText(NamedTuple):
    """An entity in words."""

    table: str
    match: str
    action: str
    priority: int = 0


def entity_text(entity: Entity) -> EntityText:
    """An entity as one flat record."""
    match entity:
        case TableEntry():
            keys = ", ".join(f"{short(field)}={match_text(value)}" for field, value in entity.match)
            return EntityText(entity.table, keys or "*", actions_text(entity.action), entity.priority)
        case DefaultAction():
            return EntityText(entity.table, "default", action_text(entity.action))
        case MeterConfig():
            what = f"cir={entity.cir}/{entity.cburst}, pir={entity.pir}/{entity.pburst}"
            return EntityText(entity.meter, f"index={entity.index}", what)
        case MulticastGroup():
            return EntityText("multicast", f"group={entity.group}", _replicas(entity))
        case CloneSession():
            return EntityText("clone", f"session={entity.session}", _replicas(entity))


def _replicas(entity: MulticastGroup | CloneSession) -> str:
    return " ".join(f"{r.port}#{r.instance}" if r.instance else str(r.port) for r in entity.replicas)


TABLE_NAMES = {short(name): name for name in (schema.NODE_CONFIG, *schema.TABLE_SIZE, schema.PUNT_METER)}
"""tables by their short names"""
