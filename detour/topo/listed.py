# SPDX-License-Identifier: Apache-2.0
"""A network as lists of nodes and edges, as files have it: checked element by element, so that an error says where.

Nodes are of kind `switch` or `host`; if none says its kind, those of degree 1 whose name begins with `h` are hosts.
Switches and hosts are numbered in the order in which they are listed, or by their names where these are `s0`, `s1`...
and `h0`, `h1`... Hosts are numbered switch by switch: where a list goes to and fro between switches, switches are
ordered by their first host, and then hosts by their switches.

Lists of switches alone, each of which gets hosts: `ListedNetwork.graph_of_switches`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from detour.base.errors import DetourError
from detour.topo.graphs import MAX_DELAY_NS, MAX_GBPS, from_networkx
from detour.topo.topology import MAX_PORT, Topology

if TYPE_CHECKING:
    import networkx

NODE_KEYS, EDGE_KEYS = ("kind",), ("gbps", "delay_ns")
SWITCH_KEYS, BETWEEN_KEYS = ("kind", "hosts"), (*EDGE_KEYS, "speed", "delay_us")  # of lists of switches alone
ZOO_KEYS = ("Latitude", "Longitude", "LinkSpeedRaw", "interfaces")
"""what readers of files have used already"""
DROPPABLE = {"isolated": "nodes without links", "parts": "all but the largest part"}
"""what a network can be had without"""


@dataclass(frozen=True, slots=True)
class ListedNode:
    """`where`: in the file, like `line 7`."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True, slots=True)
class ListedEdge:
    """Between the nodes of two names."""

    a: str
    b: str
    data: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


def topology_of_lists(
    network: ListedNetwork, gbps: float | None = None, delay_ns: float | None = None, spec: str | None = None
) -> Topology:
    """The topology of a network with hosts. `gbps`, `delay_ns`: of edges that say nothing; `spec`: the topology's.
    Raises `DetourError`: name, where, and the rule that is broken."""
    import networkx

    network.check_data()
    network.check_ports()
    hosts = network.hosts()
    network.check_hosts(hosts)
    network.check_connected()
    graph = networkx.MultiGraph()
    for node in network.in_order(hosts):
        graph.add_node(node, kind="host" if node in hosts else "switch")
    for edge in network.edges:
        said = {key: edge.data[key] for key in (*EDGE_KEYS, "interfaces") if edge.data.get(key) is not None}
        graph.add_edge(edge.a, edge.b, **said)
    return from_networkx(graph, gbps, delay_ns, spec)


def topology_of_graph(name: str, graph: networkx.Graph) -> Topology:
    """The topology of a networkx graph that code of others has made: see `topo.graphs`, and hosts by their names.
    Raises `DetourError`: see `from_networkx`; there are no hosts, or the graph is in parts."""
    import networkx

    if not any("kind" in data for _, data in graph.nodes(data=True)):
        graph = graph.copy()
        for node in [node for node, degree in graph.degree if degree == 1 and str(node).startswith("h")]:
            graph.nodes[node]["kind"] = "host"
    if not any(data.get("kind") == "host" for _, data in graph.nodes(data=True)):
        raise DetourError(f"{name}: {_NO_HOSTS}")
    parts = list(networkx.connected_components(networkx.Graph(graph)))
    if len(parts) > 1:
        a, b = (next(iter(part)) for part in parts[:2])
        raise DetourError(f"{name}: the graph is in {len(parts)} parts: no path leads from {a} to {b}")
    try:
        return from_networkx(graph)
    except DetourError as error:
        raise DetourError(f"{name}: {error}") from None


_NO_HOSTS = (
    "there are no hosts: give nodes a kind (switch or host), or begin the names of nodes of degree 1 with h; "
    "graph:FILE,hosts=N gives every switch N hosts"
)


class ListedNetwork:
    """A network as lists, and the rules for it, one a method. `name`: what it is called in errors; `data`: of the
    graph."""

    def __init__(
        self, name: str, nodes: Sequence[ListedNode], edges: Sequence[ListedEdge], data: Mapping[str, Any] | None = None
    ) -> None:
        self.name, self.nodes, self.edges, self.data = name, nodes, edges, data or {}
        self._of: dict[str, list[ListedEdge]] = {}
        for node in nodes:
            if node.name in self._of:
                self._refuse(node.where, f"node {node.name} is already defined")
            self._of[node.name] = []
        for edge in edges:
            for end in (edge.a, edge.b):
                if end not in self._of:
                    self._refuse(edge.where, f"the link {edge.a}-{edge.b} leads to {end}, which is not a node")
                self._of[end].append(edge)
        self._named = {node.name: node for node in nodes}

    def _refuse(self, where: str, rule: str, drop: str | None = None) -> NoReturn:
        """`drop`: the key of `DROPPABLE` that helps."""
        advice = "" if drop is None else f" (FILE,drop={drop} leaves out {DROPPABLE[drop]})"
        raise DetourError(f"{self.name}{f', {where}' if where else ''}: {rule}{advice}")

    def without_loops(self) -> tuple[ListedNetwork, list[str]]:
        """The network without links from a node to itself, over which nothing goes anywhere, and the nodes."""
        loops = [edge.a for edge in self.edges if edge.a == edge.b]
        edges = [edge for edge in self.edges if edge.a != edge.b]
        return (ListedNetwork(self.name, self.nodes, edges, self.data) if loops else self), loops

    def foreign(self, of_switches: bool) -> list[str]:
        """The attributes of other programs, which say nothing here. `of_switches`: it lists switches alone."""
        of_nodes, of_edges = (SWITCH_KEYS, BETWEEN_KEYS) if of_switches else (NODE_KEYS, EDGE_KEYS)
        listed = [(node.data, of_nodes) for node in self.nodes] + [(edge.data, of_edges) for edge in self.edges]
        return list(dict.fromkeys(
            key for data, keys in listed for key, value in data.items()
            if key not in (*keys, *ZOO_KEYS) or _of_others(key, value)
        ))  # fmt: skip

    def without(self, drops: Collection[str]) -> tuple[ListedNetwork, list[str]]:
        """The network without what `drops` (keys of `DROPPABLE`) names, and what that was, in words."""
        import networkx

        nodes, edges, dropped = list(self.nodes), list(self.edges), []
        graph = _plain(nodes, edges)
        gone = set(networkx.isolates(graph)) if "isolated" in drops else set()
        if "parts" in drops:
            gone |= graph.nodes - max(networkx.connected_components(graph), key=len)
        dropped += [f"node {node.name}" for node in nodes if node.name in gone]
        nodes = [node for node in nodes if node.name not in gone]
        edges = [edge for edge in edges if edge.a not in gone]
        if not nodes:
            self._refuse("", f"nothing is left without {' and '.join(DROPPABLE[drop] for drop in drops)}")
        return ListedNetwork(self.name, nodes, edges, self.data), dropped

    def graph_of_switches(self) -> networkx.Graph:
        """A network without hosts, checked, for `topo.expander.given`. Raises `DetourError`: name, where, and the rule
        that is broken."""
        import networkx

        self.check_data()
        host = next((node for node in self.nodes if node.data.get("kind") == "host"), None)
        if host is not None:
            self._refuse(host.where, f"node {host.name} is a host; graph:FILE is for files of switches alone")
        self.check_ports()
        self.check_connected()
        graph = networkx.MultiGraph(**{key: value for key, value in self.data.items() if key == "hosts"})
        graph.add_nodes_from((node.name, node.data) for node in self.nodes)
        for edge in self.edges:
            given = {key: edge.data[key] for key in (*BETWEEN_KEYS, "interfaces") if edge.data.get(key) is not None}
            graph.add_edge(edge.a, edge.b, **{key: given[key] for key in given if not _of_others(key, given[key])})
        return graph

    def check_data(self) -> None:
        """Attributes with a meaning have a possible value. Those of other programs say nothing."""
        for node in self.nodes:
            kind = node.data.get("kind")
            if kind not in (None, "switch", "host"):
                self._refuse(node.where, f"node {node.name} is of kind {kind!r}; allowed: switch, host")
        for edge in self.edges:
            what = f"the link {edge.a}-{edge.b}"
            for key, most in (("gbps", MAX_GBPS), ("delay_ns", MAX_DELAY_NS)):
                value = edge.data.get(key)
                wrong = isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most
                if value is not None and wrong:
                    self._refuse(edge.where, f"{what}: {key} is a number from 0 to {most:g}, not {value!r}")
            if edge.data.get("gbps") == 0:
                self._refuse(edge.where, f"{what}: gbps=0 carries nothing")

    def check_ports(self) -> None:
        """No more than are supported."""
        for name, edges in self._of.items():
            if len(edges) > MAX_PORT:
                rule = f"{name} has {len(edges)} links; a switch has at most {MAX_PORT} ports"
                self._refuse(self._named[name].where, rule)

    def hosts(self) -> set[str]:
        """Names of the hosts."""
        given = any(node.data.get("kind") is not None for node in self.nodes)
        if given:
            return {node.name for node in self.nodes if node.data.get("kind") == "host"}
        return {name for name, edges in self._of.items() if len(edges) == 1 and name.startswith("h")}

    def check_hosts(self, hosts: set[str]) -> None:
        """There are at least two, each with one link, to a switch."""
        if not hosts:
            self._refuse("", _NO_HOSTS)
        for name in [node.name for node in self.nodes if node.name in hosts and len(hosts) > 1]:
            edges = self._of[name]
            if len(edges) != 1:
                where = edges[1].where if len(edges) > 1 else self._named[name].where
                self._refuse(where, f"host {name} has {len(edges)} links; a host has one, to a switch")
            edge = edges[0]
            if {edge.a, edge.b} <= hosts:
                self._refuse(edge.where, f"hosts {edge.a} and {edge.b} are joined to each other; a host has a switch")
        if len(hosts) == 1:
            self._refuse("", f"there is one host, {next(iter(hosts))}; expected at least two to talk")

    def check_connected(self) -> None:
        """A path leads from any node to any other."""
        import networkx

        alone = next((node for node in self.nodes if not self._of[node.name] and len(self.nodes) > 1), None)
        if alone is not None:
            self._refuse(alone.where, f"the network is disconnected: node {alone.name} has no link", "isolated")
        first = self.nodes[0].name
        reached = networkx.node_connected_component(_plain(self.nodes, self.edges), first)
        stray = next((node for node in self.nodes if node.name not in reached), None)
        if stray is not None:
            self._refuse(
                stray.where, f"the network is disconnected: no path leads from {first} to {stray.name}", "parts"
            )

    def in_order(self, hosts: set[str]) -> list[str]:
        """Switches in the order of their numbers, then hosts."""
        places = [node.name for node in self.nodes if node.name not in hosts]
        ends = [node.name for node in self.nodes if node.name in hosts]
        if _counted(places, "s") and _counted(ends, "h"):
            places.sort(key=_number)
            ends.sort(key=_number)
        home = {name: self._home(name) for name in ends}
        at = {name: index for index, name in enumerate(places)}
        if [at[home[name]] for name in ends] != sorted(at[home[name]] for name in ends):
            first = {home[name]: index for index, name in reversed(list(enumerate(ends)))}
            places.sort(key=lambda name: first.get(name, len(ends)))
            at = {name: index for index, name in enumerate(places)}
            ends.sort(key=lambda name: at[home[name]])
        return [*places, *ends]

    def _home(self, host: str) -> str:
        edge = self._of[host][0]
        return edge.b if edge.a == host else edge.a


def _of_others(key: str, value: Any) -> bool:
    """Return whether an attribute has one of our names by chance: these are numbers here, and texts elsewhere (`10
    Gbps`)."""
    return key in ("speed", "delay_us") and isinstance(value, str)


def _plain(nodes: Sequence[ListedNode], edges: Sequence[ListedEdge]) -> networkx.Graph:
    import networkx

    graph = networkx.Graph([(edge.a, edge.b) for edge in edges])
    graph.add_nodes_from(node.name for node in nodes)
    return graph


def _number(name: str) -> int:
    return int(name[1:])


def _counted(names: list[str], letter: str) -> bool:
    """Return whether names are the letter with each of the numbers from 0 on."""
    return {f"{letter}{index}" for index in range(len(names))} == set(names) and all(
        re.fullmatch(r"[a-z][0-9]+", name) for name in names
    )
