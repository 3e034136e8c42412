# SPDX-License-Identifier: Apache-2.0
"""What a network of p4-utils is, as its `NetworkAPI` and its `p4app.json` put it together: nodes and links with
options, ports and addresses given by the same rules, so that a lab's commands and controllers fit.

The rules (nsg-ethz/p4-utils, `NetworkAPI`): nodes and links in natural order; switches' ports count from 1 and hosts'
from 0 over the links in that order; device ids count from 1, Thrift ports from 9090, P4Runtime ports from 9559; a CPU
port is a link to a node `sw-cpu`. Addresses are those of the strategies `l2`, `mixed` and `l3` (`p4utils_addresses`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from detour.base.errors import DetourError
from detour.fabric.labs.model import natural
from detour.fabric.labs.p4utils_tasks import P4UtilsTask

CPU_NODE = "sw-cpu"
_FIRST_THRIFT_PORT, _FIRST_GRPC_PORT = 9090, 9559


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


class P4UtilsNetwork:
    """Nodes and links that can be changed until they are numbered."""

    def __init__(self) -> None:
        self.nodes: dict[str, P4UtilsNode] = {}
        self.links: list[P4UtilsLink] = []
        self.scripts: list[str] = []
        self.tasks: list[P4UtilsTask] = []
        self.arp_tables = self.gateway_arp = True

    # -- nodes ------------------------------------------------------------------------------------------

    def add_node(self, name: str, kind: str, options: dict[str, Any], where: str = "") -> None:
        """`kind`: `host` or `switch`. One of the same name is replaced, as in p4-utils."""
        if not isinstance(name, str) or not name:
            raise DetourError(f"{name!r} is not a node's name")
        self.nodes[name] = P4UtilsNode(name, kind, options, where)

    def node(self, name: str, kind: str | None = None) -> P4UtilsNode:
        """A node; DetourError if there is none, or one of another kind."""
        found = self.nodes.get(name)
        if found is None or (kind is not None and found.kind != kind):
            listed = sorted((n.name for n in self.nodes.values() if kind in (None, n.kind)), key=natural)
            raise DetourError(f"there is no {kind or 'node'} {name!r}; there is {', '.join(listed) or 'none'} so far")
        return found

    def of_kind(self, kind: str) -> list[P4UtilsNode]:
        """In natural order, without the CPU's node."""
        found = (node for node in self.nodes.values() if node.kind == kind and node.name != CPU_NODE)
        return sorted(found, key=lambda node: natural(node.name))

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
                raise DetourError(f"port {port} of {name} has a link already")
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
        found = (link.options.get(f"port{link.side(name)}") for link in self.links_of(name))
        return {port for port in found if port is not None}

    def sorted_links(self) -> list[P4UtilsLink]:
        """In natural order."""
        return sorted(self.links, key=lambda link: (natural(link.node1), natural(link.node2)))

    # -- what nobody said -------------------------------------------------------------------------------

    def number_all(self) -> None:
        """Gives numbers and ports to what has none."""
        self.number_switches()
        for link in self.sorted_links():
            for name, side in ((link.node1, "1"), (link.node2, "2")):
                if link.options.get(f"port{side}") is None:
                    first = 1 if self.nodes[name].kind == "switch" else 0
                    link.options[f"port{side}"] = first_free(self.ports(name), first)

    def number_switches(self) -> None:
        """Device ids, and the ports of their servers."""
        for switch in self.of_kind("switch"):
            self.number(switch)
        for switch in self.of_kind("switch"):
            for key, first in (("thrift_port", _FIRST_THRIFT_PORT), ("grpc_port", _FIRST_GRPC_PORT)):
                if key == "grpc_port" and not switch.options.get("p4runtime"):
                    continue
                if switch.options.get(key) is None:
                    taken = (s.options.get(k) for s in self.of_kind("switch") for k in ("thrift_port", "grpc_port"))
                    switch.options[key] = first_free(taken, first)

    def number(self, switch: P4UtilsNode) -> int:
        """A switch's device id."""
        if switch.options.get("device_id") is None:
            taken = (each.options.get("device_id") for each in self.of_kind("switch"))
            switch.options["device_id"] = first_free(taken, 1)
        return int(switch.options["device_id"])


def first_free(taken: Iterable[int | None], first: int) -> int:
    """The least number from `first` on that is not taken."""
    known = set(taken)
    while first in known:
        first += 1
    return first
