# SPDX-License-Identifier: Apache-2.0
"""Cases that all schemes of a comparison share: network, failures, connections, and the optimum of the flow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from detour.base.arrays import FloatArray
from detour.base.errors import DetourError
from detour.control.expander.demand import Demand, demand_of, random_matching
from detour.control.expander.optimum import optimum
from detour.control.expander.throughput import Throughput
from detour.control.graph_files import open_topology
from detour.experiments.flat.points import NO_FAILURES
from detour.topo.expander import Expander
from detour.topo.expander.booted import expander_of, is_expander
from detour.topo.expander.given import expander_of_topology
from detour.topo.failures import NONE, Failure, Failures, dead_switches
from detour.topo.topology import HostPair

RANDOM_FAMILIES = ("rng", "jellyfish", "xpander", "fcplus")
"""wirings that depend on a seed"""
_SPREAD = 4
"""connections of a host whose switch sends to several others"""
_SIZES = {"web-search": "web-search"}
"""of messages, where they are not short"""


@lru_cache(maxsize=8)
def network_of(topology: str, seed: int) -> Expander:
    """The network of a point. Raises `DetourError`: there is no such topology."""
    family = topology.partition(":")[0]
    found = open_topology(f"{topology},seed={seed}" if family in RANDOM_FAMILIES else topology)
    return expander_of(found) if is_expander(found) else expander_of_topology(found)


@dataclass(frozen=True, eq=False)
class Case:
    """Connections between hosts (`pairs`), each of which asks for `share` (n,) of a host's rate, on a network of which
    `failures` have taken parts down; `demand` is their sum by switches, `sizes` of messages by name. `replanned`:
    whoever chooses paths knows of the failures."""

    network: Expander
    failures: Failures
    replanned: bool
    pairs: list[HostPair]
    share: FloatArray
    demand: Demand
    sizes: str

    @cached_property
    def broken(self) -> Expander:
        """The network as it is under the failures."""
        return self.network.under(self.failures)

    @cached_property
    def hosts_limit(self) -> float:
        """The multiple of the demand that the busiest host can send or receive."""
        return min(1 / float(np.bincount(hosts, self.share).max()) for hosts in np.array(self.pairs).T)

    @cached_property
    def optimum(self) -> Throughput:
        """Return what the best routing carries, as a multiple of the demand, or at least what hosts can."""
        return optimum(self.broken, self.demand, enough=self.hosts_limit)

    @property
    def lp(self) -> float:
        """The most that can be carried, as a multiple of the demand."""
        return min(self.optimum.theta, self.hosts_limit)

    @property
    def lp_gap(self) -> float:
        """By how much it may be more."""
        return self.optimum.gap if self.optimum.theta < self.hosts_limit else 0.0


@lru_cache(maxsize=4)
def case_of(topology: str, matrix: str, failures: str, seed: int) -> Case:
    """The case of a point. Raises `DetourError`: no such topology, matrix or failures; failures that part the
    network."""
    network = network_of(topology, seed)
    which, _, replanned = failures.partition(",")
    down = _failures(network, which, seed)
    pairs, share = _drawn(network, matrix, seed)
    dead = dead_switches(down)
    switch_of = np.repeat(np.arange(network.size), network.hosts)
    kept = [k for k, pair in enumerate(pairs) if not dead.intersection(switch_of[list(pair)].tolist())]
    pairs, share = [pairs[k] for k in kept], share[kept]
    sizes = _SIZES.get(matrix, "short")
    return Case(network, down, replanned == "replanned", pairs, share, _summed(switch_of, pairs, share), sizes)


def _failures(network: Expander, text: str, seed: int) -> Failures:
    if text == NO_FAILURES:
        return NONE
    kind, _, share = text.partition(":")
    count = {"links": len(network.links), "switches": network.size}.get(kind)
    if count is None or not re.fullmatch(r"0?\.\d+", share):
        raise DetourError(f"failures {text!r}; expected none, links:SHARE or switches:SHARE, such as links:0.01")
    between = [link.index for link in network.topology.links if link.kind != "host"]
    rng = np.random.default_rng([seed, 0xFA11])
    drawn = rng.choice(count, max(1, round(float(share) * count)), replace=False).tolist()
    if kind == "links":
        return frozenset(Failure("link", between[index]) for index in drawn)
    return frozenset(Failure("switch", index) for index in drawn)


def _drawn(network: Expander, matrix: str, seed: int) -> tuple[list[HostPair], FloatArray]:
    """Connections of a matrix, and what each asks for. `uniform` (and `web-search`): every switch sends to `_SPREAD`
    others, and as many send to it. `all-to-all`: every host sends to as many hosts, drawn from all."""
    rng = np.random.default_rng([seed, 0xC0])
    if matrix in ("uniform", "web-search"):
        parts = [_connections(network, random_matching(network, _SPREAD * seed + i), rng) for i in range(_SPREAD)]
    elif matrix == "all-to-all":
        parts = [_permutation(network, rng) for _ in range(_SPREAD)]
    else:
        return _connections(network, demand_of(matrix, network, seed), rng)
    return [pair for pairs, _ in parts for pair in pairs], np.concatenate([share for _, share in parts]) / _SPREAD


def _permutation(network: Expander, rng: np.random.Generator) -> tuple[list[HostPair], FloatArray]:
    """Every host sends to one of another switch, and each to another one."""
    switch_of = np.repeat(np.arange(network.size), network.hosts)
    target = rng.permutation(switch_of.size)
    while (same := np.flatnonzero(switch_of == switch_of[target])).size:
        other = rng.choice(switch_of.size, same.size, replace=False)
        for a, b in zip(same.tolist(), other.tolist(), strict=True):
            target[a], target[b] = target[b], target[a]
    return list(enumerate(target.tolist())), np.ones(switch_of.size)


def _connections(network: Expander, demand: Demand, rng: np.random.Generator) -> tuple[list[HostPair], FloatArray]:
    """Connections that carry a demand: each host's take as much as any other's of its switch, and targets come as often
    as the demand asks for them, to within one; receivers of a switch take turns."""
    first = np.concatenate([[0], np.cumsum(network.hosts)])
    turn = rng.integers(1 << 16, size=network.size)
    pairs: list[HostPair] = []
    share: list[float] = []
    for source in np.unique(demand.pairs[:, 0]).tolist():
        rows = np.flatnonzero(demand.pairs[:, 0] == source)
        hosts = int(network.hosts[source])
        each = _SPREAD if rows.size > 1 else 1
        total = np.cumsum(demand.amount[rows])
        at = (rng.random() + np.arange(hosts * each)) / (hosts * each) * total[-1]
        targets = demand.pairs[rows[np.searchsorted(total, at, side="right")], 1]
        for slot, target in enumerate(rng.permutation(targets).tolist()):
            turn[target] += 1
            receiver = int(first[target] + turn[target] % network.hosts[target])
            pairs.append((int(first[source] + slot % hosts), receiver))
            share.append(float(total[-1]) / (hosts * each))
    return pairs, np.array(share)


def _summed(switch_of: np.ndarray, pairs: list[HostPair], share: FloatArray) -> Demand:
    ends = switch_of[np.array(pairs, np.int64).reshape(-1, 2)].astype(np.int32)
    distinct, which = np.unique(ends, axis=0, return_inverse=True)
    amount = np.zeros(len(distinct))
    np.add.at(amount, which.ravel(), share)
    return Demand(distinct, amount)
