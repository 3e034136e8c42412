# SPDX-License-Identifier: Apache-2.0
"""One run: a fabric, connections, and everything that is counted while they send. What sweeps do for each point.

A result holds nothing of the machine that computed it (no wall-clock time), so equal points have equal results.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.times import US
from detour.control import schema
from detour.experiments.measure import Rule, Series, Steady, jain, settle
from detour.fabric.footings.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.footings.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory
from detour.topo import Topology
from detour.topo.topology import HostPair

START_SPREAD_PS = 20 * US
"""connections start at random within this time"""
_STARTS = 20
_WINDOWS = ((0, 1024), (4_000, 512), (12_000, 256), (24_000, 128))
"""from so many connections on, packets that each may have under way; many share a host's link"""
FCT_POLL_PS = 20 * US
FCT_MOST_PS = 1_000_000 * US


def window(connections: int) -> int:
    """Packets that a connection may have under way, where there are so many."""
    return next(packets for least, packets in reversed(_WINDOWS) if connections >= least)


def settings(
    connections: int,
    seed: int,
    links: LinkSettings | None = None,
    memory: SwitchMemory | None = None,
    loss: float = 0.0,
) -> RunSettings:
    """Sizes that fit a number of connections."""
    return RunSettings(
        links or LinkSettings(), memory or SwitchMemory(), window=window(connections), loss=loss, seed=seed
    )


def open_fabric(topology: Topology, scheme: Scheme, pairs: Sequence[HostPair], chosen: RunSettings) -> VirtualFabric:
    """A fabric with a connection for every pair, none of which sends yet."""
    fabric = VirtualFabric(topology, scheme, chosen, queue_pairs=len(pairs))
    try:
        fabric.connect(pairs)
    except BaseException:
        fabric.close()
        raise
    return fabric


def start(fabric: VirtualFabric, length: int, spread_ps: int = START_SPREAD_PS) -> None:
    """Lets every connection send `length` bytes from a random time within `spread_ps` on."""
    order = np.arange(fabric.count)
    random.Random(f"starts {fabric.settings.seed}").shuffle(order)  # type: ignore[arg-type]
    begin, steps = fabric.now_ps, min(_STARTS, fabric.count) if spread_ps else 1
    for step, chosen in enumerate(np.array_split(order, steps)):
        fabric.run(begin + step * spread_ps // steps)
        fabric.send(length, np.sort(chosen))


def steady_state(
    topology: Topology, scheme: Scheme, pairs: Sequence[HostPair], chosen: RunSettings, rule: Rule
) -> dict[str, Any]:
    """Connections that send without end: throughput after convergence, and what was counted on the way."""
    with open_fabric(topology, scheme, pairs, chosen) as fabric:
        start(fabric, ENDLESS)
        steady = settle(fabric, rule)
        return _throughput(steady) | counters(fabric)


def _throughput(steady: Steady) -> dict[str, Any]:
    return {
        "wire_gbps": round(steady.wire_gbps, 3),
        "goodput_gbps": round(steady.goodput_gbps, 3),
        "converged": steady.converged,
        "deadlock": bool(steady.deadlock),
        "deadlocked_queues": [list(queue) for queue in steady.deadlock],
        "virtual_ms": round(steady.seconds * 1e3, 3),
        "fairness": round(jain(steady.per_connection_gbps), 4),
        "series": _series(steady.series),
    }


def _series(series: Series) -> dict[str, Any]:
    return {
        "interval_us": series.interval_us,
        "wire_gbps": [round(value, 1) for value in series.wire_gbps],
        "goodput_gbps": [round(value, 1) for value in series.goodput_gbps],
    }


def completion_times(
    topology: Topology, scheme: Scheme, pairs: Sequence[HostPair], chosen: RunSettings, message_bytes: int
) -> dict[str, Any]:
    """Every connection sends one message: how long each takes. The rates are over the time of the last one.

    `unfinished` counts connections that were not done after `FCT_MOST_PS`, or when the fabric was deadlocked.
    """
    with open_fabric(topology, scheme, pairs, chosen) as fabric:
        start(fabric, message_bytes)
        stuck: list[tuple[int, int, int]] = []
        while not stuck and fabric.unfinished() and fabric.now_ps < FCT_MOST_PS:
            fabric.run(fabric.now_ps + FCT_POLL_PS)
            stuck = fabric.deadlock()
        times = np.sort(fabric.completion_times_ps()) / US
        last = max(fabric.last_done_ps, 1)
        payload = len(times) * message_bytes
        wire = -(-message_bytes // PAYLOAD) * (PACKET_BYTES - PAYLOAD) * len(times) + payload
        percentiles = {f"p{p}": round(float(np.percentile(times, p)), 3) for p in (50, 90, 99)} if len(times) else {}
        return {
            "wire_gbps": round(wire * 8e3 / last, 3),
            "goodput_gbps": round(payload * 8e3 / last, 3),
            "message_bytes": message_bytes,
            "fct_us": {"mean": round(float(times.mean()), 3), **percentiles, "max": round(float(times[-1]), 3)}
            if len(times)
            else None,
            "unfinished": fabric.unfinished(),
            "deadlock": bool(stuck),
            "deadlocked_queues": [list(queue) for queue in stuck],
            "virtual_ms": round(fabric.now_ps / 1e9, 3),
        } | counters(fabric)


def counters(fabric: VirtualFabric) -> dict[str, Any]:
    """Sums over the whole run."""
    ports = fabric.network.port_stats()
    stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    sent = int(fabric.column("st_packets").sum())
    result: dict[str, Any] = {
        "packets": sent,
        "retransmitted": int(fabric.column("st_retransmitted").sum()),
        "timeouts": int(fabric.column("st_rtos").sum()),
        "marked": int(fabric.column("st_rx_ecn_marked").sum()),
        "reroutes": int(fabric.column("st_reroutes").sum()),
        "probes": int(fabric.column("st_ptms").sum()),
        "drops": int(ports["queue_drops"].sum()) + sum(s["headroom_drops"] for s in stats),
        "pauses": sum(s["pauses_sent"] for s in stats),
        "paused_ms": round(sum(s["paused_ps"] for s in stats) / 1e9, 3),
        "buffer_peak_bytes": max(s["buffer_peak"] for s in stats),
        "queue_peak_bytes": int(ports["queue_peak_bytes"].max()),
        "min_share": _min_share(fabric, sent),
        "packet_hops": int(fabric.network.switch_stats()["packets"].sum()),
    }
    return result


def _min_share(fabric: VirtualFabric, sent: int) -> float | None:
    """Share of the data packets that took a shortest path, by the senders' choice; where switches choose, of all
    packets that they decided upon, ACKs and probes included."""
    if fabric.scheme.routing == "adaptive":
        decisions = [state.counters[schema.DECISIONS] for state in fabric.states.values()]
        shortest, detours = (sum(int(c.read(index)[0]) for c in decisions) for index in (0, 1))
    elif fabric.scheme.routing == "minimal" or not fabric.topology.valiant_groups:
        return 1.0 if sent else None
    else:
        shortest, detours = fabric.packets_by_path()
    return round(shortest / (shortest + detours), 4) if shortest + detours else None
