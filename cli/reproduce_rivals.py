# SPDX-License-Identifier: Apache-2.0
"""`reproduce rivals`: SprayLERP beside other ways to choose paths."""

from __future__ import annotations

import argparse
from dataclasses import replace

from detour.cli.parser import Parser, archive_file, draws, output_file
from detour.cli.reproducing import carry_out, extent_of, means_of, show

_QUICK_SECONDS = 240.0
"""for the usual selection on two idle cores"""


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument("--topology", action="append", metavar="SPEC", help="D1, D2, D3 or a topology; repeatable")
    parser.add_argument("--pattern", action="append", metavar="NAME", help="a traffic pattern; repeatable")
    parser.add_argument(
        "--bytes", action="append", type=int, metavar="N", help="of a message, 0: connections without end; repeatable"
    )
    parser.add_argument("--scheme", action="append", metavar="NAME", help="repeatable")
    parser.add_argument("--seeds", type=draws, metavar="K", help="draws of pairs (5; --quick 1, --full 10)")
    parser.add_argument(
        "--write", type=output_file, metavar="FILE", help="write the page there as well (docs/rivals.md)"
    )
    archive = parser.add_mutually_exclusive_group()
    archive.add_argument(
        "--keep",
        type=output_file,
        metavar="FILE",
        help="run what a file lacks, and add it there (docs/rivals.jsonl.xz)",
    )
    archive.add_argument(
        "--from", dest="source", type=archive_file, metavar="FILE", help="run nothing: take everything out of that file"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the points and prints; the exit code."""
    from detour.experiments.reproduce import RIVALS
    from detour.experiments.rivals import points as rivals
    from detour.experiments.rivals.archive import keep, points_in
    from detour.experiments.rivals.page import write
    from detour.experiments.rivals.tables import goals_table, tables

    usual = rivals.usual(extent_of(options))
    wanted = replace(
        usual,
        topologies=options.topology or usual.topologies,
        patterns=options.pattern or usual.patterns,
        sizes=options.bytes or usual.sizes,
        schemes=options.scheme or usual.schemes,
        draws=options.seeds or usual.draws,
    )
    means = replace(means_of(options, RIVALS.name), archive=options.source)
    if options.source is None:
        points = rivals.select(wanted)
    else:  # all that it has, also of what is not usual
        points = points_in(options.source, replace(wanted, sizes=options.bytes or rivals.SIZES), options.topology)
    if options.keep is not None and options.keep.exists():
        known = set(points_in(options.keep, wanted, options.topology))
        points = [point for point in points if point not in known]
    if options.quick:
        means = replace(means, budget_s=_QUICK_SECONDS)
    found = carry_out(options, RIVALS, points, means)
    if options.keep is not None:
        keep(options.keep, means.store)
    if options.write is not None:
        write(options.write, found.collected, wanted, _command(options))
    return show(options, found, lambda page: page.tables([*tables(found.collected), goals_table(found.collected)]))


def _command(options: argparse.Namespace) -> str:
    """What was asked for, as one would type it again."""
    text = "detour reproduce rivals"
    if options.quick or options.full:
        text += " --quick" if options.quick else " --full"
    if options.source is not None:
        text += f" --from {options.source}"
    return f"{text} --write {options.write}"
