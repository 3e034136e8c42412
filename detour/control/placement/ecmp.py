# SPDX-License-Identifier: Apache-2.0
"""Hashing of the same flows: the choices of this fabric's own data plane, for source ports drawn at random.

A flow's source port is drawn once, as a queue pair's is; every switch on its way hashes it (`hashes.pick_member`) and
picks one of the members of its route's action set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from detour.base.arrays import Int32s1, Int32s2, Int64Array, Int64s1
from detour.base.jit import allocating
from detour.control.native import PLACEMENT
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork, colliding
from detour.control.routes.hashes import PATHS, crc_table

_TABLE = np.array(crc_table(), np.int32)


@dataclass(frozen=True)
class Hashed:
    """Collisions over all seeds. `load`: (links,) mean flows on every link; `pairs`, `worst_pairs`: (links,) collisions
    on every link, mean and worst; `busiest`: most flows (or bytes, where jobs give them) on one, by seed."""

    mean: float
    worst: int
    load: Any
    pairs: Any
    worst_pairs: Any
    busiest: tuple[int, ...]


def hash_ports(network: PlacementNetwork, flows: FlowSet, seed: int) -> tuple[Int64Array, Int64Array]:
    """(links,) flows on every link when source ports are drawn from `seed`, and what these carry (`FlowSet.size`)."""
    number, sizes, following = network.next_hops
    ports = np.random.default_rng([seed, len(flows)]).integers(0, PATHS, len(flows), dtype=np.int32)
    a, b = network.edge_of[flows.source], network.edge_of[flows.target]
    nodes = np.array([switch.node_id for switch in network.topology.switches], np.int32)
    load, carried = np.zeros((2, network.links), np.int64)
    _add_hashed(a, b, flows.size, ports, number, sizes, following, network.link, nodes, _TABLE, load, carried)
    return load, carried


def hashed(network: PlacementNetwork, flows: FlowSet, seeds: int, progress: Callable[[str], None]) -> Hashed:
    """Collisions under ECMP with that many draws of source ports."""
    counts, busiest = [], []
    total, pairs, worst = np.zeros(network.links), np.zeros(network.links), np.zeros(network.links, np.int64)
    for seed in range(seeds):
        load, carried = hash_ports(network, flows, seed)
        meet = colliding(load)
        counts.append(int(meet.sum()))
        busiest.append(int(carried.max(initial=0)))
        total += load
        pairs += meet
        worst = np.maximum(worst, meet)
        progress(f"hashing: {100 * (seed + 1) // seeds}%")
    return Hashed(sum(counts) / seeds, max(counts), total / seeds, pairs / seeds, worst, tuple(busiest))


@allocating
def pick(table: Any, path: Any, node: Any, size: Any) -> Any:
    """`hashes.pick_member` for native code; `node` and the arithmetic are of 32 bits."""
    spread = np.uint32(np.uint32(path) * np.uint32(np.uint32(node) * np.uint32(0x9E3779B1) | np.uint32(1)))
    spread = np.uint32(spread * np.uint32(np.uint32(path) + np.uint32(node)))
    crc = np.uint32(0)
    for shift in (24, 16, 8, 0):
        byte = (spread >> np.uint32(shift)) & np.uint32(0xFF)
        crc = (crc >> np.uint32(8)) ^ np.uint32(table[(crc ^ byte) & np.uint32(0xFF)])
    return np.int64(crc) % size


@PLACEMENT.entry
def _add_hashed(
    a: Int32s1, b: Int32s1, size: Int64s1, ports: Int32s1, number: Int32s2, sizes: Int32s1, following: Int32s2,
    link: Int32s2, nodes: Int32s1, table: Int32s1, load: Int64s1, carried: Int64s1,
) -> None:  # fmt: skip
    """Add every flow, and its size, to the links that it takes."""
    for flow in range(len(a)):
        at, to = a[flow], b[flow]
        while at != to:
            choice = number[at, to]
            after = following[choice, pick(table, ports[flow], nodes[at], sizes[choice])]
            load[link[at, after]] += 1
            carried[link[at, after]] += size[flow]
            at = after % len(link)
