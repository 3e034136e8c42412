# SPDX-License-Identifier: Apache-2.0
"""`up`, `down`, `shell`, `warm`: a fabric that stays."""

from __future__ import annotations

import argparse
import json
import os
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.tables import Table, left, right
from detour.cli.asking import own_name, running, running_lab
from detour.cli.lab import add_lab_options, lab_of_up, show_lab
from detour.cli.operations import show_status
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import (
    Parser,
    add_name_option,
    choose_fabric,
    command,
    fraction,
    mtu_bytes,
    output_file,
    packet_count,
    rate_bps,
    time_ps,
)

if TYPE_CHECKING:
    from detour.fabric.daemon.options import UpOptions


def register(commands: Any) -> None:
    up = command(commands, "up", "boot a fabric, write its tables and keep it running", _up)
    up.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO", help="a YAML file with options (docs/fabrics.md)"
    )
    up.flag("--detach", "return when the fabric is up; `detour down` stops it")
    add_fabric_options(up, None, "default: engine, or virtual with --pace")
    up.option("--linux", "hosts that run Linux programs in network namespaces, like h0,h71 (`detour exec`)", "HOSTS")
    up.option("--netns", "hosts in the network namespaces of processes, like h3=4711", "HOST=PID")
    up.option("--mtu", "MTU of Linux hosts' interfaces (1500)", "BYTES", mtu_bytes)
    add_lab_options(up)
    text = "with --lab: add N to the switches' P4Runtime and Thrift ports; free: free ones (see `detour status`)"
    up.option("--ports", text, "N|free")
    up.option(
        "--pace",
        "speed of virtual time relative to the wall clock: 1x (default), 10x, max; implies --target virtual",
        "PACE",
    )
    up.option("--load", "start continuous traffic, like adv1 or unf:pairs=100 (`detour load`)", "PATTERN")
    up.option("--coverage", "write the program's coverage by packets at the end", "FILE", output_file)
    add_name_option(up)
    up.set_defaults(parser=up)
    _add_grpc_options(up)
    add_name_option(command(commands, "down", "stop the running fabric", _down))
    command(commands, "fabrics", "list your running fabrics", _fabrics)
    shell = command(commands, "shell", "open p4runtime-shell on one switch", _shell, json=False)
    shell.add_argument("switch", metavar="SWITCH", help="like s3")
    shell.flag("--primary", "become primary in place of detour's controller, to write too")
    add_name_option(shell)
    shell.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARG", help="passed on to p4runtime-shell")
    command(commands, "warm", "compile all native code now instead of on first use", _warm)
    _add_exec(commands)


def add_fabric_options(parser: Parser, target: str | None, without: str) -> None:
    """Options of everything that boots a fabric. `target`: if none is given, what `without` says in words."""
    parser.option(
        "--target",
        "the embedded engine, BMv2's processes (root), or the engine in virtual time that passes by itself "
        f"(--pace); auto: BMv2 where it can run ({without})",
        default=target,
        choices=("auto", "engine", "bmv2", "virtual"),
    )
    text = "like dragonfly:p=2,a=4,h=2, net.graphml, .json, .csv, FILE.py:NAME (default d1)"
    parser.option("--topo", text, "SPEC", default="d1")
    parser.option("--pcap", "write a pcapng file per port into DIR", "DIR")
    parser.option("--rate", "rate of every link, like 100M (bits a second)", "R", rate_bps)
    parser.option("--delay", "delay of every link, like 5us", "T", time_ps)
    parser.option("--queue", "length of each queue of a port in packets", "N", packet_count)
    parser.option("--loss", "fraction of frames lost between switches, like 0.001", "F", fraction)
    parser.option("--routing", "path selection in the switches: valiant, spraypoint:p=4,h=2, FILE.py:NAME", "NAME")
    parser.option("--program", "a P4 program with fabric.p4's tables", "P4|P4INFO,JSON")


def _add_grpc_options(up: Parser) -> None:
    up.option(
        "--grpc",
        "serve the engine's P4Runtime there as well, HOST:PORT (port 0: any) or unix:PATH; every user of this "
        "machine can program the switches by a port without client certificates (default: only a UNIX socket of yours)",
        "ADDRESS",
    )
    up.add_argument("--grpc-tls", "--grpc-server-ssl", action="store_true", help="with TLS, only for --grpc")
    for name, text in (("cert", "certificate chain"), ("key", "private key")):
        up.add_argument(f"--grpc-server-{name}", metavar="PEM", help=f"the server's {text}")
    up.option("--grpc-server-cacert", "CA that verifies clients' certificates", "PEM")
    up.flag("--grpc-server-with-client-auth", "require client certificates")


def _grpc_tls(options: argparse.Namespace) -> dict[str, str] | None:
    """The files, by the names of `engine.endpoint.Tls`."""
    files = {"certificate": options.grpc_server_cert, "key": options.grpc_server_key}
    client_ca, certified = options.grpc_server_cacert, options.grpc_server_with_client_auth
    if not options.grpc_tls:
        if certified or client_ca is not None or any(files.values()):
            raise DetourError("certificates have no effect without --grpc-tls")
        return None
    if options.grpc is None:
        raise DetourError("--grpc-tls needs --grpc HOST:PORT")
    if None in files.values():
        raise DetourError("--grpc-tls needs --grpc-server-cert and --grpc-server-key")
    if certified and client_ca is None:
        raise DetourError("--grpc-server-with-client-auth needs --grpc-server-cacert to verify clients")
    if certified:
        files["client_ca"] = client_ca
    return {name: os.path.abspath(file) for name, file in files.items()}


def up_options(options: argparse.Namespace) -> UpOptions:
    """Convert the command's options."""
    from detour.base import plugins
    from detour.control.graph_files import absolute
    from detour.control.p4runtime.pipeline import PipelineConfig
    from detour.fabric.daemon.options import UpOptions

    pcap, topology = None if options.pcap is None else os.path.abspath(options.pcap), absolute(options.topo)
    program = options.program
    if program is not None and getattr(options, "lab", None) is None:
        given = PipelineConfig.given(options.program)
        program = f"{given.p4info},{given.blob}"
    settings = UpOptions(
        options.target or ("engine" if options.pace is None else "virtual"), topology, pcap, rate_bps=options.rate,
        delay_ps=options.delay, queue_packets=options.queue, loss=options.loss, program=program,
        routing=options.routing and plugins.absolute(options.routing),
    )  # fmt: skip
    if "grpc" not in options:
        return settings
    lab = lab_of_up(options)
    settings = replace(
        settings, grpc=options.grpc, grpc_tls=_grpc_tls(options), load=options.load, linux=options.linux,
        netns=options.netns, mtu=options.mtu, pace=options.pace,
        coverage=None if options.coverage is None else os.path.abspath(options.coverage),
    )  # fmt: skip
    if lab is None:
        return settings
    return replace(
        settings, lab=lab, solution=options.solution, lab_args=options.lab_args, ports=options.ports,
        compiler=options.compiler,
    )  # fmt: skip


_IN_FILES = (
    "target", "topo", "rate", "delay", "queue", "loss", "program", "linux", "netns", "mtu", "pace", "load", "pcap",
    "coverage", "name",
)  # fmt: skip


def _up(options: argparse.Namespace) -> None:
    from detour.fabric.daemon import client
    from detour.fabric.daemon.state_dir import about_this_fabric

    if options.scenario is not None:
        from detour.base.option_files import read_options

        parser, file = options.parser, options.scenario
        for key, entry in read_options(file, read_text(file), _IN_FILES).items():
            try:
                value = getattr(parser.parse_args([f"--{key}={entry.value}"]), key)
            except DetourError as error:
                raise DetourError(f"{file}, line {entry.line}: {error}") from None
            if getattr(options, key) == parser.get_default(key):
                setattr(options, key, value)
        choose_fabric(options.name)
    with ExitStack() as shown:
        progress = shown.enter_context(shown_progress(options.json, log=True))

        def ready(status: Any) -> None:
            shown.close()

            def render(page: Page) -> None:
                _show(page, status, options)
                page.print(f"Ctrl-C (or {about_this_fabric('down')}) ends it.")

            present(status, options, render)

        if not options.detach:
            from detour.fabric.daemon import daemon

            daemon.run(up_options(options), progress, ready)
            return
        status = client.spawn(up_options(options), progress)
    present(status, options, lambda page: _show(page, status, options))


def _show(page: Page, status: Any, options: argparse.Namespace) -> None:
    if options.lab is not None:
        show_lab(page, status)
    else:
        show_status(page, status, endpoints=False)


def _down(options: argparse.Namespace) -> None:
    from detour.fabric.daemon import client
    from detour.fabric.daemon.state_dir import not_up

    with shown_progress(options.json) as progress:
        progress("ending the fabric")
        ended = client.down()
    present({"down": ended}, options, lambda page: page.print("down" if ended else not_up()))


def _fabrics(options: argparse.Namespace) -> None:
    from detour.fabric.daemon.state_dir import all_fabrics

    fabrics = [{"name": name, **state.noted()} for name, state in all_fabrics().items()]

    def render(page: Page) -> None:
        if not fabrics:
            page.print("no fabric is up")
            return
        columns = (
            left("name", lambda row: row["name"] or "(none)"),
            left("topology", lambda row: row.get("topology", "?")),
            left("target", lambda row: row.get("target", "?")),
            right("process", lambda row: row.get("pid", "?")),
        )
        page.table(Table(columns, fabrics))

    present({"fabrics": fabrics}, options, render)


def _shell(options: argparse.Namespace) -> int:
    from detour.control.p4runtime import shell
    from detour.control.p4runtime.client import ELECTION_ID

    status = running().status()
    endpoints = status.endpoints
    endpoint = endpoints.get(own_name(options.switch, status))
    if endpoint is None:
        names = list(endpoints)
        raise DetourError(f"there is no switch {options.switch!r}; the fabric has {names[0]} to {names[-1]}")
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    election_id = ELECTION_ID + 1 if options.primary else 1
    address = status.p4runtime.socket if status.p4runtime else endpoint.address
    with shown_progress(as_json=False, log=True) as progress:
        python = shell.environment(progress)
    return shell.run(python, address, endpoint.device_id, election_id, arguments)


def _warm(options: argparse.Namespace) -> None:
    from detour.fabric.warm import warm

    with shown_progress(options.json, log=True) as progress:
        warmed = warm(progress, only_missing=not options.json)
    if options.json:
        print(json.dumps(warmed))


def _add_exec(commands: Any) -> None:
    text = "run a command on a Linux host (`detour up --linux`); its exit status is the command's"
    parser = command(commands, "exec", text, _exec, json=False)
    add_name_option(parser)
    parser.add_argument("host", metavar="HOST", help="like h0")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="arguments of the command")


def _exec(options: argparse.Namespace) -> None:
    from detour.fabric.linux.keeper import attended, enter

    arguments = _command_of(options.arguments)
    if not arguments:
        raise DetourError(f"nothing to run: `detour exec {options.host} -- COMMAND`")
    lab = running_lab()
    status = running().status() if lab is None else lab
    hosts = {host.host: host for host in status.linux or []}
    if not hosts:
        what, names = ("fabric", "h0,h71") if lab is None else ("lab", "all")
        raise DetourError(f"the {what} has no Linux hosts; start it with `detour up --linux {names}`")
    linux_host = hosts.get(own_name(options.host, status))
    if linux_host is None:
        raise DetourError(f"{options.host} is not a Linux host; these are: {', '.join(hosts)}")
    line = [*enter(linux_host.process, linux_host.user), *attended(os.getcwd(), arguments)]
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    try:
        os.execvp(line[0], line)
    except OSError as error:
        raise DetourError(f"{line[0]}: {error.strerror}") from None


def _command_of(words: list[str]) -> list[str]:
    """Return the command to run from the words behind the host: `--name` may stand there as well, before `--`."""
    if words and words[0].split("=")[0] == "--name" and "--" in words:
        parser = Parser(prog="detour exec")
        add_name_option(parser)
        choose_fabric(parser.parse_args(words[: words.index("--")]).name)
        words = words[words.index("--") :]
    return words[1:] if words[:1] == ["--"] else words
