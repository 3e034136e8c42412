# SPDX-License-Identifier: Apache-2.0
"""The packet level of the FC+ paper (section V-B: Fig. 7, completion times of Table VIII) in virtual time.

1200 servers at 25 Gb/s, RoCEv2 with DCQCN and PFC, messages with Poisson arrivals at load 0.7 on FC+ with one and two
lossless priorities, KSP, FC and the equal-cost Clos. Where the paper is silent, by name:

* sizes: 500 kB each, or web search (`fcplus_traffic` says why);
* a message keeps to one path (in a Clos: to one source port). Paths are drawn in the proportions of the multi-commodity
  flow that the paper's throughput stands for (`split: optimal`), or all alike (`even`);
* load counts headers; ACKs (one for every eighth packet, and for marked ones) come on top;
* links of 1 us, 375 kB of packet memory a port, DCQCN's times and steps those of its paper but for the least rate;
* at most five hops, as six uSIDs fit into an address. N = 120 needs no longer paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.dataplane import PACKET_BYTES
from detour.base.times import US
from detour.control.expander import throughput
from detour.control.expander.demand import Demand, demand_of
from detour.control.expander.routes import compute
from detour.experiments.fcplus import networks as fcplus_networks
from detour.experiments.fcplus.networks import PRIORITIES_OF
from detour.experiments.fcplus.results import PacketsPoint, Percentiles, found
from detour.experiments.fcplus.traffic import MessageArrivals, choose_paths, draw, wire_bytes
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings
from detour.fabric.traffic.expander import ExpanderFabric, lists_of, scheme_of
from detour.hosts.config import DCQCN_PAPER
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
    network = fcplus_networks.network(point)
    demand = demand_of(point.pattern, network, point.seed)
    messages = draw(network, demand, LOAD, RATE_BPS, point.us * US, point.sizes, point.seed)
    lists, hops = _paths(point, network, demand, messages)
    name = point.network
    chosen = scheme_of(name, PRIORITIES_OF[name], hosts=tuple(HOSTS.items()))
    settings = RunSettings(LinkSettings(rate_bps=RATE_BPS), window=WINDOW, seed=point.seed)
    pairs = _pairs(messages)
    with ExpanderFabric(network, chosen, settings, queue_pairs=len(pairs)) as fabric:
        fabric.connect_routed(pairs, lists)
        _feed(fabric, messages)
        stuck = _drain(fabric, (1 + DRAIN_TIMES) * point.us * US)
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
    routes = compute(network, fcplus_networks.policy(point, FCPLUS_MAX_HOPS), demand.pairs)
    count = np.diff(routes.first)
    fractions = throughput.fractions(routes, demand, GAP) if point.split == "optimal" else 1 / np.repeat(count, count)
    hops = float(np.average(routes.length, weights=fractions * np.repeat(demand.amount, count)))
    return lists_of(routes, pairs, choose_paths(routes, fractions, messages).tolist()), hops


def _feed(fabric: ExpanderFabric, messages: MessageArrivals) -> None:
    """Lets every message arrive at its time."""
    ticks, begin = np.unique(messages.at_ps, return_index=True)
    for tick, some in zip(ticks.tolist(), np.split(np.arange(len(messages.size)), begin[1:]), strict=True):
        fabric.run(tick)
        fabric.send(messages.size[some], some)


def _drain(fabric: ExpanderFabric, until_ps: int) -> list[tuple[int, int, int]]:
    """Runs on until all is done, time is over, or nothing can move any more; returns queues that are stuck."""
    stuck = fabric.deadlock()
    while not stuck and fabric.unfinished() and fabric.now_ps < until_ps:
        fabric.run(fabric.now_ps + POLL_PS)
        stuck = fabric.deadlock()
    return stuck


def ideal_ps(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Completion time on an idle path over two switches: all bytes at line rate, one packet more for each of the two
    switches, and six links there and back (the ACK's own time is left out)."""
    sent = wire_bytes(size) + 2 * np.minimum(wire_bytes(size), PACKET_BYTES)
    return sent * 8 * 10**12 // RATE_BPS + 6 * LinkSettings().host_delay_ps


def _result(
    point: PacketsPoint, fabric: ExpanderFabric, messages: MessageArrivals, hops: float, stuck: bool
) -> PacketsPoint:
    slowdown, measured = measure(fabric, messages)
    return found(
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
        "fct_us": percentiles(taken / US),
        "slowdown": percentiles(slowdown),
        "unfinished": fabric.unfinished(),
        "pauses": sum(s["pauses_sent"] for s in stats),
        "drops": sum(s["headroom_drops"] + s["buffer_drops"] for s in stats),
        "retransmitted": int(fabric.column("st_retransmitted").sum()),
        "buffer_peak_bytes": max(s["buffer_peak"] for s in stats),
    }


def percentiles(values: NDArray[np.float64]) -> Percentiles:
    """Mean and percentiles of what messages took."""
    return Percentiles(
        round(float(values.mean()), 3), *(round(float(np.percentile(values, p)), 3) for p in (50, 90, 99))
    )
