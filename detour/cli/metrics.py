# SPDX-License-Identifier: Apache-2.0
"""`metrics`, `flows`, `reroute`: what flows and ports do, for Prometheus, and another path for a flow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from detour.base.tables import Column, Table, fixed, left, percent, right, yes_no
from detour.cli.asking import asks, running
from detour.cli.output import Page, bytes_text, present, shown_progress
from detour.cli.parser import operation

if TYPE_CHECKING:
    from detour.fabric.operations.results import FabricMetrics, FlowRows, ReroutedFlow
    from detour.fabric.records import FlowWindow


def register(commands: Any) -> None:
    metrics = operation(commands, "metrics", _metrics)
    metrics.option("--serve", "serve Prometheus over HTTP until Ctrl-C", "[HOST]:PORT")
    flows = operation(commands, "flows", _flows, wide=True)
    flows.option("--watch", "start or stop counting each flow in switches", choices=("on", "off"))
    asks(commands, "reroute", _show_reroute)


def _metrics(options: argparse.Namespace) -> None:
    if options.serve is not None:
        _serve(options.serve)
        return
    result = running().metrics()
    if options.json:
        present(result, options, lambda page: None)
    else:
        sys.stdout.write(_text(result))


def _current() -> str:
    return _text(running().metrics())


def _text(result: FabricMetrics) -> str:
    from detour.fabric.monitoring.exposition import text

    return text(result.metrics)


def _serve(where: str) -> None:
    from detour.base.addresses import joined
    from detour.cli.scrape import make_server

    with shown_progress(as_json=False, log=True) as progress:
        server = make_server(where, _current, progress)
    with server:
        address = joined(*server.socket.getsockname()[:2])
        print(f"detour: serving metrics at http://{address}/metrics", file=sys.stderr, flush=True)
        server.serve_forever()


def _flows(options: argparse.Namespace) -> None:
    result = running().flows() if options.watch is None else running().watch_flows(options.watch == "on")
    present(result, options, lambda page: show_flows(page, result))


def show_flows(page: Page, result: FlowRows) -> None:
    """A table of the flows; if switches watch them, also one of each flow at each switch."""
    if not result.flows:
        watched = "; switches will watch what does" if result.watching else ""
        page.print(f"nothing sends now{watched}")
        return
    columns = (
        left("flow", lambda row: row.name),
        left("path", lambda row: row.path, wide=True),
        left("placed", lambda row: yes_no(row.placed), wide=True),
        *_window(lambda row: row),
        right("bytes", lambda row: bytes_text(row.bytes)),
        right("repeated packets", lambda row: row.duplicates),
    )
    page.table(Table(columns, result.flows, f"windows of {result.window_s * 1e3:g} ms"))
    if result.watching:
        _show_switches(page, result)


def _window(of: Callable[[Any], FlowWindow]) -> tuple[Column[Any], ...]:
    return (
        right("Mb/s", lambda row: fixed(of(row).rate_bps / 1e6, 2)),
        right("drop", lambda row: percent(of(row).drop), means="how much less than usual"),
        right("ECN", lambda row: percent(of(row).ecn_share), means="packets with a mark"),
        right("delay, ms", lambda row: fixed(of(row).delay_ps / 1e9, 2), means="in queues, on average"),
    )


def _show_switches(page: Page, result: FlowRows) -> None:
    columns = (
        left("flow", lambda row: row[0]),
        left("switch", lambda row: row[1].switch),
        *_window(lambda row: row[1]),
        right("bytes", lambda row: bytes_text(row[1].bytes)),
        right("packets", lambda row: row[1].packets, wide=True),
        right("marked", lambda row: row[1].ecn_packets, wide=True),
    )
    rows = [(flow.name, at) for flow in result.flows for at in flow.switches]
    title = f"in the switches, headers included; windows of {result.switch_window_s * 1e3:.0f} ms"
    page.table(Table(columns, rows, title))


def _show_reroute(page: Page, result: ReroutedFlow) -> None:
    page.print(f"{result.flow} goes by {' '.join(result.switches)} ({result.path})")
