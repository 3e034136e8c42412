# SPDX-License-Identifier: Apache-2.0
"""Packets of a run that are traced as they pass (`detour sim --trace FILTER`)."""

from __future__ import annotations

from detour.engine.trace.filters import Filter
from detour.engine.trace.recorder import Recorder
from detour.experiments.sim.replay.tracing import Chain, Steps
from detour.experiments.sim.watching import Watcher
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.operations.packet_tracing import document
from detour.fabric.operations.results import LivePackets
from detour.fabric.tracing.live import UNDER_WAY, by_packet, host_filter, is_over, packets
from detour.topo import Topology

_SPARE = 1_000
"""packets that may be under way at once where what becomes of them decides"""


class TracedPackets(Watcher):
    """The first packets that a filter wants. `chains`: those that are over."""

    def __init__(self, topology: Topology, text: str, count: int) -> None:
        """`count`: of packets at most; those behind are counted.

        Raises:
            DetourError: the filter does not parse.
        """
        self._topology, self._count = topology, count
        self._wanted: Filter = host_filter(topology, text)
        self.chains: list[Chain] = []
        self._recorder: Recorder | None = None
        self._steps = Steps()
        self.missed = 0

    def begin(self, fabric: VirtualFabric) -> None:
        """Tracing begins with the run."""
        super().begin(fabric)
        count = self._count + _SPARE if self._wanted.looks_back else self._count
        self._recorder = Recorder(fabric.network, self._wanted, count=count)
        self._recorder.start()

    def look(self) -> None:
        """Takes what is over."""
        assert self._recorder is not None
        step = self._steps.limited(self._recorder)
        self._sort(False)
        self.due_ps = self._fabric.now_ps + step

    def end(self) -> None:
        """What is under way has no outcome."""
        assert self._recorder is not None
        self._recorder.collect()
        self._recorder.finish(UNDER_WAY)
        self._sort(True)
        self.missed = self._recorder.missed
        self._recorder.stop()

    def live_packets(self) -> LivePackets:
        """What was traced."""
        tick = self._fabric.network.tick_ps
        found = [packets(self._topology, chain, tick)[0] for chain in self.chains]
        return LivePackets([document(each) for each in found], self.missed)

    def _sort(self, ended: bool) -> None:
        """Keeps what is wanted of what is over, and lets go of the rest."""
        recorder = self._recorder
        assert recorder is not None
        tick = self._fabric.network.tick_ps
        over = [chain for chain in by_packet(recorder.collect()) if ended or is_over(self._topology, chain)]
        for chain in over:
            if len(self.chains) < self._count and any(self._wanted.keeps(visit, tick) for visit in chain):
                self.chains.append(chain)
        recorder.forget_traces({chain[0].trace for chain in over})
        if self._wanted.looks_back and len(self.chains) < self._count:
            recorder.allow(self._count + _SPARE)
