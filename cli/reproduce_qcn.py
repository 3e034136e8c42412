# SPDX-License-Identifier: Apache-2.0
"""`reproduce qcn-switch`: its options, its run and its tables."""

from __future__ import annotations

import argparse
from dataclasses import replace

from detour.base.errors import DetourError
from detour.cli.parser import Parser, floats, output_file
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds the options of this experiment."""
    parser.add_argument("--topology", default="", metavar="SPEC", help="dragonfly:p=4,a=8,h=4 (--quick: p=2,a=4,h=2)")
    parser.add_argument("--routing", type=_names, default=(), metavar="NAME[,NAME...]", help="(all)")
    parser.add_argument("--pattern", type=_names, default=(), metavar="UN,ADV,ADVc", help="(all)")
    parser.add_argument("--loads", type=_loads, default=(), metavar="L[,L...]", help="offered, 0 to 1 (a spread)")
    parser.add_argument("--windows", type=_windows, default=(0, 0), metavar="WARM,COUNT", help="us of virtual time")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="(1)")
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="draw Figs. 3, 7 and 8 (.png, .svg)")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _loads(text: str) -> tuple[float, ...]:
    found = floats(text)
    if not found:
        raise DetourError(f"--loads {text}: loads are numbers, such as 0.1,0.4")
    return found


def _windows(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isdecimal() and 0 < int(part) <= 1_000_000 for part in parts):
        raise DetourError(f"--windows {text}: two numbers of microseconds, until counting begins and counting")
    return int(parts[0]), int(parts[1])


def run(options: argparse.Namespace) -> int:
    """Runs the points, draws and prints; the exit code."""
    from detour.experiments.qcn import experiment as qcn_switch
    from detour.experiments.qcn.tables import tables
    from detour.experiments.reproduce import QCN_SWITCH

    points = qcn_switch.select(
        extent_of(options),
        topology=options.topology,
        routing=options.routing,
        pattern=options.pattern,
        loads=options.loads,
        windows=options.windows,
        seed=options.seed,
    )
    found = carry_out(options, QCN_SWITCH, points)
    collected = replace(found.collected, loads_left_out=qcn_switch.loads_left_out(points))
    if options.plot:
        from detour.experiments.qcn import figures as qcn_figures

        qcn_figures.curves(collected, options.plot)
    return show(options, replace(found, collected=collected), lambda page: page.tables(tables(collected)))
