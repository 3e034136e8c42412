# SPDX-License-Identifier: Apache-2.0
"""Points of the FC+ paper's evaluation, as they are kept and printed.

A point is a network of `n` switches with `s` links each to others, wired by `seed`, and a question. Its result is the
same record with the answers, which are not there before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from msgspec import UNSET, UnsetType

from detour.base.records import decoder
from detour.control.expander.routes import MAX_HOPS, PathPolicy
from detour.control.policy import Ecn, marking
from detour.experiments.fcplus import paper
from detour.experiments.messages import Percentiles
from detour.topo import expander
from detour.topo.expander import Expander

ANSWER: Any = UNSET
"""a field that is not there until a point has been run"""


@dataclass(frozen=True, kw_only=True)
class FcplusPoint:
    """Fields of all points. `seconds` that it took, by the wall clock; a result does not name its experiment."""

    n: int
    s: int
    seed: int = 1
    experiment: str | UnsetType = "fcplus"
    seconds: float = ANSWER


@dataclass(frozen=True, kw_only=True)
class MessageAnswers:
    """Results where messages are sent."""

    messages: int = ANSWER
    fct_us: Percentiles = ANSWER
    slowdown: Percentiles = ANSWER
    mean_hops: float = ANSWER
    unfinished: int = ANSWER
    deadlock: bool = ANSWER
    pauses: int = ANSWER
    drops: int = ANSWER
    retransmitted: int = ANSWER
    buffer_peak_bytes: int = ANSWER


@dataclass(frozen=True, kw_only=True)
class FcPathsPoint(FcplusPoint):
    """Mean number of paths of a pair in FC with k = `layers`."""

    layers: int
    kind: Literal["fc-paths"] = "fc-paths"
    up_down: float = ANSWER
    disjoint: float = ANSWER


@dataclass(frozen=True, kw_only=True)
class FcCountsPoint(FcplusPoint):
    """Mean number of up-down paths of a pair in FC: all, those of at most 6 links, of at most 4. `sources`: from
    so many switches (None: all)."""

    layers: int
    sources: int | None
    kind: Literal["fc-counts"] = "fc-counts"
    n_p: float = ANSWER
    n_p6: float = ANSWER
    n_p4: float = ANSWER


@dataclass(frozen=True, kw_only=True)
class FcplusCountsPoint(FcplusPoint):
    """FC+'s paths with `v` virtual switches: longest and shortest mean length of a pair's first 32, and how many
    up-down paths of at most 4 links there are."""

    v: int
    sources: int | None
    kind: Literal["fcplus-counts"] = "fcplus-counts"
    longest: float = ANSWER
    shortest: float = ANSWER
    n_p4: float = ANSWER


@dataclass(frozen=True, kw_only=True)
class K2Point(FcplusPoint):
    """Number of paths examined until `k` are found (K2); `exact`: paths were counted one by one."""

    k: int
    sources: int | None
    kind: Literal["k2"] = "k2"
    k2: float = ANSWER
    exact: bool = ANSWER


@dataclass(frozen=True, kw_only=True)
class NetworkPoint(FcplusPoint):
    """One of the five networks with `k` paths a pair. `v`, `hosts`: None or UNSET as the paper has them."""

    network: str
    k: int
    v: int | UnsetType | None = UNSET
    hosts: int | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class LengthPoint(NetworkPoint):
    """Mean length of the paths."""

    kind: Literal["length"] = "length"
    mean_length: float = ANSWER


@dataclass(frozen=True, kw_only=True)
class FlowPoint(NetworkPoint):
    """Throughput under a pattern; `ties`: among paths of equal length. `theta` is attained, at most
    `theta` * (1 + `gap`) is possible with these routes; `upper_bound`: with any."""

    pattern: str
    ties: str = "diverse"
    v: int | UnsetType | None = None
    kind: Literal["throughput"] = "throughput"
    theta: float = ANSWER
    upper_bound: float = ANSWER
    gap: float = ANSWER
    method: str = ANSWER


@dataclass(frozen=True, kw_only=True)
class PacketsPoint(NetworkPoint, MessageAnswers):
    """Completion times of messages that arrive for `us`, and slowdowns (in units of an idle network's); `sizes` of
    messages, `split` among paths. What is unfinished counts until the end."""

    pattern: str
    us: int
    sizes: str = "equal"
    split: str = "optimal"
    kind: Literal["packets"] = "packets"
    bytes: int = ANSWER
    slowdown_percentiles: list[float] = ANSWER
    virtual_ms: float = ANSWER
    marked: int = ANSWER
    packet_hops: int = ANSWER


@dataclass(frozen=True, kw_only=True)
class StuckPoint(NetworkPoint):
    """Result whether routes deadlock within `us` while every host sends to `each` others. `fail`: links that are down,
    by name; `guard` False: who would close a cycle stays in the last lossless class. `remains`: queues that were stuck
    were so later on; `found_at_us`: None without deadlock. Where links are down: `circle`, queues that wait for each
    other, and the rate once routes were computed anew."""

    dcqcn: bool
    each: int
    us: int
    fail: str | UnsetType = UNSET
    guard: bool | UnsetType = UNSET
    kind: Literal["deadlock"] = "deadlock"
    deadlock: bool = ANSWER
    stuck_queues: int = ANSWER
    remains: bool = ANSWER
    found_at_us: float | None = ANSWER
    goodput_gbps_before: float = ANSWER
    goodput_gbps_after: float = ANSWER
    pauses: int = ANSWER
    drops: int = ANSWER
    mean_hops: float = ANSWER
    circle: list[str] = ANSWER
    goodput_gbps_anew: float = ANSWER


@dataclass(frozen=True)
class TransportSetting:
    """Settings of congestion control, marking, and what a routing leaves open.

    `ecn_bytes`: K of marking by a step, or Kmin and Kmax, between which the probability rises to `pmax`; `least_mbps`:
    the rate to which DCQCN cuts at most; `bias_bytes`: what UGAL adds to the queue of a detour; `shortest_first`:
    SprayLERP knows which of its lists are shortest paths (else all are alike)."""

    control: Literal["dctcp", "dcqcn"]
    ecn_bytes: tuple[int, ...]
    pmax: float = 1.0
    least_mbps: int = 0
    bias_bytes: int = 0
    shortest_first: bool = False

    @property
    def ecn(self) -> Ecn:
        """The marking."""
        return marking(self.ecn_bytes, self.pmax)


@dataclass(frozen=True, kw_only=True)
class TransportPoint(FcplusPoint, MessageAnswers):
    """Messages for `us` at `load` (of a server's link) by a routing and a transport, on an FC+ of `hosts` servers a
    switch; `k` paths of a pair at most. `setting`: UNSET as the transport is defined. `goodput_gbps`: what arrived
    while messages did, over that time; `offered_gbps`: what they asked for. Completion times count to the end for what
    is `unfinished`. `buffer_peak_bytes`: of the fullest switch. `detours`: messages (per packet: packets) that UGAL
    sent by way of a random switch. `settled_gbps`: what arrives behind the warm-up, and whether it was `steady` by
    then (`experiments.steady`)."""

    routing: str
    transport: str
    pattern: str
    us: int
    load: float
    hosts: int
    k: int = 32
    setting: TransportSetting | UnsetType = UNSET
    kind: Literal["transport"] = "transport"
    offered_gbps: float = ANSWER
    goodput_gbps: float = ANSWER
    detours: int = ANSWER
    settled_gbps: float = ANSWER
    steady: bool = ANSWER


_POINTS: tuple[type[FcplusPoint], ...] = (
    *(FcPathsPoint, FcCountsPoint, FcplusCountsPoint, K2Point, LengthPoint, FlowPoint),
    *(PacketsPoint, StuckPoint, TransportPoint),
)
T = TypeVar("T", bound=FcplusPoint)


def answered(point: T, **answers: Any) -> T:
    """The result of a point."""
    return replace(point, experiment=UNSET, **answers)


_of_json = decoder(*_POINTS)


def decode(value: Any) -> FcplusPoint:
    """A result of JSON."""
    return answered(_of_json(value))


def flows(results: Iterable[FcplusPoint], **values: int | str | None) -> list[FlowPoint]:
    """Throughput of the points with these values."""
    throughput = (result for result in results if isinstance(result, FlowPoint))
    return [flow for flow in throughput if all(getattr(flow, name) == value for name, value in values.items())]


PRIORITIES_OF = {"FC+ 2L": 2, "FC+ 1L": 1, "KSP": 0, "FC": 1, "Clos": 1}
"""lossless priorities that the routes may use; KSP has one and takes no regard to it"""
NETWORKS = tuple(PRIORITIES_OF)


def network_of(point: NetworkPoint) -> Expander:
    """The wiring. KSP runs on FC+'s; the Clos has as many servers and about as many switches."""
    n, s, seed = point.n, point.s, point.seed
    match point.network:
        case "FC":
            return expander.fc(n, s, paper.fc_layers(n, s), seed=seed)
        case "Clos":
            return expander.equal_cost_clos(n * (32 - s), n)
    return expander.fcplus(n, s, point.v or None, hosts=point.hosts or None, seed=seed)


def policy_of(point: NetworkPoint, max_hops: int | None = None) -> PathPolicy:
    """The routes; `max_hops` shortens them."""
    name = point.network
    if name == "FC":
        longest = 2 * (paper.fc_layers(point.n, point.s) - 1)
        return PathPolicy(64, 1, disjoint=True, max_hops=min(longest, max_hops or longest))
    ties = point.ties if isinstance(point, FlowPoint) else "diverse"
    return PathPolicy(point.k, PRIORITIES_OF[name], ties, max_hops=max_hops or MAX_HOPS)
