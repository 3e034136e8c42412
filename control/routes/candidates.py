# SPDX-License-Identifier: Apache-2.0
"""Source ports by path: what a sender writes into the UDP source port to go a certain way."""

from __future__ import annotations

from dataclasses import dataclass

from detour.control import schema
from detour.control.routes.hashes import PATHS, via_ports
from detour.control.verifier.trace import Tracer
from detour.topo.failures import NONE, Failures
from detour.topo.paths import SwitchPath, host_paths
from detour.topo.topology import Host, Topology

# Ports tried until every shortest path has one; 64 equally likely paths take about 300.
_TRIES = 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source port and the switches that its packets pass; `via` is the intermediate group, None without one."""

    sport: int
    path: SwitchPath
    via: int | None = None


def candidates(
    tracer: Tracer, topology: Topology, source: Host, target: Host, failures: Failures = NONE, start: int = 0
) -> tuple[Candidate, ...]:
    """One candidate for every shortest path between two hosts, then one for every usable intermediate group.

    Follows the entries that the tracer knows. Paths that no port chooses are left out, as are groups that are
    cut off. `start` (0 to 32767) is the first port to try: other values give other ports for the same paths.
    """
    return (
        *_shortest(tracer, topology, source, target, failures, start),
        *_detours(tracer, topology, source, target, start),
    )


def _shortest(
    tracer: Tracer, topology: Topology, source: Host, target: Host, failures: Failures, start: int
) -> list[Candidate]:
    wanted = set(host_paths(topology, source, target, failures))
    found: dict[SwitchPath, Candidate] = {}
    for step in range(_TRIES):
        if len(found) == len(wanted):
            break
        sport = (start + step) % PATHS
        trace = tracer.trace(source, target, sport)
        if trace.delivered and trace.switches in wanted:
            found.setdefault(trace.switches, Candidate(sport, trace.switches))
    return [found[path] for path in sorted(found)]


def _detours(tracer: Tracer, topology: Topology, source: Host, target: Host, start: int) -> list[Candidate]:
    found = []
    for via, sport in via_ports(source.group, target.group, topology.valiant_groups, start).items():
        trace = tracer.trace(source, target, sport)
        if trace.delivered and any(hop.table == schema.DETOUR for hop in trace.hops):
            found.append(Candidate(sport, trace.switches, via))
    return found
