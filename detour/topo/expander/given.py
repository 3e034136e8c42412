# SPDX-License-Identifier: Apache-2.0
"""Any connected graph as a network that is layered afterwards, like those of `flat`.

Nodes are switches, in the graph's order. Attributes: of a node `hosts`, a whole number (default: the graph's own
`hosts`, else 1); of an edge `speed`, what the link carries in multiples of a host's link (default 1), or `gbps`, its
rate; `delay_us` or `delay_ns` (default: the fabric's). If an edge says its rate, a host's link has the greatest that is
said; `interfaces`, as in `topo.graphs`. Others say nothing. Switches have their nodes' names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError
from detour.topo.expander.flat import ordered_network
from detour.topo.expander.network import Expander
from detour.topo.graphs import USUAL_GBPS
from detour.topo.topology import Topology

if TYPE_CHECKING:
    import networkx

GIVEN = "given-graph"  # the family of these networks
MAX_DEGREE = 255  # links of a switch to others: routes number them in a byte
MAX_SPEED, MAX_DELAY_US = 1000.0, 1e6


def expander_of_graph(
    graph: networkx.Graph, spec: str, hosts: int | None = None, gbps: float | None = None, delay_ns: float | None = None
) -> Expander:
    """The network that a connected simple graph describes; `hosts`: of every switch that says nothing (None: as the
    graph says, or 1); `gbps`, `delay_ns`: of links that say nothing. Raises `DetourError`: attributes of no meaning;
    fewer than two switches with hosts; more links than are supported."""
    usual = _hosts(spec, "the graph", graph.graph.get("hosts", 1)) if hosts is None else hosts
    number = {node: index for index, node in enumerate(graph.nodes)}
    count = np.zeros(len(number), np.int32)
    for node, data in graph.nodes(data=True):
        count[number[node]] = _hosts(spec, f"node {node}", data.get("hosts", usual))
    if (count > 0).sum() < 2:
        raise DetourError(
            f"{spec}: {len(number)} switches, {(count > 0).sum()} of them with hosts; expected at least two"
        )
    rates = [data["gbps"] for _, _, data in graph.edges(data=True) if "gbps" in data]
    usual_gbps = gbps or max(rates, default=USUAL_GBPS)
    links, more = _links(graph, spec, number, usual_gbps, delay_ns)
    busiest = np.bincount(links.ravel(), minlength=len(number)).max(initial=0)
    if busiest > MAX_DEGREE:
        raise DetourError(f"{spec}: a switch has {busiest} links to others; at most {MAX_DEGREE} are supported")
    more |= {"rate_bps": round(1e9 * usual_gbps) if rates else 0, "names": tuple(map(str, number))}
    return ordered_network(GIVEN, spec, count, links, **more)


_remembered: dict[str, Expander] = {}
_GROWN = re.compile(r",grown=\d+(#[0-9a-f]{16})?$")


def remember(network: Expander) -> None:
    """Let `expander_of_topology` know a network that has grown: its layers are those of growth, which do not follow
    from its links."""
    _remembered[network.spec] = network


@lru_cache(maxsize=16)
def expander_of_topology(topology: Topology) -> Expander:
    """The network whose `topology` this is, of the family `GIVEN`. Raises `DetourError`: it has grown, and not in this
    process."""
    if topology.spec in _remembered:
        return _remembered[topology.spec]
    if _GROWN.search(topology.spec):
        raise DetourError(f"{topology.spec} has grown elsewhere; read it here")
    links = [link for link in topology.links if link.kind != "host"]
    hosts = np.array([len(hosts) for hosts in topology.hosts_of], np.int32)
    ends = np.array([(link.a[0], link.b[0]) for link in links], np.int32)
    speed = np.array([link.speed for link in links])
    delay = np.array([-1 if link.delay_ps is None else link.delay_ps for link in links], np.int64)
    more = {"rate_bps": topology.rate_bps, "names": tuple(switch.name for switch in topology.switches)}
    return ordered_network(GIVEN, topology.spec, hosts, ends, speed=speed, delay_ps=delay, **more)


def _links(
    graph: networkx.Graph, spec: str, number: Mapping[Hashable, int], usual_gbps: float, delay_ns: float | None
) -> tuple[Int32Array, dict[str, Any]]:
    """Ends (E, 2) of the links, and what else an `Expander` says of them."""
    ends, speed, delay, interfaces = [], [], [], []
    for a, b, data in graph.edges(data=True):
        what = f"the link {a}-{b}"
        low, high = sorted((a, b), key=number.__getitem__)
        ends.append((number[low], number[high]))
        interfaces.append([str(data.get("interfaces", {}).get(end, "")) for end in (low, high)])
        relative = data.get("speed", data["gbps"] / usual_gbps if "gbps" in data else 1)
        speed.append(_quantity(spec, what, "speed", relative, MAX_SPEED if "speed" in data else math.inf))
        if speed[-1] == 0:
            raise DetourError(f"{spec}: {what}: speed 0 carries nothing")
        ns = data.get("delay_ns", delay_ns)
        if "delay_us" in data:
            ns = 1e3 * _quantity(spec, what, "delay_us", data["delay_us"], MAX_DELAY_US)
        delay.append(-1 if ns is None else round(1e3 * ns))
    more: dict[str, Any] = {"speed": np.array(speed, np.float64), "delay_ps": np.array(delay, np.int64)}
    if any(map(any, interfaces)):
        more["interfaces"] = np.array(interfaces)
    return np.array(ends, np.int32).reshape(-1, 2), more


def _hosts(spec: str, what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**6:
        raise DetourError(f"{spec}: {what}: hosts is a whole number from 0 on, not {value!r}")
    return value


def _quantity(spec: str, what: str, name: str, value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise DetourError(f"{spec}: {what}: {name} is a number from 0 to {most:g}, not {value!r}")
    return float(value)
