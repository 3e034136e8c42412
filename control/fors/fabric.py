# SPDX-License-Identifier: Apache-2.0
"""The fat-tree FT(2; M0, M1) of the paper, section 4: M1 leaves, each joined to M0 spines and to at most M0 servers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from detour.base.errors import DetourError
from detour.topo.keyvalues import check_keys, split_spec, whole_number

LeafSpineLink = tuple[int, int]
"""A leaf and a spine."""

_MOST = 256
"""Spines or leaves of a fabric at most: 65,536 servers and more would need plans of 32 GB."""


@dataclass(frozen=True)
class FatTree2:
    """FT(2; spines, leaves) with failed links.

    Leaf g's servers are `g * spines + a` for a in 0..population[g]-1: the paper's numbers, with gaps where a leaf is
    not full. A link fails in both directions.

    Raises:
        DetourError: a number is out of range.
    """

    spines: int
    """M0"""
    leaves: int
    """M1"""
    failed: frozenset[LeafSpineLink] = frozenset()
    population: tuple[int, ...] = field(default=())
    """servers of each leaf, at most `spines`; empty: all leaves are full"""
    group: tuple[int, ...] = field(default=())
    """servers that take part in the exchange, in order; empty: all that are there"""

    def __post_init__(self) -> None:
        for name, value in (("m0", self.spines), ("m1", self.leaves)):
            if not 1 <= value <= _MOST:
                raise DetourError(f"fat-tree of two levels: {name}={value} is not in 1..{_MOST}")
        if not self.population:
            object.__setattr__(self, "population", (self.spines,) * self.leaves)
        if len(self.population) != self.leaves or not all(0 <= n <= self.spines for n in self.population):
            raise DetourError(f"{self.name}: the population is not {self.leaves} numbers in 0..{self.spines}")
        for leaf, spine in sorted(self.failed):
            if not (0 <= leaf < self.leaves and 0 <= spine < self.spines):
                raise DetourError(
                    f"{self.name} has no link {leaf}:{spine} (leaf 0..{self.leaves - 1}, spine 0..{self.spines - 1})"
                )
        object.__setattr__(self, "group", tuple(sorted(self.group)))
        self._check_group()

    def _check_group(self) -> None:
        present = self.present()
        for server in self.group:
            if not (0 <= server < self.slots and present[server]):
                raise DetourError(f"{self.name} has no server {server} that could take part")
        if len(set(self.group)) < len(self.group):
            raise DetourError(f"{self.name}: a server takes part once, and the group names one twice")

    @property
    def name(self) -> str:
        """`FT(2;20,18)`."""
        return f"FT(2;{self.spines},{self.leaves})"

    @property
    def slots(self) -> int:
        """P of the paper: places for servers."""
        return self.spines * self.leaves

    @property
    def servers(self) -> int:
        """Servers that take part."""
        return len(self.group) or sum(self.population)

    @property
    def full(self) -> bool:
        """Whether every place has its server and all of them take part."""
        return self.servers == self.slots

    def alive(self) -> np.ndarray:
        """(leaves, spines) bool: the links that work."""
        alive = np.ones((self.leaves, self.spines), bool)
        for leaf, spine in self.failed:
            alive[leaf, spine] = False
        return alive

    def present(self) -> np.ndarray:
        """(slots,) bool: the servers that are there."""
        offsets = np.arange(self.slots) % self.spines
        return offsets < np.repeat(np.array(self.population), self.spines)

    def taking_part(self) -> np.ndarray:
        """(slots,) bool: the servers that take part."""
        if not self.group:
            return self.present()
        part = np.zeros(self.slots, bool)
        part[list(self.group)] = True
        return part

    def sizes(self) -> np.ndarray:
        """(leaves,) int: how many servers of each leaf take part."""
        return self.taking_part().reshape(self.leaves, self.spines).sum(axis=1)

    def seats(self) -> np.ndarray:
        """(leaves, spines) int32: numbers of the servers, those of a leaf that take part first."""
        others = ~self.taking_part().reshape(self.leaves, self.spines)
        offsets = np.argsort(others, axis=1, kind="stable").astype(np.int32)
        return offsets + np.arange(self.leaves, dtype=np.int32)[:, None] * self.spines

    @property
    def reduction(self) -> int:
        """f of the paper: the most failed links of a leaf (one with servers that take part)."""
        return int((~self.alive()).sum(axis=1)[self.sizes() > 0].max(initial=0))

    def with_failed(self, links: Iterable[LeafSpineLink]) -> FatTree2:
        """The same fabric with more failed links."""
        return replace(self, failed=self.failed | frozenset(links))

    def unreachable(self) -> list[tuple[int, int]]:
        """Pairs of leaves (lower first), both with servers that take part, without a spine that both reach."""
        alive = self.alive().astype(np.int64)
        common = alive @ alive.T
        here = self.sizes() > 0
        found = np.argwhere((common == 0) & here[:, None] & here[None, :])
        return [(int(u), int(v)) for u, v in found if u < v]


def spread(spines: int, leaves: int, servers: int) -> tuple[int, ...]:
    """A population of `servers`, as even as it can be, the first leaves one more.

    Raises:
        DetourError: there are not that many places.
    """
    if not 1 <= servers <= spines * leaves:
        raise DetourError(f"FT(2;{spines},{leaves}) has places for 1..{spines * leaves} servers, not for {servers}")
    each, more = divmod(servers, leaves)
    return tuple(each + (leaf < more) for leaf in range(leaves))


def parse_fabric(
    topo: str,
    fail: str | None = None,
    servers: int | None = None,
    population: str | None = None,
    group: str | None = None,
) -> FatTree2:
    """The fabric of `ft:m0=20,m1=18` with failed links `0:0,5:1` (leaf:spine; `*:3`: spine 3).

    `servers`, or `population` for every leaf (`20,19,...`): those that are there. `group`: those that take part, like
    `0-3,20-23,45`.

    Raises:
        DetourError: what is wrong with the texts.
    """
    name, values = split_spec(topo)
    if name.lower() != "ft":
        raise DetourError(f"topology {topo!r}: FORS runs on fat-trees of two levels, like ft:m0=20,m1=18")
    check_keys(topo, values, ("m0", "m1"))
    spines, leaves = (whole_number(topo, key, values[key]) for key in ("m0", "m1"))
    bare = FatTree2(spines, leaves)
    if servers is not None and population is not None:
        raise DetourError("--servers spreads servers over leaves, --population says how many each has: one of the two")
    there = () if servers is None else spread(spines, leaves, servers)
    if population is not None:
        there = _numbers(population, f"population {population!r}", ranges=False)
    fabric = FatTree2(spines, leaves, parse_links(bare, fail), there)
    return fabric if group is None else replace(fabric, group=_numbers(group, f"group {group!r}", ranges=True))


def _numbers(text: str, what: str, *, ranges: bool) -> tuple[int, ...]:
    """Numbers `4,2,3`; with `ranges` also `0-3`, both ends included.

    Raises:
        DetourError: a part is neither.
    """
    form = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?" if ranges else r"\s*(\d{1,6})\s*()", re.ASCII)
    found: list[int] = []
    for part in text.split(","):
        match = form.fullmatch(part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            like = "a number or a range like 0-3" if ranges else "a number"
            raise DetourError(f"{what}: {part.strip()!r} is not {like}")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(found)


def parse_links(fabric: FatTree2, text: str | None) -> frozenset[LeafSpineLink]:
    """Links given as `leaf:spine,...`, with `*` for all leaves or all spines (a switch that is down).

    Raises:
        DetourError: a part is not of that form, or there is no such link.
    """
    links: set[LeafSpineLink] = set()
    for part in text.split(",") if text is not None else ():
        leaf, colon, spine = (piece.strip() for piece in part.partition(":"))
        if not colon or not all(end == "*" or (end.isascii() and end.isdecimal()) for end in (leaf, spine)):
            raise DetourError(f"failed links {text!r}: {part.strip()!r} is not leaf:spine, like 0:3")
        leaves = range(fabric.leaves) if leaf == "*" else [int(leaf)]
        spines = range(fabric.spines) if spine == "*" else [int(spine)]
        links.update((u, c) for u in leaves for c in spines)
    return fabric.with_failed(links).failed


def random_failures(fabric: FatTree2, count: int, seed: int, *, connected: bool = True) -> FatTree2:
    """The fabric with `count` more links failed at random.

    `connected`: every pair of leaves keeps a common spine; a link that would part one is not drawn.

    Raises:
        DetourError: there are not that many links that may fail.
    """
    rng = random.Random(f"fors failures {seed}")
    links = [(u, c) for u in range(fabric.leaves) for c in range(fabric.spines) if (u, c) not in fabric.failed]
    rng.shuffle(links)
    if not 0 <= count <= len(links):
        raise DetourError(f"{fabric.name} has {len(links)} working links; {count} cannot fail")
    alive = fabric.alive()
    common = alive.astype(np.int64) @ alive.T.astype(np.int64)
    chosen: set[LeafSpineLink] = set()
    for leaf, spine in links:
        if len(chosen) == count:
            break
        others = alive[:, spine].copy()
        others[leaf] = False
        if connected and (common[leaf, others] <= 1).any():
            continue
        common[leaf, others] -= 1
        common[others, leaf] -= 1
        alive[leaf, spine] = False
        chosen.add((leaf, spine))
    if len(chosen) < count:
        raise DetourError(
            f"{fabric.name}: only {len(chosen)} of {count} links can fail (seed {seed}) while every pair of leaves "
            "keeps a common spine"
        )
    return fabric.with_failed(chosen)
