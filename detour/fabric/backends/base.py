# SPDX-License-Identifier: Apache-2.0
"""The base of all backends: a running fabric with P4Runtime endpoints, hosts, links that can fail, and a clock.

Whoever boots, programs, fails, throttles, captures or measures a fabric needs no more than this and need not know which
backend it is: BMv2, or the engine in real time or in virtual time.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from detour.fabric.backends.clock import FabricClock
from detour.fabric.backends.settings import FabricTerms
from detour.fabric.records import BackendDetails, PortState
from detour.hosts.state import Hosts, set_host
from detour.hosts.verbs import Context, Device
from detour.topo import Topology, address
from detour.topo.failures import Failures, dead_links
from detour.topo.topology import Link

if TYPE_CHECKING:  # gRPC takes half a second, and sweeps in virtual time need none of it
    from detour.control.p4runtime.client import SwitchTarget
    from detour.engine.p4runtime import StreamClient
    from detour.fabric.linux.hosts import LinuxHosts


class Fabric(ABC):
    """Switches, links and hosts of a topology on some target, all up from when it is made until `close`. `hs`,
    `device`: all hosts' state and verbs; host i of the topology is host i there. `clock`: by which everybody waits who
    waits for the fabric. `linux`: hosts that are namespaces of Linux and have no verbs.

    Making one raises DetourError naming the missing part and what to install, or what failed; nothing is left running.
    """

    target: ClassVar[str]
    clock: FabricClock
    _opened: ExitStack
    """what `close` ends"""

    def __init__(self, topology: Topology, terms: FabricTerms, hs: Hosts) -> None:
        self.topology = topology
        self.terms = terms
        self.hs = hs
        self.device: Device = Device(hs)
        self.linux: LinuxHosts | None = None
        self._dead: frozenset[int] = frozenset()

    def close(self) -> None:
        """End all of it and remove what it needed. May be called twice."""
        self._opened.close()

    @abstractmethod
    def targets(self) -> list[SwitchTarget]:
        """Return where P4Runtime is served for this user's own programs, one for every switch."""

    def addresses(self) -> dict[str, str]:
        """name of a switch -> where P4Runtime is served for everybody else (default: nowhere else)."""
        return {target.name: target.address for target in self.targets()}

    @abstractmethod
    def set_link(self, link: int, up: bool) -> None:
        """Take a link down or up."""

    @abstractmethod
    def throttle(self, link: int, fraction: float) -> None:
        """From now on a link carries that fraction of its rate, in both directions (1: all of it)."""

    @abstractmethod
    def set_loss(self, link: int, fraction: float) -> None:
        """From now on a link loses that fraction of its frames, in both directions, and looks as if it were up (0:
        none). Raises DetourError if the target cannot do that."""

    @abstractmethod
    def ports(self) -> dict[tuple[int, int], PortState]:
        """State of all ports that are connected: (device id, port)."""

    @property
    def now_ps(self) -> int:
        """The time that hosts and links go by."""
        return self.clock.now_ps

    @abstractmethod
    def capture(self, folder: Path | None, only: Container[str] | None = None) -> None:
        """Write a pcapng file a port from now on (None: stops and complete them). `only`: of ports by these names,
        like `s3-1`; default all."""

    def capture_error(self) -> str | None:
        """Return the error that ended the writing of captures, if any."""
        return None

    def check(self) -> None:  # noqa: B027  (most targets have nothing to look at)
        """Raise DetourError if the fabric cannot forward any more."""

    def first_step(self) -> None:
        """Return once the fabric has done something; raise DetourError if it cannot."""
        self.check()

    @abstractmethod
    def details(self) -> BackendDetails:
        """Return the backend's additions to `detour status`."""

    def p4runtime_clients(self, device_id: int) -> list[StreamClient] | None:
        """List the P4Runtime streams to a switch; None: the switch does not say."""
        return None

    def table_writes(self) -> Mapping[int, int] | None:
        """The numbers of writes to the switches' tables by device id, which go on being counted. None: the switches do
        not say."""
        return None

    def linux_hosts(self) -> frozenset[int]:
        """Hosts whose programs are Linux': nothing here sends for them."""
        return frozenset(host.index for host in self.topology.hosts if self.linux and host.name in self.linux)

    def context(self, host: int) -> Context:
        """Verbs of one host."""
        return Context(self.device, host)

    def apply_failures(self, failures: Failures) -> None:
        """Take exactly those links down that are dead."""
        dead = dead_links(self.topology, failures)
        for link in sorted(dead ^ self._dead):
            self.set_link(link, link not in dead)
        self._dead = dead

    def link_ends(self, link: int) -> list[tuple[int, int]]:
        """(device id, port) of the switch ports at a link; two, or one if a host is at the other end."""
        return switch_ends(self.topology, self.topology.links[link])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def made_folder(scratch: Path | None) -> Path:
    """A folder for what a fabric needs while it runs: a missing one, which is made, or a temporary one."""
    if scratch is None:
        return Path(tempfile.mkdtemp(prefix="detour-fabric-"))
    scratch.mkdir(mode=0o700)
    return scratch


def switch_ends(topology: Topology, link: Link) -> list[tuple[int, int]]:
    """(device id, port) of the switch ports at a link."""
    ends = [link.a] if link.kind == "host" else [link.a, link.b]
    return [(topology.switches[switch].device_id, port) for switch, port in ends]


def address_hosts(hs: Hosts, topology: Topology) -> Hosts:
    """Give all hosts their addresses, the same on every backend."""
    for host in topology.hosts:
        usid = address.ipv6_text(address.locator(host.node_id))
        set_host(hs, host.index, address.ipv6_text(host.address), usid=usid, mac=host.mac)
    return hs
