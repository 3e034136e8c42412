# SPDX-License-Identifier: Apache-2.0
"""The hosts of a lab: built in, on a network of the engine, in real or virtual time."""

from __future__ import annotations

from detour.fabric.labs.boot import BootedLab, LinkDefaults
from detour.fabric.labs.model import LabHost
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.hosts import IpStack


def config_of(host: LabHost) -> IpHostConfig:
    """What the stack has to know of a host."""
    address, gateway = str(host.address), "" if host.gateway is None else str(host.gateway)
    neighbours = {str(ip): mac for ip, mac in host.neighbours}
    if host.address.version == 6:
        return IpHostConfig(host.name, host.mac, ipv6=address, gateway6=gateway, neighbours=neighbours)
    return IpHostConfig(host.name, host.mac, ipv4=address, gateway4=gateway, neighbours=neighbours)


def attach_hosts(booted: BootedLab, defaults: LinkDefaults, *, seed: int = 0, elide: bool = False) -> IpStack | None:
    """Attaches all hosts of a lab to their switches; None if it has none.

    Raises:
        DetourError: a host's addresses are wrong.
    """
    lab = booted.lab
    if not lab.hosts:
        return None
    stack = IpStack([config_of(host) for host in lab.hosts], seed=seed, elide=elide)
    for number, host in enumerate(lab.hosts):
        link, end = lab.attachment(host.name)
        port = booted.port(end)
        booted.network.attach_stack(port, stack, number, *defaults.of(link))
        if loss := defaults.loss_of(link):
            booted.network.set_faults(port, loss=loss)
    return stack
