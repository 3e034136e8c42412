# SPDX-License-Identifier: Apache-2.0
"""The longest wait in a queue of a whole run: every packet is traced, and of what is recorded only the waits are read,
by native code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.arrays import Int64Array, Int64s1, Int64s2
from detour.base.parts import Part
from detour.engine.compiler.tracing import TraceForm
from detour.engine.trace.recorder import Recorder
from detour.experiments.sim.replay.tracing import Steps
from detour.experiments.sim.watching import Watcher
from detour.fabric.backends.virtual.fabric import VirtualFabric

WAITS = Part("waits", __name__)
_RING_BYTES = 64 << 20
_READ = ("switch", "egress_port", "priority", "enq_timestamp", "deq_timedelta")


@dataclass(frozen=True)
class LongestWait:
    """In a queue of a switch, by device id; times in ticks of the program's clock."""

    switch: int
    port: int
    priority: int
    enqueued_ticks: int
    wait_ticks: int


@WAITS.entry
def _scan(words: Int64s1, places: Int64s2, best: Int64s1) -> None:
    """Keeps in `best` the values of the record with the longest wait. `places`: (forms, values) where a value stands
    in records of a form, -1: nowhere."""
    at = 0
    while at < len(words):
        head = words[at]
        form = head & 0xFFFFFFFF
        wait_at = places[form, len(best) - 1]
        if wait_at >= 0 and words[at + 1 + wait_at] > best[len(best) - 1]:
            for i in range(len(best)):
                best[i] = words[at + 1 + places[form, i]]
        at += head >> 32


def _places(forms: Sequence[TraceForm]) -> Int64Array:
    """Of `_READ` in the records with which an egress begins."""
    found = np.full((len(forms), len(_READ)), -1, np.int64)
    for number, form in enumerate(forms):
        if form.kind != "begin" or form.about.get("function") != "egress":
            continue
        at = 0
        for value in form.values:
            if value.name in _READ:
                found[number, _READ.index(value.name)] = at
            at += value.words
    return found


class WaitScan(Watcher):
    """Watches a whole run."""

    def __init__(self) -> None:
        self._best = np.zeros(len(_READ), np.int64)
        self._recorder: Recorder | None = None
        self._steps = Steps()
        self._places = np.zeros((0, len(_READ)), np.int64)

    @property
    def longest(self) -> LongestWait | None:
        """None: nothing ever waited."""
        switch, port, priority, enqueued, wait = self._best.tolist()
        return LongestWait(switch, port, priority, enqueued, wait) if wait else None

    def begin(self, fabric: VirtualFabric) -> None:
        """Connections are there."""
        super().begin(fabric)
        self._recorder = Recorder(fabric.network, follow=False, ring_bytes=_RING_BYTES, count=1 << 60)
        self._recorder.start()

    def look(self) -> None:
        """Reads what has been recorded."""
        assert self._recorder is not None
        step = self._steps.after(self._recorder)
        words, forms = self._recorder.take()
        if len(self._places) != len(forms):
            self._places = _places(forms)
        _scan(words, self._places, self._best)
        self.due_ps = self._fabric.now_ps + step

    def end(self) -> None:
        """The last of it."""
        assert self._recorder is not None
        self.look()
        self._recorder.stop()
