# SPDX-License-Identifier: Apache-2.0
"""Operations that trace packets (docs/trace.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.engine import warm
from detour.engine.coverage.document import collecting
from detour.engine.network import Network
from detour.engine.p4runtime import compile_program
from detour.engine.trace.filters import Filter
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Visit
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.clock import ps
from detour.fabric.backends.network import NetworkFabric
from detour.fabric.operations.control_plane import ControlPlane, Paths
from detour.fabric.operations.results import LivePackets, PacketTrace
from detour.fabric.tracing.frames import hex_frame
from detour.fabric.tracing.live import LIVE_POLL_PS, by_packet, host_filter, is_whole, packets, trace_sent_frame
from detour.fabric.tracing.results import TracedPacket
from detour.hosts.frames.sample import data_frame
from detour.topo import Host

_MOST_LIVE = 1_000
_NOT_ITS_QUEUES = "followed in the engine, by the switches' program and tables: queues and times are not BMv2's"


class PacketTracing:
    """See the module. Methods may be called from several threads; packets are traced for one of them at a time."""

    def __init__(self, fabric: Fabric, control: ControlPlane, paths: Paths) -> None:
        self._fabric, self._control, self._paths = fabric, control, paths
        self._lock = threading.Lock()

    def trace(
        self,
        source: str,
        target: str,
        sport: int | None,
        usid: str | None,
        length: int,
        all_ways: bool,
        coverage: str | None,
        progress: Progress,
    ) -> PacketTrace:
        """A data packet of `length` bytes of payload, through every switch on its way. `all_ways`: it is not sent, but
        followed through a copy of the tables, in all ways that hashes, selectors and random numbers leave open. Through
        a copy goes every packet of a fabric whose switches are not the engine's. `coverage`: a file for what it reaches
        of the program (`engine.coverage`). Raises DetourError: there is no such host, or the file cannot be written."""
        a, b = self._paths.ends(source, target)
        way = self._paths.chosen(b, sport, usid)
        frame = data_frame(a, b, way.sport, way.usids, length)
        with self._lock, collecting(_file(coverage)):
            return self._followed(a, frame, all_ways, progress, way.sport)

    def trace_frame(self, source: str, frame: str, all_ways: bool, progress: Progress) -> PacketTrace:
        """The same of any frame, in hex, that a host sends: nobody need understand it. Raises DetourError: there is no
        such host, or it is not a frame."""
        host, data = self._fabric.topology.host(source), hex_frame(frame)
        with self._lock:
            return self._followed(host, data, all_ways, progress)

    def _followed(
        self, host: Host, data: bytes, all_ways: bool, progress: Progress, sport: int | None = None
    ) -> PacketTrace:
        fabric = self._fabric
        if all_ways or not isinstance(fabric, NetworkFabric):
            return self._through_copy(host, data, all_ways, progress)
        progress("waiting for the packet to arrive")
        return document(trace_sent_frame(fabric.network, fabric.topology, fabric.clock, host, data, sport))

    def _through_copy(self, source: Host, frame: bytes, all_ways: bool, progress: Progress) -> PacketTrace:
        from detour.fabric.tracing.walk import FabricCopy  # with the fabric in virtual time, which few daemons need

        topology, ports = self._fabric.topology, self._fabric.ports()
        if isinstance(self._fabric, NetworkFabric):
            state = self._fabric.network.state(topology.switches[0].device_id)
            if state is None:
                raise DetourError("the switches have no pipeline yet")
            program, note = state.program, UNSET
        else:
            warm.ensure(progress)
            program, note = compile_program(self._fabric.terms.pipeline.blob.read_bytes()), _NOT_ITS_QUEUES

        def is_up(link: int) -> bool:
            return all(ports[end].up for end in self._fabric.link_ends(link))

        progress("reading the tables")
        entries, tick_ps = self._control.read_live(), self._fabric.terms.hosts.tick_ps
        with FabricCopy(topology, program, entries, is_up=is_up, tick_ps=tick_ps) as copy:
            return replace(document(copy.trace(source, frame, all_ways=all_ways)), note=note)

    def trace_live(
        self,
        wanted: str,
        switch: str | None,
        count: int,
        seconds: float,
        coverage: str | None,
        progress: Progress,
        cancelled: threading.Event | None,
    ) -> LivePackets:
        """Up to `count` packets that a filter wants, as they pass, or fewer after `seconds`. `switch`: only there.
        `coverage`: a file for what they reach of the program. Raises DetourError: the filter does not parse, there is
        no such switch, or it cannot be looked into, or the file cannot be written."""
        if not 1 <= count <= _MOST_LIVE:
            raise DetourError(f"{count} packets at a time; expected 1 to {_MOST_LIVE}")
        topology = self._fabric.topology
        chosen = host_filter(topology, wanted)
        only = None if switch is None else [topology.switch(switch).device_id]
        with self._lock, collecting(_file(coverage)):
            network = self._running()
            recorder = Recorder(network, chosen, switches=only, count=_MOST_LIVE if chosen.looks_back else count)
            clock = self._fabric.clock
            end = clock.now_ps + ps(seconds)

            def over() -> bool:
                clock.wait(min(clock.now_ps + LIVE_POLL_PS, end))
                return clock.now_ps >= end or (cancelled is not None and cancelled.is_set())

            progress("waiting for packets")
            with recorder:
                visits = _gathered(recorder, chosen, network.tick_ps, count, over)
        documents = [document(each) for each in packets(topology, visits, network.tick_ps)]
        return LivePackets(documents, recorder.ring.missed)

    def _running(self) -> Network:
        if not isinstance(self._fabric, NetworkFabric):
            raise DetourError(
                f"{self._fabric.target}: --live needs the engine (`detour up --target engine`); "
                "here use `detour trace SRC DST`"
            )
        return self._fabric.network


def _file(coverage: str | None) -> Path | None:
    return None if coverage is None else Path(coverage)


def _gathered(recorder: Recorder, chosen: Filter, tick_ps: int, count: int, over: Callable[[], bool]) -> list[Visit]:
    """The visits of packets that are wanted, until there are `count` of those, or it is over."""
    while True:
        ended = over()
        if ended:
            recorder.finish()
        visits = recorder.collect()
        whole = [each for each in by_packet(visits) if ended or all(is_whole(visit) for visit in each)]
        kept = [each for each in whole if any(chosen.keeps(visit, tick_ps) for visit in each)]
        if ended or len(kept) >= count:
            return [visit for each in kept[:count] for visit in each]
        if chosen.looks_back:
            recorder.forget_traces({each[0].trace for each in whole} - {each[0].trace for each in kept})
            recorder.ring.allow(_MOST_LIVE)


def document(packet: TracedPacket) -> PacketTrace:
    """A packet as it goes over the control socket."""
    shown = packet.as_json()
    return PacketTrace(shown["hops"], shown["outcomes"])
