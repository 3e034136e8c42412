# SPDX-License-Identifier: Apache-2.0
"""One run of the rerouting experiment, on any backend. Payload is real, all of it is compared.

The whole control plane takes part: tables over P4Runtime, the monitors of flows, and a controller that pushes new uSID
lists over the control socket. In virtual time what these do takes none; how long the way from a window's end to the new
list is there, `Backend.push_s` says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path as File

import numpy as np

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.control.p4runtime.watching import CLASS_MEANS
from detour.control.rerouting import FlowReport, ReroutingController
from detour.experiments.placement import scenario
from detour.experiments.placement.scenario import PathPoint, PathRun, SwitchOnPath, ThroughputSeries, recovery
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.clock import PS, ps
from detour.fabric.backends.serving import Serving
from detour.fabric.backends.settings import BMV2, ENGINE, BackendSettings
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import STEP_MARKING, LinkSettings, RunSettings, Scheme
from detour.fabric.daemon.control_socket import ControlServer, call
from detour.fabric.monitoring.windows import FLOW_FIELDS
from detour.fabric.operations.path_placement import Rerouter
from detour.fabric.operations.results import ReroutedFlow
from detour.fabric.operations.session import Session
from detour.fabric.traffic.flows import Choice, Flow, PatternSink, PatternSource
from detour.hosts.parameters import host_config
from detour.hosts.verbs import Path
from detour.topo import parse_topology
from detour.topo.paths import path_usids, usid_list_text

SCHEME = Scheme("placed", "lerp", "dctcp", "shortest", STEP_MARKING)
_SEED = 1


# -- backends -----------------------------------------------------------------------------------------------


def make(how: scenario.Backend, footing: str) -> Fabric:
    """The fabric of a backend."""
    topology = parse_topology(scenario.TOPOLOGY)
    if footing == "virtual":
        settings = RunSettings(links=LinkSettings(how.rate_bps), frames=1 << 13, payload=True)
        return VirtualFabric(topology, SCHEME, settings, queue_pairs=4, serving=Serving)
    if footing == "bmv2":
        from detour.fabric.backends.bmv2.fabric import Bmv2Fabric

        return Bmv2Fabric(topology, _settings(how, BMV2))
    from detour.fabric.backends.engine import EngineFabric

    return EngineFabric(topology, _settings(how, ENGINE))


def _settings(how: scenario.Backend, base: BackendSettings) -> BackendSettings:
    # What waits in the throttled link's queue must not look lost: it would be sent again.
    full_queue_ps = base.queue_packets * PACKET_BYTES * 8 * PS // base.rate_bps
    hosts = host_config(
        base.hosts,
        react_delay_ps=ps(how.delay_s),
        react_hold_ps=ps(how.hold_s),
        react_penalty_ps=how.thresholds.penalty_ps,
        min_rto_ps=2 * full_queue_ps,
        min_probe_timeout_ps=full_queue_ps,
        max_rto_ps=max(base.hosts.max_rto_ps, 8 * full_queue_ps),
    )
    return replace(base, hosts=hosts)


# -- runs ---------------------------------------------------------------------------------------------------


def run(point: PathPoint) -> PathRun:
    """Carry out a run; see `experiment`."""
    how = scenario.BACKENDS[point.footing]
    with ExitStack() as stack:
        fabric = make(how, point.footing)
        stack.callback(fabric.close)
        session = Session(fabric, how.window_s, kept=round(point.seconds / how.window_s) + 2)
        stack.callback(session.close)
        session.provision()
        if how.warm_bytes:
            usid = usid_list_text(session.topology, scenario.SPINE_PATHS[0], scenario.RECEIVER)
            session.send(f"h{scenario.SENDER}", f"h{scenario.RECEIVER}", how.warm_bytes, usid=usid)
        return _Run(session, how, point).measure()


class _Run:
    """A fabric with its one flow."""

    def __init__(self, session: Session, how: scenario.Backend, point: PathPoint) -> None:
        self.session, self.how, self.point = session, how, point
        self.fabric, self.clock = session.fabric, session.fabric.clock
        target = session.topology.hosts[scenario.RECEIVER]
        paths = tuple(Path(0, path_usids(session.topology, way, target)) for way in scenario.SPINE_PATHS)
        choice = Choice(paths, react=True) if point.mode == "nic" else Choice(paths[:1])
        stream = PatternSource(_SEED), PatternSink(_SEED)
        self.flow: Flow = session.pump.open(
            scenario.SENDER, scenario.RECEIVER, choice, stream, slots=how.slots, slot_bytes=how.message_bytes
        )
        self.samples: list[tuple[int, int]] = []
        self.moves: list[int] = []
        self.onset_ps: int | None = None
        self.begin = self.rtt_ps = 0

    def row(self, name: str, receiver: bool = False) -> int:
        """A counter of the sender's QP, or of the receiver's."""
        return int(self.fabric.hs.qp[name][self.flow.peer.index if receiver else self.flow.qp.index])

    # -- what happens on the way

    def _heard(self, _: list[FlowReport], now_ps: int) -> None:
        self.samples.append((now_ps, self.row("st_rx_bytes", receiver=True)))

    def _throttle(self) -> None:
        self.rtt_ps = self.row("srtt")
        self.fabric.throttle(self.session.topology.link(scenario.THROTTLED).index, scenario.THROTTLE)
        self.onset_ps = self.fabric.now_ps

    def _reroute(self, flow: str, usid: str) -> ReroutedFlow:
        rerouted = self.session.reroute(flow, usid)
        self.moves.append(self.fabric.now_ps)
        return rerouted

    def _progress(self) -> bool:
        """Called every now and then: notices what tells nobody; whether the run is over."""
        if self.point.mode == "nic" and self.row("st_reroutes") > len(self.moves):
            self.moves.append(int(self.flow.qp.path_state["moved"]))
        return bool(self.flow.failure)

    @contextmanager
    def _controller(self, name: str) -> Iterator[None]:
        """The controller listens, and pushes over a control socket, until the run is over."""
        with ExitStack() as stack:
            folder = File(stack.enter_context(tempfile.TemporaryDirectory(prefix="detour-")))
            operations = {"reroute": self._reroute, "flows": self.session.flows}
            stack.enter_context(ControlServer(folder / "socket", operations))
            socket, clock, delay_ps = folder / "socket", self.clock, ps(self.how.push_s)

            def push(flow: str, usid: str) -> None:
                call(socket, "reroute", {"flow": flow, "usid": usid})

            def push_later(flow: str, usid: str) -> None:
                clock.at(clock.now_ps + delay_ps, lambda: push(flow, usid))

            controller = ReroutingController(self.session.topology, self.how.thresholds)
            rerouter = Rerouter(controller, push_later if delay_ps else push)
            rerouter.add(name, scenario.SPINE_PATHS[0], scenario.RECEIVER)
            listeners = self.session.live.listeners
            listeners.append(rerouter.listen)
            stack.callback(listeners.remove, rerouter.listen)
            yield

    # -- all of it

    def measure(self) -> PathRun:
        session, flow, live = self.session, self.flow, self.session.live
        self.begin = self.fabric.now_ps
        name = live.open(flow)
        if self.how.watched:
            session.watch_flows(True)
        if self.point.mode != "uncongested":
            self.clock.at(self.begin + ps(self.point.seconds * scenario.ONSET), self._throttle)
        try:
            live.listeners.append(self._heard)
            with self._controller(name) if self.point.mode == "controller" else ExitStack():
                session.pump.run([flow], self._progress, self.point.seconds)
            live.listeners.remove(self._heard)
            session.watched.switches.stop()
            delivered = self.row("st_rx_bytes", receiver=True)
            session.pump.drain([flow], self.how.drain_s)
            if flow.failure:
                raise DetourError(f"the flow failed: {flow.failure}")
            session.watched.switches.sample()
            return self._result(delivered, self._hops(name))
        finally:
            live.close(name)

    def _result(self, delivered: int, hops: tuple[SwitchOnPath, ...]) -> PathRun:
        seconds, flow = self.point.seconds, self.flow
        times = [(when - self.begin) / PS for when, _ in self.samples]
        inside = [k for k, when in enumerate(times) if 0 < when <= seconds]
        ends, rates = scenario.bins([times[k] for k in inside], [self.samples[k][1] for k in inside], self.how.bin_s)
        onset = None if self.onset_ps is None else (self.onset_ps - self.begin) / PS
        moves = [(when - self.begin) / PS for when in self.moves]
        reroute = None if onset is None else next((when - onset for when in moves if when >= onset), None)
        rtt = (self.rtt_ps or self.row("srtt")) / PS
        return PathRun(
            mode=self.point.mode,
            footing=self.point.footing,
            seconds=seconds,
            delivered_gb=delivered * 8 / 1e9,
            reroute_s=reroute,
            reroute_rtts=None if reroute is None else reroute / rtt,
            recovery_s=None if onset is None else recovery(ends, rates, onset),
            reroutes=len(moves),
            lost_bytes=flow.bytes_sent - flow.bytes_ok,
            duplicate_bytes=self.row("st_rx_duplicates", receiver=True) * PAYLOAD,
            in_order=flow.bytes_wrong == 0,
            messages=flow.posted,
            retransmitted=self.row("st_retransmitted"),
            ecn_marked=self.row("st_ecn_marked"),
            rtt_s=rtt,
            onset_s=onset,
            switches=hops,
            series=ThroughputSeries(tuple(np.round(ends, 9).tolist()), tuple(np.round(rates / 1e6, 3).tolist())),
        )

    def _hops(self, name: str) -> tuple[SwitchOnPath, ...]:
        """Return the switches' view of the flow, in the order of its path; empty if they did not watch it."""
        hops = []
        flows, tick_ps = self.session.watched.switches, self.fabric.terms.hosts.tick_ps
        for row in flows.rows(name):
            _, windows = flows.monitor.history(name, self.session.topology.switch(row.switch).device_id)
            delays = np.array(row.delays)
            mean = float(delays @ CLASS_MEANS) / max(int(delays.sum()), 1) * tick_ps
            worst = float(windows[:, FLOW_FIELDS.index("delay_ps")].max(initial=0.0))
            seen = scenario.NAMES[row.switch], row.packets, row.ecn_packets
            hops.append(SwitchOnPath(*seen, delay_s=mean / PS, worst_window_delay_s=worst / PS))
        return tuple(hops)
