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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.times import US
from detour.control.expander import throughput
from detour.control.expander.demand import Demand, demand_of
from detour.control.expander.routes import ExpanderRoutes, compute
from detour.experiments.fcplus.results import PRIORITIES_OF, PacketsPoint, answered, network_of, policy_of
from detour.experiments.messages import MessageArrivals, draw, measure
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
    pairs = messages.pairs
    with ExpanderFabric(network, chosen, settings, queue_pairs=len(pairs)) as fabric:
        fabric.connect_routed(pairs, lists)
        for tick, some in messages.by_time():
            fabric.run(tick)
            fabric.send(messages.size[some], some)
        stuck = fabric.deadlock()
        while not stuck and fabric.unfinished() and fabric.now_ps < (1 + DRAIN_TIMES) * point.us * US:
            fabric.run(fabric.now_ps + POLL_PS)
            stuck = fabric.deadlock()

        return _result(point, fabric, messages, hops, bool(stuck))


def _paths(
    point: PacketsPoint, network: Expander, demand: Demand, messages: MessageArrivals
) -> tuple[NDArray[np.int64], float]:
    """(destination addresses, mean number of links between switches over the bytes that are asked for)"""
    pairs = messages.pairs
    if point.network == "Clos":
        from detour.control.expander.demand import hop_distances

        far = hop_distances(network)[demand.pairs[:, 0], demand.pairs[:, 1]]
        return np.zeros((len(pairs), 2), np.int64), float(np.average(far, weights=demand.amount))
    routes = compute(network, policy_of(point, FCPLUS_MAX_HOPS), demand.pairs)
    count = np.diff(routes.first)
    fractions = throughput.fractions(routes, demand, GAP) if point.split == "optimal" else 1 / np.repeat(count, count)
    hops = float(np.average(routes.length, weights=fractions * np.repeat(demand.amount, count)))
    return lists_of(routes, pairs, choose_paths(routes, fractions, messages).tolist()), hops


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


def choose_paths(
    routes: ExpanderRoutes, fractions: NDArray[np.float64], messages: MessageArrivals
) -> NDArray[np.int64]:
    """The row of `routes` for every message: one of its pair's, with the probability that `fractions` gives."""
    total = np.concatenate([[0.0], np.cumsum(fractions)])
    low, high = routes.first[messages.pair], routes.first[messages.pair + 1]
    share = total[low] + messages.draw * (total[high] - total[low])
    rows = np.searchsorted(total, share, side="right") - 1
    return np.clip(rows, low, high - 1)
