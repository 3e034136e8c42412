# SPDX-License-Identifier: Apache-2.0
"""Networks as other people's tools describe them: labs of containerlab, and what `ibnetdiscover` prints.

- containerlab: nodes whose `group` says so (host, server, client) are hosts, and nodes of kind `linux` with one link
  that run no router's image. Names of nodes and interfaces are kept. Links to the machine's own interfaces are left
  out. `impairments` of a link, as `containerlab tools netem set` takes them: `delay` and `rate` (kbit/s, each way).
- ibnetdiscover: `Switch` and `Ca` with their cables. Each port of an adapter that has a cable is a host; the
  aggregation nodes inside switches are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.quantities import rate_bps_of, time_ps_of
from detour.topo.listed import ListedEdge, ListedNetwork, ListedNode

_HOST_GROUPS = ("host", "hosts", "server", "servers", "client", "clients")
_ROUTER_IMAGE = re.compile("frr|bird|bgp|quagga|sonic|vyos|router")
_OUTSIDE_ENDS = ("host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy")
_SECTION = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"(?:.*?#\s*"([^"]*)")?')
_CABLE = re.compile(r'\[(\d+)\](?:\([0-9a-f]+\))?\s+"([^"]+)"\[(\d+)\](?:.*?\b(\d+)x([A-Z]+\d*))?')
_LANE_GBPS = {
    "SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200,
}  # fmt: skip


def network_of_lab(path: Path, document: Any) -> ListedNetwork:
    """The network of a parsed containerlab file. Raises `DetourError`: what is wrong, with element."""
    lab = document.get("topology") if isinstance(document, dict) else None
    if not isinstance(lab, dict) or not isinstance(lab.get("nodes"), dict):
        raise DetourError(f"{path}: it is not a containerlab file: that has topology: with nodes: and links:")
    nodes = {str(name): data or {} for name, data in lab["nodes"].items()}
    wrong = next((name for name, data in nodes.items() if not isinstance(data, dict)), None)
    if wrong is not None:
        raise DetourError(f"{path}, nodes.{wrong}: it is a mapping, not {nodes[wrong]!r:.40}")
    if not isinstance(links := lab.get("links") or [], list):
        raise DetourError(f"{path}: links is a list, not {links!r:.40}")
    edges = []
    for number, link in enumerate(links):
        where = f"links[{number}]"
        ends = _lab_ends(path, where, link)
        inside = [end for end in ends if end[0] in nodes or end[0] not in _OUTSIDE_ENDS]
        if len(inside) == 2:
            (a, at), (b, there) = inside
            terms = _impaired(path, where, link.get("impairments"))
            edges.append(ListedEdge(a, b, {"interfaces": {a: at, b: there}} | terms, where))
    degree = Counter(end for edge in edges for end in (edge.a, edge.b))
    kinds = {name: _lab_kind(lab, data, degree[name]) for name, data in nodes.items()}
    listed = [ListedNode(name, {"kind": kinds[name]}, f"nodes.{name}") for name in nodes]
    if not edges:
        raise DetourError(f"{path}: it has no links")
    return ListedNetwork(str(path), listed, edges)


def _lab_ends(path: Path, where: str, link: Any) -> list[tuple[str, str]]:
    """(node, interface) of both ends; one end only for links that leave the lab."""
    many = isinstance(link, dict) and "endpoints" in link
    ends = link.get("endpoints") if many else [link.get("endpoint")] if isinstance(link, dict) else None
    found = []
    for end in ends if isinstance(ends, list) else [None]:
        parts = end.split(":") if isinstance(end, str) else []
        if isinstance(end, dict):
            parts = [end.get("node"), end.get("interface")]
        found.append(tuple(parts[:2]))
    if len(found) != 1 + many or not all(len(end) == 2 and all(isinstance(p, str) and p for p in end) for end in found):
        raise DetourError(f'{path}, {where}: a link is like endpoints: ["leaf1:eth1", "spine1:eth1"], not {link!r:.60}')
    return found


def _impaired(path: Path, where: str, impairments: Any) -> dict[str, Any]:
    """Attributes of a link. What else netem does (loss, jitter) keeps its name, which means nothing here."""
    if not isinstance(impairments, dict):
        return {}
    terms = {f"impairments.{key}": value for key, value in impairments.items()}
    try:
        if delay := terms.pop("impairments.delay", None):
            terms["delay_ns"] = time_ps_of(str(delay)) / 1000
        if rate := terms.pop("impairments.rate", None):
            terms["gbps"] = rate_bps_of(f"{rate}k") / 1e9
    except DetourError as error:
        raise DetourError(f"{path}, {where}: impairments: {error}") from None
    return terms


def _lab_kind(lab: Mapping[str, Any], node: Mapping[str, Any], links: int) -> str:
    def said(key: str, *levels: Mapping[str, Any]) -> str:
        """Return the value of the first level that has one: the node, then these levels, then the lab's defaults."""
        return next((str(level[key]) for level in (node, *levels, _mapping(lab, "defaults")) if level.get(key)), "")

    in_group = _mapping(_mapping(lab, "groups"), group := said("group"))
    if group.lower() in (*_HOST_GROUPS, "switch"):
        return "switch" if group.lower() == "switch" else "host"
    kind = said("kind", in_group)
    image = said("image", in_group, _mapping(_mapping(lab, "kinds"), kind))
    return "host" if links == 1 and kind == "linux" and not _ROUTER_IMAGE.search(image) else "switch"


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def network_of_ibnetdiscover(path: Path, text: str) -> ListedNetwork:
    """The network that `ibnetdiscover` has found. Raises `DetourError`: what is wrong, with the line."""
    titles: dict[str, str] = {}  # by the identifier of a switch or an adapter
    lines: dict[str, int] = {}
    cables: dict[tuple[tuple[str, int], tuple[str, int]], tuple[float | None, int]] = {}
    here = ""
    for number, line in enumerate(text.splitlines(), 1):
        if section := _SECTION.match(line):
            here = section[2]
            if here in titles:
                raise DetourError(f"{path}, line {number}: {here} is already defined (line {lines[here]})")
            titles[here], lines[here] = section[3] or here, number
        elif cable := _CABLE.match(line):
            if not here:
                raise DetourError(f"{path}, line {number}: a cable before the first Switch or Ca")
            lane = _LANE_GBPS.get(cable[5] or "")
            rate = None if lane is None else int(cable[4]) * lane
            a, b = sorted([(here, int(cable[1])), (cable[2], int(cable[3]))])
            cables.setdefault((a, b), (rate, number))
        elif line.startswith("["):
            raise DetourError(f'{path}, line {number}: a cable is like [1] "S-0002c9"[13], not {line!r:.40}')
    if not titles:
        raise DetourError(f"{path}: it has no Switch; ibnetdiscover prints them")
    return _cabled(path, titles, lines, cables)


def _cabled(
    path: Path,
    titles: dict[str, str],
    lines: dict[str, int],
    cables: dict[tuple[tuple[str, int], tuple[str, int]], tuple[float | None, int]],
) -> ListedNetwork:
    for ends, (_, number) in cables.items():
        unknown = next((name for name, _ in ends if name not in titles), None)
        if unknown is not None:
            raise DetourError(
                f"{path}, line {number}: the cable leads to {unknown}, which is neither a Switch nor a Ca"
            )
    adapters = Counter(name for ends in cables for name, _ in ends if not name.startswith("S-"))
    count = Counter(titles.values())

    def node(name: str, port: int) -> str:
        title = titles[name] if count[titles[name]] == 1 else name
        return f"{title}/{port}" if adapters[name] > 1 else title

    nodes: dict[str, ListedNode] = {}
    edges: list[ListedEdge] = []
    for name, number in lines.items():
        if name.startswith("S-"):
            nodes[node(name, 0)] = ListedNode(node(name, 0), {"kind": "switch"}, f"line {number}")
    for ends, (rate, number) in cables.items():
        if any("Aggregation Node" in titles[name] for name, _ in ends):
            continue
        for name, port in ends:
            kind = "switch" if name.startswith("S-") else "host"
            nodes.setdefault(node(name, port), ListedNode(node(name, port), {"kind": kind}, f"line {lines[name]}"))
        a, b = sorted(node(name, port) for name, port in ends)
        edges.append(ListedEdge(a, b, {} if rate is None else {"gbps": rate}, f"line {number}"))
    if not edges:
        raise DetourError(f"{path}: it has no cables")
    return ListedNetwork(str(path), list(nodes.values()), edges)
