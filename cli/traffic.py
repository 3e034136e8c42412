# SPDX-License-Identifier: Apache-2.0
"""`send`, `probe`: messages between hosts."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.asking import ask
from detour.cli.output import bytes_text, emit, progress, table
from detour.cli.parser import add_path_options, byte_count, operation

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_BYTES = 1_000_000


def register(commands: Any) -> None:
    """Adds these commands."""
    send = operation(commands, "send", _send)
    send.add_argument("source", metavar="SRC", help="host, like h0")
    send.add_argument("target", metavar="DST", help="host, like h71")
    what = send.add_mutually_exclusive_group()
    what.add_argument("--bytes", type=byte_count, metavar="N", help=f"this many (default {DEFAULT_BYTES})")
    what.add_argument("--file", metavar="F", help="the bytes of a file")
    send.add_argument("--store", metavar="OUT", help="where the receiver stores the file")
    add_path_options(send)
    probe = operation(commands, "probe", _probe)
    probe.add_argument("source", metavar="SRC", help="host, like h0")
    probe.add_argument("target", metavar="DST", help="host, like h71")


def send_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say, with paths that mean the same in another process."""
    if options.store is not None and options.file is None:
        raise DetourError("--store needs --file: only files are stored")
    file, store = (None if path is None else os.path.abspath(path) for path in (options.file, options.store))
    if file is not None and store is not None and os.path.realpath(file) == os.path.realpath(store):
        raise DetourError(f"--store {options.store} is the file that is sent; it would be overwritten while it is read")
    return {
        "source": options.source,
        "target": options.target,
        "length": options.bytes or DEFAULT_BYTES,
        "file": file,
        "store": store,
        "sport": options.sport,
        "usid": options.usid,
    }


def _send(options: argparse.Namespace) -> int:
    arguments = send_arguments(options)
    with progress(options.json) as tell:
        tell(f"sending from {options.source} to {options.target}")
        result = ask("send", tell, **arguments)
    emit(result, options.json, lambda console: show_send(console, result))
    wanted = arguments["length"] if arguments["file"] is None else os.path.getsize(arguments["file"])
    return 0 if result["bytes_ok"] == wanted else 1


def show_send(console: Console, result: dict[str, Any]) -> None:
    """A few lines and a table of the paths."""
    delay = result["queuing_delay_ns"]
    waits = "no delay samples"
    if delay["mean"] is not None:
        waits = f"queuing delay {delay['min'] / 1e6:.2f} / {delay['mean'] / 1e6:.2f} / {delay['max'] / 1e6:.2f} ms"
        waits += " (min / mean / max)"
    console.print(
        f"{bytes_text(result['bytes_ok'])} arrived as sent, {result['throughput_mbps']:.2f} Mb/s; "
        f"{result['retransmitted']} packets retransmitted, {result['ecn_marked']} with ECN marks; {waits}"
    )
    rows = [(row["path"], row["packets"], " ".join(row["switches"])) for row in result["paths"]]
    console.print(table(("path", ">packets", "switches"), rows))


def _probe(options: argparse.Namespace) -> None:
    result = ask("probe", source=options.source, target=options.target)
    emit(result, options.json, lambda console: show_probe(console, result))


def show_probe(console: Console, result: dict[str, Any]) -> None:
    """A table of the candidates."""
    delays = (None if row["delay_ns"] is None else f"{row['delay_ns'] / 1e6:.3f}" for row in result["paths"])
    rows = [
        (row["path"], delay or "no answer", " ".join(row["switches"]))
        for row, delay in zip(result["paths"], delays, strict=True)
    ]
    console.print(table(("path", ">queuing delay, ms", "switches"), rows))
