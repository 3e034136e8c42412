# SPDX-License-Identifier: Apache-2.0
"""What switches and senders must know to use the routes: uSID lists of paths, and where the lossless priority rises.

The priority rises by (in-port, out-port) alone (section III-D): that pair tells whether a packet has come down and goes
up again. A switch needs no more than the set of these pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, TableEntry, Ternary
from detour.control.expander.routes import Routes
from detour.topo.expander.network import Expander
from detour.topo.paths import path_usids
from detour.topo.topology import Host


class SidPath(NamedTuple):
    """A path, the uSIDs that pin it (the destination host's last), and the lossless priority of every hop from 0."""

    switches: tuple[int, ...]
    usids: tuple[int, ...]
    priorities: tuple[int, ...]


def sid_paths(routes: Routes, source: Host, target: Host) -> list[SidPath]:
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


def check_lengths(routes: Routes) -> None:
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


def rising_ports(network: Expander) -> list[list[tuple[int, int]]]:
    """For every switch the (in-port, out-port) at which the lossless priority rises by one, ascending.

    Ports as in `network.topology`; a packet that a host sends in never rises.
    """
    ch, found = network.channels, []
    for switch in range(network.size):
        first = int(network.hosts[switch]) + 1
        columns = np.flatnonzero(ch.neighbour[switch] >= 0)
        entered = np.array([ch.enter[ch.neighbour[switch, c], ch.back[switch, c]] for c in columns])
        left = ch.leave[switch, columns]
        pairs = np.argwhere(left[None, :] < entered[:, None])
        found.append([(first + int(columns[i]), first + int(columns[o])) for i, o in pairs if i != o])
    return found


def plan_rising(network: Expander, priorities: int) -> list[list[TableEntry]]:
    """For every switch the entries of `channel` that raise a packet's priority (its DSCP) by one at `rising_ports`.

    A packet in the last priority keeps it; `routes.compute` makes no path that would need more.
    """
    found = []
    for pairs in rising_ports(network):
        entries = []
        for into, out in pairs:
            for v in range(priorities - 1):
                match = {
                    schema.DSCP_FIELD: v,
                    schema.IN_PORT: Ternary(into, schema.PORT_MASK),
                    schema.EGRESS_SPEC: Ternary(out, schema.PORT_MASK),
                }
                action = Action.of(schema.SET_CHANNEL, dscp=v + 1, priority=v + 1)
                entries.append(TableEntry.of(schema.CHANNEL, match, action, priority=1))
        found.append(entries)
    return found
