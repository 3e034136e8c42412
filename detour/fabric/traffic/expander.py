# SPDX-License-Identifier: Apache-2.0
"""An expander in virtual time whose hosts name the path of every message in a uSID list (FC+, section III).

    with ExpanderFabric(routes.network, scheme_of("2L", 2), settings, queue_pairs=len(flows)) as fabric:
        fabric.connect_routed(flows, lists_of(routes, flows, rows))
        fabric.send(100_000)
        fabric.run(20 * US)

The planner lets the lossless priority rise by (in-port, out-port); PFC works per priority. ACKs have no list: they go
by shortest paths, in a priority of their own that PFC never pauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from detour.base.arrays import BoolArray, Int64Array
from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Plan
from detour.control.expander.routes import ExpanderRoutes, rows_anew
from detour.control.policy import Amount, Ecn, RedMarking
from detour.control.routes.queueing import plan_priorities, plan_transitions
from detour.engine.state import SwitchState
from detour.fabric.backends.virtual.fabric import VirtualFabric, program
from detour.fabric.backends.virtual.load import read_back, write
from detour.fabric.backends.virtual.scheme import PATIENT, RunSettings, Scheme
from detour.hosts.addresses import ended, final_words, head_words
from detour.hosts.paths import path_scheme
from detour.hosts.verbs import algorithms
from detour.hosts.verbs.bulk import PathSets, lead, lease_sets
from detour.topo.expander.network import Expander
from detour.topo.failures import Failures
from detour.topo.paths import path_usids
from detour.topo.topology import HostPair

BY_ADDRESS = -1
"""in place of a path: the switches choose among shortest ones (in a Clos: up and down)"""

EXPANDER_RED_MARKING = RedMarking(Amount(5_000, "bytes"), Amount(200_000, "bytes"), 0.01)
"""section V-B"""


def scheme_of(
    name: str, priorities: int, ecn: Ecn = EXPANDER_RED_MARKING, hosts: Sequence[tuple[str, Any]] = ()
) -> Scheme:
    """RoCEv2 with PFC in `priorities` lossless priorities (1 to `MAX_LOSSLESS`; 0 is KSP: a single one, with no regard
    to deadlock)."""
    hosts = (*PATIENT, *hosts)
    lossless, guard = max(1, priorities), priorities > 0
    return Scheme(name, "gbn", "dcqcn", "pinned", ecn, pfc=True, channels=lossless, guarded=guard, hosts=hosts)


def installed_classes(network: Expander, priorities: int) -> Plan:
    """The entries by which switches class packets, by device id: planned for so many lossless priorities, written into
    the tables of switches, and read back from these."""
    code, policy = program("fabric"), scheme_of(network.spec, priorities).policy
    guard = policy.channels > 0
    held: Plan = {}
    state = SwitchState(code, seed=1)
    for switch in range(network.size):
        rising = plan_transitions(network, switch, policy.channels) if guard else ()
        write(state, [*plan_priorities(policy, guard), *rising])
        held[switch + 1] = read_back(state, (schema.DSCP, schema.CHANNEL))
        for table in state.tables.values():
            table.clear()
    return held


def lists_of(routes: ExpanderRoutes, pairs: Sequence[HostPair], rows: Sequence[int]) -> Int64Array:
    """Destination addresses, shape (n, 2), that lead messages between pairs of hosts by paths of `routes`, or
    `BY_ADDRESS` (then 0). Raises DetourError: a path needs more than six uSIDs."""
    ends, given = np.asarray(pairs, np.int64).reshape(-1, 2), np.asarray(rows, np.int64)
    led = given != BY_ADDRESS
    nodes = np.array([host.node_id for host in routes.network.topology.hosts], np.int64)
    lists = np.zeros((len(given), 2), np.int64)
    lists[led] = ended(*heads_of(routes, ends[led], given[led]), nodes[ends[led, 1]])
    return lists


def heads_of(routes: ExpanderRoutes, pairs: Int64Array, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """`lists_of` hosts, (n, 2), by paths, (n,), without the last uSID: (n, 2) and (n,) of `hosts.addresses.ended`."""
    topology = routes.network.topology
    distinct, first, place = np.unique(rows, return_index=True, return_inverse=True)
    heads = np.zeros((len(distinct), 3), np.int64)
    for k, (row, (source, target)) in enumerate(zip(distinct.tolist(), pairs[first].tolist(), strict=True)):
        stops, _ = routes.path(row, topology.hosts[source].switch)
        heads[k] = head_words(path_usids(topology, tuple(stops), topology.hosts[target])[:-1])
    return heads[place, :2], heads[place, 2]


class PairPaths(NamedTuple):
    """The paths of all pairs side by side, the shortest first; behind the last of a pair comes its first one again."""

    rows: Int64Array
    """(pairs, most paths of a pair) of `ExpanderRoutes`"""
    links: Int64Array
    """as `rows`"""
    counts: Int64Array
    """(pairs,)"""
    shortest: Int64Array
    """(pairs,) how many have the least links"""

    @property
    def used(self) -> BoolArray:
        """As `rows`: True for each path of a pair, False behind the last one."""
        return np.arange(self.rows.shape[1]) < self.counts[:, None]


def pair_paths(routes: ExpanderRoutes) -> PairPaths:
    """The paths of each of the routes' pairs."""
    counts = np.diff(routes.first)
    rows = routes.first[:-1, None] + np.arange(int(counts.max())) % counts[:, None]
    links = routes.length[rows].astype(np.int64)
    paths = PairPaths(rows, links, counts, counts)
    return paths._replace(shortest=((links == links[:, :1]) & paths.used).sum(axis=1))


def path_sets(
    routes: ExpanderRoutes, paths: PairPaths, *, shortest_first: bool, weights: Int64Array | int = 1
) -> PathSets:
    """The uSID lists of each pair's paths. `shortest_first`: only those with the least links count as shortest paths,
    else all. `weights`: as `paths.rows`. Raises DetourError: a path needs more than six uSIDs."""
    some_host = np.array([hosts[0].index if hosts else -1 for hosts in routes.network.topology.hosts_of], np.int64)
    shape = paths.rows.shape
    words, shift = heads_of(routes, np.repeat(some_host[routes.pairs], shape[1], axis=0), paths.rows.ravel())
    return PathSets(
        words.reshape(*shape, 2), shift.reshape(shape), np.broadcast_to(np.asarray(weights, np.int64), shape),
        paths.counts, paths.shortest if shortest_first else paths.counts,
    )  # fmt: skip


def lists_anew(
    routes: ExpanderRoutes, pairs: Sequence[HostPair], rows: Sequence[int], lists: Int64Array, failures: Failures
) -> Int64Array:
    """`lists` of paths `rows` of `routes` for the time of failures. Connections whose path is broken go by the same
    number of the paths of their pair that are computed without what is down; if there is none that lossless classes
    carry, by address.

    Every list is free of deadlock together with every other one and with all detours, so senders may take to theirs one
    by one, in any order.
    """
    network, topology = routes.network, routes.network.topology
    broken = network.under(failures)
    hosts, live = topology.hosts, broken.channels.neighbour >= 0
    changed, hit = lists.copy(), []
    for k, row in enumerate(rows):
        if row != BY_ADDRESS:
            stops, columns = routes.path(row, hosts[pairs[k][0]].switch)[0], routes.columns[row].tolist()
            if not all(live[stop % network.size, c] for stop, c in zip(stops[:-1], columns, strict=False)):
                hit.append(k)
    if not hit:
        return changed
    number = {tuple(pair): i for i, pair in enumerate(routes.pairs.tolist())}
    ends = [(hosts[pairs[k][0]].switch, hosts[pairs[k][1]].switch) for k in hit]
    places = [rows[k] - int(routes.first[number[end]]) for k, end in zip(hit, ends, strict=True)]
    anew, taken = rows_anew(broken, routes.policy, ends, places)
    chosen = [BY_ADDRESS if row is None else row for row in taken]
    changed[hit] = lists_of(anew, [pairs[k] for k in hit], chosen)
    return changed


class ExpanderFabric(VirtualFabric):
    """See the module. A context manager."""

    def __init__(
        self, network: Expander, scheme: Scheme, settings: RunSettings | None = None, *, queue_pairs: int = 64
    ) -> None:
        super().__init__(network.topology, scheme, settings, queue_pairs=queue_pairs)

    def connect_routed(self, pairs: Sequence[HostPair], lists: Int64Array) -> None:
        """Connections between pairs of hosts by the paths of `lists_of`; they send nothing yet. To be called once."""
        self.connect(pairs)
        self.route(pairs, lists)

    def route(self, pairs: Sequence[HostPair], lists: Int64Array) -> None:
        """Give the connections, which are those of `pairs`, the paths of `lists_of`."""
        self._finals = self._final_words(pairs)
        self.lead(lists)

    def spray(
        self,
        which: Int64Array,
        pairs: Sequence[HostPair],
        lists: Int64Array,
        counts: Int64Array,
        shortest: Int64Array,
        paths: str = "spray",
        weights: Int64Array | int = 1,
        ports: Int64Array | None = None,
    ) -> None:
        """From now on every packet of the connections `which` (n,), which are those of `pairs`, takes a list of its
        own, as path scheme `paths` chooses. `lists` (n, c, 2): of the k-th the first `counts[k]` are its candidates, of
        which the first `shortest[k]` count as shortest paths; `weights` (n, c): of candidates, for schemes that have
        them (`hosts.paths.pathset`); `ports` (n, c): source ports, by which switches choose the paths of the answers
        (default: one of the connection's). Raises DetourError: there are more candidates than hosts have room for."""
        rows, width, limit = self.flows.sender[which], lists.shape[1], self.hs.candidate.shape[1]
        if width > limit:
            raise DetourError(f"{width} paths of a connection; hosts have room for {limit}")
        fresh = np.repeat(self.hs.candidate[rows, :1], width, axis=1)
        fresh["dst_hi"], fresh["dst_lo"] = lists[..., 0], lists[..., 1]
        fresh["final_hi"] = self._final_words(pairs)[:, None]
        fresh["weight"] = weights
        if ports is not None:
            fresh["sport"] = ports
        self.hs.candidate[rows, :width] = fresh
        self.hs.qp["n_cand"][rows], self.hs.qp["n_short"][rows] = counts, shortest
        algorithms.give_paths(self.hs, rows, path_scheme(paths))

    def give_sets(
        self, which: Int64Array, ends: Int64Array, place: Int64Array, sets: PathSets, paths: str,
        ports: Int64Array | None = None,
    ) -> None:  # fmt: skip
        """From now on the connections `which` (n,), which are those of hosts `ends` (n, 2), choose by path scheme
        `paths` among the lists of sets `place` (n,). `ports`: as for `spray`. Leased ones must not have begun. Raises
        DetourError: see `spray`; hosts have no room for what the scheme has of a connection."""
        nodes = np.array([host.node_id for host in self.topology.hosts], np.int64)[ends[:, 1]]
        if self.hs.cfg[0]["leased"]:
            lease_sets(self.device, which, nodes, sets, place, ports, path_scheme(paths))
            return
        pairs: list[HostPair] = [(a, b) for a, b in ends.tolist()]
        lists = sets.lists(place, nodes)
        weights = sets.weights[place]
        self.spray(which, pairs, lists, sets.counts[place], sets.shortest[place], paths, weights, ports)

    def _final_words(self, pairs: Sequence[HostPair]) -> Int64Array:
        hosts = self.topology.hosts
        return final_words(hosts[b].node_id for _, b in pairs)

    def lead(self, lists: Int64Array) -> None:
        """From now on packets of all connections go by these lists, whatever is under way by older ones."""
        lead(self.device, self.flows.sender, lists, self._finals)
