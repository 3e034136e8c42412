# SPDX-License-Identifier: Apache-2.0
"""Routers and hosts independent of their system: the entries of `control.planner` as addresses of neighbours.

The uSIDs, host addresses and routes are those of a fabric of ours (`topo.address`), so a list of uSIDs means the same
path. What our switches do not need is added: link i has `fd01:0:i::/64`, ::1 at its end `a` and ::2 at the other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from detour.control import schema
from detour.control.entries import Lpm, TableEntry
from detour.control.placement.placement import Placement
from detour.control.planner import plan
from detour.topo import Topology, address
from detour.topo.failures import Failures
from detour.topo.topology import MAX_PORT

USID_PREFIX = "fcbb:bb00::/32"
HOST_BLOCK = "fd00::/16"
_LINKS = 0xFD01


@dataclass(frozen=True)
class RouterPort:
    """A port of a router: what it is called, its address, and the neighbour's."""

    port: int
    name: str
    address: str
    neighbour: str


@dataclass(frozen=True)
class Sid:
    """A local SID: uN, or the uA of an interface. `bits` of it are consumed behind the block: the node's and the
    function's, or one of them."""

    prefix: str
    interface: RouterPort | None
    bits: int = address.USID_BITS


@dataclass(frozen=True)
class RouterRoute:
    """A prefix and the neighbours that are as near as each other."""

    prefix: str
    via: tuple[RouterPort, ...]


@dataclass(frozen=True)
class Router:
    """A live switch. `interfaces`: those with a neighbour. `index`: in the topology."""

    index: int
    name: str
    locator: str
    interfaces: tuple[RouterPort, ...]
    sids: tuple[Sid, ...]
    routes: tuple[RouterRoute, ...]


@dataclass
class SendingHost:
    """A host. `interface`: its one port. `lists`: by the address of each receiver, how many of its flows take which
    uSID list (an address)."""

    name: str
    interface: str
    address: str
    locator: str
    link_address: str
    gateway: str
    lists: dict[str, Counter[str]] = field(default_factory=dict)


def link_address(topology: Topology, link: int, end: int) -> str:
    """Address of an end of a link, 0: `a`, 1: `b`."""
    return address.ipv6_text(_LINKS << 112 | (link >> 16) << 96 | (link & 0xFFFF) << 80 | 1 + end)


def interface_names(topology: Topology) -> dict[tuple[str, int], str]:
    """Return the names of ports, by name of the switch or host and by port (0 at a host): those of their source, as far
    as Linux and shells allow it, else `eth3` for port 3, or another number where a port has that name already. A host
    has `eth1`: containerlab keeps eth0 for itself."""
    ports = {switch.name: range(1, 1 + len(switch.ports)) for switch in topology.switches}
    ports |= {host.name: range(1) for host in topology.hosts}
    names = {}
    for node, numbers in ports.items():
        given = topology.interfaces.get(node, {})
        given = {port: name for port, name in given.items() if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,14}", name)}
        sonic = (re.fullmatch("Ethernet([0-9]+)", name) for name in given.values())
        taken = {*given.values(), *(f"eth{int(match[1]) // 4 + 1}" for match in sonic if match)}  # see `routers.sonic`
        for port in numbers:
            free = (f"eth{number}" for number in (port or 1, *range(1, 2 * MAX_PORT)))
            names[node, port] = given.get(port) or next(name for name in free if name not in taken)
            taken.add(names[node, port])
    return names


def _interfaces(topology: Topology, switch: int, names: Mapping[tuple[str, int], str]) -> dict[int, RouterPort]:
    found = {}
    for port, peer in enumerate(topology.switches[switch].ports, 1):
        if peer is not None:
            end = 0 if topology.links[peer.link].a == (switch, port) else 1
            ends = (link_address(topology, peer.link, which) for which in (end, 1 - end))
            found[port] = RouterPort(port, names[topology.switches[switch].name, port], *ends)
    return found


def routers(topology: Topology, failures: Failures) -> Iterator[Router]:
    """Every live switch. Raises `DetourError`: see `planner.plan`."""
    entries, names, called = plan(topology, None, failures), topology.file_names, interface_names(topology)
    for switch in topology.switches:
        if switch.device_id not in entries:
            continue
        interfaces, sids, routes = _interfaces(topology, switch.index, called), [], []
        for entry in entries[switch.device_id]:
            if not isinstance(entry, TableEntry) or entry.table not in (schema.LOCAL_SID, schema.ROUTE):
                continue
            match = entry.field(schema.DST_ADDR)
            assert isinstance(match, Lpm)
            prefix = address.prefix_text(match.value, match.prefix_len)
            ports = [interfaces[port] for action in entry.members() if (port := action.get("port")) is not None]
            if entry.table == schema.ROUTE:
                routes.append(RouterRoute(prefix, tuple(ports)))
            else:
                sids.append(Sid(prefix, ports[0] if ports else None, match.prefix_len - 32))
        name, locator = names[switch.name], address.ipv6_text(address.locator(switch.node_id))
        yield Router(switch.index, name, locator, tuple(interfaces.values()), tuple(sids), tuple(routes))


def sending_hosts(topology: Topology, placement: Placement) -> list[SendingHost]:
    """All hosts, with the lists of those of their flows that have a path."""
    links = {link.b[0]: link.index for link in topology.links if link.kind == "host"}
    names, called = topology.file_names, interface_names(topology)
    hosts = [
        SendingHost(
            names[host.name],
            called[host.name, 0],
            address.ipv6_text(host.address),
            address.prefix_text(address.locator(host.node_id), address.LOCATOR_BITS),
            link_address(topology, links[host.index], 1),
            link_address(topology, links[host.index], 0),
        )
        for host in topology.hosts
    ]
    for flow, (source, target) in enumerate(zip(placement.flows.source, placement.flows.target, strict=True)):
        if len(placement.path(flow)) > 1:  # behind one switch there is nothing to choose
            usids = address.ipv6_text(address.usid_address(_by_node(topology, placement, flow)))
            hosts[source].lists.setdefault(hosts[target].address, Counter())[usids] += 1
    return hosts


def _by_node(topology: Topology, placement: Placement, flow: int) -> list[int]:
    """The uSID list of a flow with the node's uN in front of every uA: FRR and SONiC know uAs in no other form."""
    at, usids = topology.switches[placement.path(flow)[0]], list[int]()
    for usid in placement.usids(flow):
        if usid < address.FIRST_FUNCTION:
            at = topology.switches[usid - 1] if usid < address.FIRST_HOST else at
        else:
            usids += [] if usids[-1:] == [at.node_id] else [at.node_id]
            peer = at.peer(usid - address.FIRST_FUNCTION)
            assert peer is not None, "a list leads over links"
            at = topology.switches[peer.index]
        usids.append(usid)
    return usids
