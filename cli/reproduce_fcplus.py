# SPDX-License-Identifier: Apache-2.0
"""`reproduce fcplus`: its options, its run and its tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.cli.output import emit, table
from detour.cli.parser import Parser
from detour.cli.reproduce_tables import CarryOut, rest

if TYPE_CHECKING:
    from rich.console import Console


def options_of(parser: Parser) -> None:
    """Adds the options of this experiment."""
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="wirings of Tables V and VIII (1)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw Figs. 3 to 7 (.png, .svg)")
    parser.add_argument(
        "--sizes", default="equal", choices=("equal", "web-search"), help="of messages at packet level (equal: 500 kB)"
    )


def run(options: argparse.Namespace, extent: str, carry_out: CarryOut) -> int:
    """Runs the points, draws and prints; the exit code."""
    from detour.experiments.fcplus import experiment as fcplus

    result = carry_out(options, "fcplus", fcplus.select(extent, options.seeds, options.sizes))
    if options.plot:
        from detour.experiments.fcplus import figures as fcplus_figures

        fcplus_figures.draw(result["points"], options.plot)
    emit(result, options.json, lambda console: show(console, result))
    return 1 if result["failures"] else 0


def show(console: Console, result: dict[str, Any]) -> None:
    """Tables I to VIII and the packet level, ours beside the paper's."""

    def tell(
        key: str, title: str, columns: tuple[str, ...], cells: Callable[[dict[str, Any]], tuple[Any, ...]]
    ) -> None:
        if result[key]:
            console.print(table(columns, [cells(row) for row in result[key]], title))

    def paired(ours: list[float], theirs: list[float]) -> tuple[Any, ...]:
        return tuple(value for pair in zip(ours, theirs, strict=True) for value in pair)

    fc = (">switches", ">k", ">edge-disjoint", ">paper")
    tell("table_1", "Table I: paths of FC", (*fc, ">up-down", ">paper"), lambda r: (
        r["n"], r["layers"], r["disjoint"], r["paper_disjoint"], r["up_down"], r["paper_up_down"]))  # fmt: skip
    tell(
        "table_2", "Table II: K2", (">switches", ">K", ">K2", ">paper"), lambda r: (r["n"], r["k"], r["k2"], r["paper"])
    )
    counts = (">N_P", ">paper", ">N_P6", ">paper", ">N_P4", ">paper")
    tell("table_3", "Table III: up-down paths of FC", (">switches", ">k", *counts), lambda r: (
        r["n"], r["layers"], *paired([r["n_p"], r["n_p6"], r["n_p4"]], r["paper"])))  # fmt: skip
    counts = (">P max", ">paper", ">P min", ">paper", ">N_P4", ">paper")
    tell("table_4", "Table IV: paths of FC+ by v", (">switches", ">v", *counts), lambda r: (
        r["n"], r["v"], *paired([r["longest"], r["shortest"], r["n_p4"]], r["paper"])))  # fmt: skip
    # The paper breaks ties among equal lengths in plain order, so that is what its numbers are compared with.
    flows = (">diverse", ">plain", ">paper", ">plain off by %")
    tell("table_5", "Table V: near-worst throughput by v, 400 switches", (">v", *flows), lambda r: (
        r["v"], r["diverse"], r["plain"], r["paper"], _off(r)))  # fmt: skip
    for key, title in (("table_6", "Table VI: paths of FC, s = 18"), ("table_7", "Table VII: paths of FC, s = 22")):
        tell(key, title, fc, lambda r: (r["n"], r["layers"], r["disjoint"], r["paper_disjoint"]))
    tell("table_8", "Table VIII: throughput, 120 switches", ("network", "pattern", *flows), lambda r: (
        r["network"], r["pattern"], r["diverse"], r["plain"], r["paper"], _off(r)))  # fmt: skip
    _packets(console, result)
    rest(console, result, grouped)


def _off(row: dict[str, Any]) -> str:
    """By how many percent plain order is off the paper; FC and the Clos have one order."""
    ours = row["diverse"] if row["plain"] is None and row.get("network") in ("FC", "Clos") else row["plain"]
    return "–" if ours is None else f"{100 * (ours / row['paper'] - 1):+.1f}"


def _packets(console: Console, result: dict[str, Any]) -> None:
    """Completion times, orders, deadlocks."""
    if result["completion"]:
        ours = (">p50", ">p99", ">paper p50", ">paper p99", ">p50 us", ">p99 us")
        columns = ("pattern", "network", *ours, ">messages", ">unfinished", ">hops", ">pauses", "deadlock")
        values = ("pattern", "network", "p50", "p99", "paper_p50", "paper_p99", "p50_us", "p99_us")
        rows = [
            (*(r[v] for v in (*values, "messages", "unfinished", "mean_hops", "pauses")), yes_no(r["deadlock"]))
            for r in result["completion"]
        ]
        console.print(table(columns, rows, "Table VIII: slowdown of messages at load 0.7, packet by packet"))
    for order in result["order"]:
        paper = " < ".join(order["paper"])
        verdict = "the paper's order, but for differences within 2 %" if order["agrees"] else f"the paper: {paper}"
        console.print(f"{order['pattern']}, median: {' < '.join(order['ours'])} ({verdict})")
    if result["deadlocks"]:
        columns = (">switches", "routes", "DCQCN", "deadlock", "possible", ">at us", ">queues", ">Gb/s", ">after")
        names = ("found_at_us", "stuck_queues", "goodput_gbps_before", "goodput_gbps_after")
        rows = [
            (
                *(r["n"], r["network"], *(yes_no(r[name]) for name in ("dcqcn", "deadlock", "possible"))),
                *(r[name] for name in (*names, "pauses", "drops")),
            )
            for r in result["deadlocks"]
        ]
        console.print(table((*columns, ">pauses", ">drops"), rows, "PFC with shallow buffers"))


def grouped(points: list[dict[str, Any]]) -> list[str]:
    """A line for every question and pattern: which networks and how large."""
    from detour.experiments.fcplus.packet_level import NETWORKS

    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for point in points:
        found.setdefault((point["kind"], point.get("pattern", "")), []).append(point)
    lines = []
    for (kind, pattern), mine in found.items():
        sizes = ", ".join(map(str, sorted({point["n"] for point in mine})))
        names = [name for name in NETWORKS if any(point.get("network") == name for point in mine)]
        what = f"{kind} {pattern}".strip() + (f" of {', '.join(names)}" if names else "")
        lines.append(f"{what}, N = {sizes}: {len(mine)} points")
    return lines


def yes_no(value: bool) -> str:
    """As tables have it."""
    return "yes" if value else "no"
