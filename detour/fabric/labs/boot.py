# SPDX-License-Identifier: Apache-2.0
"""A lab's switches, cables and hosts in one network of the engine, as the lab says, in real or virtual time; hosts are
built in, or Linux's in real time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.interpreter import carry_out
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer, Pipelines, Refused, TargetSwitch
from detour.engine.p4runtime.write import write
from detour.fabric.labs.model import Lab, LabEnd, LabHost, LabLink, LabSwitch
from detour.fabric.labs.programs import SwitchContent
from detour.fabric.linux.hosts import LinuxHosts
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.hosts import IpStack
from detour.topo import Behind
from detour.topo.names import link_name

LabCable = tuple[int, int, int]
"""rate in bits a second (0: unlimited), delay in ps, depth of queues in packets"""


@dataclass(frozen=True)
class LinkDefaults:
    """Properties of links for which the lab gives none. BMv2's queues hold 64 packets."""

    rate_bps: int = 0
    delay_ps: int = 0
    queue_packets: int = 64
    loss: float = 0.0

    def of(self, link: LabLink) -> LabCable:
        """Return the properties of a link."""
        return (
            self.rate_bps if link.rate_bps is None else link.rate_bps,
            self.delay_ps if link.delay_ps is None else link.delay_ps,
            self.queue_packets if link.queue_packets is None else link.queue_packets,
        )

    def loss_of(self, link: LabLink) -> float:
        """The share of frames that a link loses; the option is for links that lose none by themselves."""
        return link.loss or self.loss


@dataclass(frozen=True)
class BootedSwitch:
    """`pipelines`: what P4Runtime knows of it; `api`: BMv2's runtime API on it."""

    content: SwitchContent
    pipelines: Pipelines
    server: P4RuntimeServer | None
    api: BmRuntime


@dataclass
class BootedLab:
    """A lab in a network."""

    lab: Lab
    network: Network
    switches: Mapping[str, BootedSwitch]

    def port(self, end: LabEnd) -> tuple[int, int]:
        """A switch's end as the network calls it: (device id, port)."""
        return self.lab.switch(end.node).device_id, end.port

    def switch_name(self, device_id: int) -> str:
        """Return the name of a switch by its device id."""
        return self._names[device_id]

    def behind(self, device_id: int, port: int) -> Behind | None:
        """Return the far end of a switch's port, None if nothing is connected."""
        return self._behind.get((device_id, port))

    @cached_property
    def _names(self) -> dict[int, str]:
        return {switch.device_id: switch.name for switch in self.lab.switches}

    @cached_property
    def _behind(self) -> dict[tuple[int, int], Behind]:
        hosts = {host.name for host in self.lab.hosts}
        parallel: dict[frozenset[str], list[LabLink]] = {}
        behind = {}
        for link in self.lab.links:
            links = parallel.setdefault(frozenset((link.a.node, link.b.node)), [])
            links.append(link)
            name = link_name(links[0].a.node, links[0].b.node, len(links))
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if far.node in hosts:
                    behind[self.port(near)] = Behind(name, host=far.node)
                elif near.node not in hosts:
                    behind[self.port(near)] = Behind(name, place=self.port(far))
        return behind


Served = Callable[[LabSwitch], P4RuntimeServer | None]
"""the server that is to serve a switch"""


def fill(
    network: Network,
    lab: Lab,
    contents: Sequence[SwitchContent],
    served: Served = lambda switch: None,
    cpu_interfaces: bool = False,
) -> BootedLab:
    """Make the switches of a lab with their programs and entries. `cpu_interfaces`: CPU ports are ports as any other,
    to which interfaces will be attached, and nothing to P4Runtime. Raises DetourError: an entry that a table refuses,
    by file and line."""
    switches: dict[str, BootedSwitch] = {}
    for content in contents:
        switch, server = content.switch, served(content.switch)
        cpu_port = _NO_CPU if cpu_interfaces else switch.cpu_port or _NO_CPU
        network.add_switch(switch.device_id, switch.name, priorities=switch.priorities, cpu_port=cpu_port)
        pipelines = Pipelines(TargetSwitch(network, switch.device_id))
        if server is not None:
            server.add_device(switch.device_id, pipelines=pipelines)
        device = BmDevice(network, switch.device_id, server, thrift_port=switch.thrift_port or 0)
        _program(content, pipelines, device)
        switches[switch.name] = BootedSwitch(content, pipelines, server, BmRuntime(device))
    return BootedLab(lab, network, switches)


_NO_CPU = 0


def _program(content: SwitchContent, pipelines: Pipelines, device: BmDevice) -> None:
    switch = content.switch
    if content.compiled is None:
        if content.text:
            device.load(content.text)
        return
    try:
        pipelines.set(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, content.compiled, None)
    except Refused as error:
        raise DetourError(f"{switch.where}: {switch.name}: {error.text}") from None
    outcomes = write(pipelines.store, [each.update for each in content.updates])
    for outcome, update in zip(outcomes, content.updates, strict=True):
        if outcome is not None:
            raise DetourError(f"{update.where}: {switch.name}: {outcome.text}")


def lay_cables(booted: BootedLab, defaults: LinkDefaults) -> None:
    """Connect the switches; hosts are attached by those who know them."""
    switches = {switch.name for switch in booted.lab.switches}
    for link in booted.lab.links:
        if {link.a.node, link.b.node} <= switches:
            a, b = booted.port(link.a), booted.port(link.b)
            booted.network.connect(a, b, *defaults.of(link))
            if loss := defaults.loss_of(link):
                booted.network.set_faults(a, loss=loss)


def run_commands(booted: BootedLab) -> None:
    """Carry out the commands of all switches, once the ports that they may be about are there. Raises DetourError:
    one that a switch refuses, by file and line."""
    for switch in booted.switches.values():
        content = switch.content
        if content.switch.commands is not None:
            for _ in carry_out(content.switch.commands, list(content.commands), switch.api):
                pass


def config_of(host: LabHost) -> IpHostConfig:
    """Return the stack's configuration of a host."""
    address, gateway = str(host.address), "" if host.gateway is None else str(host.gateway)
    neighbours = {str(ip): mac for ip, mac in host.neighbours}
    if host.address.version == 6:
        return IpHostConfig(host.name, host.mac, ipv6=address, gateway6=gateway, neighbours=neighbours)
    return IpHostConfig(host.name, host.mac, ipv4=address, gateway4=gateway, neighbours=neighbours)


def attach_hosts(
    booted: BootedLab, defaults: LinkDefaults, *, seed: int = 0, linux: LinuxHosts | None = None
) -> IpStack | None:
    """Attach all hosts of a lab to their switches; None if it has none that are built in. `linux`: those that are
    not, whose namespaces are there. Raises DetourError: a host's addresses are wrong, or Linux refuses them."""
    lab, network = booted.lab, booted.network
    built_in = [host for host in lab.hosts if linux is None or host.name not in linux]
    stack = IpStack([config_of(host) for host in built_in], seed=seed) if built_in else None
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
