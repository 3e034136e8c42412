# SPDX-License-Identifier: Apache-2.0
"""The prompt after the demo: the same commands as on the command line, on the fabric that is up."""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Callable
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import InMemoryHistory
from rich.console import Console

from detour.base.errors import DetourError
from detour.cli.output import progress, table
from detour.cli.parser import Parser, add_path_options, byte_count
from detour.cli.paths import show_change, show_path
from detour.cli.tables import show_report
from detour.cli.traffic import send_arguments, show_probe, show_send
from detour.fabric.operations.session import Session

_HELP = (
    ("send SRC DST [--bytes N | --file F [--store OUT]] [--sport N | --usid LIST]", "send and check, h0 to h71 say"),
    ("probe SRC DST", "queuing delay of every candidate path"),
    ("path SRC DST [--sport N | --usid LIST]", "the hops that a packet takes"),
    ("fail LINK|SWITCH", "take s0-s4, s0:3, h7's link or s3 down"),
    ("heal [LINK|SWITCH]", "bring it, or everything, back"),
    ("verify", "prove from the switches' tables that all pairs are connected"),
    ("help", "this"),
    ("quit", "end the fabric"),
)


class _Help(DetourError):
    """`--help` was asked for: what to print is in the text."""


class _PromptParser(Parser):
    """Never ends the process."""

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise _Help(message or "")


class Prompt:
    """Reads commands until `quit`, Ctrl-D, or Ctrl-C on an empty line."""

    def __init__(self, session: Session, console: Console | None = None) -> None:
        self._session = session
        self._console = console or Console()
        self._parser = self._make_parser()

    def _make_parser(self) -> Parser:
        parser = _PromptParser(prog="", add_help=False)
        commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_PromptParser)

        def add(name: str, run: Callable[[argparse.Namespace], None], *, ends: bool = False) -> argparse.ArgumentParser:
            command = commands.add_parser(name)
            command.set_defaults(run=run)
            for end in ("source", "target") if ends else ():
                command.add_argument(end)
            return command

        send = add("send", self._send, ends=True)
        what = send.add_mutually_exclusive_group()
        what.add_argument("--bytes", type=byte_count)
        what.add_argument("--file")
        send.add_argument("--store")
        add_path_options(send)
        add_path_options(add("path", self._path, ends=True))
        add("probe", self._probe, ends=True)
        add("fail", self._fail).add_argument("what")
        add("heal", self._heal).add_argument("what", nargs="?")
        add("verify", self._verify)
        add("help", self._help)
        return parser

    def run(self) -> None:
        """The loop."""
        words = [line.split()[0] for line, _ in _HELP]
        reader: PromptSession[str] = PromptSession(history=InMemoryHistory(), completer=WordCompleter(words))
        self._console.print("The fabric is up: help, send, probe, path, fail, heal, verify, quit.")
        # Here Ctrl-C ends a command, not the fabric.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while (line := self._read(reader)) not in ("quit", "exit"):
                self.do(line)
        finally:
            signal.signal(signal.SIGINT, before)

    def _read(self, reader: PromptSession[str]) -> str:
        try:
            return reader.prompt("detour> ").strip()
        except (EOFError, KeyboardInterrupt):
            return "quit"

    def do(self, line: str) -> None:
        """Carries out one line; what is wrong with it is printed, and that is all."""
        try:
            words = shlex.split(line)
            if words:
                options = self._parser.parse_args(words)
                options.run(options)
        except _Help as text:
            self._console.print(str(text) or "`help` lists all commands")
        except (DetourError, ValueError) as error:
            self._console.print(str(error).replace("(try ` --help`)", "(try `help`)"), style="red", markup=False)
        except KeyboardInterrupt:
            self._console.print("interrupted")

    # -- commands ---------------------------------------------------------------------------------------

    def _send(self, options: argparse.Namespace) -> None:
        with progress(as_json=False) as tell:
            result = self._session.send(**send_arguments(options), tell=tell)
        show_send(self._console, result)

    def _path(self, options: argparse.Namespace) -> None:
        show_path(self._console, self._session.path(options.source, options.target, options.sport, options.usid))

    def _probe(self, options: argparse.Namespace) -> None:
        show_probe(self._console, self._session.probe(options.source, options.target))

    def _fail(self, options: argparse.Namespace) -> None:
        show_change(self._console, self._session.fail(options.what))

    def _heal(self, options: argparse.Namespace) -> None:
        show_change(self._console, self._session.heal(options.what))

    def _verify(self, options: argparse.Namespace) -> None:
        show_report(self._console, self._session.verify())

    def _help(self, options: argparse.Namespace) -> None:
        self._console.print(table(("command", "does"), _HELP))
