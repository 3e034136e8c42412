# SPDX-License-Identifier: Apache-2.0
"""`reproduce fors`: its options, its run and its tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.cli.output import emit, table
from detour.cli.parser import Parser, byte_count
from detour.cli.reproduce_tables import CarryOut, rest

if TYPE_CHECKING:
    from rich.console import Console


def options_of(parser: Parser) -> None:
    """Adds the options of this experiment."""
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="draws phases and the spines of 1-3F SW0 (1)")
    parser.add_argument("--message", type=byte_count, metavar="BYTES", help="of every message (600k)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw throughput and phases (.png, .svg)")


def run(options: argparse.Namespace, extent: str, carry_out: CarryOut) -> int:
    """Runs the points, draws and prints; the exit code."""
    from detour.experiments.fors import experiment as fors

    result = carry_out(options, "fors", fors.select(extent, options.seed, options.message or fors.MESSAGE))
    if options.plot:
        from detour.experiments.fors import figures

        figures.fors(result, options.plot)
    emit(result, options.json, lambda console: show(console, result))
    return 1 if result["failures"] else 0


def show(console: Console, result: dict[str, Any]) -> None:
    """Throughput by scenario, then times and phases."""

    def cell(value: float | None, digits: int = 1) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    rows = [
        (
            row["scenario"],
            row["phases"] or "-",
            *(cell(row[key]) for key in ("fors_gbps", "fors_paper")),
            cell(row["fors_relative"], 3),
            row["default"] or "-",
            *(cell(row[key]) for key in ("default_gbps", "default_paper")),
            cell(row["default_relative"], 3),
            cell(row["ftree_ar_gbps"]),
        )
        for row in result["throughput"]
    ]
    columns = (
        *("failed", ">phases", ">FORS", ">paper", ">to 0F", "OpenSM's", ">its", ">paper", ">to FORS 0F", ">Ftree-AR"),
    )
    console.print(table(columns, rows, f"{result['topology']}: throughput a server, Gb/s"))
    _breaks(console, result["breaks"])
    times = [
        (t["scenario"], t["phases"], t["lower_bound"], t["method"], *(f"{v * 1e3:.1f}" for v in t["seconds"].values()))
        for t in result["times"]
    ]
    title = f"computing, ms (paper: {result['paper_seconds']['mean']} s on average where its ILP is needed)"
    columns = ("failed", ">phases", ">bound", "method", ">schedule", ">route", ">verify")
    console.print(table(columns, times, title))
    shown = [
        (p["topology"], f, p["phases"][f], p["paper_phases"][f], cell(p["factor"][f], 3), cell(p["paper_factor"][f], 3))
        for p in result["phases"]
        for f in (1, len(p["phases"]) // 4, len(p["phases"]) // 2)
    ]
    columns = ("fabric", ">f", ">phases", ">paper's formula", ">factor", ">paper's")
    console.print(table(columns, shown, "phases with f failed links at a leaf (Fig. 7)"))
    rest(console, result)


def _breaks(console: Console, runs: list[dict[str, Any]]) -> None:
    rows = []
    for found in runs:
        story, lengths, counts = found["detections"][0], found["phase_lengths_us"], found["exchange"]
        first = story["in_force_from_phase"]
        after = lengths[first + 1 :] if first is not None else []
        before = next(k for k in range(len(lengths)) if sum(lengths[: k + 1]) > found["broke_us"])
        mean = [f"{sum(part) / len(part):.1f}" if part else "-" for part in (lengths[:before], after)]
        times = [f"{story[name]:.0f}" if story[name] is not None else "-" for name in _STEPS]
        delivered = f"{counts['delivered']} of {counts['messages']}"
        rows.append((found["routing"], f"{found['broke_us']:.0f}", *times, *mean, delivered, counts["repeated"]))
    columns = ("routing", ">broke", ">noticed", ">told", ">in force", ">phase before", ">after", ">delivered", ">twice")
    if rows:
        console.print(table(columns, rows, "a link breaks in the midst of an exchange, us"))


_STEPS = ("detected_us", "hosts_told_us", "in_force_us")
