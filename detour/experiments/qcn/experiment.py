# SPDX-License-Identifier: Apache-2.0
"""The evaluation of the QCN-Switch paper (Benito, Vallejo, Beivide, Izu): latency and accepted throughput over offered
load (Figs. 3 and 7), injection by switch of group 0 (Fig. 8), and ADVc, which it leaves to future work; MIX and ADV+h.

Its network: a Dragonfly of p = 4, a = 8, h = 4 (1056 hosts), packets of 1 KB, Bernoulli sources. Its Table I is lost;
what was chosen instead is in `fabric.traffic.open_loop`, `control.qcn` and docs/qcn-switch.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.records import decoder
from detour.control.graph_files import open_topology
from detour.control.qcn import MECHANISMS, NOTIFICATION_BYTES
from detour.experiments.columns import row, shown, taken
from detour.experiments.steady import judge
from detour.experiments.store import points_in
from detour.fabric.traffic.open_loop import LINKS, OPEN_LOOP_PATTERNS, REFERENCES, OpenLoop, reference, traffic
from detour.topo import Topology

FULL_SIZE = "dragonfly:p=4,a=8,h=4"
SMALL = "dragonfly:p=2,a=4,h=2"
ROUTINGS = (*REFERENCES, *MECHANISMS)
BY_AGE = "-oldest"
"""ends the name of any routing in networks whose queues go by what packets have waited so far"""
_QUICK = ("MIN", "PB", "QCN-Switch-fast", "QCN-Switch-complete")  # its minute leaves out the last ones first
FAIR_LOAD = 0.4
"""Fig. 8's"""

_ADVERSARIAL = {
    "ADV": (0.05, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.7),
    "ADVc": (0.1, 0.3, 0.4, 0.5, 0.7),
    "MIX": (0.2, 0.5, 0.7, 0.8, 1.0),
    "ADV+h": (0.1, 0.2, 0.3, 0.4, 0.5, 0.7),
}
LOADS = {
    "quick": {"UN": (0.5, 1.0), "ADV": (0.1, 0.4, 0.5), "ADVc": (0.5,), "MIX": (0.8,), "ADV+h": (0.5, 0.7)},
    "normal": {"UN": (0.2, 0.5, 0.8, 0.9, 1.0), **_ADVERSARIAL},
    "full": dict.fromkeys(OPEN_LOOP_PATTERNS, tuple(round(0.05 * k, 2) for k in range(1, 21))),
}
STEADY_WITHIN = 0.02
"""what was accepted may drift by so much within a window, as `ACCEPTED` has it"""

WINDOWS_US = {"quick": (500, 800), "normal": (2000, 10_000), "full": (5000, 20_000)}
"""(until counting begins, counting); slow ramps and oscillations take milliseconds to show"""


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.2f}"


@dataclass(frozen=True)
class QcnPoint:
    """A routing under an offered load, as a share of the hosts' links. `warm_us`: until counting begins, for
    `window_us`."""

    topology: str
    routing: str
    pattern: str
    load: float
    warm_us: int
    window_us: int
    seed: int
    experiment: str = "qcn-switch"


_POINT = decoder(QcnPoint)


@row
class QcnLoad:
    """A point of a curve. `accepted`: share of the hosts' links; `latency_ns`: mean, from a packet's creation,
    `network_ns`: from its entry; `switches` on its way; `minimal`: share of the packets that took a shortest path;
    `steady`: what was accepted had no trend within the window (`experiments.steady`)."""

    pattern: str = shown("pattern")
    routing: str = shown("routing")
    load: float = shown("load", ".2f")
    accepted: float = shown("accepted", ".3f")
    latency_ns: float = shown("latency, us", _us)
    network_ns: float = shown("in the network", _us, wide=True, means="us of the latency")
    switches: float = shown("switches", ".2f", wide=True, means="on a packet's way, mean")
    minimal: float = shown("minimal", ".3f", means="share of the packets on a shortest path")
    messages: int = shown("messages", wide=True)
    notified: float = shown("notified", ".5f", wide=True, means="bytes of messages, share of what hosts' links carry")
    steady: bool = shown("steady", means="what was accepted had no trend in the window")
    lost: int


@row
class QcnResult(QcnLoad):
    """`injected`: by every switch of group 0, share of its hosts' links."""

    injected: list[float]


def select(
    extent: str = "normal",
    *,
    topology: str = "",
    routing: Sequence[str] = (),
    pattern: Sequence[str] = (),
    loads: Sequence[float] = (),
    windows: tuple[int, int] = (0, 0),
    seed: int = 1,
    source: Path | None = None,
) -> list[QcnPoint]:
    """The points. Empty: all, or what the extent says; `windows`: warm-up and counting, us; `source`: a file, of which
    all that fit. Raises `DetourError`: a name or a load that does not exist."""
    network = open_topology(topology or (SMALL if extent == "quick" else FULL_SIZE))
    check_routings(routing)
    for name in pattern:
        traffic(network, name)
    for load in loads:
        if not 0 < load <= 1:
            raise DetourError(f"an offered load is above 0 and at most 1, not {load:g}")
    if source is not None:
        asked = {"routing": routing, "pattern": pattern, "load": loads, "window_us": [us for us in windows[1:] if us]}
        return points_in(
            source, _POINT, experiment=[QcnPoint.experiment], topology=[network.spec], seed=[seed], **asked
        )
    warm, count = (given or usual for given, usual in zip(windows, WINDOWS_US[extent], strict=True))
    return [
        QcnPoint(network.spec, route, name, load, warm, count, seed)
        for route in routing or (_QUICK if extent == "quick" else ROUTINGS)
        for name in pattern or OPEN_LOOP_PATTERNS
        for load in loads or LOADS[extent].get(name, LOADS[extent]["ADV"])
    ]


def check_routings(names: Sequence[str]) -> None:
    """Raise `DetourError`: there is no routing of one of the names."""
    unknown = next((name for name in names if name.removesuffix(BY_AGE) not in ROUTINGS), None)
    if unknown is not None:
        text = f"there is no {unknown!r} in the QCN-Switch paper's evaluation; allowed: {', '.join(ROUTINGS)}"
        raise DetourError(f"{text}, and each with {BY_AGE} behind it")


def open_loop(topology: Topology, name: str, **traffic: Any) -> OpenLoop:
    """A network with a routing of that name, under that traffic."""
    plain = name.removesuffix(BY_AGE)
    routing = MECHANISMS[plain] if plain in MECHANISMS else reference(plain)
    return OpenLoop(topology, routing, oldest_first=plain != name, **traffic)


def seconds_of(topology: Topology, load: float, us: int) -> float:
    """Estimate the time to build a network and run it for so long in virtual time at an accepted load, on one core."""
    packets = len(topology.hosts) * load * us * 4.9
    return 0.016 * len(topology.switches) + packets * 4e-6


def seconds(point: QcnPoint) -> float:
    load = min(point.load, 1.0 if point.pattern == "UN" else 0.5)
    return seconds_of(open_topology(point.topology), load, point.warm_us + point.window_us)


def run(point: QcnPoint) -> QcnResult:
    """Measure a point."""
    topology = open_topology(point.topology)
    with open_loop(topology, point.routing, load=point.load, pattern=point.pattern, seed=point.seed) as fabric:
        measured = fabric.measure(point.warm_us * 1_000_000, point.window_us * 1_000_000)
    room = LINKS.rate_bps * point.window_us / 8e6 * len(topology.hosts)
    digits = {"accepted": 5, "latency_ns": 1, "network_ns": 1, "switches": 4, "minimal": 5}
    return taken(
        QcnResult,
        point,
        measured,
        **{name: round(getattr(measured, name), digit) for name, digit in digits.items()},
        notified=round(measured.messages * NOTIFICATION_BYTES / room, 7),
        steady=judge(measured.arrived, STEADY_WITHIN).steady,
        injected=[round(float(measured.injected[switch]), 5) for switch in topology.members[0]],
    )
