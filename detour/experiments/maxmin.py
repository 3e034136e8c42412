# SPDX-License-Identifier: Apache-2.0
"""Max-min fair rates of connections on fixed shortest paths, by progressive filling (Bertsekas and Gallager, 6.5.2).

All rates rise together; when a link is full those that cross it keep what they have, and the others go on. With
every connection on one ECMP path at random this is what an ideal transport would reach, and so the figure to hold
Table I against.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from detour.topo import Topology
from detour.topo.paths import next_hops
from detour.topo.topology import HostPair


def routes(topology: Topology, pairs: Sequence[HostPair], seed: int) -> list[list[int]]:
    """The links of every connection's path, one of its shortest ones at random. A link counts twice, once for each
    direction: 2 * index, plus 1 from its end `b` to its end `a`."""
    rng = random.Random(f"routes {seed}")
    hops: dict[tuple[int, int], list[int]] = {}
    paths = []
    host_links = {link.b[0]: link.index for link in topology.links if link.kind == "host"}
    for source, target in pairs:
        at, end = topology.hosts[source].switch, topology.hosts[target].switch
        path = [2 * host_links[source] + 1]
        while at != end:
            if (at, end) not in hops:
                hops[at, end] = list(next_hops(topology, at, end))
            peer = topology.switches[at].ports[rng.choice(hops[at, end]) - 1]
            assert peer is not None
            path.append(2 * peer.link + (topology.links[peer.link].a[0] != at))
            at = peer.index
        paths.append([*path, 2 * host_links[target]])
    return paths


def max_min(paths: Sequence[Sequence[int]], capacity: float, links: int) -> np.ndarray:
    """(connections,) max-min fair rates on `links` directed links of `capacity` each."""
    longest = max(map(len, paths), default=0)
    table = np.full((len(paths), longest), links, np.int64)  # the last link is an endless one, for padding
    for row, path in zip(table, paths, strict=True):
        row[: len(path)] = path
    rates = np.zeros(len(paths))
    free = np.full(links + 1, float(capacity))
    free[links] = np.inf
    active = np.ones(len(paths), bool)
    while active.any():
        users = np.bincount(table[active].ravel(), minlength=links + 1).astype(float)
        users[links] = 0
        share = np.where(users > 0, free / np.maximum(users, 1), np.inf)
        step = share.min()
        rates[active] += step
        free[:links] -= step * users[:links]
        full = share <= step * (1 + 1e-9)
        active &= ~full[table].any(axis=1)
    return rates


def bound_gbps(topology: Topology, pairs: Sequence[HostPair], rate_bps: int, seed: int) -> float:
    """Sum of the max-min fair rates of connections on random shortest paths, in Gb/s."""
    return float(max_min(routes(topology, pairs, seed), rate_bps / 1e9, 2 * len(topology.links)).sum())


def hosts_bound_gbps(topology: Topology, pairs: Sequence[HostPair], rate_bps: int) -> float:
    """Sum of the max-min fair rates of connections in Gb/s if nothing but the links of hosts limited them: what the
    best choice of paths can give to senders that share fairly."""
    hosts = len(topology.hosts)
    return float(max_min([(a, hosts + b) for a, b in pairs], rate_bps / 1e9, 2 * hosts).sum())
