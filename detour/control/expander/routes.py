# SPDX-License-Identifier: Apache-2.0
"""The routes of a network: DF-KSP with n lossless priorities, plain KSP, and FC's edge-disjoint up-down paths."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from detour.base.arrays import Bools1, Int32Array, Int64Array, Int64s1, UInt8Array, UInt8s1, UInt8s2
from detour.base.cores import cores
from detour.base.errors import DetourError
from detour.base.files import new_text
from detour.control.expander import enumeration
from detour.control.expander.enumeration import DISJOINT, DIVERSE, FREE, PLAIN
from detour.control.native import EXPANDER, assign
from detour.topo.expander.network import Channels, Expander

SourcesProgress = Callable[[int, int], None]  # called with (sources done, sources in all)

TIES = {"diverse": DIVERSE, "plain": PLAIN}
MAX_HOPS = 12  # longest path that is looked for; with 18 and more links a switch no pair of 2000 switches needs as many
ORDERED_MAX_HOPS = 5
"""the same with one priority where every switch is a layer by itself: paths up and down are few at the bottom. Networks
of fewer links a switch allow more, see `longest_searched`"""
_ORDERED_WALKS = 5e6  # walks from a switch that a search there may go through: 22 links a switch and five hops
_CHUNK_ROWS = 500_000  # paths that a thread computes at a time at most


@dataclass(frozen=True)
class PathPolicy:
    """The choice of paths: the `k` shortest with at most `priorities` - 1 down-ups (0 priorities: any path, KSP).

    `ties`: among equal lengths, "diverse" or "plain". `disjoint`: only paths that share no link (FC)."""

    k: int = 32
    priorities: int = 1
    ties: str = "diverse"
    disjoint: bool = False
    max_hops: int = MAX_HOPS

    @property
    def budget(self) -> int:
        return self.priorities - 1 if self.priorities else FREE

    @property
    def rule(self) -> int:
        return DISJOINT if self.disjoint else TIES[self.ties]

    def check(self, network: Expander) -> None:
        """Refuse what makes no sense. Raises `DetourError`: which value, and what would do."""
        if not 1 <= self.k <= 1024:
            raise DetourError(f"k={self.k} paths per pair; expected 1 to 1024")
        if not 0 <= self.priorities <= 8:
            raise DetourError(f"{self.priorities} priorities; expected 1 to 8 (0: KSP, which may deadlock)")
        if self.ties not in TIES:
            raise DetourError(f"ties {self.ties!r}; there are {', '.join(TIES)}")
        if not 1 <= self.max_hops <= 32:
            raise DetourError(f"paths of at most {self.max_hops} hops; expected 1 to 32")
        ordered = self.priorities == 1 and network.layers == network.size
        if ordered and min(self.max_hops, network.size - 1) > (most := longest_searched(network)):
            raise DetourError(
                f"{network.spec}: some pairs have few paths in one priority, and the search for {self.k} would go"
                f" through all of {self.max_hops} hops; give --max-hops {most} or less, or 2 priorities"
            )


def longest_searched(network: Expander) -> int:
    """Hops of which all paths may be gone through in a network where every switch is a layer by itself."""
    onward = max(1.001, float(network.degrees.mean()) - 1)
    return max(ORDERED_MAX_HOPS, int(math.log(_ORDERED_WALKS) / math.log(onward)))


@dataclass(frozen=True, eq=False)
class ExpanderRoutes:
    """Paths of (source, destination) pairs. Those of pair i are rows first[i] to first[i+1]-1, the shortest first.

    `pairs` (P, 2) switches; `first` (P + 1,); `length` (R,) links of a path; `columns` (R, longest) the column of
    `network.channels` taken at every switch, anything behind the length."""

    network: Expander
    policy: PathPolicy
    pairs: Int32Array
    first: Int64Array
    length: UInt8Array
    columns: UInt8Array

    @property
    def total(self) -> int:
        """Number of paths."""
        return int(self.length.size)

    @property
    def sources(self) -> Int64Array:
        """(R,) the switch that each path begins at."""
        return np.repeat(self.pairs[:, 0].astype(np.int64), np.diff(self.first))

    @property
    def mean_length(self) -> float:
        """Links of a path, mean over all."""
        return float(self.length.mean()) if self.total else 0.0

    @property
    def mean_paths(self) -> float:
        """Paths of a pair, mean over all."""
        return self.total / max(1, len(self.pairs))

    def path(self, row: int, source: int) -> tuple[list[int], list[int]]:
        """(stops, lossless priority of every hop from 0) of a path. Stops (`topo.paths`) are switches, where these are
        not joined by several links."""
        ch, stops = self.network.channels, self.network.stops
        path, priorities, position, x = [source], list[int](), 0, source
        for d in range(int(self.length[row])):
            c = int(self.columns[row, d])
            rises = int(ch.leave[x, c]) < position
            priorities.append((priorities[-1] if priorities else 0) + rises)
            position = int(ch.enter[x, c])
            path.append(int(stops[x, c]))
            x = int(ch.neighbour[x, c])
        if not self.policy.priorities:
            priorities = [0] * len(priorities)
        return path, priorities

    def of(self, source: int, target: int) -> list[tuple[list[int], list[int]]]:
        """All paths of a pair, as `path` gives them. Raises `DetourError`: there are none."""
        hit = np.flatnonzero((self.pairs[:, 0] == source) & (self.pairs[:, 1] == target))
        if not hit.size:
            raise DetourError(
                f"no routes were computed from {self.network.name_of(source)} to {self.network.name_of(target)}"
            )
        return [self.path(row, source) for row in range(int(self.first[hit[0]]), int(self.first[hit[0] + 1]))]

    def __iter__(self) -> Iterator[tuple[int, int, list[int], list[int]]]:
        """(source, destination, stops, priorities) of every path."""
        for i, (source, target) in enumerate(self.pairs.tolist()):
            for row in range(int(self.first[i]), int(self.first[i + 1])):
                yield source, target, *self.path(row, source)


def of_pairs(routes: ExpanderRoutes, pairs: Int32Array) -> ExpanderRoutes:
    """The paths of some of the pairs, in their order. Raises `DetourError`: a pair has none."""
    number = {pair: i for i, pair in enumerate(map(tuple, routes.pairs.tolist()))}
    missing = next((pair for pair in map(tuple, pairs.tolist()) if pair not in number), None)
    if missing is not None:
        raise DetourError(f"no routes were computed from {' to '.join(map(routes.network.name_of, missing))}")
    which = [number[pair] for pair in map(tuple, pairs.tolist())]
    count = np.diff(routes.first)[which]
    first = np.concatenate([[0], np.cumsum(count)])
    rows = np.repeat(routes.first[which] - first[:-1], count) + np.arange(first[-1])
    return replace(routes, pairs=pairs, first=first, length=routes.length[rows], columns=routes.columns[rows])


def with_more(routes: ExpanderRoutes, pair: Int64Array, length: UInt8Array, columns: UInt8Array) -> ExpanderRoutes:
    """The routes and further paths, each behind those that its pair has. `pair` (new,): rows of `routes.pairs`;
    `length` (new,), `columns` (new, at least the longest): as in `ExpanderRoutes`."""
    count = np.diff(routes.first)
    width = max(routes.columns.shape[1], int(length.max(initial=0)))
    order = np.argsort(np.concatenate([np.repeat(np.arange(count.size), count), pair]), kind="stable")
    added = np.zeros((pair.size, width), np.uint8)
    added[:, : columns.shape[1]] = columns[:, :width]
    old = np.pad(routes.columns, ((0, 0), (0, width - routes.columns.shape[1])))
    return replace(
        routes,
        first=np.concatenate([[0], np.cumsum(count + np.bincount(pair, minlength=count.size))]),
        length=np.concatenate([routes.length, length])[order],
        columns=np.concatenate([old, added])[order],
    )


def share_over(routes: ExpanderRoutes, links: Collection[tuple[int, int]]) -> float:
    """The share of the paths that pass one of the links, given by their ends, the smaller one first."""
    ch = routes.network.channels
    marked = np.zeros(ch.neighbour.shape, np.bool_)
    for a, b in links:
        marked[a, ch.neighbour[a] == b] = marked[b, ch.neighbour[b] == a] = True
    x, hit = np.repeat(routes.pairs[:, 0], np.diff(routes.first)), np.zeros(routes.total, np.bool_)
    for h in range(routes.columns.shape[1]):
        on = np.flatnonzero(routes.length > h)
        columns = routes.columns[on, h]
        hit[on] |= marked[x[on], columns]
        x[on] = ch.neighbour[x[on], columns]
    return float(hit.mean()) if routes.total else 0.0


def channels_of(routes: ExpanderRoutes) -> tuple[Int64Array, Int32Array]:
    """(begin (R + 1,), channels): path r takes channels[begin[r]:begin[r+1]], numbered x * width + column."""
    neighbour, x = routes.network.channels.neighbour, routes.sources
    begin = np.concatenate([[0], np.cumsum(routes.length, dtype=np.int64)])
    channels = np.empty(begin[-1], np.int32)
    for h in range(routes.columns.shape[1]):
        on = np.flatnonzero(routes.length > h)
        columns = routes.columns[on, h]
        channels[begin[on] + h] = x[on] * neighbour.shape[1] + columns
        x[on] = neighbour[x[on], columns]
    return begin, channels


def all_pairs(network: Expander) -> Int32Array:
    """(P, 2) every switch with hosts to every other one, by source, then destination."""
    tors = network.tors
    a, b = np.repeat(tors, tors.size), np.tile(tors, tors.size)
    return np.stack([a, b], axis=1)[a != b]


def compute(
    network: Expander, policy: PathPolicy, pairs: Int32Array | None = None, report: SourcesProgress | None = None,
    partial: bool = False,
) -> ExpanderRoutes:  # fmt: skip
    """The routes of some pairs (None: all of them, of which half are computed and the others are their reverses). A
    reverse has as many down-ups and is as long. A pair that has fewer than K paths within `policy.max_hops` gets those
    that there are; `partial`: that may be none. Raises `DetourError`: the policy makes no sense, or a pair has no path
    at all."""
    policy.check(network)
    both_directions = pairs is None
    if pairs is None:
        pairs = all_pairs(network)
    computed = pairs[pairs[:, 0] < pairs[:, 1]] if both_directions else pairs
    sources = np.unique(computed[:, 0]).astype(np.int64)
    ch = enumeration.native(network.channels)
    processors = cores()
    # Small enough for memory, and so many that no core is left without.
    per_chunk = max(1, min(_CHUNK_ROWS // (policy.k * network.size), sources.size // (4 * processors)))
    chunks = [sources[begin : begin + per_chunk] for begin in range(0, sources.size, per_chunk)]
    parts, counts, done = [], np.zeros((network.size, network.size), np.int32), 0
    if report:
        report(0, sources.size)
    with ThreadPoolExecutor(processors) as threads:
        for some, part in zip(
            chunks, threads.map(lambda some: _chunk(some, computed, policy, ch), chunks), strict=True
        ):
            counts[some] = part[2]
            parts.append(part)
            done += some.size
            if report:
                report(done, sources.size)
    longest = max(part[1].shape[1] for part in parts)
    length = np.concatenate([part[0] for part in parts])
    columns = np.concatenate([np.pad(part[1], ((0, 0), (0, longest - part[1].shape[1]))) for part in parts])
    routes = _assembled(network, policy, pairs, counts, length, columns, both_directions, ch)
    none = np.flatnonzero(np.diff(routes.first) == 0)
    if none.size and not partial:
        a, b = map(network.name_of, pairs[none[0]].tolist())
        raise DetourError(
            f"{network.spec}: no path from {a} to {b} within {policy.max_hops} hops and"
            f" {policy.priorities or 'any'} priorities ({none.size} pairs have none)"
        )
    return routes


def rows_anew(
    network: Expander, policy: PathPolicy, ends: Sequence[tuple[int, int]], numbers: Sequence[int]
) -> tuple[ExpanderRoutes, list[int | None]]:
    """Routes for some (source, destination) switches, and a row of them for each: path number `numbers[i]` of its pair,
    counted round; None if the pair has no path within the policy's priorities and hops. Raises `DetourError`: the
    policy makes no sense."""
    distinct, which = np.unique(np.array(ends, np.int32).reshape(-1, 2), axis=0, return_inverse=True)
    routes = compute(network, policy, distinct, partial=True)
    rows: list[int | None] = []
    for i, number in zip(which.ravel().tolist(), numbers, strict=True):
        low, count = int(routes.first[i]), int(routes.first[i + 1] - routes.first[i])
        rows.append(low + number % count if count else None)
    return routes, rows


def _chunk(
    sources: Int64Array, targets: Int32Array, policy: PathPolicy, ch: Channels
) -> tuple[UInt8Array, UInt8Array, Int32Array]:
    """Lengths and columns of the paths of some sources, and their numbers (sources, switches)."""
    want = np.zeros((sources.size, ch.neighbour.shape[0]), np.bool_)
    row = np.searchsorted(sources, targets[:, 0])
    mine = (row < sources.size) & (sources[np.minimum(row, sources.size - 1)] == targets[:, 0])
    want[row[mine], targets[mine, 1]] = True
    most = int(want.sum()) * policy.k
    length, columns = np.empty(most, np.uint8), np.empty((most, policy.max_hops), np.uint8)
    count = np.zeros(want.shape, np.int32)
    rows = enumeration.paths_of_sources(
        sources, want, policy.k, policy.budget, policy.rule, policy.max_hops, ch, count, length, columns
    )
    return length[:rows].copy(), columns[:rows, : max(1, int(length[:rows].max(initial=1)))].copy(), count


def _assembled(
    network: Expander, policy: PathPolicy, pairs: Int32Array, counts: Int32Array, length: UInt8Array,
    columns: UInt8Array, both_directions: bool, ch: Channels,
) -> ExpanderRoutes:  # fmt: skip
    """Put paths in the order of the pairs, and with `both_ways` their reverses."""
    start = np.concatenate([[0], np.cumsum(counts.ravel())])
    begin = start[:-1].reshape(counts.shape)
    a, b = pairs[:, 0], pairs[:, 1]
    low, high = (np.minimum(a, b), np.maximum(a, b)) if both_directions else (a, b)
    first = np.concatenate([[0], np.cumsum(counts[low, high])])
    new_length, new_columns = np.empty(first[-1], np.uint8), np.empty((first[-1], columns.shape[1]), np.uint8)
    turned = np.ascontiguousarray((a > b) & both_directions)
    _arrange(first, begin[low, high], low.astype(np.int64), turned, length, columns, ch, new_length, new_columns)
    return ExpanderRoutes(network, policy, pairs, first, new_length, new_columns)


@EXPANDER.entry
def _arrange(
    first: Int64s1, begin: Int64s1, low: Int64s1, turned: Bools1, length: UInt8s1, columns: UInt8s2, ch: Channels,
    new_length: UInt8s1, new_columns: UInt8s2,
) -> None:  # fmt: skip
    for i in range(first.size - 1):
        for j in range(first[i + 1] - first[i]):
            old, new = begin[i] + j, first[i] + j
            hops = length[old]
            new_length[new] = hops
            if not turned[i]:
                assign(new_columns[new], columns[old])
                continue
            x = low[i]
            for d in range(hops):
                c = columns[old, d]
                new_columns[new, hops - 1 - d] = ch.back[x, c]
                x = ch.neighbour[x, c]


def write_csv(routes: ExpanderRoutes, file: Path) -> None:
    """One path a line: source, destination, hops, switches (`4#2`: by the second of parallel links) and the lossless
    priority of every hop, counted from 1.
    Raises `DetourError`: the file cannot be written."""
    with new_text(file) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("source", "destination", "hops", "switches", "priorities"))
        for source, target, stops, priorities in routes:
            parts = (divmod(stop, routes.network.size) for stop in stops)
            switches = (f"{switch}#{copy + 1}" if copy else str(switch) for copy, switch in parts)
            text = " ".join(switches), " ".join(str(1 + p) for p in priorities)
            writer.writerow((source, target, len(priorities), *text))
