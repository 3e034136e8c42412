# SPDX-License-Identifier: Apache-2.0
"""Packets of a lab in virtual time, traced as they pass (`detour sim --lab DIR --trace FILTER`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from detour.engine.trace.filters import parse_filter
from detour.engine.trace.recorder import Recorder
from detour.fabric.labs.boot import BootedLab
from detour.fabric.operations.packet_tracing import document
from detour.fabric.operations.results import LivePackets
from detour.fabric.tracing.live import UNDER_WAY, by_packet, packets

_SPARE = 10_000
"""packets that are looked at where what becomes of them decides"""


@contextmanager
def lab_traces(booted: BootedLab, text: str | None, count: int) -> Iterator[Callable[[], LivePackets] | None]:
    """Traces packets while it lasts. Yields what gives, when the run is over, the first `count` packets that a filter
    wants, and how many more there were; None: nobody wants any. Raises DetourError: the filter does not parse."""
    if text is None:
        yield None
        return
    network = booted.network
    chosen = parse_filter(text, {host.name: str(host.address.ip) for host in booted.lab.hosts}.get)
    recorder = Recorder(network, chosen, count=count + (_SPARE if chosen.looks_back else 0))

    def traced() -> LivePackets:
        recorder.collect()
        recorder.finish(UNDER_WAY)
        tick = network.tick_ps
        chains = [each for each in by_packet(recorder.collect()) if any(chosen.keeps(visit, tick) for visit in each)]
        shown = [document(packets(booted, chain, tick)[0]) for chain in chains[:count]]
        return LivePackets(shown, recorder.ring.missed + len(chains) - len(shown))

    with recorder:
        yield traced
