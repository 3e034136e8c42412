# SPDX-License-Identifier: Apache-2.0
"""The Linux hosts of one fabric: which hosts they are, what their interfaces have, and what runs of them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.engine.network import Network
from detour.engine.sockets import Attachment
from detour.engine.wiring import Port
from detour.fabric.linux import opening
from detour.fabric.linux.interface import (
    LINUX_MTU,
    QUEUE_PACKETS,
    HostInterface,
    hosts_file,
    names_of_fabric,
    of_fabric,
)
from detour.fabric.linux.keeper import HostKeeper, enter, missing
from detour.fabric.records import LinuxHost
from detour.topo import Topology

_PATIENCE_S = 1.0


@dataclass(frozen=True)
class LinuxRequest:
    """Interfaces by the name of their host. `names`: addresses by all names that resolve inside; `processes`: whose
    network namespace a host is, instead of one of its own."""

    interfaces: Mapping[str, HostInterface]
    names: Mapping[str, str] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)

    @property
    def longest_frame(self) -> int:
        """Bytes, a VLAN tag included."""
        return max((each.longest_frame for each in self.interfaces.values()), default=0) + 4


def request(
    topology: Topology, linux: str | None, netns: str | None = None, mtu: int | None = None, queue: int | None = None
) -> LinuxRequest:
    """Hosts of a fabric of ours, by name: `h0,h71` and `h3=4711`. `queue`: packets of the switches' queues; those of
    the hosts are as long. Raises DetourError: there is no such host, one appears twice, or something is not a
    process."""

    def own_name(name: str) -> str:
        kind, index = topology.finder.node(name) or ("", 0)
        return topology.hosts[index].name if kind == "host" else name

    processes = {own_name(name): process for name, process in processes_of(netns).items()}
    hosts = {host.name: host for host in topology.hosts}
    asked = [*map(own_name, listed(linux)), *processes]
    names = hosts_named(asked, hosts, f"the fabric has {topology.hosts[0].name} to {topology.hosts[-1].name}")
    size, packets = mtu_of(names, mtu), QUEUE_PACKETS if queue is None else queue
    interfaces = {name: of_fabric(hosts[name], size, packets) for name in names}
    return LinuxRequest(interfaces, names_of_fabric(topology), processes)


def hosts_named(names: Sequence[str], hosts: Container[str], there: str) -> Sequence[str]:
    """The names of hosts that are to be Linux's. `there`: which hosts there are, in words. Raises DetourError: there is
    no such host, or one appears twice."""
    for name in names:
        if name not in hosts:
            raise DetourError(f"--linux {name}: there is no such host; {there}")
        if names.count(name) > 1:
            raise DetourError(f"--linux {name}: that host appears twice")
    return names


def mtu_of(names: Sequence[str], mtu: int | None) -> int:
    """The MTU of hosts, which must be there if one is given."""
    if mtu is not None and not names:
        raise DetourError("--mtu needs Linux hosts (--linux or --netns)")
    return LINUX_MTU if mtu is None else mtu


def processes_of(netns: str | None) -> dict[str, int]:
    """Hosts that are the network namespaces of processes: `h3=4711,h4=4712`. Raises DetourError: something is not a
    process, or a host appears twice."""
    processes: dict[str, int] = {}
    for text in listed(netns):
        name, _, process = text.partition("=")
        if not process.isdecimal():
            raise DetourError(f"--netns {text}: expected a host and the number of a process, like h3=4711")
        if name in processes:
            raise DetourError(f"--netns {name}: that host appears twice")
        processes[name] = int(process)
    return processes


def listed(text: str | None) -> list[str]:
    """The parts of a text that are separated by commas."""
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


class LinuxHosts:
    """Keepers and interfaces. Namespaces are there when it is made; `opened` and `configure` each, `close` ends all."""

    def __init__(self, request: LinuxRequest) -> None:
        """Raise DetourError: naming what is missing; nothing is left."""
        self.request = request
        self._keepers: dict[str, HostKeeper] = {}
        self._kinds: dict[str, str] = {}
        self._jobs: list[subprocess.Popen[bytes]] = []
        if reason := missing():
            raise DetourError(reason)
        # A file stays for as long as it is mounted, so nothing of it has to be removed later.
        with tempfile.TemporaryDirectory(prefix="detour-hosts-") as folder:
            try:
                for name in self.request.interfaces:
                    self._keepers[name] = self._kept(name, Path(folder))
            except BaseException:
                self.close()
                raise

    def __contains__(self, name: str) -> bool:
        return name in self.request.interfaces

    def _kept(self, name: str, folder: Path) -> HostKeeper:
        file = folder / str(len(self._keepers))
        file.write_text(hosts_file(self.request.names, name))
        file.chmod(0o644)  # whoever a program inside runs as
        process = self.request.processes.get(name)
        sysctls = self.request.interfaces[name].sysctls if process is None else {}  # others' namespaces keep their own
        return HostKeeper(name, file, sysctls, process)

    def process(self, name: str) -> int:
        """Process whose namespaces a host is."""
        return self._keepers[name].pid

    def opened(self, name: str) -> Attachment:
        """Make a host's interface, for who holds the other end of it. Raises DetourError: the kernel does not allow
        it."""
        interface = self.request.interfaces[name]
        attachment = opening.opened(self._keepers[name], interface.name)
        attachment.longest = interface.longest_frame
        self._kinds[name] = opening.kind()
        return attachment

    def configure(self, name: str) -> None:
        """Give an interface that is there its addresses and routes, and take it up. Raises DetourError: with what
        `ip` says."""
        interface, keeper = self.request.interfaces[name], self._keepers[name]
        folder = f"/proc/sys/net/ipv6/conf/{interface.name}"
        settings = [f"echo {value} > {folder}/{key}" for key, value in interface.own_sysctls.items()]
        keeper.run(["sh", "-e", "-c", "\n".join(settings)])
        keeper.run(["ip", "-batch", "-"], "\n".join(interface.lines()) + "\n")

    def run(self, name: str, command: Sequence[str]) -> None:
        """Run a command on a host and wait for it. Raises DetourError: with what it says."""
        self._keepers[name].run(command)

    def schedule(self, name: str, command: str, folder: Path, start_s: float, duration_s: float) -> None:
        """A shell of a host runs a command, some seconds from now, for so many at most (0: until it ends, or `close`).
        What it says on standard error goes to ours."""
        keeper, nothing = self._keepers[name], subprocess.DEVNULL
        # Only if there is a limit: `timeout` sends on what `close` sends to the whole group, so it would come twice.
        limit = f"timeout --foreground -k 1 {duration_s} " if duration_s else ""
        task = f"sleep {start_s} && exec {limit}sh -c {shlex.quote(command)}"
        line = [*enter(keeper.pid, keeper.user), "sh", "-c", task]
        self._jobs.append(subprocess.Popen(line, cwd=folder, stdin=nothing, stdout=nothing, start_new_session=True))

    def details(self, network: Network | None, ports: Mapping[str, Port]) -> list[LinuxHost]:
        """Return the Linux hosts, with the frames above the MTU that each has sent. `ports`: where hosts are
        attached."""
        oversized: dict[Any, int] = {}
        if network is not None:
            stats = network.socket_stats()
            ends = zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True)
            oversized = dict(zip(ends, stats["rx_oversized"].tolist(), strict=True))
        rows = []
        for name, keeper in self._keepers.items():
            interface, kind = self.request.interfaces[name], self._kinds.get(name, "veth")
            has = (interface.name, kind, interface.mtu, list(interface.addresses), oversized.get(ports.get(name)))
            rows.append(LinuxHost(name, keeper.pid, keeper.user, *has))
        return rows

    def close(self) -> None:
        """End what is scheduled and let all namespaces go. May be called twice."""
        groups = {job.pid for job in self._jobs}
        for number in (signal.SIGTERM, signal.SIGKILL):
            for group in groups:
                with suppress(ProcessLookupError):
                    os.killpg(group, number)
            end = time.monotonic() + _PATIENCE_S
            while _any_runs(groups) and time.monotonic() < end:
                time.sleep(0.005)
            for job in self._jobs:
                with suppress(subprocess.TimeoutExpired):
                    job.wait(_PATIENCE_S)
        self._jobs.clear()
        for keeper in self._keepers.values():
            keeper.close()
        self._keepers.clear()


def _any_runs(groups: set[int]) -> bool:
    """Return whether a process of these groups still runs; a group's first one may have ended, before those inside."""
    for stat in Path("/proc").glob("[0-9]*/stat") if groups else ():
        with suppress(OSError):
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
            if state != "Z" and int(group) in groups:
                return True
    return False


@contextmanager
def linux_hosts(request: LinuxRequest | None, progress: Progress = silent) -> Iterator[LinuxHosts | None]:
    """The hosts that are asked for, while it lasts; None: none are. They go after the network that has their interfaces
    open."""
    if request is None or not request.interfaces:
        yield None
        return
    progress("making namespaces")
    with closing(LinuxHosts(request)) as hosts:
        yield hosts
