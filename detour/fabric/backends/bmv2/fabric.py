# SPDX-License-Identifier: Apache-2.0
"""A fabric of simple_switch_grpc processes, joined by veth pairs; every host in a network namespace of its own.

All switches live in one namespace of which nothing is visible outside. The host stacks run in this process, by
the socket driver, on packet sockets inside the hosts' namespaces. Needs root.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Container
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec.structs import replace

from detour.base import descriptors
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.control.p4runtime.client import SwitchTarget
from detour.fabric.backends.base import Fabric, address_hosts, made_folder
from detour.fabric.backends.bmv2.sniffer import Sniffer
from detour.fabric.backends.bmv2.switch import SwitchProcess, missing
from detour.fabric.backends.clock import WallClock
from detour.fabric.backends.settings import BMV2, BackendSettings
from detour.fabric.linux.hosts import LinuxRequest, linux_hosts
from detour.fabric.linux.netns import Namespace
from detour.fabric.linux.opening import offloads_off
from detour.fabric.records import BackendDetails, PortState
from detour.hosts.driver import Driver
from detour.hosts.verbs import Device
from detour.topo import Switch, Topology

_MTU = 9000
_HOST_INTERFACE = "eth0"
_HOST_SHARE = 0.95
"""of a link's rate that hosts send at: what piled up while a switch's process was late would never drain at the rate
itself, and look like congestion"""


class Bmv2Fabric(Fabric):
    target = "bmv2"

    def __init__(
        self,
        topology: Topology,
        settings: BackendSettings = BMV2,
        scratch: Path | None = None,
        linux: LinuxRequest | None = None,
        progress: Progress = silent,
    ) -> None:
        """`scratch`: folder for sockets and logs, made and removed with the fabric (default: a temporary one). `linux`:
        hosts whose namespaces are there for programs of Linux. To be made in a thread that lives as long as the fabric:
        the switches end with the thread."""
        reason = missing()
        if reason is not None:
            raise DetourError(reason)
        # A switch: P4Runtime and Thrift; a host: its namespace and its socket; each once more while it starts.
        needed = descriptors.PROCESS + 3 * (len(topology.switches) + len(topology.hosts))
        descriptors.require(needed, f"BMv2 with {len(topology.switches)} switches")
        super().__init__(topology, settings.terms(topology), address_hosts(settings.host_arrays(topology), topology))
        self.settings = settings
        self.clock = WallClock(self._now_ps)
        self._host_namespaces: list[Namespace] = []
        self._switches: list[SwitchProcess] = []
        self._fresh: set[int] = set()
        self._restarts: Counter[str] = Counter()
        self._fractions: dict[int, float] = {}
        self._sniffer: Sniffer | None = None
        self._closed = False
        with ExitStack() as opened:
            self._folder = made_folder(scratch)
            opened.callback(shutil.rmtree, self._folder, ignore_errors=True)
            progress("laying cables")
            self.linux = opened.enter_context(linux_hosts(linux))
            self._namespace = Namespace()
            opened.callback(self._namespace.close)
            opened.callback(self._close_host_namespaces)
            self._lay_cables()
            progress(f"starting {len(topology.switches)} switches")
            opened.callback(self._end_switches)
            for switch in topology.switches:
                self._switches.append(self._start_switch(switch))
            for process in self._switches:
                process.wait_ready()
            progress("setting rates and depths of queues")
            for process in self._switches:
                self._set_queues(process)
            self._driver = Driver(self.hs)
            opened.callback(self._driver.stop)
            self._start_hosts()
            opened.callback(self.capture, None)
            self._opened = opened.pop_all()

    def _lay_cables(self) -> None:
        for host in self.topology.hosts:
            self._host_namespaces.append(self._namespace_of(host.name))
        lines = ["link set lo up"]
        for link in self.topology.links:
            near = f"link add {_interface(*link.a)} mtu {_MTU} type veth peer name"
            if link.kind == "host":
                there = self._host_namespaces[link.b[0]].inside_path
                lines.append(f"{near} {_HOST_INTERFACE} mtu {_MTU} netns {there}")
            else:
                lines.append(f"{near} {_interface(*link.b)} mtu {_MTU}")
        lines += [f"link set {name} up" for name in self._interfaces().values()]
        self._namespace.ip(lines, self._host_namespaces)
        for host, namespace in zip(self.topology.hosts, self._host_namespaces, strict=True):
            namespace.ip([f"link set {_HOST_INTERFACE} up"])
            if self.linux is not None and host.name in self.linux:
                namespace.run(offloads_off, _HOST_INTERFACE)
                self.linux.configure(host.name)

    def _namespace_of(self, host: str) -> Namespace:
        if self.linux is not None and host in self.linux:
            return Namespace.of_process(self.linux.process(host))
        return Namespace()

    def _interfaces(self) -> dict[tuple[int, int], str]:
        """(switch, port) -> interface, of all ports that are connected."""
        return {
            (switch.index, port): _interface(switch.index, port)
            for switch in self.topology.switches
            for port, peer in enumerate(switch.ports, 1)
            if peer is not None
        }

    def _start_switch(self, switch: Switch) -> SwitchProcess:
        ports = {port: name for (index, port), name in self._interfaces().items() if index == switch.index}
        return SwitchProcess(switch, self._namespace, self._folder, ports, self.settings.priorities)

    def check(self) -> None:
        """Start switches again that have died, with empty tables; for the thread that made the fabric. It waits for
        nobody: what a new process must be told it is told at the first call that finds it listening."""
        for place, process in enumerate(self._switches):
            if process.process.poll() is not None:
                process.close()
                self._switches[place] = self._start_switch(process.switch)
                self._restarts[process.switch.name] += 1
                self._fresh.add(place)
            elif place in self._fresh:
                with suppress(DetourError):  # it does not listen yet
                    self._set_queues(process)
                    self._fresh.discard(place)
                    for link, fraction in self._fractions.items():
                        self._throttle(link, fraction, process.switch.device_id)

    def _set_queues(self, process: SwitchProcess) -> None:
        with process.thrift() as thrift:
            for port, peer in enumerate(process.switch.ports, 1):
                if peer is not None:
                    thrift.target.set_egress_queue_rate(port, self._rate_pps(peer.link))
                    thrift.target.set_egress_queue_depth(port, self.settings.queue_packets)

    def _start_hosts(self) -> None:
        driver = self._driver
        for host, namespace in enumerate(self._host_namespaces):
            if host in self.linux_hosts():
                continue
            rate = round(_HOST_SHARE * self.settings.rate_bps)
            driver.attach(host, namespace.packet_socket(_HOST_INTERFACE), rate)
        self.device = Device(self.hs, driver.call, driver.kick, lambda: driver.now_ps)
        driver.start()

    def close(self) -> None:
        self._closed = True
        super().close()

    def _end_switches(self) -> None:
        for process in self._switches:
            process.terminate()
        for process in self._switches:
            process.close()
        self._switches.clear()

    def _close_host_namespaces(self) -> None:
        for namespace in self._host_namespaces:
            namespace.close()

    # -- while it runs ----------------------------------------------------------------------------------

    def targets(self) -> list[SwitchTarget]:
        return [process.target for process in self._switches]

    def set_link(self, link: int, up: bool) -> None:
        # An interface that goes down stays deaf for BMv2 when it comes up again; a cable that loses all does not.
        change = "qdisc del dev {} root" if up else "qdisc replace dev {} root blackhole"
        cable = self.topology.links[link]
        self._namespace.tc([change.format(_interface(*cable.a))])
        if cable.kind == "host":
            self._host_namespaces[cable.b[0]].tc([change.format(_HOST_INTERFACE)])
        else:
            self._namespace.tc([change.format(_interface(*cable.b))])

    def set_loss(self, link: int, fraction: float) -> None:
        raise DetourError(
            f"{self.topology.links[link].name}: BMv2's links have no random loss; "
            "use `detour up --target engine`, or `detour fail`"
        )

    def throttle(self, link: int, fraction: float) -> None:
        # Rates count packets, whatever their size. Control packets are so short that a slower link still carries them
        # all, and would be held up as if they were data: the highest priority keeps its rate.
        self._fractions[link] = fraction
        for device, _ in self.link_ends(link):
            self._throttle(link, fraction, device)

    def _rate_pps(self, link: int, fraction: float = 1.0) -> int:
        """Packets a second of a part of what a link carries."""
        return max(1, round(self.settings.rate_pps * self.topology.links[link].speed * fraction))

    def _throttle(self, link: int, fraction: float, of: int) -> None:
        """Throttle a link at one of the switches, if it is one of the link's own."""
        for device, port in self.link_ends(link):
            if device != of:
                continue
            with self._switches[device - 1].thrift() as thrift:
                thrift.target.set_egress_queue_rate(port, self._rate_pps(link, fraction))
                highest = self.settings.priorities - 1
                thrift.target.set_egress_priority_queue_rate(port, highest, self.settings.rate_pps)

    def ports(self) -> dict[tuple[int, int], PortState]:
        return {
            end: PortState(up=link.index not in self._dead)
            for link in self.topology.links
            for end in self.link_ends(link.index)
        }

    def _now_ps(self) -> int:
        if self._closed:
            raise DetourError("the fabric is going down")
        return self._driver.now_ps

    def capture(self, folder: Path | None, only: Container[str] | None = None) -> None:
        before, self._sniffer = self._sniffer, None
        if before is not None:
            before.close()
        if folder is not None:
            called = self.topology.switches
            ports = {f"{called[at].name}-{port}": name for (at, port), name in self._interfaces().items()}
            interfaces = {port: name for port, name in ports.items() if only is None or port in only}
            self._sniffer = Sniffer(self._namespace, interfaces, folder)

    def capture_error(self) -> str | None:
        return None if self._sniffer is None or self._sniffer.error is None else str(self._sniffer.error)

    def details(self) -> BackendDetails:
        each = zip(self.topology.hosts, self._host_namespaces, strict=True)
        hosts = {host.name: namespace.path for host, namespace in each}
        pids = {process.switch.name: process.process.pid for process in self._switches}
        namespaces = {"switches": self._namespace.path} | hosts
        details = BackendDetails(processes=pids, restarts=dict(self._restarts), namespaces=namespaces)
        return details if self.linux is None else replace(details, linux=self.linux.details(None, {}))


def _interface(switch: int, port: int) -> str:
    return f"s{switch}-{port}"
