# SPDX-License-Identifier: Apache-2.0
"""A fat-tree of three levels with failed links: pods of leaves and aggregation switches, cores above them.

Aggregation switch j of every pod is joined to the same `cores` cores, those of plane j (Al-Fares et al., SIGCOMM 2008;
`topo.clos.fat_tree`), and to every leaf of its pod. So who goes up to plane j comes down over plane j.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.places import Servers, inhabited
from detour.topo.keyvalues import check_keys, split_spec, whole_number

_MOST = 64
"""pods, leaves of a pod, planes, cores of a plane, servers of a leaf at most"""
_MOST_SERVERS = 4096
_KINDS = ("ft3", "fat-tree")


@dataclass(frozen=True)
class FatTree3(Servers):
    """Leaf g of pod g // leaves has the servers g * hosts + a for a in 0..population[g]-1. Links fail in both
    directions.

    Raises:
        DetourError: a number is out of range.
    """

    pods: int
    leaves: int
    """of a pod"""
    aggs: int
    """aggregation switches of a pod, which are planes"""
    cores: int
    """of a plane"""
    hosts: int
    """servers of a leaf"""
    failed_low: frozenset[tuple[int, int]] = frozenset()
    """(leaf, plane), leaves counted over all pods"""
    failed_high: frozenset[tuple[int, int, int]] = frozenset()
    """(pod, plane, core of the plane)"""
    population: tuple[int, ...] = field(default=())
    """servers of each leaf, at most `hosts`; empty: all leaves are full"""
    group: tuple[int, ...] = field(default=())
    """servers that take part in the exchange, in order; empty: all that are there"""

    def __post_init__(self) -> None:
        for name in ("pods", "leaves", "aggs", "cores", "hosts"):
            if not 1 <= getattr(self, name) <= _MOST:
                raise DetourError(f"fat-tree of three levels: {name}={getattr(self, name)} is not in 1..{_MOST}")
        if not self.population:
            object.__setattr__(self, "population", (self.hosts,) * self.all_leaves)
        self.check_population(self.all_leaves)
        if self.slots > _MOST_SERVERS:
            raise DetourError(f"{self.name}: {self.slots} servers are more than {_MOST_SERVERS}")
        object.__setattr__(self, "group", tuple(sorted(self.group)))
        self.check_servers()
        shape = (self.pods, self.aggs, self.cores)
        low = [link for link in self.failed_low if not _inside(link, (self.all_leaves, self.aggs))]
        high = [link for link in self.failed_high if not _inside(link, shape)]
        if low or high:
            raise DetourError(f"{self.name} has no link {low or high}")

    @property
    def name(self) -> str:
        """`FT(3;pods,leaves,aggs,cores,hosts)`."""
        return f"FT(3;{self.pods},{self.leaves},{self.aggs},{self.cores},{self.hosts})"

    @property
    def all_leaves(self) -> int:
        """Of all pods."""
        return self.pods * self.leaves

    @property
    def at_once(self) -> int:
        """Messages that a server sends, and that it receives, in a phase."""
        return 1

    @property
    def reduction(self) -> int:
        """The most failed links of a leaf with servers that take part."""
        return int((~self.low).sum(axis=1)[self.sizes() > 0].max(initial=0))

    def failed_names(self) -> list[str]:
        """`leaf:plane` and `pod/plane:core`, in order."""
        low = [f"{u}:{j}" for u, j in sorted(self.failed_low)]
        return low + [f"{p}/{j}:{i}" for p, j, i in sorted(self.failed_high)]

    @cached_property
    def low(self) -> np.ndarray:
        """(all leaves, planes) bool: links between leaves and aggregation switches that work."""
        found = np.ones((self.all_leaves, self.aggs), bool)
        for link in self.failed_low:
            found[link] = False
        return found

    @cached_property
    def high(self) -> np.ndarray:
        """(pods, planes, cores) bool: links between aggregation switches and cores that work."""
        found = np.ones((self.pods, self.aggs, self.cores), bool)
        for link in self.failed_high:
            found[link] = False
        return found

    @cached_property
    def pod_of(self) -> np.ndarray:
        """(all leaves,) the pod of each."""
        return np.arange(self.all_leaves) // self.leaves

    @cached_property
    def common(self) -> np.ndarray:
        """(pods, pods, planes) int: cores that both pods reach; of a pod and itself 1, for its aggregation switch."""
        high = self.high.astype(np.int64)
        found = np.einsum("pji,qji->pqj", high, high)
        found[np.arange(self.pods), np.arange(self.pods)] = 1
        return found

    @cached_property
    def planes(self) -> np.ndarray:
        """(all leaves, all leaves, planes) bool: planes over which two leaves reach each other."""
        both = self.low[:, None] & self.low[None, :]
        return both & (self.common[self.pod_of[:, None], self.pod_of[None, :]] > 0)

    def unreachable(self) -> list[tuple[int, int]]:
        """Pairs of leaves (lower first), both with servers that take part, without a way up and down."""
        here = self.sizes() > 0
        found = np.argwhere(~self.planes.any(axis=2) & here[:, None] & here[None, :])
        return [(int(u), int(v)) for u, v in found if u < v]

    def with_failed(self, low: Iterable[tuple[int, int]], high: Iterable[tuple[int, int, int]]) -> FatTree3:
        """The same with more failed links."""
        return replace(self, failed_low=self.failed_low | set(low), failed_high=self.failed_high | set(high))


def _inside(link: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(0 <= value < limit for value, limit in zip(link, shape, strict=True))


def is_three_level(topo: str) -> bool:
    """Whether a text means a fat-tree of three levels."""
    return topo.partition(":")[0].strip().lower() in _KINDS


def parse_three_levels(
    topo: str,
    fail: str | None = None,
    servers: int | None = None,
    population: str | None = None,
    group: str | None = None,
) -> FatTree3:
    """The fabric of `ft3:pods=4,leaves=2,aggs=2,cores=2,hosts=2` (cores: of a plane) or `fat-tree:k=4`.

    `fail`: `3:1,2/0:1`: leaf 3 and its pod's aggregation switch 1; aggregation switch 0 of pod 2 and core 1 of its
    plane. `*` is every number at its place. Servers, population and group as in `parse_fabric`.

    Raises:
        DetourError: what is wrong with the texts.
    """
    kind, values = split_spec(topo)
    if kind.lower() == "fat-tree":
        check_keys(topo, values, ("k",), ("blocking",))
        k, blocking = (whole_number(topo, key, values.get(key, "1")) for key in ("k", "blocking"))
        if k < 2 or k % 2 or blocking < 1:
            raise DetourError(f"{topo!r}: k must be an even number from 2 on, and blocking 1 or more")
        half = k // 2
        bare = FatTree3(k, half, half, half, half * blocking)
    else:
        names = ("pods", "leaves", "aggs", "cores")
        check_keys(topo, values, names, ("hosts",))
        values = {"hosts": values["aggs"], **values}
        pods, leaves, aggs, cores, hosts = (whole_number(topo, name, values[name]) for name in (*names, "hosts"))
        bare = FatTree3(pods, leaves, aggs, cores, hosts)
    return inhabited(bare, servers, population, group).with_failed(*parse_tier_links(bare, fail))


_LINK = re.compile(r"(?:(\d{1,4}|\*)/)?(\d{1,4}|\*):(\d{1,4}|\*)", re.ASCII)


def parse_tier_links(fabric: FatTree3, text: str | None) -> tuple[set[tuple[int, int]], set[tuple[int, int, int]]]:
    low: set[tuple[int, int]] = set()
    high: set[tuple[int, int, int]] = set()
    for part in text.split(",") if text is not None else ():
        match = _LINK.fullmatch(part.strip())
        if not match:
            raise DetourError(f"failed links {text!r}: {part.strip()!r} is not leaf:agg, like 3:1, or pod/agg:core")
        ends = [end for end in match.groups() if end is not None]
        shape = (fabric.all_leaves, fabric.aggs) if len(ends) == 2 else (fabric.pods, fabric.aggs, fabric.cores)
        if any(end != "*" and int(end) >= limit for end, limit in zip(ends, shape, strict=True)):
            what = ("leaf", "agg") if len(ends) == 2 else ("pod", "agg", "core")
            limits = ", ".join(f"{name} 0..{limit - 1}" for name, limit in zip(what, shape, strict=True))
            raise DetourError(f"{fabric.name} has no link {part.strip()} ({limits})")
        grid = np.ix_(*(range(limit) if end == "*" else [int(end)] for end, limit in zip(ends, shape, strict=True)))
        found = np.stack(np.broadcast_arrays(*grid), axis=-1).reshape(-1, len(ends)).tolist()
        if len(ends) == 2:
            low |= {(u, j) for u, j in found}
        else:
            high |= {(p, j, i) for p, j, i in found}
    return low, high


def draw_failures(fabric: FatTree3, count: int, seed: int) -> FatTree3:
    """The fabric with `count` more links of either level failed; a link that would part two leaves is not drawn.

    Raises:
        DetourError: there are not that many links that may fail.
    """
    rng = random.Random(f"fors failures of three levels {seed}")
    low = [(int(u), int(j)) for u, j in np.argwhere(fabric.low)]
    high = [(int(p), int(j), int(i)) for p, j, i in np.argwhere(fabric.high)]
    links = [*low, *high]
    rng.shuffle(links)
    if not 0 <= count <= len(links):
        raise DetourError(f"{fabric.name} has {len(links)} working links; {count} cannot fail")
    left = count
    for link in links:
        if not left:
            return fabric
        tried = fabric.with_failed([link], []) if len(link) == 2 else fabric.with_failed([], [link])
        if not tried.unreachable():
            fabric, left = tried, left - 1
    if left:
        raise DetourError(f"{fabric.name}: only {count - left} links can fail before two leaves lose their last way")
    return fabric
