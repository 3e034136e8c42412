# SPDX-License-Identifier: Apache-2.0
"""`status`: what is up, since when, and where its switches are reached."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from detour.base.tables import Table, left, right
from detour.cli.asking import running, running_lab
from detour.cli.lab import linux_lines, show_lab
from detour.cli.output import Page, present
from detour.cli.parser import operation

if TYPE_CHECKING:
    from detour.fabric.operations.results import DisplacedSwitch, Status


def register(commands: Any) -> None:
    operation(commands, "status", _status)


def _status(options: argparse.Namespace) -> None:
    lab = running_lab()
    if lab is not None:
        present(lab, options, lambda page: show_lab(page, lab))
        return
    result = running().status()
    present(result, options, lambda page: show_status(page, result, endpoints=True))


def show_status(page: Page, status: Status, endpoints: bool) -> None:
    """What there is to know of a fabric that is up; `endpoints`: and of every switch."""
    page.print(
        f"{status.topology} on {status.target}: {status.switches} switches, {status.hosts} hosts, "
        f"{status.entries} entries, links of {status.rate_mbps:g} Mb/s, up for {status.seconds_up:.0f} s"
    )
    if status.failures:
        page.print(f"failed: {', '.join(status.failures)}")
    if status.capture:
        error = status.capture.error
        page.print(error or f"captures are being written to {status.capture.folder}", style="red" if error else None)
    for line in displaced_lines(status.displaced):
        page.print(line, style="red")
    if status.p4runtime and status.p4runtime.address != status.p4runtime.socket:
        page.print(f"P4Runtime: {status.p4runtime.reach}")
    for name, reason in status.lost.items():
        page.print(f"switch {name} is not reached, and will be: {reason}")
    addresses = {endpoint.address for endpoint in status.endpoints.values()}
    if len(addresses) == 1:
        page.print(f"P4Runtime: {addresses.pop()}, device ids 1 to {status.switches} (s0 is device 1)")
    elif endpoints:
        columns = (
            left("switch", lambda row: row[0]),
            right("device id", lambda row: row[1].device_id),
            left("P4Runtime", lambda row: row[1].address),
        )
        page.table(Table(columns, list(status.endpoints.items())))
    for line in linux_lines(status.linux or None):
        page.print(line)
    if status.log:
        page.print(f"log: {status.log}", whole=True)


def displaced_lines(displaced: Mapping[str, DisplacedSwitch]) -> list[str]:
    """What `status` says of switches that another controller has taken over: a line for each such controller."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for name, found in displaced.items():
        groups.setdefault((found.election_id, found.primary_again), []).append(name)
    lines = []
    for (election_id, again), names in groups.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        verb = "was primary for a while" if again else "has displaced detour's"
        advice = "`detour provision` writes again what differs" if again else "detour can read but not write there"
        lines.append(f"{shown}: another controller (election id {election_id}) {verb}; {advice}")
    return lines
