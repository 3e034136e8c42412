# SPDX-License-Identifier: Apache-2.0
"""`reproduce fors`: its options, its run and its tables."""

from __future__ import annotations

import argparse

from detour.cli.parser import Parser, byte_count, output_file
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds the options of this experiment."""
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="draws phases and the spines of 1-3F SW0 (1)")
    parser.add_argument("--message", type=byte_count, metavar="BYTES", help="of every message (600k)")
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="draw throughput and phases (.png, .svg)")


def run(options: argparse.Namespace) -> int:
    """Runs the points, draws and prints; the exit code."""
    from detour.experiments.fors import experiment as fors
    from detour.experiments.fors.tables import tables
    from detour.experiments.reproduce import FORS

    points = fors.select(extent_of(options), options.seed, options.message or fors.MESSAGE)
    found = carry_out(options, FORS, points)
    if options.plot:
        from detour.experiments.fors import figures

        figures.fors(found.collected, options.plot)
    return show(options, found, lambda page: page.tables(tables(found.collected)))
