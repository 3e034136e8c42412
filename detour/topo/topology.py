# SPDX-License-Identifier: Apache-2.0
"""The common form of all topologies: switches in groups, hosts on switches, links between numbered ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Literal, TypeAlias

from detour.base.errors import DetourError
from detour.topo import address
from detour.topo.names import NameFinder, NodeNames, NodePlace, is_file_name, link_name

LinkKind: TypeAlias = Literal["host", "local", "global"]
HostPair: TypeAlias = tuple[int, int]
"""indices of source and destination host"""

MAX_PORT = 508  # 509 recirculates, 510 is the CPU, 511 drops


@dataclass(frozen=True, slots=True)
class Peer:
    """The far end of a port: a host (`kind` "host") or a switch, and the port there (0 for a host)."""

    kind: LinkKind
    index: int
    port: int
    link: int


@dataclass(frozen=True, slots=True)
class Behind:
    """The far end of a port by name: a `host`, or a switch as (device id, port there). `link`: the link's name."""

    link: str
    host: str | None = None
    place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. `position` counts in its group; `tier` is 0 where hosts are, 1 and 2 above (Clos). `is_nic`: it is the
    NIC of a host that has a port in each of several planes; it forwards for that host alone, and is not a way between
    other switches."""

    index: int
    group: int
    position: int
    tier: int
    ports: tuple[Peer | None, ...]  # What is behind port p is `ports[p - 1]`; None: nothing.
    is_nic: bool = field(default=False, repr=False)  # not in `repr`, of which digests of networks are made
    own_name: str = field(default="", repr=False)  # what the file calls it that the network comes from

    @property
    def name(self) -> str:
        return self.own_name or f"s{self.index}"

    @property
    def node_id(self) -> int:
        """The switch's uSID."""
        return address.switch_node_id(self.index)

    @property
    def device_id(self) -> int:
        """The switch's P4Runtime device id."""
        return self.index + 1

    def peer(self, port: int) -> Peer | None:
        """Return the far end of a port, None if nothing is connected (or there is no such port)."""
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
    own_name: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return self.own_name or f"h{self.index}"

    @property
    def node_id(self) -> int:
        """The host's uSID."""
        return address.host_node_id(self.index)

    @property
    def address(self) -> int:
        """The host's IPv6 address as an integer."""
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
    """`s0-s3`, `s0-h1`, by the names of its ends; parallel links have `#2`, `#3`... appended."""
    speed: float = 1.0  # in multiples of the fabric's rate, which links to hosts have where nothing else is said
    delay_ps: int | None = None  # None: what the fabric's settings say for this kind of link


@dataclass(frozen=True, eq=False)
class Topology:
    """A network. Two topologies with the same `spec`, and the same names, are the same.

    `groups` counts the groups that have hosts; `valiant_groups` is the number of groups among which a packet
    may be sent by way of a third one, 0 if that makes no sense in this family. `rate_bps`: the rate of which links'
    speeds are multiples, where the network says it (a file with rates); 0: the fabric's settings say.
    `interfaces`: what the file calls ports, by name of the switch or host and by port (0 at a host)."""

    family: str
    spec: str
    groups: int
    valiant_groups: int
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    rate_bps: int = 0
    interfaces: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Topology) and self.spec == other.spec and self.names == other.names

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
    def _between(self) -> dict[tuple[int, int], tuple[Link, ...]]:
        between: dict[tuple[int, int], tuple[Link, ...]] = {}
        for link in self.links:
            if link.kind != "host":
                for ends in ((link.a[0], link.b[0]), (link.b[0], link.a[0])):
                    between[ends] = (*between.get(ends, ()), link)
        return between

    def links_between(self, a: int, b: int) -> tuple[Link, ...]:
        """The parallel links that join two switches, in the order of their numbers; none if they are not neighbours."""
        return self._between.get((a, b), ())

    @cached_property
    def finder(self) -> NameFinder:
        """Find switches, hosts and links by name."""
        ends: list[tuple[NodePlace, NodePlace]] = [
            (("switch", link.a[0]), ("host" if link.kind == "host" else "switch", link.b[0])) for link in self.links
        ]
        ports = [[None if peer is None else peer.link for peer in switch.ports] for switch in self.switches]
        switches, hosts = [switch.name for switch in self.switches], [host.name for host in self.hosts]
        return NameFinder(self.spec, switches, hosts, ends, ports, self.interfaces)

    @cached_property
    def names(self) -> dict[str, str]:
        """Names of switches and hosts in a file, by their names by number (`{"s0": "tor1"}`), where these differ."""
        numbered = {f"s{switch.index}": switch.name for switch in self.switches}
        numbered |= {f"h{host.index}": host.name for host in self.hosts}
        return {number: name for number, name in numbered.items() if name != number}

    @cached_property
    def file_names(self) -> dict[str, str]:
        """Names of switches and hosts as far as file systems allow them, else those by number; by their names."""
        nodes = [(f"s{switch.index}", switch.name) for switch in self.switches]
        nodes += [(f"h{host.index}", host.name) for host in self.hosts]
        return {name: name if is_file_name(name) else number for number, name in nodes}

    def switch(self, name: str) -> Switch:
        """The switch of that name (`s0`, or the file's own). Raises `DetourError`: there is none."""
        return self.switches[self.finder.index("switch", name)]

    def switch_name(self, device_id: int) -> str:
        """Return the name of a switch by its device id."""
        return self.switches[device_id - 1].name

    def stop_at(self, switch: int, port: int) -> int:
        """The stop (`topo.paths`) of a packet that comes to a switch by that port."""
        before = self.switches[switch].peer(port)
        if before is None or before.kind == "host":
            return switch
        number = self.links_between(before.index, switch).index(self.links[before.link])
        return switch + number * len(self.switches)

    def path_names(self, stops: Iterable[int]) -> list[str]:
        """Return the names of the stops of a path (`topo.paths`): a switch's name, followed by `#2` where the path
        comes there by the second of parallel links."""
        parts = (divmod(stop, len(self.switches)) for stop in stops)
        return [self.switches[switch].name + (f"#{copy + 1}" if copy else "") for copy, switch in parts]

    def behind(self, device_id: int, port: int) -> Behind | None:
        """Return the far end of a switch's port, None if nothing is connected (or there is no such port)."""
        peer = self.switches[device_id - 1].peer(port)
        if peer is None:
            return None
        link = self.links[peer.link].name
        if peer.kind == "host":
            return Behind(link, host=self.hosts[peer.index].name)
        return Behind(link, place=(self.switches[peer.index].device_id, peer.port))

    def host(self, name: str) -> Host:
        """The host of that name (`h0`, or the file's own). Raises `DetourError`: there is none."""
        return self.hosts[self.finder.index("host", name)]

    def link(self, name: str) -> Link:
        """The link of that name: see `NameFinder.link`. Raises `DetourError`: there is none."""
        return self.links[self.finder.link(name)]


@dataclass
class Builder:
    """Collects what a family's function describes. `own`: what a file calls switches and hosts, by `s3`, `h0`."""

    family: str
    spec: str
    own: Mapping[str, str] = field(default_factory=dict)
    _place: list[tuple[int, int, int]] = field(default_factory=list)
    _ports: list[dict[int, Peer]] = field(default_factory=list)
    _hosts: list[Host] = field(default_factory=list)
    _links: list[Link] = field(default_factory=list)
    _parallel: dict[frozenset[int], tuple[tuple[int, int], int]] = field(default_factory=dict)  # first ends, how many

    def __post_init__(self) -> None:
        self._called = NodeNames(self.own)

    def _own_name(self, number: str) -> str:
        """Return the name that a node has beside its number; empty if it has none."""
        name = self._called[number]
        return "" if name == number else name

    def add_switch(self, group: int, position: int, tier: int = 0) -> int:
        """Add a switch, return its index."""
        self._place.append((group, position, tier))
        self._ports.append({})
        return len(self._place) - 1

    def add_hosts(self, switch: int, count: int, terms: Sequence[tuple[float, int | None]] = ()) -> None:
        """Hosts at the first ports of a switch. `terms`: speed and delay of every one's link, if they are not the
        usual ones (`Link`)."""
        group, position, _ = self._place[switch]
        for i in range(count):
            own_name = self._own_name(f"h{len(self._hosts)}")
            host = Host(len(self._hosts), switch, i + 1, group, position, i, own_name)
            speed, delay_ps = terms[i] if terms else (1.0, None)
            name = link_name(self._called[f"s{switch}"], host.name)
            link = Link(len(self._links), "host", (switch, i + 1), (host.index, 0), name, speed, delay_ps)
            self._ports[switch][i + 1] = Peer("host", host.index, 0, link.index)
            self._hosts.append(host)
            self._links.append(link)

    def connect(
        self, kind: LinkKind, a: tuple[int, int], b: tuple[int, int], speed: float = 1.0, delay_ps: int | None = None
    ) -> None:
        """A link between two (switch, port); see `Link` for its speed and delay."""
        # Parallel links are called after the first one, whichever of their ends is `a`.
        first, copies = self._parallel.get(frozenset((a[0], b[0])), ((a[0], b[0]), 0))
        self._parallel[frozenset(first)] = first, copies + 1
        name = link_name(self._called[f"s{first[0]}"], self._called[f"s{first[1]}"], copies + 1)
        link = Link(len(self._links), kind, a, b, name, speed, delay_ps)
        self._links.append(link)
        self._ports[a[0]][a[1]] = Peer(kind, b[0], b[1], link.index)
        self._ports[b[0]][b[1]] = Peer(kind, a[0], a[1], link.index)

    def build(self, groups: int, valiant_groups: int = 0, rate_bps: int = 0, nics: int = 0) -> Topology:
        """The finished topology. `nics`: how many of the first switches are NICs."""
        switches = tuple(
            Switch(i, *place, _in_order(ports), i < nics, self._own_name(f"s{i}"))
            for i, (place, ports) in enumerate(zip(self._place, self._ports, strict=True))
        )
        hosts, links = tuple(self._hosts), tuple(self._links)
        return Topology(self.family, self.spec, groups, valiant_groups, switches, hosts, links, rate_bps)


def _in_order(ports: Mapping[int, Peer]) -> tuple[Peer | None, ...]:
    return tuple(ports.get(port) for port in range(1, 1 + max(ports, default=0)))


def check_counts(family: str, **counts: int) -> None:
    """Refuse what there must be one of at least. Raises `DetourError`: the first count below 1."""
    for name, count in counts.items():
        if count < 1:
            raise DetourError(f"{family}: {name}={count} is less than 1")


def check_limits(spec: str, switches: int, hosts: int, ports: int) -> None:
    """Refuse what addresses and port numbers cannot hold, before any of it is built. Raises `DetourError`: which limit
    is exceeded."""
    if ports > MAX_PORT:
        raise DetourError(f"{spec}: a switch needs {ports} ports, at most {MAX_PORT} are supported")
    if switches > address.MAX_SWITCHES:
        raise DetourError(f"{spec}: {switches} switches, at most {address.MAX_SWITCHES} have a uSID below 0x8000")
    if hosts > address.MAX_HOSTS:
        raise DetourError(f"{spec}: {hosts} hosts, at most {address.MAX_HOSTS} have a uSID from 0x8000 to 0xdfff")
