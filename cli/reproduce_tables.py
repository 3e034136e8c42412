# SPDX-License-Identifier: Apache-2.0
"""What `reproduce` prints for people: our values beside the paper's."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from detour.cli.output import table

if TYPE_CHECKING:
    from rich.console import Console

CarryOut = Callable[[argparse.Namespace, str, list[dict[str, Any]]], dict[str, Any]]
"""computes the points of a sweep by its name, as the options say"""

_SHOWN = 10


def nonshortest(console: Console, result: dict[str, Any]) -> None:
    """A row for every scheme and number of pairs, averaged over seeds; Table III's gains; what is missing."""
    points = result["points"]
    columns = ("topology", "pattern", ">pairs", "scheme", ">seeds", ">wire Gb/s", ">goodput", ">ceiling", ">% of it",
               ">paper", ">T", ">fairness", ">reroutes", ">drops", ">pauses", ">MIN %", "steady")  # fmt: skip
    keys = dict.fromkeys((p["topology"], p["pattern"], p["pairs"], p["scheme"]) for p in points)
    rows = [_row(key, [p for p in points if _key(p) == key]) for key in keys]
    console.print(table(columns, rows))
    if result["gains"]:
        gains = [
            (g["topology"], g["pattern"], g["pairs"], g["load"], f"{g['gain']:+.1f}", _signed(g["paper_gain"]))
            for g in result["gains"]
        ]
        names = ("topology", "pattern", ">pairs", "load", ">ahead by %", ">paper %")
        console.print(table(names, gains, "TelemetryLERP against Benchmark"))
    _times(console, points)
    rest(console, result)


def _key(point: dict[str, Any]) -> tuple[Any, ...]:
    return point["topology"], point["pattern"], point["pairs"], point["scheme"]


def _row(key: tuple[Any, ...], runs: Sequence[dict[str, Any]]) -> tuple[Any, ...]:
    wire, ceiling = _mean(runs, "wire_gbps"), _mean(runs, "ceiling_gbps")
    share = [r["min_share"] for r in runs if r["min_share"] is not None]
    fair = [r["fairness"] for r in runs if "fairness" in r]
    thresholds = sorted({r["threshold"] for r in runs})
    steady = "yes" if all(r.get("converged", True) for r in runs) else "no"
    return (
        *key[:3],
        key[3],
        len(runs),
        f"{wire:.0f}",
        f"{_mean(runs, 'goodput_gbps'):.0f}",
        f"{ceiling:.0f}",
        f"{100 * wire / ceiling:.1f}",
        None if runs[0]["paper"] is None else f"{runs[0]['paper']:.0f}",
        ",".join(map(str, thresholds)) if key[3] == "Benchmark" else None,
        f"{statistics.fmean(fair):.3f}" if fair else None,
        f"{_mean(runs, 'reroutes'):.0f}",
        f"{_mean(runs, 'drops'):.0f}",
        f"{_mean(runs, 'pauses'):.0f}",
        f"{100 * statistics.fmean(share):.0f}" if share else None,
        "deadlock" if any(r["deadlock"] for r in runs) else steady,
    )


def _mean(runs: Iterable[dict[str, Any]], field: str) -> float:
    return statistics.fmean(run[field] for run in runs)


def _signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+.0f}"


def _times(console: Console, points: Sequence[dict[str, Any]]) -> None:
    """Completion times, where messages were sent."""
    rows = [
        (*_key(p), p["seed"], *(f"{p['fct_us'][name]:.1f}" for name in ("mean", "p50", "p99", "max")), p["unfinished"])
        for p in points
        if p.get("fct_us")
    ]
    if rows:
        names = (
            "topology",
            "pattern",
            ">pairs",
            "scheme",
            ">seed",
            ">mean",
            ">median",
            ">99 %",
            ">last",
            ">unfinished",
        )
        console.print(table(names, rows, "completion times in us"))


def pfc_gain(console: Console, result: dict[str, Any]) -> None:
    """Table I, goodput."""
    rows = [
        (
            p["connections"],
            *(f"{p[name]:.0f}" for name in ("lerp_gbps", "pfc_gbps", "bound_gbps")),
            f"{p['gain']:.1f}",
            *("–" if p[name] is None else f"{p[name]:.0f}" for name in ("paper_lerp_gbps", "paper_pfc_gbps")),
            None if p["paper_gain"] is None else f"{p['paper_gain']:.1f}",
        )
        for p in result["points"]
    ]
    columns = (
        ">connections",
        ">LERP Gb/s",
        ">PFC Gb/s",
        ">max-min",
        ">gain %",
        ">paper LERP",
        ">paper PFC",
        ">paper %",
    )
    console.print(table(columns, rows, f"{result['topology']}, goodput"))
    rest(console, result)


def deadlock(console: Console, result: dict[str, Any]) -> None:
    """One row a run, and the queues of those that are stuck."""
    rows = [
        (
            p["case"],
            p["seed"],
            "yes" if p["deadlock"] else "no",
            "yes" if p["paper"] else "no",
            None if p["found_at_us"] is None else f"{p['found_at_us']:.0f}",
            f"{p['goodput_gbps_before']:.1f}",
            f"{p['goodput_gbps_after']:.1f}",
            p["pauses"],
            p["drops"],
        )
        for p in result["points"]
    ]
    columns = ("case", ">seed", "deadlock", "paper", ">found at us", ">Gb/s before", ">after", ">pauses", ">drops")
    console.print(table(columns, rows, result["topology"]))
    for point in result["points"]:
        if point["queues"]:
            console.print(f"{point['case']}, seed {point['seed']}: stuck are {'; '.join(point['queues'])}")
    rest(console, result)


def rest(
    console: Console, result: dict[str, Any], groups: Callable[[list[dict[str, Any]]], list[str]] | None = None
) -> None:
    """Failures and points left out; `groups` says in lines what these are where they are too many to be named."""
    for failure in result["failures"]:
        console.print(f"failed: {describe(failure['point'])}: {failure['reason']}")
    left_out = sorted(result["left_out"], key=describe)
    if left_out:
        console.print(f"left out: {len(left_out)} points beyond the time of --quick (--json names them)")
        shown = groups(left_out) if groups else [describe(point) for point in left_out[:_SHOWN]]
        for line in shown:
            console.print(f"  {line}")


def describe(point: dict[str, Any]) -> str:
    """A point in a few words."""
    names = (
        *("kind", "topology", "pattern", "case", "network", "scheme", "pairs", "connections", "threshold", "scenario"),
        *("routing", "n", "s", "v", "layers", "k", "ties", "us", "sizes", "dcqcn", "seed"),
    )
    return ", ".join(f"{name} {point[name]}" for name in names if point.get(name) is not None)
