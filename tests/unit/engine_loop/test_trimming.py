# SPDX-License-Identifier: Apache-2.0
"""Full queues that cut packets to their headers, in a whole fabric."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detour.base.errors import DetourError
from detour.control.policy import Policy
from detour.control.routings import routing as chosen
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import RunSettings, SwitchMemory, scheme
from detour.topo.spec import parse_topology

US = 1_000_000
TOPOLOGY = parse_topology("leaf-spine:leaves=2,spines=2,hosts=4")
SIZE = 200_000


def incast(name: str) -> VirtualFabric:
    """Seven hosts have sent to one, through little memory."""
    settings = RunSettings(memory=SwitchMemory(port_bytes=60_000))
    fabric = VirtualFabric(TOPOLOGY, scheme(name), settings, queue_pairs=7)
    fabric.connect([(host, 0) for host in range(1, 8)])
    fabric.send(SIZE)
    fabric.run(3000 * US)
    return fabric


def test_incast_loses_nothing_when_packets_are_trimmed() -> None:
    with incast("PathSet") as fabric:
        dropped = int(fabric.network.port_stats()["queue_drops"].sum())
        assert dropped > 100
    with incast("PathSet-trim") as fabric:
        stats = fabric.network.switch_stats()
        trims = int(stats["trims"].sum())
        assert trims > 100
        assert [int(stats[name].sum()) for name in ("queue_drops", "buffer_drops", "ingress_drops")] == [0, 0, 0]
        assert int(fabric.column("st_retransmitted").sum()) == trims
        assert int(fabric.column("st_failovers").sum()) == 0
        assert fabric.unfinished() == 0


def test_trimming_is_for_lossy_queues() -> None:
    with pytest.raises(DetourError, match="trims needs routing=valiant and lossy queues"):
        replace(Policy(), trims=True, routing=chosen("minimal"))
