# SPDX-License-Identifier: Apache-2.0
"""Routers that run FRR (10.3 or newer, for `static-sids`), and the lab of such routers for `containerlab deploy`."""

from __future__ import annotations

from typing import Any

import yaml

from detour.control.routers.linux import MAKE_DUMMY
from detour.control.routers.nodes import USID_PREFIX, Router, interface_names
from detour.topo import Topology
from detour.topo.failures import Failures, dead_switches

_IMAGE = "quay.io/frrouting/frr:10.5.1"
_LOCATOR = "MAIN"
DAEMONS = "zebra=yes\nstaticd=yes\n" + "".join(f"{name}=no\n" for name in ("bgpd", "ospfd", "ospf6d", "isisd"))


def frr_conf(router: Router) -> str:
    """`frr.conf` of a router. A uA has the form with the node's uSID in front: FRR keeps one SID for each neighbour,
    so not also the one without."""
    lines = [f"hostname {router.name}", "!"]
    for each in router.interfaces:
        lines += [f"interface {each.name}", f" ipv6 address {each.address}/64", "exit", "!"]
    lines += [
        "segment-routing",
        " srv6",
        "  locators",
        f"   locator {_LOCATOR}",
        f"    prefix {router.locator}/48 block-len 32 node-len 16 func-bits 16",
        "    behavior usid",
        "   exit",
        "  exit",
        "  static-sids",
    ]
    for sid in router.sids:
        if sid.interface is None:
            lines.append(f"   sid {sid.prefix} locator {_LOCATOR} behavior uN")
        elif sid.bits > 16:
            where = f"interface {sid.interface.name} nexthop {sid.interface.neighbour}"
            lines.append(f"   sid {sid.prefix} locator {_LOCATOR} behavior uA {where}")
    lines += ["  exit", " exit", "exit", "!"]
    for route in router.routes:
        lines += [f"ipv6 route {route.prefix} {each.neighbour} {each.name}" for each in route.via]
    return "\n".join([*lines, f"ipv6 route {USID_PREFIX} blackhole", ""])


def lab(topology: Topology, failures: Failures) -> str:
    """`NAME.clab.yml` for containerlab: every live switch and every host as a container, with the files that `export`
    writes beside it."""
    down, names, called = dead_switches(failures), topology.file_names, interface_names(topology)
    sysctls = {f"net.ipv6.conf.{key}": 1 for key in ("all.forwarding", "all.seg6_enabled", "default.seg6_enabled")}
    make_dummy = [f"sh -c '{command}'" for command in MAKE_DUMMY]
    nodes: dict[str, Any] = {}
    for switch in topology.switches:
        if switch.index not in down:
            name = names[switch.name]
            binds = [f"{name}.conf:/etc/frr/frr.conf", "daemons:/etc/frr/daemons"]
            nodes[name] = {"group": "switch", "binds": binds, "exec": make_dummy}
    for host in topology.hosts:
        name = names[host.name]
        nodes[name] = {"group": "host", "binds": [f"{name}.sh:/{name}.sh"], "exec": [f"sh /{name}.sh"]}
    links = []
    for link in topology.links:
        switches = {link.a[0]} | ({link.b[0]} if link.kind != "host" else set())
        if not switches & down:
            nodes_b = topology.hosts if link.kind == "host" else topology.switches
            ends = ((topology.switches[link.a[0]].name, link.a[1]), (nodes_b[link.b[0]].name, link.b[1]))
            ends = [f"{names[name]}:{called[name, port]}" for name, port in ends]
            links.append({"endpoints": ends})
    kinds = {"linux": {"image": _IMAGE, "sysctls": sysctls}}
    network = {"defaults": {"kind": "linux"}, "kinds": kinds, "nodes": nodes, "links": links}
    return yaml.safe_dump({"name": "detour", "topology": network}, sort_keys=False, width=120)
