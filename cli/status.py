# SPDX-License-Identifier: Apache-2.0
"""`status`: what is up, since when, and where its switches are reached."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from detour.cli.asking import ask
from detour.cli.output import emit, table
from detour.cli.parser import operation

if TYPE_CHECKING:
    from rich.console import Console


def register(commands: Any) -> None:
    """Adds this command."""
    operation(commands, "status", _status)


def _status(options: argparse.Namespace) -> None:
    result = ask("status")
    emit(result, options.json, lambda console: show_status(console, result, endpoints=True))


def show_status(console: Console, status: dict[str, Any], endpoints: bool) -> None:
    """What there is to know of a fabric that is up; `endpoints`: and of every switch."""
    console.print(
        f"{status['topology']} on {status['target']}: {status['switches']} switches, {status['hosts']} hosts, "
        f"{status['entries']} entries, links of {status['rate_mbps']:g} Mb/s, up for {status['seconds_up']:.0f} s"
    )
    if status["failures"]:
        console.print(f"failed: {', '.join(status['failures'])}")
    for line in displaced_lines(status.get("displaced", {})):
        console.print(line, style="red")
    if (serving := status.get("p4runtime")) is not None and serving["address"] != serving["socket"]:
        console.print(f"P4Runtime: {serving['reach']}")
    for name, reason in status.get("lost", {}).items():
        console.print(f"switch {name} is not reached, and will be: {reason}")
    addresses = {endpoint["address"] for endpoint in status["endpoints"].values()}
    if len(addresses) == 1:
        console.print(f"P4Runtime: {addresses.pop()}, device ids 1 to {status['switches']} (s0 is device 1)")
    elif endpoints:
        rows = [(name, e["device_id"], e["address"]) for name, e in status["endpoints"].items()]
        console.print(table(("switch", ">device id", "P4Runtime"), rows))
    if status.get("log"):
        console.print(f"log: {status['log']}", soft_wrap=True)


def displaced_lines(displaced: dict[str, dict[str, Any]]) -> list[str]:
    """What `status` says of switches that another controller has taken over: a line for each such controller."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for name, found in displaced.items():
        groups.setdefault((found["election_id"], found["primary_again"]), []).append(name)
    lines = []
    for (election_id, again), names in groups.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        verb = "was primary for a while" if again else "has displaced detour's"
        advice = "`detour provision` writes again what differs" if again else "detour can read but not write there"
        lines.append(f"{shown}: another controller (election id {election_id}) {verb}; {advice}")
    return lines
