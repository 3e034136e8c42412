# SPDX-License-Identifier: Apache-2.0
"""Fat-trees of two and three levels with failed links.

Two levels are FT(2; M0, M1) of the paper, section 4: M1 leaves, each joined to M0 spines and to at most M0 servers.
Beyond the paper a leaf may have more or fewer places for servers than spines, several cables to every spine, and these
may be faster or slower than servers' links.

On three levels leaves are in pods, and spine j of every pod, its aggregation switch, is joined to the same `cores`
cores, those of plane j (Al-Fares et al., SIGCOMM 2008; `topo.clos.fat_tree`). So who goes up to plane j comes down over
plane j. Two levels are the case of one pod without cores.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from detour.base.errors import DetourError

TreeLink = tuple[int, ...]  # a leaf and an uplink (spine * cables + cable); or a pod, a plane and a core of the plane

_MOST = {2: 256, 3: 64}  # switches of a kind, by levels: plans of 65,536 servers would have 32 GB
_MOST_SERVERS = 4096  # on three levels
_MOST_CABLES = 16  # between a leaf and a spine; flows in a cable, messages of a server at a time
_LEVELS = {2: "fat-tree of two levels", 3: "fat-tree of three levels"}


@dataclass(frozen=True)
class FatTree:
    """FT(2; spines, leaves), or with `cores` a tree of three levels, with failed links.

    Leaf g's servers are `g * hosts + a` for a in 0..population[g]-1: the paper's numbers, with gaps where a leaf is
    not full. Leaves are numbered over all pods. A link fails in both directions, every cable by itself.

    With `speed` = p / q (in lowest terms) a phase is the time of q messages at a server's rate: a cable carries p
    messages in it and a server sends q and receives q, each at 1/q of its rate. Raises `DetourError`: a number is out
    of range."""

    spines: int  # M0; on three levels the aggregation switches of a pod, which are planes
    leaves: int  # M1; on three levels of a pod
    failed: frozenset[TreeLink] = frozenset()
    population: tuple[int, ...] = ()  # servers of each leaf, at most `hosts`; empty: all leaves are full
    group: tuple[int, ...] = ()  # servers that take part, in order; empty: all that are there
    hosts: int = 0  # places for servers at a leaf; 0: as many as spines
    cables: int = 1  # parallel cables between each leaf and each spine
    speed: Fraction = Fraction(1)  # rate of such a cable, relative to a server's link
    pods: int = 1
    cores: int = 0  # of a plane; 0: two levels

    @classmethod
    def three_levels(cls, pods: int, leaves: int, aggs: int, cores: int, hosts: int, **more: Any) -> FatTree:
        """Pods of so many leaves and aggregation switches, each of these with so many cores; `failed`, `population`
        and `group` as in the class. Raises `DetourError`: a number is out of range."""
        _check_numbers(3, pods=pods, leaves=leaves, aggs=aggs, cores=cores, hosts=hosts)
        return cls(aggs, leaves, hosts=hosts, pods=pods, cores=cores, **more)

    def __post_init__(self) -> None:
        if not self.hosts:
            object.__setattr__(self, "hosts", self.spines)
        if self.cores:
            numbers = {"pods": self.pods, "leaves": self.leaves, "aggs": self.spines, "cores": self.cores}
            _check_numbers(3, **numbers, hosts=self.hosts)
            if not self.single:
                raise DetourError(f"{_LEVELS[3]}: {self.cables} cables of speed {self.speed}; there is one of speed 1")
        else:
            _check_numbers(2, m0=self.spines, m1=self.leaves, hosts=self.hosts)
            if not 1 <= self.cables <= _MOST_CABLES:
                raise DetourError(f"{_LEVELS[2]}: cables={self.cables} is not in 1..{_MOST_CABLES}")
            if self.uplinks * self.speed.numerator > 4 * _MOST[2]:
                raise DetourError(f"{_LEVELS[2]}: {self.uplinks} cables of a leaf for {self.speed} are too many")
            if not (self.speed > 0 and max(self.speed.numerator, self.speed.denominator) <= _MOST_CABLES):
                raise DetourError(f"{_LEVELS[2]}: speed={self.speed} is not a fraction of numbers in 1..{_MOST_CABLES}")
            if self.pods != 1:
                raise DetourError(f"{_LEVELS[2]}: {self.pods} pods need cores, which two levels do not have")
        if not self.population:
            object.__setattr__(self, "population", (self.hosts,) * self.all_leaves)
        if len(self.population) != self.all_leaves or not all(0 <= n <= self.hosts for n in self.population):
            raise DetourError(f"{self.name}: the population is not {self.all_leaves} numbers in 0..{self.hosts}")
        if self.cores and self.slots > _MOST_SERVERS:
            raise DetourError(f"{self.name}: {self.slots} servers exceed the limit of {_MOST_SERVERS}")
        for link in sorted(self.failed):
            shape = self.high.shape if len(link) == 3 else (self.all_leaves, self.uplinks)
            if not all(0 <= value < limit for value, limit in zip(link, shape, strict=True)):
                raise DetourError(f"{self.name} has no link {':'.join(map(str, link))} {self.ends_text(len(link))}")
        object.__setattr__(self, "group", tuple(sorted(self.group)))
        present = self.present()
        for server in self.group:
            if not (0 <= server < self.slots and present[server]):
                raise DetourError(f"{self.name} has no server {server}")
        if len(set(self.group)) < len(self.group):
            raise DetourError(f"{self.name}: the group names a server twice")

    @property
    def name(self) -> str:
        """`FT(2;20,18)`; what the paper does not have comes behind: `FT(2;4,6;hosts=8,cables=2,speed=1/2)`. Three
        levels: `FT(3;pods,leaves,aggs,cores,hosts)`."""
        if self.cores:
            return f"FT(3;{self.pods},{self.leaves},{self.spines},{self.cores},{self.hosts})"
        more = [f"hosts={self.hosts}"] if self.hosts != self.spines else []
        more += [f"cables={self.cables}"] if self.cables != 1 else []
        more += [f"speed={self.speed}"] if self.speed != 1 else []
        return f"FT(2;{self.spines},{self.leaves}{';' if more else ''}{','.join(more)})"

    @property
    def slots(self) -> int:
        """P of the paper: places for servers."""
        return self.hosts * len(self.population)

    @property
    def servers(self) -> int:
        """Servers that take part."""
        return len(self.group) or sum(self.population)

    @property
    def full(self) -> bool:
        """Return whether every place has its server and all of them take part."""
        return self.servers == self.slots

    def present(self) -> np.ndarray:
        """(slots,) bool: the servers that are there."""
        offsets = np.arange(self.slots) % self.hosts
        return offsets < np.repeat(np.array(self.population), self.hosts)

    def taking_part(self) -> np.ndarray:
        """(slots,) bool: the servers that take part."""
        if not self.group:
            return self.present()
        part = np.zeros(self.slots, bool)
        part[list(self.group)] = True
        return part

    def sizes(self) -> np.ndarray:
        """(leaves,) int: how many servers of each leaf take part."""
        return self.taking_part().reshape(-1, self.hosts).sum(axis=1)

    def server_numbers(self) -> np.ndarray:
        """(leaves, hosts) int32: numbers of the servers, those of a leaf that take part first."""
        others = ~self.taking_part().reshape(-1, self.hosts)
        offsets = np.argsort(others, axis=1, kind="stable").astype(np.int32)
        return offsets + np.arange(len(offsets), dtype=np.int32)[:, None] * self.hosts

    @property
    def all_leaves(self) -> int:
        """Number of leaves of all pods."""
        return self.pods * self.leaves

    @property
    def uplinks(self) -> int:
        """Cables of a leaf to spines, those that failed included."""
        return self.spines * self.cables

    @property
    def lanes(self) -> int:
        """Flows that a cable carries in a phase."""
        return self.speed.numerator

    @property
    def at_once(self) -> int:
        """Messages that a server sends, and that it receives, in a phase."""
        return self.speed.denominator

    @property
    def single(self) -> bool:
        """Return whether leaf and spine have one cable that carries one flow a phase, as in the paper."""
        return self.cables == 1 and self.speed == 1

    def link_name(self, link: TreeLink) -> str:
        """`leaf:spine`, or `leaf:spine:cable` where there are several; `pod/plane:core`."""
        if len(link) == 3:
            return f"{link[0]}/{link[1]}:{link[2]}"
        spine, cable = divmod(link[1], self.cables)
        return f"{link[0]}:{spine}" if self.cables == 1 else f"{link[0]}:{spine}:{cable}"

    def failed_names(self) -> list[str]:
        """Return the names of the failed links, in order."""
        return [self.link_name(link) for link in sorted(self.failed, key=lambda link: (len(link), link))]

    @cached_property
    def working(self) -> np.ndarray:
        """(all leaves, spines, cables) bool: the cables that work."""
        working = np.ones((self.all_leaves, self.uplinks), bool)
        for link in self.failed:
            if len(link) == 2:
                working[link] = False
        return working.reshape(self.all_leaves, self.spines, self.cables)

    @cached_property
    def alive(self) -> np.ndarray:
        """(all leaves, spines) bool: where a cable works."""
        return self.working.sum(axis=2) > 0

    @cached_property
    def high(self) -> np.ndarray:
        """(pods, planes, cores) bool: links between aggregation switches and cores that work."""
        high = np.ones((self.pods, self.spines, self.cores), bool)
        for link in self.failed:
            if len(link) == 3:
                high[link] = False
        return high

    @cached_property
    def pod_of(self) -> np.ndarray:
        """(all leaves,) the pod of each."""
        return np.arange(self.all_leaves) // self.leaves

    @cached_property
    def planes(self) -> np.ndarray:
        """(all leaves, all leaves, planes) bool: spines, or planes, over which two leaves reach each other."""
        return _planes(self.alive, self.high, self.pod_of, np.arange(self.all_leaves))

    def room(self) -> np.ndarray:
        """(all leaves, spines) int: flows that the cables between them carry in a phase."""
        return self.working.sum(axis=2) * self.lanes

    @property
    def reduction(self) -> int:
        """f of the paper: the most failed links of a leaf (one with servers that take part)."""
        return int((~self.working).sum(axis=(1, 2))[self.sizes() > 0].max(initial=0))

    def with_failed(self, links: Iterable[TreeLink]) -> FatTree:
        """The same fabric with more failed links."""
        return replace(self, failed=self.failed | frozenset(links))

    def unreachable(self) -> list[tuple[int, int]]:
        """Pairs of leaves (lower first), both with servers that take part, that no path joins."""
        here = self.sizes() > 0
        pairs = np.argwhere(~self.planes.any(axis=2) & here[:, None] & here[None, :])
        return [(int(u), int(v)) for u, v in pairs if u < v]

    def ends_text(self, ends: int) -> str:
        """Return the ranges of the numbers of a link with so many ends."""
        names = {"leaf": self.all_leaves, "agg" if self.cores else "spine": self.spines}
        names |= {"cable": self.cables} if self.cables > 1 else {}
        if ends == 3 and self.cores:
            names = {"pod": self.pods, "agg": self.spines, "core": self.cores}
        return f"({', '.join(f'{name} 0..{count - 1}' for name, count in names.items())})"


def _check_numbers(levels: int, **numbers: int) -> None:
    for name, value in numbers.items():
        if not 1 <= value <= _MOST[levels]:
            raise DetourError(f"{_LEVELS[levels]}: {name}={value} is not in 1..{_MOST[levels]}")


def _planes(alive: np.ndarray, high: np.ndarray, pod_of: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(rows, all leaves, planes) those of some leaves: see `FatTree.planes`."""
    over = (high[:, None] & high[None, :]).sum(axis=3) > 0  # pods and planes
    over[np.arange(len(high)), np.arange(len(high))] = True  # inside a pod nothing goes over cores
    return alive[rows][:, None] & alive[None, :] & over[pod_of[rows][:, None], pod_of[None, :]]


def unreachable_text(fabric: FatTree, lost: tuple[tuple[int, int], ...]) -> str:
    """One line that names the pairs."""
    pairs = ", ".join(f"{u} and {v}" for u, v in lost[:8])
    pairs += f" and {len(lost) - 8} more pairs" if len(lost) > 8 else ""
    what = "way up and down" if fabric.cores else "common spine"
    return f"{fabric.name}: no {what} is left for leaves {pairs} (--skip-unreachable plans the rest)"


def random_failures(fabric: FatTree, count: int, seed: int) -> FatTree:
    """The fabric with `count` more links failed at random. Every pair of leaves keeps a common spine or, on three
    levels, a path: a link that would part one is not drawn. Raises `DetourError`: there are not that many links that
    may fail."""
    rng = random.Random(f"fors failures of three levels {seed}" if fabric.cores else f"fors failures {seed}")
    working, high = fabric.working.copy(), fabric.high.copy()
    links: list[TreeLink] = [(u, c * fabric.cables + k) for u, c, k in np.argwhere(working).tolist()]
    links += [tuple(link) for link in np.argwhere(high).tolist()]
    rng.shuffle(links)
    if not 0 <= count <= len(links):
        raise DetourError(f"{fabric.name} has {len(links)} working links; {count} cannot fail")
    joined, pod_of = np.asarray(fabric.planes.any(axis=2)), fabric.pod_of
    np.fill_diagonal(joined, False)
    if fabric.cores:  # leaves without servers may be parted
        joined &= (fabric.sizes() > 0)[:, None] & (fabric.sizes() > 0)
    chosen: set[TreeLink] = set()
    for link in links:
        if len(chosen) == count:
            break
        array, at = (high, link) if len(link) == 3 else (working, (link[0], *divmod(link[1], fabric.cables)))
        array[at] = False
        rows = np.array([link[0]]) if len(link) == 2 else np.flatnonzero(pod_of == link[0])
        now = joined[rows] & _planes(working.sum(axis=2) > 0, high, pod_of, rows).any(axis=2)
        if (now != joined[rows]).any():
            array[at] = True
            continue
        joined[rows], joined[:, rows] = now, now.T
        chosen.add(link)
    if len(chosen) < count:
        drawn = f"only {len(chosen)} of {count} links can fail (seed {seed}) while every pair of leaves"
        if fabric.cores:
            raise DetourError(f"{fabric.name}: only {len(chosen)} links can fail before two leaves are disconnected")
        raise DetourError(f"{fabric.name}: {drawn} keeps a common spine")
    return fabric.with_failed(chosen)
