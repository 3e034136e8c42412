# SPDX-License-Identifier: Apache-2.0
"""Forwarding by a switch's entries: the lookups of fabric.p4's and adaptive.p4's ingress.

A replica of `local_sid`, `cut_off`, `detour` (adaptive.p4: `mode`, `towards_group`; spraypoint.p4: `spray`) and `route`
for IPv6/UDP packets without SRH. Access rules (`acl.rules`) are left out: they are the operator's, not the planner's,
and match fields that no plan knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from detour.control import schema
from detour.control.entries import Action, DefaultAction, Entity, Lpm, MatchValue, TableEntry
from detour.topo import address


class Node(NamedTuple):
    """The values that `node.config` gives a switch about itself."""

    node_id: int = 0
    group: int = 0
    groups: int = 0


class LpmTable:
    """Longest-prefix match on 128 bits."""

    def __init__(self, entries: Iterable[TableEntry]) -> None:
        self._by_length: dict[int, dict[int, TableEntry]] = {}
        for entry in entries:
            match = entry.field(schema.DST_ADDR) or Lpm(0, 0)  # a field left out matches everything
            if isinstance(match, Lpm):
                prefixes = self._by_length.setdefault(match.prefix_len, {})
                prefixes[match.value >> (128 - match.prefix_len)] = entry

    def lookup(self, destination: int) -> TableEntry | None:
        """The entry with the longest prefix of the address."""
        for length in sorted(self._by_length, reverse=True):
            entry = self._by_length[length].get(destination >> (128 - length))
            if entry is not None:
                return entry
        return None

    def by_length(self) -> list[tuple[int, dict[int, TableEntry]]]:
        """(prefix length, prefix -> entry), shortest first: later ones overrule."""
        return sorted(self._by_length.items(), key=lambda item: item[0])


class SwitchTables:
    """The entries of one switch, ready to be looked up."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        entries: dict[str, list[TableEntry]] = {}
        defaults: dict[str, Action] = {}
        for entity in entities:
            if isinstance(entity, TableEntry):
                entries.setdefault(entity.table, []).append(entity)
            elif isinstance(entity, DefaultAction):
                defaults[entity.table] = entity.action
        self.node = Node(**dict(defaults[schema.NODE_CONFIG].params)) if schema.NODE_CONFIG in defaults else Node()
        self.local_sid = LpmTable(entries.get(schema.LOCAL_SID, ()))
        self.route = LpmTable(entries.get(schema.ROUTE, ()))
        self.adaptive = schema.MODE in defaults
        """whether this is adaptive.p4: the first switch chooses the group to go by, not the sender"""
        host_ports = (*entries.get(schema.HOST_PORTS, ()), *entries.get(schema.SENDING_PORTS, ()))
        self.host_ports = {entry.field(schema.IN_PORT) for entry in host_ports}
        detour_table = schema.TOWARDS_GROUP if self.adaptive else schema.DETOUR
        self._detour = {entry.field(schema.VIA): entry for entry in entries.get(detour_table, ())}
        self.spray = next(iter(entries.get(schema.SPRAY, ())), None)
        """spraypoint.p4: the choice for packets from hosts to those of other switches"""
        self._own_hosts = {entry.field(schema.DESTINATION_SWITCH) for entry in entries.get(schema.OWN_HOSTS, ())}
        self._cut_off: dict[MatchValue | None, set[MatchValue | None]] = {}
        for entry in entries.get(schema.CUT_OFF, ()):
            self._cut_off.setdefault(entry.field(schema.VIA), set()).add(entry.field(schema.DESTINATION_GROUP))
        self._usable = _links(defaults.get(schema.MODE))
        self._usable_towards = {
            entry.field(schema.DESTINATION_GROUP): _links(entry.members()[0]) for entry in entries.get(schema.MODE, ())
        }

    def usable(self, destination: int) -> int:
        """adaptive.p4: the links that may be chosen for a group's packets, a bit for every peer group."""
        return self._usable_towards.get(destination, self._usable)

    def detours(self, source: int, destination: int) -> bool:
        """Return whether packets with the source bit set, between those groups, are to be sent off by this switch."""
        groups = self.node.groups
        inside = source == self.node.group and destination != self.node.group
        return groups > 2 and inside and source < groups and destination < groups

    def detour(self, via: int, destination: int) -> TableEntry | None:
        """The entry towards an intermediate group, None if the shortest path serves."""
        if self.adaptive and not self.usable(destination) >> via & 1:
            return None
        return None if destination in self._cut_off.get(via, ()) else self._detour.get(via)

    def sprayed(self, destination: int) -> TableEntry | None:
        """The choice for a packet that comes from a host and goes to that address, None if the routes serve."""
        return None if destination >> 128 - address.SWITCH_BITS in self._own_hosts else self.spray

    def towards(self, via: int) -> TableEntry | None:
        """The entry that leads towards a group."""
        return self._detour.get(via)

    def detoured(self, source: int, via: int) -> list[int]:
        """The groups to which packets with the source bit set are sent off by way of `via`: where `detours` is true
        and there is a `detour`."""
        groups = self.node.groups
        if groups <= 2 or not source == self.node.group < groups or via == source or via not in self._detour:
            return []
        kept = {source, via, *self._cut_off.get(via, ())}
        return [d for d in range(groups) if d not in kept and (not self.adaptive or self.usable(d) >> via & 1)]


def _links(mode: Action | None) -> int:
    return (mode.get("usable") or 0) if mode is not None else 0


def tables_of(entries: Mapping[int, Iterable[Entity]], switches: int) -> list[SwitchTables]:
    """Tables of all switches by index, from entities by device id; a switch without entities is empty."""
    return [SwitchTables(entries.get(device, ())) for device in range(1, switches + 1)]
