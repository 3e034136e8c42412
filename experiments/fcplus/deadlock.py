# SPDX-License-Identifier: Apache-2.0
"""Whether routes deadlock under PFC, by trying: every host sends without end on random paths of its pairs.

Buffers are shallow and, unless a point says `dcqcn`, no congestion control holds the senders: PFC alone does, which is
when waits close to circles. The same hosts send to the same ones under all routes. KSP in one lossless priority gets
stuck, FC+ with one and with two cannot (`control/expander/proof.py` checks that without any packet).
"""

from __future__ import annotations

import random

import numpy as np

from detour.base.times import US
from detour.control.expander.routes import ExpanderRoutes, compute
from detour.control.policy import NoMarking
from detour.experiments.fcplus import networks as fcplus_networks
from detour.experiments.fcplus.networks import PRIORITIES_OF
from detour.experiments.fcplus.packets import FCPLUS_MAX_HOPS, HOSTS, RATE_BPS
from detour.experiments.fcplus.results import StuckPoint, StuckResult, found
from detour.fabric.footings.virtual.fabric import ENDLESS
from detour.fabric.footings.virtual.scheme import LinkSettings, RunSettings, SwitchMemory
from detour.fabric.traffic.expander import EXPANDER_RED_MARKING, ExpanderFabric, lists_of, scheme_of

SHALLOW = SwitchMemory(port_bytes=40_000)
CHECK_PS = 20 * US
AFTER_PS = 200 * US
"""for which a deadlock is watched: nothing may move through the queues in question"""


def draw(routes: ExpanderRoutes, each: int, seed: int) -> tuple[list[tuple[int, int]], list[int]]:
    """(pairs of hosts, a path for each): `each` random destinations on other switches for every host."""
    rng, topology = random.Random(f"deadlock {seed}"), routes.network.topology
    number = {tuple(pair): i for i, pair in enumerate(routes.pairs.tolist())}
    pairs, rows = [], []
    for host in topology.hosts:
        for _ in range(each):
            other = rng.choice([h for h in topology.hosts if h.switch != host.switch])
            pair, place = number[host.switch, other.switch], rng.random()
            low, high = int(routes.first[pair]), int(routes.first[pair + 1])
            pairs.append((host.index, other.index))
            rows.append(low + int(place * (high - low)))
    return pairs, rows


def run(point: StuckPoint) -> StuckResult:
    """Runs until something is stuck for good, or the point's time is over."""
    network = fcplus_networks.network(point)
    routes = compute(network, fcplus_networks.policy(point, FCPLUS_MAX_HOPS))
    pairs, rows = draw(routes, point.each, point.seed)
    name, marking = point.network, EXPANDER_RED_MARKING if point.dcqcn else NoMarking()
    chosen = scheme_of(name, PRIORITIES_OF[name], marking, tuple(HOSTS.items()))
    settings = RunSettings(LinkSettings(rate_bps=RATE_BPS), SHALLOW, seed=point.seed)
    with ExpanderFabric(network, chosen, settings, queue_pairs=len(pairs)) as fabric:
        fabric.connect_routed(pairs, lists_of(routes, pairs, rows))
        fabric.send(ENDLESS)
        stuck = fabric.deadlock()
        while not stuck and fabric.now_ps < point.us * US:
            fabric.run(fabric.now_ps + CHECK_PS)
            stuck = fabric.deadlock()
        found_ps, before = fabric.now_ps, int(fabric.column("st_rx_bytes").sum())
        fabric.run(found_ps + AFTER_PS)
        after = int(fabric.column("st_rx_bytes").sum()) - before
        still = set(fabric.deadlock())
        stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    return found(
        StuckResult,
        point,
        deadlock=bool(stuck),
        stuck_queues=len(stuck),
        remains=bool(stuck) and set(stuck) <= still,
        found_at_us=found_ps / US if stuck else None,
        goodput_gbps_before=round(before * 8e3 / found_ps, 1),
        goodput_gbps_after=round(after * 8e3 / AFTER_PS, 1),
        pauses=sum(s["pauses_sent"] for s in stats),
        drops=sum(s["headroom_drops"] + s["buffer_drops"] for s in stats),
        mean_hops=round(float(np.mean([routes.length[row] for row in rows])), 3),
    )
