# SPDX-License-Identifier: Apache-2.0
"""Entries for detours: from a switch of the source group into an intermediate group (`detour`), and intermediate
groups that must not be used for a destination (`cut_off`).

The data plane repeats the choice of the intermediate group at every switch of the source group, so a packet
that came back to its source group would be sent off again. Hence two rules. A switch has an entry for a group
only if it reaches a live direct link to it *inside* its own group. And a group is cut off from a destination if
it lost its direct links to it, or if shortest paths from where packets enter it touch the source group.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from detour.control import schema
from detour.control.entries import Action, ActionSet, TableEntry
from detour.topo.failures import Failures
from detour.topo.graph import FAR, GLOBAL, columns_into, distances, exit_distances, exits, live_graph
from detour.topo.topology import Switch, Topology


def plan_detours(topology: Topology, failures: Failures, switch: Switch) -> Iterator[TableEntry]:
    """All entries of `detour` and `cut_off` of one live switch of a topology with Valiant routing."""
    left = exit_distances(topology, failures)[switch.index]
    cut = cut_off_groups(topology, failures, switch.group)
    for via in range(topology.valiant_groups):
        if via != switch.group and left[via] < FAR:
            ports = ports_into(topology, failures, switch.index, via)
            choice = ActionSet.of(Action.of(schema.TOWARDS, port=port) for port in ports)
            yield TableEntry(schema.DETOUR, ((schema.VIA, via),), choice)
            for group in cut[via]:
                match = ((schema.VIA, via), (schema.DESTINATION_GROUP, group))
                yield TableEntry(schema.CUT_OFF, match, Action(schema.NO_ACTION))


def ports_into(topology: Topology, failures: Failures, at: int, via: int) -> list[int]:
    """Direct links to the group if the switch has any, else local links one hop closer to one; at most 64."""
    chosen = columns_into(topology, at, via, failures)
    return live_graph(topology, failures).ports[chosen][: schema.MAX_GROUP_SIZE].tolist()


@lru_cache(maxsize=1024)
def cut_off_groups(topology: Topology, failures: Failures, source: int) -> tuple[tuple[int, ...], ...]:
    """For packets of the source group: by intermediate group, the destination groups it is cut off from."""
    direct, touched = exits(topology, failures), _touched_groups(topology, failures)
    joined = np.array([direct[list(members)].any(axis=0) for members in topology.members])
    populated = [group for group in range(topology.valiant_groups) if _targets(topology, failures, group)]
    return tuple(
        tuple(
            group
            for group in populated
            if group not in (via, source)
            and (not joined[via, group] or any(source in touched.get((e, group), ()) for e in entries))
        )
        for via, entries in enumerate(_entries_from(topology, failures, source))
    )


def _entries_from(topology: Topology, failures: Failures, source: int) -> list[list[int]]:
    """By group: the switches at which live links from the source group arrive."""
    graph = live_graph(topology, failures)
    arrivals: list[set[int]] = [set() for _ in range(topology.valiant_groups)]
    for s in topology.members[source]:
        for peer in graph.neighbour[s][graph.weight[s] == GLOBAL].tolist():
            arrivals[int(graph.group[peer])].add(peer)
    return [sorted(entries) for entries in arrivals]


def _targets(topology: Topology, failures: Failures, group: int) -> list[int]:
    """Live switches with hosts of a group."""
    down = {failure.index for failure in failures if failure.kind == "switch"}
    return [s for s in topology.members[group] if topology.hosts_of[s] and s not in down]


@lru_cache(maxsize=16)
def _touched_groups(topology: Topology, failures: Failures) -> dict[tuple[int, int], frozenset[int]]:
    """(switch, destination group) -> groups on the way, for those whose way takes more than one global hop.

    A single global hop leads from a group straight into the destination group and touches no other."""
    distance, group_of = distances(topology, failures), live_graph(topology, failures).group
    touched: dict[tuple[int, int], frozenset[int]] = {}
    for group in range(topology.valiant_groups):
        targets = _targets(topology, failures, group)
        if not targets:
            continue
        to = distance[:, targets]
        indirect = ((to < FAR) & (to >= 2 * GLOBAL)).any(axis=1)
        for switch in np.flatnonzero(indirect).tolist():
            if topology.switches[switch].group != group:
                # A switch is on a shortest path if the distances to both ends add up.
                shortest = (distance[switch][:, None] + to == to[switch]) & (to[switch] < FAR)
                touched[switch, group] = frozenset(group_of[shortest.any(axis=1)].tolist())
    return touched
