# SPDX-License-Identifier: Apache-2.0
"""`path`, `fail`, `heal`, `impair`: where packets go, and what happens when links go."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from detour.base.quantities import fraction_of
from detour.base.tables import Table, left, percent, right
from detour.cli.asking import running
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import add_path_options, operation, quantity

if TYPE_CHECKING:
    from detour.fabric.operations.results import FailureChange, TracedPath


def register(commands: Any) -> None:
    """Adds these commands."""
    path = operation(commands, "path", _path)
    path.add_argument("source", metavar="SRC", help="host, like h0")
    path.add_argument("target", metavar="DST", help="host, like h71")
    add_path_options(path)
    fail = operation(commands, "fail", _fail)
    fail.add_argument("what", metavar="LINK|SWITCH", help="like s0-s3, s0:3 (port 3 of s0), h7 (its link) or s3")
    heal = operation(commands, "heal", _heal)
    heal.add_argument("what", nargs="?", metavar="LINK|SWITCH")
    impair = operation(commands, "impair", _impair)
    impair.add_argument("link", nargs="?", metavar="LINK", help="like s0-s3, s0:3 (port 3 of s0) or h7 (its link)")
    impair.add_argument("--rate", type=quantity(fraction_of), metavar="F", help="carries this fraction of its rate")
    impair.add_argument("--loss", type=quantity(fraction_of), metavar="F", help="loses this fraction of its frames")
    impair.add_argument("--clear", action="store_true", help="it, or every link, is as it was")


def _path(options: argparse.Namespace) -> int:
    result = running().path(options.source, options.target, options.sport, options.usid)
    present(result, options, lambda page: show_path(page, result))
    return 0 if result.delivered else 1


def show_path(page: Page, result: TracedPath) -> None:
    """What becomes of the packet, and a table of the hops."""
    columns = (
        left("switch", lambda hop: hop.switch),
        right("in", lambda hop: hop.in_port),
        right("out", lambda hop: hop.out_port),
        left("because of", lambda hop: hop.why),
    )
    page.print(f"{result.path}: {result.outcome}")
    page.table(Table(columns, result.hops))


def _fail(options: argparse.Namespace) -> None:
    with shown_progress(options.json) as progress:
        progress("withdrawing it from all tables")
        result = running().fail(options.what)
    present(result, options, lambda page: show_change(page, f"{result.failed} is down", result))


def _heal(options: argparse.Namespace) -> None:
    with shown_progress(options.json) as progress:
        progress("writing tables")
        result = running().heal(options.what)
    if result.healed:
        present(result, options, lambda page: show_change(page, f"{result.healed} is back", result))
    else:
        present(result, options, lambda page: page.print("nothing was down"))


def _impair(options: argparse.Namespace) -> None:
    result = running().impair(options.link, options.rate, options.loss, options.clear)
    columns = (
        left("link", lambda row: row.link),
        right("rate", lambda row: percent(row.rate, 1)),
        right("loss", lambda row: percent(row.loss, 1)),
    )

    def render(page: Page) -> None:
        if result.links:
            page.table(Table(columns, result.links))
        else:
            page.print("no link is impaired")

    present(result, options, render)


def show_change(page: Page, what: str, result: FailureChange) -> None:
    """What failing or healing did."""
    still = f"; down: {', '.join(result.failures)}" if result.failures else "; nothing is down"
    page.print(
        f"{what}: {result.inserted} entries inserted, {result.modified} modified, {result.deleted} deleted "
        f"in {result.seconds:.2f} s{still}"
    )
    if placed := result.placement:
        page.print(
            f"placement: {placed.moved} of {placed.flows} flows moved, {placed.without_path} without a path, "
            f"{placed.collisions} collisions (at least {placed.lower_bound})"
        )
    if moved := result.senders:
        page.print(
            f"senders: {moved.moved} with a list around what is down, {moved.returned} back on their own, "
            f"{moved.by_address} by address"
        )
