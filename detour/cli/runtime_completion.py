# SPDX-License-Identifier: Apache-2.0
"""Completion at the prompt of `detour cli`: commands, and tables, actions, counters and so on where they fit."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope


class RuntimeCompleter(Completer):
    """Completes commands and what they take; names may be shortened to what comes after a dot."""

    def __init__(self, scope: CommandScope) -> None:
        self._scope = scope

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        *before, begun = document.text_before_cursor.split(" ")
        before = [word for word in before if word]
        for word in sorted(self.due(before)):
            if word.startswith(begun) or (before and f".{begun}" in word):
                yield Completion(word, start_position=-len(begun))

    def due(self, before: list[str]) -> Iterable[str]:
        """Return the possible words after these."""
        if not before:
            return [*COMMANDS, "help", "quit"]
        name, *words = before
        if name == "help":
            return COMMANDS if not words else []
        command = COMMANDS.get(name)
        if command is None or len(words) >= len(command.arguments):
            return []
        try:
            return command.arguments[len(words)].names(self._scope.program, words)
        except DetourError:  # the words before name nothing
            return []
