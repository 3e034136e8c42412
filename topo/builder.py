# SPDX-License-Identifier: Apache-2.0
"""Puts a topology together: switches first, then hosts and links in the order in which ports are numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from detour.base.errors import DetourError
from detour.topo import address
from detour.topo.topology import MAX_PORT, Host, Link, LinkKind, Peer, Switch, Topology


@dataclass
class Builder:
    """Collects what a family's function describes; `build` checks the limits of addresses and of the data plane."""

    family: str
    spec: str
    _place: list[tuple[int, int, int]] = field(default_factory=list)
    _ports: list[dict[int, Peer]] = field(default_factory=list)
    _hosts: list[Host] = field(default_factory=list)
    _links: list[Link] = field(default_factory=list)
    _names: dict[str, int] = field(default_factory=dict)

    def add_switch(self, group: int, position: int, tier: int = 0) -> int:
        """Adds a switch, returns its index."""
        self._place.append((group, position, tier))
        self._ports.append({})
        return len(self._place) - 1

    def add_hosts(self, switch: int, count: int, terms: Sequence[tuple[float, int | None]] = ()) -> None:
        """Hosts at the first ports of a switch. `terms`: speed and delay of every one's link, if they are not the
        usual ones (`Link`)."""
        group, position, _ = self._place[switch]
        for i in range(count):
            host = Host(len(self._hosts), switch, i + 1, group, position, i)
            speed, delay_ps = terms[i] if terms else (1.0, None)
            name = f"s{switch}-{host.name}"
            link = Link(len(self._links), "host", (switch, i + 1), (host.index, 0), name, speed, delay_ps)
            self._ports[switch][i + 1] = Peer("host", host.index, 0, link.index)
            self._hosts.append(host)
            self._links.append(link)

    def connect(
        self, kind: LinkKind, a: tuple[int, int], b: tuple[int, int], speed: float = 1.0, delay_ps: int | None = None
    ) -> None:
        """A link between two (switch, port); see `Link` for its speed and delay."""
        name = f"s{a[0]}-s{b[0]}"
        copy = self._names[name] = self._names.get(name, 0) + 1
        link = Link(len(self._links), kind, a, b, name if copy == 1 else f"{name}#{copy}", speed, delay_ps)
        self._links.append(link)
        self._ports[a[0]][a[1]] = Peer(kind, b[0], b[1], link.index)
        self._ports[b[0]][b[1]] = Peer(kind, a[0], a[1], link.index)

    def build(self, groups: int, valiant_groups: int = 0, rate_bps: int = 0) -> Topology:
        """The finished topology."""
        switches = tuple(
            Switch(i, *place, tuple(ports.get(port) for port in range(1, 1 + max(ports, default=0))))
            for i, (place, ports) in enumerate(zip(self._place, self._ports, strict=True))
        )
        hosts, links = tuple(self._hosts), tuple(self._links)
        return Topology(self.family, self.spec, groups, valiant_groups, switches, hosts, links, rate_bps)


def check_counts(family: str, **counts: int) -> None:
    """Refuses what there must be one of at least. Raises `DetourError`: the first count below 1."""
    for name, count in counts.items():
        if count < 1:
            raise DetourError(f"{family}: {name}={count} is less than 1")


def check_limits(spec: str, switches: int, hosts: int, ports: int) -> None:
    """Refuses what addresses and port numbers cannot hold, before any of it is built. Raises `DetourError`: which limit
    is exceeded."""
    if ports > MAX_PORT:
        raise DetourError(f"{spec}: a switch needs {ports} ports, at most {MAX_PORT} can be numbered")
    if switches > address.MAX_SWITCHES:
        raise DetourError(f"{spec}: {switches} switches, at most {address.MAX_SWITCHES} have a uSID below 0x8000")
    if hosts > address.MAX_HOSTS:
        raise DetourError(f"{spec}: {hosts} hosts, at most {address.MAX_HOSTS} have a uSID from 0x8000 to 0xdfff")
