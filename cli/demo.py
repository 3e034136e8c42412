# SPDX-License-Identifier: Apache-2.0
"""`demo`: what `make run` shows."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from detour.cli.lifecycle import add_fabric_options, up_options
from detour.cli.output import bytes_text, emit, progress, table
from detour.cli.parser import command

if TYPE_CHECKING:
    from rich.console import Console


def register(commands: Any) -> None:
    """Adds this command."""
    demo = command(commands, "demo", "boot a fabric and show what the sender's choice of path is worth", _demo)
    add_fabric_options(demo)


def _demo(options: argparse.Namespace) -> int:
    from detour.fabric.daemon.daemon import boot, interruptible
    from detour.fabric.demo import Demo

    begin = time.monotonic()
    with interruptible():
        with progress(options.json, log=True) as tell:
            session = boot(up_options(options), tell)
        try:
            with progress(options.json, log=True) as tell:
                result = Demo(session, begin, tell).run()
            emit(result.as_dict(), options.json, lambda console: _show(console, result))
            if not options.json and sys.stdin.isatty() and sys.stdout.isatty():
                from detour.cli.prompt import Prompt

                Prompt(session).run()
        finally:
            session.close()
    return 0 if result.ok else 1


def _show(console: Console, result: Any) -> None:
    shortest, telemetry = result.shortest, result.telemetry
    console.print(
        f"{result.topology} on {result.target}: {result.switches} switches, {result.hosts} hosts, "
        f"{result.entries} entries, verified from what the switches hold."
    )

    def delay(outcome: Any) -> str:
        return "–" if outcome.delay_ms is None else f"{outcome.delay_ms:.1f} ms"

    rows = [
        ("throughput", f"{shortest.throughput_mbps:.1f} Mb/s", f"{telemetry.throughput_mbps:.1f} Mb/s"),
        ("paths between the groups", *result.ways),
        ("queuing delay", delay(shortest), delay(telemetry)),
        ("packets retransmitted", shortest.retransmitted, telemetry.retransmitted),
        ("packets with ECN marks", shortest.ecn_marked, telemetry.ecn_marked),
        ("reroutes", shortest.reroutes, telemetry.reroutes),
        ("bytes that arrived as sent", bytes_text(shortest.bytes_ok), bytes_text(telemetry.bytes_ok)),
        ("pairs intact", f"{shortest.pairs_ok} of {shortest.pairs}", f"{telemetry.pairs_ok} of {telemetry.pairs}"),
    ]
    title = f"ADV1: {shortest.pairs} connections from one group to one other"
    console.print(table(("", ">shortest paths only", ">probing, rerouting"), rows, title))
    intact = "every byte of every pair arrived as it was sent" if result.ok else "BYTES WERE LOST OR CHANGED"
    console.print(f"The sender's choice is worth {result.gain:.1f} times; {intact}. {result.seconds:.1f} s in all.")
