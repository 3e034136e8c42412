# SPDX-License-Identifier: Apache-2.0
"""The packet level of the FC+ paper (section V-B: Fig. 7, completion times of Table VIII) in virtual time.

1200 servers at 25 Gb/s, RoCEv2 with DCQCN and PFC, messages with Poisson arrivals at load 0.7 on FC+ with one and two
lossless priorities, KSP, FC and the equal-cost Clos. Where the paper is silent, by name:

* sizes: 500 kB each, or web search. The paper names no distribution; its 99th percentiles of completion time are 2 to 5
  times the medians, which only messages of about the same size show. `WEB_SEARCH` is the workload of DCTCP (Alizadeh et
  al., SIGCOMM 2010) as HPCC's ns-3 has it, the simulator of reference [11];
* a message keeps to one path (in a Clos: to one source port). Paths are drawn in the proportions of the multi-commodity
  flow that the paper's throughput stands for (`split: optimal`), or all alike (`even`);
* load counts headers; ACKs (one for every eighth packet, and for marked ones) come on top;
* links of 1 us, 375 kB of packet memory a port, DCQCN's times and steps those of its paper but for the least rate;
* at most five hops, as six uSIDs fit into an address. N = 120 needs no longer paths.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.times import US
from detour.control.expander import throughput
from detour.control.expander.demand import Demand, demand_of
from detour.control.expander.routes import ExpanderRoutes, compute
from detour.experiments.fcplus.results import PRIORITIES_OF, PacketsPoint, Percentiles, answered, network_of, policy_of
from detour.experiments.running import mean_and_percentiles
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings
from detour.fabric.traffic.expander import ExpanderFabric, lists_of, scheme_of
from detour.hosts.cc.dcqcn import DCQCN_PAPER
from detour.topo.expander import Expander

RATE_BPS = 25_000_000_000
LOAD = 0.7
GAP = 0.02
"""of the flows behind `split: optimal`, where HiGHS does not compute them"""
HOSTS: dict[str, Any] = DCQCN_PAPER | {"dcqcn_min_bps": 100_000_000, "ack_every": 8}
WINDOW = 256
"""packets that a message may have under way, eight times what an idle path holds"""
FCPLUS_MAX_HOPS = 5
POLL_PS = 200 * US
DRAIN_TIMES = 20
"""times the duration of the arrivals after which messages that still run are given up"""
PERCENTILES = tuple(range(101))


def run(point: PacketsPoint) -> PacketsPoint:
    """Completion times of one network under one pattern."""
    network = network_of(point)
    demand = demand_of(point.pattern, network, point.seed)
    messages = draw(network, demand, LOAD, RATE_BPS, point.us * US, point.sizes, point.seed)
    lists, hops = _paths(point, network, demand, messages)
    name = point.network
    chosen = scheme_of(name, PRIORITIES_OF[name], hosts=tuple(HOSTS.items()))
    settings = RunSettings(LinkSettings(rate_bps=RATE_BPS), window=WINDOW, seed=point.seed)
    pairs = _pairs(messages)
    with ExpanderFabric(network, chosen, settings, queue_pairs=len(pairs)) as fabric:
        fabric.connect_routed(pairs, lists)
        ticks, begin = np.unique(messages.at_ps, return_index=True)
        for tick, some in zip(ticks.tolist(), np.split(np.arange(len(messages.size)), begin[1:]), strict=True):
            fabric.run(tick)
            fabric.send(messages.size[some], some)
        stuck = fabric.deadlock()
        while not stuck and fabric.unfinished() and fabric.now_ps < (1 + DRAIN_TIMES) * point.us * US:
            fabric.run(fabric.now_ps + POLL_PS)
            stuck = fabric.deadlock()

        return _result(point, fabric, messages, hops, bool(stuck))


def _pairs(messages: MessageArrivals) -> list[tuple[int, int]]:
    return list(zip(messages.source.tolist(), messages.target.tolist(), strict=True))


def _paths(
    point: PacketsPoint, network: Expander, demand: Demand, messages: MessageArrivals
) -> tuple[NDArray[np.int64], float]:
    """(destination addresses, mean number of links between switches over the bytes that are asked for)"""
    pairs = _pairs(messages)
    if point.network == "Clos":
        from detour.control.expander.demand import hop_distances

        far = hop_distances(network)[demand.pairs[:, 0], demand.pairs[:, 1]]
        return np.zeros((len(pairs), 2), np.int64), float(np.average(far, weights=demand.amount))
    routes = compute(network, policy_of(point, FCPLUS_MAX_HOPS), demand.pairs)
    count = np.diff(routes.first)
    fractions = throughput.fractions(routes, demand, GAP) if point.split == "optimal" else 1 / np.repeat(count, count)
    hops = float(np.average(routes.length, weights=fractions * np.repeat(demand.amount, count)))
    return lists_of(routes, pairs, choose_paths(routes, fractions, messages).tolist()), hops


def ideal_ps(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Completion time on an idle path over two switches: all bytes at line rate, one packet more for each of the two
    switches, and six links there and back (the ACK's own time is left out)."""
    sent = wire_bytes(size) + 2 * np.minimum(wire_bytes(size), PACKET_BYTES)
    return sent * 8 * 10**12 // RATE_BPS + 6 * LinkSettings().host_delay_ps


def _result(
    point: PacketsPoint, fabric: ExpanderFabric, messages: MessageArrivals, hops: float, stuck: bool
) -> PacketsPoint:
    slowdown, measured = measure(fabric, messages)
    return answered(
        point,
        **measured,
        mean_hops=round(hops, 3),
        bytes=int(messages.size.sum()),
        slowdown_percentiles=[round(float(value), 3) for value in np.percentile(slowdown, PERCENTILES)],
        deadlock=stuck,
        virtual_ms=round(fabric.now_ps / 1e9, 3),
        marked=int(fabric.column("st_rx_ecn_marked").sum()),
        packet_hops=int(fabric.network.switch_stats()["packets"].sum()),
    )


def measure(fabric: ExpanderFabric, messages: MessageArrivals) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Slowdowns of messages, and what results have of times and memory."""
    done = fabric.column("st_last_done_ps")
    taken = np.where(done > 0, done, fabric.now_ps) - messages.at_ps
    slowdown = taken / ideal_ps(messages.size)
    stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    return slowdown, {
        "messages": len(taken),
        "fct_us": Percentiles(*mean_and_percentiles(taken / US, (50, 90, 99))),
        "slowdown": Percentiles(*mean_and_percentiles(slowdown, (50, 90, 99))),
        "unfinished": fabric.unfinished(),
        "pauses": sum(s["pauses_sent"] for s in stats),
        "drops": sum(s["headroom_drops"] + s["buffer_drops"] for s in stats),
        "retransmitted": int(fabric.column("st_retransmitted").sum()),
        "buffer_peak_bytes": max(s["buffer_peak"] for s in stats),
    }


# -- messages -----------------------------------------------------------------------------------------------

WEB_SEARCH = (
    *((0, 0.0), (10_000, 0.15), (20_000, 0.20), (30_000, 0.30), (50_000, 0.40), (80_000, 0.53), (200_000, 0.60)),
    *((1_000_000, 0.70), (2_000_000, 0.80), (5_000_000, 0.90), (10_000_000, 0.97), (30_000_000, 1.0)),
)
"""(bytes, fraction of the messages that are no longer), linear in between; mean 1.7 MB"""
EQUAL = ((500_000, 0.0), (500_000, 1.0))
"""messages of 500 kB each, 0.18 ms of a server's link"""
SIZES = {"equal": EQUAL, "web-search": WEB_SEARCH}
TICK_PS = 1_000_000
"""arrivals happen at whole microseconds"""


class MessageArrivals(NamedTuple):
    """In the order of their arrival: `at_ps`, `source` and `target` host, `size` in bytes of payload, `pair` of the
    demand, `draw` in [0, 1) that picks the path. All of shape (n,)."""

    at_ps: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size: NDArray[np.int64]
    pair: NDArray[np.int64]
    draw: NDArray[np.float64]


def mean_size(sizes: str) -> float:
    """Mean bytes of a message."""
    size, fraction = np.array(SIZES[sizes]).T
    return float(((size[1:] + size[:-1]) / 2 * np.diff(fraction)).sum())


def wire_bytes(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes on a wire of messages."""
    return size + -(-size // PAYLOAD) * (PACKET_BYTES - PAYLOAD)


def draw(
    network: Expander, demand: Demand, load: float, rate_bps: int, duration_ps: int, sizes: str, seed: int
) -> MessageArrivals:
    """Poisson arrivals for `duration_ps`. A demand of 1 is `load` of a host's line rate, headers included.

    The hosts of a switch share its demands evenly. Times, sizes, and what else does not depend on the network are the
    same for all networks with as many servers, so that what differs between them is not the luck of the draw.
    """
    times, lengths, places, rng = (np.random.default_rng([seed, number]) for number in range(4))
    bytes_each = mean_size(sizes) * PACKET_BYTES / PAYLOAD
    mean = load * rate_bps / 8 / bytes_each * float(demand.amount.sum()) * duration_ps / 1e12
    # All that may be needed is drawn: how many come has no influence on what they are.
    count = int(times.poisson(mean))
    at = np.sort(times.random(count)) * duration_ps
    size, fraction = np.array(SIZES[sizes]).T
    drawn = np.maximum(1, np.interp(lengths.random(count), fraction, size)).astype(np.int64)
    pick = places.random((count, 3))
    total = np.cumsum(demand.amount) / demand.amount.sum()
    pair = np.minimum(np.searchsorted(total, pick[:, 0], side="right"), len(total) - 1)
    first = np.concatenate([[0], np.cumsum(network.hosts)])
    source, target = (
        first[switch] + (pick[:, 1 + side] * network.hosts[switch]).astype(np.int64)
        for side, switch in enumerate(demand.pairs[pair].T)
    )
    at_ps = at.astype(np.int64) // TICK_PS * TICK_PS
    return MessageArrivals(at_ps, source, target, drawn, pair, rng.random(count))


def choose_paths(
    routes: ExpanderRoutes, fractions: NDArray[np.float64], messages: MessageArrivals
) -> NDArray[np.int64]:
    """The row of `routes` for every message: one of its pair's, with the probability that `fractions` gives."""
    total = np.concatenate([[0.0], np.cumsum(fractions)])
    low, high = routes.first[messages.pair], routes.first[messages.pair + 1]
    share = total[low] + messages.draw * (total[high] - total[low])
    rows = np.searchsorted(total, share, side="right") - 1
    return np.clip(rows, low, high - 1)
