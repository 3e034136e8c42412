# SPDX-License-Identifier: Apache-2.0
"""`reproduce loss`: what losses, reordering and contention cost a connection."""

from __future__ import annotations

import argparse

from detour.base.errors import DetourError
from detour.cli.parser import Parser
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument("--loss", type=_fractions, metavar="P[,P...]", help="fractions of frames (0.001,0.01,0.05)")
    parser.add_argument("--senders", type=_counts, metavar="N[,N...]", help="that share a link (2,4,8,16)")
    parser.add_argument("--seeds", type=int, metavar="K", help="runs of each (5; --quick 1, --full 10)")


def _fractions(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise DetourError(f"--loss {text}: fractions are numbers, such as 0.001,0.01") from None


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise DetourError(f"--senders {text}: whole numbers, such as 2,16") from None


def run(options: argparse.Namespace) -> int:
    """Runs the points and prints; the exit code."""
    from detour.experiments.loss import experiment as loss
    from detour.experiments.loss.tables import tables
    from detour.experiments.reproduce import LOSS_COST

    if options.seeds is not None and options.seeds < 1:
        raise DetourError(f"{options.seeds} seeds; at least 1 is needed")
    points = loss.select(
        extent_of(options), options.loss or loss.LOSSES, options.senders or loss.SENDERS, options.seeds
    )
    found = carry_out(options, LOSS_COST, points)
    return show(options, found, lambda page: page.tables(tables(found.collected)))
