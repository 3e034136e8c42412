# SPDX-License-Identifier: Apache-2.0
"""Transients: traffic that changes at a time, such as `un:0.4,adv1:0.4@1ms`, and how soon routing has followed.

Of every change, over windows of `WINDOW_US`, summed over draws until there are about `ALL_HOSTS` hosts:

* `react_us`: from the change until what is missing against `BACK` of the offered load (0.39 of 0.4) is most: from then
  on at least that is accepted, over any span. None: that is not before the next change.
* `peak_mean_latency_us`: the highest mean latency of a window, from generation.
* `settle_us`: from the change to the end of the last window whose mean latency, averaged over `HELD_US`, is off the
  mean of the last fifth of the phase by more than `OFF` of it. None: that is in the last fifth, or its halves differ by
  more than half of `OFF`.
* `minimal_share_after`: of the packets that first switches decided upon in `SHARE_US` after the change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.errors import DetourError, told_of
from detour.base.quantities import time_ps_of
from detour.base.records import decoder
from detour.base.tables import Table
from detour.base.times import US
from detour.control.graph_files import open_topology
from detour.experiments import drawing
from detour.experiments.columns import row, shown, table
from detour.experiments.qcn import goals
from detour.experiments.qcn.experiment import FULL_SIZE, ROUTINGS, SMALL, check_routings, open_loop, seconds_of
from detour.experiments.qcn.tables import STYLES
from detour.experiments.store import points_in
from detour.fabric.traffic.open_loop import LINKS, LoadWindow, traffic

CHANGES = ("un:0.4", "adv1:0.4@1ms", "un:0.4@2ms")
WINDOW_US = 2
HELD_US = 10
BACK = 0.975
OFF = 0.1
SHARE_US = (50, 100)
ALL_HOSTS = 1000
_DRAWS = {"quick": 5, "normal": 12, "full": 48}
_QUICK = ("PB", "QCN-Switch-fast", "QCN-Switch-complete", "Piggyback", "UGAL-L", "PAR", "OLM-like")
_LAST_US = 1000  # after the last change


@dataclass(frozen=True)
class Phase:
    """From `at_us` on."""

    pattern: str
    load: float
    at_us: int

    def __str__(self) -> str:
        name = re.sub(r"^ADV\+?(?=[0-9H])", "ADV+", self.pattern.upper())
        return f"{name.replace('ADVC', 'ADVc').replace('+H', '+h')} {self.load:g}"


def phases_of(texts: Sequence[str]) -> tuple[Phase, ...]:
    """`un:0.4`, `adv1:0.4@1ms`, ... as phases. Raises `DetourError`: a text has another form, or times do not rise."""
    phases: list[Phase] = []
    for text in texts:
        match = re.fullmatch(r"([a-z0-9+]+):([0-9.]+)(?:@(.+))?", text, re.IGNORECASE)
        if match is None:
            raise DetourError(f"--pattern {text}: a phase is PATTERN:LOAD@TIME, such as adv1:0.4@1ms")
        with told_of(f"--pattern {text}"):
            at_us, rest = divmod(time_ps_of(match[3] or "0"), US)
        if rest:
            raise DetourError(f"--pattern {text}: times are whole microseconds")
        if bool(phases) != bool(at_us) or (phases and at_us <= phases[-1].at_us):
            raise DetourError(f"--pattern {text}: the first phase has no time, and those of the others increase")
        phases.append(Phase(match[1], _load(text, match[2]), at_us))
    if len(phases) < 2:
        raise DetourError("--pattern: a transient has at least two phases, such as un:0.4,adv1:0.4@1ms")
    return tuple(phases)


def _load(text: str, number: str) -> float:
    load = float(number) if re.fullmatch(r"\d*\.?\d+", number) else 0.0
    if not 0 < load <= 1:
        raise DetourError(f"--pattern {text}: an offered load is above 0 and at most 1")
    return load


@dataclass(frozen=True)
class TransientPoint:
    """A routing under traffic that changes."""

    topology: str
    routing: str
    phases: tuple[Phase, ...]
    draws: int
    seed: int
    experiment: str = "qcn-switch transients"


_POINT = decoder(TransientPoint)


@row
class Transient:
    """Reaction of a routing to a change; see the module."""

    routing: str = shown("routing")
    topology: str = shown("topology", wide=True)
    change: str = shown("change")
    react_us: int | None = shown("back, us", means="until the accepted load is back at 0.975 of the offered one")
    peak_mean_latency_us: float = shown("peak, us", ".1f", means="highest mean latency of 2 us")
    settle_us: int | None = shown("settled, us", means="until latency stays within a tenth of its later mean")
    minimal_share_after: float = shown("minimal", ".3f", means="share of the packets decided 50 to 100 us after it")


@dataclass(frozen=True)
class OverTime:
    """By windows of `WINDOW_US` from the change on: accepted load (share of the hosts' links), mean latency and share
    of the packets that took a shortest path; None: there were no packets."""

    routing: str
    topology: str
    change: str
    accepted: list[float] = field(repr=False)
    latency_us: list[float | None] = field(repr=False)
    minimal: list[float | None] = field(repr=False)


@dataclass(frozen=True)
class TransientResult:
    transients: list[Transient]
    series: list[OverTime]


@dataclass(frozen=True)
class TransientFindings:
    transients: list[Transient]
    series: list[OverTime]
    goals: list[goals.QcnGoal] = field(default_factory=list)


def select(
    extent: str = "normal",
    *,
    topology: str = "",
    routing: Sequence[str] = (),
    pattern: Sequence[str] = (),
    seed: int = 1,
    source: Path | None = None,
) -> list[TransientPoint]:
    """The points. `source`: a file, of which all that fit. Raises `DetourError`: a name or a phase that does not
    exist."""
    network = open_topology(topology or (SMALL if extent == "quick" else FULL_SIZE))
    check_routings(routing)
    phases = phases_of(pattern or CHANGES)
    for phase in phases:
        traffic(network, phase.pattern)
    if source is not None:
        asked = {"topology": [network.spec], "routing": routing, "seed": [seed]}
        points = points_in(source, _POINT, experiment=[TransientPoint.experiment], **asked)
        return [point for point in points if point.phases == phases]
    draws = max(1, min(_DRAWS[extent], round(_DRAWS[extent] * ALL_HOSTS / 12 / len(network.hosts))))
    names = routing or (_QUICK if extent == "quick" else ROUTINGS)
    return [TransientPoint(network.spec, name, phases, draws, seed) for name in names]


def seconds(point: TransientPoint) -> float:
    """On one core."""
    load = max(phase.load for phase in point.phases)
    return point.draws * seconds_of(open_topology(point.topology), load, point.phases[-1].at_us + _LAST_US)


def run(point: TransientPoint) -> TransientResult:
    """Measure a point."""
    topology = open_topology(point.topology)
    ends = [phase.at_us for phase in point.phases[1:]] + [point.phases[-1].at_us + _LAST_US]
    sums: list[np.ndarray] = []
    for draw in range(point.draws):
        first = point.phases[0]
        windows: list[np.ndarray] = []
        offered = {"load": first.load, "pattern": first.pattern, "seed": point.seed + draw}
        with open_loop(topology, point.routing, **offered) as fabric:
            for phase, end in zip(point.phases, ends, strict=True):
                if phase.at_us:
                    fabric.change(phase.load, phase.pattern)
                measured = fabric.series(WINDOW_US * 1_000_000, (end - phase.at_us) // WINDOW_US)
                windows.append(np.array([list(asdict(window).values()) for window in measured]))
        sums = [a + b for a, b in zip(sums, windows, strict=True)] if sums else windows
    room = LINKS.rate_bps * WINDOW_US / 8e6 * len(topology.hosts) * point.draws
    result = TransientResult([], [])
    for (before, after), counted in zip(zip(point.phases, point.phases[1:], strict=False), sums[1:], strict=True):
        names = {"routing": point.routing, "topology": point.topology, "change": f"{before} -> {after}"}
        totals = [LoadWindow(*values) for values in counted.tolist()]
        result.transients.append(judge_change(totals, room, after.load, names))
        result.series.append(_series(totals, room, names))
    return result


def judge_change(windows: Sequence[LoadWindow], room: float, load: float, names: dict[str, str]) -> Transient:
    """Judge the effect of a change. `windows`: from the change on; `room`: bytes that all hosts' links carry in one;
    `load`: offered since."""
    held = HELD_US // WINDOW_US
    accepted = np.array([window.bytes for window in windows]) / room
    missing = np.append(0, np.cumsum(BACK * load - accepted))
    back = int(missing.argmax())
    packets = np.array([window.packets for window in windows], float)
    latency = np.array([window.latency_ns for window in windows]) / 1e3
    means = latency / np.maximum(packets, 1)
    smooth = np.convolve(latency, np.ones(held), "valid") / np.maximum(np.convolve(packets, np.ones(held), "valid"), 1)
    last = len(windows) // 5
    level = latency[-last:].sum() / max(packets[-last:].sum(), 1)
    off = np.flatnonzero(np.abs(smooth - level) > OFF * level)
    halves = np.split(np.arange(-last, 0), [last // 2])
    early, late = (latency[half].sum() / max(packets[half].sum(), 1) for half in halves)
    level_out = abs(late - early) <= OFF / 2 * level
    settled = int(off[-1]) + 1 if len(off) else 0
    first, end = (us // WINDOW_US for us in SHARE_US)
    minimal = sum(window.minimal for window in windows[first:end])
    around = sum(window.around for window in windows[first:end])
    return Transient(
        react_us=back * WINDOW_US if back < len(windows) else None,
        peak_mean_latency_us=round(float(means.max()), 3),
        settle_us=settled * WINDOW_US if level_out and settled < len(windows) - last else None,
        minimal_share_after=round(minimal / max(minimal + around, 1), 4),
        **names,
    )


def _series(windows: Sequence[LoadWindow], room: float, names: dict[str, str]) -> OverTime:
    decided = [(window.minimal, window.minimal + window.around) for window in windows]
    return OverTime(
        accepted=[round(window.bytes / room, 4) for window in windows],
        latency_us=[round(one.latency_ns / 1e3 / one.packets, 3) if one.packets else None for one in windows],
        minimal=[round(minimal / all_, 4) if all_ else None for minimal, all_ in decided],
        **names,
    )


def collect(results: Sequence[TransientResult]) -> TransientFindings:
    """All changes, and the goals that they are about."""
    transients = [change for result in results for change in result.transients]
    series = [one for result in results for one in result.series]
    return TransientFindings(transients, series, _goals(transients))


def _goals(transients: Sequence[Transient]) -> list[goals.QcnGoal]:
    """Return the goals for changes between uniform and adversarial traffic."""
    judged: list[goals.QcnGoal] = []
    for one in transients:
        before, after = one.change.split(" -> ")
        if one.routing != goals.JUDGED:
            continue
        if before.startswith("UN") and after.startswith("ADV"):
            judged.append(goals.goal_of(f"{one.change}: accepted load back, us", one.react_us, most=20))
            judged.append(goals.goal_of(f"{one.change}: peak mean latency, us", one.peak_mean_latency_us, most=10))
        elif after.startswith("UN"):
            judged.append(goals.goal_of(f"{one.change}: minimal share", one.minimal_share_after, least=0.98))
    return judged


def tables(findings: TransientFindings) -> list[Table[Any]]:
    """All, in the order in which they are read."""
    return [
        table(Transient, findings.transients, "how soon routing follows a change of traffic"),
        *goals.tables(findings.goals),
    ]


def draw(findings: TransientFindings, file: Path) -> None:
    """A column for every change: accepted load, latency and minimal share over time. Raises `DetourError`: there is
    nothing to draw, or the file cannot be written."""
    changes = list(dict.fromkeys(one.change for one in findings.series))
    drawing.need(changes)
    plt, figure, axes = drawing.canvas(3, len(changes), 5.2)
    for column, change in enumerate(changes):
        kinds = (("accepted", "accepted load"), ("latency_us", "mean latency, us"), ("minimal", "minimal share"))
        for axis, (name, label) in zip(axes[:, column], kinds, strict=True):
            for one in findings.series:
                if one.change == change:
                    values = [float("nan") if value is None else value for value in getattr(one, name)]
                    times = [WINDOW_US * (place + 1) for place in range(len(values))]
                    drawing.curve(axis, times, values, STYLES[one.routing], one.routing, markersize=0, linewidth=1)
            axis.set(xlabel="us after the change", ylabel=label, title=change, xlim=(0, 300))
            axis.set_ylim(0, _MOST_US if name == "latency_us" else None)
    drawing.legend(figure, axes.ravel())
    drawing.save(plt, figure, file)


_MOST_US = 40.0
