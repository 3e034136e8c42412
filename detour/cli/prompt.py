# SPDX-License-Identifier: Apache-2.0
"""The prompt after the demo: the same commands as on the command line, on the fabric that is up."""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from rich.console import Console

from detour.base.errors import DetourError
from detour.base.interrupting import Interrupted
from detour.base.tables import Table, left
from detour.cli.asking import ANSWERED_BY
from detour.cli.output import PRINTED_TO, Page
from detour.cli.parser import Parser, actions_of
from detour.fabric.operations.session import Session
from detour.topo import Topology

ASKING_GROUPS = ("operations", "trace", "metrics", "place", "fcplus")
"""modules of the command line whose commands ask a running fabric"""
_ENDS = ("quit", "exit")


class _Help(DetourError):
    """`--help` was asked for: what to print is in the text."""


class _PromptParser(Parser):
    """Never ends the process."""

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise _Help(message or "")


class Prompt:
    """Reads commands until `quit` or Ctrl-D. They are those of the command line, answered by a session."""

    def __init__(self, session: Session, console: Console | None = None) -> None:
        self._session = session
        self._console = console or Console()
        self._parser = _PromptParser(prog="", add_help=False)
        self._commands = self._parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_PromptParser)
        for group in ASKING_GROUPS:
            import_module(f"detour.cli.{group}").register(self._commands)

    def run(self) -> None:
        """The loop."""
        completer = CommandCompleter(self._commands.choices, of_topology(self._session.topology))
        reader: PromptSession[str] = PromptSession(history=InMemoryHistory(), completer=completer)
        self._console.print("The fabric is up. `help` lists what can be asked; quit or Ctrl-D ends it.")
        # Here Ctrl-C ends a command, not the fabric.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while (line := self._read(reader)) not in _ENDS:
                self.do(line)
        finally:
            signal.signal(signal.SIGINT, before)

    def _read(self, reader: PromptSession[str]) -> str:
        """A line; an empty one for Ctrl-C, which takes back what was typed."""
        try:
            return reader.prompt("detour> ").strip()
        except Interrupted:
            raise
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return "quit"

    def do(self, line: str) -> None:
        """Carry out one line; what is wrong with it is printed, and that is all."""
        try:
            words = shlex.split(line)
            if words[:1] == ["help"]:
                self._help(words[1:])
            elif words:
                options = self._parser.parse_args(words)
                if getattr(options, "name", None) is not None:
                    raise DetourError("--name has no effect here: this prompt belongs to one fabric")
                with ANSWERED_BY.set_to(self._session), PRINTED_TO.set_to(self._console):
                    options.run(options)
        except _Help as text:
            self._console.print(str(text) or "`help` lists all commands")
        except (DetourError, ValueError) as error:
            self._console.print(str(error).replace("(try ` --help`)", "(try `help`)"), style="red", markup=False)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            self._console.print("interrupted")

    def _help(self, words: list[str]) -> None:
        if words:
            if words[0] not in self._commands.choices:
                raise DetourError(f"there is no command {words[0]!r} (try `help`)")
            self._console.print(self._commands.choices[words[0]].format_help(), markup=False)
            return
        commands = self._commands.choices.items()
        rows = [(f"{name} {self._usage(name)}".strip(), parser.description) for name, parser in commands]
        ends = [("help [COMMAND]", "This, or what a command can be told."), ("quit", "End the fabric.")]
        columns = (left("command", lambda row: row[0]), left("does", lambda row: row[1]))
        Page(self._console).table(Table(columns, [*rows, *ends]))

    def _usage(self, name: str) -> str:
        """Return a command's positional arguments, optional ones in brackets."""
        actions = [action for action in actions_of(self._commands.choices[name]) if not action.option_strings]
        return " ".join(f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar) for action in actions)


def of_topology(topology: Topology) -> dict[str, list[str]]:
    """Return the possible values of the command line's metavars."""
    hosts = [host.name for host in topology.hosts]
    switches = [switch.name for switch in topology.switches]
    links = [link.name for link in topology.links]
    return {"SRC": hosts, "DST": hosts, "SWITCH": switches, "LINK|SWITCH": [*links, *switches, *hosts]}


class CommandCompleter(Completer):
    """Completes by a parser with subcommands; `words`: by metavar."""

    def __init__(self, commands: Mapping[str, argparse.ArgumentParser], words: Mapping[str, list[str]]) -> None:
        self._commands, self._words = commands, words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        *before, begun = document.text_before_cursor.split(" ")
        before = [word for word in before if word]
        for word in self._due(before):
            if word.startswith(begun):
                yield Completion(word, start_position=-len(begun))

    def _due(self, before: list[str]) -> list[str]:
        """Return the possible words after these."""
        if not before:
            return [*self._commands, "help", "quit"]
        parser = self._commands.get(before[0])
        if parser is None:
            return []
        options = {text: action for action in actions_of(parser) for text in action.option_strings}
        given, positionals = before[1:], 0
        wants: Any = None
        for word in given:
            if wants is not None:
                wants = None
            elif word in options:
                wants = options[word] if options[word].nargs != 0 else None
            else:
                positionals += 1
        if wants is not None:
            return self._values(wants)
        waiting = [action for action in actions_of(parser) if not action.option_strings][positionals:]
        return (self._values(waiting[0]) if waiting else []) + [text for text in options if text.startswith("--")]

    def _values(self, action: argparse.Action) -> list[str]:
        if action.choices:
            return [str(choice) for choice in action.choices]
        return self._words.get(str(action.metavar), [])
