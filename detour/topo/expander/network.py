# SPDX-License-Identifier: Apache-2.0
"""An expander as arrays: links with the virtual switches and layers at their ends, and channels for routing.

Positions (FC+, section III): of a switch with k layers, position l (1..k) is layer l on the way up, position
2k + 1 - l is layer l on the way down. A path may go from a link to another one of the same switch for nothing if the
second one leaves at a position that is no smaller than that at which the first one entered; otherwise the path goes
down and up again there, and its lossless priority must rise. A link enters at a greater position than it leaves, so
links that follow one another in one priority have growing positions: there can be no cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import FloatArray, Int32Array, Int32s2, Int64Array
from detour.base.errors import DetourError
from detour.topo.failures import Failures, dead_links
from detour.topo.names import NodeNames
from detour.topo.topology import Builder, Topology, check_limits

OF_LINKS = ("speed", "delay_ps", "interfaces")
"""what an `Expander` may say of every link, besides its ends and layers"""


class Channels(NamedTuple):
    """Directed links, by switch s and column c (in the order of the links). Channel number: s * width + c. A link that
    is down keeps its columns, which are like those that no link has."""

    neighbour: Int32s2  # (switches, width) switch behind the link, -1 for none
    back: Int32s2  # (switches, width) column of the same link there
    link: Int32s2  # (switches, width) index of the link
    leave: Int32s2  # (switches, width) position at which it leaves
    enter: Int32s2  # (switches, width) position at which it enters


@dataclass(frozen=True, eq=False)
class Expander:
    """Switches that are wired directly. Two expanders with the same `spec` are the same.

    `links` (E, 2) switches; `virtual` (E, 2) virtual switch and `layer` (E, 2) virtual layer at either end, both from
    1; `hosts` (N,) hosts of every switch; `layers` k; `down`: rows of `links` that carry nothing. Columns and ports are
    those of the whole network, whatever is down. `speed` (E,): what a link carries, in multiples of what one to a host
    does (None: 1); `delay_ps` (E,), -1 for what a fabric's settings say (None: -1); `rate_bps`: of a host's link (0: as
    they say). `names`: of the first switches in the file that they come from; `interfaces` (E, 2): what the file calls
    the ports at either end, "" where it does not say (None: nowhere)."""

    family: str
    spec: str
    hosts: Int32Array
    links: Int32Array
    virtual: Int32Array
    layer: Int32Array
    layers: int
    down: frozenset[int] = frozenset()
    speed: FloatArray | None = None
    delay_ps: Int64Array | None = None
    rate_bps: int = 0
    names: tuple[str, ...] = ()
    interfaces: NDArray[np.str_] | None = None

    def __hash__(self) -> int:
        return hash((self.spec, self.down))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expander) and (self.spec, self.down) == (other.spec, other.down)

    def without(self, links: Iterable[int]) -> Expander:
        """The same network while these links (rows of `links`) are down, and no others."""
        return replace(self, down=frozenset(links))

    def under(self, failures: Failures) -> Expander:
        """The same network while the links of its topology that these failures take down are down."""
        dead = dead_links(self.topology, failures)
        links = [link for link in self.topology.links if link.kind != "host"]
        return self.without(row for row, link in enumerate(links) if link.index in dead)

    @cached_property
    def speeds(self) -> FloatArray:
        """(E,) what every link carries in one direction, 0 if it is down."""
        carried = np.ones(len(self.links)) if self.speed is None else self.speed.copy()
        carried[sorted(self.down)] = 0.0
        return carried

    @property
    def size(self) -> int:
        """Number of switches."""
        return int(self.hosts.size)

    def name_of(self, switch: int) -> str:
        """Return the name of a switch."""
        return self._called[f"s{switch}"]

    @cached_property
    def _given_names(self) -> dict[str, str]:
        return {f"s{switch}": name for switch, name in enumerate(self.names)}

    @cached_property
    def _called(self) -> NodeNames:
        return NodeNames(self._given_names)

    @cached_property
    def tors(self) -> Int32Array:
        """Switches that have hosts."""
        return np.flatnonzero(self.hosts > 0).astype(np.int32)

    @cached_property
    def degrees(self) -> Int32Array:
        """(N,) links of every switch."""
        return np.bincount(self.links.ravel(), minlength=self.size).astype(np.int32)

    @cached_property
    def channels(self) -> Channels:
        """The links in both directions."""
        width = int(self.degrees.max(initial=1))
        table = Channels(*(np.full((self.size, width), -1, np.int32) for _ in range(5)))
        used = np.zeros(self.size, np.int64)
        turn = 2 * self.layers + 1
        for index, ((a, b), (la, lb)) in enumerate(zip(self.links.tolist(), self.layer.tolist(), strict=True)):
            ca, cb = int(used[a]), int(used[b])
            used[a] += 1
            used[b] += 1
            if index in self.down:
                continue
            up = la < lb
            for s, c, peer, column, here, there, rises in ((a, ca, b, cb, la, lb, up), (b, cb, a, ca, lb, la, not up)):
                leave, enter = (here, there) if rises else (turn - here, turn - there)
                for array, value in zip(table, (peer, column, index, leave, enter), strict=True):
                    array[s, c] = value
        return table

    @cached_property
    def copies(self) -> Int32Array:
        """(E,) how many links between the same switches come before each; 0 but for parallel links."""
        _, first, pair = np.unique(np.sort(self.links, axis=1), axis=0, return_index=True, return_inverse=True)
        return (np.arange(len(self.links)) - first[pair.reshape(-1)]).astype(np.int32)

    @cached_property
    def stops(self) -> Int32Array:
        """(switches, width) the stop (`topo.paths`) that each column of `channels` leads to, -1 for none."""
        neighbour, link = self.channels.neighbour, self.channels.link
        return np.where(neighbour >= 0, neighbour + self.size * self.copies[link], -1).astype(np.int32)

    def checked(self) -> Expander:
        """The network with its links in the order of their ends, so that a switch's columns and ports go by neighbour.
        Raises `DetourError`: naming the first switch or link that is wrong."""
        ends = np.sort(self.links, axis=1)
        loops = ends[ends[:, 0] == ends[:, 1]]
        if loops.size:
            raise DetourError(f"{self.spec}: {self.name_of(int(loops[0, 0]))} has a link to itself")
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        parts: dict[str, Any] = {name: getattr(self, name)[order] for name in ("links", "virtual", "layer")}
        parts = {name: part.astype(np.int32) for name, part in parts.items()}
        parts |= {name: part[order] for name in OF_LINKS if (part := getattr(self, name)) is not None}
        return replace(self, **parts)

    @cached_property
    def topology(self) -> Topology:
        """The same network with numbered ports (hosts, then links in the order of `channels`), ready to be booted.
        Raises `DetourError`: it is larger than addresses or port numbers can hold."""
        ports = int((self.hosts + self.degrees).max())
        check_limits(self.spec, self.size, int(self.hosts.sum()), ports)
        builder = Builder(self.family, self.spec, self._given_names)
        for s, count in enumerate(self.hosts.tolist()):
            builder.add_switch(group=0, position=s, tier=self._tier(s))
            builder.add_hosts(s, count)
        used = self.hosts.astype(np.int64)
        speeds = [1.0] * len(self.links) if self.speed is None else self.speed.tolist()
        delays = [-1] * len(self.links) if self.delay_ps is None else self.delay_ps.tolist()
        called = [("", "")] * len(self.links) if self.interfaces is None else self.interfaces.tolist()
        interfaces: dict[str, dict[int, str]] = {}
        for (a, b), speed, delay, at_ends in zip(self.links.tolist(), speeds, delays, called, strict=True):
            used[a] += 1
            used[b] += 1
            ends = (a, int(used[a])), (b, int(used[b]))
            builder.connect("local", *ends, speed, delay if delay >= 0 else None)
            for (switch, port), name in zip(ends, at_ends, strict=True):
                if name:
                    interfaces.setdefault(self.name_of(switch), {})[port] = name
        return replace(builder.build(groups=1, rate_bps=self.rate_bps), interfaces=interfaces)

    def _tier(self, switch: int) -> int:
        """0 where hosts are; in a Clos one less than the layer."""
        if self.hosts[switch]:
            return 0
        return int(self.layer[self.links == switch][0]) - 1


def switch_count(family: str, n: int, degree: int, hosts: int, links: str = "s") -> None:
    """Refuse numbers that no network of this family can have. `links`: what the family calls a switch's number of
    links. Raises `DetourError`: the rule that is broken."""
    if degree < 2:
        raise DetourError(f"{family}: {links}={degree} is less than 2 links between switches")
    if hosts < 1:
        raise DetourError(f"{family}: {hosts} hosts a switch; p - s must leave at least 1 port (or give hosts=)")
    if n <= degree:
        raise DetourError(
            f"{family}: n={n}, but {links}={degree} links to different switches take {degree + 1} or more"
        )
