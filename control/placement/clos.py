# SPDX-License-Identifier: Apache-2.0
"""What placement has to know of a Clos network with failures: directed links, next hops, where flows enter and leave.

A *path row* has the switches that a flow passes, from the sender's edge switch to the receiver's, filled up with -1.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError
from detour.control.routes.routing import NextHops
from detour.topo import Topology
from detour.topo.failures import NONE, Failures, dead_links, dead_switches
from detour.topo.graph import FAR, distances
from detour.topo.paths import SwitchPath, shortest_paths

CLOS_FAMILIES = ("leaf-spine", "fat-tree")
LONGEST = 5
"""switches on the longest path: edge, aggregation, core, aggregation, edge"""


class Clos:
    """See the module."""

    def __init__(self, topology: Topology, failures: Failures = NONE) -> None:
        """
        Raises:
            DetourError: it is no Clos network.
        """
        if topology.family not in CLOS_FAMILIES:
            raise DetourError(f"placement is for {' and '.join(CLOS_FAMILIES)} networks; {topology.spec} is neither")
        self.topology, self.failures = topology, failures
        self.tiers = 2 if topology.family == "leaf-spine" else 3
        self.edge_of = np.array([host.switch for host in topology.hosts], np.int32)
        self.group_of = np.array([switch.group for switch in topology.switches], np.int32)
        dead = dead_links(topology, failures)
        count = len(topology.switches)
        self.link = np.full((count, count), -1, np.int32)
        """(switches, switches) number of the live link from one to the other, -1: none"""
        self.names: list[str] = []
        """of directed links, like `s0-s4`"""
        for link in topology.links:
            if link.kind == "host" or link.index in dead:
                continue
            for a, b in ((link.a[0], link.b[0]), (link.b[0], link.a[0])):
                self.link[a, b] = len(self.names)
                self.names.append(f"s{a}-s{b}")

    @property
    def links(self) -> int:
        """Number of live directed links between switches."""
        return len(self.names)

    @cached_property
    def up_links(self) -> Int32Array:
        """(switches,) live links to a higher tier."""
        tier = np.array([switch.tier for switch in self.topology.switches])
        return ((self.link >= 0) & (tier[None, :] > tier[:, None])).sum(axis=1).astype(np.int32)

    @cached_property
    def lost_hosts(self) -> NDArray[np.bool_]:
        """(hosts,) whether a host's switch or link is down."""
        dead, down = dead_links(self.topology, self.failures), dead_switches(self.failures)
        links = [self.topology.link(f"s{host.switch}-{host.name}").index for host in self.topology.hosts]
        return np.array([h.switch in down or n in dead for h, n in zip(self.topology.hosts, links, strict=True)])

    def unreachable(self, source: Int32Array, target: Int32Array) -> NDArray[np.intp]:
        """Which of the pairs of hosts have no path between them."""
        far = distances(self.topology, self.failures)[self.edge_of[source], self.edge_of[target]] >= FAR
        return np.flatnonzero(far | self.lost_hosts[source] | self.lost_hosts[target])

    @cached_property
    def tops(self) -> Int32Array | None:
        """Two tiers: the live spines if every live leaf reaches each of them, else None. Three tiers: an array with the
        number of links up of a switch if nothing between switches is broken, else None."""
        down = dead_switches(self.failures)
        if self.tiers == 3:
            broken = self.links != 2 * sum(link.kind != "host" for link in self.topology.links)
            return None if broken else np.arange(int(self.up_links.max()), dtype=np.int32)
        live = [s.index for s in self.topology.switches if s.index not in down]
        spines = np.array([s for s in live if self.topology.switches[s].tier == 1], np.int32)
        leaves = np.array([s for s in live if self.topology.switches[s].tier == 0], np.int32)
        whole = len(spines) > 0 and (self.link[np.ix_(leaves, spines)] >= 0).all()
        return spines if whole else None

    def candidates(self, a: int, b: int) -> list[SwitchPath]:
        """All shortest paths between two edge switches."""
        return list(shortest_paths(self.topology, a, b, self.failures))

    @cached_property
    def next_hops(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """What the `route` tables let a switch choose from: (switches, switches) number of the choice by switch and
        destination's edge switch, (choices,) sizes, (choices, widest) next switches in the members' order."""
        switches = self.topology.switches
        edges = sorted(set(self.edge_of.tolist()))
        number = np.full((len(switches), len(switches)), -1, np.int32)
        found: dict[tuple[int, ...], int] = {}
        for switch in switches:
            routes = NextHops(self.topology, self.failures, switch.index)
            for edge in edges:
                if edge == switch.index or not routes.reachable(edge):
                    continue
                ports = (dict(choice.action.params)["port"] for choice in routes.actions(edge).choices)
                peers = tuple(peer.index for port in ports if (peer := switch.peer(port)) is not None)
                number[switch.index, edge] = found.setdefault(peers, len(found))
        widest = max(map(len, found), default=1)
        following = np.full((max(1, len(found)), widest), -1, np.int32)
        for peers, row in found.items():
            following[row, : len(peers)] = peers
        return number, (following >= 0).sum(axis=1).astype(np.int32), following


def loads(clos: Clos, path_rows: Int32Array) -> Int32Array:
    """(links,) flows on every directed link."""
    found = np.zeros(clos.links, np.int64)
    for a, b in zip(path_rows.T[:-1], path_rows.T[1:], strict=True):
        used = b >= 0
        found += np.bincount(clos.link[a[used], b[used]], minlength=clos.links)
    return found.astype(np.int32)


def collisions(load: NDArray[np.integer]) -> int:
    """Pairs of flows that share a link, summed over links: the number that a placement minimises. It is 0 if and only
    if no two flows meet, and, being convex, least where load is spread most evenly."""
    return int(colliding(load).sum())


def colliding(load: NDArray[np.integer]) -> NDArray[np.int64]:
    """(links,) pairs of flows that meet on every link."""
    wide = load.astype(np.int64)
    return wide * (wide - 1) // 2
