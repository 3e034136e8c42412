# SPDX-License-Identifier: Apache-2.0
"""Ways between leaves, and the links that each takes, for fat-trees of two and three levels alike.

A way is a number: a spine; where several cables join leaf and spine, (spine * cables + cable up) * cables + cable down;
on three levels, `tiers.ways`. A link is a tuple, as in `failed`, and has a number too. `INSIDE` is the way of what does
not leave its leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import INSIDE
from detour.control.fors.tiers.fabric import FatTree3
from detour.control.fors.tiers.ways import Probe, TierWays, TreeLink

FatTree = FatTree2 | FatTree3


Flags = NDArray[np.bool_]


class TreeWays(Protocol):
    """What those of a fabric tell."""

    @property
    def count(self) -> int:
        """Ways are 0..count-1."""
        ...

    @property
    def links(self) -> list[TreeLink]:
        """All links between switches, by number."""
        ...

    @property
    def lanes(self) -> int:
        """Flows that a link carries in a phase, in each direction."""
        ...

    def working(self) -> Flags:
        """(links,) which have not failed."""
        ...

    def name(self, link: TreeLink) -> str:
        """As `--fail` names it."""
        ...

    def crossed(self, source: Int64Array, target: Int64Array, way: Int64Array) -> Int64Array:
        """(flows, most links of a way): the links from leaf to leaf by number, those up in the first half and those
        down in the second; -1: none."""
        ...

    def usable(self, source: int, target: int, up: Flags) -> Int64Array:
        """The ways between two different leaves over links that are `up`, in order."""
        ...

    def gates(self, source: Int64Array, target: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(flows, gates) what flows leave and enter, leaves and pods in either direction by number (-1: none), and
        (gates,) how many flows of a phase the links of each let through."""
        ...

    def back(self, way: Int64Array) -> Int64Array:
        """The ways in the other direction, over the same links."""
        ...

    def beside(self, leaf: int) -> list[TreeLink]:
        """A leaf's own links."""
        ...

    def probes(self) -> list[Probe]:
        """Ways up a link and down the same again, all links among them."""
        ...

    def failed(self, links: Iterable[TreeLink]) -> FatTree:
        """The fabric with more failed links."""
        ...


class SpineWays:
    """Two levels. Links are (leaf, uplink), numbered leaf by leaf."""

    def __init__(self, tree: FatTree2) -> None:
        self.tree = tree
        self.count = tree.spines * tree.cables**2
        self.links: list[TreeLink] = [(u, c) for u in range(tree.leaves) for c in range(tree.uplinks)]
        self.lanes = tree.lanes

    def working(self) -> Flags:
        """See `TreeWays`."""
        return self.tree.working().ravel()

    def name(self, link: TreeLink) -> str:
        """See `TreeWays`."""
        leaf, uplink = link
        return self.tree.link_name(leaf, uplink)

    def crossed(self, source: Int64Array, target: Int64Array, way: Int64Array) -> Int64Array:
        """See `TreeWays`."""
        cables, uplinks = self.tree.cables, self.tree.uplinks
        over, down = np.divmod(way, cables)
        up = source * uplinks + over
        found = np.stack([up, target * uplinks + over // cables * cables + down], axis=1)
        return np.where((way == INSIDE)[:, None], -1, found)

    def usable(self, source: int, target: int, up: Flags) -> Int64Array:
        """See `TreeWays`."""
        cables = self.tree.cables
        both = up.reshape(self.tree.leaves, self.tree.spines, cables)[[source, target]]
        return np.flatnonzero(both[0, :, :, None] & both[1, :, None, :])

    def gates(self, source: Int64Array, target: Int64Array) -> tuple[Int64Array, Int64Array]:
        """See `TreeWays`."""
        room = self.tree.room().sum(axis=1)
        found = np.stack([source, target + len(room)], axis=1)
        return np.where((source == target)[:, None], -1, found), np.tile(room, 2)

    def back(self, way: Int64Array) -> Int64Array:
        """See `TreeWays`."""
        cables = self.tree.cables
        over, down = np.divmod(way, cables)
        spine, up = np.divmod(over, cables)
        return np.where(way == INSIDE, INSIDE, (spine * cables + down) * cables + up)

    def beside(self, leaf: int) -> list[TreeLink]:
        """See `TreeWays`."""
        return [(leaf, uplink) for uplink in range(self.tree.uplinks)]

    def probes(self) -> list[Probe]:
        """See `TreeWays`."""
        cables = self.tree.cables
        return [Probe(u, uplink * cables + uplink % cables, [(u, uplink)]) for u, uplink in self.links]

    def failed(self, links: Iterable[TreeLink]) -> FatTree2:
        """See `TreeWays`."""
        return self.tree.with_failed((leaf, uplink) for leaf, uplink in links)


def ways_of(tree: FatTree) -> TreeWays:
    """Those of a fabric."""
    return SpineWays(tree) if isinstance(tree, FatTree2) else TierWays(tree)


def crowd(
    ways: TreeWays, phase: Int64Array, source: Int64Array, target: Int64Array, way: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The phases that have flows, and the most flows that share a link in one direction in each of them (1 at least).

    `source`, `target`: leaves."""
    numbers, place = np.unique(phase, return_inverse=True)
    links = ways.crossed(source, target, way)
    worst = np.ones(len(numbers), np.int64)
    half, many = links.shape[1] // 2, len(ways.links)
    for side in (links[:, :half], links[:, half:]):
        row, column = np.nonzero(side >= 0)
        load = np.bincount(place[row] * many + side[row, column], minlength=len(numbers) * many)
        worst = np.maximum(worst, load.reshape(len(numbers), many).max(axis=1, initial=1))
    return numbers, worst


def islands(tree: FatTree, up: Flags) -> Int64Array:
    """(leaves,) a number for each part that links which are up hold together."""
    import networkx

    ends = link_ends(tree)
    graph = networkx.empty_graph(int(ends.max(initial=0)) + 1)
    graph.add_edges_from(ends[up].tolist())
    number = np.zeros(len(graph), np.int64)
    for count, part in enumerate(networkx.connected_components(graph)):
        number[list(part)] = count
    return number[: leaves_of(tree)]


def leaves_of(tree: FatTree) -> int:
    """How many leaves there are."""
    return tree.leaves if isinstance(tree, FatTree2) else tree.all_leaves


def link_ends(tree: FatTree) -> Int64Array:
    """(links, 2) the switches of every link, lower one first: leaves, then what is above them."""
    if isinstance(tree, FatTree2):
        return np.array([(u, tree.leaves + c // tree.cables) for u, c in SpineWays(tree).links], np.int64)
    return TierWays(tree).ends()
