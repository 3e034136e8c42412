# SPDX-License-Identifier: Apache-2.0
"""How queues, ports and flows of a lab change over time: looked at again and again as a virtual run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from detour.base.times import US
from detour.fabric.labs.boot import BootedLab
from detour.fabric.labs.host_jobs import Doing
from detour.fabric.labs.results import peers_of

FIRST_STEP_PS = 10 * US
MOST_SAMPLES = 1_024
"""A run that goes on is looked at half as often, and what is between is forgotten."""


class LabSeries(NamedTuple):
    """What was seen. `times_ps` (samples,); `queue_packets`, `tx_bytes` and `queue_drops` (samples, ports), counted
    from the start but for the queue, as it is; `delivered` and `marked` (samples, flows), bytes and packets with
    "congestion experienced" that receivers have had."""

    times_ps: np.ndarray
    ports: tuple[str, ...]
    """`s1-3 (to s2-p2)`"""
    queue_packets: np.ndarray
    tx_bytes: np.ndarray
    queue_drops: np.ndarray
    flows: tuple[str, ...]
    """`h1:40000 to 10.0.3.3:5201`"""
    delivered: np.ndarray
    marked: np.ndarray


class LabSampler:
    """Looks at a lab in virtual time every `step_ps`."""

    def __init__(self, booted: BootedLab, doings: Sequence[Doing]) -> None:
        self.step_ps = FIRST_STEP_PS
        self._booted, self._doings = booted, [doing for doing in doings if "marked" in doing.row()]
        self._peers = peers_of(booted)
        self._ends = [booted.port(end) for end in self._peers]
        self._times: list[int] = []
        self._samples: list[tuple[np.ndarray, np.ndarray]] = []

    def look(self, now_ps: int) -> None:
        """Takes a sample of this moment."""
        self._times.append(now_ps)
        self._samples.append((self._of_ports(), self._of_flows()))
        if len(self._times) > MOST_SAMPLES:
            del self._times[1::2], self._samples[1::2]
            self.step_ps *= 2

    def _of_ports(self) -> np.ndarray:
        """(3, ports)"""
        stats = self._booted.network.port_stats()
        place = {end: i for i, end in enumerate(zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True))}
        rows = [place[end] for end in self._ends]
        return np.array([stats[name][rows] for name in ("queue_packets", "tx_bytes", "queue_drops")])

    def _of_flows(self) -> np.ndarray:
        """(2, flows)"""
        delivered = [sum(part.delivered for part in doing.parts()) for doing in self._doings]
        return np.array([delivered, [doing.row()["marked"] for doing in self._doings]])

    def series(self) -> LabSeries:
        """All that was seen so far."""
        ports = np.array([of_ports for of_ports, _ in self._samples])
        flows = np.array([of_flows for _, of_flows in self._samples])
        names = tuple(f"{end.node}-{end.port} (to {peer})" for end, peer in self._peers.items())
        queued, sent, dropped = np.moveaxis(ports, 1, 0)
        delivered, marked = np.moveaxis(flows, 1, 0)
        flow_names = tuple(_name(doing.row()) for doing in self._doings)
        return LabSeries(np.array(self._times), names, queued, sent, dropped, flow_names, delivered, marked)


def _name(row: dict[str, Any]) -> str:
    return f"{row['src']}:{row['sport']} to {row['dst']}:{row['dport']}"
