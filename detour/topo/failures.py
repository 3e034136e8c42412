# SPDX-License-Identifier: Apache-2.0
"""What is out of order: links and switches, by name."""

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
    """A switch `s3`, a link by its ends `s0-s3` or by a port `s0:5`, or a host's link `h7`. Raises `DetourError`: there
    is no such thing in the topology."""
    name = text.strip()
    if "-" in name or ":" in name:
        return Failure("link", topology.link(name).index)
    if name.startswith("h"):
        host = topology.host(name)
        return Failure("link", topology.link(f"s{host.switch}-{host.name}").index)
    if name.startswith("s"):
        return Failure("switch", topology.switch(name).index)
    raise DetourError(f"{text!r} is neither a switch (s3) nor a link (s0-s3, s0:5, h7)")


def failure_name(topology: Topology, failure: Failure) -> str:
    """The name that `parse_failure` understands."""
    return topology.links[failure.index].name if failure.kind == "link" else f"s{failure.index}"


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
