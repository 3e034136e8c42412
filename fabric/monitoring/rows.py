# SPDX-License-Identifier: Apache-2.0
"""What monitoring knows of flows and ports, as records. Loads nothing of the fabric."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType


@dataclass(frozen=True)
class FlowWindow:
    """The last window of a flow. `usual_bps`: what it has otherwise, 0 while that is not known; `drop`: the share of it
    that is missing; `ecn_share`: of marked packets; `delay_ps`: mean queuing delay."""

    rate_bps: float
    usual_bps: float
    drop: float
    ecn_share: float
    delay_ps: float


@dataclass(frozen=True)
class FlowTotals(FlowWindow):
    """What a flow's receiver has counted so far, and its last window. `bytes` are payload."""

    name: str
    packets: int
    bytes: int
    duplicates: int
    ecn_packets: int


@dataclass(frozen=True)
class SwitchFlowTotals(FlowWindow):
    """What a switch has counted of a flow, and its last window. `bytes` are frames, `ecn_packets` those that this
    switch marked; `delays`: packets by class of queuing delay (`control.p4runtime.watching.CLASS_BOUNDS`)."""

    switch: str
    packets: int
    bytes: int
    ecn_packets: int
    delays: list[int]


@dataclass(frozen=True)
class FlowRow(FlowTotals):
    """A flow that sends. `path`: of its next packet; `placed`: the placement chose it; `switches`: those that watch it,
    in the order of its path; `cwnd`: its congestion window, packets."""

    path: str
    placed: bool
    switches: list[SwitchFlowTotals]
    cwnd: float = 0.0


@dataclass(frozen=True)
class PortCounts:
    """Counters of a port."""

    rx_packets: int
    rx_bytes: int
    enqueued_packets: int
    enqueued_bytes: int
    tx_packets: int
    tx_bytes: int
    marked_packets: int
    marked_bytes: int


@dataclass(frozen=True)
class PortWindow:
    """The last window of a port. `queue_packets`: that waited at its end; `drops`: that found the queue full."""

    tx_bps: float
    queue_packets: float
    marked_share: float
    drops: float


@dataclass(frozen=True)
class MetricSample:
    """A value, or of a histogram `buckets`, (less or equal, packets so far), and `sum`."""

    labels: dict[str, str]
    value: float | UnsetType = UNSET
    buckets: list[tuple[str, int]] | UnsetType = UNSET
    sum: float | UnsetType = UNSET


@dataclass(frozen=True)
class FabricMetric:
    """`kind`: `counter`, `gauge` or `histogram`; `text`: what it is, for people."""

    name: str
    kind: str
    text: str
    samples: list[MetricSample]
