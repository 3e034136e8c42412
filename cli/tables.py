# SPDX-License-Identifier: Apache-2.0
"""`provision`, `verify`, `entries`, `counters`, `watch`: what switches hold and count."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from detour.base.tables import Table, fixed, left, right
from detour.cli.asking import asks, running
from detour.cli.output import Page, bytes_text, present
from detour.cli.parser import operation, seconds

if TYPE_CHECKING:
    from detour.fabric.operations.results import EntryRow, LinkUse, LinkUses, Provisioned, SwitchCounters, Verification


def register(commands: Any) -> None:
    asks(commands, "provision", _show_provisioned, doing="writing tables")
    asks(
        commands,
        "verify",
        show_verification,
        doing="reading all tables back and verifying them",
        is_good=lambda result, _: result.verified,
    )
    asks(commands, "entries", show_entries, doing="reading tables", wide=True)
    asks(commands, "counters", show_counters)
    watch = operation(commands, "watch", _watch, wide=True)
    watch.option("--interval", "seconds between updates (default 1)", "S", seconds, default=1.0)
    watch.flag("--all", "idle links as well")
    watch.flag("--once", "one update")


def _show_provisioned(page: Page, result: Provisioned) -> None:
    page.print(
        f"{result.entries} entries on {result.switches} switches: {result.inserted} inserted, "
        f"{result.modified} modified, {result.deleted} deleted, {result.unchanged} unchanged "
        f"in {result.seconds:.2f} s"
    )


def show_verification(page: Page, result: Verification) -> None:
    """What was proven, or what is wrong."""
    if result.verified:
        longest = result.longest
        lost = f" ({result.disconnected} pairs are cut off by failures)" if result.disconnected else ""
        page.print(
            f"verified: {result.pairs} pairs of hosts{lost}, {result.ways} ways, {result.sids} uSIDs; "
            f"at most {longest.shortest} switches on shortest paths and {longest.detour} on others"
        )
        return
    page.print(f"{result.failed} cases are wrong:")
    for problem in result.problems:
        page.print(f"  {problem}")


def show_entries(page: Page, held: Mapping[str, Sequence[EntryRow]]) -> None:
    """A table a switch; one of all of them where there is room."""
    columns = (
        left("switch", lambda row: row[0], wide=True),
        left("table", lambda row: row[1].table.rpartition(".")[2]),
        left("match", lambda row: row[1].match),
        left("action", lambda row: row[1].action),
        right("priority", lambda row: row[1].priority or "", wide=True),
    )
    rows = {switch: [(switch, row) for row in found] for switch, found in held.items()}
    if page.wide:
        page.table(Table(columns, [row for found in rows.values() for row in found]))
        return
    for switch, found in rows.items():
        page.table(Table(columns, found, switch))


def show_counters(page: Page, counters: Mapping[str, SwitchCounters]) -> None:
    """A table of the ports, and one of the verdicts."""
    ports = (
        left("port", lambda row: row[0]),
        right("packets in", lambda row: row[1].rx_packets),
        right("bytes in", lambda row: bytes_text(row[1].rx_bytes)),
        right("packets out", lambda row: row[1].tx_packets),
        right("bytes out", lambda row: bytes_text(row[1].tx_bytes)),
        right("queued or lost", lambda row: row[1].enqueued_packets - row[1].tx_packets),
        right("ECN marks", lambda row: row[1].marked_packets),
    )
    rows = [(f"{name}:{port}", counts) for name, at in counters.items() for port, counts in at.ports.items()]
    page.table(Table(ports, rows))
    verdicts = (
        left("switch", lambda row: row[0]),
        left("verdict", lambda row: row[1]),
        right("packets", lambda row: row[2]),
    )
    page.table(Table(verdicts, [(name, *found) for name, at in counters.items() for found in at.verdicts.items()]))


def _watch(options: argparse.Namespace) -> None:
    if options.json or options.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        result = running().watch(options.interval)
        present(result, options, lambda page: page.table(links_table(result, options.all)))
        return
    from detour.cli.live.view import Live

    Live(running(), options.interval, options.all).run()


def links_table(result: LinkUses, everything: bool) -> Table[LinkUse]:
    """What links did, the busiest first; `everything`: those that did nothing as well."""
    busy = [row for row in result.links if everything or row.mbps > 0 or not row.up or row.drops]
    columns = (
        left("link", lambda row: row.link),
        left("from", lambda row: row.from_),
        left("kind", lambda row: row.kind, wide=True),
        right("Mb/s", lambda row: fixed(row.mbps, 2) if row.up else "down"),
        left("use", lambda row: _bar(row.use)),
        right("queue", lambda row: row.queue_packets),
        right("drops", lambda row: row.drops),
        right("ECN marks", lambda row: row.marks),
    )
    title = f"{len(busy)} of {len(result.links)} directions; pipelines dropped {result.pipeline_drops}"
    return Table(columns, sorted(busy, key=lambda row: -row.mbps), title)


def _bar(fraction: float) -> str:
    return "█" * round(10 * min(fraction, 1.0)) + f" {fraction:.0%}"
