# SPDX-License-Identifier: Apache-2.0
"""A packet through a fabric that is not up: the tables are those that a controller would write."""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.control.topology_files import open_topology
from detour.fabric.footings.virtual.fabric import program
from detour.fabric.tracing.results import FollowedPacket
from detour.fabric.tracing.walk import FabricCopy
from detour.hosts.frames.sample import data_frame
from detour.topo.paths import completed_usids, parse_usid_list


def follow_planned(
    topo: str,
    source: str,
    target: str,
    *,
    sport: int | None = None,
    usid: str | None = None,
    payload: int = 1000,
    all_ways: bool = False,
) -> FollowedPacket:
    """What becomes of a data packet between two hosts of a topology.

    Raises:
        DetourError: there is no such topology or host, or the packet cannot be.
    """
    topology = open_topology(topo)
    a, b = topology.host(source), topology.host(target)
    if a == b:
        raise DetourError(f"source and destination are both {source}; they must differ")
    usids = () if usid is None else completed_usids(topology, parse_usid_list(topology, usid), b)
    policy = Policy()
    with FabricCopy(topology, program(policy.program), plan(topology, policy)) as copy:
        return copy.follow(a, data_frame(a, b, sport or 0, usids, payload), all_ways=all_ways)
