# SPDX-License-Identifier: Apache-2.0
"""`reproduce path-placement`: a throttled link, and a flow that gets out of its way."""

from __future__ import annotations

import argparse

from detour.cli.output import Page, present
from detour.cli.parser import Parser, output_file, seconds
from detour.cli.reproducing import carry_out, extent_of, show


def options_of(parser: Parser) -> None:
    """Adds its options."""
    parser.add_argument(
        "--footing", default="virtual", metavar="virtual|real|bmv2", help="100 Gb/s in virtual time, or the wall clock"
    )
    parser.add_argument("--seconds", type=seconds, metavar="S", help="length of each run (30; virtual: 0.03)")
    parser.add_argument(
        "--plot", type=output_file, metavar="FILE", help="draw throughput over time, as Fig. 3 (.png, .svg)"
    )


def run(options: argparse.Namespace) -> int:
    """Carries it out, draws and prints it; the exit code."""
    from detour.experiments.placement import figures
    from detour.experiments.placement.experiment import select
    from detour.experiments.placement.tables import NoPathFindings, tables
    from detour.experiments.reproduce import PATH_PLACEMENT, Means

    points = select(options.footing, extent_of(options), options.seconds)
    if options.footing == "bmv2" and (reason := _missing()):
        present(NoPathFindings(skipped=reason), options, lambda page: page.print(f"skipped: {reason}"))
        return 0
    # On the wall clock runs must not get in each other's way, and what they find is not to be had again from a file.
    found = carry_out(options, PATH_PLACEMENT, points, None if options.footing == "virtual" else Means())
    if options.plot:
        figures.rerouting(found.collected.runs, options.plot)

    def render(page: Page) -> None:
        for table in tables(found.collected):
            page.table(table)

    return show(options, found, render)


def _missing() -> str | None:
    from detour.fabric.footings.bmv2.switch import missing

    return missing()
