# SPDX-License-Identifier: Apache-2.0
"""Names of switches, hosts and links: how they are made, and which of them a text means.

By number they are `s0`, `h0`, `s0-s3`, `s0-h1`, and `s0-s3#2` for a second link between the same two. Where a network
comes from a file, its nodes have the file's names, and those are shown: `tor1`, `tor1-spineA`. Both are understood; a
file's own name wins, so `s0` is the node that the file calls `s0`, and only without one the first switch.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from detour.base.errors import DetourError

if TYPE_CHECKING:
    from detour.topo.topology import Topology

Node: TypeAlias = tuple[Literal["switch", "host"], int]
"""kind and index in the topology"""
_NUMBERED = re.compile(r"([sh])([0-9]{1,9})")
_COPY = re.compile(r"(?P<ends>.*)#(?P<copy>[0-9]{1,4})", re.DOTALL)
_SHOWN = 6


def link_name(a: str, b: str, copy: int = 1) -> str:
    """`s0-s3` by the names of its ends; `copy`: 2 for the second link between these two (`s0-s3#2`)."""
    return f"{a}-{b}" if copy == 1 else f"{a}-{b}#{copy}"


def own_names(given: Mapping[str, str]) -> dict[str, str]:
    """What a file calls nodes, by their names by number, without names that two nodes share."""
    count = Counter(given.values())
    return {number: name for number, name in given.items() if name and count[name] == 1}


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, or, where others have it, the name with as many `_` behind it as make it another one."""
    while name in taken:
        name += "_"
    return name


def is_file_name(name: str) -> bool:
    """Whether file systems and shells take a name as it is."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", name) is not None


class Names:
    """Finds switches, hosts and links of a topology by their names."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._own: dict[str, Node] = {switch.name: ("switch", switch.index) for switch in topology.switches}
        self._own |= {host.name: ("host", host.index) for host in topology.hosts}

    def node(self, name: str) -> Node | None:
        """The switch or host of that name, None if there is none."""
        if name in self._own:
            return self._own[name]
        match = _NUMBERED.fullmatch(name)
        if match is None:
            return None
        kind = "switch" if match[1] == "s" else "host"
        return (kind, int(match[2])) if int(match[2]) < self._count(kind) else None

    def index(self, kind: Literal["switch", "host"], name: str) -> int:
        """The index of a switch or of a host. Raises `DetourError`: there is none of that name."""
        node = self.node(name)
        if node is None:
            self._refuse(kind, name)
        if node[0] != kind:
            raise DetourError(f"{kind} {name!r}: {self._topology.spec} has a {node[0]} of that name")
        return node[1]

    def host_range(self, text: str) -> tuple[int, int]:
        """First and last host of `h0-h7`, or a host twice. Raises `DetourError`: there is none of that name."""
        ends = [(text[: hyphen.start()].strip(), text[hyphen.end() :].strip()) for hyphen in re.finditer("-", text)]
        ends = [pair for pair in ends if all(self.node(name) is not None for name in pair)]
        if self.node(text) is not None or not ends:
            first, dash, last = text.partition("-")
            ends = [(text, text)] if self.node(text) is not None or not dash else [(first.strip(), last.strip())]
        return self.index("host", ends[0][0]), self.index("host", ends[0][1])

    def link(self, name: str) -> int:
        """The index of a link: by its ends (`s0-s3`, `s3-s0`, `s0-s3#2`) or by a port at one end (`s0:5`,
        `leaf1:eth3`). Raises `DetourError`: there is none, or names of nodes leave open which one is meant."""
        match = _COPY.fullmatch(name)
        copies = {} if match is None else self._between(match["ends"], int(match["copy"]))
        links = copies | self._between(name, 1)
        if len(links) > 1:
            raise DetourError(f"link {name!r} may be {' or '.join(links.values())}: say which by a port, like s0:5")
        if not links:
            return self._by_port(name)
        return next(iter(links))

    def _between(self, ends: str, copy: int) -> dict[int, str]:
        """Links that this may name, and how they are called by number. Names may contain hyphens themselves."""
        found = {}
        for hyphen in re.finditer("-", ends):
            a, b = self.node(ends[: hyphen.start()]), self.node(ends[hyphen.end() :])
            links = [] if a is None or b is None else self._links.get(frozenset((a, b)), [])
            if a is not None and b is not None and 1 <= copy <= len(links):
                found[links[copy - 1]] = link_name(f"{a[0][0]}{a[1]}", f"{b[0][0]}{b[1]}", copy)
        return found

    @cached_property
    def _links(self) -> dict[frozenset[Node], list[int]]:
        """Links by their ends, parallel ones in order."""
        links: dict[frozenset[Node], list[int]] = {}
        for link in self._topology.links:
            far: Node = ("host" if link.kind == "host" else "switch", link.b[0])
            links.setdefault(frozenset((("switch", link.a[0]), far)), []).append(link.index)
        return links

    def _by_port(self, name: str) -> int:
        node_name, colon, port = name.rpartition(":")
        node = self.node(node_name) if colon else None
        if node is None:
            self._refuse_link(name)
        topology = self._topology
        kind, index = node
        owner = topology.switches[index].name if kind == "switch" else topology.hosts[index].name
        called = topology.interfaces.get(owner, {})
        number = next((number for number, name in called.items() if name == port), None)
        if number is None and re.fullmatch("[0-9]{1,8}", port):
            number = int(port)
        if kind == "host":
            host = topology.hosts[index]
            peer = topology.switches[host.switch].peer(host.port) if number == 0 else None
        else:
            peer = None if number is None else topology.switches[index].peer(number)
        if peer is None:
            ports = f"ports 1 to {len(topology.switches[index].ports)}" if kind == "switch" else "port 0"
            more = f" ({', '.join(called.values())})" if called else ""
            raise DetourError(f"link {name!r}: {owner} has {ports}{more}")
        return peer.link

    def _count(self, kind: str) -> int:
        return len(self._topology.switches if kind == "switch" else self._topology.hosts)

    def _refuse(self, kind: Literal["switch", "host"], name: str) -> NoReturn:
        letter, last = kind[0], self._count(kind) - 1
        numbers = f"{letter}0 to {letter}{last}"
        nodes = self._topology.switches if kind == "switch" else self._topology.hosts
        own = [node.name for node in nodes if node.name != f"{letter}{node.index}"]
        if own:
            near = difflib.get_close_matches(name, own, 3) or own[:_SHOWN]
            more = ", ..." if len(near) < len(own) else ""
            rule = f"{self._topology.spec} has {', '.join(near)}{more} ({numbers} by number)"
        elif re.fullmatch(f"{letter}[0-9]+", name):
            rule = f"{self._topology.spec} has {numbers}"
        else:
            rule = f"the name is {letter} and a number, {numbers}"
        raise DetourError(f"{kind} {name!r}: {rule}")

    def _refuse_link(self, name: str) -> NoReturn:
        node, colon, _ = name.rpartition(":")
        ends = (name if _COPY.fullmatch(name) is None else name.rpartition("#")[0]).split("-")
        if colon and len(ends) == 1:
            self._refuse("switch", node)
        if len(ends) == 2:
            for end in ends:
                if self.node(end) is None:
                    self._refuse("host" if end.startswith("h") else "switch", end)
            rule = f"{ends[0]} and {ends[1]} are not neighbours in {self._topology.spec}"
            if name != "-".join(ends) and self._between("-".join(ends), 1):
                rule = f"{self._topology.spec} has fewer links between {ends[0]} and {ends[1]}"
            raise DetourError(f"link {name!r}: {rule}")
        raise DetourError(f"link {name!r}: links are named by their ends, like s0-s3, s0-h1, or by port, s0:5")
