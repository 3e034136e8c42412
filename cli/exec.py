# SPDX-License-Identifier: Apache-2.0
"""`exec`: a program of Linux on a host that is a namespace."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

from detour.base.errors import DetourError
from detour.cli.asking import running, running_lab
from detour.cli.parser import Parser, add_name_option, choose_fabric, command


def register(commands: Any) -> None:
    text = "run a command on a Linux host (`detour up --linux`); its exit status is the command's"
    parser = command(commands, "exec", text, _exec, json=False)
    add_name_option(parser)
    parser.add_argument("host", metavar="HOST", help="like h0")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="and what it is to be told")


def _exec(options: argparse.Namespace) -> None:
    from detour.fabric.linux.keeper import attended, enter

    arguments = _command_of(options.arguments)
    if not arguments:
        raise DetourError(f"nothing to run: `detour exec {options.host} -- COMMAND`")
    lab = running_lab()
    hosts = {host.host: host for host in (running().status().linux if lab is None else lab.linux) or []}
    if not hosts:
        what, names = ("fabric", "h0,h71") if lab is None else ("lab", "all")
        raise DetourError(f"the {what} has no Linux hosts; `detour up --linux {names}` makes some")
    found = hosts.get(options.host)
    if found is None:
        raise DetourError(f"{options.host} is no Linux host; these are: {', '.join(hosts)}")
    line = [*enter(found.process, found.user), *attended(os.getcwd(), arguments)]
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    try:
        os.execvp(line[0], line)
    except OSError as error:
        raise DetourError(f"{line[0]}: {error.strerror}") from None


def _command_of(words: list[str]) -> list[str]:
    """What is to be run, of what stands behind the host: `--name` may stand there as well, before `--`."""
    if words and words[0].split("=")[0] == "--name" and "--" in words:
        parser = Parser(prog="detour exec")
        add_name_option(parser)
        choose_fabric(parser.parse_args(words[: words.index("--")]).name)
        words = words[words.index("--") :]
    return words[1:] if words[:1] == ["--"] else words
