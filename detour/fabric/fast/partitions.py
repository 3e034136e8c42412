# SPDX-License-Identifier: Apache-2.0
"""Busy connections by the links that their data share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.arrays import FloatArray, Int64Array
from detour.engine.suspension import SuspendedFrames
from detour.fabric.fast.flow_paths import FlowPath


@dataclass(frozen=True, eq=False)
class Suspended:
    """What is needed to let a partition go on; (flows,) each: packets a ps, (flows, 3) marks, ticks in queues and
    samples of these a packet, windows. `answers`: that wait at `owners` to be sent, as the hosts have them."""

    at_ps: int
    until_ps: int
    rates: FloatArray
    extra: FloatArray
    windows: FloatArray
    frames: SuspendedFrames
    answers: np.ndarray
    owners: Int64Array
    counted: Int64Array
    """packets that links have counted so far"""

    def gained(self, now_ps: int) -> Int64Array:
        """(flows,) packets that have been skipped."""
        return np.floor((now_ps - self.at_ps) * self.rates).astype(np.int64)


@dataclass(eq=False)
class Partition:
    """Busy connections that share links. `paths`: of each, none where one is not known; `number`: while it is awake;
    `refused`: attempts to suspend it that found something unexpected."""

    flows: list[int]
    paths: list[FlowPath]
    number: int = -1
    suspended: Suspended | None = None
    refused: int = 0
    noted: tuple[int, Int64Array] | None = None
    """a look, and what had been acknowledged then; `means`: how many of them there have been (`shares`)"""
    means: int = 0

    def links(self, which: str) -> tuple[Int64Array, Int64Array]:
        """Channels of `data` or `answers`, one connection after the other, and how many each has."""
        links = [getattr(path, which) for path in self.paths]
        return np.concatenate(links), np.array([len(one) for one in links])


class Partitions:
    """All of them. `member`: (connections,) number of the partition if that is awake, else -1; `since`: (numbers,) the
    look from which on it is as it is."""

    def __init__(self, count: int, path_of: Callable[[int], FlowPath | None]) -> None:
        self.awake: dict[int, Partition] = {}
        self.asleep: list[Partition] = []
        self.member = np.full(count, -1, np.int64)
        self.since = np.zeros(count, np.int64)
        self.most = 0
        """numbers that were ever used"""
        self._path_of = path_of
        self._part: dict[int, Partition] = {}
        self._owner: dict[int, Partition] = {}
        self._free = list(range(count))[::-1]

    def touched(self, flow: int) -> list[Partition]:
        """Partitions that a connection would join."""
        return list({id(part): part for link in self._links(flow) if (part := self._owner.get(link))}.values())

    def begin(self, flow: int, look: int) -> None:
        """A connection has become busy; what it joins is awake."""
        flows = [flow]
        for part in self.touched(flow):
            flows += part.flows
            self.leave(part)
        self._add(flows, look)

    def end(self, flow: int, look: int) -> None:
        """A connection has nothing to send any more."""
        part = self._part.pop(flow)
        self.leave(part)
        for one in part.flows:
            for link in self._links(one):
                self._owner.pop(link, None)
        for flows in self._components([one for one in part.flows if one != flow]):
            self._add(flows, look)

    def renew(self, look: int) -> None:
        """Paths are others now; nothing is asleep."""
        flows = [flow for part in self.awake.values() for flow in part.flows]
        for part in list(self.awake.values()):
            self.leave(part)
        self._owner.clear()
        for flow in flows:
            self.begin(flow, look)

    def enter(self, part: Partition, look: int) -> None:
        """A partition is awake."""
        part.number = self._free.pop()
        self.most = max(self.most, part.number + 1)
        self.awake[part.number] = part
        self.since[part.number] = look
        self.member[part.flows] = part.number

    def leave(self, part: Partition) -> None:
        """A partition is not awake any more."""
        del self.awake[part.number]
        self._free.append(part.number)
        self.member[part.flows] = part.number = -1

    def _add(self, flows: Sequence[int], look: int) -> None:
        paths = [path for flow in flows if (path := self._path_of(flow)) is not None]
        part = Partition(list(flows), paths if len(paths) == len(flows) else [])
        self.enter(part, look)
        for flow in flows:
            self._part[flow] = part
            self._owner.update(dict.fromkeys(self._links(flow), part))

    def _links(self, flow: int) -> list[int]:
        path = self._path_of(flow)
        return [] if path is None else path.data.tolist()

    def _components(self, flows: Sequence[int]) -> Iterator[list[int]]:
        """Connections that share links, together."""
        groups: list[tuple[set[int], list[int]]] = []
        for flow in flows:
            links, members, apart = set(self._links(flow)), [flow], []
            for other in groups:
                if other[0] & links:
                    links |= other[0]
                    members += other[1]
                else:
                    apart.append(other)
            groups = [*apart, (links, members)]
        return (members for _, members in groups)
