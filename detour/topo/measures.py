# SPDX-License-Identifier: Apache-2.0
"""Measures of the graph of a network's switches: distances, spectral gap, a cut in halves, edge-disjoint paths, cost.

All from the dense matrix of links, with numpy alone: seconds for a thousand switches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from detour.base.arrays import BoolArray, FloatArray, IndexArray, Int32Array
from detour.base.errors import DetourError
from detour.topo.topology import Topology

OPTICS_SHARE = 0.01
"""of the price of a switch: a transceiver, of which a link between switches has two. An assumption; hosts' links are
copper, and passive panels cost nothing."""
MOST_SWITCHES = 6000
"""The matrix of more would take more than 150 MB."""
_PAIRS = 200
_SWEEPS = 20


@dataclass(frozen=True)
class DisjointPaths:
    """Edge-disjoint paths between two switches with hosts: the least and the median of `pairs` pairs."""

    least: int
    median: float
    pairs: int


@dataclass(frozen=True)
class Cost:
    """In units of a switch."""

    switches: float
    switches_and_optics: float


@dataclass(frozen=True)
class GraphMeasures:
    """`ports`: in use, at all switches; `radix`: of the switch that uses most; `degree`, `least_degree`: links to other
    switches. `diameter`, `mean_distance`: links between different switches with hosts. `spectral_gap`: 1 less the
    second eigenvalue of the random walk over links (1 - l2/d where all switches have d links); `ramanujan_gap`: the
    limit for large graphs of this degree, 1 - 2 sqrt(d - 1) / d (Alon and Boppana; None: not regular). `bisection`: an
    upper bound, what crosses a cut that halves the hosts, as a share of what half of the hosts send; None where all
    hosts have one switch."""

    topology: str
    switches: int
    links: int
    hosts: int
    ports: int
    radix: int
    degree: int
    least_degree: int
    diameter: int
    mean_distance: float
    spectral_gap: float
    ramanujan_gap: float | None
    bisection: float | None
    disjoint_paths: DisjointPaths | None
    cost: Cost


def measure(topology: Topology, optics_share: float = OPTICS_SHARE, seed: int = 1) -> GraphMeasures:
    """Measures of a network. `seed`: of the pairs of switches whose disjoint paths are counted, if there are many.
    Raises `DetourError`: it has more than `MOST_SWITCHES` switches, or is in parts."""
    count = len(topology.switches)
    if count > MOST_SWITCHES:
        raise DetourError(f"{topology.spec}: {count} switches; graphs of at most {MOST_SWITCHES} are measured")
    links, rates = link_matrices(topology)
    hosts = np.array([len(hosts) for hosts in topology.hosts_of])
    tors = np.flatnonzero(hosts)
    diameter, mean = _distances(topology, links, tors)
    degrees = links.sum(axis=1)
    gap, second = _spectrum(rates)
    between = sum(link.kind != "host" for link in topology.links)
    regular = degrees.min() == degrees.max() >= 2
    return GraphMeasures(
        topology=topology.spec,
        switches=count,
        links=between,
        hosts=len(topology.hosts),
        ports=2 * between + len(topology.hosts),
        radix=int((degrees + hosts).max()),
        degree=int(degrees.max()),
        least_degree=int(degrees.min()),
        diameter=diameter,
        mean_distance=mean,
        spectral_gap=gap,
        ramanujan_gap=1 - 2 * float(np.sqrt(degrees[0] - 1)) / int(degrees[0]) if regular else None,
        bisection=_bisection(rates, hosts, second) if tors.size > 1 else None,
        disjoint_paths=_disjoint(links, tors, seed) if tors.size > 1 else None,
        cost=Cost(count, count + 2 * between * optics_share),
    )


def link_matrices(topology: Topology) -> tuple[Int32Array, FloatArray]:
    """(switches, switches) how many links join two switches, and what they carry in multiples of a host's link."""
    count = len(topology.switches)
    links, rates = np.zeros((count, count), np.int32), np.zeros((count, count))
    for link in topology.links:
        if link.kind != "host":
            for one, other in ((link.a[0], link.b[0]), (link.b[0], link.a[0])):
                links[one, other] += 1
                rates[one, other] += link.speed
    return links, rates


def _distances(topology: Topology, links: Int32Array, tors: IndexArray) -> tuple[int, float]:
    """Greatest and mean number of links between different switches with hosts."""
    joined = (links > 0).astype(np.float32)
    reached = np.zeros((tors.size, len(links)), bool)
    reached[np.arange(tors.size), tors] = True
    distance, total, length = 0, 0, 0
    frontier = reached
    while not reached[:, tors].all():
        frontier = (frontier.astype(np.float32) @ joined > 0) & ~reached
        if not frontier.any():
            raise DetourError(f"{topology.spec}: it is in parts; its distances have no meaning")
        length += 1
        reached = reached | frontier
        arrived = int(frontier[:, tors].sum())
        total += length * arrived
        distance = length if arrived else distance
    pairs = tors.size * (tors.size - 1)
    return distance, total / pairs if pairs else 0.0


def _spectrum(rates: FloatArray) -> tuple[float, FloatArray]:
    """Spectral gap, and the eigenvector behind it: what differs in it is far apart."""
    root = np.sqrt(np.maximum(rates.sum(axis=1), 1e-9))
    values, vectors = np.linalg.eigh(rates / root[:, None] / root[None])
    if len(values) == 1:
        return 1.0, np.zeros(1)
    return float(1 - values[-2]), vectors[:, -2] / root


def _bisection(rates: FloatArray, hosts: Int32Array, second: FloatArray) -> float:
    """The least cut found that halves the hosts: split by the eigenvector, then switches change sides or places while
    less crosses. A bound from above, for the best cut is hard to find."""
    order = np.argsort(second, kind="stable")
    side = np.zeros(len(rates), bool)
    side[order[np.cumsum(hosts[order]) * 2 > hosts.sum()]] = True
    movable = np.flatnonzero(hosts == 0)
    for _ in range(_SWEEPS):
        before = side.copy()
        for switch in movable:  # switches without hosts go where more of their links are
            side[switch] = rates[switch] @ side > rates[switch] @ ~side
        _exchange(rates, hosts, side)
        if np.array_equal(before, side):
            break
    half = min(hosts[side].sum(), hosts[~side].sum())
    return float(rates[np.ix_(side, ~side)].sum() / max(1, half))


def _exchange(rates: FloatArray, hosts: Int32Array, side: BoolArray) -> None:
    """Exchanges pairs of switches with as many hosts across the cut, the best first, while less crosses (Kernighan and
    Lin, 1970, without their looking ahead)."""
    for count in np.unique(hosts[hosts > 0]):
        for _ in range(len(rates)):
            across = rates @ np.where(side, -1.0, 1.0) * np.where(side, 1.0, -1.0)  # what a move of one alone gains
            one, other = np.flatnonzero(side & (hosts == count)), np.flatnonzero(~side & (hosts == count))
            if not one.size or not other.size:
                break
            gain = across[one][:, None] + across[other][None] - 2 * rates[np.ix_(one, other)]
            best = np.unravel_index(int(gain.argmax()), gain.shape)
            if gain[best] <= 1e-9:
                break
            side[one[best[0]]], side[other[best[1]]] = False, True


def _disjoint(links: Int32Array, tors: IndexArray, seed: int) -> DisjointPaths:
    """Counted for all pairs of switches with hosts, or a sample."""
    pairs = list(combinations(tors.tolist(), 2)) if tors.size * (tors.size - 1) // 2 <= _PAIRS else []
    rng = np.random.default_rng(seed)
    while len(pairs) < min(_PAIRS, tors.size * (tors.size - 1) // 2):
        one, other = rng.choice(tors, 2, replace=False).tolist()
        pairs.append((one, other))
    counts = [disjoint_paths(links, *pair) for pair in pairs]
    return DisjointPaths(min(counts), float(np.median(counts)), len(counts))


def disjoint_paths(links: Int32Array, source: int, target: int) -> int:
    """Number of link-disjoint paths between two switches: the greatest flow, by shortest augmenting paths
    (Edmonds and Karp, 1972) over the dense matrix."""
    left = links.astype(np.int16)
    count = 0
    while True:
        levels = [np.array([source])]
        seen = np.zeros(len(links), bool)
        seen[source] = True
        while not seen[target]:
            ahead = np.flatnonzero(left[levels[-1]].any(axis=0) & ~seen)
            if not ahead.size:
                return count
            seen[ahead] = True
            levels.append(ahead)
        at = target
        for level in reversed(levels[:-1]):
            before = int(level[left[level, at].argmax()])
            left[before, at] -= 1
            left[at, before] += 1
            at = before
        count += 1
