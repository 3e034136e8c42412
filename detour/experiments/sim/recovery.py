# SPDX-License-Identifier: Apache-2.0
"""Recovery time of a fabric after an event during a run.

A connection is *silent* while it has a message to carry and its receiver gets nothing new in order, for longer than
three of its round trips. RecoveryWatch is the time from an event to the end of the last silence that began after it and
before somebody had done something about it: before the link was back, or routes led around it. A lost packet that is
not sent again yet keeps a connection silent, whatever comes after it, so spraying does not hide losses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.times import MAX_TIME, US
from detour.experiments.sim.settings import SimSettings, TimedFailure
from detour.experiments.sim.watching import Watcher
from detour.fabric.backends.virtual.fabric import VirtualFabric

_ROUND_TRIPS = 3
_FINENESS = 64
"""looks are a microsecond apart, or this part of the time since the event"""


class RecoveryWatch(Watcher):
    """Watches a run in which something happens. `recover_ps`: of the event with the longest recovery, 0 if no
    connection fell silent, None if one still was when the run ended."""

    def __init__(self, settings: SimSettings) -> None:
        events = settings.failures
        self._times = [one.at_ps for one in events if one.change != "up"]
        self._ends = [_over_ps(one, events, settings.reroute_after_ps) for one in events if one.change != "up"]
        self.due_ps = min(self._times, default=MAX_TIME)
        self._longest = 0
        self._open = False

    @property
    def recover_ps(self) -> int | None:
        return None if self._open else self._longest

    def begin(self, fabric: VirtualFabric) -> None:
        super().begin(fabric)
        self._last = fabric.column("st_rx_delivered").copy()
        self._since = np.zeros(fabric.count, np.int64)
        self._silent = np.zeros(fabric.count, np.bool_)

    def look(self) -> None:
        now, fabric = self._fabric.now_ps, self._fabric
        delivered = fabric.column("st_rx_delivered").copy()
        moved = (delivered != self._last) | (fabric.column("sq_una") == fabric.column("sq_end"))
        if now <= self._times[0]:  # what was before does not count
            moved[:] = True
        event = max((k for k, at in enumerate(self._times) if at <= now), default=0)
        over = self._silent & moved
        if over.any():
            self._longest = max(self._longest, now - self._cause(self._since[over].min()))
        self._since[moved], self._last = now, delivered
        trips = fabric.column("srtt")
        usual = int(np.median(trips[trips > 0])) if (trips > 0).any() else 0
        late = ~moved & (now - self._since > _ROUND_TRIPS * np.maximum(trips, usual))
        self._silent = late & self._counts(self._since)
        self._open = bool(self._silent.any())
        waits = self._open or now <= self._ends[event] + _ROUND_TRIPS * usual
        ahead = min((at for at in self._times if at > now), default=MAX_TIME)
        # Nothing is looked for between what is over and what comes next.
        self.due_ps = min(ahead, now + max(US, (now - self._times[event]) // _FINENESS)) if waits else ahead

    def end(self) -> None:
        if self._times and self._times[0] <= self._fabric.now_ps:
            self.look()

    def _cause(self, since_ps: int) -> int:
        """The time of the event after which a silence began."""
        return max((at for at in self._times if at <= since_ps), default=self._times[0])

    def _counts(self, since: np.ndarray) -> np.ndarray:
        """The silences that began before their event was over."""
        times, ends = np.array(self._times), np.array(self._ends)
        event = np.maximum(np.searchsorted(times, since, side="right") - 1, 0)
        return (since >= times[event]) & (since <= ends[event])


def _over_ps(event: TimedFailure, events: Sequence[TimedFailure], reroute_after_ps: int | None) -> int:
    """The end of an event for connections that begin to send: its link is back, or routes lead around it."""
    back = [one.at_ps for one in events if one.failure == event.failure and one.change == "up" and one > event]
    if reroute_after_ps is not None:
        back.append(event.at_ps + reroute_after_ps)
    return min(back, default=MAX_TIME)
