# SPDX-License-Identifier: Apache-2.0
"""A Linux host's interface: addresses, routes, neighbours, MTU. All of it is data, so that a fabric of IPv6 and uSIDs
and a lab with IPv4, a gateway and static ARP are put together by the same code."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from detour.base.errors import DetourError
from detour.topo import Host, Topology, address

INTERFACE = "eth0"
LINUX_MTU = 1500
QUEUE_PACKETS = 320
"""depth of the queue of a switch's port, unless it is said"""
LINUX_QUEUE = 1000
"""Linux' own default"""
LEAST_MTU = 1280
"""IPv6 goes over no link with less (RFC 8200, section 5)"""
_ETHERNET_BYTES = 14
_GATEWAY = "fe80::1"
_FABRIC = ("fd00::/16", "fcbb:bb00::/32")
_SHORTEST_PORTS = "16384 32767"
"""Ports that the kernel picks for who asks for none: those of shortest paths (most significant bit 0)."""
_LOCAL_TABLE = 255
_SILENT_IPV6 = {"accept_ra": "0", "accept_dad": "0", "autoconf": "0", "router_solicitations": "0", "addr_gen_mode": "1"}
"""Nobody answers neighbour discovery in the fabric: nothing is to be asked, waited for or made up."""


@dataclass(frozen=True)
class Route:
    """`to`: a prefix, or `default` with a `via`. `via`: an address, which needs no route of its own; None: who is there
    is a neighbour. `more`: what else `ip route add` is to be told, like `encap seg6local ...`."""

    to: str
    via: str | None = None
    more: str = ""


@dataclass(frozen=True)
class Neighbour:
    """An entry that stays: an address, IPv4 or IPv6, and a MAC like `02:00:00:00:00:01`."""

    address: str
    mac: str


@dataclass(frozen=True)
class HostInterface:
    """The interface of one host. `addresses`: with the length of the prefix, like `10.0.1.1/24`. `queue`: frames that
    may wait in it. `sysctls`: by path below /proc/sys, of the namespace; `own_sysctls`: of the interface alone, below
    net/ipv6/conf/INTERFACE."""

    mac: str
    addresses: tuple[str, ...]
    routes: tuple[Route, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    mtu: int = LINUX_MTU
    queue: int = LINUX_QUEUE
    name: str = INTERFACE
    sysctls: Mapping[str, str] = field(default_factory=dict)
    own_sysctls: Mapping[str, str] = field(default_factory=lambda: dict(_SILENT_IPV6))

    @property
    def longest_frame(self) -> int:
        """Bytes of the longest Ethernet frame that may come out of it; one with a VLAN tag may have four more."""
        return self.mtu + _ETHERNET_BYTES

    def lines(self) -> list[str]:
        """Return the lines for `ip -batch` once the interface exists, in order."""
        link = f"link set dev {self.name}"
        return [
            f"{link} address {self.mac} mtu {self.mtu} txqueuelen {self.queue}",
            "link set dev lo up",
            f"{link} up",
            *(f"addr add {each} dev {self.name}{_nodad(each)}" for each in self.addresses),
            *(
                f"neigh replace {each.address} lladdr {each.mac} dev {self.name} nud permanent"
                for each in self.neighbours
            ),
            *(self._route(each) for each in self.routes),
        ]

    def _route(self, route: Route) -> str:
        via, onlink = ("", "") if route.via is None else (f" via {route.via}", " onlink")
        return f"route replace {route.to}{via} dev {self.name}{onlink} {route.more}".rstrip()


def _nodad(text: str) -> str:
    """Return the flag that makes an IPv6 address usable at once. Raises DetourError: it is not an address."""
    try:
        return " nodad" if ipaddress.ip_interface(text).version == 6 else ""
    except ValueError:
        raise DetourError(f"{text!r} is neither an IPv4 nor an IPv6 address") from None


def of_fabric(host: Host, mtu: int = LINUX_MTU, queue: int = LINUX_QUEUE) -> HostInterface:
    """Return the interface of a host of our fabrics: its address, its name at the end of a uSID list, and the switch as
    its gateway. Packets that come for the uSID with another IPv6 packet inside are decapsulated (End.DT6). Raises
    DetourError: IPv6 does not fit such an MTU."""
    if mtu < LEAST_MTU:
        raise DetourError(f"an MTU of {mtu} bytes: IPv6 needs at least {LEAST_MTU}")
    locator = address.ipv6_text(address.locator(host.node_id))
    inner = Route(f"{locator}/48", more=f"encap seg6local action End.DT6 table {_LOCAL_TABLE}")
    # As routes inside the namespace are looked up by the longest prefix, what is encapsulated here goes on by these.
    outward = tuple(Route(prefix, _GATEWAY) for prefix in _FABRIC)
    inside = {"net/ipv6/conf/all/seg6_enabled": "1", "net/ipv4/ip_local_port_range": _SHORTEST_PORTS}
    return HostInterface(
        mac=address.mac_text(host.mac),
        addresses=(f"{address.ipv6_text(host.address)}/128",),
        routes=(*outward, inner),
        neighbours=(Neighbour(_GATEWAY, address.mac_text(address.GATEWAY_MAC)),),
        mtu=mtu,
        queue=queue,
        sysctls=inside,
        own_sysctls=_SILENT_IPV6 | {"seg6_enabled": "1"},
    )


def names_of_fabric(topology: Topology) -> dict[str, str]:
    """Address of every host by its names."""
    addresses = {f"h{host.index}": address.ipv6_text(host.address) for host in topology.hosts}
    return addresses | {host_name(host.name): address.ipv6_text(host.address) for host in topology.hosts}


def host_name(name: str) -> str:
    """A host's name as the resolver takes it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)


def hosts_file(names: Mapping[str, str], own: str) -> str:
    """/etc/hosts as `own` sees it."""
    loopback: Iterable[str] = ("127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback")
    lines = [*loopback, *(f"{where} {name}" for name, where in names.items())]
    if host_name(own) not in names:
        lines.append(f"127.0.1.1 {host_name(own)}")
    return "\n".join(lines) + "\n"
