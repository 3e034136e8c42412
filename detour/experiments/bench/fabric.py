# SPDX-License-Identifier: Apache-2.0
"""`detour bench fabric`: packet-hops a second of a whole D1 Dragonfly in real time, beside 36 BMv2 processes.

Both run the same thing: partner hosts, half the network apart, are replaced by a cable between their ports, so a
packet that arrives sets out again until its 254 hops are used up. All work is thus the switches': there are no hosts
and no generator that takes part. Packets that have ended are replaced. A load is a number of packets in flight; it
is raised until more of them bring no more hops. One hop is one packet through one switch.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from detour.base.progress import Progress, silent
from detour.engine.clock import RealTime
from detour.engine.network import Network
from detour.experiments.bench import namespace, processes
from detour.experiments.bench.dragonfly import BenchFabric, between, partners
from detour.experiments.bench.report import BenchReport, Goal, rate, ratio
from detour.topo.topology import Host

GOAL = 30.0
FRAME_BYTES = 512
_DELAY_PS = 1_000_000_000
_MAX_LAG_PS = 100_000_000_000
_ENGINE_LOADS = (500, 1000, 2000, 3000, 4000, 6000, 8000)
_BMV2_LOADS = (36, 72, 144, 288, 576, 1152)
_WINDOW = 0.25
_LIFE = 254


@dataclass(frozen=True)
class LoadPoint:
    """Packets in flight, hops a second (the best window of some), and how far loop time was behind the clock."""

    packets: int
    hops: float
    lag_ms: float = 0.0


def _windows(hops: Callable[[], int], refill: Callable[[], None], seconds: float) -> float:
    """Hops a second: the median of the better half of short windows, so that a neighbour's burst does not count."""
    rates = []
    count, at = hops(), time.perf_counter()
    end = at + seconds
    while at < end:
        time.sleep(_WINDOW)
        refill()
        now, total = time.perf_counter(), hops()
        rates.append((total - count) / (now - at))
        count, at = total, now
    return statistics.median(sorted(rates)[len(rates) // 2 :])


# -- the engine --------------------------------------------------------------------------------------------


def engine(fabric: BenchFabric, seconds: float, progress: Progress) -> list[LoadPoint]:
    """Loads that the engine keeps up with in real time, the last one perhaps not."""
    loads: list[LoadPoint] = []
    for packets in _ENGINE_LOADS:
        with fabric.network(RealTime(), _DELAY_PS, 1 << 15) as network:
            network.start()
            loads.append(_engine_load(fabric, network, packets, seconds))
        progress(f"engine: {packets} packets in flight, {loads[-1].hops:,.0f} hops/s, {loads[-1].lag_ms:.1f} ms behind")
        if len(loads) > 1 and loads[-1].hops < loads[-2].hops:
            break
    return loads


def _engine_load(fabric: BenchFabric, network: Network, packets: int, seconds: float) -> LoadPoint:
    frames = between(partners(fabric.topology), FRAME_BYTES, packets)
    sent = 0

    def refill() -> None:
        nonlocal sent
        missing = packets - network.loop_stats()["used"]
        chosen = [frames[(sent + number) % packets] for number in range(missing)]
        sent += len(chosen)

        def put() -> None:
            for host, frame in chosen:
                network.inject(fabric.end(host.switch, host.port), frame)

        network.call(put)

    refill()
    time.sleep(_WINDOW)
    hops = _windows(lambda: int(network.switch_stats()["packets"].sum()), refill, seconds)
    return LoadPoint(packets, hops, network.lag_ps / 1e9)


# -- BMv2 --------------------------------------------------------------------------------------------------


def _interface(switch: int, port: int) -> str:
    return f"s{switch}p{port}"


def bmv2(fabric: BenchFabric, seconds: float, progress: Progress) -> list[LoadPoint]:
    """The same with a process a switch, over veth pairs in a namespace of our own."""
    topology = fabric.topology
    far = {one.index: other for one, other in partners(topology)}
    far |= {other.index: one for one, other in partners(topology)}
    cables = [(_interface(*link.a), _interface(*link.b)) for link in topology.links if link.kind != "host"]
    cables += [(_interface(a.switch, a.port), _interface(b.switch, b.port)) for a, b in partners(topology)]
    namespace.add_pairs(cables)
    ports = {
        switch.device_id: {port: _interface(switch.index, port) for port in range(1, len(switch.ports) + 1)}
        for switch in topology.switches
    }
    loads: list[LoadPoint] = []
    with processes.Switches("bmv2", ports) as switches:
        switches.provision(fabric.plan)
        for packets in _BMV2_LOADS:
            loads.append(_bmv2_load(fabric, far, packets, seconds))
            progress(f"BMv2: {packets} packets in flight, {loads[-1].hops:,.0f} hops/s")
            if len(loads) > 2 and loads[-1].hops < loads[-3].hops and loads[-1].hops < loads[-2].hops:
                break
    return loads


def _hops() -> int:
    """Frames that came into any interface: each is one packet at one switch."""
    return sum(count for name, count in namespace.received().items() if name != "lo")


def _bmv2_load(fabric: BenchFabric, far: dict[int, Host], packets: int, seconds: float) -> LoadPoint:
    frames = between(partners(fabric.topology), FRAME_BYTES, packets)
    begin, sent = _hops(), 0

    def refill() -> None:
        nonlocal sent
        done = (_hops() - begin) // _LIFE
        missing = min(packets, packets + done - sent)
        for host, frame in (frames[(sent + number) % packets] for number in range(missing)):
            _send(far[host.index], frame)
        sent += max(0, missing)

    refill()
    time.sleep(_WINDOW)
    hops = _windows(_hops, refill, seconds)
    # Waits until no packet is left.
    count = -1
    while count != (count := _hops()):
        time.sleep(_WINDOW)
    return LoadPoint(packets, hops)


def _send(host: Host, frame: bytes) -> None:
    """Out of a host's interface, so that it arrives at the one cabled to it; taps do not see it."""
    sol_packet, qdisc_bypass = 263, 20
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.setsockopt(sol_packet, qdisc_bypass, 1)
        sock.bind((_interface(host.switch, host.port), 0))
        sock.send(frame)


# -- together ----------------------------------------------------------------------------------------------


def run(seconds: float = 3.0, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: how long each load runs."""
    fabric = BenchFabric()
    absent = processes.no_bmv2()
    if not absent and (why := namespace.unavailable()):
        absent = f"not compared with BMv2: {why}"
    other: list[LoadPoint] = []
    if not absent:
        namespace.enter()
        other = bmv2(fabric, seconds, progress)
    return report(engine(fabric, seconds, progress), other, [absent] if absent else [])


def report(own: list[LoadPoint], other: list[LoadPoint], notes: list[str]) -> BenchReport:
    """The engine's best load is one that it keeps up with."""
    kept = [load for load in own if load.lag_ms * 1e9 <= _MAX_LAG_PS] or own[:1]
    best = max(load.hops for load in kept)
    best_bmv2 = max((load.hops for load in other), default=None)
    times_bmv2 = ratio(best, best_bmv2)
    rows = [("engine", str(load.packets), rate(load.hops), f"{load.lag_ms:.1f}") for load in own]
    rows += [("BMv2", str(load.packets), rate(load.hops), "-") for load in other]
    return BenchReport(
        name="fabric",
        numbers={"engine_hops_per_s": best, "bmv2_hops_per_s": best_bmv2, "ratio": times_bmv2},
        columns=("36 switches", "packets in flight", "packet-hops/s", "ms behind the clock"),
        rows=tuple(rows),
        goals=(Goal("times BMv2's packet-hops/s,", times_bmv2, GOAL),),
        notes=tuple(notes),
    )
