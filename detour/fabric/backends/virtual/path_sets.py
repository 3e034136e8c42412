# SPDX-License-Identifier: Apache-2.0
"""Sets of paths between hosts whose NICs have a port in each of several planes: uSID lists, planes by turns.

An answer goes to the host's plain address, and switches choose its way by hash of the source port that the packet had.
So the port of every path is one by which answers come back over the same switches: what fails on the way there or back
is held against that path, and no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from detour.control.routes.hashes import PATHS, pick_member
from detour.topo import Topology
from detour.topo.paths import SwitchPath, next_hops, path_usids, shortest_paths
from detour.topo.topology import Host

SET_PATHS = 32
"""candidates of a connection that sprays over shortest paths: hashes of switches find most of them"""


class ListedPath(NamedTuple):
    """A uSID list and the source port of its packets."""

    usids: tuple[int, ...]
    sport: int


def path_set(topology: Topology, source: Host, target: Host, most: int, rng: random.Random) -> list[ListedPath]:
    """Paths between two hosts, as many of each plane, at most `most`."""
    by_plane: dict[int, list[SwitchPath]] = {}
    for path in shortest_paths(topology, source.switch, target.switch):
        by_plane.setdefault(path[1], []).append(path)
    for paths in by_plane.values():
        rng.shuffle(paths)
    turns = zip(*by_plane.values(), strict=True)
    chosen = islice((path for turn in turns for path in turn), most)
    return [ListedPath(path_usids(topology, path, target), _port_back(topology, path, rng)) for path in chosen]


def _port_back(topology: Topology, path: SwitchPath, rng: random.Random) -> int:
    """A source port, from a random one on, that leads from the end of a path back over its switches."""
    choices = list(_choices(topology, path[::-1]))
    start = rng.randrange(PATHS)
    for port in (port % PATHS for port in range(start, start + PATHS)):
        if all(pick_member(port, node, size) == member for node, size, member in choices):
            return port
    return start


def _choices(topology: Topology, path: SwitchPath) -> Iterator[tuple[int, int, int]]:
    """Return where switches on a path choose: node id, number of choices, and which of them is the path's."""
    for at, following in pairwise(path):
        switch = topology.switches[at]
        ports = next_hops(topology, at, path[-1])
        peers = [topology.stop_at(peer.index, peer.port) for port in ports if (peer := switch.peer(port)) is not None]
        if len(peers) > 1:
            yield switch.node_id, len(peers), peers.index(following)
