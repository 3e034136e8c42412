# SPDX-License-Identifier: Apache-2.0
"""What the prompt of `detour cli` offers: commands, and tables, actions, counters and so on where they are due."""

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
        """What may come after these words."""
        if not before:
            return [*COMMANDS, "help", "quit"]
        command = COMMANDS.get(before[0])
        if before[0] == "help":
            return COMMANDS if len(before) == 1 else []
        if command is None or len(before) > len(command.takes):
            return []
        return self._names(command.takes[len(before) - 1], before)

    def _names(self, kind: str, before: list[str]) -> Iterable[str]:
        program = self._scope.program
        match kind:
            case "table":
                return program.tables
            case "profile":
                return program.profiles
            case "counter":
                return program.counters
            case "meter":
                return program.meters
            case "register":
                return program.registers
            case "value set":
                return program.value_sets
            case "crc16" | "crc32":
                return [name for name, bits in program.custom_crcs.items() if f"crc{bits}" == kind]
        try:
            owner = (program.tables if kind == "action" else program.profiles).find(before[1])
        except DetourError:
            return []
        return owner.actions
