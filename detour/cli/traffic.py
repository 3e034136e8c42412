# SPDX-License-Identifier: Apache-2.0
"""Commands that move or follow packets: send, probe, path."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rich.console import Console

from detour.base.errors import DetourError
from detour.cli.output import add_json, done, emit, table, teller
from detour.fabric import daemon


def register(commands: Any) -> None:
    """Adds the commands."""
    for name, run, text in (
        ("send", send, "send bytes or a file from one host to another and check what arrives"),
        ("probe", probe, "measure the queuing delay of every candidate path"),
        ("path", path, "the hops that a packet takes, from the switches' own tables"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("source", metavar="SRC", help="a host (h0...)")
        command.add_argument("target", metavar="DST", help="another host")
        if name != "probe":
            add_path_options(command)
        if name == "send":
            add_send_options(command)
        command.set_defaults(run=run)
        add_json(command)


def add_path_options(parser: argparse.ArgumentParser) -> None:
    """How the sender picks the path."""
    parser.add_argument("--sport", type=port_number, metavar="N", help="UDP source port; 0x8000 and above: a detour")
    parser.add_argument("--usid", metavar="LIST", help="uSIDs: switches or node ids, like s3,s4,s35")


def add_send_options(parser: argparse.ArgumentParser) -> None:
    """What is sent."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--bytes", type=int, metavar="N", default=1_000_000, help="default 1000000")
    what.add_argument("--file", metavar="F", help="send this file")
    parser.add_argument("--store", metavar="OUT", help="where the receiver stores it (with --file)")


def port_number(text: str) -> int:
    """A UDP port, decimal or 0x...."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value <= 0xFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no UDP port (0 to 65535, or 0x0 to 0xffff)")
    return value


def send_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What a session's `send` is to be called with. Paths become absolute: the fabric runs elsewhere."""
    if args.store is not None and args.file is None:
        raise DetourError("--store needs --file")
    return {
        "source": args.source,
        "target": args.target,
        "length": args.bytes,
        "file": args.file and os.path.abspath(args.file),
        "store": args.store and os.path.abspath(args.store),
        "sport": args.sport,
        "usid": args.usid,
    }


def send(args: argparse.Namespace) -> int:
    result = daemon.ask("send", teller(args), **send_arguments(args))
    done(args)
    emit(args, result, lambda out: show_sent(out, result))
    return 0


def probe(args: argparse.Namespace) -> int:
    result = daemon.ask("probe", source=args.source, target=args.target)
    emit(args, result, lambda out: show_probes(out, result))
    return 0


def path(args: argparse.Namespace) -> int:
    result = daemon.ask("path", source=args.source, target=args.target, sport=args.sport, usid=args.usid)
    emit(args, result, lambda out: show_path(out, result))
    return 0 if result["delivered"] else 1


# -- what people see ------------------------------------------------------------------------------------------


def show_sent(out: Console, result: dict[str, Any]) -> None:
    """What a transfer did."""
    delay = result["queuing_delay_ns"]
    shown = "-" if delay["mean"] is None else " / ".join(f"{delay[k] / 1e6:.3f}" for k in ("min", "mean", "max"))
    out.print(
        f"{result['bytes_ok']} bytes arrived as they were sent, {result['throughput_mbps']:.2f} Mb/s, "
        f"{result['retransmitted']} packets sent again, {result['ecn_marked']} ECN marks, "
        f"queuing delay {shown} ms (min / mean / max)",
        highlight=False,
    )
    rows = [(used["path"], used["packets"], " ".join(used["switches"])) for used in result["paths"]]
    out.print(table("", ("path", "packets", "switches"), rows, numeric=("packets",)))


def show_probes(out: Console, result: dict[str, Any]) -> None:
    """Queuing delay of every candidate."""
    rows = [
        (
            row["path"],
            "no answer" if row["delay_ns"] is None else f"{row['delay_ns'] / 1e6:.3f}",
            " ".join(row["switches"]),
        )
        for row in result["paths"]
    ]
    out.print(table("", ("path", "queuing delay, ms", "switches"), rows, numeric=("queuing delay, ms",)))


def show_path(out: Console, result: dict[str, Any]) -> None:
    """Hop by hop."""
    rows = [(hop["switch"], hop["in_port"], hop["out_port"], hop["why"]) for hop in result["hops"]]
    out.print(table("", ("switch", "in", "out", "because of"), rows, numeric=("in", "out")))
    out.print(f"{result['path']}: {result['outcome']}", highlight=False)
