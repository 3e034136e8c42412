# SPDX-License-Identifier: Apache-2.0
"""`detour reproduce queues`: the traffic manager beside what theory says it must do.

Points: waits of one queue (M/D/1, M/M/1) at several loads; waits of three classes in strict priority; shares of three
queues in deficit round robin; what strict priority leaves when more is offered than the line takes, with the rates of
p4sim's example of priority queues; queues with rates of their own. Everything is measured by the P4 program of the
switch from its own metadata (`QueueBench`).

Theory: L. Kleinrock, Queueing Systems, volume 1 (Wiley 1975): Pollaczek and Khinchine's formula, section 5.6;
priorities without preemption (A. Cobham 1954) in volume 2, section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.tables import Table
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.experiments.columns import row, shown, table, taken
from detour.fabric.backends.virtual.fabric import program

LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
GOAL = 0.01
"""relative error that a row may have"""

_PACKETS = {"quick": 1_000_000, "normal": 8_000_000, "full": 32_000_000}
_PACKETS_A_SECOND = 700_000
_STEADY_SPARE = 0.2
"""up to a load of 0.8 the packets of an extent are enough"""
_FIXED_BYTES = 1_000
_MEAN_BYTES = 100_000
"""of exponential sizes: so long that whole bytes make no difference, and hardly one is shorter than its header"""
_SHORTEST = 64
_LONGEST = 1_500
_PIECE = 1 << 18
_PS = 10**12

_QUEUES = 8
LINE_BPS = 8_000_000_000
PS_OF_A_BYTE = 8 * 10**12 // LINE_BPS
_TICK_PS = 1_000
_HEADER = 14
_POOL = 1 << 17  # that may be there at once
ENDLESS_QUEUE = 1 << 40
_BATCH = 4096
_PORT = (1, 2)


@dataclass(frozen=True, kw_only=True)
class QueuePoint:
    """One run. `kind`: see `_RUNS`; `load`: offered, as a fraction of the line (waits only)."""

    kind: str
    load: float = 0.0
    packets: int
    seed: int = 1
    experiment: str = "queues"


_KINDS = {
    "md1": "M/D/1",
    "mm1": "M/M/1",
    "priority": "strict priority, waits",
    "drr": "deficit round robin",
    "strict": "strict priority, overload",
    "rates": "rates of queues",
}


@row
class QueueRow:
    """One number beside theory. `queue`: number of the queue, the highest goes first; `error`: relative."""

    kind: str = shown("of", _KINDS.__getitem__)
    what: str = shown("what")
    load: float = shown("load", lambda load: f"{load:g}" if load else None)
    queue: int = shown("queue", means="the highest number goes first")
    measured: float = shown("measured", ",.4g")
    theory: float = shown("theory", ",.4g")
    unit: str = shown("unit")
    error: float = shown("error", lambda error: f"{100 * error:.2f} %", means=f"goal: at most {100 * GOAL:g} %")
    packets: int


@dataclass(frozen=True)
class QueueRun:
    """The result of a point."""

    rows: Sequence[QueueRow]


@dataclass(frozen=True)
class QueueFindings(QueueRun):
    """All rows, the largest error among them, and whether it is below the goal of 1 %."""

    largest_error: float
    within: bool


def select(extent: str = "normal", load: Sequence[float] = LOADS, seed: int = 1) -> list[QueuePoint]:
    """The points. Raises `DetourError`: a load at which a queue grows without end, or none at all."""
    packets, enough = _PACKETS[extent], {}
    for r in load:
        if not 0 < r < 1:
            raise DetourError(f"a load of {r:g}; expected a number above 0 and below 1")
        # Long queues change slowly: the variance of a mean wait grows with 1 / (1 - r)^2 (of M/M/1, relative to its
        # square, (2 + 5 r - 4 r^2 + r^3) / (r (1 - r)^2 n) for n packets at load r).
        enough[r] = round(packets * max(1.0, (_STEADY_SPARE / (1 - r)) ** 2))
    waits = [QueuePoint(kind=kind, load=r, packets=enough[r], seed=seed) for kind in ("md1", "mm1") for r in load]
    others = [QueuePoint(kind="priority", load=0.8, packets=packets, seed=seed)]
    few = min(packets, 1_000_000)
    return [*waits, *others, *(QueuePoint(kind=kind, packets=few, seed=seed) for kind in ("drr", "strict", "rates"))]


def seconds(point: QueuePoint) -> float:
    return 2.0 + point.packets / _PACKETS_A_SECOND


def run(point: QueuePoint) -> QueueRun:
    return QueueRun(_RUNS[point.kind](point))


def collect(results: Sequence[QueueRun]) -> QueueFindings:
    """The rows, in the order of the points."""
    rows = [row for result in results for row in result.rows]
    largest = max((row.error for row in rows), default=0.0)
    return QueueFindings(rows, largest, bool(rows) and largest <= GOAL)


def tables(findings: QueueFindings) -> list[Table[Any]]:
    """All rows."""
    return [table(QueueRow, findings.rows, "The traffic manager and queueing theory")]


# -- the port ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueueCounts:
    """Packets that left a queue: frames and their bytes; sums of how long they waited, in ps, and of how many they
    found."""

    packets: int
    bytes: int
    waited_ps: int
    waiting: int


class QueueBench:
    """One output port with queues, fed from outside, that measures itself: `queues.p4` adds up, for each queue,
    how long frames waited (`deq_timedelta`) and how many they found (`enq_qdepth`). The line has 8 Gb/s, so a byte
    takes a nanosecond. What leaves it arrives at a second switch without a program. A context manager."""

    def __init__(self, depth: int = ENDLESS_QUEUE, line_bps: int = LINE_BPS) -> None:
        """`depth`: of each queue, in packets."""
        code = program("queues")
        self.network = Network(Virtual(), _TICK_PS, packets=_POOL, frame_bytes=64)
        self.network.add_switch(1, priorities=_QUEUES)
        self.network.add_switch(2)
        self._state = SwitchState(code, 1, _TICK_PS)
        self.network.set_pipeline(1, code, self._state)
        self.network.connect(_PORT, (2, 1), line_bps, 0, depth)

    def set_queue(self, priority: int, **settings: int) -> None:
        """As `Network.set_queue`."""
        self.network.set_queue(_PORT, priority=priority, **settings)

    def offer(self, times_ps: Int64Array, sizes: Int64Array, queues: Int64Array) -> None:
        """Let frames come in at these times (rising), of these bytes on the wire, for these queues. Raises
        `DetourError`: more of them wait than there is memory for."""
        for first in range(0, len(times_ps), _BATCH):
            part = slice(first, first + _BATCH)
            frames = np.zeros((len(times_ps[part]), _HEADER), np.uint8)
            frames[:, 5] = queues[part]
            if self.network.inject_many(_PORT, times_ps[part], frames, sizes[part]) < len(frames):
                raise DetourError("more frames wait than the packet pool holds")
            self.network.run(int(times_ps[part][-1]))

    def drain(self) -> None:
        """Let everything leave that waits."""
        while self.network.loop_stats()["used"]:
            self.network.run(self.network.now_ps + 10**9)

    def counts(self) -> list[QueueCounts]:
        """Return the departures of each queue so far."""
        names = ("packets", "octets", "waited", "found")
        values = [self._state.registers[f"QueuesEgress.{name}"].values() for name in names]
        rows = zip(*values, strict=True)
        return [QueueCounts(packets, octets, waited * _TICK_PS, waiting) for packets, octets, waited, waiting in rows]

    def drops(self) -> int:
        """Frames that found their queue full."""
        return sum(state.drops for state in self.network.queue_states(_PORT))

    def __enter__(self) -> QueueBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.stop()


# -- waits --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """Poisson frames for a queue. `exponential`: sizes are, with this mean; otherwise all are the same."""

    queue: int
    load: float
    size: int
    exponential: bool = False

    @property
    def theory(self) -> TrafficClass:
        service = self.size * PS_OF_A_BYTE
        return (exponential if self.exponential else fixed)(self.load, service)

    def sizes(self, rng: np.random.Generator, count: int) -> Int64Array:
        if not self.exponential:
            return np.full(count, self.size, np.int64)
        return np.maximum(np.rint(rng.exponential(self.size, count)).astype(np.int64), 14)


def _waits(point: QueuePoint, sources: Sequence[_Source]) -> list[QueueRow]:
    """Mean wait in ps, and frames found waiting (by PASTA and Little's law: rate times wait), of each source."""
    with QueueBench() as bench:
        _offer(bench, sources, point)
        bench.drain()
        counts = bench.counts()
    rows = []
    for source, wait in zip(sources, waits([source.theory for source in sources]), strict=True):
        queue, unit, rate = source.queue, source.theory.mean, source.theory.rate
        left = counts[queue]
        rows += [
            _row(point, "mean wait", queue, left.waited_ps / left.packets / unit, wait / unit, "services"),
            _row(point, "found waiting", queue, left.waiting / left.packets, rate * wait, "frames"),
        ]
    return rows


def _offer(bench: QueueBench, sources: Sequence[_Source], point: QueuePoint) -> None:
    """All frames of a point, in pieces; which source a frame is of is drawn by the sources' rates."""
    rng = np.random.default_rng(point.seed)
    rates = np.array([source.theory.rate for source in sources])
    queues = np.array([source.queue for source in sources])
    now = 0.0
    for first in range(0, point.packets, _PIECE):
        count = min(_PIECE, point.packets - first)
        times = now + np.cumsum(rng.exponential(1 / rates.sum(), count))
        now = float(times[-1])
        whose = rng.choice(len(sources), count, p=rates / rates.sum())
        sizes = np.zeros(count, np.int64)
        for number, source in enumerate(sources):
            mine = whose == number
            sizes[mine] = source.sizes(rng, int(mine.sum()))
        bench.offer(times.astype(np.int64), sizes, queues[whose])


def _row(point: QueuePoint, what: str, queue: int, measured: float, expected: float, unit: str) -> QueueRow:
    error = abs(measured - expected) / expected if expected else abs(measured)
    numbers = {"measured": measured, "theory": expected, "error": error}
    rounded = {name: round(value, 6) for name, value in numbers.items()}
    return taken(QueueRow, point, what=what, queue=queue, unit=unit, **rounded)


# -- shares -------------------------------------------------------------------------------------------------


def _flood(bench: QueueBench, queues: Sequence[int], point: QueuePoint) -> tuple[list[QueueCounts], float]:
    """Offer the whole line to each of these queues; what left since a tenth of the time, and how long that took."""
    rng = np.random.default_rng(point.seed)
    mean_ps = (_SHORTEST + _LONGEST) / 2 * PS_OF_A_BYTE / len(queues)
    times = np.cumsum(rng.exponential(mean_ps, point.packets)).astype(np.int64)
    sizes = rng.integers(_SHORTEST, _LONGEST + 1, point.packets)
    whose = np.array(queues)[rng.integers(0, len(queues), point.packets)]
    begin = point.packets // 10
    bench.offer(times[:begin], sizes[:begin], whose[:begin])
    before = bench.counts()
    bench.offer(times[begin:], sizes[begin:], whose[begin:])
    pairs = zip(before, bench.counts(), strict=True)
    left = [
        QueueCounts(b.packets - a.packets, b.bytes - a.bytes, b.waited_ps - a.waited_ps, b.waiting - a.waiting)
        for a, b in pairs
    ]
    return left, float(times[-1] - times[begin - 1]) / _PS


def _drr(point: QueuePoint) -> list[QueueRow]:
    """Three queues that always have frames share the line as their quanta are."""
    quanta = {0: 1_000, 1: 2_000, 2: 4_500}
    with QueueBench(depth=64) as bench:
        for queue, quantum in quanta.items():
            bench.set_queue(queue, quantum=quantum)
        left, took = _flood(bench, list(quanta), point)
    line, whole = LINE_BPS / 1e9, sum(quanta.values())
    rows = [
        _row(point, f"quantum {quantum}", queue, _gbps(left[queue], took), line * quantum / whole, "Gb/s")
        for queue, quantum in quanta.items()
    ]
    return [*rows, _row(point, "all", 0, sum(row.measured for row in rows), line, "Gb/s")]


def _rates(point: QueuePoint) -> list[QueueRow]:
    """Two queues with rates of their own, and one that takes what they leave."""
    pps, bps = 200_000, 3_000_000_000
    with QueueBench(depth=64) as bench:
        bench.set_queue(2, rate_pps=pps)
        bench.set_queue(1, rate_bps=bps)
        left, took = _flood(bench, (0, 1, 2), point)
    rest = LINE_BPS / 1e9 - _gbps(left[1], took) - _gbps(left[2], took)
    return [
        _row(point, "packets a second", 2, left[2].packets / took, pps, "1/s"),
        _row(point, "bits a second", 1, _gbps(left[1], took), bps / 1e9, "Gb/s"),
        _row(point, "what is left", 0, _gbps(left[0], took), rest, "Gb/s"),
    ]


def _gbps(counts: QueueCounts, seconds: float) -> float:
    return counts.bytes * 8 / seconds / 1e9


P4SIM_FLOWS_MBPS = {3: 3.0, 2: 4.0, 1: 5.0}
"""queue -> what p4sim's example of priority queues offers it (examples/p4-queue-test.cc); there the lowest number goes
first, so that its priorities 1, 2, 3 are queues 3, 2, 1"""
P4SIM_LINES_MBPS = (12.0, 8.0, 4.0)
_P4SIM_BYTES = 1_000


def _strict_on(point: QueuePoint, line: float) -> list[QueueRow]:
    """p4sim's three flows."""
    flows = P4SIM_FLOWS_MBPS
    seconds = 100.0
    with QueueBench(depth=64, line_bps=round(line * 1e6)) as bench:
        frames = []
        for queue, mbps in flows.items():
            gap = _P4SIM_BYTES * 8 / (mbps * 1e6) * _PS
            frames += [(round(number * gap) + queue, queue) for number in range(round(seconds * _PS / gap))]
        frames.sort()
        times, queues = (np.array(column, np.int64) for column in zip(*frames, strict=True))
        bench.offer(times, np.full(len(times), _P4SIM_BYTES), queues)
        left = bench.counts()
    rows, free = [], line
    for queue in sorted(flows, reverse=True):
        expected = min(flows[queue], free)
        free -= expected
        mbps = left[queue].bytes * 8 / seconds / 1e6
        rows.append(_row(point, f"{flows[queue]:g} Mb/s on {line:g}", queue, mbps, expected, "Mb/s"))
    return rows


_RUNS: dict[str, Callable[[QueuePoint], list[QueueRow]]] = {
    "md1": lambda point: _waits(point, [_Source(0, point.load, _FIXED_BYTES)]),
    "mm1": lambda point: _waits(point, [_Source(0, point.load, _MEAN_BYTES, exponential=True)]),
    # Three classes whose frames differ in length, each a third of the load.
    "priority": lambda point: _waits(
        point, [_Source(queue, point.load / 3, size) for queue, size in enumerate((1500, 1000, 500))]
    ),
    "drr": _drr,
    # On lines that take all flows, two and a part, and less than one.
    "strict": lambda point: [row for line in P4SIM_LINES_MBPS for row in _strict_on(point, line)],
    "rates": _rates,
}


# -- theory -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrafficClass:
    """Poisson arrivals `rate` in a unit of time, whose service takes `mean`, and its square `square`, on average."""

    rate: float
    mean: float
    square: float

    @property
    def load(self) -> float:
        """The share of the server that it takes."""
        return self.rate * self.mean


def fixed(load: float, service: float) -> TrafficClass:
    """Services that all take the same: the D of M/D/1."""
    return TrafficClass(load / service, service, service**2)


def exponential(load: float, service: float) -> TrafficClass:
    """Services of exponential length: the second M of M/M/1."""
    return TrafficClass(load / service, service, 2 * service**2)


def waits(classes: Sequence[TrafficClass]) -> list[float]:
    """Mean wait of each class, the first of lowest priority, none of which interrupts a service.

    Of one class alone it is that of M/G/1: rate * square / (2 (1 - load))."""
    residual = sum(traffic.rate * traffic.square for traffic in classes) / 2
    mean_waits, above = [0.0] * len(classes), 0.0
    for number in range(len(classes) - 1, -1, -1):
        with_it = above + classes[number].load
        mean_waits[number] = residual / ((1 - above) * (1 - with_it))
        above = with_it
    return mean_waits
