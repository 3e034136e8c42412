# SPDX-License-Identifier: Apache-2.0
"""`provision`, `verify`, `entries`, `counters`, `watch`: what switches hold and count."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from detour.cli.asking import ask
from detour.cli.output import bytes_text, emit, progress, table
from detour.cli.parser import operation, seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def register(commands: Any) -> None:
    """Adds these commands."""
    operation(commands, "provision", _provision)
    operation(commands, "verify", _verify)
    entries = operation(commands, "entries", _entries)
    entries.add_argument("switch", nargs="?", metavar="SWITCH", help="like s3 (default: all)")
    entries.add_argument("--table", metavar="NAME", help="of this table only, like route")
    counters = operation(commands, "counters", _counters)
    counters.add_argument("switch", nargs="?", metavar="SWITCH", help="like s3 (default: all)")
    watch = operation(commands, "watch", _watch)
    watch.add_argument("--interval", type=seconds, default=1.0, metavar="S", help="seconds between updates (default 1)")
    watch.add_argument("--all", action="store_true", help="idle links as well")
    watch.add_argument("--once", action="store_true", help="one update")


def _provision(options: argparse.Namespace) -> None:
    with progress(options.json) as tell:
        tell("writing tables")
        result = ask("provision")
    text = (
        f"{result['entries']} entries on {result['switches']} switches: {result['inserted']} inserted, "
        f"{result['modified']} modified, {result['deleted']} deleted, {result['unchanged']} unchanged "
        f"in {result['seconds']:.2f} s"
    )
    emit(result, options.json, lambda console: console.print(text))


def _verify(options: argparse.Namespace) -> int:
    with progress(options.json) as tell:
        tell("reading all tables back and verifying them")
        result = ask("verify")
    emit(result, options.json, lambda console: show_report(console, result))
    return 0 if result["verified"] else 1


def show_report(console: Console, result: dict[str, Any]) -> None:
    """What was proven, or what is wrong."""
    if result["verified"]:
        longest = result["longest"]
        lost = f" ({result['disconnected']} pairs are cut off by failures)" if result["disconnected"] else ""
        console.print(
            f"verified: {result['pairs']} pairs of hosts{lost}, {result['ways']} ways, {result['sids']} uSIDs; "
            f"at most {longest['shortest']} switches on shortest paths and {longest['detour']} on others"
        )
        return
    console.print(f"{result['failed']} cases are wrong:")
    for problem in result["problems"]:
        console.print(f"  {problem}")


def _entries(options: argparse.Namespace) -> None:
    result = ask("entries", switch=options.switch, table=options.table)

    def render(console: Console) -> None:
        rows = [
            (switch, row["table"].rpartition(".")[2], row["match"], row["action"], row["priority"] or "")
            for switch, held in result.items()
            for row in held
        ]
        console.print(table(("switch", "table", "match", "action", ">priority"), rows))

    emit(result, options.json, render)


def _counters(options: argparse.Namespace) -> None:
    result = ask("counters", switch=options.switch)

    def render(console: Console) -> None:
        rows = [
            (f"{switch}:{port}", c["rx_packets"], bytes_text(c["rx_bytes"]), c["tx_packets"],
             bytes_text(c["tx_bytes"]), c["enqueued_packets"] - c["tx_packets"], c["marked_packets"])
            for switch, found in result.items()
            for port, c in found["ports"].items()
        ]  # fmt: skip
        names = ("port", ">packets in", ">bytes in", ">packets out", ">bytes out", ">queued or lost", ">ECN marks")
        console.print(table(names, rows))
        verdicts = [(s, name, n) for s, found in result.items() for name, n in found["verdicts"].items()]
        console.print(table(("switch", "verdict", ">packets"), verdicts))

    emit(result, options.json, render)


def _watch(options: argparse.Namespace) -> None:
    if options.json or options.once or not sys.stdout.isatty():
        result = ask("watch", seconds=options.interval)
        emit(result, options.json, lambda console: console.print(_watch_table(result, options.all)))
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            live.update(_watch_table(ask("watch", seconds=options.interval), options.all), refresh=True)


def _watch_table(result: dict[str, Any], everything: bool) -> Table:
    busy = [row for row in result["links"] if everything or row["mbps"] > 0 or not row["up"] or row["drops"]]
    rows = [
        (row["link"], row["from"], row["kind"], f"{row['mbps']:.2f}" if row["up"] else "down", _bar(row["use"]),
         row["queue_packets"], row["drops"], row["marks"])
        for row in sorted(busy, key=lambda row: -row["mbps"])
    ]  # fmt: skip
    names = ("link", "from", "kind", ">Mb/s", "use", ">queue", ">drops", ">ECN marks")
    title = f"{len(rows)} of {len(result['links'])} directions; pipelines dropped {result['pipeline_drops']}"
    return table(names, rows, title)


def _bar(share: float) -> str:
    return "█" * round(10 * min(share, 1.0)) + f" {share:.0%}"
