# SPDX-License-Identifier: Apache-2.0
"""`send`, `probe`: messages between hosts."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import Table, fixed, left, right
from detour.cli.asking import running
from detour.cli.output import Page, bytes_text, present, shown_progress
from detour.cli.parser import add_path_options, byte_count, operation, output_file

if TYPE_CHECKING:
    from detour.fabric.operations.results import ProbedPaths, SentMessage

DEFAULT_BYTES = 1_000_000


def register(commands: Any) -> None:
    """Adds these commands."""
    send = operation(commands, "send", _send)
    send.add_argument("source", metavar="SRC", help="host, like h0")
    send.add_argument("target", metavar="DST", help="host, like h71")
    what = send.add_mutually_exclusive_group()
    what.add_argument("--bytes", type=byte_count, metavar="N", help=f"this many (default {DEFAULT_BYTES})")
    what.add_argument("--file", metavar="F", help="the bytes of a file")
    send.add_argument("--store", type=output_file, metavar="OUT", help="where the receiver stores the file")
    add_path_options(send)
    send.add_argument("--spray", action="store_true", help="every packet takes a path of its own (docs/transports.md)")
    load = operation(commands, "load", _load)
    load.add_argument(
        "pattern", nargs="?", metavar="PATTERN", help="adv1, adv2, unf or permutation, like unf:pairs=100,seed=2"
    )
    load.add_argument("--stop", action="store_true", help="end it")
    capture = operation(commands, "capture", _capture)
    capture.add_argument("folder", nargs="?", metavar="DIR", help="where the files go")
    capture.add_argument("where", nargs="*", metavar="LINK|SWITCH", help="whose ports, like s3 s0-s3 h7 (default all)")
    capture.add_argument("--stop", action="store_true", help="complete the files")
    probe = operation(commands, "probe", _probe)
    probe.add_argument("source", metavar="SRC", help="host, like h0")
    probe.add_argument("target", metavar="DST", help="host, like h71")


def _send(options: argparse.Namespace) -> int:
    file, store = _files(options)
    length = options.bytes or DEFAULT_BYTES
    with shown_progress(options.json) as progress:
        progress(f"sending from {options.source} to {options.target}")
        result = running().send(
            options.source,
            options.target,
            length,
            file,
            store,
            options.sport,
            options.usid,
            options.spray,
            progress=progress,
        )
    present(result, options, lambda page: show_send(page, result))
    wanted = length if file is None else os.path.getsize(file)
    return 0 if result.bytes_ok == wanted else 1


def _files(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """What is sent and where it is stored, by paths that mean the same in another process."""
    if options.store is not None and options.file is None:
        raise DetourError("--store needs --file: only files are stored")
    file, store = (None if path is None else os.path.abspath(path) for path in (options.file, options.store))
    if file is not None and store is not None and os.path.realpath(file) == os.path.realpath(store):
        raise DetourError(f"--store {options.store} is the file that is sent; it would be overwritten while it is read")
    return file, store


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


def _probe(options: argparse.Namespace) -> None:
    with shown_progress(options.json) as progress:
        progress("probing")
        result = running().probe(options.source, options.target)
    present(result, options, lambda page: show_probe(page, result))


def show_probe(page: Page, result: ProbedPaths) -> None:
    """A table of the candidates."""
    columns = (
        left("path", lambda row: row.path),
        right("queuing delay, ms", lambda row: "no answer" if row.delay_ns is None else fixed(row.delay_ns / 1e6, 3)),
        left("switches", lambda row: " ".join(row.switches)),
    )
    page.table(Table(columns, result.paths))


def _load(options: argparse.Namespace) -> None:
    with shown_progress(options.json) as progress:
        progress("opening connections" if options.pattern else "asking")
        result = running().load(options.pattern, options.stop)

    def render(page: Page) -> None:
        wrong = f", {bytes_text(result.bytes_wrong)} NOT" if result.bytes_wrong else ""
        again = f"; {result.reopened} connections failed and were made anew" if result.reopened else ""
        state = "has ended" if options.stop else "is on"
        page.print(
            f"{result.pattern} {state}: {result.pairs} connections, "
            f"{bytes_text(result.bytes_ok)} arrived as sent{wrong} in {result.seconds:.1f} s{again}"
        )

    present(result, options, render)


def _capture(options: argparse.Namespace) -> None:
    folder = None if options.folder is None else os.path.abspath(options.folder)
    result = running().capture(folder, options.where or None, options.stop)

    def render(page: Page) -> None:
        if result.folder is None:
            page.print("no captures are being written")
        else:
            state = "complete" if options.stop else "being written"
            page.print(result.error or f"{len(result.files)} pcapng files in {result.folder}, {state}")

    present(result, options, render)
