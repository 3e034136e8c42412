# SPDX-License-Identifier: Apache-2.0
"""Paths as sequences of switches: shortest ones, those by way of an intermediate group, and their uSID lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from detour.base.errors import DetourError
from detour.topo import address
from detour.topo.failures import NONE, Failures, dead_switches
from detour.topo.graph import (
    FAR,
    columns_into,
    distances,
    exit_distances,
    exits,
    hops,
    live_graph,
    local_distances,
    offered_distances,
)
from detour.topo.topology import Host, Topology

SwitchPath: TypeAlias = tuple[int, ...]
"""Indices of switches, first that of the source host, last that of the destination host."""


class Bounds(NamedTuple):
    """How many switches a packet may pass: with the source bit 0, with the source bit 1."""

    shortest: int
    detour: int


def bounds(topology: Topology, failures: Failures = NONE) -> Bounds:
    """The longest paths that the rules allow, from the graph alone. Intact, that is the longest shortest path; and the
    way inside the source group to the intermediate one, one global hop, and the longest shortest path from there. Where
    failures split a group, packets of one part may first have to reach the other one by a shortest path."""
    length = hops(distances(topology, failures))
    targets = sorted({host.switch for host in topology.hosts})
    to_hosts = np.where(length[:, targets] < FAR, length[:, targets], 0)
    shortest = int(to_hosts[targets].max()) + 1
    if topology.valiant_groups == 0:
        return Bounds(shortest, shortest)
    inside = exit_distances(topology, failures)
    detour = int(np.where(inside < FAR, inside, 0).max()) + 1 + int(to_hosts.max()) + 1
    return Bounds(shortest, max(shortest, detour) + (shortest - 1 if _any_group_split(topology, failures) else 0))


def _any_group_split(topology: Topology, failures: Failures) -> bool:
    """Whether the live switches of some group no longer reach one another inside it."""
    inside, down = local_distances(topology, failures), dead_switches(failures)
    live = ([s for s in members if s not in down] for members in topology.members)
    return any(bool((inside[np.ix_(members, members)] >= FAR).any()) for members in live if members)


def next_hops(topology: Topology, at: int, to: int, failures: Failures = NONE) -> list[int]:
    """Ports of switch `at` that begin shortest paths to switch `to`, ascending."""
    graph, distance = live_graph(topology, failures), distances(topology, failures)
    near = offered_distances(topology, failures)[graph.neighbour[at], to] + graph.weight[at] == distance[at, to]
    live = (graph.neighbour[at] >= 0) & (distance[at, to] < FAR)
    return [int(port) for port in graph.ports[near & live]]


def shortest_paths(topology: Topology, source: int, target: int, failures: Failures = NONE) -> Iterator[SwitchPath]:
    """All shortest paths between two switches (none if there is no connection). Two parallel links make one path: a
    path names switches."""
    if source == target:
        yield (source,)
        return
    switch = topology.switches[source]
    seen = set()
    for port in next_hops(topology, source, target, failures):
        peer = switch.ports[port - 1]
        if peer is not None and peer.index not in seen:
            seen.add(peer.index)
            for rest in shortest_paths(topology, peer.index, target, failures):
                yield (source, *rest)


def via_paths(
    topology: Topology, source: int, target: int, via: int, failures: Failures = NONE
) -> Iterator[SwitchPath]:
    """All paths that the data plane takes by way of a group: to it over a direct link, on from there. Raises
    `DetourError`: `via` is no intermediate group for these two switches."""
    here, there = topology.switches[source].group, topology.switches[target].group
    if not 0 <= via < topology.valiant_groups or via in (here, there) or here == there:
        ends = " to ".join(topology.path_names((source, target)))
        raise DetourError(
            f"{ends}: group {via} is no intermediate group of {topology.spec} between group {here} and group {there}"
        )
    for head in _into(topology, source, via, failures):
        for rest in shortest_paths(topology, head[-1], target, failures):
            yield head[:-1] + rest


def _into(topology: Topology, source: int, via: int, failures: Failures) -> Iterator[SwitchPath]:
    """Paths from a switch inside its group to a link into `via`, the switch behind that link included."""
    neighbours = live_graph(topology, failures).neighbour[source][columns_into(topology, source, via, failures)]
    for peer in np.unique(neighbours).tolist():
        if exits(topology, failures)[source, via]:
            yield source, peer
        else:
            yield from ((source, *rest) for rest in _into(topology, peer, via, failures))


def path_usids(topology: Topology, path: SwitchPath, target: Host) -> tuple[int, ...]:
    """The uSID list that pins a path: one uSID for every switch after the first, then the host's. A list too long is
    thinned out: the uSID of a switch that lies on the only shortest path between those named around it says nothing.
    Raises `DetourError`: it is no path of this topology, does not end at the host, or needs more than six uSIDs."""
    if not path or path[-1] != target.switch:
        last, *given = topology.path_names((target.switch, *path[-1:]))
        raise DetourError(f"a path to {target.name} ends at {last}, not at {' '.join(given) or 'nothing'}")
    for a, b in pairwise(path):
        peers = {peer.index for peer in topology.switches[a].ports if peer is not None and peer.kind != "host"}
        if b not in peers:
            raise DetourError(
                f"path: {' and '.join(topology.path_names((a, b)))} are not neighbours in {topology.spec}"
            )
    usids = (*(topology.switches[s].node_id for s in path[1:]), target.node_id)
    if len(usids) > address.MAX_USIDS:
        usids = (*(topology.switches[s].node_id for s in _waypoints(topology, path)), target.node_id)
    if len(usids) > address.MAX_USIDS:
        names = " ".join(topology.path_names(path))
        raise DetourError(f"path {names} to {target.name} needs {len(usids)} uSIDs, at most {address.MAX_USIDS} fit")
    return usids


def completed_usids(topology: Topology, usids: tuple[int, ...], target: Host) -> tuple[int, ...]:
    """A list of uSIDs that ends at a host."""
    if usids[-1] == target.node_id:
        return usids
    # A host's uSID is known at its own switch only.
    last = topology.switches[target.switch].node_id
    return (*usids, target.node_id) if usids[-1] == last else (*usids, last, target.node_id)


def named_switches(topology: Topology, source: Host, usids: Sequence[int]) -> SwitchPath | None:
    """The switches that packets of a host pass by a uSID list which names each of them (or, by uA, the link to it);
    None if it leaves some of the way to routes."""
    path = [source.switch]
    for usid in usids:
        here = topology.switches[path[-1]]
        peers = [peer for peer in here.ports if peer is not None and peer.kind != "host"]
        if usid >= address.FIRST_FUNCTION:
            port = usid - address.FIRST_FUNCTION
            peer = here.peer(port) if port <= len(here.ports) else None
            peers = [peer] if peer is not None and peer.kind != "host" else []
        elif usid >= address.FIRST_HOST:
            at_end = any(host.node_id == usid for host in topology.hosts_of[path[-1]])
            return tuple(path) if at_end and usid == usids[-1] else None
        elif usid == here.node_id:
            continue
        else:
            peers = [peer for peer in peers if topology.switches[peer.index].node_id == usid]
        if not peers:
            return None
        path.append(peers[0].index)
    return None


def _waypoints(topology: Topology, path: SwitchPath) -> Sequence[int]:
    """The fewest switches of a path after the first that pin it, the last one included."""
    waypoints, at = [], 0
    while at < len(path) - 1:
        ahead = len(path) - 1
        while ahead > at + 1 and not _is_only_path(topology, path[at : ahead + 1]):
            ahead -= 1
        waypoints.append(path[ahead])
        at = ahead
    return waypoints


def _is_only_path(topology: Topology, path: SwitchPath) -> bool:
    length = int(hops(distances(topology))[path[0], path[-1]])
    if length != len(path) - 1:
        return False
    candidates = shortest_paths(topology, path[0], path[-1])
    return next(candidates, None) == path and next(candidates, None) is None


def parse_usid_list(topology: Topology, text: str) -> tuple[int, ...]:
    """uSIDs from a text like `s1,s7,h12` or `2,8,800c` (hexadecimal); separated by commas, colons or blanks. `e003` (or
    `p3`) is the link behind port 3 of the switch named before it. Raises `DetourError`: a part means no uSID, or there
    are none or too many."""
    parts = text.replace(",", " ").replace(":", " ").split()
    usids = tuple(_parse_usid(topology, part) for part in parts)
    address.usid_address(usids)
    return usids


def usid_list_text(topology: Topology, path: SwitchPath, target: int) -> str:
    """The list for a path of switches to a host as text that `parse_usid_list` understands."""
    nodes = [*(topology.switches[switch] for switch in path[1:]), topology.hosts[target]]
    return ",".join(
        f"{node.node_id:#x}" if _number(node.name) is not None or re.search(r"[\s,:]", node.name) else node.name
        for node in nodes
    )


def _number(part: str) -> int | None:
    """What a part of a list says by number: `p3`, `800c`, `0x2`; None: nothing."""
    if re.fullmatch("p[0-9]{1,3}", part):
        return address.adjacency_function(int(part[1:]))
    return int(part, 16) if re.fullmatch("(0x)?[0-9a-fA-F]{1,8}", part) else None


def _parse_usid(topology: Topology, part: str) -> int:
    node = topology.finder.node(part)
    if node is None and not topology.names and part.startswith(("s", "h")):
        topology.finder.index("switch" if part.startswith("s") else "host", part)  # says which there are
    number = _number(part)
    if node is None:
        if number is None or not 1 <= number <= 0xFFFF:
            raise DetourError(f"uSID {part!r}: a switch (s3), a host (h7), a port (p2) or hexadecimal 1 to ffff")
        return number
    kind, index = node
    usid = (topology.switches if kind == "switch" else topology.hosts)[index].node_id
    if number not in (None, usid):
        raise DetourError(
            f"uSID {part!r} may be the {kind} of that name ({kind[0]}{index}) or {number:#x}: write either"
        )
    return usid
