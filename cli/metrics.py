# SPDX-License-Identifier: Apache-2.0
"""`metrics`, `flows`, `reroute`: what flows and ports do, for Prometheus, and another path for a flow."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from detour.cli.asking import ask
from detour.cli.output import emit, progress, table
from detour.cli.parser import operation

if TYPE_CHECKING:
    from rich.console import Console


def register(commands: Any) -> None:
    """Adds these commands."""
    metrics = operation(commands, "metrics", _metrics)
    metrics.add_argument("--serve", metavar="[HOST]:PORT", help="answer Prometheus over HTTP until Ctrl-C")
    flows = operation(commands, "flows", _flows)
    flows.add_argument(
        "--watch", choices=("on", "off"), help="switches count every flow by itself from now on, or no more"
    )
    reroute = operation(commands, "reroute", _reroute)
    reroute.add_argument("flow", metavar="FLOW", help="like h0-h9, as `detour flows` names it")
    reroute.add_argument("usid", metavar="LIST", help="uSIDs to pass, like s9,s3 (completed with those of the target)")


def _metrics(options: argparse.Namespace) -> None:
    if options.serve is not None:
        _serve(options.serve)
        return
    result = ask("metrics")
    if options.json:
        emit(result, True, lambda console: None)
    else:
        sys.stdout.write(_text(result))


def _current() -> str:
    """The metrics of the fabric as they are now."""
    return _text(ask("metrics"))


def _text(result: dict[str, Any]) -> str:
    from detour.fabric.monitoring.metrics import text

    return text(result["metrics"])


def _serve(where: str) -> None:
    from detour.base.addresses import joined
    from detour.cli.scrape import make_server

    with progress(as_json=False, log=True) as tell, make_server(where, _current, tell) as server:
        address = joined(*server.socket.getsockname()[:2])
        tell(f"serving metrics at http://{address}/metrics")
        server.serve_forever()


def _flows(options: argparse.Namespace) -> None:
    result = ask("flows") if options.watch is None else ask("watch_flows", on=options.watch == "on")

    def render(console: Console) -> None:
        if not result["flows"]:
            watched = "; switches will watch what does" if result["watching"] else ""
            console.print(f"nothing sends now{watched}")
            return
        rows = [
            (r["name"], r["path"], "yes" if r["placed"] else "no", f"{r['rate_bps'] / 1e6:.2f}", f"{r['drop']:.0%}",
             f"{r['ecn_share']:.0%}", f"{r['delay_ps'] / 1e9:.2f}", r["bytes"], r["duplicates"])
            for r in result["flows"]
        ]  # fmt: skip
        names = ("flow", "path", "placed", ">Mb/s", ">drop", ">ECN", ">delay, ms", ">bytes", ">repeated packets")
        console.print(table(names, rows, f"windows of {result['window_s'] * 1e3:g} ms"))
        if result["watching"]:
            _show_switches(console, result)

    emit(result, options.json, render)


def _show_switches(console: Console, result: dict[str, Any]) -> None:
    rows = [
        (flow["name"], r["switch"], f"{r['rate_bps'] / 1e6:.2f}", f"{r['drop']:.0%}", f"{r['ecn_share']:.0%}",
         f"{r['delay_ps'] / 1e9:.2f}", r["bytes"], r["packets"], r["ecn_packets"])
        for flow in result["flows"]
        for r in flow["switches"]
    ]  # fmt: skip
    names = ("flow", "switch", ">Mb/s", ">drop", ">ECN", ">delay, ms", ">bytes", ">packets", ">marked")
    console.print(
        table(names, rows, f"in the switches, headers included; windows of {result['switch_window_s'] * 1e3:.0f} ms")
    )


def _reroute(options: argparse.Namespace) -> None:
    result = ask("reroute", flow=options.flow, usid=options.usid)
    text = f"{result['flow']} goes by {' '.join(result['switches'])} ({result['path']})"
    emit(result, options.json, lambda console: console.print(text))
