# SPDX-License-Identifier: Apache-2.0
"""Minimum times of tasks: on an empty fabric, at the rate of its links.

What slowdown is measured against. A message alone takes the time of its frames on the slowest link of the way and what
the last one takes on all others: every switch passes a frame on when it has all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import FloatArray, Int64Array
from detour.base.dataplane import PAYLOAD
from detour.base.errors import DetourError
from detour.fabric.backends.virtual.scheme import LinkSettings
from detour.fabric.workloads.tasks import TaskGraph, latest
from detour.hosts.frames.sizes import DATA_OVERHEAD
from detour.topo import Topology
from detour.topo.topology import Link

_PS_OF_BYTE_AT_1_BPS = 8 * 10**12
_PADDING = 4
"""payloads are filled up to a multiple of it on the wire (IBTA 9.2)"""

_FAR = 1 << 60
"""ps: of what is not reached"""

_Way: TypeAlias = tuple[tuple[int, int], ...]
"""rate (bit/s) and delay (ps) of every link from host to host"""


@dataclass(frozen=True, eq=False)
class WireTerms:
    """Rates and overheads of a fabric's links and frames. `rate_bps`, `delay_ps`: (links,) in the order of the
    topology's. `payload`: bytes of the longest packet's; `overhead`: headers, and what a frame takes on a link beside
    them."""

    topology: Topology
    rate_bps: Int64Array
    delay_ps: Int64Array
    payload: int
    overhead: int

    @cached_property
    def host_rates(self) -> FloatArray:
        """(hosts,) rates of the hosts' links."""
        rates = np.zeros(len(self.topology.hosts))
        for link in self.topology.links:
            if link.kind == "host":
                rates[link.b[0]] = self.rate_bps[link.index]
        return rates


def wire_terms(topology: Topology, links: LinkSettings, payload: int = PAYLOAD) -> WireTerms:
    """Return the terms of a fabric with these links (`RunSettings.links`), whose hosts send packets of `payload` bytes
    at most."""
    links = links.of(topology)
    # A message may take all planes at once.
    rate = [links.rate_of(link) * (1 if link.kind == "host" else topology.planes) for link in topology.links]
    delay = [links.delay_of(link) for link in topology.links]
    overhead = DATA_OVERHEAD + links.overhead_bytes
    return WireTerms(topology, np.array(rate, np.int64), np.array(delay, np.int64), payload, overhead)


@dataclass(frozen=True, eq=False)
class IdealTimes:
    """`task_ps`: (n,) of each task alone, from when its message is sent, or it begins to compute, to its end.
    `step_ps`: (steps,) of each step alone, as `TaskResult.step_spans_ps` measures it. `total_ps`: of all. Nothing can
    be faster, if ways are shortest ones: of steps and all it is the longest chain of tasks that wait for each other,
    or what the busiest host has to send or to get, or to compute, whichever takes longer."""

    task_ps: Int64Array
    step_ps: Int64Array
    total_ps: int


def ideal_ps(graph: TaskGraph, wire: WireTerms) -> IdealTimes:
    """Times on an empty fabric. Raises DetourError: a message between hosts that are not connected."""
    alone, back = _Ways(wire).messages(graph)
    task = np.where(graph.is_message, alone, graph.tasks["compute_ps"])
    steps = _spans(graph, wire, graph.tasks["step"], len(graph.steps), (alone, back), False)
    (total,) = _spans(graph, wire, np.zeros(len(graph), np.int64), 1, (alone, back), True)
    return IdealTimes(task, steps, int(total))


def group_ideals_ps(graph: TaskGraph, wire: WireTerms, group: Int64Array, count: int) -> Int64Array:
    """(count,) the least times of groups of tasks, each alone: `group` (n,) says to which one a task belongs, -1: to
    none. Raises DetourError as `ideal_ps` does."""
    return _spans(graph, wire, group, count, _Ways(wire).messages(graph), True)


def group_computing_ps(graph: TaskGraph, group: Int64Array, count: int) -> Int64Array:
    """(count,) the same if messages took no time."""
    nothing = np.zeros(len(graph), np.int64)
    return _spans(graph, None, group, count, (nothing, nothing), True)


class _Ways:
    """The way of the least latency between two hosts, as rates and delays of its links."""

    def __init__(self, wire: WireTerms) -> None:
        self._wire = wire
        self._terms = list(zip(wire.rate_bps.tolist(), wire.delay_ps.tolist(), strict=True))
        self._of_pair: dict[tuple[int, int], _Way] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self._host_link = {link.b[0]: link.index for link in wire.topology.links if link.kind == "host"}
        self._weight = wire.delay_ps + (wire.payload + wire.overhead) * _PS_OF_BYTE_AT_1_BPS // wire.rate_bps
        for link in wire.topology.links:
            if link.kind == "host":
                continue
            for ends in ((link.a[0], link.b[0]), (link.b[0], link.a[0])):
                link_before = self._links.get(ends)
                if link_before is None or self._weight[link.index] < self._weight[link_before.index]:
                    self._links[ends] = link
        self._before: dict[int, Int64Array] = {}
        self._ends = np.array(list(self._links), np.int64).reshape(-1, 2).T
        self._hop_ps = self._weight[[link.index for link in self._links.values()]]

    def _predecessors(self, source: int) -> Int64Array:
        """(switches,) the one before each on the way from `source`, -1: none (Bellman and Ford: one round a hop)."""
        if source not in self._before:
            a, b = self._ends
            distance = np.full(len(self._wire.topology.switches), _FAR)
            distance[source] = 0
            while True:
                last = distance.copy()
                np.minimum.at(distance, b, last[a] + self._hop_ps)
                if (distance == last).all():
                    break
            tight = (distance[a] < _FAR) & (distance[a] + self._hop_ps == distance[b])
            before = np.full(len(distance), -1)
            before[b[tight]] = a[tight]
            self._before[source] = before
        return self._before[source]

    def _between(self, a: int, b: int) -> _Way:
        if (a, b) not in self._of_pair:
            before, way, at = self._predecessors(a), list[tuple[int, int]](), b
            while at != a:
                last = int(before[at])
                if last < 0:
                    raise DetourError(f"there is no path from {' to '.join(self._wire.topology.path_names((a, b)))}")
                way.append(self._terms[self._links[last, at].index])
                at = last
            self._of_pair[a, b] = tuple(way[::-1])
        return self._of_pair[a, b]

    def messages(self, graph: TaskGraph) -> tuple[Int64Array, Int64Array]:
        """(n,) times to the last byte in memory, and what an acknowledgement takes from there on at least, 0 for what
        is not a message."""
        tasks = graph.tasks
        alone, back = np.zeros(len(graph), np.int64), np.zeros(len(graph), np.int64)
        sent = np.flatnonzero(graph.is_message)
        ends = tasks["source"][sent].astype(np.int64) << 32 | tasks["destination"][sent]
        pairs, pair_of = np.unique(ends, return_inverse=True)
        kinds: dict[_Way, int] = {}
        kind = [kinds.setdefault(self._way(pair >> 32, pair & 0xFFFFFFFF), len(kinds)) for pair in pairs.tolist()]
        of_task = np.array(kind, np.int64)[pair_of]
        order = np.argsort(of_task, kind="stable")
        bounds = np.searchsorted(of_task[order], np.arange(len(kinds) + 1))
        for way, number in kinds.items():
            group = sent[order[bounds[number] : bounds[number + 1]]]
            alone[group] = self._time(way, tasks["bytes"][group])
            back[group] = sum(delay for _, delay in way)
        return alone, back

    def _way(self, source: int, destination: int) -> _Way:
        hosts = self._wire.topology.hosts
        a, b = hosts[source].switch, hosts[destination].switch
        return (self._terms[self._host_link[source]], *self._between(a, b), self._terms[self._host_link[destination]])

    def _time(self, way: _Way, size: Int64Array) -> Int64Array:
        """Return the time of messages over links: all packets but the last are equal, and it waits at every link for
        the one before."""
        wire = self._wire
        packets = -(-size // wire.payload)
        last = size - (packets - 1) * wire.payload
        last += -last % _PADDING
        at, before, slowest = np.zeros_like(size), np.zeros_like(size), np.zeros_like(size)
        for rate, delay in way:
            full = (wire.payload + wire.overhead) * _PS_OF_BYTE_AT_1_BPS // rate
            own = (last + wire.overhead) * _PS_OF_BYTE_AT_1_BPS // rate
            slowest = np.maximum(slowest, full)
            # `before`: when the first packet leaves; the one before the last leaves (packets - 2) slots later.
            before = before + full
            previous = np.where(packets > 1, before + (packets - 2) * slowest, 0)
            at = np.maximum(at, previous) + own + delay
            before = before + delay
        return at


def _spans(
    graph: TaskGraph, wire: WireTerms | None, group: Int64Array, count: int, times: tuple[Int64Array, Int64Array],
    timed: bool,
) -> Int64Array:  # fmt: skip
    """(count,) the least time of each group of tasks, which begin at once (`timed`: not before their time). `wire`
    None: of computing only."""
    pairs, starts = graph.dependencies, graph.starts
    inside = np.flatnonzero((group[pairs[:, 0]] == group[pairs[:, 1]]) & (group[pairs[:, 0]] >= 0))
    inside = inside[np.argsort(group[pairs[inside, 0]], kind="stable")]
    order = np.argsort(group, kind="stable")
    # A task's place among those of its group.
    first = np.searchsorted(group[order], np.arange(count + 1))
    place = np.empty(len(graph), np.int64)
    place[order] = np.arange(len(graph)) - first[np.maximum(group[order], 0)]
    edges = np.searchsorted(group[pairs[inside, 0]], np.arange(count + 1))
    spans = np.zeros(count, np.int64)
    for k in range(count):
        mine, own = order[first[k] : first[k + 1]], inside[edges[k] : edges[k + 1]]
        if len(mine):
            tasks, alone, back = graph.tasks[mine], times[0][mine], times[1][mine]
            chain = _chain(tasks, place[pairs[own]], starts[own], alone, back, timed)
            spans[k] = max(chain, _busiest_unit(tasks), _busiest(tasks, wire) if wire else 0)
    return spans


def _chain(
    tasks: NDArray[np.void], pairs: Int64Array, starts: NDArray[np.bool_], alone: Int64Array, back: Int64Array,
    timed: bool,
) -> int:  # fmt: skip
    """The longest chain of tasks that wait for each other."""
    start = np.where(timed, tasks["start_ps"], 0).astype(np.int64)
    length = tasks["compute_ps"] + alone
    if not len(pairs):
        return int((start + length).max() - start.min())
    sends = (tasks["destination"] >= 0) & (length > 0)
    same = tasks["source"][pairs[:, 0]] == tasks["source"][pairs[:, 1]]
    lag = np.where(starts, 0, length[pairs[:, 0]] + np.where(same & sends[pairs[:, 0]], back[pairs[:, 0]], 0))
    latest(len(tasks), pairs, lag, start)
    return int((start + length).max() - start.min())


def _busiest(tasks: NDArray[np.void], wire: WireTerms) -> int:
    """Return the time that the busiest host needs at least, the one with most to send or to get."""
    packets = -(-tasks["bytes"] // wire.payload)
    on_wire = (tasks["bytes"] + packets * wire.overhead).astype(np.float64)
    rates, hosts = wire.host_rates, len(wire.host_rates)
    sent = tasks["destination"] >= 0
    longest = 0.0
    for end in ("source", "destination"):
        load = np.bincount(tasks[end][sent], weights=on_wire[sent], minlength=hosts)
        longest = max(longest, float((load * _PS_OF_BYTE_AT_1_BPS / rates).max(initial=0)))
    return int(longest)


def _busiest_unit(tasks: NDArray[np.void]) -> int:
    """Return the time that the busiest unit of a host computes, one thing after the other."""
    serial = tasks["unit"] >= 0
    if not serial.any():
        return 0
    _, unit = np.unique(tasks["source"][serial].astype(np.int64) << 16 | tasks["unit"][serial], return_inverse=True)
    return int(np.bincount(unit, weights=tasks["compute_ps"][serial]).max())
