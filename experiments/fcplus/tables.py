# SPDX-License-Identifier: Apache-2.0
"""The FC+ paper's tables, ours beside the paper's, and the packet level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detour.base.tables import CellValue, Column, Table, fixed, left, right, yes_no
from detour.experiments.fcplus.packet_level import NETWORKS
from detour.experiments.fcplus.results import (
    CompletionRow,
    DeadlockRow,
    FcplusFindings,
    FcplusPoint,
    NetworkOrder,
    NetworkPoint,
    OverDraws,
    ThroughputRow,
    TransportRow,
    TriedTransportSetting,
    VirtualRow,
)


def tables(found: FcplusFindings) -> list[Table[Any]]:
    """Tables I to VIII, completion times, deadlocks."""
    return [
        Table((*_DISJOINT, *_UP_DOWN), found.table_1, "Table I: paths of FC"),
        Table(_K2, found.table_2, "Table II: K2"),
        Table(_FC_COUNTS, found.table_3, "Table III: up-down paths of FC"),
        Table(_FCPLUS_COUNTS, found.table_4, "Table IV: paths of FC+ by v"),
        Table((_V, *_THETA), found.table_5, "Table V: near-worst throughput by v, 400 switches"),
        Table(_DISJOINT, found.table_6, "Table VI: paths of FC, s = 18"),
        Table(_DISJOINT, found.table_7, "Table VII: paths of FC, s = 22"),
        Table((*_NETWORK, *_THETA), found.table_8, "Table VIII: throughput, 120 switches"),
        Table(
            _COMPLETION,
            found.completion,
            "Table VIII: slowdown of messages at load 0.7, packet by packet",
            [_order(order) for order in found.order],
        ),
        Table(_DEADLOCKS, found.deadlocks, "PFC with shallow buffers"),
        Table(_TRANSPORTS, found.transport_rows, "Routings under real transports, at their best settings"),
        *(
            Table(_TRIED, one.tried, f"Settings of {one.routing}, {one.transport}, the best first")
            for one in found.settings
        ),
    ]


def _of(name: str) -> Callable[[Any], CellValue]:
    return lambda row: getattr(row, name)


def _paper(place: int) -> Column[Any]:
    return right("paper", lambda row: row.paper[place])


_SWITCHES = right("switches", _of("n"))
_LAYERS = right("k", _of("layers"), means="layers of FC")
_V = right("v", _of("v"), means="virtual switches of a switch")
_DISJOINT = (_SWITCHES, _LAYERS, right("edge-disjoint", _of("disjoint")), right("paper", _of("paper_disjoint")))
_UP_DOWN = (right("up-down", _of("up_down")), right("paper", _of("paper_up_down")))
_K2 = (
    _SWITCHES,
    right("K", _of("k"), means="paths of a pair"),
    right("K2", _of("k2"), means="paths that are examined until K are found"),
    right("paper", _of("paper")),
)
_N_P4 = right("N_P4", _of("n_p4"), means="up-down paths of a pair of at most 4 links")
_FC_COUNTS = (
    *(_SWITCHES, _LAYERS, right("N_P", _of("n_p"), means="up-down paths of a pair"), _paper(0)),
    *(right("N_P6", _of("n_p6"), means="of at most 6 links"), _paper(1), _N_P4, _paper(2)),
)
_FCPLUS_COUNTS = (
    *(_SWITCHES, _V, right("P max", _of("longest"), means="longest mean length of a pair's first 32 paths"), _paper(0)),
    *(right("P min", _of("shortest"), means="shortest"), _paper(1), _N_P4, _paper(2)),
)


def _off(row: VirtualRow | ThroughputRow) -> str | None:
    """By how many percent plain order is off the paper; FC and the Clos have one order."""
    one = isinstance(row, ThroughputRow) and row.network in ("FC", "Clos")
    ours = row.diverse if row.plain is None and one else row.plain
    return None if ours is None else f"{100 * (ours / row.paper - 1):+.1f}"


_NETWORK = (left("network", _of("network")), left("pattern", _of("pattern")))
# The paper breaks ties among equal lengths in plain order, so that is what its numbers are compared with.
_THETA = (
    right("diverse", _of("diverse"), means="ties among paths of equal length go to those that share least"),
    right("plain", _of("plain"), means="to the first ones"),
    right("paper", _of("paper")),
    right("plain off by %", _off),
)
_COMPLETION: tuple[Column[CompletionRow], ...] = (
    left("pattern", _of("pattern")),
    left("network", _of("network")),
    right("p50", _of("p50")),
    right("p99", _of("p99")),
    right("paper p50", _of("paper_p50"), means="completion time; the unit is not printed"),
    right("paper p99", _of("paper_p99")),
    right("p50 us", _of("p50_us"), wide=True),
    right("p99 us", _of("p99_us"), wide=True),
    right("messages", _of("messages"), wide=True),
    right("not done", _of("unfinished"), means="messages when time was over"),
    right("hops", _of("mean_hops"), wide=True),
    right("pauses", _of("pauses"), wide=True),
    left("deadlock", lambda row: yes_no(row.deadlock)),
)


def _routes(row: DeadlockRow) -> str:
    """`FC+ 1L, 3 down`."""
    down = f", {row.failed.count(',') + 1} down" if row.failed else ""
    return f"{row.network}{down}{'' if row.guarded else ', no guard'}"


_DEADLOCKS: tuple[Column[DeadlockRow], ...] = (
    _SWITCHES,
    left("routes", _routes),
    left("DCQCN", lambda row: yes_no(row.dcqcn)),
    left("down", lambda row: row.failed or "-", wide=True, means="links that are"),
    left("deadlock", lambda row: yes_no(row.deadlock)),
    left("possible", lambda row: yes_no(row.possible), means="a deadlock, by the dependencies of what is installed"),
    right("at us", lambda row: fixed(row.found_at_us, 0)),
    right("queues", _of("stuck_queues"), wide=True, means="that are stuck"),
    right("Gb/s", _of("goodput_gbps_before")),
    right("after", _of("goodput_gbps_after"), means="Gb/s once a deadlock was found, or the time was over"),
    right("anew", lambda row: fixed(row.goodput_gbps_anew, 1), wide=True, means="Gb/s with routes computed anew"),
    right("pauses", _of("pauses"), wide=True),
    right("drops", _of("drops"), wide=True),
)


def _mean(name: str, digits: int) -> Callable[[Any], str]:
    def text(row: TransportRow) -> str:
        value: OverDraws = getattr(row, name)
        around = "" if value.spread is None else f" ± {value.spread:.{digits}f}"
        return f"{value.mean:.{digits}f}{around}"

    return text


_TRANSPORTS: tuple[Column[TransportRow], ...] = (
    left("pattern", _of("pattern")),
    left("transport", _of("transport")),
    left("routing", _of("routing")),
    right("Gb/s", _mean("goodput_gbps", 0), means="that arrived while messages did; ±: standard deviation over draws"),
    right("settled", _mean("settled_gbps", 0), wide=True, means="Gb/s behind the warm-up, or in the second half"),
    right("steady", lambda row: f"{row.steady}/{row.draws}", means="draws in which that had become steady"),
    right("of", _of("offered_gbps"), wide=True, means="Gb/s that messages asked for"),
    right("p50", _mean("p50", 2), means="slowdown: completion time over an idle path's"),
    right("p99", _mean("p99", 1)),
    right("p99 us", _mean("p99_us", 0), wide=True),
    right("buffer kB", lambda row: fixed(row.buffer_kb, 0), means="most that a switch held"),
    right("hops", _of("mean_hops"), wide=True),
    right("pauses", _of("pauses")),
    right("drops", _of("drops")),
    right("again", _of("retransmitted"), wide=True, means="packets that were sent again"),
    right("not done", _of("unfinished"), wide=True),
    right("deadlocks", _of("deadlocks")),
    left("setting", _of("setting"), wide=True),
)
_TRIED: tuple[Column[TriedTransportSetting], ...] = (
    left("setting", _of("text")),
    right("Gb/s", lambda row: " / ".join(fixed(value, 0) or "" for value in row.gbps.values()), means="by pattern"),
    right("p99", lambda row: " / ".join(fixed(value, 1) or "" for value in row.p99.values())),
    right("score", _of("score"), means="geometric mean of p99; less is better"),
)


def _order(order: NetworkOrder) -> str:
    theirs = " < ".join(order.paper)
    verdict = "the paper's order, but for differences within 2 %" if order.agrees else f"the paper: {theirs}"
    return f"{order.pattern}, median: {' < '.join(order.ours)} ({verdict})"


def grouped(points: Sequence[FcplusPoint]) -> list[str]:
    """A line for every question and pattern: which networks and how large."""
    found: dict[str, list[FcplusPoint]] = {}
    for point in points:
        found.setdefault(f"{getattr(point, 'kind', '')} {getattr(point, 'pattern', '')}".strip(), []).append(point)
    lines = []
    for what, mine in found.items():
        sizes = ", ".join(map(str, sorted({point.n for point in mine})))
        networks = {point.network for point in mine if isinstance(point, NetworkPoint)}
        names = ", ".join(name for name in NETWORKS if name in networks)
        lines.append(f"{what}{' of ' * bool(names)}{names}, N = {sizes}: {len(mine)} points")
    return lines
