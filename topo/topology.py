# SPDX-License-Identifier: Apache-2.0
"""What every topology is: switches in groups, hosts on switches, links between numbered ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Literal, TypeAlias

from detour.base.errors import DetourError
from detour.topo import address

LinkKind: TypeAlias = Literal["host", "local", "global"]
HostPair: TypeAlias = tuple[int, int]
"""indices of source and destination host"""

MAX_PORT = 508  # 509 recirculates, 510 is the CPU, 511 drops


@dataclass(frozen=True, slots=True)
class Peer:
    """What is behind a port: a host (`kind` "host") or a switch, and the port there (0 for a host)."""

    kind: LinkKind
    index: int
    port: int
    link: int


@dataclass(frozen=True, slots=True)
class Behind:
    """What is behind a port, by what it is called: a `host`, or a switch, at (device id, port there). `link`: its
    name."""

    link: str
    host: str | None = None
    place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. `position` counts in its group; `tier` is 0 where hosts are, 1 and 2 above (Clos). `is_nic`: it is the
    NIC of a host that has a port in each of several planes; it forwards for that host alone, and is no way between
    other switches."""

    index: int
    group: int
    position: int
    tier: int
    ports: tuple[Peer | None, ...]  # What is behind port p is `ports[p - 1]`; None: nothing.
    is_nic: bool = field(default=False, repr=False)  # not in `repr`, of which digests of networks are made

    @property
    def name(self) -> str:
        return f"s{self.index}"

    @property
    def node_id(self) -> int:
        """Its uSID."""
        return address.switch_node_id(self.index)

    @property
    def device_id(self) -> int:
        """What P4Runtime calls it."""
        return self.index + 1

    def peer(self, port: int) -> Peer | None:
        """What is behind a port, None for nothing (or no such port)."""
        return self.ports[port - 1] if 1 <= port <= len(self.ports) else None


@dataclass(frozen=True, slots=True)
class Host:
    """A host. `group`, `switch_position` and `position` (on its switch) make up its address."""

    index: int
    switch: int
    port: int
    group: int
    switch_position: int
    position: int

    @property
    def name(self) -> str:
        return f"h{self.index}"

    @property
    def node_id(self) -> int:
        """Its uSID."""
        return address.host_node_id(self.index)

    @property
    def address(self) -> int:
        """Its IPv6 address as an integer."""
        return address.host_address(self.group, self.switch_position, self.position)

    @property
    def mac(self) -> int:
        return address.host_mac(self.index)


@dataclass(frozen=True, slots=True)
class Link:
    """A link. `a` is (switch, port); `b` is (switch, port) or, for a host link, (host, 0)."""

    index: int
    kind: LinkKind
    a: tuple[int, int]
    b: tuple[int, int]
    name: str
    """`s0-s3`, `s0-h1`; parallel links have `#2`, `#3`... appended."""
    speed: float = 1.0  # in multiples of the fabric's rate, which links to hosts have where nothing else is said
    delay_ps: int | None = None  # None: what the fabric's settings say for this kind of link


@dataclass(frozen=True, eq=False)
class Topology:
    """A network. Two topologies with the same `spec` are the same.

    `groups` counts the groups that have hosts; `valiant_groups` is the number of groups among which a packet
    may be sent by way of a third one, 0 if that makes no sense in this family. `rate_bps`: the rate of which links'
    speeds are multiples, where the network says it (a file with rates); 0: the fabric's settings say. `outside`: what
    the file calls switches and hosts (`s3`, `h0`) and, where it says so, their ports (`s3:1`, `h0:0`)."""

    family: str
    spec: str
    groups: int
    valiant_groups: int
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    rate_bps: int = 0
    outside: Mapping[str, str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __str__(self) -> str:
        return self.spec

    def __repr__(self) -> str:
        counts = f"{len(self.switches)} switches, {len(self.hosts)} hosts, {len(self.links)} links"
        return f"<Topology {self.spec}: {counts}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        kinds = Counter(f"{link.kind} links" for link in self.links)
        counts = {"switches": len(self.switches), "hosts": len(self.hosts), "groups": self.groups, **kinds}
        rows = "".join(f"<tr><th>{name}</th><td>{count}</td></tr>" for name, count in counts.items())
        return f"<p>{escape(self.spec)}</p><table>{rows}</table>"

    @cached_property
    def hosts_of(self) -> tuple[tuple[Host, ...], ...]:
        """Hosts of every switch, by switch index."""
        by_switch: list[list[Host]] = [[] for _ in self.switches]
        for host in self.hosts:
            by_switch[host.switch].append(host)
        return tuple(map(tuple, by_switch))

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Switches of every group; a fat-tree's cores form one more group behind the pods."""
        by_group: list[list[int]] = [[] for _ in range(1 + max(s.group for s in self.switches))]
        for switch in self.switches:
            by_group[switch.group].append(switch.index)
        return tuple(map(tuple, by_group))

    @cached_property
    def nics(self) -> tuple[int, ...]:
        """Switches that are NICs."""
        return tuple(switch.index for switch in self.switches if switch.is_nic)

    @cached_property
    def planes(self) -> int:
        """Networks side by side, in each of which every host's NIC has a port."""
        return len(self.switches[0].ports) - 1 if self.nics else 1

    @cached_property
    def _link_by_name(self) -> dict[str, Link]:
        return {name: link for link in self.links for name in (link.name, _reversed(link.name))}

    def switch(self, name: str) -> Switch:
        """The switch of that name (`s0`...). Raises `DetourError`: there is none."""
        return self.switches[_number(name, "s", "switch", len(self.switches), self.spec)]

    def switch_name(self, device_id: int) -> str:
        """What a switch is called, by its device id."""
        return self.switches[device_id - 1].name

    def behind(self, device_id: int, port: int) -> Behind | None:
        """What is behind a port of a switch, None for nothing (or no such port)."""
        peer = self.switches[device_id - 1].peer(port)
        if peer is None:
            return None
        link = self.links[peer.link].name
        if peer.kind == "host":
            return Behind(link, host=self.hosts[peer.index].name)
        return Behind(link, place=(self.switches[peer.index].device_id, peer.port))

    def host(self, name: str) -> Host:
        """The host of that name (`h0`...). Raises `DetourError`: there is none."""
        return self.hosts[_number(name, "h", "host", len(self.hosts), self.spec)]

    def link(self, name: str) -> Link:
        """The link between two neighbours, `s0-s3` or `s3-s0`, or behind a port, `s0:5`. Raises `DetourError`: there is
        none."""
        if name in self._link_by_name:
            return self._link_by_name[name]
        switch_name, colon, port = name.partition(":")
        if colon and port.isascii() and port.isdigit() and len(port) < 9:
            switch = self.switch(switch_name)
            peer = switch.peer(int(port))
            if peer is None:
                raise DetourError(f"link {name!r}: {switch.name} has ports 1 to {len(switch.ports)}")
            return self.links[peer.link]
        ends = name.split("#")[0].split("-")
        if len(ends) != 2:
            raise DetourError(f"link {name!r}: links are named by their ends, like s0-s3, s0-h1, or by port, s0:5")
        for end in ends:
            self.host(end) if end.startswith("h") else self.switch(end)
        raise DetourError(f"link {name!r}: {ends[0]} and {ends[1]} are not neighbours in {self.spec}")


def _reversed(name: str) -> str:
    ends, mark, copy = name.partition("#")
    a, _, b = ends.partition("-")
    return f"{b}-{a}{mark}{copy}"


def _number(name: str, letter: str, what: str, count: int, spec: str) -> int:
    digits = name[1:]
    if not (name.startswith(letter) and digits.isascii() and digits.isdigit()):
        raise DetourError(f"{what} {name!r}: the name is {letter} and a number, {letter}0 to {letter}{count - 1}")
    if len(digits) > 9 or int(digits) >= count:
        raise DetourError(f"{what} {name!r}: {spec} has {letter}0 to {letter}{count - 1}")
    return int(digits)


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

    def build(self, groups: int, valiant_groups: int = 0, rate_bps: int = 0, nics: int = 0) -> Topology:
        """The finished topology. `nics`: how many of the first switches are NICs."""
        switches = tuple(
            Switch(i, *place, tuple(ports.get(port) for port in range(1, 1 + max(ports, default=0))), i < nics)
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
