# SPDX-License-Identifier: Apache-2.0
"""Spraypoint (arXiv 2604.15261, section 5): who points where, by destination switch; same input, same output.

The switch of the sender sprays over all its neighbours, and from there on packets point towards the destination's
switch t. Switches have levels: WP0 are t's neighbours; WPi are p switches for each of WP(i-1) among its neighbours that
have no level yet, up to WPl; the inner ring (IR) is what else is beside WPl, the outer ring (OR) the rest. WP0 points
to t, WPi to h of its neighbours in WP(i-1), the inner ring to h in WPl, the outer ring to h on its shortest paths to
the inner one. Every hop lowers the level, so pointing cannot loop.

Who is drawn follows from a hash of t and both ends of a link. So all switches draw alike, and a failed link changes
what it is part of, and little else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import BoolArray, Int32Array
from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, ActionSet, DefaultAction, Entity, TableEntry
from detour.control.policy import Policy, Routing
from detour.control.routes.routing import forward_choice, switch_route
from detour.topo import address
from detour.topo.failures import NONE, Failures
from detour.topo.graph import live_graph
from detour.topo.topology import Switch, Topology

UNREACHED = -1


@dataclass(frozen=True)
class SpraypointParameters:
    """Waypoints `p` and members `h` of the paper, its own values by default; `seed` of the draws. Choices are made once
    for a flow; `gap` above 0: anew when it has paused for more ticks (1 us in real time, 1 ns in virtual time);
    `per_packet` 1: for every packet."""

    p: int = 4
    h: int = 2
    seed: int = 1
    gap: int = 0
    per_packet: int = 0

    def __post_init__(self) -> None:
        for name in ("p", "h"):
            if not 1 <= getattr(self, name) <= schema.MAX_GROUP_SIZE:
                raise DetourError(f"spraypoint: {name}={getattr(self, name)} is not 1 to {schema.MAX_GROUP_SIZE}")
        if self.gap < 0 or self.per_packet not in (0, 1) or (self.gap and self.per_packet):
            raise DetourError("spraypoint: gap is 0 or more, per_packet 0 or 1, and one of them 0")


class Pointing(NamedTuple):
    """Pointing to one destination: `level` (switches,) 0 at the destination, 1 in WP0, 2 in WP1..., `UNREACHED` where
    no path leads there; `next_hop` (switches, columns) whether a switch points over that column."""

    level: Int32Array
    next_hop: BoolArray


def level_count(switches: int, degree: float, waypoints: int) -> int:
    """l, the number of waypoint levels beyond WP0 (section 5)."""
    beyond = switches / (2 * degree**2)
    return max(1, math.ceil(math.log(beyond, waypoints))) if beyond > 1 and waypoints > 1 else 1


def pointings(
    topology: Topology, settings: SpraypointParameters, failures: Failures = NONE
) -> Iterator[tuple[int, Pointing]]:
    """Each switch that has hosts, and how the others point to it."""
    targets = (switch.index for switch in topology.switches if topology.hosts_of[switch.index])
    return pointings_to(live_graph(topology, failures).neighbour, targets, settings)


def pointings_to(
    neighbour: Int32Array, targets: Iterable[int], settings: SpraypointParameters
) -> Iterator[tuple[int, Pointing]]:
    """Each target, and how the other switches point to it over the columns of `neighbour` (switches, columns), the
    switch behind each, -1 for none. Who points to whom does not depend on the order of columns."""
    degree = float((neighbour >= 0).sum(axis=1).mean())
    levels = level_count(len(neighbour), max(degree, 1.0), settings.p)
    for target in targets:
        yield target, _pointing(neighbour, target, levels, settings)


def _pointing(neighbour: Int32Array, target: int, levels: int, settings: SpraypointParameters) -> Pointing:
    there = neighbour >= 0
    rank = _draws(neighbour, target, settings.seed)
    level = np.full(len(neighbour), UNREACHED, np.int32)
    level[target] = 0
    members = np.array([target])
    for index in range(levels + 1):
        free = there[members] & (level[neighbour[members]] == UNREACHED)
        drawn = free if index == 0 else _least(rank[members], free, settings.p)
        members = np.unique(neighbour[members][drawn])
        level[members] = index + 1
    ring = levels + 2
    while members.size:  # the inner ring, then the outer one by its distance
        members = np.unique(neighbour[members][there[members] & (level[neighbour[members]] == UNREACHED)])
        level[members] = ring
        ring += 1
    _join_rest(neighbour, there, level)
    below = there & (level[neighbour] == level[:, None] - 1) & (level > 0)[:, None]
    return Pointing(level, _least(rank, below, settings.h))


def _join_rest(neighbour: Int32Array, there: BoolArray, level: Int32Array) -> None:
    """Give levels, in place, to switches whose every neighbour is a waypoint before the last level and did not draw
    them: one above the lowest neighbour. Few graphs have any."""
    while True:
        joined = there & (level[neighbour] != UNREACHED)
        rest = (level == UNREACHED) & joined.any(axis=1)
        if not rest.any():
            return
        lowest = np.where(joined, level[neighbour], len(level)).min(axis=1)
        level[rest] = 1 + lowest[rest]


def _least(rank: NDArray[np.uint64], allowed: BoolArray, count: int) -> BoolArray:
    """(rows, columns) the `count` allowed columns of each row with the least ranks, or all if there are fewer."""
    keyed = np.where(allowed, rank, np.iinfo(np.uint64).max)
    if keyed.shape[1] <= count:
        return allowed
    limit = np.partition(keyed, count - 1, axis=1)[:, count - 1, None]
    return allowed & (keyed <= limit)


def _draws(neighbour: Int32Array, target: int, seed: int) -> NDArray[np.uint64]:
    """(switches, columns) a number for every link end, by splitmix64 (Steele et al., OOPSLA 2014)."""
    n = len(neighbour)
    value = np.arange(n, dtype=np.uint64)[:, None] * np.uint64(n) + np.maximum(neighbour, 0).astype(np.uint64)
    for key in (seed, target):
        value = value + np.uint64((key + 1) * 0x9E3779B97F4A7C15 % 2**64)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value


@lru_cache(maxsize=4)
def _planned(topology: Topology, settings: SpraypointParameters, failures: Failures) -> dict[int, Pointing]:
    return dict(pointings(topology, settings, failures))


def plan_spraypoint(topology: Topology, policy: Policy, failures: Failures, switch: Switch) -> Iterator[Entity]:
    """Plan what a switch needs to spray and to point (spraypoint.p4), its routes to other switches' hosts among it."""
    settings: SpraypointParameters = policy.routing.parameters
    graph = live_graph(topology, failures)
    if settings.per_packet:
        yield DefaultAction(schema.GRANULARITY, Action(schema.BY_PACKET))
    elif settings.gap:
        yield DefaultAction(schema.GRANULARITY, Action.of(schema.BY_FLOWLET, gap=settings.gap))
    for host in topology.hosts_of[switch.index]:
        yield TableEntry(schema.SENDING_PORTS, ((schema.IN_PORT, host.port),), Action(schema.HOST))
    own = address.switch_prefix(switch.group, switch.position) >> 128 - address.SWITCH_BITS
    yield TableEntry(schema.OWN_HOSTS, ((schema.DESTINATION_SWITCH, own),), Action(schema.NO_ACTION))
    around = graph.ports[graph.neighbour[switch.index] >= 0].tolist()[: schema.MAX_GROUP_SIZE]
    if around:
        choice = ActionSet.of(Action.of(schema.SPRAY_TOWARDS, port=port) for port in around)
        yield TableEntry(schema.SPRAY, ((schema.FROM_HOST, 1),), choice)
    for target, pointing in _planned(topology, settings, failures).items():
        ports = tuple(graph.ports[pointing.next_hop[switch.index]].tolist())
        if ports:
            yield switch_route(topology.switches[target], forward_choice(ports))


def most_switches(topology: Topology, policy: Policy, failures: Failures) -> int:
    """Return how many switches packets may pass: the first one, and a way down from the highest level."""
    plan = _planned(topology, policy.routing.parameters, failures)
    return 2 + max((int(pointing.level.max()) for pointing in plan.values()), default=0)


SPRAYPOINT = Routing(
    "spraypoint",
    "spraypoint",
    plan_spraypoint,
    parameters=SpraypointParameters(),
    detours=False,
    most_switches=most_switches,
)
"""the first switch sprays over all neighbours, all others point towards the destination"""
