# SPDX-License-Identifier: Apache-2.0
"""How schemes that choose paths compare, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from detour.base.tables import Column, Table, fixed, left, percent, right, yes_no
from detour.experiments.rivals import htsim
from detour.experiments.rivals.cells import RivalCell, RivalFindings
from detour.experiments.rivals.workloads import EVENTS
from detour.fabric.footings.virtual.scheme import SPRAY_LERP, TELEMETRY_LERP


def all_tables(found: RivalFindings) -> list[Table[Any]]:
    """Throughput, completion times, what broke, packets out of order, both simulators, and the goals."""
    failed, slowed = ([cell for cell in found.cells if cell.pattern == pattern] for pattern in EVENTS)
    endless = [cell for cell in found.cells if not cell.message_bytes and cell.pattern not in EVENTS]
    messages = [cell for cell in found.cells if cell.message_bytes]
    return [
        _table("Connections that send without end", endless, *_THROUGHPUT),
        _table("One message a connection: completion times", messages, *_TIMES),
        _table("A global link has half of its rate from now on, and nobody is told", slowed, *_SLOWED),
        _table("A global link breaks and nobody is told", failed, *_RECOVERY),
        lateness_table(found.cells),
        htsim.table(found.cells),
        goals_table(found),
    ]


def size_text(size: int) -> str:
    """Bytes of a message in words."""
    return next(
        (f"{size / unit:g} {name}" for unit, name in ((10**6, "MB"), (1000, "kB")) if size >= unit), f"{size} B"
    )


def _workload(cell: RivalCell) -> str:
    return f"{cell.pattern} {cell.load}" if cell.load else cell.pattern


def _table(title: str, cells: Sequence[RivalCell], *columns: Column[Any]) -> Table[RivalCell]:
    common = (
        left("topology", lambda cell: cell.topology),
        left("workload", _workload),
        right("pairs", lambda cell: cell.pairs, wide=True),
        left("scheme", lambda cell: cell.scheme),
        right("draws", lambda cell: cell.draws, wide=True, means="of pairs; figures are means over them"),
    )
    return Table((*common, *columns), cells, title)


def _percents(name: str, field: str, digits: int, wide: bool = False, means: str = "") -> Column[Any]:
    return right(name, lambda cell: percent(getattr(cell, field), digits), wide=wide, means=means)


def _numbers(name: str, field: str, digits: int = 0, wide: bool = False, means: str = "") -> Column[Any]:
    return right(name, lambda cell: fixed(getattr(cell, field), digits), wide=wide, means=means)


def _time(name: str, field: str, wide: bool = False) -> Column[Any]:
    return right(name, lambda cell: cell.fct_us and fixed(getattr(cell.fct_us, field), 1), wide=wide)


_JAIN = _numbers("Jain", "jain", 3)
_TIMEOUTS = _numbers("timeouts", "timeouts")
_MARKED = _percents("marked", "marked_fraction", 1, wide=True)
_REPEATED = _percents("repeated", "retransmitted_fraction", 2, wide=True)
_THROUGHPUT = (
    _percents("of ceiling", "throughput_fraction", 1),
    _percents("±", "spread", 1),
    _JAIN,
    _percents("detours", "detour_fraction", 0, means="data packets that took one"),
    _MARKED,
    _REPEATED,
    left("steady", lambda cell: yes_no(cell.steady)),
    left("hold-out", lambda cell: yes_no(not cell.chosen_on)),
)
_TIMES = (
    right("message", lambda cell: size_text(cell.message_bytes)),
    _time("mean us", "mean"),
    _time("p50", "p50"),
    _time("p99", "p99"),
    _numbers("±", "spread", 1, means="p99, between draws"),
    _time("p99.9", "p999", wide=True),
    _percents("detours", "detour_fraction", 0, wide=True),
    _MARKED,
    _REPEATED,
    _numbers("held", "held_packets_peak", wide=True, means="packets of a connection that came early, at most"),
    _numbers("links of hosts", "least_p99_us", 1, wide=True, means="below which p99 cannot be"),
    _numbers("unfinished", "unfinished"),
)
_SLOWED = (
    _percents("of ceiling", "throughput_fraction", 1, means="afterwards, of the whole fabric's"),
    _JAIN,
    _percents("detours", "detour_fraction", 0),
    _TIMEOUTS,
)
_LONGEST = "the longest time in a connection's own round trips"
_RECOVERY = (
    _numbers("recovery us", "recovery_us", means="longest time without anything in order"),
    _numbers("round trip us", "rtt_us", 1, means="smoothed, before; mean of connections"),
    _numbers("own round trips", "recovery_round_trips", 1, means=_LONGEST),
    _numbers("silent", "silent", means="connections for which it was more than three"),
    _percents("of ceiling", "throughput_fraction", 1, means="afterwards"),
    _TIMEOUTS,
)
_BEHIND = (0, 1, 3, 7, 15, 31, 63, 127, 255)


def lateness_table(cells: Iterable[RivalCell]) -> Table[RivalCell]:
    """How far out of order packets arrive."""
    return _table(
        "Packets out of order: fraction that arrived at most so many packets behind the newest one",
        [cell for cell in cells if cell.late and cell.message_bytes != 64_000 and cell.recovery_us is None],
        right("message", lambda cell: size_text(cell.message_bytes) if cell.message_bytes else "endless"),
        *(right(f"{behind}", _behind(place)) for place, behind in enumerate(_BEHIND)),
    )


def _behind(place: int) -> Callable[[RivalCell], str]:
    return lambda cell: f"{min(1.0, sum(cell.late[: place + 1])):.3f}"


# -- the goals ----------------------------------------------------------------------------------------------


Group = list[RivalCell]
"""the cells of a workload, one a scheme"""


@dataclass(frozen=True)
class GoalVerdict:
    """Whether SprayLERP meets a goal in a cell of its own, and the figures that say so."""

    cell: RivalCell
    met: bool
    figures: str


@dataclass(frozen=True)
class SprayGoal:
    """What SprayLERP should reach, and whether it does, by cell."""

    text: str
    verdicts: Sequence[GoalVerdict]

    @property
    def missed(self) -> list[GoalVerdict]:
        """Where it does not."""
        return [verdict for verdict in self.verdicts if not verdict.met]

    def met(self, among: Callable[[RivalCell], bool] = lambda cell: True) -> str:
        """In how many of some cells it does."""
        some = [verdict.met for verdict in self.verdicts if among(verdict.cell)]
        return f"{sum(some)} of {len(some)}"


def workloads(found: RivalFindings) -> list[Group]:
    """SprayLERP's cell of each workload, and after it those of other schemes with as many draws, if there are some."""
    groups: dict[tuple[object, ...], Group] = {}
    for cell in found.cells:
        groups.setdefault((cell.topology, cell.pattern, cell.load, cell.message_bytes), []).append(cell)
    compared = []
    for group in groups.values():
        ours = next((cell for cell in group if cell.scheme == SPRAY_LERP.name), None)
        if ours is not None:
            compared.append([ours, *(cell for cell in group if cell is not ours and cell.draws == ours.draws)])
    return [group for group in compared if len(group) > 1]


def goals(found: RivalFindings) -> list[SprayGoal]:
    """The goals that were set before anything was measured, against the cells that there are."""
    groups = workloads(found)
    return [
        _goal("throughput first or within 1 % of first", groups, _throughput_gap),
        _goal("p99 of messages of 1 MB and more at most 0.6 of TelemetryLERP's", groups, _tail_of_telemetry),
        _goal("p99 no more than 5 % above any rival's", groups, _tail_gap),
        _goal("mean of 64 kB messages no more than that of shortest paths", groups, _short_messages),
        _goal("recovery within 3 round trips, as they were before", groups, _recovery_gap),
    ]


def _goal(
    text: str, groups: Iterable[Group], judge: Callable[[RivalCell, Group], tuple[bool, str] | None]
) -> SprayGoal:
    judged = [(ours, judge(ours, others)) for ours, *others in groups]
    return SprayGoal(text, [GoalVerdict(cell, *verdict) for cell, verdict in judged if verdict is not None])


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


def goals_table(found: RivalFindings) -> Table[SprayGoal]:
    """The goals, met or not."""
    columns = [
        left("goal for SprayLERP", lambda goal: goal.text),
        right("met", lambda goal: goal.met()),
        left("not in", lambda goal: "; ".join(f"{_cell_name(v.cell)}: {v.figures}" for v in goal.missed) or None),
    ]
    return Table(columns, [goal for goal in goals(found) if goal.verdicts], "Goals")


def _cell_name(cell: RivalCell) -> str:
    size = f" {size_text(cell.message_bytes)}" if cell.message_bytes else ""
    return f"{cell.topology} {_workload(cell)}{size}"
