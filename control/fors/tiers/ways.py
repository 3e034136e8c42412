# SPDX-License-Identifier: Apache-2.0
"""Ways on three levels (`control.fors.ways`): between pods plane * cores + core, inside a pod planes * cores + plane.

Links are (leaf, plane) and (pod, plane, core), as in `failed_low` and `failed_high`, those of the lower level first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.control.fors.plan import INSIDE
from detour.control.fors.tiers.fabric import FatTree3

TreeLink = tuple[int, ...]


class Probe(NamedTuple):
    """From one server of a leaf to another, up some links and down the same ones again."""

    leaf: int
    way: int
    links: list[TreeLink]
    """the last one is what is looked at; the others have probes of their own"""


class TierWays:
    """See `control.fors.ways.TreeWays`."""

    lanes = 1

    def __init__(self, tree: FatTree3) -> None:
        self.tree = tree
        self.across = tree.aggs * tree.cores
        """ways between pods"""
        self.count = self.across + tree.aggs
        low: list[TreeLink] = [(u, j) for u in range(tree.all_leaves) for j in range(tree.aggs)]
        self.links = low + [tuple(map(int, one)) for one in np.ndindex(tree.high.shape)]

    def working(self) -> NDArray[np.bool_]:
        """(links,) which have not failed."""
        return np.concatenate([self.tree.low.ravel(), self.tree.high.ravel()])

    def name(self, link: TreeLink) -> str:
        """`leaf:plane` or `pod/plane:core`."""
        return f"{link[0]}:{link[1]}" if len(link) == 2 else f"{link[0]}/{link[1]}:{link[2]}"

    def way(self, plane: Int64Array, core: Int64Array) -> Int64Array:
        """Ways of flows, by plane and core (-1: none)."""
        across = plane * self.tree.cores + core
        return np.where(plane < 0, INSIDE, np.where(core < 0, self.across + plane, across))

    def plane_and_core(self, way: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The other way round."""
        inside_pod = way >= self.across
        plane = np.where(inside_pod, way - self.across, way // self.tree.cores)
        core = np.where(inside_pod, -1, way % self.tree.cores)
        return np.where(way == INSIDE, -1, plane), np.where(way == INSIDE, -1, core)

    def crossed(self, source: Int64Array, target: Int64Array, way: Int64Array) -> Int64Array:
        """(flows, 4) numbers of links: leaf, pod of the source; pod, leaf of the target. -1: none."""
        tree = self.tree
        plane, core = self.plane_and_core(way)
        low = [np.where(plane < 0, -1, leaf * tree.aggs + plane) for leaf in (source, target)]
        first = tree.low.size
        pods = [leaf // tree.leaves for leaf in (source, target)]
        high = [np.where(core < 0, -1, first + (pod * tree.aggs + plane) * tree.cores + core) for pod in pods]
        return np.stack([low[0], high[0], high[1], low[1]], axis=1)

    def usable(self, source: int, target: int, up: NDArray[np.bool_]) -> Int64Array:
        """The ways between two different leaves over links that are up, in order."""
        tree = self.tree
        low = up[: tree.low.size].reshape(tree.low.shape)
        planes = low[source] & low[target]
        p, q = source // tree.leaves, target // tree.leaves
        if p == q:
            return self.across + np.flatnonzero(planes)
        high = up[tree.low.size :].reshape(tree.high.shape)
        return np.flatnonzero(planes[:, None] & high[p] & high[q])

    def gates(self, source: Int64Array, target: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(flows, 4) leaves and pods that flows leave and enter, by number (-1: none), and what each lets through."""
        tree = self.tree
        pods, low = [leaf // tree.leaves for leaf in (source, target)], tree.low.sum(axis=1)
        first, high = 2 * len(low), tree.high.sum(axis=(1, 2))
        found = np.stack([source, len(low) + target, first + pods[0], first + tree.pods + pods[1]], axis=1)
        found[source == target] = -1
        found[pods[0] == pods[1], 2:] = -1
        return found, np.concatenate([low, low, high, high])

    def back(self, way: Int64Array) -> Int64Array:
        """The ways in the other direction: the same."""
        return way

    def beside(self, leaf: int) -> list[TreeLink]:
        """A leaf's own links."""
        return [(leaf, plane) for plane in range(self.tree.aggs)]

    def probes(self) -> list[Probe]:
        """Ways up a link and down the same again: to an aggregation switch from every leaf, to a core from two leaves
        of the pod, so that a dead link below one of them does not hide it."""
        tree = self.tree
        found = [Probe(u, self.across + j, [(u, j)]) for u in range(tree.all_leaves) for j in range(tree.aggs)]
        for p, j, i in np.ndindex(tree.high.shape):
            for turn in range(min(tree.leaves, 2)):
                leaf = p * tree.leaves + (i + turn) % tree.leaves
                found.append(Probe(leaf, j * tree.cores + i, [(leaf, j), (p, j, i)]))
        return found

    def failed(self, links: Iterable[TreeLink]) -> FatTree3:
        """The fabric with more failed links."""
        low, high = [], []
        for link in links:
            if len(link) == 2:
                low.append((link[0], link[1]))
            else:
                high.append((link[0], link[1], link[2]))
        return self.tree.with_failed(low, high)

    def ends(self) -> Int64Array:
        """(links, 2) switches of every link, lower one first: leaves, then aggregation switches, then cores."""
        tree = self.tree
        aggs = tree.all_leaves + np.arange(tree.pods * tree.aggs).reshape(tree.pods, tree.aggs)
        cores = tree.all_leaves + aggs.size
        low = [(u, aggs[u // tree.leaves, j]) for u in range(tree.all_leaves) for j in range(tree.aggs)]
        high = [(aggs[p, j], cores + j * tree.cores + i) for p, j, i in np.ndindex(tree.high.shape)]
        return np.array(low + high, np.int64)
