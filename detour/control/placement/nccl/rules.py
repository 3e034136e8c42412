# SPDX-License-Identifier: Apache-2.0
"""Rules of NCCL: what a protocol costs, how many channels there are, and which algorithm and protocol are taken.

Read in NCCL 2.29 and 2.30 (src/graph/tuning.cc, paths.cc, connect.cc, search.cc, src/enqueue.cc, src/init.cc) and in
Hu et al., "Demystifying NCCL", arXiv 2507.04786. Constants are those of H100 GPUs with an Intel CPU. Beyond what is
here NCCL has PAT (small all-gathers and reduce-scatters of one GPU a machine) and CollNet (SHARP).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.placement.nccl.machines import Cluster

STEPS = 8
"""slots of a connection's buffer"""
P2P_AT_ONCE = 8
"""messages that a channel works on at a time"""
P2P_CHUNK = 1 << 17
P2P_CHANNEL_BPS = 112_000_000_000
"""that a channel is expected to send to one peer (NCCL_P2P_PER_CHANNEL_NET_BW)"""
_MOST_CHANNELS = 32
_NVLINK_SHARE = 20.6 / 25
"""of the rate of NVLink, that NCCL counts on"""
_SPEEDS = (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12)
"""GB/s that the search for rings and trees tries for what crosses the network"""


@dataclass(frozen=True)
class Protocol:
    """`payload` of `wire` bytes are data. `slot`: data of a slot of the buffer; `chunk_slots`, `slices`: of a chunk of
    a ring; `network_us`, `tree_us`, `local_us`: a step over the network, of a tree over it, and inside a machine, as
    the tuner takes them; `base_us`: of a ring and a tree. `threads` times `threshold`: bytes worth a channel."""

    name: str
    payload: int
    wire: int
    slot: int
    chunk_slots: int
    slices: int
    network_us: float
    tree_us: float
    local_us: tuple[float, float]
    base_us: tuple[float, float]
    threads: int
    threshold: int

    def on_wire(self, size: int) -> int:
        """Return the bytes that `size` bytes of data are on the network."""
        return -(-size // self.payload) * self.wire if self.wire > self.payload else size


SIMPLE = Protocol("Simple", 1, 1, 1 << 19, 4, 2, 14.0, 14.0, (3.4, 4.0), (8.4, 8.4), 512, 64)
LL = Protocol("LL", 8, 16, 1 << 15, 1, 1, 2.7, 5.0, (0.6, 0.6), (6.6, 6.8), 512, 8)
LL128 = Protocol("LL128", 120, 128, 576_000, 1, 1, 4.0, 8.5, (1.9, 1.25), (14.0, 14.0), 640, 8)
PROTOCOLS = {one.name.lower(): one for one in (LL, LL128, SIMPLE)}
ALGORITHMS = ("ring", "tree", "nvls-tree", "p2p")
RING_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
PEER_OPERATIONS = ("alltoall", "sendrecv", "gather", "scatter")
OPERATIONS = (*RING_OPERATIONS, *PEER_OPERATIONS)
_TREE_TENTHS = {
    "LL": "aaaa987777654456789aaaaa", "LL128": "aaaaa9888766666689999aaa", "Simple": "999999987665555678778999"
}  # fmt: skip
"""of the tuner's rate of trees, for powers of two of bytes from 64 on: a is all of it"""


class Choice(NamedTuple):
    """Algorithm, protocol and channels of a collective."""

    algorithm: str
    protocol: Protocol
    channels: int


def search_speed(cluster: Cluster) -> float:
    """Return the rate (GB/s) at which the search finds a channel for each NIC."""
    rate = cluster.nic_bps / 8e9
    return next((speed for speed in _SPEEDS if speed <= rate), _SPEEDS[-1])


def channels_of(cluster: Cluster) -> int:
    """Return the number of channels: two for each NIC; four, where a NIC is fast and there are less than 16."""
    channels = 2 * cluster.machine.nics
    if search_speed(cluster) > 45 and channels < 16:
        channels *= 2
    return min(channels, _MOST_CHANNELS)


def peer_channels(cluster: Cluster) -> tuple[int, int]:
    """(channels for messages between two GPUs, those of them that a pair of GPUs has)."""
    total = _power(channels_of(cluster))
    rate_bps = cluster.nic_bps // 8_000_000_000 * 8_000_000_000
    peer = _power(max(2, -(-rate_bps // P2P_CHANNEL_BPS)))
    while peer > 1 and peer * -(-cluster.ranks // P2P_AT_ONCE) > total:
        peer //= 2
    return total, min(peer, total)


def _power(value: int) -> int:
    return 1 << (value - 1).bit_length()


def peer_order(rank: int, cluster: Cluster) -> list[int]:
    """Whom a rank sends to, in NCCL's order: groups of the GPUs of a machine at quadratic distances, and in them the
    rank's own place first."""
    gpus, machines = cluster.machine.gpus, cluster.machines
    group = gpus if gpus <= P2P_AT_ONCE else next(g for g in range(P2P_AT_ONCE, 0, -1) if gpus % g == 0)
    groups = machines * gpus // group
    order, delta, size = list[int](), 0, _power(groups)
    for turn in range(1, size + 1):
        if delta < groups:
            at = (rank // group + delta) % groups
            order += [at * group + (rank % group + place) % group for place in range(group)]
        delta = (delta + turn) & (size - 1)
    return order


def peer_messages(op: str, size: int, cluster: Cluster) -> Iterator[tuple[int, int, int]]:
    """(sender, receiver, bytes) of an operation between pairs, of each sender in its order."""
    n, share = cluster.ranks, max(1, size // cluster.ranks)
    match op:
        case "sendrecv":
            yield from ((rank, (rank + 1) % n, size) for rank in range(n))
        case "gather":
            yield from ((rank, 0, share) for rank in range(1, n))
        case "scatter":
            yield from ((0, rank, share) for rank in peer_order(0, cluster) if rank)
        case _:
            yield from ((rank, peer, share) for rank in range(n) for peer in peer_order(rank, cluster) if peer != rank)


def double_trees(count: int) -> tuple[list[int], list[int]]:
    """The parent of each of `count` ranks in two binary trees, -1: it is the root. At most one rank has children in
    both (Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009);
    numbered as NCCL does it."""
    first = [_in_order_parent(rank, count) for rank in range(count)]
    if count % 2:  # the same, one rank further
        second = [-1 if first[rank - 1] < 0 else (first[rank - 1] + 1) % count for rank in range(count)]
    else:  # mirrored
        second = [-1 if parent < 0 else count - 1 - parent for parent in reversed(first)]
    return first, second


def _in_order_parent(rank: int, count: int) -> int:
    if not rank:
        return -1
    bit = rank & -rank
    parent = (rank ^ bit) | bit << 1
    return parent if parent < count else rank ^ bit


# -- the tuner ----------------------------------------------------------------------------------------------


def choose(op: str, size: int, cluster: Cluster, algorithm: str | None = None, protocol: str | None = None) -> Choice:
    """The fastest algorithm and protocol by the tuner's estimate, among those that are given if any is. Raises
    DetourError: NCCL does not have them for the operation."""
    for what, given, allowed in (
        ("operation", op, OPERATIONS), ("algorithm", algorithm, ALGORITHMS), ("protocol", protocol, PROTOCOLS)
    ):  # fmt: skip
        if given is not None and given not in allowed:
            raise DetourError(f"there is no {what} {given!r}; allowed: {', '.join(allowed)}")
    pairs = [
        (name, each)
        for name in ALGORITHMS
        for each in PROTOCOLS.values()
        if _has(op, name, each, cluster) and algorithm in (None, name) and protocol in (None, each.name.lower())
    ]
    if not pairs:
        asked = " and ".join(filter(None, (algorithm, protocol)))
        raise DetourError(f"NCCL does not carry out {op} of these machines by {asked}")
    if op in PEER_OPERATIONS:
        return Choice(*pairs[0], peer_channels(cluster)[1])
    best = min(pairs, key=lambda pair: estimate_us(op, size, cluster, *pair))
    return Choice(*best, _channels_for(size, cluster, *best))


def _has(op: str, algorithm: str, protocol: Protocol, cluster: Cluster) -> bool:
    """Return whether NCCL has the algorithm and protocol for the operation."""
    match algorithm:
        case "p2p":
            return op in PEER_OPERATIONS and protocol is SIMPLE
        case "ring":
            return op in RING_OPERATIONS
        case "tree":
            return op == "all_reduce"
    switched = cluster.machine.switched and cluster.machine.nics > 1
    return op == "all_reduce" and switched and protocol is SIMPLE


def _channels_for(size: int, cluster: Cluster, algorithm: str, protocol: Protocol) -> int:
    """Channels that a message of this size is worth."""
    each = protocol.threads * protocol.threshold
    if protocol is LL and algorithm == "ring":
        each *= cluster.ranks
    channels = channels_of(cluster)
    return channels if algorithm == "nvls-tree" else max(1, min(channels, size // each))


def estimate_us(op: str, size: int, cluster: Cluster, algorithm: str, protocol: Protocol) -> float:
    """The time that NCCL's tuner expects."""
    ranks, machines = cluster.ranks, cluster.machines
    latency, rate = _latency_us(op, cluster, algorithm, protocol), _tuner_rate(cluster, algorithm, protocol)
    steps = {"all_reduce": 2 * (ranks - 1), "all_gather": ranks - 1, "reduce_scatter": ranks - 1}.get(op, ranks)
    rate *= 0.5 if algorithm == "tree" else ranks / steps
    power = (size >> 6).bit_length() - 1
    if algorithm == "tree" and 0 <= power < 23:
        rate *= int(_TREE_TENTHS[protocol.name][power], 16) / 10
    few = size // (channels_of(cluster) * ranks) < 64
    if algorithm == "ring" and protocol is SIMPLE and op == "all_reduce" and machines > 1 and not few:
        latency *= 1.4
    return latency + size / rate / 1e3


def _tuner_rate(cluster: Cluster, algorithm: str, protocol: Protocol) -> float:
    """Bus bandwidth, GB/s."""
    paths, two = cluster.machine.nics, cluster.machines == 2
    rate = paths * search_speed(cluster)
    if algorithm == "nvls-tree":
        inside = 2 * 0.85 * search_speed(cluster) * (paths - 1) / paths
        across = search_speed(cluster) * (2 if two else 1)
        return paths * min(inside, across, 57.7 if two else 45.5)
    if algorithm == "ring":
        match protocol.name:
            case "LL":
                return min(39.0 if two else 20.4, rate * 0.5)
            case "LL128":
                return min(rate * 0.92, paths * 36.7)
        return rate
    rate = min(rate * 0.92, paths * (41.4 if two else 36.0))
    match protocol.name:
        case "LL":
            return min(rate / 3.8, 39.0 if two else 20.4)
        case "LL128":
            return min(rate * 120 / 128, paths * (36.7 if two else 29.0))
    return rate


def _latency_us(op: str, cluster: Cluster, algorithm: str, protocol: Protocol) -> float:
    gpus, machines, ranks = cluster.machine.gpus, cluster.machines, cluster.ranks
    levels = machines.bit_length() - 1
    if algorithm == "nvls-tree":
        return 25.0 + 2 * levels * (14.0 if gpus == 1 else 20.9)
    if algorithm == "tree":
        return protocol.base_us[1] + 2 * ((gpus - 1) * protocol.local_us[1] + levels * protocol.tree_us)
    if op in ("broadcast", "reduce"):
        return protocol.base_us[0] + protocol.network_us
    across = (2 if op == "all_reduce" else 1) * (machines - 1)
    steps = (2 if op == "all_reduce" else 1) * (ranks - 1)
    local_us = max(protocol.local_us[0], 3.0 if protocol is SIMPLE else 1.0)
    network_us = protocol.tree_us if gpus == 1 else protocol.network_us
    return protocol.base_us[0] + (steps - across) * local_us + across * network_us


def tree_chunk(size: int, cluster: Cluster, choice: Choice) -> int:
    """Return the bytes of data of a tree's chunk, by the size of the message."""
    chunk, channels = choice.protocol.slot, choice.channels
    if choice.protocol is LL128:
        levels = 1 + cluster.machines.bit_length() - 1 + 0.1 * cluster.machine.gpus
        for many, least in ((64, 131_072), (16, 32_768)):
            while size // (channels * chunk) < levels * many / cluster.machine.gpus and chunk > least:
                chunk //= 2
    if choice.algorithm == "nvls-tree":
        at_once = channels * cluster.machine.nics
        for many, most in ((32, 262_144), (16, 131_072), (4, 65_536), (1, 32_768)):
            if size < many * at_once * chunk and chunk > most:
                chunk = most
    return chunk


def step_ps(cluster: Cluster, protocol: Protocol) -> int:
    """Return the time between data that came over the network and what follows from it: fitted for Simple, what the
    tuner has for the others."""
    return cluster.costs.step_ps if protocol is SIMPLE else round(protocol.tree_us * US)


def launch_ps(choice: Choice) -> int:
    """Return the time of an operation's beginning and end."""
    return round(choice.protocol.base_us[choice.algorithm == "tree"] * US)


def bus_factor(op: str, ranks: int) -> float:
    """Return bus over algorithm bandwidth, as nccl-tests define it (doc/PERFORMANCE.md)."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if op in ("sendrecv", "broadcast", "reduce") else (ranks - 1) / ranks


def local_step_ps(protocol: Protocol) -> int:
    """Return the latency of a step inside a machine."""
    return round(protocol.local_us[0] * US)


def local_bps(cluster: Cluster) -> int:
    """Return the rate between two GPUs of a machine that NCCL counts on."""
    return round(cluster.machine.nvlink_bps * _NVLINK_SHARE)
