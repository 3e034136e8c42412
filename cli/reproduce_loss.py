# SPDX-License-Identifier: Apache-2.0
"""`reproduce loss`: what losses, reordering and contention cost a connection."""

from __future__ import annotations

import argparse

from detour.cli.parser import Parser, counts, draws, fractions
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument("--loss", type=fractions, metavar="P[,P...]", help="fractions of frames (0.001,0.01,0.05)")
    parser.add_argument("--senders", type=counts, metavar="N[,N...]", help="that share a link (2,4,8,16)")
    parser.add_argument("--seeds", type=draws, metavar="K", help="runs of each (5; --quick 1, --full 10)")


def run(options: argparse.Namespace) -> int:
    """Runs the points and prints; the exit code."""
    from detour.experiments.loss import experiment as loss
    from detour.experiments.loss.experiment import tables
    from detour.experiments.reproduce import LOSS_COST

    points = loss.select(
        extent_of(options), options.loss or loss.LOSSES, options.senders or loss.SENDERS, options.seeds
    )
    found = carry_out(options, LOSS_COST, points)
    return show(options, found, lambda page: page.tables(tables(found.collected)))
