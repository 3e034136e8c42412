# SPDX-License-Identifier: Apache-2.0
"""Tracing a part of a run: a watcher that lets packets be traced from a moment on and asks a stop condition about
them; and packets that are traced as they pass (`detour sim --trace FILTER`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from detour.base.errors import DetourError
from detour.base.times import US
from detour.engine.trace.filters import EVERYTHING, Filter
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Visit
from detour.experiments.sim.watching import Watcher
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.operations.packet_tracing import document
from detour.fabric.operations.results import LivePackets
from detour.fabric.tracing.live import UNDER_WAY, by_packet, host_filter, is_over, packets
from detour.topo import Topology

T = TypeVar("T")

Chain = list[Visit]
"""the visits of one packet, in the order in which it came to switches"""
StopCondition = Callable[[Sequence[Chain], int], T | None]
"""of (packets that were traced so far, time in ps): what was sought, None: not yet"""

FOREVER_PS = 1 << 62
"""the time at which a stop condition is asked when the run is over"""
_RING_BYTES = 64 << 20
_LEAST_STEP_PS, _FIRST_STEP_PS, _MOST_STEP_PS = US // 64, US, 128 * US
_FULL, _EMPTY = 0.2, 0.02


class Steps:
    """Limit of a run until records are taken: so that their memory, half of which packets may fill, never is."""

    def __init__(self) -> None:
        self.step_ps = _FIRST_STEP_PS

    def after(self, recorder: Recorder) -> int:
        """The next step, by how full the memory is, where nothing may be missed. Raises `DetourError`: it was too small
        for a step."""
        if recorder.ring.missed or recorder.ring.lost:
            raise DetourError("more packets arrived at the same time than fit the memory for traces")
        return self.limited(recorder)

    def limited(self, recorder: Recorder) -> int:
        """The same, where what is missed is counted."""
        used = recorder.ring.used
        if used > _FULL:
            self.step_ps = max(_LEAST_STEP_PS, self.step_ps // 4)
        elif used < _EMPTY:
            self.step_ps = min(_MOST_STEP_PS, self.step_ps * 2)
        return self.step_ps


class TracedPart(Watcher, Generic[T]):
    """Ends the run when its stop condition has found something. `found`: that."""

    def __init__(
        self,
        from_ps: int,
        stop: StopCondition[T],
        *,
        selection: Filter = EVERYTHING,
        switches: Sequence[int] | None = None,
        until_ps: int | None = None,
        forget: Callable[[Chain], bool] = lambda chain: False,
    ) -> None:
        """`switches`: device ids (all). `until_ps`: then the search ends. `forget`: packets that no condition wants
        any more."""
        self.result: T | None = None
        self.due_ps = from_ps
        self._stop, self._wanted, self._switches, self._forget = stop, selection, switches, forget
        self._until_ps = until_ps
        self._recorder: Recorder | None = None
        self._steps = Steps()
        self._over = False

    @property
    def enough(self) -> bool:
        """Return whether it was found, or cannot be any more."""
        return self._over or self.result is not None

    def look(self) -> None:
        now = self._fabric.now_ps
        if self._recorder is None:
            self._recorder = Recorder(
                self._fabric.network, self._wanted, switches=self._switches, ring_bytes=_RING_BYTES
            )
            self._recorder.start()
            self.due_ps = now + self._steps.step_ps
            return
        step = self._steps.after(self._recorder)
        chains = by_packet(self._recorder.collect())
        self.result = self._stop(chains, now)
        self._recorder.forget_traces({chain[0].trace for chain in chains if self._forget(chain)})
        self._over = self._until_ps is not None and now >= self._until_ps
        self.due_ps = now + step

    def end(self) -> None:
        """Tracing ends with the run; what is under way has no outcome."""
        if self._recorder is None:
            return
        if self.result is None:
            self.result = self._stop(by_packet(self._recorder.collect()), FOREVER_PS)
        self._recorder.stop()


_SPARE = 1_000
"""packets that may be under way at once where what becomes of them decides"""


class TracedPackets(Watcher):
    """The first packets that a filter wants. `chains`: those that are over."""

    def __init__(self, topology: Topology, text: str, count: int) -> None:
        """`count`: of packets at most; those behind are counted. Raises `DetourError`: the filter does not parse."""
        self._topology, self._count = topology, count
        self._wanted: Filter = host_filter(topology, text)
        self.chains: list[Chain] = []
        self._recorder: Recorder | None = None
        self._steps = Steps()
        self.missed = 0

    def begin(self, fabric: VirtualFabric) -> None:
        super().begin(fabric)
        count = self._count + _SPARE if self._wanted.looks_back else self._count
        self._recorder = Recorder(fabric.network, self._wanted, count=count)
        self._recorder.start()

    def look(self) -> None:
        assert self._recorder is not None
        step = self._steps.limited(self._recorder)
        self._sort(False)
        self.due_ps = self._fabric.now_ps + step

    def end(self) -> None:
        """End tracing; packets under way have no outcome."""
        assert self._recorder is not None
        self._recorder.collect()
        self._recorder.finish(UNDER_WAY)
        self._sort(True)
        self.missed = self._recorder.ring.missed
        self._recorder.stop()

    def live_packets(self) -> LivePackets:
        tick = self._fabric.network.tick_ps
        traced = [packets(self._topology, chain, tick)[0] for chain in self.chains]
        return LivePackets([document(each) for each in traced], self.missed)

    def _sort(self, ended: bool) -> None:
        """Keep what is wanted of what is over, and let go of the rest."""
        recorder = self._recorder
        assert recorder is not None
        tick = self._fabric.network.tick_ps
        over = [chain for chain in by_packet(recorder.collect()) if ended or is_over(self._topology, chain)]
        for chain in over:
            if len(self.chains) < self._count and any(self._wanted.keeps(visit, tick) for visit in chain):
                self.chains.append(chain)
        recorder.forget_traces({chain[0].trace for chain in over})
        if self._wanted.looks_back and len(self.chains) < self._count:
            recorder.ring.allow(self._count + _SPARE)
