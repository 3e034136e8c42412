# SPDX-License-Identifier: Apache-2.0
"""Entries for a switch's own SRv6 uSIDs (uN, uA), and longest-prefix routes: every destination by all its shortest
paths over what is left of the network.

Every hop strictly shortens the distance to the destination's switch, so routes cannot loop. A /32 route
leads to a whole group. It follows the same switch of that group (its first with hosts) at every switch of the
network; switches of the group that are reached otherwise get a /48 beside it. Following one switch keeps even
packets for addresses that nobody has from going round. For the same reason the own group has no /32, and a
group with an unreachable switch has none anywhere.

Routes to uNs cover blocks of node ids, with longer prefixes for what differs inside of one, as few as possible: optimal
routing table construction (Draves et al., "Constructing optimal IP routing tables", INFOCOM 1999) with prefixes of
whole hexadecimal digits. Whole digits lose little (a switch of a Dragonfly of 2,064 has 134 prefixes in place of 79),
and a look-up tries each length of prefix that a table has. No block has an id that nobody has or that is not reached:
its packets are dropped where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from detour.control import schema
from detour.control.entries import Action, ActionSet, Lpm, TableEntry
from detour.topo import address
from detour.topo.failures import Failures, dead_links
from detour.topo.graph import FAR, GLOBAL, columns_into, distances, exit_distances, exits, live_graph, offered_distances
from detour.topo.topology import Switch, Topology

DIGIT_BITS = 4
_DIGITS = 1 << DIGIT_BITS
_NONE: frozenset[int] = frozenset()


class IdPrefix(NamedTuple):
    """Ids from `first` on whose last `free_bits` bits are anything."""

    first: int
    free_bits: int
    choice: int


def aggregate(choices: Sequence[int | None]) -> Iterator[IdPrefix]:
    """The prefixes whose longest match is `choices[id]` for every id, and nothing for ids without choice or beyond the
    end: no prefix covers one of these."""
    levels = [[_NONE if choice is None else frozenset((choice,)) for choice in choices]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([_best(below[first : first + _DIGITS]) for first in range(0, len(below), _DIGITS)])
    inherited: list[int | None] = [None]
    for height in reversed(range(len(levels))):
        taken: list[int | None] = []
        for index, best in enumerate(levels[height]):
            choice = inherited[index >> DIGIT_BITS]
            if best and choice not in best:
                choice = min(best)
                yield IdPrefix(index << DIGIT_BITS * height, DIGIT_BITS * height, choice)
            taken.append(choice)
        inherited = taken


def _best(parts: Sequence[frozenset[int]]) -> frozenset[int]:
    """The choices that most parts of a block would take from it; none if it has a gap."""
    if len(parts) < _DIGITS or not all(parts):
        return _NONE
    votes = Counter(chain.from_iterable(parts))
    most = max(votes.values())
    return frozenset(choice for choice, count in votes.items() if count == most)


@lru_cache(maxsize=1 << 14)
def forward_choice(ports: tuple[int, ...]) -> ActionSet:
    """The choice among ports; equal choices of all switches are mostly the same object."""
    return ActionSet.of(_forward(port) for port in ports)


@lru_cache(maxsize=1 << 9)
def _forward(port: int) -> Action:
    return Action.of(schema.FORWARD, port=port)


class NextHops:
    """Next hops of one switch: to every other switch the ports that begin shortest paths."""

    def __init__(self, topology: Topology, failures: Failures, at: int) -> None:
        graph, distance = live_graph(topology, failures), distances(topology, failures)
        through = offered_distances(topology, failures)[graph.neighbour[at]] + graph.weight[at][:, None]
        near = (through == distance[at]) & (graph.neighbour[at] >= 0)[:, None] & (distance[at] < FAR)
        self._reachable: list[bool] = near.any(axis=0).tolist()
        self._masks = [bytes(row) for row in np.packbits(near.T, axis=1)]
        self._ports_of: dict[bytes, tuple[int, ...]] = {}
        for target, mask in enumerate(self._masks):
            if mask not in self._ports_of:
                self._ports_of[mask] = tuple(graph.ports[near[:, target]].tolist())

    def reachable(self, target: int) -> bool:
        """Return whether any path leads from here to that other switch."""
        return self._reachable[target]

    def actions(self, target: int) -> ActionSet:
        """The choice among the ports towards a reachable switch; equal choices are the same object."""
        ports = self._ports_of[self._masks[target]]
        if len(ports) > schema.MAX_GROUP_SIZE:
            # A selector's group takes no more: every destination gets a window of its own.
            start = target % len(ports)
            ports = tuple(sorted((ports + ports)[start : start + schema.MAX_GROUP_SIZE]))
        return forward_choice(ports)


def plan_routes(topology: Topology, routes: NextHops, switch: Switch) -> Iterator[TableEntry]:
    """The entries of `route` that lead to hosts of other switches."""
    for group in range(topology.groups):
        targets = [s for s in topology.members[group] if topology.hosts_of[s] and s != switch.index]
        if group == switch.group:
            yield from _switch_routes(topology, routes, targets)
        else:
            yield from _group_routes(topology, routes, group, targets)


def plan_own_hosts(topology: Topology, failures: Failures, switch: Switch) -> Iterator[TableEntry]:
    """The entries of `route` for a live switch's own hosts, by address and by uSID."""
    dead = dead_links(topology, failures)
    for host in topology.hosts_of[switch.index]:
        peer = switch.peer(host.port)
        if peer is not None and peer.link not in dead:
            action = ActionSet.of([Action.of(schema.DELIVER, port=host.port, mac=host.mac)])
            yield _route(host.address, address.HOST_BITS, action)
            yield _route(address.locator(host.node_id), address.LOCATOR_BITS, action)


def plan_locators(topology: Topology, routes: NextHops) -> Iterator[TableEntry]:
    """The routes to the uN of every reachable switch. The switch's own is not a route: `local_sid` has it."""
    numbers: dict[int, int] = {}
    actions: list[ActionSet] = []
    by_node: list[int | None] = [None] * (len(topology.switches) + 1)
    for target in topology.switches:
        if routes.reachable(target.index):
            action = routes.actions(target.index)
            number = by_node[target.node_id] = numbers.setdefault(id(action), len(actions))
            if number == len(actions):
                actions.append(action)
    for block in aggregate(by_node):
        yield _route(address.locator(block.first), address.LOCATOR_BITS - block.free_bits, actions[block.choice])


def _switch_routes(topology: Topology, routes: NextHops, targets: Sequence[int]) -> Iterator[TableEntry]:
    for target in targets:
        if routes.reachable(target):
            there = topology.switches[target]
            yield switch_route(there, routes.actions(target))


def switch_route(target: Switch, action: ActionSet) -> TableEntry:
    """The entry of `route` for the hosts of another switch."""
    return _route(address.switch_prefix(target.group, target.position), address.SWITCH_BITS, action)


def _group_routes(topology: Topology, routes: NextHops, group: int, targets: Sequence[int]) -> Iterator[TableEntry]:
    if not all(routes.reachable(target) for target in targets):
        yield from _switch_routes(topology, routes, targets)
        return
    common = routes.actions(targets[0])
    yield _route(address.group_prefix(group), address.GROUP_BITS, common)
    yield from _switch_routes(topology, routes, [t for t in targets if routes.actions(t) is not common])


def _route(value: int, prefix_len: int, action: ActionSet) -> TableEntry:
    return TableEntry(schema.ROUTE, ((schema.DST_ADDR, Lpm(value, prefix_len)),), action)


def plan_sids(switch: Switch, dead: frozenset[int]) -> Iterator[TableEntry]:
    """uN as /48; uA of every live port as /48 (local function) and as /64 (node and function). `dead` are links that
    carry nothing: a uA over one of them is not a local SID, its packets are dropped and counted."""
    node = switch.node_id
    yield _sid(address.locator(node), 48, Action.of(schema.UN))
    for port, peer in enumerate(switch.ports, start=1):
        if peer is not None and peer.link not in dead:
            function = address.adjacency_function(port)
            yield _sid(address.locator(function), 48, Action.of(schema.UA, port=port))
            yield _sid(address.adjacency_sid(node, port), 64, Action.of(schema.NODE_UA, port=port))


def _sid(value: int, prefix_len: int, action: Action) -> TableEntry:
    return TableEntry(schema.LOCAL_SID, ((schema.DST_ADDR, Lpm(value, prefix_len)),), action)


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
    down = {failure.index for failure in failures if failure.kind == "switch"}
    return [s for s in topology.members[group] if topology.hosts_of[s] and s not in down]


@lru_cache(maxsize=16)
def _touched_groups(topology: Topology, failures: Failures) -> dict[tuple[int, int], frozenset[int]]:
    """(switch, destination group) -> groups on the way, for those whose way takes more than one global hop. A single
    global hop leads from a group straight into the destination group and touches no other."""
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
