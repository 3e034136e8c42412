# SPDX-License-Identifier: Apache-2.0
"""Paths between leaves, and the links that each takes.

A path is a number. Between pods it is plane * cores + core. Inside a pod, and so everywhere on two levels, it is
(spine * cables + cable up) * cables + cable down, counted behind those between pods. Links are those of
`FatTree.failed`, and have numbers too: leaf by leaf, then those to cores. `INSIDE` is the path of what does not leave
its leaf.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import BoolArray, Int32Array, Int64Array
from detour.control.fors.fabric import FatTree, TreeLink

INSIDE = -1  # The path, and the spine, of a flow that does not leave its leaf.


def by_phase(phase: Int64Array | Int32Array) -> list[NDArray[np.int64]]:
    """Indices of the messages or flows of every phase, in order; no phase is empty."""
    order = np.argsort(phase, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(phase[order])) + 1) if len(order) else []


class Probe(NamedTuple):
    """From one server of a leaf to another, up some links and down the same ones again."""

    leaf: int
    path: int
    links: list[TreeLink]  # the last one is what is looked at; the others have probes of their own


class TreePaths:
    """All paths of a fabric."""

    def __init__(self, tree: FatTree) -> None:
        self.tree = tree
        self.across = tree.spines * tree.cores  # paths between pods
        self.count = self.across + tree.spines * tree.cables**2  # paths are 0..count-1
        self.first_high = tree.all_leaves * tree.uplinks  # number of the first link to a core
        self.lanes = tree.lanes  # flows that a link carries in a phase, in each direction

    @cached_property
    def links(self) -> list[TreeLink]:
        """All links between switches, by number."""
        return [*np.ndindex(self.tree.all_leaves, self.tree.uplinks), *np.ndindex(self.tree.high.shape)]

    def working(self) -> BoolArray:
        """(links,) which have not failed."""
        return np.concatenate([self.tree.working.ravel(), self.tree.high.ravel()])

    def of(self, spine: Int64Array, core: Int64Array, up: Int64Array, down: Int64Array) -> Int64Array:
        """Paths of flows by spine (`INSIDE`: none), core (-1: none) and cables."""
        inside_pod = self.across + (spine * self.tree.cables + up) * self.tree.cables + down
        return np.where(spine < 0, INSIDE, np.where(core < 0, inside_pod, spine * self.tree.cores + core))

    def parts(self, path: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """The other way round: spine, core, cable up, cable down. -1: none."""
        cores, cables = max(self.tree.cores, 1), self.tree.cables
        inside_pod = path >= self.across
        over, down = np.divmod(path - self.across, cables)
        spine, up = np.divmod(over, cables)
        parts = (
            np.where(inside_pod, spine, path // cores),
            np.where(inside_pod, -1, path % cores),
            np.where(inside_pod, up, 0),
            np.where(inside_pod, down, 0),
        )
        spine, core, up, down = (np.where(path == INSIDE, -1, part) for part in parts)
        return spine, core, up, down

    def crossed(self, source: Int64Array, target: Int64Array, path: Int64Array) -> Int64Array:
        """(flows, most links of a path): the links from leaf to leaf by number, those up in the first half and those
        down in the second; -1: none."""
        tree = self.tree
        spine, core, *cables = self.parts(path)
        ends = zip((source, target), cables, strict=True)
        up, down = (np.where(spine < 0, -1, leaf * tree.uplinks + spine * tree.cables + one) for leaf, one in ends)
        if not tree.cores:
            return np.stack([up, down], axis=1)
        pods = (leaf // tree.leaves for leaf in (source, target))
        high = (self.first_high + (pod * tree.spines + spine) * tree.cores + core for pod in pods)
        return np.stack([up, *(np.where(core < 0, -1, link) for link in high), down], axis=1)

    def directed(self, source: Int64Array, target: Int64Array, path: Int64Array) -> Int64Array:
        """The same, where the links down have numbers of their own behind those of all links up."""
        links = self.crossed(source, target, path)
        down = links[:, links.shape[1] // 2 :]
        down[down >= 0] += len(self.links)
        return links

    def usable(self, source: int, target: int, up: BoolArray) -> Int64Array:
        """The paths between two different leaves over links that are `up`, in order."""
        tree = self.tree
        low = up[: self.first_high].reshape(tree.working.shape)
        p, q = source // tree.leaves, target // tree.leaves
        if p == q:
            return self.across + np.flatnonzero(low[source, :, :, None] & low[target, :, None, :])
        high = up[self.first_high :].reshape(tree.high.shape)
        return np.flatnonzero((low[source] & low[target]) & high[p] & high[q])

    def gates(self, source: Int64Array, target: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(flows, gates) what flows leave and enter, leaves and pods in either direction by number (-1: none), and
        (gates,) how many flows of a phase the links of each let through."""
        tree = self.tree
        pods, low = [leaf // tree.leaves for leaf in (source, target)], tree.room().sum(axis=1)
        first, high = 2 * len(low), tree.high.sum(axis=(1, 2))
        gates = np.stack([source, len(low) + target, first + pods[0], first + tree.pods + pods[1]], axis=1)
        gates[source == target] = -1
        gates[pods[0] == pods[1], 2:] = -1
        return gates, np.concatenate([low, low, high, high])

    def back(self, path: Int64Array) -> Int64Array:
        """The paths in the other direction, over the same links."""
        spine, core, up, down = self.parts(path)
        return self.of(spine, core, down, up)

    def beside(self, leaf: int) -> list[TreeLink]:
        """A leaf's own links."""
        return [(leaf, uplink) for uplink in range(self.tree.uplinks)]

    def probes(self) -> list[Probe]:
        """Paths up a link and down the same again: to a spine from every leaf, to a core from two leaves of the pod,
        so that a dead link below one of them does not hide it."""
        tree = self.tree
        low = np.ndindex(tree.all_leaves, tree.uplinks)
        probes = [Probe(u, self.across + c * tree.cables + c % tree.cables, [(u, c)]) for u, c in low]
        for p, j, i in np.ndindex(tree.high.shape):
            for turn in range(min(tree.leaves, 2)):
                leaf = p * tree.leaves + (i + turn) % tree.leaves
                probes.append(Probe(leaf, j * tree.cores + i, [(leaf, j), (p, j, i)]))
        return probes

    def ends(self) -> Int64Array:
        """(links, 2) the switches of every link, lower one first: leaves, then spines, then cores."""
        tree = self.tree
        spines = tree.all_leaves + np.arange(tree.pods * tree.spines).reshape(tree.pods, tree.spines)
        cores = tree.all_leaves + spines.size
        low = [(u, spines[u // tree.leaves, c // tree.cables]) for u, c in np.ndindex(tree.all_leaves, tree.uplinks)]
        high = [(spines[p, j], cores + j * tree.cores + i) for p, j, i in np.ndindex(tree.high.shape)]
        return np.array(low + high, np.int64)


def crowd(
    paths: TreePaths, phase: Int64Array, source: Int64Array, target: Int64Array, path: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The phases that have flows, and the most flows that share a link in one direction in each of them (1 at least).
    `source`, `target`: leaves."""
    numbers, place = np.unique(phase, return_inverse=True)
    links, many = paths.directed(source, target, path), 2 * len(paths.links)
    row, column = np.nonzero(links >= 0)
    load = np.bincount(place[row] * many + links[row, column], minlength=len(numbers) * many)
    return numbers, load.reshape(len(numbers), many).max(axis=1, initial=1)


def islands(tree: FatTree, up: BoolArray) -> Int64Array:
    """(leaves,) a number for each part that links which are up hold together."""
    import networkx

    ends = TreePaths(tree).ends()
    graph = networkx.empty_graph(int(ends.max(initial=0)) + 1)
    graph.add_edges_from(ends[up].tolist())
    number = np.zeros(len(graph), np.int64)
    for count, part in enumerate(networkx.connected_components(graph)):
        number[list(part)] = count
    return number[: tree.all_leaves]
