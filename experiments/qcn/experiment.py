# SPDX-License-Identifier: Apache-2.0
"""The evaluation of the QCN-Switch paper (Benito, Vallejo, Beivide, Izu): latency and accepted throughput over offered
load (Figs. 3 and 7), injection by switch of group 0 (Fig. 8), and ADVc, which it leaves to future work.

Its network: a Dragonfly of p = 4, a = 8, h = 4 (1056 hosts), packets of 1 KB, Bernoulli sources. Its Table I is lost;
what was chosen instead is in `fabric.open_loop`, `control.qcn` and docs/qcn-switch.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from detour.base.errors import DetourError
from detour.control.routes.qcn import MECHANISMS
from detour.control.topology_files import open_topology
from detour.experiments.steady import judge
from detour.fabric.traffic.open_loop import OPEN_LOOP_PATTERNS, OpenLoop, reference

FULL_SIZE = "dragonfly:p=4,a=8,h=4"
SMALL = "dragonfly:p=2,a=4,h=2"
ROUTINGS = ("MIN", "VAL", "PB", *MECHANISMS)
THRESHOLD = 10
"""T of PB, in packets"""
FAIR_LOAD = 0.4
"""Fig. 8's"""

LOADS = {
    "quick": {"UN": (0.5, 1.0), "ADV": (0.1, 0.4), "ADVc": ()},
    "normal": {
        "UN": (0.2, 0.5, 0.8, 0.9, 1.0),
        "ADV": (0.05, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5),
        "ADVc": (0.1, 0.3, 0.4, 0.5),
    },
    "full": dict.fromkeys(OPEN_LOOP_PATTERNS, tuple(round(0.05 * k, 2) for k in range(1, 21))),
}
ACCEPTED = 0.98
"""share of what is offered below which a network is saturated; windows are short, so not 1"""

STEADY_WITHIN = 0.02
"""what was accepted may drift by so much within a window, as `ACCEPTED` has it"""

WINDOWS_US = {"quick": (1000, 300), "normal": (1600, 200), "full": (4000, 500)}
"""(until counting begins, counting)"""

PAPER = (
    ("UN", "PB", "sends part of the traffic non-minimally: latency above MIN's, maximum throughput below"),
    ("UN", "Conditional-OpenFlow", "collapses at high loads"),
    ("UN", "QCN-Switch-base", "collapses at high loads, worse than Conditional OpenFlow"),
    ("UN", "QCN-Switch-source", "collapses at high loads, worse than Conditional OpenFlow"),
    ("UN", "QCN-Switch-comparison", "good throughput at saturation, a slight drop, competitive with PB"),
    ("ADV", "Conditional-OpenFlow", "excessive latency at low loads"),
    ("ADV", "QCN-Switch-base", "lower latency at low loads, unfair: SW7 injects less"),
    ("ADV", "QCN-Switch-source", "fair; the highest saturation throughput of the three, competitive with VAL"),
    ("ADV", "QCN-Switch-comparison", "lower saturation throughput, worse latency than base, unfair: SW7 injects less"),
)
"""what the text says of Figs. 3, 7 and 8, whose curves carry no numbers (sections II-C, IV-B and IV-C)"""


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


@dataclass(frozen=True)
class QcnLoad:
    """A point of a curve. `accepted`: share of the hosts' links; `latency_ns`: mean, from a packet's creation,
    `network_ns`: from its entry; `switches` on its way; `minimal`: share of the packets that took a shortest path;
    `steady`: what was accepted had no trend within the window (`experiments.steady`)."""

    routing: str
    pattern: str
    load: float
    accepted: float
    latency_ns: float
    network_ns: float
    switches: float
    minimal: float
    messages: int
    lost: int
    steady: bool


@dataclass(frozen=True)
class QcnResult(QcnLoad):
    """`injected`: by every switch of group 0, share of its hosts' links."""

    injected: list[float]


@dataclass(frozen=True)
class QcnInjection:
    """What a switch of group 0 injects under ADV at `FAIR_LOAD`."""

    routing: str
    switch: str
    injected: float


@dataclass(frozen=True)
class QcnLandmarks:
    """Of one routing, each None if a point that it needs is missing: `saturation`, the highest accepted throughput, by
    pattern, and whether it is one (`saturated`: at some load less was accepted than offered); `un_drop`, by how much
    of it the one at the highest load is lower; `adv_latency`, the highest ratio to VAL's at loads up to 0.3;
    `fairness`, the least injection of a switch of group 0, over the mean."""

    routing: str
    saturation: dict[str, float | None]
    saturated: dict[str, bool]
    un_drop: float | None
    adv_latency: float | None
    fairness: float | None


@dataclass(frozen=True)
class QcnStatement:
    """What the paper says of a routing under a pattern."""

    pattern: str
    routing: str
    says: str


@dataclass(frozen=True)
class QcnFindings:
    """`loads_left_out`: by pattern, loads of `full` at which no routing was to be measured."""

    curves: list[QcnLoad]
    fairness: list[QcnInjection]
    landmarks: list[QcnLandmarks]
    paper: list[QcnStatement]
    loads_left_out: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class QcnSelection:
    """What to run. Empty: all, or what the extent says."""

    topology: str = ""
    routings: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    loads: tuple[float, ...] = ()
    extent: str = "normal"
    seed: int = 1
    warm_us: int = 0
    window_us: int = 0


def select(chosen: QcnSelection) -> list[QcnPoint]:
    """The points of a selection.

    Raises:
        DetourError: a name or a load that does not exist.
    """
    topology = open_topology(chosen.topology or (SMALL if chosen.extent == "quick" else FULL_SIZE)).spec
    warm, window = WINDOWS_US[chosen.extent]
    for name, allowed in ((chosen.routings, ROUTINGS), (chosen.patterns, OPEN_LOOP_PATTERNS)):
        for one in name:
            if one not in allowed:
                raise DetourError(
                    f"there is no {one!r} in the QCN-Switch paper's evaluation; allowed: {', '.join(allowed)}"
                )
    for load in chosen.loads:
        if not 0 < load <= 1:
            raise DetourError(f"an offered load is above 0 and at most 1, not {load:g}")
    windows = chosen.warm_us or warm, chosen.window_us or window
    return [
        QcnPoint(topology, routing, pattern, load, *windows, chosen.seed)
        for routing in chosen.routings or ROUTINGS
        for pattern in chosen.patterns or OPEN_LOOP_PATTERNS
        for load in chosen.loads or LOADS[chosen.extent][pattern]
    ]


def loads_left_out(points: Sequence[QcnPoint]) -> dict[str, list[float]]:
    """By pattern: loads of `full` at which no routing was measured."""
    run = {(point.pattern, point.load) for point in points}
    missing = {
        pattern: [load for load in loads if (pattern, load) not in run] for pattern, loads in LOADS["full"].items()
    }
    return {pattern: loads for pattern, loads in missing.items() if loads}


def seconds(point: QcnPoint) -> float:
    """Roughly what a point costs."""
    topology = open_topology(point.topology)
    load = min(point.load, 1.0 if point.pattern == "UN" else 0.5)
    packets = len(topology.hosts) * load * (point.warm_us + point.window_us) * 4.9
    return 0.7 + 0.016 * len(topology.switches) + packets * 5 * 1.2e-6


def run(point: QcnPoint) -> QcnResult:
    """Measures a point."""
    name = point.routing
    routing = MECHANISMS[name] if name in MECHANISMS else reference(name, THRESHOLD if name == "PB" else 0)
    topology = open_topology(point.topology)
    with OpenLoop(topology, routing, load=point.load, pattern=point.pattern, seed=point.seed) as fabric:
        found = fabric.measure(point.warm_us * 1_000_000, point.window_us * 1_000_000)
    return QcnResult(
        routing=name,
        pattern=point.pattern,
        load=point.load,
        accepted=round(found.accepted, 5),
        latency_ns=round(found.latency_ns, 1),
        network_ns=round(found.network_ns, 1),
        switches=round(found.switches, 4),
        minimal=round(found.minimal, 5),
        messages=found.messages,
        lost=found.lost,
        steady=judge(found.arrived, STEADY_WITHIN).steady,
        injected=[round(float(found.injected[switch]), 5) for switch in topology.members[0]],
    )


# -- results ------------------------------------------------------------------------------------------------


def collect(results: Iterable[QcnResult | None]) -> QcnFindings:
    """Curves, fairness (switches of group 0 under ADV at load 0.4), landmarks by routing, and the paper's words."""
    found = [result for result in results if result is not None]
    names = [each.name for each in fields(QcnLoad)]
    return QcnFindings(
        [QcnLoad(**{name: getattr(one, name) for name in names}) for one in found],
        [
            QcnInjection(one.routing, f"SW{number}", injected)
            for one in found
            if one.pattern == "ADV" and one.load == FAIR_LOAD
            for number, injected in enumerate(one.injected)
        ],
        [landmarks(name, found) for name in ROUTINGS if any(one.routing == name for one in found)],
        [QcnStatement(*words) for words in PAPER],
    )


def landmarks(name: str, found: Sequence[QcnResult]) -> QcnLandmarks:
    """Of one routing, with VAL's to compare with."""
    mine = [one for one in found if one.routing == name]
    saturation, saturated = {}, {}
    for pattern in OPEN_LOOP_PATTERNS:
        points = [(one.accepted, one.load) for one in mine if one.pattern == pattern]
        saturation[pattern] = max((accepted for accepted, _ in points), default=None)
        saturated[pattern] = any(accepted < ACCEPTED * load for accepted, load in points)
    uniform = sorted((one for one in mine if one.pattern == "UN"), key=lambda one: one.load)
    low = {one.load: one.latency_ns for one in mine if one.pattern == "ADV" and one.load <= 0.3}
    valiant = {one.load: one.latency_ns for one in found if (one.routing, one.pattern) == ("VAL", "ADV")}
    ratios = [latency / valiant[load] for load, latency in low.items() if load in valiant]
    fair = next((one.injected for one in mine if (one.pattern, one.load) == ("ADV", FAIR_LOAD)), None)
    return QcnLandmarks(
        name,
        saturation,
        saturated,
        un_drop=1 - uniform[-1].accepted / saturation["UN"] if uniform and saturation["UN"] else None,
        adv_latency=max(ratios, default=None),
        fairness=min(fair) * len(fair) / sum(fair) if fair else None,
    )
