# SPDX-License-Identifier: Apache-2.0
"""`cli`: simple_switch_CLI's commands, on a switch of the fabric that is up or on any that serves BMv2's runtime API.

A file is checked as a whole before anything of it is done, and the first command that the switch refuses ends it.
Standard input that is not a terminal is read as simple_switch_CLI reads it: every line is tried, and the output is that
which scripts look for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.cli.asking import own_name, running
from detour.cli.parser import add_name_option, command, port_number

if TYPE_CHECKING:
    from detour.engine.bmv2api.commands.registry import CommandScope
    from detour.engine.bmv2api.interface import Api

PROMPT = "RuntimeCmd: "
_INTRO = "Control utility for runtime P4 table manipulation"
_ENDS = ("EOF", "quit", "exit")


def register(commands: Any) -> None:
    parser = command(commands, "cli", "run simple_switch_CLI's commands on one switch", _cli)
    parser.add_argument("switch", nargs="?", metavar="SWITCH", help="switch of the running fabric, like s3")
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="file with commands (default: a prompt; -: standard input)"
    )
    where = parser.add_argument_group("another switch, of detour or BMv2, in place of SWITCH")
    where.add_argument("--thrift-port", type=port_number, metavar="N", help="Thrift port of the switch, like 9090")
    where.add_argument("--thrift-ip", metavar="HOST", help="host of the switch (localhost)")
    add_name_option(parser)


def _cli(options: argparse.Namespace) -> int:
    with _connected(options) as api:
        if options.file not in (None, "-"):
            return _carry_out(Path(options.file), api, options.json)
        if sys.stdin.isatty() and options.file is None:
            if options.json:
                raise DetourError("--json needs a file of commands")
            return _prompt(api)
        return _read_lines(api, options.json)


@contextmanager
def _connected(options: argparse.Namespace) -> Iterator[Api]:
    from detour.base.addresses import TcpAddress, parse
    from detour.engine.bmv2api.client import connect

    if options.thrift_port is None and options.thrift_ip is None:
        where, name = _socket_of(options.switch)
        address = parse(where, "Thrift")
        name = "" if isinstance(address, TcpAddress) else name  # a lab's switches have a port each
    else:
        if options.file is not None:
            raise DetourError(f"give a switch ({options.switch}) or --thrift-port, not both")
        options.file = options.switch
        port = 9090 if options.thrift_port is None else options.thrift_port
        if not 0 < port <= 0xFFFF:
            raise DetourError(f"--thrift-port {port} is not 1 to 65535")
        address, name = TcpAddress(options.thrift_ip or "localhost", port), ""
    with connect(address, name) as connection:
        yield connection


def _socket_of(switch: str | None) -> tuple[str, str]:
    """Return where a switch is reached, and its name there."""
    if switch is None:
        raise DetourError("name a switch of the running fabric, like s0, or give --thrift-port")
    from detour.fabric.daemon.state_dir import StateDir

    state = StateDir()
    record = state.noted() if state.is_alive() else {}
    lab = record.get("switches") if record.get("target") == "lab" else None
    if lab is not None:
        if switch not in lab:
            raise DetourError(f"there is no switch {switch!r}; the lab has {', '.join(lab)}")
        return lab[switch], switch
    status = running().status()
    name = own_name(switch, status)
    if name not in status.endpoints:
        names = list(status.endpoints)
        raise DetourError(f"there is no switch {switch!r}; the fabric has {names[0]} to {names[-1]}")
    if not status.p4runtime:
        raise DetourError(
            "the Thrift ports of this fabric's BMv2 switches are reachable only in their network namespaces: "
            "use `nsenter --net=... simple_switch_CLI` there (`detour status` names it)"
        )
    return status.p4runtime.thrift, name


def _carry_out(path: Path, api: Api, as_json: bool) -> int:
    from detour.engine.bmv2api.commands.interpreter import carry_out, scope_of, understand_all

    commands = understand_all(path, read_text(Path(path)), scope_of(api))
    done = []
    for line, output in carry_out(path, commands, api):
        done.append({"line": line.line, "command": line.text, "output": output})
        if not as_json:
            print(*output, sep="\n", end="\n" if output else "")
    if as_json:
        print(json.dumps({"commands": done}))
    return 0


def _read_lines(api: Api, as_json: bool) -> int:
    """Every line is tried; 2 if one of them was refused."""
    from detour.engine.bmv2api.commands.interpreter import scope_of

    scope = scope_of(api)
    if not as_json:
        print(_INTRO)
    done, failed = [], False
    for number, line in enumerate(sys.stdin, 1):
        if line.strip() in _ENDS:
            break
        output, error = _try(line, scope, api)
        failed |= error is not None
        done.append({"line": number, "command": line.strip(), "output": output, "error": error})
        if not as_json:
            lines = output if error is None else [*output, error]
            print(PROMPT + "\n".join(lines), end="\n" if lines else "", flush=True)
    print(json.dumps({"commands": done}) if as_json else PROMPT)
    return 2 if failed else 0


def _try(line: str, scope: CommandScope, api: Api) -> tuple[list[str], str | None]:
    """Run a command; return its output and its error."""
    from detour.engine.bmv2api.commands.errors import error_line
    from detour.engine.bmv2api.commands.interpreter import understand
    from detour.engine.bmv2api.wire import ServiceError

    output: list[str] = []
    program = scope.program
    try:
        work = understand(line, scope)
        if work is not None:
            work(api, output.append)
    except (DetourError, ServiceError) as error:
        scope.program = program  # of a new one that the switch did not take
        return output, error_line(error)
    return output, None


def _prompt(api: Api) -> int:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory

    from detour.cli.runtime_completion import RuntimeCompleter
    from detour.engine.bmv2api.commands.interpreter import scope_of

    scope = scope_of(api)
    reader: PromptSession[str] = PromptSession(history=InMemoryHistory(), completer=RuntimeCompleter(scope))
    print(f"{_INTRO}; `help` lists the commands, Ctrl-D ends it")
    while True:
        try:
            line = reader.prompt(PROMPT).strip()
            if line in _ENDS:
                return 0
            output, error = _try(line, scope, api)
            print(*output, *([] if error is None else [error]), sep="\n", end="\n" if output or error else "")
        except DetourError as error:
            print(error)
        except EOFError:
            return 0
        except KeyboardInterrupt:
            continue
