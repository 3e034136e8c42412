# SPDX-License-Identifier: Apache-2.0
"""Packets of a lab in virtual time, traced as they pass (`detour sim --lab DIR --trace FILTER`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from detour.engine.trace.filters import parse_filter
from detour.engine.trace.recorder import Recorder
from detour.fabric.labs.boot import BootedLab
from detour.fabric.operations.packet_tracing import document
from detour.fabric.operations.results import LivePackets
from detour.fabric.tracing.live import UNDER_WAY, by_packet, packets

_SPARE = 10_000
"""packets that are looked at where what becomes of them decides"""


class LabTraces:
    """The first packets that a filter wants, and how many more there were."""

    def __init__(self, booted: BootedLab, text: str, count: int) -> None:
        """
        Raises:
            DetourError: the filter does not parse.
        """
        addresses = {host.name: str(host.address.ip) for host in booted.lab.hosts}
        self._wanted = parse_filter(text, addresses.get)
        self._booted, self._count = booted, count
        more = _SPARE if self._wanted.looks_back else 0
        self.recorder = Recorder(booted.network, self._wanted, count=count + more)

    def found(self) -> LivePackets:
        """When the run is over."""
        self.recorder.collect()
        self.recorder.finish(UNDER_WAY)
        tick = self._booted.network.tick_ps
        chains = by_packet(self.recorder.collect())
        kept = [chain for chain in chains if any(self._wanted.keeps(visit, tick) for visit in chain)]
        shown = [document(packets(self._booted, chain, tick)[0]) for chain in kept[: self._count]]
        return LivePackets(shown, self.recorder.missed + len(kept) - len(shown))


@contextmanager
def lab_traces(booted: BootedLab, text: str | None, count: int) -> Iterator[LabTraces | None]:
    """Traces while it lasts; None: nobody wants it."""
    if text is None:
        yield None
        return
    traces = LabTraces(booted, text, count)
    with traces.recorder:
        yield traces
