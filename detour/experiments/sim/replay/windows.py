# SPDX-License-Identifier: Apache-2.0
"""Watchers that stop a run when something is counted for the first time. And the longest wait in a queue
of a whole run: every packet is traced, and of what is recorded only the waits are read, by native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from detour.base.arrays import Int64Array, Int64s1, Int64s2
from detour.base.native import Part
from detour.base.times import US
from detour.engine.compiler.tracing import TraceForm
from detour.engine.trace.recorder import Recorder
from detour.experiments.sim.replay.tracing import Steps
from detour.experiments.sim.watching import Watcher
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.hosts.verbs import qp_numbers

WAITS = Part("waits", __name__)

P = TypeVar("P")

_FIRST_PS, _STEPS = 10 * US, 64
_INSIDE = (
    *("ingress_drops", "no_pipeline_drops", "no_port_drops", "priority_drops", "pool_drops", "header_drops"),
    *("pipeline_drops", "input_drops", "buffer_drops", "headroom_drops", "empty_drops"),
)
"""counters of a switch that are not those of its ports as well"""


@dataclass(frozen=True)
class Counters(Generic[P]):
    """Counters of one kind. `read` gives an array of counters, `place` says what one is about, by its row in it."""

    read: Callable[[VirtualFabric], Int64Array]
    place: Callable[[VirtualFabric, int], P]


@dataclass(frozen=True)
class Window(Generic[P]):
    """Something was counted after `from_ps` and not after `to_ps`. `place`: what the first counter is about of those
    that grew."""

    from_ps: int
    to_ps: int
    place: P

    @property
    def length_ps(self) -> int:
        """Precision of the time."""
        return self.to_ps - self.from_ps


class FirstCount(Watcher, Generic[P]):
    """Ends the run when a counter has grown. `window`: when that was, None: it never did."""

    def __init__(self, counters: Counters[P], within: Window[P] | None = None) -> None:
        """`within`: where to look closely; nothing grows before."""
        self._counters, self._within = counters, within
        self.window: Window[P] | None = None
        self._step = 0 if within is None else max(1, within.length_ps // _STEPS)
        self.due_ps = _FIRST_PS if within is None else within.from_ps
        self._known_ps = 0

    @property
    def enough(self) -> bool:
        return self.window is not None

    def begin(self, fabric: VirtualFabric) -> None:
        super().begin(fabric)
        self._before = self._counters.read(fabric).copy()

    def look(self) -> None:
        now = self._fabric.now_ps
        counts = self._counters.read(self._fabric)
        grown = np.flatnonzero(counts > self._before)
        if len(grown):
            self.window = Window(self._known_ps, now, self._counters.place(self._fabric, int(grown[0])))
        self._known_ps = now
        self.due_ps = now + (self._step or max(_FIRST_PS, now // _STEPS))

    def end(self) -> None:
        if self.window is None:
            self.look()


@dataclass(frozen=True)
class DropPlace:
    """Place at which frames are lost: in a switch, by device id, or at its `port`, where that is known; `on_link`: on
    the link behind the port."""

    device: int
    port: int | None
    on_link: bool


def _drops(fabric: VirtualFabric) -> Int64Array:
    """(3, ports) flat: frames that found a port's queue full; that the link behind it lost; that its egress dropped;
    and behind them what the ingress of each switch dropped, for whatever reason."""
    ports = fabric.network.port_stats()
    switches = fabric.network.switch_stats()
    inside = np.sum([switches[name] for name in _INSIDE], axis=0)
    return np.concatenate([ports["queue_drops"], ports["link_drops"], ports["egress_drops"], inside]).astype(np.int64)


def _drop_place(fabric: VirtualFabric, row: int) -> DropPlace:
    ports = fabric.network.port_stats()
    count = len(ports["port"])
    if row >= 3 * count:
        return DropPlace(int(fabric.network.switch_stats()["device_id"][row - 3 * count]), None, False)
    kind, index = divmod(row, count)
    return DropPlace(int(ports["device_id"][index]), int(ports["port"][index]), kind == 1)


LOST_FRAMES = Counters(_drops, _drop_place)


def _arrived_marks(fabric: VirtualFabric) -> Int64Array:
    """(connections,) data packets that came to their receivers with ECN's mark."""
    return fabric.column("st_rx_ecn_marked").copy()


def _ends(fabric: VirtualFabric, connection: int) -> tuple[int, int]:
    """(index of the source host, destination QP) of a connection."""
    hs, flows = fabric.hs, fabric.flows
    return int(hs.qp["host"][flows.sender[connection]]), int(qp_numbers(hs, flows.receiver[connection]))


ARRIVED_MARKS = Counters(_arrived_marks, _ends)


_RING_BYTES = 64 << 20


# -- waits --------------------------------------------------------------------------------------------------

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
    """Keep in `best` the values of the record with the longest wait. `places`: (forms, values) where a value stands
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
    """Return the places of `_READ` in the records with which an egress begins."""
    places = np.full((len(forms), len(_READ)), -1, np.int64)
    for number, form in enumerate(forms):
        if form.kind != "begin" or form.facts.get("function") != "egress":
            continue
        at = 0
        for value in form.values:
            if value.name in _READ:
                places[number, _READ.index(value.name)] = at
            at += value.words
    return places


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
        super().begin(fabric)
        self._recorder = Recorder(fabric.network, follow=False, ring_bytes=_RING_BYTES, count=1 << 60)
        self._recorder.start()

    def look(self) -> None:
        assert self._recorder is not None
        step = self._steps.after(self._recorder)
        words, forms = self._recorder.take()
        if len(self._places) != len(forms):
            self._places = _places(forms)
        _scan(words, self._places, self._best)
        self.due_ps = self._fabric.now_ps + step

    def end(self) -> None:
        assert self._recorder is not None
        self.look()
        self._recorder.stop()
