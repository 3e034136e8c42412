# SPDX-License-Identifier: Apache-2.0
"""What watchers of a run (`experiments.sim.run.RunWatcher`) have in common, and several of them as one."""

from __future__ import annotations

from collections.abc import Sequence

from detour.experiments.sim.run import RunWatcher
from detour.fabric.backends.virtual.fabric import VirtualFabric


class Watcher:
    """To be derived from: what has a `look` as well is a `RunWatcher`, from the beginning of a run to its end."""

    due_ps: int = 0
    """when it wants to look next"""

    @property
    def enough(self) -> bool:
        """Whether the run need not go on."""
        return False

    def begin(self, fabric: VirtualFabric) -> None:
        """Connections are there."""
        self._fabric = fabric

    def end(self) -> None:
        """The run is over."""

    def note(self, kind: str, text: str, failures: list[str]) -> None:
        """A controller's entries change tables, not programs: what is traced or counted stays the same."""


class Watchers:
    """Each looks when its own time has come."""

    def __init__(self, watchers: Sequence[RunWatcher]) -> None:
        self._watchers = watchers

    @property
    def due_ps(self) -> int:
        """When the first of them wants to look."""
        return min(each.due_ps for each in self._watchers)

    @property
    def enough(self) -> bool:
        """Whether one of them has seen what it wanted."""
        return any(each.enough for each in self._watchers)

    def begin(self, fabric: VirtualFabric) -> None:
        """Connections are there."""
        self._fabric = fabric
        for each in self._watchers:
            each.begin(fabric)

    def look(self) -> None:
        """The time of one of them has come."""
        for each in self._watchers:
            if each.due_ps <= self._fabric.now_ps:
                each.look()

    def end(self) -> None:
        """The run is over."""
        for each in self._watchers:
            each.end()

    def note(self, kind: str, text: str, failures: list[str]) -> None:
        """Something has happened."""
        for each in self._watchers:
            each.note(kind, text, failures)
