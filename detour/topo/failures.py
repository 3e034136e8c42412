# SPDX-License-Identifier: Apache-2.0
"""Failed links and switches, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from detour.base.errors import DetourError
from detour.topo.topology import Topology


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """A link or a switch that is down, by its index in the topology."""

    kind: Literal["link", "switch"]
    index: int


Failures: TypeAlias = frozenset[Failure]
NONE: Failures = frozenset()


def parse_failure(topology: Topology, text: str) -> Failure:
    """A switch `s3`, a link by its ends `s0-s3` or by a port `s0:5`, or a host's link `h7`; or by a file's own names.
    Raises `DetourError`: there is no such thing in the topology."""
    name = text.strip()
    node = topology.finder.node(name)
    if node is None and not ("-" in name or ":" in name):
        if topology.names or name.startswith(("h", "s")):
            topology.finder.index("host" if name.startswith("h") else "switch", name)  # says which there are
        raise DetourError(f"{text!r} is neither a switch (s3) nor a link (s0-s3, s0:5, h7)")
    if node is None:
        return Failure("link", topology.link(name).index)
    kind, index = node
    if kind == "switch":
        return Failure("switch", index)
    host = topology.hosts[index]
    peer = topology.switches[host.switch].peer(host.port)
    assert peer is not None
    return Failure("link", peer.link)


def failure_name(topology: Topology, failure: Failure) -> str:
    """The name that `parse_failure` understands."""
    return (topology.links if failure.kind == "link" else topology.switches)[failure.index].name


def dead_links(topology: Topology, failures: Iterable[Failure]) -> frozenset[int]:
    """Links that carry nothing: failed ones, and all links of failed switches."""
    dead = set()
    for failure in failures:
        if failure.kind == "link":
            dead.add(failure.index)
        else:
            dead.update(peer.link for peer in topology.switches[failure.index].ports if peer is not None)
    return frozenset(dead)


def dead_switches(failures: Iterable[Failure]) -> frozenset[int]:
    """Switches that are down."""
    return frozenset(failure.index for failure in failures if failure.kind == "switch")
