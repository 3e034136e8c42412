# SPDX-License-Identifier: Apache-2.0
"""Servers of a fat-tree: which are there, leaf by leaf, and which take part in an exchange. Of all levels' fabrics."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from detour.base.errors import DetourError

AnyFabric = TypeVar("AnyFabric", bound="Servers")


class Servers:
    """Places of a fabric: leaf g's servers are `g * hosts + a` for a in 0..population[g]-1.

    A frozen dataclass that derives from this has the three fields."""

    hosts: int
    """places for servers at a leaf"""
    population: tuple[int, ...]
    """servers of each leaf, at most `hosts`"""
    group: tuple[int, ...]
    """servers that take part in the exchange, in order; empty: all that are there"""

    @property
    def name(self) -> str:
        """Of the fabric."""
        raise NotImplementedError

    def check_population(self, leaves: int) -> None:
        """Raises DetourError: there is not a number for every leaf, or one is out of range."""
        if len(self.population) != leaves or not all(0 <= n <= self.hosts for n in self.population):
            raise DetourError(f"{self.name}: the population is not {leaves} numbers in 0..{self.hosts}")

    def check_servers(self) -> None:
        """Raises DetourError: the group has a server twice, or one that is not there."""
        present = self.present()
        for server in self.group:
            if not (0 <= server < self.slots and present[server]):
                raise DetourError(f"{self.name} has no server {server} that could take part")
        if len(set(self.group)) < len(self.group):
            raise DetourError(f"{self.name}: a server takes part once, and the group names one twice")

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
        """Whether every place has its server and all of them take part."""
        return self.servers == self.slots

    def there(self) -> np.ndarray:
        """(leaves,) int: servers that are there, whether they take part or not."""
        return np.array(self.population)

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

    def seats(self) -> np.ndarray:
        """(leaves, hosts) int32: numbers of the servers, those of a leaf that take part first."""
        others = ~self.taking_part().reshape(-1, self.hosts)
        offsets = np.argsort(others, axis=1, kind="stable").astype(np.int32)
        return offsets + np.arange(len(offsets), dtype=np.int32)[:, None] * self.hosts


def populated(fabric: AnyFabric, servers: int | None, population: str | None, group: str | None) -> AnyFabric:
    """The fabric with `servers` spread evenly, or `population` for every leaf (`20,19,...`): those that are there.
    `group`: those that take part, like `0-3,20-23,45`.

    Raises:
        DetourError: what is wrong with the numbers.
    """
    if servers is not None and population is not None:
        raise DetourError("--servers spreads servers over leaves, --population says how many each has: one of the two")
    changes: dict[str, tuple[int, ...]] = {}
    if servers is not None:
        changes["population"] = spread(fabric, servers)
    if population is not None:
        changes["population"] = _numbers(population, f"population {population!r}", ranges=False)
    if group is not None:
        changes["group"] = _numbers(group, f"group {group!r}", ranges=True)
    return replace(cast("Any", fabric), **changes) if changes else fabric


def spread(fabric: Servers, servers: int) -> tuple[int, ...]:
    """A population of `servers`, as even as it can be, the first leaves one more.

    Raises:
        DetourError: there are not that many places.
    """
    if not 1 <= servers <= fabric.slots:
        raise DetourError(f"{fabric.name} has places for 1..{fabric.slots} servers, not for {servers}")
    each, more = divmod(servers, len(fabric.population))
    return tuple(each + (leaf < more) for leaf in range(len(fabric.population)))


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
