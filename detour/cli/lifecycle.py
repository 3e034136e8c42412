# SPDX-License-Identifier: Apache-2.0
"""`up`, `down`, `status`, `shell`, `warm`: a fabric that stays."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rich.console import Console

from detour.cli.output import emit, progress, table
from detour.cli.parser import command


def register(commands: Any) -> None:
    """Adds these commands."""
    up = command(commands, "up", "boot a fabric, provision it and keep it up", _up)
    up.add_argument("--detach", action="store_true", help="return when it is up; `detour down` ends it")
    add_fabric_options(up)
    up.add_argument("--grpc", metavar="ADDRESS", help="where the engine serves P4Runtime (default 127.0.0.1, any port)")
    command(commands, "down", "end the fabric that is up", _down)
    command(commands, "status", "what is up, since when, and where its switches are reached", _status)
    shell = command(commands, "shell", "p4runtime-shell on one switch", _shell, json=False)
    shell.add_argument("switch", metavar="SWITCH", help="like s3")
    shell.add_argument("--primary", action="store_true", help="take over from detour's controller, to write as well")
    shell.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARG", help="passed on to p4runtime-shell")
    command(commands, "warm", "compile all native code now instead of on first use", _warm, json=False)


def add_fabric_options(parser: argparse.ArgumentParser) -> None:
    """Options of everything that boots a fabric."""
    parser.add_argument(
        "--target",
        default="auto",
        choices=("auto", "engine", "bmv2"),
        help="the embedded engine, or BMv2's processes (root); auto: BMv2 where it can run (default)",
    )
    parser.add_argument(
        "--topo", default="d1", metavar="SPEC", help="topology, like dragonfly:p=2,a=4,h=2 (default d1)"
    )
    parser.add_argument("--pcap", metavar="DIR", help="write a pcapng file a port into DIR")


def up_options(options: argparse.Namespace) -> Any:
    """What the options say."""
    from detour.fabric.daemon import UpOptions

    pcap = None if options.pcap is None else os.path.abspath(options.pcap)
    return UpOptions(options.target, options.topo, pcap, getattr(options, "grpc", None))


def _up(options: argparse.Namespace) -> None:
    from detour.fabric import daemon

    with progress(options.json, log=True) as tell:
        if options.detach:
            status = daemon.spawn(up_options(options), tell)
        else:
            daemon.run(up_options(options), tell, lambda status: _show_up(status, options.json))
            return
    emit(status, options.json, lambda console: _show_status(console, status, endpoints=False))


def _show_up(status: dict[str, Any], as_json: bool) -> None:
    def render(console: Console) -> None:
        _show_status(console, status, endpoints=False)
        console.print("Ctrl-C (or `detour down`) ends it.")

    emit(status, as_json, render)


def _down(options: argparse.Namespace) -> None:
    from detour.fabric import daemon

    with progress(options.json) as tell:
        tell("ending the fabric")
        ended = daemon.down()
    emit({"down": ended}, options.json, lambda console: console.print("down" if ended else "no fabric was up"))


def _status(options: argparse.Namespace) -> None:
    from detour.fabric import daemon

    status = daemon.ask("status")
    emit(status, options.json, lambda console: _show_status(console, status, endpoints=True))


def _show_status(console: Console, status: dict[str, Any], endpoints: bool) -> None:
    console.print(
        f"{status['topology']} on {status['target']}: {status['switches']} switches, {status['hosts']} hosts, "
        f"{status['entries']} entries, links of {status['rate_mbps']:g} Mb/s, up for {status['seconds_up']:.0f} s"
    )
    if status["failures"]:
        console.print(f"failed: {', '.join(status['failures'])}")
    for name, reason in status.get("lost", {}).items():
        console.print(f"switch {name} is not reached, and will be: {reason}")
    addresses = {endpoint["address"] for endpoint in status["endpoints"].values()}
    if len(addresses) == 1:
        console.print(f"P4Runtime: {addresses.pop()}, device ids 1 to {status['switches']} (s0 is device 1)")
    elif endpoints:
        rows = [(name, e["device_id"], e["address"]) for name, e in status["endpoints"].items()]
        console.print(table(("switch", ">device id", "P4Runtime"), rows))


def _shell(options: argparse.Namespace) -> int:
    from detour.base.errors import DetourError
    from detour.control import shell
    from detour.control.client import ELECTION_ID
    from detour.fabric import daemon

    endpoints = daemon.ask("status")["endpoints"]
    endpoint = endpoints.get(options.switch)
    if endpoint is None:
        raise DetourError(f"there is no switch {options.switch!r}; the fabric has s0 to s{len(endpoints) - 1}")
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    election_id = ELECTION_ID + 1 if options.primary else 1
    return shell.run(endpoint["address"], endpoint["device_id"], election_id, arguments)


def _warm(options: argparse.Namespace) -> None:
    from detour.fabric.warm import warm

    with progress(as_json=False, log=True) as tell:
        warm(tell)
