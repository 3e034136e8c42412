# SPDX-License-Identifier: Apache-2.0
"""Tables of the FC+ paper's points: ours beside the paper's, and the packet level."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from detour.base.records import given
from detour.base.tables import Column, Table, right
from detour.experiments.columns import cell, columns, combined, grouped, mean, row, shown, table, taken
from detour.experiments.fcplus import paper
from detour.experiments.fcplus.results import (
    NETWORKS,
    FcCountsPoint,
    FcPathsPoint,
    FcplusCountsPoint,
    FcplusPoint,
    K2Point,
    NetworkPoint,
    PacketsPoint,
    StuckPoint,
    TransportPoint,
    TransportSetting,
    flows,
)
from detour.experiments.fcplus.settings import SETTINGS_SEED, SweptSettings, TriedTransportSetting, swept, text_of
from detour.experiments.steady import spread

R = TypeVar("R", bound="OrderOfTies")

SAME = 0.02
"""completion times that differ by less are of equal rank: the paper's FC+ 2L and KSP are within 0.8 % of one another
for two of its three patterns"""

# -- rows ---------------------------------------------------------------------------------------------------


PaperRow = dict[str, Any]
"""a row of Tables I to IV, VI and VII by the names of what it shows, and `paper`"""
_PAPER_HEADS = {
    "n": ("switches", ""),
    "layers": ("k", "layers of FC"),
    "disjoint": ("edge-disjoint", ""),
    "paper_disjoint": ("paper", ""),
    "up_down": ("up-down", ""),
    "paper_up_down": ("paper", ""),
    "k": ("K", "paths of a pair"),
    "k2": ("K2", "paths that are examined until K are found"),
    "n_p": ("N_P", "up-down paths of a pair"),
    "n_p6": ("N_P6", "of at most 6 links"),
    "v": ("v", "virtual switches of a switch"),
    "longest": ("P max", "longest mean length of a pair's first 32 paths"),
    "shortest": ("P min", "shortest"),
    "n_p4": ("N_P4", "up-down paths of a pair of at most 4 links"),
    "paper": ("paper", ""),
}
"""by name: the head, and what it means"""
_DISJOINT = ("n", "layers", "disjoint", "paper_disjoint")
_FC_COUNTS = ("n", "layers", "n_p", "n_p6", "n_p4")
_FCPLUS_COUNTS = ("n", "v", "longest", "shortest", "n_p4")


@row
class OrderOfTies:
    """Throughput by order of ties, None where it was not run."""

    diverse: float | None = shown("diverse", means="ties among paths of equal length go to those that share least")
    plain: float | None = shown("plain", means="to the first ones")
    paper: float = shown("paper")

    @cell("plain off by %")
    def _off(self) -> str | None:
        """The paper breaks ties in plain order, so that is what its numbers are compared with."""
        ours = self.compared
        return None if ours is None else f"{100 * (ours / self.paper - 1):+.1f}"

    @property
    def compared(self) -> float | None:
        """The value that is compared with the paper's."""
        return self.plain


@row
class VirtualRow(OrderOfTies):
    """Table V."""

    v: int


@row
class ThroughputRow(OrderOfTies):
    """Table VIII."""

    network: str
    pattern: str

    @property
    def compared(self) -> float | None:
        """FC and the Clos have one order."""
        return self.diverse if self.plain is None and self.network in ("FC", "Clos") else self.plain


@row
class CompletionRow:
    """Table VIII's completion times: slowdowns, and us; the paper prints no unit."""

    pattern: str = shown("pattern")
    network: str = shown("network")
    sizes: str
    us: int
    seed: int
    p50: float = shown("p50")
    p99: float = shown("p99")
    paper_p50: float = shown("paper p50", means="completion time; the unit is not printed")
    paper_p99: float = shown("paper p99")
    p50_us: float = shown("p50 us", wide=True)
    p99_us: float = shown("p99 us", wide=True)
    messages: int = shown("messages", wide=True)
    unfinished: int = shown("not done", means="messages when time was over")
    mean_hops: float = shown("hops", wide=True)
    pauses: int = shown("pauses", wide=True)
    deadlock: bool = shown("deadlock")


@dataclass(frozen=True)
class NetworkOrder:
    """Networks from the least median slowdown to the largest, and whether the paper's order is the same."""

    pattern: str
    ours: list[str]
    paper: list[str]
    agrees: bool

    def __str__(self) -> str:
        theirs = f"the paper: {' < '.join(self.paper)}"
        verdict = "the paper's order, but for differences within 2 %" if self.agrees else theirs
        return f"{self.pattern}, median: {' < '.join(self.ours)} ({verdict})"


@row
class DeadlockRow:
    """A run with shallow buffers; `possible`: whether what is installed can deadlock; `failed`: links that are down;
    `guarded` False: who would close a cycle stayed in the last class; `goodput_gbps_anew`: where links are down, once
    routes were computed anew."""

    n: int = shown("switches")
    network: str
    guarded: bool = True

    @cell("routes", left=True)
    def _routes(self) -> str:
        down = f", {self.failed.count(',') + 1} down" if self.failed else ""
        return f"{self.network}{down}{'' if self.guarded else ', no guard'}"

    s: int
    seed: int
    dcqcn: bool = shown("DCQCN")
    failed: str = shown("down", lambda links: links or "-", wide=True, means="links that are", default="")
    deadlock: bool = shown("deadlock")
    possible: bool = shown("possible", means="a deadlock, by the dependencies of what is installed")
    remains: bool
    found_at_us: float | None = shown("at us", ".0f")
    stuck_queues: int = shown("queues", wide=True, means="that are stuck")
    goodput_gbps_before: float = shown("Gb/s")
    goodput_gbps_after: float = shown("after", means="Gb/s once a deadlock was found, or the time was over")
    goodput_gbps_anew: float | None = shown(
        "anew", ".1f", wide=True, means="Gb/s with routes computed anew", default=None
    )
    pauses: int = shown("pauses", wide=True)
    drops: int = shown("drops", wide=True)


@dataclass(frozen=True)
class OverDraws:
    """Mean and sample standard deviation (None of a single one) over draws."""

    mean: float
    spread: float | None

    def text(self, digits: int) -> str:
        """With its spread."""
        around = "" if self.spread is None else f" ± {self.spread:.{digits}f}"
        return f"{self.mean:.{digits}f}{around}"


def _over_draws(digits: int) -> Callable[[list[float]], OverDraws]:
    def over(values: list[float]) -> OverDraws:
        return OverDraws(round(statistics.fmean(values), digits), spread(values, digits))

    return over


def _text(digits: int) -> Callable[[OverDraws], str]:
    return lambda value: value.text(digits)


@row
class TransportRow:
    """A routing over a transport under a pattern, over `draws`; of `steady` of these what arrived had become steady.
    `pauses`, `drops` (packets), `retransmitted`, `unfinished`, `deadlocks` (runs): of all together; `buffer_kb`: of the
    fullest switch of any."""

    pattern: str = shown("pattern")
    transport: str = shown("transport")
    routing: str = shown("routing")
    goodput_gbps: OverDraws = shown(
        "Gb/s", _text(0), over=_over_draws(1),
        means="that arrived while messages did; ±: standard deviation over draws",
    )  # fmt: skip
    settled_gbps: OverDraws = shown(
        "settled", _text(0), over=_over_draws(1), wide=True, means="Gb/s behind the warm-up, or in the second half"
    )
    steady: int

    @cell("steady", means="draws in which that had become steady")
    def _steady(self) -> str:
        return f"{self.steady}/{self.draws}"

    offered_gbps: float = shown("of", over=mean(1), wide=True, means="Gb/s that messages asked for")
    p50: OverDraws = shown("p50", _text(2), means="slowdown: completion time over an idle path's")
    p99: OverDraws = shown("p99", _text(1))
    p99_us: OverDraws = shown("p99 us", _text(0), wide=True)
    buffer_kb: float = shown("buffer kB", ".0f", means="most that a switch held")
    mean_hops: float = shown("hops", over=mean(3), wide=True)
    pauses: int = shown("pauses", over=sum)
    drops: int = shown("drops", over=sum)
    retransmitted: int = shown("again", over=sum, wide=True, means="packets that were sent again")
    unfinished: int = shown("not done", over=sum, wide=True)
    deadlocks: int = shown("deadlocks")
    setting: str = shown("setting", wide=True)
    draws: int


@dataclass(frozen=True)
class FcplusFindings:
    """All results, and rows with ours beside the paper's, where ours was run."""

    points: list[FcplusPoint]
    table_1: list[PaperRow]
    table_2: list[PaperRow]
    table_3: list[PaperRow]
    table_4: list[PaperRow]
    table_5: list[VirtualRow]
    table_6: list[PaperRow]
    table_7: list[PaperRow]
    table_8: list[ThroughputRow]
    completion: list[CompletionRow]
    order: list[NetworkOrder]
    deadlocks: list[DeadlockRow]
    transports: list[TransportPoint] = field(default_factory=list)
    transport_rows: list[TransportRow] = field(default_factory=list)
    settings: list[SweptSettings] = field(default_factory=list)


# -- of points ----------------------------------------------------------------------------------------------


def collect(points: Sequence[FcplusPoint]) -> FcplusFindings:
    """All results, and tables of rows with ours beside the paper's."""
    transports = [point for point in points if isinstance(point, TransportPoint)]
    times = completion(points)
    return FcplusFindings(
        points=list(points),
        table_1=[
            _row_of(p, *_DISJOINT[:3], paper_disjoint=disjoint, up_down=p.up_down, paper_up_down=up_down)
            for p in _fc_results(points, 18, paper.TABLE_1)
            for up_down, disjoint in (paper.TABLE_1[p.n],)
        ],
        table_2=[_row_of(p, "n", "k", "k2", paper=paper.TABLE_2[p.n][p.k]) for p in points if isinstance(p, K2Point)],
        table_3=[
            _row_of(p, *_FC_COUNTS, paper=list(paper.TABLE_3[p.n][p.layers]))
            for p in points
            if isinstance(p, FcCountsPoint)
        ],
        table_4=[
            _row_of(p, *_FCPLUS_COUNTS, paper=list(paper.TABLE_4[p.n][p.v]))
            for p in points
            if isinstance(p, FcplusCountsPoint)
        ],
        table_5=_table_5_rows(points),
        table_6=_disjoint_rows(points, 18, paper.TABLE_6),
        table_7=_disjoint_rows(points, 22, paper.TABLE_7),
        table_8=_table_8_rows(points),
        completion=times,
        order=orders(times),
        deadlocks=deadlocks(points),
        transports=transports,
        transport_rows=transport_rows(transports),
        settings=swept(transports),
    )


def _fc_results(points: Sequence[FcplusPoint], s: int, sizes: Iterable[int]) -> list[FcPathsPoint]:
    return [p for p in points if isinstance(p, FcPathsPoint) and p.s == s and p.n in sizes]


def _row_of(point: FcplusPoint, *names: str, **more: Any) -> PaperRow:
    return {name: getattr(point, name) for name in names} | more


def _disjoint_rows(points: Sequence[FcplusPoint], s: int, theirs: dict[int, float]) -> list[PaperRow]:
    return [_row_of(p, *_DISJOINT[:3], paper_disjoint=theirs[p.n]) for p in _fc_results(points, s, theirs)]


def theta_of(points: Sequence[FcplusPoint], **values: int | str) -> float | None:
    """Median theta of the points with these values, None if there is none."""
    theta = [flow.theta for flow in flows(points, **values)]
    return round(statistics.median(theta), 5) if theta else None


def _by_ties(points: Sequence[FcplusPoint], kind: type[R], values: dict[str, Any], printed: float, **more: Any) -> R:
    """The row of the points with these values, in both orders of ties. `more`: values that a row does not have."""
    plain, diverse = (theta_of(points, ties=ties, **values, **more) for ties in ("plain", "diverse"))
    return kind(**values, plain=plain, diverse=diverse, paper=printed)


def _table_5_rows(points: Sequence[FcplusPoint]) -> list[VirtualRow]:
    rows = [_by_ties(points, VirtualRow, {"v": v}, printed, n=400, s=18) for v, printed in paper.TABLE_5.items()]
    return [row for row in rows if row.plain or row.diverse]


def _table_8_rows(points: Sequence[FcplusPoint]) -> list[ThroughputRow]:
    rows = [
        _by_ties(points, ThroughputRow, {"network": network, "pattern": pattern}, value, n=120, s=22, k=32)
        for network, printed in paper.TABLE_8.items()
        for pattern, value in printed.items()
    ]
    return [row for row in rows if row.plain or row.diverse]


def completion(results: Sequence[FcplusPoint]) -> list[CompletionRow]:
    """Table VIII's completion times beside the paper's."""
    rows = []
    for result in results:
        if isinstance(result, PacketsPoint):
            theirs = zip(("paper_p50", "paper_p99"), paper.TABLE_8_FCT[result.pattern][result.network], strict=True)
            slowdown, us = result.slowdown, result.fct_us
            ours = {"p50": slowdown.p50, "p99": slowdown.p99, "p50_us": us.p50, "p99_us": us.p99}
            rows.append(taken(CompletionRow, result, **ours, **dict(theirs)))
    return rows


def orders(rows: Sequence[CompletionRow]) -> list[NetworkOrder]:
    """Networks by median, per pattern."""
    ordered = []
    for pattern, printed in paper.TABLE_8_FCT.items():
        mine = grouped((row for row in rows if row.pattern == pattern), lambda row: row.network)
        ours = {name: statistics.median(row.p50 for row in mine[name]) for name in NETWORKS if name in mine}
        theirs = {name: printed[name][0] for name in ours}
        if mine:
            by_ours, by_theirs = sorted(ours, key=ours.__getitem__), sorted(theirs, key=theirs.__getitem__)
            ordered.append(NetworkOrder(pattern, by_ours, by_theirs, agrees(ours, theirs)))
    return ordered


def agrees(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    """Return whether no two networks are the other way round, where either side tells them apart by more than
    `SAME`."""
    for a, b in combinations(ours, 2):
        close = any(abs(side[a] - side[b]) <= SAME * max(side[a], side[b]) for side in (ours, theirs))
        if not close and (ours[a] < ours[b]) != (theirs[a] < theirs[b]):
            return False
    return True


def deadlocks(results: Sequence[FcplusPoint]) -> list[DeadlockRow]:
    """One row a run."""
    rows = []
    for result in results:
        if isinstance(result, StuckPoint):
            guarded, anew = result.guard is not False, given(result.goodput_gbps_anew, None)
            terms = {"guarded": guarded, "possible": result.network == "KSP" or not guarded}
            rows.append(taken(DeadlockRow, result, **terms, failed=given(result.fail, ""), goodput_gbps_anew=anew))
    return rows


def _setting_text(run: TransportPoint) -> str:
    return text_of(run.setting) if isinstance(run.setting, TransportSetting) else ""


def transport_rows(results: Sequence[TransportPoint]) -> list[TransportRow]:
    """A row for every pattern, transport, routing and setting, over its draws; the sweep's are none."""
    draws = [run for run in results if run.seed != SETTINGS_SEED]
    rows = grouped(draws, lambda run: (run.pattern, run.transport, run.routing, _setting_text(run), run.n))
    return [_transport_row(runs) for runs in rows.values()]


def _transport_row(runs: Sequence[TransportPoint]) -> TransportRow:
    slow = _over_draws(3)
    return combined(
        TransportRow,
        runs,
        setting=_setting_text(runs[0]),
        draws=len(runs),
        steady=sum(run.steady for run in runs),
        p50=slow([run.slowdown.p50 for run in runs]),
        p99=slow([run.slowdown.p99 for run in runs]),
        p99_us=_over_draws(1)([run.fct_us.p99 for run in runs]),
        buffer_kb=round(max(run.buffer_peak_bytes for run in runs) / 1000, 1),
        deadlocks=sum(run.deadlock for run in runs),
    )


# -- tables -------------------------------------------------------------------------------------------------


def tables(findings: FcplusFindings) -> list[Table[Any]]:
    """Tables I to VIII, completion times, deadlocks."""
    ties = columns(OrderOfTies)
    by_v = right("v", attrgetter("v"), means="virtual switches of a switch")
    by_network = [Column(name, attrgetter(name)) for name in ("network", "pattern")]
    orders = [str(order) for order in findings.order]
    slowdown = "Table VIII: slowdown of messages at load 0.7, packet by packet"
    return [
        Table(_heads(*_DISJOINT, "up_down", "paper_up_down"), findings.table_1, "Table I: paths of FC"),
        Table(_heads("n", "k", "k2", "paper"), findings.table_2, "Table II: K2"),
        Table(_beside_paper(_FC_COUNTS), findings.table_3, "Table III: up-down paths of FC"),
        Table(_beside_paper(_FCPLUS_COUNTS), findings.table_4, "Table IV: paths of FC+ by v"),
        Table((by_v, *ties), findings.table_5, "Table V: near-worst throughput by v, 400 switches"),
        Table(_heads(*_DISJOINT), findings.table_6, "Table VI: paths of FC, s = 18"),
        Table(_heads(*_DISJOINT), findings.table_7, "Table VII: paths of FC, s = 22"),
        Table((*by_network, *ties), findings.table_8, "Table VIII: throughput, 120 switches"),
        table(CompletionRow, findings.completion, slowdown, orders),
        table(DeadlockRow, findings.deadlocks, "PFC with shallow buffers"),
        table(TransportRow, findings.transport_rows, "Routings under real transports, at their best settings"),
        *(
            table(TriedTransportSetting, swept.tried, f"Settings of {swept.routing}, {swept.transport}, the best first")
            for swept in findings.settings
        ),
    ]


def _heads(*names: str) -> list[Column[Any]]:
    heads = [(name, *_PAPER_HEADS[name]) for name in names]
    return [right(head, itemgetter(name), means=means) for name, head, means in heads]


def _beside_paper(names: Sequence[str]) -> list[Column[Any]]:
    """Return columns that describe a network, and behind each number of ours the paper's."""
    network, size, *ours = _heads(*names)
    beside = [(column, right("paper", lambda row, at=at: row["paper"][at])) for at, column in enumerate(ours)]
    return [network, size, *(column for pair in beside for column in pair)]


def groups(points: Sequence[FcplusPoint]) -> list[str]:
    """A line for every question and pattern: which networks and how large."""
    questions = grouped(points, lambda point: f"{getattr(point, 'kind', '')} {getattr(point, 'pattern', '')}".strip())
    lines = []
    for what, mine in questions.items():
        sizes = ", ".join(map(str, sorted({point.n for point in mine})))
        networks = {point.network for point in mine if isinstance(point, NetworkPoint)}
        names = ", ".join(name for name in NETWORKS if name in networks)
        lines.append(f"{what}{' of ' * bool(names)}{names}, N = {sizes}: {len(mine)} points")
    return lines
