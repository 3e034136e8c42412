# SPDX-License-Identifier: Apache-2.0
"""`detour bench switch`: packets a second through one switch with fabric.p4 and a Dragonfly switch's real tables.

In process: frames arrive at a port of a switch in virtual time and leave by others: parser, ingress, queue,
egress, deparser, link; no system calls. Over veth: a plain forwarder, `detour switch` and simple_switch_grpc on the
same interfaces, by turns and several times at each size, for the neighbours of a machine come and go; the best of each
counts. The switches are processes, programmed by the same client. The same generator raises the load until packets are
lost and more brings no more, then looks for the highest without loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from detour.base.progress import Progress, silent
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.experiments.bench import inprocess, namespace, processes
from detour.experiments.bench.dragonfly import BenchFabric, through_switch
from detour.experiments.bench.generator import Forwarder, Generator, latency_us, other_cores
from detour.experiments.bench.namespace import received
from detour.experiments.bench.report import BenchReport, Goal, rate, ratio

_DRAIN_S = 0.3


@dataclass(frozen=True)
class Rate:
    """One offered load and what became of it, in packets a second."""

    offered: float
    delivered: float
    lost: float
    """share of the packets that never came"""


def arrived(sinks: Sequence[str]) -> int:
    """Packets that have arrived in interfaces by the kernel's own count: a sink that costs nothing."""
    counts = received()
    return sum(counts[name] for name in sinks)


def offer(generator: Generator, sinks: Sequence[str], rate: float, seconds: float) -> Rate:
    """Offer a load for a while and count what arrives in `sinks` meanwhile, and in the pause after it."""
    before = arrived(sinks)
    sent = generator.run(rate, seconds)
    meanwhile = arrived(sinks) - before
    time.sleep(min(_DRAIN_S, seconds))
    in_all = arrived(sinks) - before
    lost = 1 - in_all / sent.packets if sent.packets else 0.0
    return Rate(sent.packets / sent.seconds, meanwhile / sent.seconds, max(0.0, lost))


GROWTH = 1.25
"""From one offered load to the next."""
LOSS, LOSSLESS = 0.05, 1e-4
"""Shares of lost packets: from which on a switch counts as overloaded, and up to which a load was without loss."""
_STEPS, _TRIES = 3, 3
_APART = 1.05
"""Loads that differ by less are one."""
_PATIENCE = 3
_AGAIN = 3


def best_rate(offer: Callable[[float], Rate], first: float, most: float = 20e6) -> list[Rate]:
    """All loads that were offered, rising from `first`.

    The end: some loads in a row lost packets and none of them delivered more than the best one before, or the
    generator cannot offer more, however often it tries. A switch's best rate is the highest *delivered* one, lost
    packets or not: the reading that favours the switch.
    """
    rates: list[Rate] = []
    top, idle, short = 0.0, 0, 0
    rate = first
    while rate <= most and idle < _PATIENCE and short < _PATIENCE:
        measured = offer(rate)
        rates.append(measured)
        if measured.offered < rate / GROWTH:
            short += 1
            top = max(top, measured.delivered)
            continue
        short = 0
        idle = idle + 1 if measured.lost > LOSS and measured.delivered <= top else 0
        top = max(top, measured.delivered)
        rate *= GROWTH
    # The best load again, for whatever else the machine did meanwhile.
    favourite = max(rates, key=lambda measured: measured.delivered).offered
    return rates + [offer(favourite) for _ in range(_AGAIN)]


def best(rates: list[Rate]) -> float:
    """The highest delivered rate in packets a second."""
    return max(rate.delivered for rate in rates)


def lossless(rates: list[Rate]) -> float:
    """The highest rate that was delivered without loss."""
    return max((rate.delivered for rate in rates if rate.lost <= LOSSLESS), default=0.0)


def narrow(offer: Callable[[float], Rate], rates: list[Rate]) -> None:
    """Look for the highest load without loss: first upwards through the loads that lost packets, then between the
    highest without loss and the next one. A load that is lost is offered again, for whatever else the machine did
    meanwhile."""

    def passes(load: float) -> bool:
        for _ in range(_TRIES):
            rates.append(offer(load))
            if rates[-1].lost <= LOSSLESS:
                return True
        return False

    good = max((rate.offered for rate in rates if rate.lost <= LOSSLESS), default=0.0)
    if good == 0:
        return
    bad = good
    for load in sorted(each.offered for each in rates):
        if load > good * _APART:
            bad = load
            if not passes(load):
                break
            good = load
    for _ in range(_STEPS if bad > good else 0):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if passes(middle) else (good, middle)


SIZES = (64, 512, 1500)
IN_PROCESS_GOAL, VETH_GOAL, FORWARDER_GOAL = 20.0, 20.0, 0.8
_FIRST_RATE = {"engine": 40_000.0, "bmv2": 4_000.0, "forwarder": 80_000.0}
_WARM_UP = 0.3
_SAMPLES = 500

_TURNS = 2

_Kind = processes.Kind | Literal["forwarder"]


@dataclass(frozen=True)
class OverVeth:
    """Measurements at one packet size: the best rate and the best without loss, packets a second, and the median
    latency at low load."""

    best: float = 0.0
    lossless: float = 0.0
    latency_us: float = math.inf

    def or_better(self, other: OverVeth) -> OverVeth:
        """The better of each figure."""
        latency = min(self.latency_us, other.latency_us)
        return OverVeth(max(self.best, other.best), max(self.lossless, other.lossless), latency)


@dataclass(frozen=True)
class Size:
    """Best rates at one packet size, in packets a second; None: not measured. `lossless`: only loads without loss."""

    bytes: int
    engine_pps: float
    engine_veth_pps: float | None
    bmv2_pps: float | None
    engine_lossless_pps: float | None = None
    forwarder_lossless_pps: float | None = None
    engine_latency_us: float | None = None
    bmv2_latency_us: float | None = None
    forwarder_latency_us: float | None = None


def in_process(fabric: BenchFabric, size: int, seconds: float) -> float:
    """Packets a second of one core."""
    switch = fabric.topology.switches[0]
    frames = through_switch(fabric.topology, size, inprocess.INJECT_BATCH)
    with Network(Virtual(), packets=8 * inprocess.INJECT_BATCH) as network:
        fabric.add_switches(network, [switch])
        network.add_switch(inprocess.NOWHERE)
        for port in range(1, len(switch.ports) + 1):
            network.connect((switch.device_id, port), (inprocess.NOWHERE, port))
        return inprocess.packets_per_second(network, (switch.device_id, 1), lambda: frames, seconds)


def over_veth(
    kind: _Kind, fabric: BenchFabric, size: int, seconds: float, progress: Progress, known: OverVeth
) -> OverVeth:
    """Measure a switch process, or the forwarder, on veth pairs, in a namespace of our own. Loads begin at half of the
    `known` best rate."""
    switch = fabric.topology.switches[0]
    numbers = range(1, len(switch.ports) + 1)
    namespace.add_pairs([(f"s{port}", f"t{port}") for port in numbers])
    sinks = [f"t{port}" for port in numbers]
    frames = through_switch(fabric.topology, size)
    with ExitStack() as parts:
        parts.callback(namespace.remove, [f"s{port}" for port in numbers])
        if kind == "forwarder":
            parts.enter_context(Forwarder("s1", "s2"))
        else:
            # BMv2's threads have all cores.
            ports = {switch.device_id: {port: f"s{port}" for port in numbers}}
            cores = frozenset[int]() if kind == "bmv2" else other_cores()
            switches = parts.enter_context(processes.Switches(kind, ports, cores))
            switches.provision({switch.device_id: fabric.plan[switch.device_id]})
        generator = parts.enter_context(Generator({"t1": frames}))

        def measure(load: float) -> Rate:
            measured = offer(generator, sinks, load, seconds)
            rates = f"{measured.offered:,.0f}/s offered, {measured.delivered:,.0f}/s delivered"
            progress(f"{kind}: {size} bytes, {rates}")
            return measured

        offer(generator, sinks, 1000.0, _WARM_UP)
        latency = latency_us(frames[0], "t1", frozenset(sinks), _SAMPLES)
        rates = best_rate(measure, max(_FIRST_RATE[kind], known.best / 2))
        narrow(measure, rates)
        return OverVeth(best(rates), lossless(rates), latency)


def run(sizes: Sequence[int] = SIZES, seconds: float = 0.15, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: how long each load is offered."""
    fabric = BenchFabric()
    notes: list[str] = []
    kinds: list[_Kind] = []
    if why := namespace.unavailable():
        notes.append(f"not measured over veth: {why}")
    else:
        namespace.enter()
        kinds = ["forwarder", "engine", "bmv2"]
        if absent := processes.no_bmv2():
            notes.append(absent)
            kinds.remove("bmv2")
    measured = []
    for size in sizes:
        progress(f"in process: {size} bytes")
        inside = in_process(fabric, size, seconds)
        veth = dict.fromkeys(kinds, OverVeth())
        for kind in kinds * _TURNS:
            veth[kind] = veth[kind].or_better(over_veth(kind, fabric, size, seconds, progress, veth[kind]))
        if limited := " and ".join(kind for kind, rates in veth.items() if rates.best == rates.lossless):
            notes.append(f"{size} bytes: {limited} lost nothing of what the generator can send")
        measured.append(_size(size, inside, veth))
    return report(measured, notes)


def _size(size: int, inside: float, veth: dict[_Kind, OverVeth]) -> Size:
    engine, bmv2, forwarder = veth.get("engine"), veth.get("bmv2"), veth.get("forwarder")
    rates = (engine and engine.best, bmv2 and bmv2.best, engine and engine.lossless, forwarder and forwarder.lossless)
    return Size(size, inside, *rates, *(kind and kind.latency_us for kind in (engine, bmv2, forwarder)))


def report(measured: list[Size], notes: list[str]) -> BenchReport:
    """The worst ratio over the sizes is *the* ratio."""
    inside = [ratio(size.engine_pps, size.bmv2_pps) for size in measured]
    veth = [ratio(size.engine_veth_pps, size.bmv2_pps) for size in measured]
    without_loss = [ratio(size.engine_lossless_pps, size.bmv2_pps) for size in measured]
    of_forwarder = [ratio(size.engine_lossless_pps, size.forwarder_lossless_pps) for size in measured]
    latency = [ratio(size.bmv2_latency_us, size.engine_latency_us) for size in measured]
    ratios = {
        "ratio_in_process": _least(inside),
        "ratio_veth": _least(veth),
        "ratio_lossless": _least(without_loss),
        "ratio_forwarder": _least(of_forwarder),
        "ratio_latency": _least(latency),
    }
    return BenchReport(
        name="switch",
        numbers={"sizes": [vars(size) for size in measured], **ratios},
        columns=(
            "bytes", "engine in process, packets/s", "over veth", "forwarder", "BMv2", "ratios",
            "us: engine/forwarder/BMv2",
        ),
        rows=tuple(
            (
                str(size.bytes), rate(size.engine_pps), rate(size.engine_lossless_pps),
                rate(size.forwarder_lossless_pps), rate(size.bmv2_pps), _joined(*ratios),
                _joined(size.engine_latency_us, size.forwarder_latency_us, size.bmv2_latency_us),
            )
            for size, *ratios in zip(measured, inside, without_loss, strict=True)
        ),
        goals=(
            Goal("in process: times BMv2's best rate,", ratios["ratio_in_process"], IN_PROCESS_GOAL),
            Goal("over veth, without loss: times BMv2's best rate,", ratios["ratio_lossless"], VETH_GOAL),
            Goal("of a plain forwarder's rate, both without loss,", ratios["ratio_forwarder"], FORWARDER_GOAL),
            Goal("median latency at low load: times lower than BMv2's,", ratios["ratio_latency"], 1.0),
        ),
        notes=tuple(notes),
    )  # fmt: skip


def _least(ratios: list[float | None]) -> float | None:
    return min((value for value in ratios if value is not None), default=None)


def _joined(*values: float | None) -> str:
    return "/".join("-" if value is None else f"{value:.1f}" for value in values)
