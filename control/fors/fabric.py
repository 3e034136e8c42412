# SPDX-License-Identifier: Apache-2.0
"""The fat-tree FT(2; M0, M1) of the paper, section 4: M1 leaves, each joined to M0 spines and to at most M0 servers.

Beyond the paper: a leaf may have more or fewer places for servers than spines, several cables to every spine, and these
may be faster or slower than servers' links.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.places import Servers, inhabited
from detour.topo.keyvalues import check_keys, split_spec, whole_number

LeafSpineLink = tuple[int, int]
"""A leaf and an uplink: a spine or, where several cables lead to each, spine * cables + cable."""

_MOST = 256
"""Spines or leaves of a fabric at most: 65,536 servers and more would need plans of 32 GB."""
_MOST_CABLES = 16
"""Cables between a leaf and a spine, flows in a cable and messages of a server at a time at most."""


@dataclass(frozen=True)
class FatTree2(Servers):
    """FT(2; spines, leaves) with failed links.

    Leaf g's servers are `g * hosts + a` for a in 0..population[g]-1: the paper's numbers, with gaps where a leaf is
    not full. A link fails in both directions, every cable by itself.

    With `speed` = p / q (in lowest terms) a phase is the time of q messages at a server's rate: a cable carries p
    messages in it and a server sends q and receives q, each at 1/q of its rate.

    Raises:
        DetourError: a number is out of range.
    """

    spines: int
    """M0"""
    leaves: int
    """M1"""
    failed: frozenset[LeafSpineLink] = frozenset()
    population: tuple[int, ...] = field(default=())
    """servers of each leaf, at most `hosts`; empty: all leaves are full"""
    group: tuple[int, ...] = field(default=())
    """servers that take part in the exchange, in order; empty: all that are there"""
    hosts: int = 0
    """places for servers at a leaf; 0: as many as spines"""
    cables: int = 1
    """parallel cables between each leaf and each spine"""
    speed: Fraction = Fraction(1)
    """rate of such a cable, relative to a server's link"""

    def __post_init__(self) -> None:
        for name, value in (("m0", self.spines), ("m1", self.leaves)):
            if not 1 <= value <= _MOST:
                raise DetourError(f"fat-tree of two levels: {name}={value} is not in 1..{_MOST}")
        self._check_links()
        if not self.population:
            object.__setattr__(self, "population", (self.hosts,) * self.leaves)
        self.check_population(self.leaves)
        for leaf, uplink in sorted(self.failed):
            if not (0 <= leaf < self.leaves and 0 <= uplink < self.uplinks):
                raise DetourError(
                    f"{self.name} has no link {leaf}:{uplink} (leaf 0..{self.leaves - 1}, spine 0..{self.spines - 1})"
                )
        object.__setattr__(self, "group", tuple(sorted(self.group)))
        self.check_servers()

    def _check_links(self) -> None:
        if not self.hosts:
            object.__setattr__(self, "hosts", self.spines)
        if not 1 <= self.hosts <= _MOST:
            raise DetourError(f"fat-tree of two levels: hosts={self.hosts} is not in 1..{_MOST}")
        if not 1 <= self.cables <= _MOST_CABLES:
            raise DetourError(f"fat-tree of two levels: cables={self.cables} is not in 1..{_MOST_CABLES}")
        if self.uplinks * self.speed.numerator > 4 * _MOST:
            raise DetourError(f"fat-tree of two levels: {self.uplinks} cables of a leaf for {self.speed} are too many")
        if not (self.speed > 0 and max(self.speed.numerator, self.speed.denominator) <= _MOST_CABLES):
            raise DetourError(
                f"fat-tree of two levels: speed={self.speed} is not a fraction of numbers in 1..{_MOST_CABLES}"
            )

    @property
    def name(self) -> str:
        """`FT(2;20,18)`; what the paper does not have comes behind: `FT(2;4,6;hosts=8,cables=2,speed=1/2)`."""
        more = [f"hosts={self.hosts}"] if self.hosts != self.spines else []
        more += [f"cables={self.cables}"] if self.cables != 1 else []
        more += [f"speed={self.speed}"] if self.speed != 1 else []
        return f"FT(2;{self.spines},{self.leaves}{';' if more else ''}{','.join(more)})"

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
        """Whether leaf and spine have one cable that carries one flow a phase, as in the paper."""
        return self.cables == 1 and self.speed == 1

    def link_name(self, leaf: int, uplink: int) -> str:
        """`leaf:spine`, or `leaf:spine:cable` where there are several."""
        spine, cable = divmod(uplink, self.cables)
        return f"{leaf}:{spine}" if self.cables == 1 else f"{leaf}:{spine}:{cable}"

    def failed_names(self) -> list[str]:
        """Those of the failed links, in order."""
        return [self.link_name(leaf, uplink) for leaf, uplink in sorted(self.failed)]

    def alive(self) -> np.ndarray:
        """(leaves, spines) bool: where a cable works."""
        return self.working().sum(axis=2) > 0

    def working(self) -> np.ndarray:
        """(leaves, spines, cables) bool: the cables that work."""
        working = np.ones((self.leaves, self.uplinks), bool)
        for leaf, uplink in self.failed:
            working[leaf, uplink] = False
        return working.reshape(self.leaves, self.spines, self.cables)

    def room(self) -> np.ndarray:
        """(leaves, spines) int: flows that the cables between them carry in a phase."""
        return self.working().sum(axis=2) * self.lanes

    @property
    def reduction(self) -> int:
        """f of the paper: the most failed links of a leaf (one with servers that take part)."""
        return int((~self.working()).sum(axis=(1, 2))[self.sizes() > 0].max(initial=0))

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


def parse_fabric(
    topo: str,
    fail: str | None = None,
    servers: int | None = None,
    population: str | None = None,
    group: str | None = None,
) -> FatTree2:
    """The fabric of `ft:m0=20,m1=18` with failed links `0:0,5:1` (leaf:spine; `*:3`: spine 3).

    `ft:m0=4,m1=6,hosts=8,cables=2,speed=1/2`: eight servers at a leaf (m0), two cables from leaf to spine (1), each of
    half a server's rate (1). `0:3` are then both cables, `0:3:1` is one.

    `servers`, or `population` for every leaf (`20,19,...`): those that are there. `group`: those that take part, like
    `0-3,20-23,45`.

    Raises:
        DetourError: what is wrong with the texts.
    """
    name, values = split_spec(topo)
    if name.lower() != "ft":
        raise DetourError(f"topology {topo!r}: FORS runs on fat-trees of two levels, like ft:m0=20,m1=18")
    check_keys(topo, values, ("m0", "m1"), ("hosts", "cables", "speed"))
    spines, leaves = (whole_number(topo, key, values[key]) for key in ("m0", "m1"))
    hosts, cables = (whole_number(topo, key, values.get(key, str(n))) for key, n in (("hosts", spines), ("cables", 1)))
    for key, number in (("hosts", hosts), ("cables", cables)):
        if number < 1:
            raise DetourError(f"{topo!r}: {key}={number} is less than 1")
    bare = FatTree2(spines, leaves, hosts=hosts, cables=cables, speed=_speed(topo, values.get("speed", "1")))
    return replace(inhabited(bare, servers, population, group), failed=parse_links(bare, fail))


def _speed(topo: str, text: str) -> Fraction:
    """`2` or `1/2`.

    Raises:
        DetourError: it is neither.
    """
    match = re.fullmatch(r"(\d{1,3})(?:/(\d{1,3}))?", text, re.ASCII)
    if not match or int(match[2] or 1) == 0:
        raise DetourError(f"{topo!r}: speed={text} is not a number like 2 or a fraction like 1/2")
    return Fraction(int(match[1]), int(match[2] or 1))


def parse_links(fabric: FatTree2, text: str | None) -> frozenset[LeafSpineLink]:
    """Links given as `leaf:spine,...`, with `*` for all leaves or all spines (a switch that is down).

    `leaf:spine:cable` is one of several parallel cables.

    Raises:
        DetourError: a part is not of that form, or there is no such link.
    """
    links: set[LeafSpineLink] = set()
    for part in text.split(",") if text is not None else ():
        pieces = [piece.strip() for piece in part.split(":")]
        if len(pieces) not in (2, 3) or not all(end == "*" or (end.isascii() and end.isdecimal()) for end in pieces):
            like = "leaf:spine, like 0:3" if fabric.cables == 1 else "leaf:spine or leaf:spine:cable, like 0:3:1"
            raise DetourError(f"failed links {text!r}: {part.strip()!r} is not {like}")
        ranges = zip([*pieces, "*"], (fabric.leaves, fabric.spines, fabric.cables), strict=False)
        leaves, spines, cables = (range(count) if end == "*" else [int(end)] for end, count in ranges)
        if max(spines) >= fabric.spines or max(cables) >= fabric.cables or max(leaves) >= fabric.leaves:
            more = f", cable 0..{fabric.cables - 1}" if fabric.cables > 1 else ""
            raise DetourError(
                f"{fabric.name} has no link {':'.join(pieces)} (leaf 0..{fabric.leaves - 1}, "
                f"spine 0..{fabric.spines - 1}{more})"
            )
        links.update((u, c * fabric.cables + k) for u in leaves for c in spines for k in cables)
    return fabric.with_failed(links).failed


def random_failures(fabric: FatTree2, count: int, seed: int, *, connected: bool = True) -> FatTree2:
    """The fabric with `count` more links failed at random.

    `connected`: every pair of leaves keeps a common spine; a link that would part one is not drawn.

    Raises:
        DetourError: there are not that many links that may fail.
    """
    rng = random.Random(f"fors failures {seed}")
    links = [(u, c) for u in range(fabric.leaves) for c in range(fabric.uplinks) if (u, c) not in fabric.failed]
    rng.shuffle(links)
    if not 0 <= count <= len(links):
        raise DetourError(f"{fabric.name} has {len(links)} working links; {count} cannot fail")
    cables = fabric.working().sum(axis=2)
    alive = cables > 0
    common = alive.astype(np.int64) @ alive.T.astype(np.int64)
    chosen: set[LeafSpineLink] = set()
    for leaf, uplink in links:
        if len(chosen) == count:
            break
        spine = uplink // fabric.cables
        if cables[leaf, spine] == 1:  # the last one: leaf and spine are parted
            others = cables[:, spine] > 0
            others[leaf] = False
            if connected and (common[leaf, others] <= 1).any():
                continue
            common[leaf, others] -= 1
            common[others, leaf] -= 1
        cables[leaf, spine] -= 1
        chosen.add((leaf, uplink))
    if len(chosen) < count:
        raise DetourError(
            f"{fabric.name}: only {len(chosen)} of {count} links can fail (seed {seed}) while every pair of leaves "
            "keeps a common spine"
        )
    return fabric.with_failed(chosen)
