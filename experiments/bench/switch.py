# SPDX-License-Identifier: Apache-2.0
"""`detour bench switch`: packets a second through one switch with fabric.p4 and a Dragonfly switch's real tables.

In process: frames arrive at a port of a switch in virtual time and leave by others: parser, ingress, queue,
egress, deparser, link; no system calls. Over veth: `detour switch` and simple_switch_grpc as processes on the same
interfaces, programmed by the same client, fed by the same generator, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detour.base.progress import Progress, silent
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.experiments.bench import inprocess, namespace, processes
from detour.experiments.bench.dragonfly import BenchFabric
from detour.experiments.bench.frames import through_switch
from detour.experiments.bench.report import BenchReport, Goal, rate, ratio
from detour.experiments.bench.traffic import Generator, Rate, best, best_rate, offer

SIZES = (64, 512, 1500)
IN_PROCESS_GOAL, VETH_GOAL = 20.0, 3.0
_FIRST_RATE = 20_000.0
_WARM_UP = 0.3


@dataclass(frozen=True)
class Size:
    """Best rates at one packet size, in packets a second; None: not measured."""

    bytes: int
    engine_pps: float
    engine_veth_pps: float | None
    bmv2_pps: float | None


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
    kind: processes.Kind, fabric: BenchFabric, sizes: Sequence[int], seconds: float, progress: Progress
) -> list[float]:
    """Best rates of a switch process on veth pairs, one for each size. In a namespace of our own."""
    switch = fabric.topology.switches[0]
    numbers = range(1, len(switch.ports) + 1)
    namespace.add_pairs([(f"s{port}", f"t{port}") for port in numbers])
    sinks = [f"t{port}" for port in numbers]
    try:
        ports = {switch.device_id: {port: f"s{port}" for port in numbers}}
        with processes.Switches(kind, ports) as switches:
            switches.provision({switch.device_id: fabric.plan[switch.device_id]})
            return [_best(kind, sinks, through_switch(fabric.topology, size), seconds, progress) for size in sizes]
    finally:
        namespace.remove([f"s{port}" for port in numbers])


def _best(kind: processes.Kind, sinks: list[str], frames: list[bytes], seconds: float, progress: Progress) -> float:
    with Generator({"t1": frames}) as generator:

        def measure(load: float) -> Rate:
            found = offer(generator, sinks, load, seconds)
            rates = f"{found.offered:,.0f}/s offered, {found.delivered:,.0f}/s delivered"
            progress(f"{kind}: {len(frames[0])} bytes, {rates}")
            return found

        offer(generator, sinks, 1000.0, _WARM_UP)
        return best(best_rate(measure, _FIRST_RATE))


def run(sizes: Sequence[int] = SIZES, seconds: float = 1.0, progress: Progress = silent) -> BenchReport:
    """Measures. `seconds`: how long each load is offered."""
    fabric = BenchFabric()
    notes: list[str] = []
    veth: dict[str, list[float]] = {}
    if why := namespace.unavailable():
        notes.append(f"not measured over veth: {why}")
    else:
        namespace.enter()
        kinds: list[processes.Kind] = ["engine"]
        if processes.installed():
            kinds.append("bmv2")
        else:
            notes.append(f"not compared with BMv2: {processes.BMV2_COMMAND} is not on PATH")
        for kind in kinds:
            veth[kind] = over_veth(kind, fabric, sizes, seconds, progress)
    found = []
    for number, size in enumerate(sizes):
        progress(f"in process: {size} bytes")
        rates = {kind: some[number] for kind, some in veth.items()}
        found.append(Size(size, in_process(fabric, size, seconds), rates.get("engine"), rates.get("bmv2")))
    return report(found, notes)


def report(found: list[Size], notes: list[str]) -> BenchReport:
    """The worst ratio over the sizes is *the* ratio."""
    inside = [ratio(size.engine_pps, size.bmv2_pps) for size in found]
    veth = [ratio(size.engine_veth_pps, size.bmv2_pps) for size in found]
    ratio_in_process, ratio_veth = _least(inside), _least(veth)
    return BenchReport(
        name="switch",
        numbers={
            "sizes": [vars(size) for size in found],
            "ratio_in_process": ratio_in_process,
            "ratio_veth": ratio_veth,
        },
        columns=("bytes", "engine in process, packets/s", "engine over veth", "BMv2 over veth", "ratios"),
        rows=tuple(
            (str(size.bytes), rate(size.engine_pps), rate(size.engine_veth_pps), rate(size.bmv2_pps), _ratios(a, b))
            for size, a, b in zip(found, inside, veth, strict=True)
        ),
        goals=(
            Goal("in process: times BMv2's best rate,", ratio_in_process, IN_PROCESS_GOAL),
            Goal("over veth: times BMv2's best rate,", ratio_veth, VETH_GOAL),
        ),
        notes=tuple(notes),
    )


def _least(ratios: list[float | None]) -> float | None:
    known = [value for value in ratios if value is not None]
    return min(known) if known else None


def _ratios(*values: float | None) -> str:
    return " / ".join("-" if value is None else f"{value:.1f}" for value in values)
