# SPDX-License-Identifier: Apache-2.0
"""Hosts of a lab that are network namespaces of Linux: which, and what their interfaces have."""

from __future__ import annotations

from dataclasses import replace

from detour.base.errors import told_of
from detour.fabric.labs.host_commands import for_shell
from detour.fabric.labs.model import Lab, LabHost, names
from detour.fabric.linux.hosts import LinuxHosts, LinuxRequest, hosts_named, listed, mtu_of, processes_of
from detour.fabric.linux.interface import LINUX_MTU, HostInterface, Neighbour, Route

ALL = "all"
_LONGEST_NAME = 15
"""characters of an interface's name in Linux"""
_WITHOUT_IPV6 = {"disable_ipv6": "1"}


def chosen(lab: Lab, text: str | None) -> list[str]:
    """Hosts by name, in the order of the lab: `h1,h2`, or `all`. Raises DetourError: there is no such host."""
    hosts = [host.name for host in lab.hosts]
    if text is not None and text.strip() == ALL:
        return hosts
    named = hosts_named(listed(text), hosts, f"the lab has {names(lab.hosts)}")
    return [name for name in hosts if name in named]


def request_of(lab: Lab, linux: str | None, netns: str | None = None, mtu: int | None = None) -> LinuxRequest:
    """Return the request for Linux hosts. `netns`: hosts that are the network namespaces of processes, like `h3=4711`;
    `mtu`: bytes. Raises DetourError: there is no such host, one is listed twice, or something is not a process."""
    processes = processes_of(netns)
    both = chosen(lab, ",".join([*chosen(lab, linux), *processes]))
    size = mtu_of(both, mtu)
    interfaces = {name: interface_of(lab, lab.host(name), size) for name in both}
    return LinuxRequest(interfaces, {host.name: str(host.address.ip) for host in lab.hosts}, processes)


def interface_of(lab: Lab, host: LabHost, mtu: int = LINUX_MTU) -> HostInterface:
    """Return the interface of a host. Its name is Mininet's: `eth0` in p4lang's tutorials, else `h1-eth0`, which is
    what scripts look for. Hosts with IPv4 have no IPv6 at all, so that nothing is sent by itself."""
    name = f"{host.name}-eth0"
    if lab.format == "tutorials" or len(name) > _LONGEST_NAME:
        name = "eth0"
    routes = () if host.gateway is None else (Route("default", str(host.gateway)),)
    neighbours = tuple(Neighbour(str(address), mac) for address, mac in host.neighbours)
    interface = HostInterface(host.mac, (str(host.address),), routes, neighbours, mtu, name=name)
    return replace(interface, own_sysctls=_WITHOUT_IPV6) if host.address.version == 4 else interface


def run_shell(lab: Lab, linux: LinuxHosts) -> None:
    """Let Linux hosts do what the lab tells them to, each command in a shell, as root of that host. Raises
    DetourError: one fails, with what it says."""
    for host in lab.hosts:
        for command in for_shell(host) if host.name in linux else ():
            with told_of(f"{host.where}: the command {command!r} failed"):
                linux.run(host.name, ["sh", "-c", command])
