# SPDX-License-Identifier: Apache-2.0
"""The hosts of a lab on a network of the engine: built in, in real or virtual time, or Linux's in real time."""

from __future__ import annotations

from detour.fabric.labs.boot import BootedLab, LinkDefaults
from detour.fabric.labs.model import LabHost
from detour.fabric.linux.hosts import LinuxHosts
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.hosts import IpStack


def config_of(host: LabHost) -> IpHostConfig:
    """What the stack has to know of a host."""
    address, gateway = str(host.address), "" if host.gateway is None else str(host.gateway)
    neighbours = {str(ip): mac for ip, mac in host.neighbours}
    if host.address.version == 6:
        return IpHostConfig(host.name, host.mac, ipv6=address, gateway6=gateway, neighbours=neighbours)
    return IpHostConfig(host.name, host.mac, ipv4=address, gateway4=gateway, neighbours=neighbours)


def attach_hosts(
    booted: BootedLab,
    defaults: LinkDefaults,
    *,
    seed: int = 0,
    elide: bool = False,
    linux: LinuxHosts | None = None,
) -> IpStack | None:
    """Attaches all hosts of a lab to their switches; None if it has none that are built in. `linux`: those that are
    not, whose namespaces are there.

    Raises:
        DetourError: a host's addresses are wrong, or Linux refuses them.
    """
    lab, network = booted.lab, booted.network
    built_in = [host for host in lab.hosts if linux is None or host.name not in linux]
    stack = IpStack([config_of(host) for host in built_in], seed=seed, elide=elide) if built_in else None
    numbers = {host.name: number for number, host in enumerate(built_in)}
    for host in lab.hosts:
        link, end = lab.attachment(host.name)
        port, terms = booted.port(end), defaults.of(link)
        if host.name in numbers:
            assert stack is not None
            network.attach_stack(port, stack, numbers[host.name], *terms)
        else:
            assert linux is not None
            network.attach_linux_host(port, linux.opened(host.name), *terms)
            linux.configure(host.name)
        if loss := defaults.loss_of(link):
            network.set_faults(port, loss=loss)
    return stack
