# SPDX-License-Identifier: Apache-2.0
"""`path`, `fail`, `heal`, `impair`: where packets go, and what happens when links go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from detour.base.tables import Table, left, percent, right
from detour.cli.asking import asks
from detour.cli.output import Page

if TYPE_CHECKING:
    from detour.fabric.operations.results import FailureChange, Healed, ImpairedLinks, TracedPath


def register(commands: Any) -> None:
    asks(commands, "path", show_path, is_good=lambda result, _: result.delivered)
    asks(
        commands,
        "fail",
        lambda page, result: show_change(page, f"{result.failed} is down", result),
        doing="withdrawing it from all tables",
    )
    asks(commands, "heal", _show_healed, doing="writing tables")
    asks(commands, "impair", _show_impaired)


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


def _show_healed(page: Page, result: Healed) -> None:
    if result.healed:
        show_change(page, f"{result.healed} is back", result)
    else:
        page.print("nothing was down")


def _show_impaired(page: Page, result: ImpairedLinks) -> None:
    columns = (
        left("link", lambda row: row.link),
        right("rate", lambda row: percent(row.rate, 1)),
        right("loss", lambda row: percent(row.loss, 1)),
    )
    if result.links:
        page.table(Table(columns, result.links))
    else:
        page.print("no link is impaired")


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
