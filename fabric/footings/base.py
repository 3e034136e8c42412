# SPDX-License-Identifier: Apache-2.0
"""What both footings share: a fabric that is booted, has P4Runtime endpoints and hosts, and whose links can fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from detour.base.progress import Progress, silent
from detour.control.p4runtime.client import SwitchTarget
from detour.fabric.footings.settings import FootingSettings
from detour.hosts.state import Hosts, make_hosts, set_host
from detour.hosts.verbs.verbs import Context, Device
from detour.topo import Topology, address
from detour.topo.failures import Failures, dead_links


@dataclass(frozen=True)
class PortState:
    """What only the target itself can say of a port; `drops`: packets that found the queue full, or None."""

    up: bool
    queue_packets: int | None = None
    queue_peak: int | None = None
    drops: int | None = None


class Fabric(ABC):
    """Switches, links and hosts of a topology on some target. `start` it once, `close` it once.

    `device`: all hosts' verbs; host i of the topology is host i there.
    """

    target: ClassVar[str]

    def __init__(self, topology: Topology, settings: FootingSettings) -> None:
        self.topology = topology
        self.settings = settings
        self.hs = make_host_state(topology, settings)
        self.device: Device = Device(self.hs)
        self._dead: frozenset[int] = frozenset()

    @abstractmethod
    def start(self, tell: Progress = silent) -> None:
        """Boots all of it; on return every endpoint answers.

        Raises:
            DetourError: naming the missing part and what to install, or what failed. Nothing is left running.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all that `start` began and removes it. May be called twice, and after a failed start."""

    @abstractmethod
    def targets(self) -> list[SwitchTarget]:
        """Where P4Runtime is served for this user's own programs, one for every switch."""

    def addresses(self) -> dict[str, str]:
        """name of a switch -> where P4Runtime is served for everybody else (default: nowhere else)."""
        return {target.name: target.address for target in self.targets()}

    @abstractmethod
    def set_link(self, link: int, up: bool) -> None:
        """Takes a link down or up."""

    @abstractmethod
    def throttle(self, link: int, share: float) -> None:
        """From now on a link carries that share of its rate, in both directions (1: all of it)."""

    @abstractmethod
    def ports(self) -> dict[tuple[int, int], PortState]:
        """State of all ports that are connected: (device id, port)."""

    @property
    @abstractmethod
    def now_ps(self) -> int:
        """The time that hosts and links go by."""

    @abstractmethod
    def capture(self, folder: Path | None) -> None:
        """Writes a pcapng file a port from now on (None: stops and completes them)."""

    def check(self) -> None:  # noqa: B027  (most targets have nothing to look at)
        """Raises DetourError if the fabric cannot forward any more."""

    def first_step(self) -> None:
        """Returns once the fabric has done something; raises DetourError if it cannot."""
        self.check()

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """What else `detour status` may say."""

    def context(self, host: int) -> Context:
        """Verbs of one host."""
        return Context(self.device, host)

    def apply_failures(self, failures: Failures) -> None:
        """Takes exactly those links down that are dead."""
        dead = dead_links(self.topology, failures)
        for link in sorted(dead ^ self._dead):
            self.set_link(link, link not in dead)
        self._dead = dead

    def link_ends(self, link: int) -> list[tuple[int, int]]:
        """(device id, port) of the switch ports at a link; two, or one if a host is at the other end."""
        found = self.topology.links[link]
        ends = [found.a] if found.kind == "host" else [found.a, found.b]
        return [(self.topology.switches[switch].device_id, port) for switch, port in ends]

    def __enter__(self) -> Fabric:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def make_host_state(topology: Topology, settings: FootingSettings) -> Hosts:
    """Arrays for all hosts of a topology, with their addresses."""
    hs = make_hosts(
        len(topology.hosts),
        settings.queue_pairs,
        settings.arena_bytes,
        config=settings.hosts,
        seed=settings.seed,
        window=settings.window,
        n_mrs=2 * settings.queue_pairs,
    )
    for host in topology.hosts:
        usid = address.ipv6_text(address.locator(host.node_id))
        set_host(hs, host.index, address.ipv6_text(host.address), usid=usid, mac=host.mac)
    return hs
