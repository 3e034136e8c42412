# SPDX-License-Identifier: Apache-2.0
"""`send`, `probe`, `load`, `capture`: messages between hosts, and what passes ports."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import Table, fixed, left, right
from detour.cli.asking import asks
from detour.cli.output import Page, bytes_text

if TYPE_CHECKING:
    from detour.fabric.operations.results import Captured, Loaded, ProbedPaths, SentMessage


def register(commands: Any) -> None:
    asks(
        commands,
        "send",
        show_send,
        doing=lambda options: f"sending from {options.source} to {options.target}",
        check=_check_files,
        is_good=_all_arrived,
    )
    asks(commands, "load", _show_load, doing=lambda options: "opening connections" if options.pattern else "asking")
    asks(commands, "capture", _show_capture)
    asks(commands, "probe", show_probe, doing="probing")


def _check_files(options: argparse.Namespace) -> None:
    file, store = options.file, options.store
    if store is not None and file is None:
        raise DetourError("--store needs --file: only files are stored")
    if store is not None and os.path.realpath(file) == os.path.realpath(store):
        raise DetourError(f"--store {store} is the file that is sent; it would be overwritten while it is read")


def _all_arrived(result: SentMessage, options: argparse.Namespace) -> bool:
    return result.bytes_ok == (options.length if options.file is None else os.path.getsize(options.file))


def show_send(page: Page, result: SentMessage) -> None:
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


def show_probe(page: Page, result: ProbedPaths) -> None:
    """A table of the candidates."""
    columns = (
        left("path", lambda row: row.path),
        right("queuing delay, ms", lambda row: "no answer" if row.delay_ns is None else fixed(row.delay_ns / 1e6, 3)),
        left("switches", lambda row: " ".join(row.switches)),
    )
    page.table(Table(columns, result.paths))


def _show_load(page: Page, result: Loaded, options: argparse.Namespace) -> None:
    wrong = f", {bytes_text(result.bytes_wrong)} NOT" if result.bytes_wrong else ""
    again = f"; {result.reopened} connections failed and were made anew" if result.reopened else ""
    state = "has ended" if options.stop else "is on"
    page.print(
        f"{result.pattern} {state}: {result.pairs} connections, "
        f"{bytes_text(result.bytes_ok)} arrived as sent{wrong} in {result.seconds:.1f} s{again}"
    )


def _show_capture(page: Page, result: Captured, options: argparse.Namespace) -> None:
    if result.folder is None:
        page.print("no captures are being written")
    else:
        state = "complete" if options.stop else "being written"
        page.print(result.error or f"{len(result.files)} pcapng files in {result.folder}, {state}")
