# SPDX-License-Identifier: Apache-2.0
"""Topologies as networkx graphs, and graphs as topologies: for drawing, for algorithms that others have written, and
for networks of no family that is built in.

A graph's nodes are switches, but for those with `kind="host"`, which have one edge, to a switch. What may be said of
switches: `group` (an int; default 0: one group), `tier` (default 0); of edges: `kind` ("local" or "global"; default by
the groups of its ends), `ports`, a mapping from both ends to port numbers (the end that is named first is the link's
`a`), `index`, by which links are ordered if all of them have one, `interfaces`, a mapping from both ends to what their
ports are called where the graph comes from, `gbps`, the rate in Gb/s, and `delay_ns`, both for one direction; who says
nothing of the rate has 100 Gb/s if others do, and else what the fabric's settings say, as with the delay. Switches and
hosts are numbered in the graph's order; where no ports are given, hosts have the first ones, then come links inside the
group, then global ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.topo.topology import MAX_PORT, Builder, LinkKind, Topology, check_limits

if TYPE_CHECKING:
    import networkx

FAMILY = "graph"
USUAL_GBPS = 100.0
"""of links of which nothing is said beside others of which it is"""
MAX_GBPS, MAX_DELAY_NS = 1e6, 1e9


def to_networkx(topology: Topology) -> networkx.MultiGraph:
    """Nodes are the names of switches and hosts, with their attributes; edges have the link's name as key, its `kind`,
    its `index` and the `ports` at both ends (0 at a host). The graph's attributes have `spec` and `valiant_groups`."""
    import networkx

    graph = networkx.MultiGraph(spec=topology.spec, valiant_groups=topology.valiant_groups)
    for switch in topology.switches:
        graph.add_node(switch.name, kind="switch", group=switch.group, tier=switch.tier)
    for host in topology.hosts:
        graph.add_node(host.name, kind="host")
    for link in topology.links:
        a = topology.switches[link.a[0]].name
        b = (topology.hosts if link.kind == "host" else topology.switches)[link.b[0]].name
        more: dict[str, float] = {}
        if topology.rate_bps:
            more["gbps"] = topology.rate_bps * link.speed / 1e9
        if link.delay_ps is not None:
            more["delay_ns"] = link.delay_ps / 1000
        ports = {a: link.a[1], b: link.b[1]}
        graph.add_edge(a, b, key=link.name, kind=link.kind, ports=ports, index=link.index, **more)
    return graph


def from_networkx(
    graph: networkx.Graph, gbps: float | None = None, delay_ns: float | None = None, spec: str | None = None
) -> Topology:
    """The topology that a graph describes; its `spec` is `graph:` and a digest of all that makes it up, or what is
    given. `gbps`, `delay_ns`: of links that say nothing. Raises `DetourError`: a host that does not have one switch, a
    link to itself, ports that are taken, wrong groups, rates or delays, or more than addresses and port numbers can
    hold."""
    if graph.is_directed():
        raise DetourError("graph: links have no direction; use graph.to_undirected()")
    kinds = graph.nodes(data="kind")
    hosts = [node for node, kind in kinds if kind == "host"]
    names = {node: index for index, node in enumerate(node for node, kind in kinds if kind != "host")}
    links = [_link(names, *edge) for edge in graph.edges(data=True)]
    if all("index" in data for _, _, data in links):
        links.sort(key=lambda link: link[2]["index"])
    switch_of = _switches_of(hosts, names, links)
    place = _places(graph, names)
    terms, rate_bps = _terms(links, names, gbps, delay_ns)
    spec = spec or f"{FAMILY}:{_digest(place, [switch_of[h] for h in hosts], names, links)}"
    ports = max((sum(1 for _ in graph.edges(node)) for node in names), default=0)
    check_limits(spec, len(names), len(hosts), ports)
    order = [names[switch_of[host]] for host in hosts]
    if order != sorted(order):
        raise DetourError("graph: hosts are numbered switch by switch: add them in the order of their switches")
    own = {f"s{index}": str(node) for node, index in names.items()}
    own |= {f"h{index}": str(host) for index, host in enumerate(hosts)}
    builder, count = Builder(FAMILY, spec, own), Counter(order)
    behind = {b: terms[id(data)] for _, b, data in links if b not in names}
    host_terms = iter([behind[host] for host in hosts])
    for switch, (group, position, tier) in enumerate(place):
        builder.add_switch(group, position, tier)
        builder.add_hosts(switch, count[switch], list(islice(host_terms, count[switch])))
    every, links = links, [link for link in links if link[1] in names]
    link_kinds: list[LinkKind] = [_kind(a, b, data, place[names[a]][0] == place[names[b]][0]) for a, b, data in links]
    numbers = _Ports(names, count).of_links(links, link_kinds)
    for (a, b, data), kind in zip(links, link_kinds, strict=True):
        one, other = numbers[id(data)]
        builder.connect(kind, (names[a], one), (names[b], other), *terms[id(data)])
    groups = len({place[switch][0] for switch in order})
    topology = builder.build(groups, int(graph.graph.get("valiant_groups", 0)), rate_bps)
    return replace(topology, interfaces=_interfaces(topology, names, hosts, every, numbers))


_Edge = tuple[Hashable, Hashable, dict[str, Any]]


def _interfaces(
    topology: Topology,
    names: dict[Hashable, int],
    hosts: list[Hashable],
    links: list[_Edge],
    numbers: dict[int, tuple[int, int]],
) -> dict[str, dict[int, str]]:
    """`Topology.interfaces`; `numbers`: ports of links between switches."""
    host_of = dict(zip(hosts, topology.hosts, strict=True))
    interfaces: dict[str, dict[int, str]] = {}
    for a, b, data in links:
        at, there = numbers[id(data)] if b in names else (host_of[b].port, 0)
        far = topology.switches[names[b]] if b in names else host_of[b]
        ports = {a: (topology.switches[names[a]].name, at), b: (far.name, there)}
        if isinstance(given := data.get("interfaces"), dict):
            for end in given.keys() & ports.keys():
                name, port = ports[end]
                interfaces.setdefault(name, {})[port] = str(given[end])
    return interfaces


def _link(names: dict[Hashable, int], a: Hashable, b: Hashable, data: dict[str, Any]) -> _Edge:
    """An edge with a switch in front."""
    if a == b:
        raise DetourError(f"graph: {a} is joined to itself")
    if a not in names or (b in names and next(iter(data.get("ports") or (a,))) == b):
        a, b = b, a
    if a not in names:
        raise DetourError(f"graph: hosts {a} and {b} are joined to each other; a host has one edge, to a switch")
    ports = data.get("ports")
    if ports is not None and not all(isinstance(ports.get(end), int) for end in (a, b) if end in names):
        raise DetourError(f"graph: the link {a}-{b} has no port number for each of its switches")
    return a, b, data


def _switches_of(hosts: list[Hashable], names: dict[Hashable, int], links: list[_Edge]) -> dict[Hashable, Hashable]:
    switch_of: dict[Hashable, Hashable] = {}
    for a, b, _ in links:
        if b in names:
            continue
        if b in switch_of:
            raise DetourError(f"graph: host {b} has more than one link")
        switch_of[b] = a
    lonely = next((host for host in hosts if host not in switch_of), None)
    if lonely is not None:
        raise DetourError(f"graph: host {lonely} has no link")
    return switch_of


LinkTerms = dict[int, tuple[float, int | None]]
"""speed and delay (ps) of an edge, by the identity of its data"""


def _terms(
    links: list[_Edge], names: dict[Hashable, int], gbps: float | None, delay_ns: float | None
) -> tuple[LinkTerms, int]:
    """Also the rate of which speeds are multiples: the fastest one of a host, or 0 if nothing is said of rates."""
    usual = USUAL_GBPS if gbps is None else gbps
    given = gbps is not None or any("gbps" in data for _, _, data in links)
    rates = [_quantity(a, b, data, "gbps", usual, MAX_GBPS) for a, b, data in links]
    waits = [_quantity(a, b, data, "delay_ns", delay_ns, MAX_DELAY_NS) for a, b, data in links]
    slow = next((link for link, rate in zip(links, rates, strict=True) if rate == 0), None)
    if slow is not None:
        raise DetourError(f"graph: the link {slow[0]}-{slow[1]}: gbps=0 carries nothing")
    of_hosts = [rate or 0.0 for (_, b, _), rate in zip(links, rates, strict=True) if b not in names]
    most = max(of_hosts, default=usual) if given else usual
    terms: LinkTerms = {}
    for (_, _, data), rate, wait in zip(links, rates, waits, strict=True):
        terms[id(data)] = (rate or usual) / most if given else 1.0, None if wait is None else round(1000 * wait)
    return terms, round(most * 1e9) if given else 0


def _quantity(
    a: Hashable, b: Hashable, data: dict[str, Any], name: str, usual: float | None, most: float
) -> float | None:
    value = data.get(name, usual)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most):
        raise DetourError(f"graph: the link {a}-{b}: {name} is a number from 0 to {most:g}, not {value!r}")
    return value


def _places(graph: networkx.Graph, names: dict[Hashable, int]) -> list[tuple[int, int, int]]:
    """(group, position in it, tier) of every switch."""
    count: dict[int, int] = {}
    places = []
    for node in names:
        group, tier = (graph.nodes[node].get(what, 0) for what in ("group", "tier"))
        if not (isinstance(group, int) and group >= 0 and isinstance(tier, int) and 0 <= tier <= 2):
            raise DetourError(f"graph: {node}: groups are numbers from 0 on, tiers 0 to 2")
        places.append((group, count.get(group, 0), tier))
        count[group] = count.get(group, 0) + 1
    missing = next((group for group in range(max(count, default=-1)) if group not in count), None)
    if missing is not None:
        raise DetourError(f"graph: there is a group {max(count)} and no group {missing}; groups are counted from 0")
    return places


def _digest(
    place: list[tuple[int, int, int]], switches: list[Hashable], names: dict[Hashable, int], links: list[_Edge]
) -> str:
    ends = [
        (
            names[a],
            names.get(b),
            data.get("kind"),
            sorted((str(k), v) for k, v in (data.get("ports") or {}).items()),
            *((name, float(data[name])) for name in ("gbps", "delay_ns") if name in data),
        )
        for a, b, data in links
    ]
    text = repr((place, [names[switch] for switch in switches], ends))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Ports:
    """Numbers of switches' ports; the first ones are those of hosts, `count` of each switch."""

    def __init__(self, names: dict[Hashable, int], count: Counter[int]) -> None:
        self._names = names
        self._used = [set(range(1, 1 + count[switch])) for switch in names.values()]

    def take(self, node: Hashable, port: int | None = None) -> int:
        """A port of a switch, the first that is free if none is named."""
        used = self._used[self._names[node]]
        port = next(port for port in range(1, MAX_PORT + 2) if port not in used) if port is None else port
        if port in used or not 1 <= port <= MAX_PORT:
            raise DetourError(f"graph: port {port} of {node} is taken by a host or a link, or is not 1 to {MAX_PORT}")
        used.add(port)
        return port

    def of_links(self, links: list[_Edge], kinds: list[LinkKind]) -> dict[int, tuple[int, int]]:
        """Both ends' ports, by the identity of the edge's data: those that are given, then local links, then global
        ones."""
        ports: dict[int, tuple[int, int]] = {}
        for a, b, data in links:
            if data.get("ports") is not None:
                ports[id(data)] = self.take(a, data["ports"][a]), self.take(b, data["ports"][b])
        for order in ("local", "global"):
            for (a, b, data), kind in zip(links, kinds, strict=True):
                if kind == order and id(data) not in ports:
                    ports[id(data)] = self.take(a), self.take(b)
        return ports


def _kind(a: Hashable, b: Hashable, data: dict[str, Any], same_group: bool) -> LinkKind:
    kind = data.get("kind", "local" if same_group else "global")
    if kind not in ("local", "global"):
        raise DetourError(f"graph: the link {a}-{b} is of kind {kind!r}; allowed: local, global")
    return kind
