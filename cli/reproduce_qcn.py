# SPDX-License-Identifier: Apache-2.0
"""`reproduce qcn-switch`: its options, its run and its tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.output import emit, table
from detour.cli.parser import Parser
from detour.cli.reproduce_tables import CarryOut, rest

if TYPE_CHECKING:
    from rich.console import Console


def options_of(parser: Parser) -> None:
    """Adds the options of this experiment."""
    parser.add_argument("--topology", default="", metavar="SPEC", help="dragonfly:p=4,a=8,h=4 (--quick: p=2,a=4,h=2)")
    parser.add_argument("--routing", type=_names, default=(), metavar="NAME[,NAME...]", help="(all)")
    parser.add_argument("--pattern", type=_names, default=(), metavar="UN,ADV,ADVc", help="(all)")
    parser.add_argument("--loads", type=_loads, default=(), metavar="L[,L...]", help="offered, 0 to 1 (a spread)")
    parser.add_argument("--windows", type=_windows, default=(0, 0), metavar="WARM,COUNT", help="us of virtual time")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="(1)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw Figs. 3, 7 and 8 (.png, .svg)")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _loads(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise DetourError(f"--loads {text}: loads are numbers, such as 0.1,0.4") from None


def _windows(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isdecimal() and 0 < int(part) <= 1_000_000 for part in parts):
        raise DetourError(f"--windows {text}: two numbers of microseconds, until counting begins and counting")
    return int(parts[0]), int(parts[1])


def run(options: argparse.Namespace, extent: str, carry_out: CarryOut) -> int:
    """Runs the points, draws and prints; the exit code."""
    from detour.experiments.qcn import experiment as qcn_switch

    points = qcn_switch.select(
        qcn_switch.QcnSelection(
            options.topology, options.routing, options.pattern, options.loads, extent, options.seed, *options.windows
        )
    )
    result = carry_out(options, "qcn-switch", points)
    result["loads_left_out"] = qcn_switch.loads_left_out(points)
    if options.plot:
        from detour.experiments.qcn import figures as qcn_figures

        qcn_figures.curves(result, options.plot)
    emit(result, options.json, lambda console: show(console, result))
    return 1 if result["failures"] else 0


def show(console: Console, result: dict[str, Any]) -> None:
    """Curves, landmarks, the paper's words."""
    rows = [
        (
            one["pattern"],
            one["routing"],
            f"{one['load']:.2f}",
            f"{one['accepted']:.3f}",
            f"{one['latency_ns'] / 1e3:.2f}",
            f"{one['network_ns'] / 1e3:.2f}",
            f"{one['switches']:.2f}",
            f"{one['minimal']:.3f}",
            one["messages"],
        )
        for one in sorted(result["curves"], key=lambda one: (one["pattern"], one["routing"], one["load"]))
    ]
    columns = (
        *("pattern", "routing", ">load", ">accepted", ">latency, us", ">in the network", ">switches"),
        *(">minimal", ">messages"),
    )
    console.print(table(columns, rows, "accepted throughput and latency"))
    rows = [
        (
            one["routing"],
            *(_saturation(one, pattern) for pattern in ("UN", "ADV", "ADVc")),
            _cell(one["un_drop"]),
            _cell(one["adv_latency"], 2),
            _cell(one["fairness"]),
        )
        for one in result["landmarks"]
    ]
    columns = (*("routing", ">UN", ">ADV", ">ADVc", ">UN drop", ">ADV latency / VAL", ">least / mean injection"),)
    console.print(table(columns, rows, "saturation throughput and other landmarks"))
    rows = [(one["pattern"], one["routing"], one["says"]) for one in result["paper"]]
    console.print(table(("pattern", "routing", "what the paper says"), rows))
    for pattern, loads in result["loads_left_out"].items():
        console.print(f"{pattern}: not measured at loads {', '.join(f'{load:g}' for load in loads)} (--full does)")
    rest(console, result)


def _saturation(landmarks: dict[str, Any], pattern: str) -> str:
    """Beyond the highest load that was measured there may be more."""
    text = _cell(landmarks["saturation"][pattern])
    return text if landmarks["saturated"][pattern] or text == "-" else f"above {text}"


def _cell(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
