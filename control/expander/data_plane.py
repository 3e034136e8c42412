# SPDX-License-Identifier: Apache-2.0
"""What senders must know to use the routes: the uSID lists of paths. What switches must know is in `rising`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.errors import DetourError
from detour.control.expander.routes import ExpanderRoutes
from detour.topo.paths import path_usids
from detour.topo.topology import Host


class SidPath(NamedTuple):
    """A path, the uSIDs that pin it (the destination host's last), and the lossless priority of every hop from 0."""

    switches: tuple[int, ...]
    usids: tuple[int, ...]
    priorities: tuple[int, ...]


def sid_paths(routes: ExpanderRoutes, source: Host, target: Host) -> list[SidPath]:
    """The uSID lists of all paths between two hosts on different switches.

    Raises:
        DetourError: a path needs more than six uSIDs, or there are no routes between the hosts' switches.
    """
    topology = routes.network.topology
    found = []
    for switches, priorities in routes.of(source.switch, target.switch):
        usids = path_usids(topology, tuple(switches), target)
        found.append(SidPath(tuple(switches), usids, tuple(priorities)))
    return found


def check_lengths(routes: ExpanderRoutes) -> None:
    """Refuses routes whose paths could not be pinned by six uSIDs, before any host is told of them.

    A path of six hops or more may still fit, as a switch on the only shortest path between its neighbours in the list
    needs no uSID; only such paths are looked at one by one.

    Raises:
        DetourError: the first path that does not fit, and what to ask for instead.
    """
    topology = routes.network.topology
    long = np.flatnonzero(routes.length > 5)
    owner = np.searchsorted(routes.first, long, side="right") - 1
    for row, pair in zip(long.tolist(), owner.tolist(), strict=True):
        source, target = routes.pairs[pair].tolist()
        switches, _ = routes.path(row, source)
        try:
            path_usids(topology, tuple(switches), topology.hosts_of[target][0])
        except DetourError as error:
            raise DetourError(f"{error}; fewer paths (k), more priorities or max_hops=5 avoid it") from None
