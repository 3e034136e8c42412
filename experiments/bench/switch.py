# SPDX-License-Identifier: Apache-2.0
"""`detour bench switch`: packets a second through one switch with fabric.p4 and a Dragonfly switch's real tables.

In process: frames arrive at a port of a switch in virtual time and leave by others: parser, ingress, queue,
egress, deparser, link; no system calls. Over veth: `detour switch` and simple_switch_grpc as processes on the same
interfaces, programmed by the same client, fed by the same generator, one after the other:
a native packet generator (packet sockets and sendmmsg) raises the load until packets are lost and more brings no more.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int32s1, Int64s1
from detour.base.jit import allocating
from detour.base.memory import INT, LONG, libc
from detour.base.parts import Part
from detour.base.progress import Progress, silent
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.experiments.bench import inprocess, namespace, processes
from detour.experiments.bench.dragonfly import BenchFabric, through_switch
from detour.experiments.bench.namespace import received
from detour.experiments.bench.report import BenchReport, Goal, rate, ratio

GENERATOR = Part("generator", __name__)

_sendmmsg = libc("sendmmsg", INT, INT, LONG, INT, INT)
_clock_gettime = libc("clock_gettime", INT, INT, LONG)
_nanosleep = libc("nanosleep", INT, LONG, LONG)

_MONOTONIC = 1
_DONT_WAIT = 0x40
_BATCH = 32
_PAUSE_NS = 20_000
_MESSAGE_BYTES = 64  # struct mmsghdr, of which struct msghdr 56
_SOL_PACKET, _QDISC_BYPASS = 263, 20
_SEND_BUFFER = 8 << 20
_DRAIN_S = 0.3


class Sent(NamedTuple):
    """What a run of the generator did. `refused`: frames that the kernel did not take."""

    packets: int
    refused: int
    seconds: float


@allocating
def _now(spec):
    _clock_gettime(_MONOTONIC, spec.ctypes.data)
    return spec[0] * 1_000_000_000 + spec[1]


@GENERATOR.entry
def _generate(fds: Int32s1, base: int, per_port: int, rate: float, duration_ns: int, counts: Int64s1) -> None:
    """Sends the messages at `base` round robin over the sockets until the time is over. counts: packets, refused,
    nanoseconds."""
    spec = np.zeros(2, np.int64)
    pause = np.array([0, _PAUSE_NS], np.int64)
    cursor = np.zeros(len(fds), np.int64)
    port, offered = 0, 0
    begin = _now(spec)
    passed = 0
    while passed < duration_ns:
        due = int(passed * rate / 1e9) - offered
        if due <= 0:
            _nanosleep(pause.ctypes.data, 0)
            passed = _now(spec) - begin
            continue
        first = cursor[port]
        n = min(due, _BATCH, per_port - first)
        at = base + (port * per_port + first) * _MESSAGE_BYTES
        taken = max(0, _sendmmsg(fds[port], at, n, _DONT_WAIT))
        counts[0] += taken
        counts[1] += n - taken
        offered += n
        cursor[port] = (first + n) % per_port
        port = (port + 1) % len(fds)
        passed = _now(spec) - begin
    counts[2] = passed


class Generator:
    """Sends the same frames again and again into some interfaces; a context manager."""

    def __init__(self, frames: dict[str, Sequence[bytes]]) -> None:
        """`frames`: what goes into each interface; equally many for each."""
        self.per_port = len(next(iter(frames.values())))
        if any(len(several) != self.per_port for several in frames.values()):
            raise ValueError("every interface gets the same number of frames")
        self._sockets = [_open(name) for name in frames]
        self._bytes = [np.frombuffer(frame, np.uint8).copy() for several in frames.values() for frame in several]
        self._iovecs = np.array([(data.ctypes.data, len(data)) for data in self._bytes], np.uint64)
        self._messages = np.zeros((len(self._bytes), _MESSAGE_BYTES // 8), np.uint64)
        self._messages[:, 2] = [iovec.ctypes.data for iovec in self._iovecs]
        self._messages[:, 3] = 1

    def run(self, rate: float, seconds: float) -> Sent:
        """Sends `rate` packets a second in total, or as many as it can if that is more."""
        fds = np.array([sock.fileno() for sock in self._sockets], np.int32)
        counts = np.zeros(3, np.int64)
        _generate(fds, self._messages.ctypes.data, self.per_port, float(rate), int(seconds * 1e9), counts)
        return Sent(int(counts[0]), int(counts[1]), float(counts[2]) / 1e9)

    def close(self) -> None:
        """Closes the sockets."""
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Generator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(_SOL_PACKET, _QDISC_BYPASS, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    sock.bind((interface, 0))
    return sock


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
    """Offers a load for a while and counts what arrives in `sinks` meanwhile, and in the pause after it."""
    before = arrived(sinks)
    sent = generator.run(rate, seconds)
    meanwhile = arrived(sinks) - before
    time.sleep(_DRAIN_S)
    in_all = arrived(sinks) - before
    lost = 1 - in_all / sent.packets if sent.packets else 0.0
    return Rate(sent.packets / sent.seconds, meanwhile / sent.seconds, max(0.0, lost))


GROWTH = 1.25
"""From one offered load to the next."""
LOSS = 0.05
"""Share of lost packets from which on a switch counts as overloaded."""
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
            measured = offer(generator, sinks, load, seconds)
            rates = f"{measured.offered:,.0f}/s offered, {measured.delivered:,.0f}/s delivered"
            progress(f"{kind}: {len(frames[0])} bytes, {rates}")
            return measured

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
        kinds: tuple[processes.Kind, ...] = ("engine", "bmv2")
        if absent := processes.no_bmv2():
            notes.append(absent)
            kinds = ("engine",)
        veth = {kind: over_veth(kind, fabric, sizes, seconds, progress) for kind in kinds}
    measured = []
    for number, size in enumerate(sizes):
        progress(f"in process: {size} bytes")
        rates = {kind: some[number] for kind, some in veth.items()}
        measured.append(Size(size, in_process(fabric, size, seconds), rates.get("engine"), rates.get("bmv2")))
    return report(measured, notes)


def report(measured: list[Size], notes: list[str]) -> BenchReport:
    """The worst ratio over the sizes is *the* ratio."""
    inside = [ratio(size.engine_pps, size.bmv2_pps) for size in measured]
    veth = [ratio(size.engine_veth_pps, size.bmv2_pps) for size in measured]
    ratio_in_process, ratio_veth = _least(inside), _least(veth)
    ratios = {"ratio_in_process": ratio_in_process, "ratio_veth": ratio_veth}
    return BenchReport(
        name="switch",
        numbers={"sizes": [vars(size) for size in measured], **ratios},
        columns=("bytes", "engine in process, packets/s", "engine over veth", "BMv2 over veth", "ratios"),
        rows=tuple(
            (str(size.bytes), rate(size.engine_pps), rate(size.engine_veth_pps), rate(size.bmv2_pps), _ratios(a, b))
            for size, a, b in zip(measured, inside, veth, strict=True)
        ),
        goals=(
            Goal("in process: times BMv2's best rate,", ratio_in_process, IN_PROCESS_GOAL),
            Goal("over veth: times BMv2's best rate,", ratio_veth, VETH_GOAL),
        ),
        notes=tuple(notes),
    )


def _least(ratios: list[float | None]) -> float | None:
    return min((value for value in ratios if value is not None), default=None)


def _ratios(*values: float | None) -> str:
    return " / ".join("-" if value is None else f"{value:.1f}" for value in values)
