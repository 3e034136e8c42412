# SPDX-License-Identifier: Apache-2.0
"""One run of the rerouting experiment on the wall clock: the engine, or BMv2. Payload is real, all of it is compared.

The whole control plane takes part: tables over P4Runtime, the flow monitor's thread, and a controller that pushes new
uSID lists over the control socket.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path as File
from typing import Any

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.control.rerouting import FlowReport, ReroutingController
from detour.experiments.placement.scenario import (
    ONSET,
    RECEIVER,
    SENDER,
    SPINE_PATHS,
    THROTTLE,
    THROTTLED,
    TOPOLOGY,
    Footing,
    RunResult,
    bins,
)
from detour.fabric.daemon.control_socket import ControlServer
from detour.fabric.footings.base import Fabric
from detour.fabric.footings.settings import BMV2, ENGINE, FootingSettings
from detour.fabric.operations.rerouter import Rerouter, push_to, usid_text
from detour.fabric.operations.session import Session
from detour.fabric.traffic.flows import Choice, Flow
from detour.fabric.traffic.streams import PatternSink, PatternSource
from detour.hosts.verbs.verbs import Path
from detour.topo import parse_topology
from detour.topo.paths import path_usids

_SEED = 1
_DRAIN_S = 20.0
_WARM_BYTES = 20_000
_SLOTS = 24
"""messages under way: 150 ms of work on the engine, for this process is not always on time"""


def _settings(how: Footing, base: FootingSettings) -> FootingSettings:
    # What waits in the throttled link's queue must not look lost: it would be sent again.
    full_queue_ps = base.queue_packets * PACKET_BYTES * 8 * 1_000_000_000_000 // base.rate_bps
    hosts = replace(
        base.hosts,
        react_delay_ps=round(how.delay_s * 1e12),
        react_hold_ps=round(how.hold_s * 1e12),
        react_penalty_ps=how.thresholds.penalty_ps,
        min_rto_ps=2 * full_queue_ps,
        min_probe_timeout_ps=full_queue_ps,
        max_rto_ps=max(base.hosts.max_rto_ps, 8 * full_queue_ps),
    )
    return replace(base, hosts=hosts)


def make(how: Footing, footing: str) -> Fabric:
    """The fabric of a footing, not started yet."""
    topology = parse_topology(TOPOLOGY)
    if footing == "bmv2":
        from detour.fabric.footings.bmv2.fabric import Bmv2Fabric

        return Bmv2Fabric(topology, _settings(how, BMV2))
    from detour.fabric.footings.engine import EngineFabric

    return EngineFabric(topology, _settings(how, ENGINE))


def run(how: Footing, footing: str, mode: str, seconds: float) -> RunResult:
    """Carries out a run; see `experiment`."""
    with ExitStack() as stack:
        fabric = make(how, footing)
        fabric.start()
        session = Session(fabric)
        stack.callback(session.close)
        session.connect()
        session.provision()
        # Whatever is loaded or compiled on first use, is now: the first run would begin with it.
        session.send(f"h{SENDER}", f"h{RECEIVER}", _WARM_BYTES, usid=usid_text(SPINE_PATHS[0], RECEIVER))
        folder = File(stack.enter_context(tempfile.TemporaryDirectory(prefix="detour-")))
        server = ControlServer(folder / "socket", {"reroute": session.reroute, "flows": session.flows})
        server.start()
        stack.callback(server.stop)
        return _Run(session, how, mode, seconds, folder / "socket").measure()


class _Run:
    """A fabric with its one flow."""

    def __init__(self, session: Session, how: Footing, mode: str, seconds: float, socket: File) -> None:
        self.session, self.how, self.mode, self.seconds = session, how, mode, seconds
        target = session.topology.hosts[RECEIVER]
        paths = tuple(Path(0, path_usids(session.topology, way, target)) for way in SPINE_PATHS)
        choice = Choice(paths, react=True) if mode == "nic" else Choice(paths[:1])
        stream = PatternSource(_SEED), PatternSink(_SEED)
        size = session.fabric.settings.message_bytes
        self.flow: Flow = session.pump.open(SENDER, RECEIVER, choice, stream, slots=_SLOTS, slot_bytes=size)
        # The first look at the tables is not to count for the first push.
        for way in SPINE_PATHS:
            session.path(f"h{SENDER}", f"h{RECEIVER}", usid=usid_text(way, RECEIVER))
        self.rerouter = Rerouter(ReroutingController(session.topology, how.thresholds), push_to(socket))
        self.samples: list[tuple[int, int]] = []
        self.moves: list[int] = []
        self.onset_ps: int | None = None
        self.rtt_ps = 0

    def row(self, name: str, receiver: bool = False) -> int:
        """A counter of the sender's QP, or of the receiver's."""
        return int(self.flow.qp.context.hs.qp[name][self.flow.peer.index if receiver else self.flow.qp.index])

    def _heard(self, reports: list[FlowReport], now_ps: int) -> None:
        self.samples.append((now_ps, self.row("st_rx_bytes", receiver=True)))
        if self.mode == "controller":
            self.rerouter.listen(reports, now_ps)

    def _progress(self, begin: int) -> bool:
        """Called every few milliseconds: throttles when it is time, notices moves; whether the run is over."""
        now = self.session.fabric.now_ps
        if self.mode != "uncongested" and self.onset_ps is None and now - begin >= self.seconds * ONSET * 1e12:
            self.rtt_ps = self.row("srtt")
            self.session.fabric.throttle(self.session.topology.link(THROTTLED).index, THROTTLE)
            self.onset_ps = self.session.fabric.now_ps
        if self.row("st_reroutes") > len(self.moves):
            self.moves.append(self.row("react_moved") if self.mode == "nic" else now)
        return bool(self.flow.failure) or now - begin >= self.seconds * 1e12

    def measure(self) -> RunResult:
        """The run, and what became of every message."""
        session, flow = self.session, self.flow
        live = session.live
        live.window_s = self.how.window_s
        live.listeners.append(self._heard)
        begin = session.fabric.now_ps
        name = live.open(flow)
        self.rerouter.add(name, SPINE_PATHS[0], RECEIVER)
        try:
            session.pump.run([flow], lambda: self._progress(begin))
            delivered = self.row("st_rx_bytes", receiver=True)
            session.pump.drain([flow], _DRAIN_S)
        finally:
            live.close(name)
        if flow.failure:
            raise DetourError(f"the flow failed: {flow.failure}")
        return self._course(begin, delivered)

    def _course(self, begin: int, delivered: int) -> RunResult:
        times: list[Any] = [(when - begin) / 1e12 for when, _ in self.samples]
        inside = [k for k, when in enumerate(times) if 0 < when <= self.seconds]
        ends, rates = bins([times[k] for k in inside], [self.samples[k][1] for k in inside], self.how.bin_s)
        flow = self.flow
        return RunResult(
            times_s=ends,
            rates_bps=rates,
            onset_s=None if self.onset_ps is None else (self.onset_ps - begin) / 1e12,
            rerouted_s=[(when - begin) / 1e12 for when in self.moves],
            delivered_bytes=delivered,
            sent_bytes=flow.bytes_sent,
            arrived_bytes=flow.bytes_ok,
            duplicate_bytes=self.row("st_rx_duplicates", receiver=True) * PAYLOAD,
            messages=flow.posted,
            in_order=flow.bytes_wrong == 0,
            retransmitted=self.row("st_retransmitted"),
            ecn_marked=self.row("st_ecn_marked"),
            rtt_s=(self.rtt_ps or self.row("srtt")) / 1e12,
        )
