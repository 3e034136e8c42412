# SPDX-License-Identifier: Apache-2.0
"""Watchers of a run of `detour sim`: they look at it from outside, and change nothing in it."""

from __future__ import annotations

from collections.abc import Sequence

from detour.base.times import MAX_TIME
from detour.fabric.backends.virtual.fabric import VirtualFabric


class Watcher:
    """One that never looks; others derive from it. Methods are called from the beginning of a run to its end."""

    due_ps: int = 0
    """when it wants to look next"""

    @property
    def enough(self) -> bool:
        """Return whether the run need not go on."""
        return False

    def begin(self, fabric: VirtualFabric) -> None:
        """Connections are there, nothing is sent yet."""
        self._fabric = fabric

    def look(self) -> None:
        """`due_ps` has come."""
        self.due_ps = MAX_TIME

    def end(self) -> None:
        """The run is over."""

    def note(self, kind: str, text: str, failures: list[str]) -> None:
        """Something has happened (`fail`, `routes`), and these are down now. A controller's entries change tables, not
        programs: what is traced or counted stays the same."""


class Watchers(Watcher):
    """Several, each of which looks when its own time has come."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    @property
    def enough(self) -> bool:
        return any(each.enough for each in self._watchers)

    def begin(self, fabric: VirtualFabric) -> None:
        super().begin(fabric)
        for each in self._watchers:
            each.begin(fabric)
        self.due_ps = min(each.due_ps for each in self._watchers)

    def look(self) -> None:
        for each in self._watchers:
            if each.due_ps <= self._fabric.now_ps:
                each.look()
        self.due_ps = min(each.due_ps for each in self._watchers)

    def end(self) -> None:
        for each in self._watchers:
            each.end()

    def note(self, kind: str, text: str, failures: list[str]) -> None:
        for each in self._watchers:
            each.note(kind, text, failures)
