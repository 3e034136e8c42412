# SPDX-License-Identifier: Apache-2.0
"""`reproduce fcplus`: its options, its run and its tables."""

from __future__ import annotations

import argparse

from detour.base.errors import DetourError
from detour.cli.parser import Parser, output_file
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds the options of this experiment."""
    parser.add_argument("--seeds", type=int, metavar="K", help="wirings of Tables V and VIII (1), or of transports (5)")
    parser.add_argument(
        "--part",
        default="paper",
        choices=("paper", "transports", "settings"),
        help="the paper's evaluation; FC+ beside ECMP, KSP, shortest-union, UGAL and SprayLERP under real transports; "
        "or what each of these can be set to (paper)",
    )
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="draw Figs. 3 to 7 (.png, .svg)")
    parser.add_argument(
        "--sizes", default="equal", choices=("equal", "web-search"), help="of messages at packet level (equal: 500 kB)"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the points, draws and prints; the exit code."""
    from detour.experiments.fcplus import experiment as fcplus
    from detour.experiments.fcplus.tables import grouped, tables
    from detour.experiments.reproduce import FCPLUS

    if options.plot and options.part != "paper":
        raise DetourError(f"--plot draws the paper's figures; --part {options.part} has none")
    if options.seeds is not None and options.seeds < 1:
        raise DetourError(f"--seeds {options.seeds} is less than 1")
    points = fcplus.select(extent_of(options), options.seeds, options.sizes, options.part)
    found = carry_out(options, FCPLUS, points)
    if options.plot:
        from detour.experiments.fcplus import figures as fcplus_figures

        fcplus_figures.draw(found.collected.points, options.plot)
    return show(options, found, lambda page: page.tables(tables(found.collected)), grouped)
