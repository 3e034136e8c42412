# SPDX-License-Identifier: Apache-2.0
"""`demo`: what `make run` shows."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import NOTHING, Table, left, right
from detour.cli.lifecycle import add_fabric_options, up_options
from detour.cli.output import Page, bytes_text, present, shown_progress
from detour.cli.parser import command
from detour.cli.web.command import DEFAULT_PORT

if TYPE_CHECKING:
    from detour.fabric.demo import DemoResult
    from detour.fabric.operations.session import Session
    from detour.fabric.traffic.workload import WorkloadResult


def register(commands: Any) -> None:
    demo = command(commands, "demo", "boot a fabric and show what path selection by the sender gains", _demo)
    add_fabric_options(demo, "auto", "default")
    demo.set_defaults(pace=None)


def _demo(options: argparse.Namespace) -> int:
    from detour.base.interrupting import interruptible
    from detour.control.graph_files import open_topology
    from detour.fabric.backends.targets import explained
    from detour.fabric.daemon.daemon import boot, found_by_others
    from detour.fabric.traffic.workload import pairs_of

    begin = time.monotonic()
    pairs_of(open_topology(options.topo), "adv1")  # what does not fit is told before anything boots
    up = up_options(options)
    if not options.json:
        print(f"detour: {explained(up.target)}", file=sys.stderr, flush=True)
    with interruptible(), found_by_others(up) as answering:
        with shown_progress(options.json, log=True) as progress:
            session = boot(up, progress)
        try:
            with answering(session):
                return _show(session, begin, options)
        finally:
            session.close()


def _show(session: Session, begin: float, options: argparse.Namespace) -> int:
    from detour.fabric.demo import Demo

    with shown_progress(options.json, log=True) as progress:
        result = Demo(session, begin, progress).run()
    present(result.summary, options, lambda page: show_demo(page, result))
    if not options.json and sys.stdin.isatty() and sys.stdout.isatty():
        from detour.cli.prompt import Prompt

        with _page(session):
            Prompt(session).run()
    return 0 if result.ok else 1


@contextmanager
def _page(session: Session) -> Iterator[None]:
    """The page of `detour web` for as long as the prompt is there, at its usual port or, if that is taken, at any."""
    from detour.cli.web.serving import fabric_page_beside

    with ExitStack() as stack:
        for port in (DEFAULT_PORT, 0):
            with suppress(DetourError):
                url = stack.enter_context(fabric_page_beside(session, port, secrets.token_urlsafe(24)))
                print(f"In the browser: {url}")
                break
        yield


def _rows(shortest: WorkloadResult, telemetry: WorkloadResult, ways: tuple[int, int]) -> list[tuple[str, ...]]:
    """Return the rows of the comparison: over shortest paths only, and with probing."""

    def both(name: str, of: Callable[[WorkloadResult], str | int]) -> tuple[str, ...]:
        return name, str(of(shortest)), str(of(telemetry))

    return [
        both("throughput", lambda result: f"{result.throughput_mbps:.1f} Mb/s"),
        ("paths between the groups", *map(str, ways)),
        both("queuing delay", lambda result: NOTHING if result.delay_ms is None else f"{result.delay_ms:.1f} ms"),
        both("packets retransmitted", lambda result: result.retransmitted),
        both("packets with ECN marks", lambda result: result.ecn_marked),
        both("reroutes", lambda result: result.reroutes),
        both("bytes that arrived as sent", lambda result: bytes_text(result.bytes_ok)),
        both("pairs intact", lambda result: f"{result.pairs_ok} of {result.pairs}"),
    ]


def show_demo(page: Page, result: DemoResult) -> None:
    """Show the gain that the choice of path brings."""
    summary = result.summary
    page.print(
        f"{result.topology} on {summary.target}: {summary.switches} switches, {summary.hosts} hosts, "
        f"{summary.entries} entries, verified from what the switches hold."
    )
    columns = (
        left("", lambda row: row[0]),
        right("shortest paths only", lambda row: row[1]),
        right("probing, rerouting", lambda row: row[2]),
    )
    title = f"ADV1: {result.shortest.pairs} connections from one group to one other"
    page.table(Table(columns, _rows(result.shortest, result.telemetry, result.ways), title))
    intact = "every byte of every pair arrived as it was sent" if result.ok else "BYTES WERE LOST OR CHANGED"
    page.print(f"The sender's choice is worth {result.gain:.1f} times; {intact}. {summary.seconds:.1f} s in all.")
