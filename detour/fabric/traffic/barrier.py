# SPDX-License-Identifier: Apache-2.0
"""A barrier among hosts as a tree of real messages (Hensgen, Finkel and Manber 1988, as the FORS paper's DAQ has it).

A host that is done and has heard from its children tells its parent; the root then releases everybody down the tree.
Every message is an RDMA WRITE of its own connection; a host sees one in its memory when it polls, so a barrier costs
what its messages take, plus a poll at every step. Children are hosts of the same leaf where possible: the hosts of a
leaf form a k-ary tree, and so do their roots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.times import MAX_TIME
from detour.control.fors.paths import INSIDE
from detour.fabric.traffic.pinned import PinnedFabric
from detour.hosts.verbs.bulk import Flows, post_many

Stragglers = Sequence[tuple[int, int]]
"""hosts, and by how much they are late, ps"""


def tree_parents(members: Sequence[int], m0: int, arity: int) -> dict[int, int]:
    """Parent of every member but the root, in a tree in which nobody has more than `2 * arity` children. Raises
    DetourError: the arity is not positive, or there is no member."""
    if arity < 1:
        raise DetourError(f"a barrier's tree with {arity} children per node; expected at least 1")
    if not members:
        raise DetourError("a barrier needs hosts")
    by_leaf: dict[int, list[int]] = {}
    for member in sorted(members):
        by_leaf.setdefault(member // m0, []).append(member)
    parents = {}
    for group in [[mine[0] for mine in by_leaf.values()], *by_leaf.values()]:
        parents |= {member: group[(place - 1) // arity] for place, member in enumerate(group) if place}
    return parents


class Barrier:
    """The tree's connections and who has been told what. Hosts are indices; arrays have an element for every host."""

    def __init__(self, fabric: PinnedFabric, members: Sequence[int], arity: int, up: NDArray[np.bool_]) -> None:
        """`up`: live links, shape (links,)."""
        self._fabric = fabric
        parents = tree_parents(members, fabric.tree.hosts, arity)
        self.root = next(host for host in sorted(members) if host not in parents)
        self.members = np.zeros(fabric.tree.slots, np.bool_)
        self.members[list(members)] = True
        self.child, self.parent = (np.array(side, np.int64) for side in (list(parents), list(parents.values())))
        paths = self._paths(up)
        self._up = fabric.connect_pinned(self.child, self.parent, paths)
        self._down = fabric.connect_pinned(self.parent, self.child, fabric.paths.back(paths))
        self._edge = np.full(fabric.tree.slots, -1, np.int64)
        self._edge[self.child] = np.arange(len(self.child))
        self._order = self._heaviest_last()
        self.notified = np.zeros(fabric.tree.slots, np.int64)
        """barriers that a host has reported to its parent"""
        self.forwarded = np.zeros(fabric.tree.slots, np.int64)
        """releases that a host has passed on"""

    @staticmethod
    def messages(hosts: int) -> int:
        """Connections that a tree of so many hosts takes."""
        return 2 * max(hosts - 1, 0)

    def _paths(self, up: NDArray[np.bool_]) -> Int64Array:
        """A live path for every edge, in turn. Leaves without one leave it to the switches' routes, which know a longer
        one (plain address)."""
        hosts = self._fabric.tree.hosts
        paths = np.full(len(self.child), INSIDE, np.int64)
        for edge, (a, b) in enumerate(zip(self.child // hosts, self.parent // hosts, strict=True)):
            usable = self._fabric.paths.usable(int(a), int(b), up) if a != b else ()
            if len(usable):
                paths[edge] = usable[edge % len(usable)]
        return paths

    def repin(self, up: NDArray[np.bool_]) -> None:
        """Take edges off links that are down; messages under way are sent again."""
        paths = self._paths(up)
        self._fabric.move(self._up.sender, self.parent, paths)
        self._fabric.move(self._down.sender, self.child, self._fabric.paths.back(paths))

    def _heaviest_last(self) -> list[int]:
        """Edges in an order in which every child comes before its parent."""
        depth = {self.root: 0}
        waiting = dict(zip(self.child.tolist(), self.parent.tolist(), strict=True))

        def depth_of(host: int) -> int:
            if host not in depth:
                depth[host] = 1 + depth_of(waiting[host])
            return depth[host]

        return sorted(range(len(self.child)), key=lambda edge: -depth_of(int(self.child[edge])))

    def subtree(self, values: Int64Array) -> Int64Array:
        """Sums of a value over every edge's child and all hosts below it, shape (edges,)."""
        sums = values.copy()
        for edge in self._order:
            sums[self.parent[edge]] += sums[self.child[edge]]
        return sums[self.child]

    # -- what hosts see ---------------------------------------------------------------------------------

    def heard(self) -> Int64Array:
        """Number of reports of all children of a host; a large number if it has none."""
        least = np.full(self._fabric.tree.slots, np.iinfo(np.int64).max, np.int64)
        np.minimum.at(least, self.parent, self._arrived(self._up))
        return least

    def released(self) -> Int64Array:
        """Number of times a host has been released; of the root, what it has passed on."""
        times = self.forwarded.copy()
        times[self.child] = self._arrived(self._down)
        return times

    def _arrived(self, flows: Flows) -> Int64Array:
        return self._fabric.hs.qp["rcv_msn"][flows.receiver]

    # -- what hosts do ----------------------------------------------------------------------------------

    def report(self, hosts: Int64Array) -> None:
        """These hosts tell their parents; the root has none."""
        self.notified[hosts] += 1
        edges = self._edge[hosts]
        post_many(self._up, 0, now_ps=self._fabric.now_ps, which=edges[edges >= 0])

    def release(self, hosts: Int64Array, lengths: Int64Array | int = 0) -> None:
        """These hosts pass a release on to their children, of `lengths` bytes an edge (all edges, or one number)."""
        self.forwarded[hosts] += 1
        passing = np.zeros(self._fabric.tree.slots, np.bool_)
        passing[hosts] = True
        edges = np.flatnonzero(passing[self.parent])
        sizes = np.broadcast_to(np.asarray(lengths, np.int64), self.child.shape)[edges]
        post_many(self._down, sizes, now_ps=self._fabric.now_ps, which=edges)


class Lateness:
    """Delays of hosts, ps: jitter in all that they do, and stragglers that start every phase late. Without it every
    host acts at the poll at which it sees that it can, and what a barrier costs is a lower bound. Everything random
    comes from the seed."""

    def __init__(self, jitter_ps: int, stragglers: Stragglers, hosts: Sequence[int], slots: int, seed: int) -> None:
        """`hosts`: those that take part, of places 0..slots-1. Raises DetourError: a straggler is not one of them."""
        self._jitter_ps = jitter_ps
        self._rng = np.random.default_rng([seed, 13])
        self._begins = np.zeros(slots, np.int64)
        for host, late in stragglers:
            if host not in hosts:
                raise DetourError(f"straggler {host}: no such server participates (there are {len(hosts)})")
            self._begins[host] += late

    def acting(self, hosts: Int64Array) -> Int64Array:
        """On something that they have seen, (hosts,)."""
        if not self._jitter_ps:
            return np.zeros(len(hosts), np.int64)
        return self._rng.integers(0, self._jitter_ps, len(hosts), endpoint=True)

    def beginning(self, hosts: Int64Array) -> Int64Array:
        """With a phase, (hosts,)."""
        return self._begins[hosts]


class Reactions:
    """Hosts that have seen an event, and when each acts on it."""

    def __init__(self, slots: int) -> None:
        self._due = np.full(slots, MAX_TIME, np.int64)

    def unknown(self, hosts: Int64Array) -> Int64Array:
        """Return those of the hosts that have not noticed yet."""
        return hosts[self._due[hosts] == MAX_TIME]

    def notice(self, hosts: Int64Array, act_ps: Int64Array) -> None:
        """They act at these times."""
        self._due[hosts] = act_ps

    def acting(self, hosts: Int64Array, now_ps: int) -> Int64Array:
        """Return those of the hosts whose time has come."""
        act = hosts[self._due[hosts] <= now_ps]
        self._due[act] = MAX_TIME
        return act

    def next_ps(self, now_ps: int) -> int:
        """The time at which somebody acts next, later than now."""
        return int(self._due[self._due > now_ps].min(initial=MAX_TIME))
