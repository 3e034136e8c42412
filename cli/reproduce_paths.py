# SPDX-License-Identifier: Apache-2.0
"""`reproduce path-placement`: a throttled link, and a flow that gets out of its way."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.cli.output import emit, table
from detour.cli.parser import Parser, seconds

if TYPE_CHECKING:
    from rich.console import Console

    from detour.experiments.reproduce import Means

Carry = Callable[[argparse.Namespace, str, list[dict[str, Any]], "Means | None"], dict[str, Any]]


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument(
        "--footing", default="virtual", metavar="virtual|real|bmv2", help="100 Gb/s in virtual time, or the wall clock"
    )
    parser.add_argument("--seconds", type=seconds, metavar="S", help="length of each run (30; virtual: 0.03)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw throughput over time, as Fig. 3 (.png, .svg)")


def run(options: argparse.Namespace, extent: str, carry_out: Carry) -> int:
    """Carries it out and prints it."""
    from detour.experiments.placement import experiment as path_placement
    from detour.experiments.reproduce import Means

    points = path_placement.select(options.footing, extent, options.seconds)
    reason = _missing() if options.footing == "bmv2" else None
    if reason:
        result = path_placement.collect([]) | {"skipped": reason, "failures": []}
        emit(result, options.json, lambda console: console.print(f"skipped: {reason}"))
        return 0
    # On the wall clock runs must not get in each other's way, and what they find is not to be had again from a file.
    means = None if options.footing == "virtual" else Means()
    result = carry_out(options, "path-placement", points, means)
    if options.plot:
        from detour.experiments.placement import figures

        figures.rerouting(result["runs"], options.plot)
    emit(result, options.json, lambda console: show(console, result))
    return 1 if result["failures"] else 0


def _missing() -> str | None:
    from detour.fabric.footings.bmv2.switch import missing

    return missing()


def show(console: Console, result: dict[str, Any]) -> None:
    """Ours beside the paper's."""
    paper = result["paper"]["delivered_fraction"]
    rows = [
        (r["mode"], f"{r['delivered_gb']:.4g}", _share(r["delivered_fraction"]), _share(paper.get(r["mode"])),
         _time(r["reroute_s"]), None if r["reroute_rtts"] is None else f"{r['reroute_rtts']:.1f}",
         _time(r["recovery_s"]), r["reroutes"], r["lost_bytes"], r["duplicate_bytes"],
         "yes" if r["in_order"] else "NO")
        for r in result["runs"]
    ]  # fmt: skip
    names = (
        "rerouting", ">delivered, Gb", ">of uncongested", ">paper", ">rerouted after", ">RTTs", ">recovered after",
        ">moves", ">bytes lost", ">repeated", "whole, in order",
    )  # fmt: skip
    console.print(table(names, rows, f"{result['throttled']} at {result['throttle']:.0%} of its rate"))
    _show_switches(console, result["runs"])
    volumes = result["paper"]["delivered_gb"]
    console.print(
        f"paper: {volumes['none']} Gb without and {volumes['controller']} Gb with rerouting in "
        f"{result['paper']['seconds']:g} s, rerouted about {result['paper']['reroute_s'] * 1e3:g} ms after the onset"
    )
    for failure in result["failures"]:
        console.print(f"failed: {failure['point']['mode']}: {failure['reason']}")


def _show_switches(console: Console, runs: list[dict[str, Any]]) -> None:
    rows = [
        (r["mode"], at["switch"], at["packets"], at["ecn_packets"], f"{at['delay_s'] * 1e6:.2f} us",
         f"{at['worst_window_delay_s'] * 1e6:.2f} us")
        for r in runs
        for at in r["switches"]
    ]  # fmt: skip
    if rows:
        names = ("rerouting", "switch", ">packets", ">marked", ">mean delay", ">in the worst window")
        console.print(table(names, rows, "the flow as the switches saw it"))


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.2%}"


def _time(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"
