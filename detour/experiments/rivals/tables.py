# SPDX-License-Identifier: Apache-2.0
"""Cells and tables of the runs of schemes that choose paths: a cell for the draws of a scheme on a workload."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import zip_longest
from typing import Any

from detour.base.tables import Column, Table, fixed, left, right, yes_no
from detour.experiments.columns import cell, columns, combined, grouped, kept, largest, mean, row, shown
from detour.experiments.rivals import htsim
from detour.experiments.rivals.experiment import RivalRun, RivalTimes
from detour.experiments.rivals.points import EVENTS, Load
from detour.experiments.steady import spread
from detour.fabric.backends.virtual.scheme import SPRAY_LERP, TELEMETRY_LERP

TUNED_TOPOLOGY, TUNED = "D1", ("unf", "adv1", "adv2", "advc", "permutation")
"""where settings were chosen: SprayLERP's on the first two, the last two and D1, the papers' schemes' by
`nonshortest.tuning` on the first three"""


def size_text(size: int) -> str:
    """Bytes of a message in words."""
    return next(
        (f"{size / unit:g} {name}" for unit, name in ((10**6, "MB"), (1000, "kB")) if size >= unit), f"{size} B"
    )


def _sum(values: list[int | None]) -> int | None:
    return None if values[0] is None else sum(value or 0 for value in values)


def _mean_each(several: list[Sequence[float]]) -> list[float]:
    """Return the mean at each place of lists of unlike length."""
    return [round(sum(some) / len(several), 6) for some in zip_longest(*several, fillvalue=0.0)]


def _mean_times(several: list[RivalTimes | None]) -> RivalTimes | None:
    times = [astuple(draw) for draw in several if draw is not None]
    return RivalTimes(*(round(statistics.fmean(values), 3) for values in zip(*times, strict=True))) if times else None


@row
class RivalCell:
    """A scheme on a workload: means over `draws`; `spread`: the sample standard deviation of `throughput_fraction`, or
    of the p99 where messages are counted, None of one draw. `chosen_on`: something was set by how it does here, for one
    of the schemes at least; the rest is the hold-out. `recovery_us`: the longest of the
    draws, and so are `recovery_round_trips`, in each connection's own; `rtt_us`: the mean smoothed round trip of
    connections before the link broke. `late`: see `RivalRun`."""

    topology: str = shown("topology")
    pattern: str
    load: Load | None

    @cell("workload", left=True)
    def workload(self) -> str:
        """The pattern and its load."""
        return f"{self.pattern} {self.load}" if self.load else self.pattern

    pairs: int = shown("pairs", wide=True)
    scheme: str = shown("scheme")
    draws: int = shown("draws", wide=True, means="of pairs; figures are means over them")
    message_bytes: int = shown("message", lambda size: size_text(size) if size else "endless")
    chosen_on: bool = shown("hold-out", lambda chosen: yes_no(not chosen))
    steady: bool = shown("steady", over=all)
    recovery_us: float | None = shown(
        "recovery us", ".0f", over=largest, means="longest time without anything in order"
    )
    rtt_us: float | None = shown("round trip us", ".1f", over=mean(3), means="smoothed, before; mean of connections")
    recovery_round_trips: float | None = shown(
        "own round trips", ".1f", over=largest, means="the longest time in a connection's own round trips"
    )
    silent: int | None = shown("silent", over=_sum, means="connections for which it was more than three")
    throughput_fraction: float | None = shown("of ceiling", ".1%", over=mean(4))
    fct_us: RivalTimes | None = kept(_mean_times)
    spread: float | None = shown("±", ".1%")
    jain: float | None = shown("Jain", ".3f", over=mean(4))
    detour_fraction: float | None = shown("detours", ".0%", over=mean(4), means="data packets that took one")
    marked_fraction: float = shown("marked", ".1%", over=mean(4), wide=True)
    retransmitted_fraction: float = shown("repeated", ".2%", over=mean(6), wide=True)
    timeouts: int = shown("timeouts", over=sum)
    held_packets_peak: int = shown(
        "held", over=max, wide=True, means="packets of a connection that came early, at most"
    )
    least_p99_us: float | None = shown(
        "links of hosts", ".1f", over=mean(3), wide=True, means="below which p99 cannot be"
    )
    unfinished: int = shown("unfinished", over=sum)
    late: Sequence[float] = kept(_mean_each)
    goodput_gbps: float = kept(mean(3))


@dataclass(frozen=True)
class RivalFindings:
    """`cells`: in the order of the points."""

    cells: Sequence[RivalCell]


def _workload(run: RivalRun | RivalCell) -> tuple[object, ...]:
    return run.topology, run.pattern, run.load, run.message_bytes


def collect(results: Sequence[RivalRun]) -> RivalFindings:
    """A cell of every scheme's draws."""
    return RivalFindings([_cell(runs) for runs in grouped(results, lambda run: (*_workload(run), run.scheme)).values()])


def _cell(runs: list[RivalRun]) -> RivalCell:
    fractions = [run.throughput_fraction for run in runs if run.throughput_fraction is not None]
    tails = [run.fct_us.p99 for run in runs if run.fct_us is not None]
    chosen_on = runs[0].topology == TUNED_TOPOLOGY and runs[0].pattern in TUNED and runs[0].message_bytes == 0
    between = spread(fractions or tails, 4)
    return combined(RivalCell, runs, chosen_on=chosen_on, draws=len(runs), spread=between)


_COLUMNS = {column.name: column for column in columns(RivalCell)}
_COMMON = ("topology", "workload", "pairs", "scheme", "draws")


def _table(
    cells: Iterable[RivalCell],
    title: str,
    heads: Sequence[str],
    others: Mapping[str, Mapping[str, Any]] | None = None,
    more: Sequence[Column[RivalCell]] = (),
) -> Table[RivalCell]:
    """Cells with the columns of these heads. `others`: what is otherwise about some; `more`: columns behind
    `message`."""
    chosen = [replace(_COLUMNS[head], **(others or {}).get(head, {})) for head in (*_COMMON, *heads)]
    at = (*_COMMON, *heads).index("message") + 1 if more else 0
    return Table([*chosen[:at], *more, *chosen[at:]], list(cells), title)


def tables(findings: RivalFindings) -> list[Table[RivalCell]]:
    """Throughput, completion times, and what broke."""
    cells = findings.cells
    broken = [cell for cell in cells if cell.recovery_us is not None]
    endless = [cell for cell in cells if cell.throughput_fraction is not None and cell.recovery_us is None]
    slowed = {"of ceiling": {"means": "afterwards, of the whole fabric's"}, "detours": {"means": ""}}
    some = [
        _table(
            (cell for cell in endless if cell.pattern not in EVENTS),
            "Connections that send without end",
            ("of ceiling", "±", "Jain", "detours", "marked", "repeated", "steady", "hold-out"),
        ),
        _times([cell for cell in cells if cell.message_bytes]),
        _table(
            (cell for cell in endless if cell.pattern in EVENTS),
            "A global link has half of its rate from now on, and nobody is told",
            ("of ceiling", "Jain", "detours", "timeouts"),
            slowed,
        ),
        _table(
            broken,
            "A global link breaks and nobody is told",
            ("recovery us", "round trip us", "own round trips", "silent", "of ceiling", "timeouts"),
            {"of ceiling": {"means": "afterwards"}},
        ),
    ]
    return [table for table in some if table.rows]


def _times(cells: Sequence[RivalCell]) -> Table[RivalCell]:
    def time(head: str, name: str, wide: bool = False) -> Column[RivalCell]:
        return right(head, lambda cell: None if cell.fct_us is None else f"{getattr(cell.fct_us, name):.1f}", wide=wide)

    between = right("±", lambda cell: fixed(cell.spread, 1), means="p99, between draws")
    return _table(
        cells,
        "One message a connection: completion times",
        ("message", "detours", "marked", "repeated", "held", "links of hosts", "unfinished"),
        {"detours": {"wide": True, "means": ""}},
        (time("mean us", "mean"), time("p50", "p50"), time("p99", "p99"), between, time("p99.9", "p999", True)),
    )


def all_tables(findings: RivalFindings) -> list[Table[Any]]:
    """Return those tables, packets out of order, both simulators, and the goals."""
    cells = findings.cells
    return [*tables(findings), lateness_table(cells), htsim.table(cells), goals_table(findings)]


_BEHIND = (0, 1, 3, 7, 15, 31, 63, 127, 255)


def lateness_table(cells: Iterable[RivalCell]) -> Table[RivalCell]:
    """Table of how far out of order packets arrive."""
    some = [cell for cell in cells if cell.late and cell.message_bytes != 64_000 and cell.recovery_us is None]
    title = "Packets out of order: fraction that arrived at most so many packets behind the newest one"
    late = [right(f"{behind}", _behind(place)) for place, behind in enumerate(_BEHIND)]
    return _table(some, title, ("message",), more=late)


def _behind(place: int) -> Callable[[RivalCell], str]:
    return lambda cell: f"{min(1.0, sum(cell.late[: place + 1])):.3f}"


# -- the goals ----------------------------------------------------------------------------------------------


Group = list[RivalCell]
"""the cells of a workload, one a scheme"""


@dataclass(frozen=True)
class GoalVerdict:
    """Verdict whether SprayLERP meets a goal in one of its cells, with figures."""

    cell: RivalCell
    met: bool
    figures: str


@dataclass(frozen=True)
class SprayGoal:
    """A goal of SprayLERP, and whether it reaches it, by cell."""

    text: str
    verdicts: Sequence[GoalVerdict]

    @property
    def missed(self) -> list[GoalVerdict]:
        """Say where it does not."""
        return [verdict for verdict in self.verdicts if not verdict.met]

    def met(self, among: Callable[[RivalCell], bool] = lambda cell: True) -> str:
        """In how many of some cells it does."""
        some = [verdict.met for verdict in self.verdicts if among(verdict.cell)]
        return f"{sum(some)} of {len(some)}"


def workloads(findings: RivalFindings) -> list[Group]:
    """SprayLERP's cell of each workload, and after it those of other schemes with as many draws, if there are some."""
    compared = []
    for group in grouped(findings.cells, _workload).values():
        ours = next((cell for cell in group if cell.scheme == SPRAY_LERP.name), None)
        if ours is not None:
            compared.append([ours, *(cell for cell in group if cell is not ours and cell.draws == ours.draws)])
    return [group for group in compared if len(group) > 1]


def goals(findings: RivalFindings) -> list[SprayGoal]:
    """The goals that were set before anything was measured, against the cells that there are."""
    judges = {
        "throughput first or within 1 % of first": _throughput_gap,
        "p99 of messages of 1 MB and more at most 0.6 of TelemetryLERP's": _tail_of_telemetry,
        "p99 no more than 5 % above any rival's": _tail_gap,
        "mean of 64 kB messages no more than that of shortest paths": _short_messages,
        "recovery within 3 round trips, as they were before": _recovery_gap,
    }
    reached = []
    for text, judge in judges.items():
        judged = [(ours, judge(ours, others)) for ours, *others in workloads(findings)]
        reached.append(SprayGoal(text, [GoalVerdict(cell, *verdict) for cell, verdict in judged if verdict]))
    return reached


def _throughput_gap(ours: RivalCell, others: Group) -> tuple[bool, str] | None:
    best = max((cell for cell in others if cell.throughput_fraction is not None), key=_rate, default=None)
    if best is None or ours.throughput_fraction is None:
        return None
    return _rate(ours) >= 0.99 * _rate(best), f"{_rate(ours):.1%}, {best.scheme} {_rate(best):.1%}"


def _rate(cell: RivalCell) -> float:
    return cell.throughput_fraction or 0.0


def tail(cell: RivalCell) -> float:
    """p99 in us; without end if a message did not finish."""
    return cell.fct_us.p99 if cell.fct_us is not None and not cell.unfinished else float("inf")


def _tail_of_telemetry(ours: RivalCell, others: Group) -> tuple[bool, str] | None:
    theirs = next((cell for cell in others if cell.scheme == TELEMETRY_LERP.name), None)
    if theirs is None or ours.message_bytes < 1_000_000:
        return None
    text = f"{tail(ours) / tail(theirs):.2f}"
    if ours.least_p99_us is not None:
        text += f" (links of hosts: {ours.least_p99_us / tail(theirs):.2f})"
    return tail(ours) <= 0.6 * tail(theirs), text


def _tail_gap(ours: RivalCell, others: Group) -> tuple[bool, str] | None:
    if not ours.message_bytes:
        return None
    best = min(others, key=tail)
    return tail(ours) <= 1.05 * tail(best), f"{tail(ours):.0f} us, {best.scheme} {tail(best):.0f} us"


def _short_messages(ours: RivalCell, others: Group) -> tuple[bool, str] | None:
    theirs = next((cell for cell in others if cell.scheme == "LERP-shortest"), None)
    if theirs is None or ours.message_bytes != 64_000 or ours.fct_us is None or theirs.fct_us is None:
        return None
    return ours.fct_us.mean <= theirs.fct_us.mean, f"{ours.fct_us.mean:.1f} us, {theirs.fct_us.mean:.1f} us"


def _recovery_gap(ours: RivalCell, others: Group) -> tuple[bool, str] | None:
    if ours.recovery_us is None or ours.rtt_us is None:
        return None
    return ours.recovery_us <= 3 * ours.rtt_us, f"{ours.recovery_us:.0f} us, {ours.recovery_us / ours.rtt_us:.1f}"


def goals_table(findings: RivalFindings) -> Table[SprayGoal]:
    """The goals, met or not."""
    columns = [
        left("goal for SprayLERP", lambda goal: goal.text),
        right("met", lambda goal: goal.met()),
        left("not in", lambda goal: "; ".join(f"{_cell_name(v.cell)}: {v.figures}" for v in goal.missed) or None),
    ]
    return Table(columns, [goal for goal in goals(findings) if goal.verdicts], "Goals")


def _cell_name(cell: RivalCell) -> str:
    size = f" {size_text(cell.message_bytes)}" if cell.message_bytes else ""
    return f"{cell.topology} {cell.workload()}{size}"
