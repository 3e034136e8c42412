# SPDX-License-Identifier: Apache-2.0
"""A network of p4-utils, as its `NetworkAPI` and its `p4app.json` put it together: nodes and links with options, ports
and addresses given by the same rules, so that a lab's commands and controllers fit.

The rules (nsg-ethz/p4-utils, `NetworkAPI`): nodes and links in natural order; switches' ports count from 1 and hosts'
from 0 over the links in that order; device ids count from 1, Thrift ports from 9090, P4Runtime ports from 9559; a CPU
port is a link to a node `sw-cpu`. Addresses are those of the strategies `l2` (all hosts in 10.0.0.0/16), `mixed` (a /24
a switch) and `l3` (a /24 a host): hosts called `hN` get the number N, MAC addresses follow from IP addresses, 00:00 and
the four bytes for a host, 00:01 and its bytes for the switch's port at the other end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from detour.base.errors import DetourError
from detour.fabric.labs.model import natural
from detour.fabric.labs.p4utils_tasks import P4UtilsTask

CPU_NODE = "sw-cpu"
STRATEGIES = ("l2", "mixed", "l3")
_FIRST_THRIFT_PORT, _FIRST_GRPC_PORT = 9090, 9559
_MOST_OF_BYTE = 254


@dataclass
class P4UtilsNode:
    """A host or a switch. `options`: what its constructor would get."""

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass
class P4UtilsLink:
    """`options`: `port1`, `addr1`, `ip1` ... of the first node, the same with 2 of the second; `bw`, `delay`, ..."""

    node1: str
    node2: str
    options: dict[str, Any] = field(default_factory=dict)
    where: str = ""

    def side(self, node: str) -> str:
        """`1` or `2`."""
        return "1" if node == self.node1 else "2"

    def other(self, node: str) -> str:
        """The node at the other end."""
        return self.node2 if node == self.node1 else self.node1


@dataclass
class P4UtilsNetwork:
    """Nodes and links that can be changed until they are numbered."""

    nodes: dict[str, P4UtilsNode] = field(default_factory=dict)
    links: list[P4UtilsLink] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    tasks: list[P4UtilsTask] = field(default_factory=list)
    arp_tables: bool = True
    gateway_arp: bool = True

    # -- nodes ------------------------------------------------------------------------------------------

    def add_node(self, name: str, kind: str, options: dict[str, Any], where: str = "") -> None:
        """`kind`: `host` or `switch`. One of the same name is replaced, as in p4-utils."""
        if not isinstance(name, str) or not name:
            raise DetourError(f"{name!r} is not a node's name")
        self.nodes[name] = P4UtilsNode(name, kind, options, where)

    def node(self, name: str, kind: str | None = None) -> P4UtilsNode:
        """A node; DetourError if there is none, or one of another kind."""
        node = self.nodes.get(name)
        if node is None or (kind is not None and node.kind != kind):
            listed = sorted((n.name for n in self.nodes.values() if kind in (None, n.kind)), key=natural)
            raise DetourError(f"there is no {kind or 'node'} {name!r}; there is {', '.join(listed) or 'none'} so far")
        return node

    def of_kind(self, kind: str) -> list[P4UtilsNode]:
        """In natural order, without the CPU's node."""
        nodes = (node for node in self.nodes.values() if node.kind == kind and node.name != CPU_NODE)
        return sorted(nodes, key=lambda node: natural(node.name))

    def enable_cpu_port(self, name: str) -> None:
        """A link to the CPU's node."""
        switch = self.node(name, "switch")
        self.nodes.setdefault(CPU_NODE, P4UtilsNode(CPU_NODE, "switch"))
        switch.options["cpu_port"] = True
        self.links.append(P4UtilsLink(name, CPU_NODE))

    def disable_cpu_port(self, name: str) -> None:
        """None any more."""
        self.node(name, "switch").options["cpu_port"] = False
        self.links = [link for link in self.links if {link.node1, link.node2} != {name, CPU_NODE}]

    # -- links ------------------------------------------------------------------------------------------

    def add_link(self, node1: str, node2: str, options: dict[str, Any], where: str = "") -> P4UtilsLink:
        """A link; DetourError if a node is not there or a port is taken."""
        for name, side in ((node1, "1"), (node2, "2")):
            self.node(name)
            port = options.get(f"port{side}")
            if port is not None and port in self.ports(name):
                raise DetourError(f"port {port} of {name} already has a link")
        link = P4UtilsLink(node1, node2, options, where)
        self.links.append(link)
        return link

    def link(self, node1: str, node2: str) -> P4UtilsLink:
        """The first link between two nodes, whichever is named first; DetourError if there is none."""
        for link in self.links:
            if {link.node1, link.node2} == {node1, node2}:
                return link
        self.node(node1)
        self.node(node2)
        raise DetourError(f"there is no link between {node1} and {node2}")

    def links_of(self, name: str) -> Iterator[P4UtilsLink]:
        """In the order in which they were made."""
        return (link for link in self.links if name in (link.node1, link.node2))

    def ports(self, name: str) -> set[int]:
        """Ports of a node that are taken."""
        numbers = (link.options.get(f"port{link.side(name)}") for link in self.links_of(name))
        return {port for port in numbers if port is not None}

    def sorted_links(self) -> list[P4UtilsLink]:
        """In natural order."""
        return sorted(self.links, key=lambda link: (natural(link.node1), natural(link.node2)))

    # -- what nobody said -------------------------------------------------------------------------------

    def number_all(self) -> None:
        """Give numbers and ports to what has none."""
        switches = self.of_kind("switch")
        for switch in switches:
            self.number(switch)
        for switch in switches:
            for key, first in (("thrift_port", _FIRST_THRIFT_PORT), ("grpc_port", _FIRST_GRPC_PORT)):
                if switch.options.get(key) is None and (key == "thrift_port" or switch.options.get("p4runtime")):
                    taken = (s.options.get(k) for s in switches for k in ("thrift_port", "grpc_port"))
                    switch.options[key] = first_free(taken, first)
        for link in self.sorted_links():
            for name, side in ((link.node1, "1"), (link.node2, "2")):
                if link.options.get(f"port{side}") is None:
                    first = 1 if self.nodes[name].kind == "switch" else 0
                    link.options[f"port{side}"] = first_free(self.ports(name), first)

    def number(self, switch: P4UtilsNode) -> int:
        """A switch's device id."""
        if switch.options.get("device_id") is None:
            taken = (each.options.get("device_id") for each in self.of_kind("switch"))
            switch.options["device_id"] = first_free(taken, 1)
        return int(switch.options["device_id"])


def first_free(taken: Iterable[int | None], first: int) -> int:
    """The least number from `first` on that is not taken."""
    numbers = set(taken)
    while first in numbers:
        first += 1
    return first


# -- addresses --------------------------------------------------------------------------------------------------


def assign(network: P4UtilsNetwork, strategy: str) -> None:
    """Give hosts, and ports of switches, the addresses of a strategy. Raises DetourError: there is no such strategy,
    or it does not fit the network."""
    if strategy not in STRATEGIES:
        raise DetourError(f"there is no assignment strategy {strategy!r}; allowed: {', '.join(STRATEGIES)}")
    pairs = [frozenset((link.node1, link.node2)) for link in network.links]
    twice = next((pair for pair in pairs if pairs.count(pair) > 1), None)
    if twice is not None:
        raise DetourError(f"strategy {strategy} permits one link between two nodes; {' and '.join(sorted(twice))} have")
    switches = {switch.name: network.number(switch) for switch in network.of_kind("switch")} if strategy != "l2" else {}
    links = list(_host_links(network))
    # Hosts are numbered at each switch for itself, in l2 all together.
    places = {host: link.other(host) if switches else "" for host, link in links}
    taken: dict[str, set[int]] = {place: set() for place in places.values()}
    for host, place in places.items():
        if (number := _number_of(host)) is not None:
            taken[place].add(number)
    for host, link in links:
        place, number = places[host], _number_of(host)
        if number is None:
            number = first_free(taken[place], 1)
            taken[place].add(number)
        _give(network, host, link, *_address(strategy, host, switches.get(place, 0), number))
    if switches:
        _address_between_switches(network)


def fill_addresses(network: P4UtilsNetwork) -> None:
    """Addresses for hosts that no strategy gave any, and MAC addresses for all that have none. p4-utils draws the MAC
    addresses; here they are the same in every run."""
    draw = random.Random(1)
    taken = {link.options.get(f"ip{link.side(host)}", "").split("/")[0] for host, link in _host_links(network)}
    for link in network.sorted_links():
        for name, side in ((link.node1, "1"), (link.node2, "2")):
            if not link.options.get(f"addr{side}"):
                number = draw.getrandbits(48) & 0xFEFFFFFFFFFF | 0x020000000000
                link.options[f"addr{side}"] = ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))
            if network.nodes[name].kind == "host" and not link.options.get(f"ip{side}"):
                address = next(ip for ip in (f"10.0.{n >> 8}.{n & 255}" for n in range(1, 1 << 16)) if ip not in taken)
                taken.add(address)
                link.options[f"ip{side}"] = f"{address}/8"


def _host_links(network: P4UtilsNetwork) -> Iterator[tuple[str, P4UtilsLink]]:
    """(host, link to its switch); DetourError for a host that has none or several."""
    for host in network.of_kind("host"):
        links = list(network.links_of(host.name))
        if len(links) != 1 or network.nodes[links[0].other(host.name)].kind != "switch":
            raise DetourError(f"host {host.name} has {len(links)} links; it must have one, to a switch")
        yield host.name, links[0]


def _number_of(host: str) -> int | None:
    """N of `hN`."""
    match = re.fullmatch(r"h(\d+)", host)
    return int(match[1]) if match else None


def _give(network: P4UtilsNetwork, host: str, link: P4UtilsLink, ip: str, prefix: int, gateway: str | None) -> None:
    here, there = link.side(host), link.side(link.other(host))
    numbers = [int(part) for part in ip.split(".")]
    rest = ":".join(f"{number:02x}" for number in numbers)
    link.options |= {f"addr{here}": f"00:00:{rest}", f"addr{there}": f"00:01:{rest}", f"ip{here}": f"{ip}/{prefix}"}
    if gateway is not None:
        link.options[f"ip{there}"] = f"{gateway}/{prefix}"
        network.nodes[host].options["defaultRoute"] = f"via {gateway}"


def _address(strategy: str, host: str, switch: int, number: int) -> tuple[str, int, str | None]:
    """Address, length of the prefix, and gateway of a host with a number at a switch."""
    if strategy == "l2":
        if not 0 < number < 1 << 16:
            raise DetourError(f"strategy l2 numbers hosts up to 65535; {host} is beyond")
        return f"10.0.{number >> 8}.{number & 255}", 16, None
    if not 0 < number < _MOST_OF_BYTE:
        raise DetourError(f"strategies mixed and l3 number hosts from 1 to 253; {host} is beyond")
    if strategy == "mixed":
        net = f"10.{switch >> 8}.{switch & 255}"
        return f"{net}.{number}", 24, f"{net}.254"
    if switch >= _MOST_OF_BYTE:
        raise DetourError(f"strategy l3 numbers switches from 1 to 253; one is {switch}")
    return f"10.{switch}.{number}.2", 24, f"10.{switch}.{number}.1"


def _address_between_switches(network: P4UtilsNetwork) -> None:
    """Addresses for ports between switches, which only controllers see."""
    for link in network.links:
        ends = [network.nodes[link.node1], network.nodes[link.node2]]
        if all(end.kind == "switch" and end.name != CPU_NODE for end in ends):
            first, second = (network.number(end) for end in ends)
            link.options |= {"ip1": f"20.{first}.{second}.1/24", "ip2": f"20.{first}.{second}.2/24"}
