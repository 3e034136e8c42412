# SPDX-License-Identifier: Apache-2.0
"""A topology as the page draws it; and places for the nodes of a directed graph, in layers from the first one down:
so that edges lead downwards, but for those that close a cycle, and cross little (Sugiyama's method, with long edges
as chains of points)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detour.topo.draw import line_of, places
from detour.topo.topology import Topology


def graph_of(topology: Topology) -> dict[str, Any]:
    """`width`, `height` of the picture; `switches` and `hosts` with `name`, `x`, `y`; `links` with `name`, `kind`, the
    nodes at their ends (`a`, `b`) and the ports there (`ports`, None at a host), like `s0:3`; of parallel links also
    the ends of the line (`at`), which lies beside that of the nodes."""
    drawn = places(topology)
    switches = [
        {"name": s.name, "group": s.group, "x": round(x, 1), "y": round(y, 1), "node": s.node_id}
        for s, (x, y) in zip(topology.switches, drawn.switches, strict=True)
    ]
    hosts = [
        {"name": h.name, "switch": topology.switches[h.switch].name, "x": round(x, 1), "y": round(y, 1)}
        for h, (x, y) in zip(topology.hosts, drawn.hosts, strict=True)
    ]
    links: list[dict[str, Any]] = []
    for link in topology.links:
        at_host = link.kind == "host"
        far = topology.hosts[link.b[0]].name if at_host else topology.switches[link.b[0]].name
        near = topology.switches[link.a[0]].name
        ports = [f"{near}:{link.a[1]}", None if at_host else f"{far}:{link.b[1]}"]
        links.append({"name": link.name, "kind": link.kind, "a": near, "b": far, "ports": ports})
        if not at_host and len(topology.links_between(link.a[0], link.b[0])) > 1:
            links[-1]["at"] = [[round(x, 1), round(y, 1)] for x, y in line_of(topology, link, drawn)]
    return {
        "width": round(drawn.width), "height": round(drawn.height), "groups": topology.groups,
        "family": topology.family, "switches": switches, "hosts": hosts, "links": links,
    }  # fmt: skip


_SWEEPS = 8
_POINT = 0.12  # columns that an edge takes where it passes a layer

Edge = tuple[str, str]


@dataclass(frozen=True)
class Layered:
    """`place`: (column, layer) of each node, columns are numbers from 0 on and need not be whole; `bends`: of an edge
    the places that it passes between its ends; `columns`, `layers`: how many there are."""

    place: dict[str, tuple[float, int]]
    bends: dict[Edge, list[tuple[float, int]]]
    columns: float
    layers: int


def layered(first: str, edges: Mapping[str, Sequence[str]]) -> Layered:
    """Nodes that can be reached from `first`. `edges`: from each node to those after it."""
    import networkx

    graph = networkx.from_dict_of_lists({first: (), **edges}, networkx.DiGraph)
    nodes = list(networkx.dfs_postorder_nodes(graph, first))[::-1]  # but for cycles, edges lead on
    layer = _depths(nodes, edges)
    chains = _chains(nodes, edges, layer)
    rows: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for node in [*nodes, *(point for points in chains.values() for point in points)]:
        rows[layer[node]].append(node)
    after: dict[str, list[str]] = {}
    for (a, b), points in chains.items():
        for one, other in zip([a, *points], [*points, b], strict=True):
            after.setdefault(one, []).append(other)
    column = _columns(rows, after)
    bends = {edge: [(column[point], layer[point]) for point in points] for edge, points in chains.items()}
    place = {node: (column[node], layer[node]) for node in nodes}
    return Layered(place, bends, max(column.values()) + 1, len(rows))


def _depths(order: list[str], edges: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The length of the longest way to each node. Edges that lead back in the order close cycles and do not count."""
    depth, place = dict.fromkeys(order, 0), {node: at for at, node in enumerate(order)}
    for node in order:
        for onward in edges.get(node, ()):
            if place[onward] > place[node]:
                depth[onward] = max(depth[onward], depth[node] + 1)
    return depth


def _chains(nodes: list[str], edges: Mapping[str, Sequence[str]], layer: dict[str, int]) -> dict[Edge, list[str]]:
    """For every edge a point in each layer that it passes; points get their layers."""
    chains: dict[Edge, list[str]] = {}
    for node in nodes:
        for onward in dict.fromkeys(edges.get(node, ())):
            points = []
            for between in range(layer[node] + 1, layer[onward]):
                point = f"{node}\0{onward}\0{between}"
                layer[point] = between
                points.append(point)
            chains[node, onward] = points
    return chains


def _columns(rows: list[list[str]], after: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Each node goes to where its neighbours are on average, downwards and upwards in turn, a column apart."""
    before: dict[str, list[str]] = {}
    for node, onward in after.items():
        for other in onward:
            before.setdefault(other, []).append(node)
    column = dict.fromkeys((node for row in rows for node in row), 0.0)
    for row in rows:
        _apart(row, column, column)
    for sweep in range(_SWEEPS):
        beside, order = (before, rows) if sweep % 2 == 0 else (after, rows[::-1])
        for row in order:
            aims = {node: _mean([column[each] for each in beside.get(node, ())], column[node]) for node in row}
            row.sort(key=aims.__getitem__)
            _apart(row, aims, column)
    least = min(column.values())
    return {node: at - least for node, at in column.items()}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _apart(row: list[str], aim_of: Mapping[str, float], column: dict[str, float]) -> None:
    """Columns for a row in order: where they are wanted if that is a column apart from those before, and all of them
    moved so that they are there on average."""
    aims = [aim_of[node] for node in row]
    at, right = -1e9, 0.0
    for node in row:
        half = _POINT / 2 if "\0" in node else 0.5
        at = max(aim_of[node], at + right + half)
        column[node], right = at, half
    shift = sum(column[node] - aim for node, aim in zip(row, aims, strict=True)) / len(row)
    for node in row:
        column[node] -= shift
