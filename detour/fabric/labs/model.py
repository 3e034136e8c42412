# SPDX-License-Identifier: Apache-2.0
"""A lab as an immutable description, whatever format it came in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path
from typing import TypeVar

from detour.base.errors import DetourError

IpAddress = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface

_MOST_PORTS = 511
"""port numbers are below; 511 drops"""
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


@dataclass(frozen=True)
class LabProgram:
    """The program of a switch, as the lab names it: a P4 source, its compiled form, or both (then the source is the
    newer truth). `where`: the file and line that say so."""

    source: Path | None = None
    json: Path | None = None
    p4info: Path | None = None
    where: str = ""


@dataclass(frozen=True)
class LabSwitch:
    """`program` None: the lab names none. `runtime`: a file of P4Runtime entries; `commands`: one in the language of
    simple_switch_CLI. Ports None: there is none."""

    name: str
    device_id: int
    program: LabProgram | None = None
    runtime: Path | None = None
    commands: Path | None = None
    grpc_port: int | None = None
    thrift_port: int | None = None
    cpu_port: int | None = None
    priorities: int = 1
    where: str = ""


@dataclass(frozen=True)
class LabHost:
    """`gateway`: its default route; `neighbours`: what it need not ask ARP for. `commands`: all that it is told to do
    at first; `shell`: those of them that are about neither."""

    name: str
    address: Interface
    mac: str
    gateway: IpAddress | None = None
    neighbours: tuple[tuple[IpAddress, str], ...] = ()
    commands: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    where: str = ""


T = TypeVar("T", LabSwitch, LabHost)


@dataclass(frozen=True)
class LabTask:
    """A task of a host that starts so many seconds after the lab is up and runs for so many at most (0: until it ends).
    `name`: for errors; `command`: for a shell; `workload`: for a built-in host ("": nothing, None: it cannot)"""

    host: str
    name: str
    start_s: float
    duration_s: float
    command: str
    workload: str | None
    where: str = ""


@dataclass(frozen=True)
class LabEnd:
    """An end of a link. A host's port has no meaning."""

    node: str
    port: int = 0


@dataclass(frozen=True)
class LabLink:
    """Both directions are alike. None: the lab says nothing of it."""

    a: LabEnd
    b: LabEnd
    rate_bps: int | None = None
    delay_ps: int | None = None
    queue_packets: int | None = None
    loss: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Lab:
    """`scripts`: what the lab would start beside it, controllers mostly."""

    folder: Path
    format: str
    switches: tuple[LabSwitch, ...]
    hosts: tuple[LabHost, ...]
    links: tuple[LabLink, ...]
    scripts: tuple[str, ...] = ()
    topology: str | None = field(default=None, repr=False)
    """the `topology.json` that p4-utils' controllers read"""
    tasks: tuple[LabTask, ...] = ()
    solution: bool = False
    """files of the folder `solution` go before those of `folder`"""

    def __post_init__(self) -> None:
        check(self)

    def switch(self, name: str) -> LabSwitch:
        """A switch by its name. Raises DetourError: there is none."""
        return _named("switch", name, self.switches)

    def host(self, name: str) -> LabHost:
        """The same for hosts."""
        return _named("host", name, self.hosts)

    def attachment(self, host: str) -> tuple[LabLink, LabEnd]:
        """(a host's link, the switch's end of it)."""
        for link in self.links:
            for end, other in ((link.a, link.b), (link.b, link.a)):
                if end.node == host:
                    return link, other
        raise DetourError(f"host {host} has no link")


def _named(what: str, name: str, nodes: Sequence[T]) -> T:
    for node in nodes:
        if node.name == name:
            return node
    raise DetourError(f"there is no {what} {name!r}; the lab has {names(nodes)}")


def names(nodes: Sequence[LabSwitch | LabHost]) -> str:
    listed = [each.name for each in nodes]
    return ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "") or "none"


def natural(name: str) -> list[tuple[int, int, str]]:
    """The order in which Mininet takes nodes: `s2` before `s10`."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def mac_of(text: object, where: str) -> str:
    """A MAC address. Raises DetourError: it is none."""
    if not isinstance(text, str) or not _MAC.fullmatch(text):
        raise DetourError(f"{where}: {text!r} is not a MAC address, like 08:00:00:00:01:01")
    if int(text[:2], 16) & 1:
        raise DetourError(f"{where}: {text} is a group address; the first byte of a host's address is even")
    return text.lower()


def check(lab: Lab) -> None:
    """See that a lab can be. Raises DetourError: what is wrong, by the file and line that say it."""
    if not lab.switches:
        raise DetourError(f"{lab.folder}: the lab has no switch")
    _unlike(lab.switches, "device_id", "device id")
    for what in ("grpc_port", "thrift_port"):
        _unlike(lab.switches, what, what.replace("_", " ").replace("grpc", "gRPC").replace("thrift", "Thrift"))
    for switch in lab.switches:
        if switch.cpu_port is not None and not 0 < switch.cpu_port < _MOST_PORTS:
            raise DetourError(f"{switch.where}: {switch.name} has CPU port {switch.cpu_port}; expected 1 to 510")
        if not 1 <= switch.priorities <= 8:
            raise DetourError(f"{switch.where}: {switch.name} has {switch.priorities} queues per port; expected 1 to 8")
    _check_hosts(lab)
    _check_links(lab)
    for task in lab.tasks:
        if task.host not in {host.name for host in lab.hosts}:
            hosts = names(lab.hosts)
            raise DetourError(f"{task.where}: there is no host {task.host!r} for this task; the lab has {hosts}")


def _unlike(switches: Sequence[LabSwitch], attribute: str, what: str) -> None:
    seen: dict[int, LabSwitch] = {}
    for switch in switches:
        value = getattr(switch, attribute)
        if value is None:
            continue
        if value in seen:
            raise DetourError(f"{switch.where}: {switch.name} and {seen[value].name} have the same {what}, {value}")
        seen[value] = switch


def _check_hosts(lab: Lab) -> None:
    nodes = [each.name for each in (*lab.switches, *lab.hosts)]
    addresses: dict[IpAddress, str] = {}
    for host in lab.hosts:
        if nodes.count(host.name) > 1:
            raise DetourError(f"{host.where}: there are two nodes {host.name}")
        if (other := addresses.get(host.address.ip)) is not None:
            raise DetourError(f"{host.where}: {host.name} and {other} have the same address {host.address.ip}")
        addresses[host.address.ip] = host.name


def _check_links(lab: Lab) -> None:
    switches, hosts = {each.name: each for each in lab.switches}, {each.name for each in lab.hosts}
    taken: dict[tuple[str, int], LabLink] = {}
    for link in lab.links:
        for end in (link.a, link.b):
            if end.node in hosts:
                key = (end.node, 0)
                again = f"{end.node} has a second link; hosts have one"
            elif end.node in switches:
                key, where = (end.node, end.port), link.where
                again = f"port {end.port} of {end.node} has a second link"
                if not 0 <= end.port < _MOST_PORTS:
                    possible = f"expected 0 to {_MOST_PORTS - 1}"
                    raise DetourError(f"{where}: {end.node} cannot have port {end.port}; {possible}")
                if end.port == switches[end.node].cpu_port:
                    raise DetourError(f"{where}: port {end.port} of {end.node} is its CPU port")
            else:
                raise DetourError(
                    f"{link.where}: there is no node {end.node!r}; switches: {names(lab.switches)}; "
                    f"hosts: {names(lab.hosts)}"
                )
            if key in taken:
                raise DetourError(f"{link.where}: {again} (the first: {taken[key].where})")
            taken[key] = link
        if link.a.node in hosts and link.b.node in hosts:
            raise DetourError(f"{link.where}: {link.a.node} and {link.b.node} are both hosts; one end must be a switch")
        if link.a == link.b:
            raise DetourError(f"{link.where}: both ends of the link are port {link.a.port} of {link.a.node}")
    for host in lab.hosts:
        if (host.name, 0) not in taken:
            raise DetourError(f"{host.where}: host {host.name} has no link")
