# SPDX-License-Identifier: Apache-2.0
"""What the prompt offers while somebody types: commands, options, and hosts, links or switches where they are due."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from detour.topo import Topology


def of_topology(topology: Topology) -> dict[str, list[str]]:
    """What may stand for a metavar of the command line."""
    hosts = [host.name for host in topology.hosts]
    switches = [switch.name for switch in topology.switches]
    links = [link.name for link in topology.links]
    return {
        "SRC": hosts,
        "DST": hosts,
        "SWITCH": switches,
        "LINK|SWITCH": [*links, *switches, *hosts],
    }


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
        """What may come after these words."""
        if not before:
            return [*self._commands, "help", "quit"]
        parser = self._commands.get(before[0])
        if parser is None:
            return []
        options = {text: action for action in parser._actions for text in action.option_strings}
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
        waiting = [action for action in parser._actions if not action.option_strings][positionals:]
        return (self._values(waiting[0]) if waiting else []) + [text for text in options if text.startswith("--")]

    def _values(self, action: argparse.Action) -> list[str]:
        if action.choices:
            return [str(choice) for choice in action.choices]
        return self._words.get(str(action.metavar), [])
