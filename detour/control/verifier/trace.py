# SPDX-License-Identifier: Apache-2.0
"""The hops that one packet takes, from the switches' entries (`detour path`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from detour.base.dataplane import HOP_LIMIT
from detour.control import schema
from detour.control.entries import Action, Entity, Lpm, TableEntry
from detour.control.routes.hashes import DETOUR_BIT, PATHS, pick_member, pick_via
from detour.control.verifier.forwarding import SwitchTables
from detour.topo import address
from detour.topo.failures import NONE, Failures, dead_links, dead_switches
from detour.topo.paths import SwitchPath
from detour.topo.topology import Host, Topology


@dataclass(frozen=True, slots=True)
class Hop:
    """One switch on the way. `out_port` is None where the packet ends; `why` is the entry that decided."""

    switch: int
    in_port: int
    out_port: int | None
    table: str
    why: str


@dataclass(frozen=True, slots=True)
class Trace:
    """All hops, and what became of the packet."""

    hops: tuple[Hop, ...]
    delivered: bool
    outcome: str

    @property
    def switches(self) -> tuple[int, ...]:
        return tuple(hop.switch for hop in self.hops)

    def path(self, topology: Topology) -> SwitchPath:
        """The same as stops (`topo.paths`), which tell parallel links apart."""
        return tuple(topology.stop_at(hop.switch, hop.in_port) for hop in self.hops)


@dataclass(frozen=True, slots=True)
class _Packet:
    src: int
    dst: int
    sport: int
    via: int | None = None  # what the flow label says (adaptive.p4)
    hop_limit: int = HOP_LIMIT
    counted: bool = False  # the hop limit is already decremented at this switch


@dataclass(frozen=True, slots=True)
class _Verdict:
    """One switch's decision: a port, or the reason why there is none."""

    packet: _Packet
    port: int | None
    table: str
    why: str
    mac: int | None = None


class Tracer:
    """Follows packets through the entries of a fabric's switches."""

    def __init__(
        self,
        entries: Mapping[int, Iterable[Entity]] | Callable[[int], SwitchTables],
        topology: Topology,
        failures: Failures = NONE,
    ) -> None:
        """`entries`: of all switches by device id, or what gives one device's tables, which is called for every switch
        that a packet comes to."""
        self._topology = topology
        self._tables = entries if callable(entries) else cache(lambda device: SwitchTables(entries.get(device, ())))
        self._dead = dead_links(topology, failures)
        self._down = dead_switches(failures)

    def trace(
        self, source: Host, target: Host, sport: int = 0, usids: Sequence[int] | None = None, via: int | None = None
    ) -> Trace:
        """The way of a packet with that UDP source port, or with that uSID list as destination address. `via` is what
        the first switch of a fabric with adaptive.p4 is to decide: the group to go by, None for the shortest path."""
        dst = target.address if usids is None else address.usid_address(usids)
        packet, at, in_port = _Packet(source.address, dst, sport, via), source.switch, source.port
        peer = self._topology.switches[at].peer(in_port)
        if at in self._down or peer is None or peer.link in self._dead:
            return Trace((), False, f"{source.name} has lost its link to {self._name(at)}")
        hops: list[Hop] = []
        while True:
            verdict = _forward(self._tables(self._topology.switches[at].device_id), packet, in_port)
            hops.append(Hop(at, in_port, verdict.port, verdict.table, verdict.why))
            if verdict.port is None:
                return Trace(tuple(hops), False, f"ends at {self._name(at)}: {verdict.why}")
            peer = self._topology.switches[at].peer(verdict.port)
            if peer is None or peer.link in self._dead:
                return Trace(tuple(hops), False, f"lost at {self._name(at)}: nothing lives behind port {verdict.port}")
            if peer.kind == "host":
                return self._arrival(tuple(hops), target, peer.index, verdict.mac)
            packet = replace(verdict.packet, counted=False)
            at, in_port = peer.index, peer.port

    def _name(self, switch: int) -> str:
        return self._topology.switches[switch].name

    def _arrival(self, hops: tuple[Hop, ...], target: Host, host: int, mac: int | None) -> Trace:
        if host != target.index:
            return Trace(hops, False, f"reaches {self._topology.hosts[host].name} instead of {target.name}")
        if mac is not None and mac != target.mac:
            return Trace(hops, False, f"reaches {target.name} with the wrong MAC address {address.mac_text(mac)}")
        return Trace(hops, True, f"delivered to {target.name}")


def _forward(tables: SwitchTables, packet: _Packet, in_port: int) -> _Verdict:
    """Ingress: own uSIDs (several in a row by recirculation), then a detour or a sprayed port, then a route."""
    passes = 0
    while packet.dst >> 96 == address.USID_BLOCK:
        entry = tables.local_sid.lookup(packet.dst)
        if entry is None:
            break
        verdict, again = _local_sid(tables, entry, packet)
        if not again:
            if verdict.port is not None or not verdict.packet.counted:
                return verdict
            packet = verdict.packet
            break
        passes += 1
        packet = verdict.packet
        if passes > schema.MAX_PASSES:
            return _end(packet, schema.LOCAL_SID, "more uSIDs of this switch in a row than it recirculates")
    return _detour(tables, packet) or _spray(tables, packet, in_port) or _route(tables, packet)


def _end(packet: _Packet, table: str, why: str) -> _Verdict:
    return _Verdict(replace(packet, counted=False), None, table, why)


def _local_sid(tables: SwitchTables, entry: TableEntry, packet: _Packet) -> tuple[_Verdict, bool]:
    """Shift the list by what the switch's own uSID takes up; True: the next one is its own as well."""
    action = entry.members()[0]
    bits = 32 if action.name == schema.NODE_UA else 16
    rest = packet.dst << bits & (1 << 96) - 1
    if rest == 0:
        return _end(packet, schema.LOCAL_SID, "the uSID list is exhausted (the controller answers)"), False
    if packet.hop_limit <= 1:
        return _end(packet, schema.LOCAL_SID, "the hop limit is exhausted (the controller answers)"), False
    dst = address.USID_BLOCK << 96 | rest
    after = replace(packet, dst=dst, hop_limit=packet.hop_limit - 1, counted=True)
    port = action.get("port")
    verdict = _Verdict(after, port, schema.LOCAL_SID, _text(entry, action))
    usid = dst >> 80 & 0xFFFF
    own = usid == tables.node.node_id or usid >= address.FIRST_FUNCTION
    return verdict, port is None and own


def _detour(tables: SwitchTables, packet: _Packet) -> _Verdict | None:
    """The way to the intermediate group, None if there is no detour to make."""
    source, destination = packet.src >> 96 & 0xFFFF, packet.dst >> 96 & 0xFFFF
    prefixes = {packet.src >> 112, packet.dst >> 112}
    detours = packet.via is not None if tables.adaptive else packet.sport & DETOUR_BIT
    if not detours or prefixes != {address.HOST_PREFIX} or not tables.detours(source, destination):
        return None
    via = packet.via
    if not tables.adaptive or via is None:
        via = pick_via(packet.sport % PATHS, source, destination, tables.node.groups)
    if packet.hop_limit <= 1:
        text = "the hop limit is exhausted (the controller answers)"
        return _end(packet, schema.TOWARDS_GROUP if tables.adaptive else schema.DETOUR, text)
    entry = tables.detour(via, destination)
    return None if entry is None else _chosen(tables, entry, packet)


def _spray(tables: SwitchTables, packet: _Packet, in_port: int) -> _Verdict | None:
    """spraypoint.p4: a neighbour for a packet from a host, as it is chosen by flow; None if the routes serve."""
    if in_port not in tables.host_ports or packet.dst >> 112 != address.HOST_PREFIX:
        return None
    entry = tables.sprayed(packet.dst)
    if entry is None:
        return None
    if not packet.counted and packet.hop_limit <= 1:
        return _end(packet, schema.SPRAY, "the hop limit is exhausted (the controller answers)")
    return _chosen(tables, entry, packet)


def _route(tables: SwitchTables, packet: _Packet) -> _Verdict:
    entry = tables.route.lookup(packet.dst)
    if entry is None:
        unknown = packet.dst >> 96 == address.USID_BLOCK
        return _end(packet, schema.ROUTE, "unknown uSID" if unknown else "no route (the controller answers)")
    if not packet.counted and packet.hop_limit <= 1:
        return _end(packet, schema.ROUTE, "the hop limit is exhausted (the controller answers)")
    return _chosen(tables, entry, packet)


def _chosen(tables: SwitchTables, entry: TableEntry, packet: _Packet) -> _Verdict:
    members = entry.members()
    if not members:
        return _end(packet, entry.table, "the entry's action set is empty")
    action = members[pick_member(packet.sport % PATHS, tables.node.node_id, len(members))]
    limit = packet.hop_limit - (not packet.counted)
    mac = action.get("mac")
    why = _text(entry, action) + (f" ({len(members)} choices)" if len(members) > 1 else "")
    return _Verdict(replace(packet, hop_limit=limit), action.get("port"), entry.table, why, mac)


def _text(entry: TableEntry, action: Action) -> str:
    """`fd00:3::/32 -> forward port 5`."""
    fields = [
        address.prefix_text(value.value, value.prefix_len)
        if isinstance(value, Lpm)
        else f"{name.rsplit('.', 1)[-1]} {value}"
        for name, value in entry.match
    ]
    name = action.name.rsplit(".", 1)[-1]
    port = action.get("port")
    return f"{', '.join(fields)} -> {name}" + (f" port {port}" if port is not None else "")
