# SPDX-License-Identifier: Apache-2.0
"""Commands to a running fabric: `status`, `verify`, `path`, `fail`, `send`, `watch` and similar ones."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import Table, fixed, left, percent, right
from detour.cli.asking import asks, running, running_lab
from detour.cli.lab import linux_lines, show_lab
from detour.cli.output import Page, bytes_text, present
from detour.cli.parser import operation, seconds

if TYPE_CHECKING:
    from detour.fabric.operations import results


def register(commands: Any) -> None:
    operation(commands, "status", _status)
    asks(commands, "provision", _show_provisioned, doing="writing tables")
    text = "reading all tables back and verifying them"
    asks(commands, "verify", show_verification, doing=text, is_good=lambda result, _: result.verified)
    asks(commands, "entries", show_entries, doing="reading tables", wide=True)
    asks(commands, "counters", show_counters)
    watch = operation(commands, "watch", _watch, wide=True)
    watch.option("--interval", "seconds between updates (default 1)", "S", seconds, default=1.0)
    watch.flag("--all", "show idle links too")
    watch.flag("--once", "print one update")
    asks(commands, "path", show_path, is_good=lambda result, _: result.delivered)
    text = "withdrawing it from all tables"
    asks(commands, "fail", lambda page, result: show_change(page, f"{result.failed} is down", result), doing=text)
    asks(commands, "heal", _show_healed, doing="writing tables")
    asks(commands, "impair", _show_impaired)
    asks(
        commands, "send", show_send, check=_check_files, is_good=_all_arrived,
        doing=lambda options: f"sending from {options.source} to {options.target}",
    )  # fmt: skip
    asks(commands, "load", _show_load, doing=lambda options: "opening connections" if options.pattern else "asking")
    asks(commands, "capture", _show_capture)
    asks(commands, "probe", show_probe, doing="probing")


def _check_files(options: argparse.Namespace) -> None:
    file, store = options.file, options.store
    if store is not None and file is None:
        raise DetourError("--store needs --file: only files are stored")
    if store is not None and os.path.realpath(file) == os.path.realpath(store):
        raise DetourError(f"--store {store} is the file to send; it would be overwritten while it is read")


def _all_arrived(result: results.SentMessage, options: argparse.Namespace) -> bool:
    return result.bytes_ok == (options.length if options.file is None else os.path.getsize(options.file))


def show_send(page: Page, result: results.SentMessage) -> None:
    """A few lines and a table of the paths."""
    delay = result.queuing_delay_ns
    waits = "no delay samples"
    if delay.min is not None and delay.mean is not None and delay.max is not None:
        waits = f"queuing delay {delay.min / 1e6:.2f} / {delay.mean / 1e6:.2f} / {delay.max / 1e6:.2f} ms"
        waits += " (min / mean / max)"
    page.print(
        f"{bytes_text(result.bytes_ok)} arrived as sent, {result.throughput_mbps:.2f} Mb/s; "
        f"{result.retransmitted} packets retransmitted, {result.ecn_marked} with ECN marks; {waits}"
    )
    columns = (
        left("path", lambda row: row.path),
        right("packets", lambda row: row.packets),
        left("switches", lambda row: " ".join(row.switches)),
    )
    page.table(Table(columns, result.paths))


def show_probe(page: Page, result: results.ProbedPaths) -> None:
    """A table of the candidates."""
    columns = (
        left("path", lambda row: row.path),
        right("queuing delay, ms", lambda row: "no answer" if row.delay_ns is None else fixed(row.delay_ns / 1e6, 3)),
        left("switches", lambda row: " ".join(row.switches)),
    )
    page.table(Table(columns, result.paths))


def _show_load(page: Page, result: results.Loaded, options: argparse.Namespace) -> None:
    wrong = f", {bytes_text(result.bytes_wrong)} NOT" if result.bytes_wrong else ""
    again = f"; {result.reopened} connections failed and were made anew" if result.reopened else ""
    state = "has ended" if options.stop else "is on"
    page.print(
        f"{result.pattern} {state}: {result.pairs} connections, "
        f"{bytes_text(result.bytes_ok)} arrived as sent{wrong} in {result.seconds:.1f} s{again}"
    )


def _show_capture(page: Page, result: results.Captured, options: argparse.Namespace) -> None:
    if result.folder is None:
        page.print("no capture is running")
    else:
        state = "complete" if options.stop else "being written"
        page.print(result.error or f"{len(result.files)} pcapng files in {result.folder}, {state}")


def show_path(page: Page, result: results.TracedPath) -> None:
    """Show the packet's fate, and a table of the hops."""
    columns = (
        left("switch", lambda hop: hop.switch),
        right("in", lambda hop: hop.in_port),
        right("out", lambda hop: hop.out_port),
        left("because of", lambda hop: hop.why),
    )
    page.print(f"{result.path}: {result.outcome}")
    page.table(Table(columns, result.hops))


def _show_healed(page: Page, result: results.Healed) -> None:
    if result.healed:
        show_change(page, f"{result.healed} is back", result)
    else:
        page.print("nothing was down")


def _show_impaired(page: Page, result: results.ImpairedLinks) -> None:
    columns = (
        left("link", lambda row: row.link),
        right("rate", lambda row: percent(row.rate, 1)),
        right("loss", lambda row: percent(row.loss, 1)),
    )
    if result.links:
        page.table(Table(columns, result.links))
    else:
        page.print("no link is impaired")


def show_change(page: Page, what: str, result: results.FailureChange) -> None:
    """Show the effect of failing or healing."""
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


def _status(options: argparse.Namespace) -> None:
    lab = running_lab()
    if lab is not None:
        present(lab, options, lambda page: show_lab(page, lab))
        return
    result = running().status()
    present(result, options, lambda page: show_status(page, result, endpoints=True))


def show_status(page: Page, status: results.Status, endpoints: bool) -> None:
    """Show the status of a running fabric; `endpoints`: of every switch as well."""
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
        first = next(name for name, endpoint in status.endpoints.items() if endpoint.device_id == 1)
        page.print(f"P4Runtime: {addresses.pop()}, device ids 1 to {status.switches} ({first} is device 1)")
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


def displaced_lines(displaced: Mapping[str, results.DisplacedSwitch]) -> list[str]:
    """Return the lines of `status` on switches that another controller has taken over: one for each such controller."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for name, switch in displaced.items():
        groups.setdefault((switch.election_id, switch.primary_again), []).append(name)
    lines = []
    for (election_id, again), names in groups.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        verb = "was primary for a while" if again else "has displaced detour's"
        advice = "`detour provision` writes again what differs" if again else "detour can read but not write there"
        lines.append(f"{shown}: another controller (election id {election_id}) {verb}; {advice}")
    return lines


def _show_provisioned(page: Page, result: results.Provisioned) -> None:
    page.print(
        f"{result.entries} entries on {result.switches} switches: {result.inserted} inserted, "
        f"{result.modified} modified, {result.deleted} deleted, {result.unchanged} unchanged "
        f"in {result.seconds:.2f} s"
    )


def show_verification(page: Page, result: results.Verification) -> None:
    """Show the proof, or the problems."""
    if result.verified:
        longest = result.longest
        lost = f" ({result.disconnected} pairs are cut off by failures)" if result.disconnected else ""
        page.print(
            f"verified: {result.pairs} pairs of hosts{lost}, {result.ways} ways, {result.sids} uSIDs; "
            f"at most {longest.shortest} switches on shortest paths and {longest.detour} on others"
        )
        if sprayed := result.disjoint_paths:
            median = f"{sprayed.median:g}, at least {sprayed.least}"
            page.print(
                f"sprayed packets have {median} edge-disjoint paths (median of {sprayed.pairs} pairs of switches)"
            )
        return
    page.print(f"{result.failed} cases are wrong:")
    for problem in result.problems:
        page.print(f"  {problem}")


def show_entries(page: Page, held: Mapping[str, Sequence[results.EntryRow]]) -> None:
    """A table a switch; one of all of them where there is room."""
    columns = (
        left("switch", lambda row: row[0], wide=True),
        left("table", lambda row: row[1].table.rpartition(".")[2]),
        left("match", lambda row: row[1].match),
        left("action", lambda row: row[1].action),
        right("priority", lambda row: row[1].priority or "", wide=True),
    )
    rows = {switch: [(switch, row) for row in entries] for switch, entries in held.items()}
    if page.wide:
        page.table(Table(columns, [row for entries in rows.values() for row in entries]))
        return
    for switch, entries in rows.items():
        page.table(Table(columns, entries, switch))


def show_counters(page: Page, counters: Mapping[str, results.SwitchCounters]) -> None:
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
    page.table(Table(verdicts, [(name, *verdict) for name, at in counters.items() for verdict in at.verdicts.items()]))


def _watch(options: argparse.Namespace) -> None:
    if options.json or options.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        result = running().watch(options.interval)
        present(result, options, lambda page: page.table(links_table(result, options.all)))
        return
    from detour.cli.live.view import Live

    Live(running(), options.interval, options.all).run()


def links_table(result: results.LinkUses, everything: bool) -> Table[results.LinkUse]:
    """Return the table of links, the busiest first; `everything`: idle links as well."""
    busy = [row for row in result.links if everything or row.mbps > 0 or not row.up or row.drops]
    columns = (
        left("link", lambda row: row.link),
        left("from", lambda row: row.from_),
        left("kind", lambda row: row.kind, wide=True),
        right("Mb/s", lambda row: fixed(row.mbps, 2) if row.up else "down"),
        left("use", lambda row: "█" * round(10 * min(row.use, 1.0)) + f" {row.use:.0%}"),
        right("queue", lambda row: row.queue_packets),
        right("drops", lambda row: row.drops),
        right("ECN marks", lambda row: row.marks),
    )
    title = f"{len(busy)} of {len(result.links)} directions; pipelines dropped {result.pipeline_drops}"
    return Table(columns, sorted(busy, key=lambda row: -row.mbps), title)
