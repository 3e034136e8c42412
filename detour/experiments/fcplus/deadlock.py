# SPDX-License-Identifier: Apache-2.0
"""Experiment whether routes deadlock under PFC: every host sends continuously on random paths of its pairs.

Buffers are shallow and, unless a point says `dcqcn`, no congestion control holds the senders: PFC alone does, which is
when waits close to cycles. The same hosts send to the same ones under all routes. KSP in one lossless priority gets
stuck, FC+ with one and with two cannot (`detour/control/expander/proof.py` checks that without any packet).

Points that name links which are down (`fail`) send by lists that know nothing of it: switches lead packets around, and
those that would close a cyclic wait leave the lossless classes (`detour/control/routes/queueing.py`), or with `guard`
False stay in the last one. Then the senders hear of it, and routes are computed anew.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from detour.base.times import US
from detour.control.expander.routes import ExpanderRoutes, compute
from detour.control.policy import NoMarking
from detour.experiments.fcplus.packets import FCPLUS_MAX_HOPS, HOSTS, RATE_BPS
from detour.experiments.fcplus.results import PRIORITIES_OF, StuckPoint, answered, network_of, policy_of
from detour.experiments.running import AFTER_PS, received, run_until_stuck
from detour.fabric.backends.virtual.fabric import ENDLESS
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, SwitchMemory
from detour.fabric.traffic.expander import EXPANDER_RED_MARKING, ExpanderFabric, lists_anew, lists_of, scheme_of
from detour.topo.failures import parse_failure

SHALLOW = SwitchMemory(port_bytes=40_000)


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


def run(point: StuckPoint) -> StuckPoint:
    """Run until something is stuck for good, or the point's time is over; where links are down, on with routes that
    are computed anew."""
    network = network_of(point)
    routes = compute(network, policy_of(point, FCPLUS_MAX_HOPS))
    pairs, rows = draw(routes, point.each, point.seed)
    marking = EXPANDER_RED_MARKING if point.dcqcn else NoMarking()
    chosen = scheme_of(point.network, PRIORITIES_OF[point.network], marking, tuple(HOSTS.items()))
    if point.guard is False:
        chosen = replace(chosen, guarded=False)
    settings = RunSettings(LinkSettings(rate_bps=RATE_BPS), SHALLOW, seed=point.seed)
    with ExpanderFabric(network, chosen, settings, queue_pairs=len(pairs)) as fabric:
        lists = lists_of(routes, pairs, rows)
        fabric.connect_routed(pairs, lists)
        names = point.fail.split(",") if isinstance(point.fail, str) else []
        failures = frozenset(parse_failure(network.topology, name) for name in names)
        if failures:
            fabric.apply_failures(failures)
            fabric.replan(failures)
        fabric.send(ENDLESS)
        stuck = run_until_stuck(fabric, point.us * US)
        more: dict[str, Any] = {}
        if failures:
            fabric.lead(lists_anew(routes, pairs, rows, lists, failures))
            # In the last `AFTER_PS` of twice that time.
            fabric.run(fabric.now_ps + AFTER_PS)
            before = received(fabric)
            fabric.run(fabric.now_ps + AFTER_PS)
            anew = round((received(fabric) - before) * 8e3 / AFTER_PS, 1)
            more = {"circle": list(stuck.circle), "goodput_gbps_anew": anew}
        stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    return answered(
        point,
        deadlock=bool(stuck.queues),
        stuck_queues=len(stuck.queues),
        remains=stuck.remains,
        found_at_us=stuck.found_at_us,
        goodput_gbps_before=round(stuck.goodput_gbps_before, 1),
        goodput_gbps_after=round(stuck.goodput_gbps_after, 1),
        pauses=sum(s["pauses_sent"] for s in stats),
        drops=sum(s["headroom_drops"] + s["buffer_drops"] for s in stats),
        mean_hops=round(float(np.mean([routes.length[row] for row in rows])), 3),
        **more,
    )
