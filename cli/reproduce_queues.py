# SPDX-License-Identifier: Apache-2.0
"""`reproduce queues`: the traffic manager beside queueing theory."""

from __future__ import annotations

import argparse

from detour.cli.parser import Parser, fractions
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument("--load", type=fractions, metavar="L[,L...]", help="of M/D/1 and M/M/1 (0.3,0.5,0.7,0.8,0.9)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of arrivals and sizes (1)")


def run(options: argparse.Namespace) -> int:
    """Runs the points and prints; the exit code."""
    from detour.experiments.queues import experiment as queues
    from detour.experiments.reproduce import QUEUES

    points = queues.select(extent_of(options), options.load or queues.LOADS, options.seed)
    found = carry_out(options, QUEUES, points)
    return show(options, found, lambda page: page.tables(queues.tables(found.collected)))
