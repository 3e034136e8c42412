# SPDX-License-Identifier: Apache-2.0
"""A lab that is up: its switches in this process, each at the ports where the lab's own programs look for it. Time is
the wall clock's, or virtual and passes at a pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from detour.base.addresses import TcpAddress
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.tcp_listener import PATIENCE_S
from detour.engine import warm
from detour.engine.bmv2api.server import ThriftServer
from detour.engine.clock import RealTime, Virtual
from detour.engine.endpoint import GrpcEndpoint
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.engine.trace.filters import parse_filter
from detour.engine.trace.recorder import Recorder
from detour.fabric.backends.virtual.pace import PacedClock, TimePace
from detour.fabric.labs.boot import BootedLab, LinkDefaults, attach_hosts, fill, lay_cables, run_commands
from detour.fabric.labs.controllers import ControllerTopology, attach_cpu_interfaces, has_cpu_interfaces
from detour.fabric.labs.host_jobs import HostJob, HostJobs
from detour.fabric.labs.linux import run_shell
from detour.fabric.labs.model import Lab, LabSwitch
from detour.fabric.labs.programs import SwitchContent
from detour.fabric.labs.results import rows_of
from detour.fabric.labs.virtual import DEFAULTS as VIRTUAL_DEFAULTS
from detour.fabric.labs.workloads import Activity, TcpFlow, UdpStream, activities_of, task_activities
from detour.fabric.linux.hosts import LinuxRequest, linux_hosts
from detour.fabric.operations.packet_tracing import document
from detour.fabric.operations.results import LivePackets
from detour.fabric.records import LinuxHost
from detour.fabric.tracing.live import UNDER_WAY, by_packet, packets
from detour.hosts.frames.sizes import MAX_FRAME
from detour.hosts.ip.hosts import IpStack
from detour.hosts.ip.stack import IP

_LOOPBACK = "127.0.0.1"
_LOOK_S = 0.02


class LabSwitchStatus(Struct, frozen=True):
    """`p4runtime`, `thrift`: where it is served; None: nowhere."""

    name: str
    device_id: int
    program: str
    p4runtime: str | None
    thrift: str | None


class LabHostStatus(Struct, frozen=True):
    """`switch`: what it is attached to, like `s1-p1`."""

    name: str
    ip: str
    mac: str
    switch: str


class LabStatus(Struct, frozen=True):
    """The status of a running lab. `linux`: hosts that are namespaces of Linux; None: all are built in."""

    lab: str
    format: str
    switches: list[LabSwitchStatus]
    hosts: list[LabHostStatus]
    linux: list[LinuxHost] | None = None


class RunningLab:
    """See the module. It is up from when it is made until `close`."""

    def __init__(
        self,
        lab: Lab,
        contents: Sequence[SwitchContent],
        defaults: LinkDefaults | None = None,
        pace: TimePace | None = None,
        linux: LinuxRequest | None = None,
        progress: Progress = silent,
        pcap: Path | None = None,
    ) -> None:
        """`defaults`: of links of which the lab says nothing; `pace`: of virtual time (None: the wall clock's);
        `linux`: hosts that are namespaces of Linux. Raises DetourError: Linux does not live in virtual time, an address
        cannot be had, or a switch refuses something; nothing is left running."""
        self.lab, self._contents = lab, contents
        if linux is not None and linux.interfaces and pace is not None:
            raise DetourError("Linux hosts need real time: --linux and --netns do not go with --pace")
        self._defaults = defaults or (LinkDefaults() if pace is None else VIRTUAL_DEFAULTS)
        self._endpoints: dict[str, GrpcEndpoint] = {}
        self._thrift: dict[str, ThriftServer] = {}
        self._servers: dict[str, P4RuntimeServer] = {}
        with ExitStack() as opened, ExitStack() as listening:
            # Before anything that takes long: an address that cannot be had is told at once.
            self._listen(listening, progress)
            self.linux = opened.enter_context(linux_hosts(linux, progress))
            warm.ensure(progress, IP)
            progress(f"starting {len(lab.switches)} switches")
            longest = MAX_FRAME if linux is None else max(MAX_FRAME, linux.longest_frame)
            clock = RealTime() if pace is None else Virtual()
            network = self._network = Network(clock, RealTime.tick_ps, frame_bytes=longest)
            opened.callback(network.stop)
            opened.push(listening.pop_all())
            self.booted, self.stack = self._boot(network, pcap)
            built_in = [host for host in lab.hosts if self.linux is None or host.name not in self.linux]
            self._jobs = None if self.stack is None else HostJobs(network, built_in, self.stack)
            network.start()
            if self.linux is not None:
                run_shell(lab, self.linux)
            self._clock = None if pace is None else PacedClock(lambda: network.now_ps, network.run, pace)
            if self._clock is not None:
                opened.callback(self._clock.stop)
                self._clock.start()
            self._serve(opened)
            topology = ControllerTopology(lab, contents)
            opened.callback(topology.remove)
            topology.write(progress)
            self._begin_tasks()
            self._opened = opened.pop_all()

    def _listen(self, opened: ExitStack, progress: Progress) -> None:
        for switch in self.lab.switches:
            if switch.grpc_port is not None:
                endpoint = self._endpoints[switch.name] = GrpcEndpoint(f"{_LOOPBACK}:{switch.grpc_port}")
                opened.callback(endpoint.stop)
                endpoint.bind(PATIENCE_S, progress)
            if switch.thrift_port is not None:
                server = self._thrift[switch.name] = ThriftServer(TcpAddress(_LOOPBACK, switch.thrift_port))
                opened.callback(server.stop)
                server.bind(PATIENCE_S, progress)

    def _boot(self, network: Network, pcap: Path | None) -> tuple[BootedLab, IpStack | None]:
        def served(switch: LabSwitch) -> P4RuntimeServer | None:
            if switch.name not in self._endpoints:
                return None
            server = P4RuntimeServer(network, self._endpoints[switch.name], promote_backup=True)  # as BMv2 does
            self._servers[switch.name] = server
            return server

        cpu = self.linux is not None and has_cpu_interfaces(self.lab)
        booted = fill(network, self.lab, self._contents, served, cpu)
        lay_cables(booted, self._defaults)
        if cpu:
            attach_cpu_interfaces(booted)
        stack = attach_hosts(booted, self._defaults, linux=self.linux)
        run_commands(booted)
        network.set_jitter()
        if pcap is not None:
            network.capture(pcap)
        return booted, stack

    def _serve(self, opened: ExitStack) -> None:
        begun = time.time_ns() // 1000 - self._network.now_ps // 1_000_000
        for server in self._servers.values():
            opened.callback(server.stop)
            server.start()
        for name, thrift in self._thrift.items():
            api = self.booted.switches[name].api
            api.device.epoch_us = begun
            opened.callback(thrift.stop)
            thrift.serve({"": api})

    def do(self, workload: str, seconds: float, cancelled: threading.Event) -> dict[str, Any]:
        """Let hosts do what a workload says, until it is over, or for so many seconds of the wall clock; what came of
        it, a list of rows for each kind. Raises DetourError: the workload means nothing."""
        activities = activities_of(self.lab, workload)
        self._refuse_linux(activities)
        jobs = self._begin(activities)
        end = time.monotonic() + seconds
        while not all(each.over() for each in jobs) and time.monotonic() < end and not cancelled.wait(_LOOK_S):
            pass
        return rows_of(jobs)

    def _begin(self, activities: Sequence[Activity]) -> list[HostJob]:
        if self._jobs is None:
            raise DetourError("this lab has no built-in hosts")
        return self._jobs.begin(activities)

    def _begin_tasks(self) -> None:
        """Start the hosts' own tasks."""
        linux = self.linux or ()
        if activities := task_activities(self.lab, linux):
            self._begin(activities)
        for task in self.lab.tasks:
            if self.linux is not None and task.host in self.linux:
                self.linux.schedule(task.host, task.command, self.lab.folder, task.start_s, task.duration_s)

    def _refuse_linux(self, activities: Sequence[Activity]) -> None:
        """A Linux host sends nothing for others; who pings it gets its kernel's answer."""
        if self.linux is None:
            return
        for each in activities:
            to = each.dst if isinstance(each, UdpStream | TcpFlow) else None
            receivers = [host.name for host in self.lab.hosts if host.address.ip == to]
            for name in (each.src, *receivers):
                if name in self.linux:
                    raise DetourError(f"{name} is a Linux host: use `detour exec {name} -- COMMAND`")

    def check(self) -> None:
        """Raise DetourError if nothing is forwarded any more."""
        self._network.check()
        if self._clock is not None:
            self._clock.check()

    @property
    def capture_error(self) -> str | None:
        """Return the error that ended the writing of captures, if any."""
        return self._network.capture_error

    @property
    def status(self) -> LabStatus:
        switches = [
            LabSwitchStatus(
                content.switch.name,
                content.switch.device_id,
                content.name,
                f"{_LOOPBACK}:{content.switch.grpc_port}" if content.switch.name in self._endpoints else None,
                f"{_LOOPBACK}:{content.switch.thrift_port}" if content.switch.name in self._thrift else None,
            )
            for content in self._contents
        ]
        hosts, ports = [], {}
        for host in self.lab.hosts:
            switch = self.lab.attachment(host.name)[1]
            ports[host.name] = (self.lab.switch(switch.node).device_id, switch.port)
            hosts.append(LabHostStatus(host.name, str(host.address), host.mac, f"{switch.node}-p{switch.port}"))
        linux = None if self.linux is None else self.linux.details(self._network, ports)
        return LabStatus(str(self.lab.folder), self.lab.format, switches, hosts, linux)

    def close(self) -> None:
        """End it and give everything back. May be called twice."""
        self._opened.close()


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
