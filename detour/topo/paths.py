# SPDX-License-Identifier: Apache-2.0
"""Paths as sequences of stops: shortest ones, those by way of an intermediate group, and their uSID lists.

A *stop* is a switch and the link by which a path comes to it. Nearly always one link joins two switches, and then the
stop is the switch's index. Where parallel links do, the index itself stands for the first of them, and the index plus
k times the number of switches for the one with k before it (`Topology.links_between`).
"""

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
"""Stops, first the source host's switch, last the destination host's."""


def switch_at(topology: Topology, stop: int) -> int:
    """The switch of a stop."""
    return stop % len(topology.switches)


def parse_stop(topology: Topology, name: str) -> int:
    """The stop of that name (`Topology.path_names`). Raises `DetourError`: there is no such switch."""
    switch, mark, copy = name.rpartition("#")
    if mark and re.fullmatch("[1-9][0-9]{0,3}", copy) and topology.finder.node(name) is None:
        return topology.switch(switch).index + (int(copy) - 1) * len(topology.switches)
    return topology.switch(name).index


def port_towards(topology: Topology, at: int, stop: int) -> int:
    """The port by which a switch sends to a stop, which a link joins to it."""
    number, switch = divmod(stop, len(topology.switches))
    link = topology.links_between(at, switch)[number]
    return (link.a if link.a[0] == at else link.b)[1]


def directed_links(topology: Topology, path: SwitchPath) -> Iterator[tuple[int, int]]:
    """The links of a path, each as the switch where it begins and the stop that it leads to."""
    for before, stop in pairwise(path):
        yield switch_at(topology, before), stop


class Bounds(NamedTuple):
    """Largest numbers of switches on a path: with the source bit 0, with the source bit 1."""

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
    """Return whether the live switches of some group no longer reach one another inside it."""
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
    """All shortest paths between two switches, over each of parallel links (none if there is no connection)."""
    if source == target:
        yield (source,)
        return
    switch = topology.switches[source]
    for port in next_hops(topology, source, target, failures):
        peer = switch.ports[port - 1]
        if peer is not None:
            stop = topology.stop_at(peer.index, peer.port)
            for rest in shortest_paths(topology, peer.index, target, failures):
                yield (source, stop, *rest[1:])


def via_paths(
    topology: Topology, source: int, target: int, via: int, failures: Failures = NONE
) -> Iterator[SwitchPath]:
    """All paths that the data plane takes by way of a group: to it over a direct link, on from there. Raises
    `DetourError`: `via` is not an intermediate group for these two switches."""
    here, there = topology.switches[source].group, topology.switches[target].group
    if not 0 <= via < topology.valiant_groups or via in (here, there) or here == there:
        ends = " to ".join(topology.path_names((source, target)))
        raise DetourError(
            f"{ends}: group {via} is not an intermediate group of {topology.spec} between group {here} and group "
            f"{there}"
        )
    for head in _into(topology, source, via, failures):
        for rest in shortest_paths(topology, switch_at(topology, head[-1]), target, failures):
            yield head + rest[1:]


def _into(topology: Topology, source: int, via: int, failures: Failures) -> Iterator[SwitchPath]:
    """Paths from a switch inside its group to a link into `via`, the switch behind that link included."""
    for port in live_graph(topology, failures).ports[columns_into(topology, source, via, failures)].tolist():
        peer = topology.switches[source].peer(port)
        assert peer is not None, "a live link has two ends"
        stop = topology.stop_at(peer.index, peer.port)
        if exits(topology, failures)[source, via]:
            yield source, stop
        else:
            yield from ((source, stop, *rest[1:]) for rest in _into(topology, peer.index, via, failures))


def path_usids(topology: Topology, path: SwitchPath, target: Host) -> tuple[int, ...]:
    """The uSID list that pins a path: one uSID for every switch after the first, then the host's. It is the switch's
    uN, or, where parallel links lead there, the uA of one of them. A list too long is thinned out: the uSID of a switch
    that lies on the only shortest path between those named around it says nothing. Raises `DetourError`: it is not a
    path of this topology, does not end at the host, or needs more than six uSIDs."""
    if not path or switch_at(topology, path[-1]) != target.switch:
        last, *given = topology.path_names((target.switch, *path[-1:]))
        raise DetourError(f"a path to {target.name} ends at {last}, not at {' '.join(given) or 'nothing'}")
    hops = list(directed_links(topology, path))
    for a, stop in hops:
        number, b = divmod(stop, len(topology.switches))
        if number >= len(links := topology.links_between(a, b)):
            names = " and ".join(topology.path_names((a, b)))
            rule = f"have {len(links)} links, no #{number + 1}" if links else "are not neighbours"
            raise DetourError(f"path: {names} {rule} in {topology.spec}")
    usids = (*(_usid(topology, *hop) for hop in hops), target.node_id)
    if len(usids) > address.MAX_USIDS:
        usids = (*_waypoints(topology, path), target.node_id)
    if len(usids) > address.MAX_USIDS:
        names = " ".join(topology.path_names(path))
        raise DetourError(f"path {names} to {target.name} needs {len(usids)} uSIDs, at most {address.MAX_USIDS} fit")
    return usids


def _usid(topology: Topology, at: int, stop: int) -> int:
    """Return the uSID that leads from a switch to a stop: the uA of the link where there are several, else the uN."""
    switch = switch_at(topology, stop)
    if len(topology.links_between(at, switch)) < 2:
        return topology.switches[switch].node_id
    return address.adjacency_function(port_towards(topology, at, stop))


def completed_usids(topology: Topology, usids: tuple[int, ...], target: Host) -> tuple[int, ...]:
    """A list of uSIDs that ends at a host."""
    if usids[-1] == target.node_id:
        return usids
    # A host's uSID is known at its own switch only.
    last = topology.switches[target.switch].node_id
    return (*usids, target.node_id) if usids[-1] == last else (*usids, last, target.node_id)


def named_switches(topology: Topology, source: Host, usids: Sequence[int]) -> SwitchPath | None:
    """The stops of a host's packets by a uSID list which names each switch (or, by uA, the link to it); None if it
    leaves some of the way to routes, as a switch's uSID leaves it to them which of parallel links to take."""
    path = [source.switch]
    for usid in usids:
        here = topology.switches[switch_at(topology, path[-1])]
        peers = [peer for peer in here.ports if peer is not None and peer.kind != "host"]
        if usid >= address.FIRST_FUNCTION:
            port = usid - address.FIRST_FUNCTION
            peer = here.peer(port) if port <= len(here.ports) else None
            peers = [peer] if peer is not None and peer.kind != "host" else []
        elif usid >= address.FIRST_HOST:
            at_end = any(host.node_id == usid for host in topology.hosts_of[here.index])
            return tuple(path) if at_end and usid == usids[-1] else None
        elif usid == here.node_id:
            continue
        else:
            peers = [peer for peer in peers if topology.switches[peer.index].node_id == usid]
        if len(peers) != 1:
            return None
        path.append(topology.stop_at(peers[0].index, peers[0].port))
    return None


def _waypoints(topology: Topology, path: SwitchPath) -> list[int]:
    """The fewest uSIDs of a path that pin it; the last one leads to its end."""
    waypoints, at = [], 0
    while at < len(path) - 1:
        ahead = len(path) - 1
        while ahead > at + 1 and not _is_only_path(topology, path[at : ahead + 1]):
            ahead -= 1
        alone = ahead == at + 1
        here, there = switch_at(topology, path[at]), path[ahead]
        waypoints.append(_usid(topology, here, there) if alone else topology.switches[there].node_id)
        at = ahead
    return waypoints


def _is_only_path(topology: Topology, path: SwitchPath) -> bool:
    first, last = switch_at(topology, path[0]), switch_at(topology, path[-1])
    if int(hops(distances(topology))[first, last]) != len(path) - 1:
        return False
    candidates = shortest_paths(topology, first, last)
    return next(candidates, None) == (first, *path[1:]) and next(candidates, None) is None


def parse_usid_list(topology: Topology, text: str) -> tuple[int, ...]:
    """uSIDs from a text like `s1,s7,h12` or `2,8,800c` (hexadecimal); separated by commas, colons or blanks. `e003` (or
    `p3`) is the link behind port 3 of the switch named before it. Raises `DetourError`: a part means no uSID, or there
    are none or too many."""
    parts = text.replace(",", " ").replace(":", " ").split()
    usids = tuple(_parse_usid(topology, part) for part in parts)
    address.usid_address(usids)
    return usids


def usid_list_text(topology: Topology, path: SwitchPath, target: int) -> str:
    """The list for a path to a host as text that `parse_usid_list` understands."""
    return ",".join(f"{usid:#x}" for usid in path_usids(topology, path, topology.hosts[target]))


def _number(part: str) -> int | None:
    """Parse a part of a list given by number: `p3`, `800c`, `0x2`; None: nothing."""
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
