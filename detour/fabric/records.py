# SPDX-License-Identifier: Apache-2.0
"""Records of a running fabric, its flows and ports. This module loads nothing of the fabric."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class FlowWindow(Struct, frozen=True):
    """The last window of a flow. `usual_bps`: what it has otherwise, 0 while that is not known; `drop`: the share of it
    that is missing; `ecn_share`: of marked packets; `delay_ps`: mean queuing delay."""

    rate_bps: float
    usual_bps: float
    drop: float
    ecn_share: float
    delay_ps: float


class FlowTotals(FlowWindow, frozen=True):
    """A flow's counters at its receiver, and its last window. `bytes` are payload."""

    name: str
    packets: int
    bytes: int
    duplicates: int
    ecn_packets: int


class SwitchFlowTotals(FlowWindow, frozen=True):
    """A flow's counters at a switch, and its last window. `bytes` are frames, `ecn_packets` those that this switch
    marked; `delays`: packets by class of queuing delay (`control.p4runtime.watching.CLASS_BOUNDS`)."""

    switch: str
    packets: int
    bytes: int
    ecn_packets: int
    delays: list[int]


class FlowRow(FlowTotals, frozen=True):
    """A flow that sends. `path`: of its next packet; `placed`: the placement chose it; `switches`: those that watch it,
    in the order of its path; `cwnd`: its congestion window, packets."""

    path: str
    placed: bool
    switches: list[SwitchFlowTotals]
    cwnd: float = 0.0


class PortCounts(Struct, frozen=True):
    """Counters of a port."""

    rx_packets: int
    rx_bytes: int
    enqueued_packets: int
    enqueued_bytes: int
    tx_packets: int
    tx_bytes: int
    marked_packets: int
    marked_bytes: int


class PortState(Struct, frozen=True):
    """The part of a port's state that only the target itself knows; `drops`: packets that found the queue full, or
    None."""

    up: bool
    queue_packets: int | None = None
    queue_peak: int | None = None
    drops: int | None = None


class PortWindow(Struct, frozen=True):
    """The last window of a port. `queue_packets`: that waited at its end; `drops`: that found the queue full."""

    tx_bps: float
    queue_packets: float
    marked_share: float
    drops: float


class PlacementTotals(Struct, frozen=True):
    """`collisions`: pairs of flows that share a link, of which there must be `lower_bound`; `without_path`: flows that
    are cut off; `method`: how they were placed, None without a placement."""

    flows: int
    collisions: int
    lower_bound: int
    without_path: int
    method: str | None


class MetricSample(Struct, frozen=True):
    """A value, or of a histogram `buckets`, (less or equal, packets so far), and `sum`."""

    labels: dict[str, str]
    value: float | UnsetType = UNSET
    buckets: list[tuple[str, int]] | UnsetType = UNSET
    sum: float | UnsetType = UNSET


class FabricMetric(Struct, frozen=True):
    """`kind`: `counter`, `gauge` or `histogram`; `text`: what it is, for people."""

    name: str
    kind: str
    text: str
    samples: list[MetricSample]


class ServedAt(Struct, frozen=True):
    """Addresses at which the engine serves P4Runtime. `socket`: of this user alone; `address`: the one that others may
    reach, which is the socket too if none was asked for; `reach`: who can. `thrift`: the socket of BMv2's runtime API
    of all switches, of this user alone."""

    socket: str
    address: str
    tls: bool
    reach: str
    thrift: str


class LinuxHost(Struct, frozen=True):
    """A host that is a namespace of Linux. `process` keeps it, in a user namespace if `user`; `kind`: of its interface,
    tap or veth; `oversized`: frames above the MTU that came out of it and were dropped (None: nobody counts)."""

    host: str
    process: int
    user: bool
    interface: str
    kind: str
    mtu: int
    addresses: list[str]
    oversized: int | None


class BackendDetails(Struct, frozen=True, kw_only=True):
    """UNSET: this backend has no such thing. `lag_ms`: how far the engine is behind the wall clock. On BMv2 `processes`
    (ids) and `restarts` of switches by name, `namespaces`: of the hosts, and of all `switches`. `linux`: hosts
    that are namespaces of Linux."""

    lag_ms: float | UnsetType = UNSET
    p4runtime: ServedAt | UnsetType = UNSET
    processes: dict[str, int] | UnsetType = UNSET
    restarts: dict[str, int] | UnsetType = UNSET
    namespaces: dict[str, str] | UnsetType = UNSET
    linux: list[LinuxHost] | UnsetType = UNSET
