# SPDX-License-Identifier: Apache-2.0
"""A topology as the page draws it: places of switches and hosts, and links with their ends."""

from __future__ import annotations

from typing import Any

from detour.topo.draw import places
from detour.topo.topology import Topology


def graph_of(topology: Topology) -> dict[str, Any]:
    """`width`, `height` of the picture; `switches` and `hosts` with `name`, `x`, `y`; `links` with `name`, `kind`, the
    nodes at their ends (`a`, `b`) and the ports there (`ports`, None at a host), like `s0:3`."""
    drawn = places(topology)
    switches = [
        {"name": s.name, "group": s.group, "x": round(x, 1), "y": round(y, 1), "node": s.node_id}
        for s, (x, y) in zip(topology.switches, drawn.switches, strict=True)
    ]
    hosts = [
        {"name": h.name, "switch": topology.switches[h.switch].name, "x": round(x, 1), "y": round(y, 1)}
        for h, (x, y) in zip(topology.hosts, drawn.hosts, strict=True)
    ]
    links = []
    for link in topology.links:
        at_host = link.kind == "host"
        far = topology.hosts[link.b[0]].name if at_host else topology.switches[link.b[0]].name
        near = topology.switches[link.a[0]].name
        ports = [f"{near}:{link.a[1]}", None if at_host else f"{far}:{link.b[1]}"]
        links.append({"name": link.name, "kind": link.kind, "a": near, "b": far, "ports": ports})
    return {
        "width": round(drawn.width), "height": round(drawn.height), "groups": topology.groups,
        "family": topology.family, "switches": switches, "hosts": hosts, "links": links,
    }  # fmt: skip
