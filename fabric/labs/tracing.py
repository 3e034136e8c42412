# SPDX-License-Identifier: Apache-2.0
"""Packets of a lab in virtual time, traced as they pass (`detour sim --lab DIR --trace FILTER`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from detour.engine.trace.filters import parse_filter
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Dropped, Output, Visit
from detour.fabric.labs.boot import BootedLab
from detour.fabric.operations.following import document
from detour.fabric.operations.results import LivePackets
from detour.fabric.tracing.live import UNDER_WAY, by_packet
from detour.fabric.tracing.results import Arrived, Ending, FollowedHop, FollowedPacket, dropped_at

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
        shown = [document(self._packet(chain, tick)) for chain in kept[: self._count]]
        return LivePackets(shown, self.recorder.missed + len(kept) - len(shown))

    def _packet(self, chain: Sequence[Visit], tick_ps: int) -> FollowedPacket:
        names = {switch.device_id: switch.name for switch in self._booted.lab.switches}
        found = FollowedPacket()
        arrivals = [(visit.switch, visit.port, visit.frame) for visit in chain[1:]]
        for visit in chain:
            at_ns = (visit.time_ticks - chain[0].time_ticks) * tick_ps // 1000
            found.hops.append(FollowedHop(names[visit.switch], visit.port, at_ns, visit.tree))
            for fraction, leaf in visit.tree.leaves():
                if isinstance(leaf.outcome, Dropped):
                    found.add(Ending(fraction, dropped=dropped_at(names[visit.switch], leaf.outcome)))
                elif isinstance(leaf.outcome, Output):
                    ending = self._left(names[visit.switch], leaf.outcome, arrivals)
                    if ending is not None:
                        found.add(ending)
        return found

    def _left(self, switch: str, output: Output, arrivals: list[tuple[int, int, bytes]]) -> Ending | None:
        """What became of a frame that left a switch; None: it came to the next one."""
        for link in self._booted.lab.links:
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if (near.node, near.port) != (switch, output.port):
                    continue
                if any(far.node == host.name for host in self._booted.lab.hosts):
                    return Ending(1.0, [Arrived(switch, output.port, far.node, output.frame)])
                place = (*self._booted.port(far), output.frame)
                if place in arrivals:
                    arrivals.remove(place)
                    return None
        return Ending(1.0, [Arrived(switch, output.port, None, output.frame)])


@contextmanager
def lab_traces(booted: BootedLab, text: str | None, count: int) -> Iterator[LabTraces | None]:
    """Traces while it lasts; None: nobody wants it."""
    if text is None:
        yield None
        return
    traces = LabTraces(booted, text, count)
    with traces.recorder:
        yield traces
