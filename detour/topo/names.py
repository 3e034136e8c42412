# SPDX-License-Identifier: Apache-2.0
"""Names of switches, hosts and links: how they are made, and which of them a text means.

By number they are `s0`, `h0`, `s0-s3`, `s0-h1`, and `s0-s3#2` for a second link between the same two. Where a network
comes from a file, its nodes have the file's names, and those are shown: `tor1`, `tor1-spineA`. Both are understood; a
file's own name wins, so `s0` is the node that the file calls `s0`, and only without one the first switch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn, TypeAlias

from detour.base.errors import DetourError

NodePlace: TypeAlias = tuple[Literal["switch", "host"], int]
"""kind and index in the topology"""
_NUMBERED = re.compile(r"([sh])([0-9]{1,9})")
_COPY = re.compile(r"(?P<ends>.*)#(?P<copy>[0-9]{1,4})", re.DOTALL)
_SHOWN = 6


def link_name(a: str, b: str, copy: int = 1) -> str:
    """`s0-s3` by the names of its ends; `copy`: 2 for the second link between these two (`s0-s3#2`)."""
    return f"{a}-{b}" if copy == 1 else f"{a}-{b}#{copy}"


class NodeNames:
    """Names of switches and hosts, by their names by number: those of a file (`given`), unless two have
    that name; else the number, with as many `_` behind it as make it a name that no other has in the file."""

    def __init__(self, given: Mapping[str, str]) -> None:
        count = Counter(given.values())
        self._given = {number: name for number, name in given.items() if name and count[name] == 1}
        self._taken = frozenset(self._given.values())

    def __getitem__(self, number: str) -> str:
        name = self._given.get(number)
        if name is None:
            name = number
            while name in self._taken:
                name += "_"
        return name


def _splits(text: str) -> list[tuple[str, str]]:
    """The two parts at each hyphen, for names may contain hyphens themselves."""
    return [(text[: at.start()].strip(), text[at.end() :].strip()) for at in re.finditer("-", text)]


def _near(name: str, names: Sequence[str]) -> Sequence[str]:
    """Return names that may be meant."""
    import difflib

    return difflib.get_close_matches(name, names, 3) or names[:_SHOWN]


def is_file_name(name: str) -> bool:
    """Return whether file systems and shells take a name as it is."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", name) is not None


@dataclass(frozen=True, eq=False)
class NameFinder:
    """Finds switches, hosts and links of a topology by their names. `spec`: the topology's; `switches`, `hosts`: names
    by index; `links`: their ends by index, a switch first; `ports`: of every switch the links behind them;
    `interfaces`: see `Topology`."""

    spec: str
    switches: Sequence[str]
    hosts: Sequence[str]
    links: Sequence[tuple[NodePlace, NodePlace]]
    ports: Sequence[Sequence[int | None]]
    interfaces: Mapping[str, Mapping[int, str]]

    @cached_property
    def _own(self) -> dict[str, NodePlace]:
        own: dict[str, NodePlace] = {name: ("switch", index) for index, name in enumerate(self.switches)}
        own.update((name, ("host", index)) for index, name in enumerate(self.hosts))
        return own

    def node(self, name: str) -> NodePlace | None:
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
            raise DetourError(f"{kind} {name!r}: {self.spec} has a {node[0]} of that name")
        return node[1]

    def host_range(self, text: str) -> tuple[int, int]:
        """First and last host of `h0-h7`, or a host twice. Raises `DetourError`: there is none of that name."""
        ends = _splits(text)
        if self.node(text) is not None or not ends:
            ends = [(text, text)]
        known = (pair for pair in ends if all(self.node(name) is not None for name in pair))
        first, last = next(known, ends[0])
        return self.index("host", first), self.index("host", last)

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
        """Links that this may name, and how they are called by number."""
        found = {}
        for one, other in _splits(ends):
            a, b = self.node(one), self.node(other)
            links = [] if a is None or b is None else self._between_nodes.get(frozenset((a, b)), [])
            if a is not None and b is not None and 1 <= copy <= len(links):
                found[links[copy - 1]] = link_name(f"{a[0][0]}{a[1]}", f"{b[0][0]}{b[1]}", copy)
        return found

    @cached_property
    def _between_nodes(self) -> dict[frozenset[NodePlace], list[int]]:
        """Links by their ends, parallel ones in order."""
        links: dict[frozenset[NodePlace], list[int]] = {}
        for index, ends in enumerate(self.links):
            links.setdefault(frozenset(ends), []).append(index)
        return links

    def _by_port(self, name: str) -> int:
        node_name, colon, port = name.rpartition(":")
        node = self.node(node_name) if colon else None
        if node is None:
            self._refuse_link(name)
        kind, index = node
        owner = (self.switches if kind == "switch" else self.hosts)[index]
        called = self.interfaces.get(owner, {})
        number = next((number for number, name in called.items() if name == port), None)
        if number is None and re.fullmatch("[0-9]{1,8}", port):
            number = int(port)
        behind = {0: next(link for link, (_, far) in enumerate(self.links) if far == node)} if kind == "host" else {}
        if kind == "switch":
            behind = {number: link for number, link in enumerate(self.ports[index], 1) if link is not None}
        if number not in behind:
            ports = "port 0" if kind == "host" else f"ports 1 to {len(self.ports[index])}"
            more = f" ({', '.join(called.values())})" if called else ""
            raise DetourError(f"link {name!r}: {owner} has {ports}{more}")
        return behind[number]

    def _name(self, node: NodePlace) -> str:
        return (self.switches if node[0] == "switch" else self.hosts)[node[1]]

    def _count(self, kind: str) -> int:
        return len(self.switches if kind == "switch" else self.hosts)

    def _refuse(self, kind: Literal["switch", "host"], name: str) -> NoReturn:
        letter, last = kind[0], self._count(kind) - 1
        numbers = f"{letter}0 to {letter}{last}"
        nodes = self.switches if kind == "switch" else self.hosts
        own = [node for index, node in enumerate(nodes) if node != f"{letter}{index}"]
        if own:
            near = _near(name, own)
            more = ", ..." if len(near) < len(own) else ""
            rule = f"{self.spec} has {', '.join(near)}{more} ({numbers} by number)"
        elif re.fullmatch(f"{letter}[0-9]+", name):
            rule = f"{self.spec} has {numbers}"
        else:
            rule = f"the name is {letter} and a number, {numbers}"
        raise DetourError(f"{kind} {name!r}: {rule}")

    def _refuse_link(self, name: str) -> NoReturn:
        match = _COPY.fullmatch(name)
        stem = name if match is None else match["ends"]
        for a, b in _splits(stem):
            if self.node(a) is not None and self.node(b) is not None:
                rule = f"{a} and {b} are not neighbours in {self.spec}"
                if self._between(stem, 1):
                    rule = f"{self.spec} has fewer links between {a} and {b}"
                raise DetourError(f"link {name!r}: {rule}")
        owner, colon, _ = name.rpartition(":")
        ends = stem.split("-")
        if colon and len(ends) == 1:
            self._refuse("switch", owner)
        if all(_NUMBERED.fullmatch(node) for node in self.switches):
            if len(ends) != 2:
                raise DetourError(f"link {name!r}: links are named by their ends, like s0-s3, s0-h1, or by port, s0:5")
            end = next(end for end in ends if self.node(end) is None)
            self._refuse("host" if end.startswith("h") else "switch", end)
        links = [link_name(self._name(a), self._name(b)) for a, b in self.links]
        raise DetourError(f"link {name!r}: {self.spec} has {', '.join(_near(name, [*links, *self._own]))}, ...")
