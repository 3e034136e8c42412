# SPDX-License-Identifier: Apache-2.0
"""A fabric in virtual time that is booted as those on the wall clock are: `detour up --target virtual --pace 10x`."""

from __future__ import annotations

from dataclasses import replace

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.engine.jitter import AUTO
from detour.fabric.backends.serving import Serving
from detour.fabric.backends.settings import BackendChanges
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.own_program import read_program
from detour.fabric.backends.virtual.pace import TimePace
from detour.fabric.backends.virtual.scheme import LERP_WITHOUT_PFC, LinkSettings, RunSettings, SwitchMemory
from detour.topo import Topology

PACED_RATE_BPS = 1_000_000_000
"""of links, unless it is said: what a laptop keeps up with at a pace of 1x"""
_QUEUE_PAIRS = 1024


def paced_fabric(topology: Topology, changes: BackendChanges, pace: str, serving: Serving) -> VirtualFabric:
    """A fabric that is not started yet. Packets carry their bytes; a queue's depth is the packet memory of its port.

    Raises:
        DetourError: no such pace, or something does not fit.
    """
    given = TimePace.given(pace)
    links = LinkSettings(PACED_RATE_BPS if changes.rate_bps is None else changes.rate_bps)
    if links.rate_bps < 1:
        raise DetourError("links in virtual time need a rate")
    if (delay := changes.delay_ps) is not None:
        links = replace(links, host_delay_ps=delay, local_delay_ps=delay, global_delay_ps=delay)
    memory = SwitchMemory()
    if changes.queue_packets is not None:
        memory = replace(memory, port_bytes=changes.queue_packets * PACKET_BYTES)
    own = changes.pipeline
    return VirtualFabric(
        topology,
        LERP_WITHOUT_PFC,
        RunSettings(links=links, memory=memory, loss=changes.loss or 0.0, payload=True, jitter_ps=AUTO),
        queue_pairs=_QUEUE_PAIRS,
        own=None if own is None else read_program(f"{own.p4info},{own.blob}"),
        pace=given,
        serving=serving,
    )
