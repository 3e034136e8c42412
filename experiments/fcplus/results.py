# SPDX-License-Identifier: Apache-2.0
"""Points of the FC+ paper's evaluation, their results and what is made of these, as they are kept and printed.

A point is a network of `n` switches with `s` links each to others, wired by `seed`, and a question; a result repeats
both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from msgspec import UNSET, UnsetType

from detour.base.records import extended

# -- points -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FcplusPoint:
    """What all points have; results do not name their experiment."""

    n: int
    s: int
    seed: int = 1
    experiment: str | UnsetType = "fcplus"


@dataclass(frozen=True, kw_only=True)
class FcPathsPoint(FcplusPoint):
    """How many paths FC with k = `layers` has."""

    layers: int
    kind: Literal["fc-paths"] = "fc-paths"


@dataclass(frozen=True, kw_only=True)
class FcCountsPoint(FcplusPoint):
    """How many up-down paths FC has, by length; `sources`: from so many switches (None: all)."""

    layers: int
    sources: int | None
    kind: Literal["fc-counts"] = "fc-counts"


@dataclass(frozen=True, kw_only=True)
class FcplusCountsPoint(FcplusPoint):
    """Lengths and numbers of FC+'s paths with `v` virtual switches."""

    v: int
    sources: int | None
    kind: Literal["fcplus-counts"] = "fcplus-counts"


@dataclass(frozen=True, kw_only=True)
class K2Point(FcplusPoint):
    """How many paths are examined until `k` are found."""

    k: int
    sources: int | None
    kind: Literal["k2"] = "k2"


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


@dataclass(frozen=True, kw_only=True)
class FlowPoint(NetworkPoint):
    """Throughput under a pattern; `ties`: among paths of equal length."""

    pattern: str
    ties: str = "diverse"
    v: int | UnsetType | None = None
    kind: Literal["throughput"] = "throughput"


@dataclass(frozen=True, kw_only=True)
class PacketsPoint(NetworkPoint):
    """Completion times of messages that arrive for `us`; `sizes` of messages, `split` among paths."""

    pattern: str
    us: int
    sizes: str = "equal"
    split: str = "optimal"
    kind: Literal["packets"] = "packets"


@dataclass(frozen=True, kw_only=True)
class StuckPoint(NetworkPoint):
    """Whether routes deadlock within `us` while every host sends to `each` others. `fail`: links that are down, by
    name; `guard` False: who would close a circle stays in the last lossless class."""

    dcqcn: bool
    each: int
    us: int
    fail: str | UnsetType = UNSET
    guard: bool | UnsetType = UNSET
    kind: Literal["deadlock"] = "deadlock"


@dataclass(frozen=True)
class TransportSetting:
    """How senders slow down, what switches mark, and what a routing leaves open.

    `ecn_bytes`: K of marking by a step, or Kmin and Kmax, between which the probability rises to `pmax`; `least_mbps`:
    the rate to which DCQCN cuts at most; `bias_bytes`: what UGAL adds to the queue of a detour; `shortest_first`:
    SprayLERP knows which of its lists are shortest paths (else all are alike)."""

    control: Literal["dctcp", "dcqcn"]
    ecn_bytes: tuple[int, ...]
    pmax: float = 1.0
    least_mbps: int = 0
    bias_bytes: int = 0
    shortest_first: bool = False


@dataclass(frozen=True, kw_only=True)
class TransportPoint(FcplusPoint):
    """Messages for `us` at `load` (of a server's link) by a routing and a transport, on an FC+ of `hosts` servers a
    switch; `k` paths of a pair at most. `setting`: UNSET as the transport is defined."""

    routing: str
    transport: str
    pattern: str
    us: int
    load: float
    hosts: int
    k: int = 32
    setting: TransportSetting | UnsetType = UNSET
    kind: Literal["transport"] = "transport"


# -- results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FcplusResult(FcplusPoint):
    """`seconds`: by the wall clock."""

    seconds: float = 0.0
    experiment: str | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class FcPathsResult(FcplusResult, FcPathsPoint):
    """Paths of a pair, mean."""

    up_down: float
    disjoint: float


@dataclass(frozen=True, kw_only=True)
class FcCountsResult(FcplusResult, FcCountsPoint):
    """Up-down paths of a pair, mean: all, those of at most 6 links, of at most 4."""

    n_p: float
    n_p6: float
    n_p4: float


@dataclass(frozen=True, kw_only=True)
class FcplusCountsResult(FcplusResult, FcplusCountsPoint):
    """Longest and shortest mean length of a pair's first 32 paths; up-down paths of at most 4 links."""

    longest: float
    shortest: float
    n_p4: float


@dataclass(frozen=True, kw_only=True)
class K2Result(FcplusResult, K2Point):
    """K2; `exact`: paths were counted one by one."""

    k2: float
    exact: bool


@dataclass(frozen=True, kw_only=True)
class LengthResult(FcplusResult, LengthPoint):
    """Links of a path, mean."""

    mean_length: float


@dataclass(frozen=True, kw_only=True)
class FlowResult(FcplusResult, FlowPoint):
    """`theta` is attained, at most `theta` * (1 + `gap`) is possible with these routes; `upper_bound`: with any."""

    theta: float
    upper_bound: float
    gap: float
    method: str


@dataclass(frozen=True)
class Percentiles:
    """Of messages."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, kw_only=True)
class PacketsResult(FcplusResult, PacketsPoint):
    """Completion times and slowdowns (in units of an idle network's); what is unfinished counts until the end."""

    mean_hops: float
    messages: int
    bytes: int
    fct_us: Percentiles
    slowdown: Percentiles
    slowdown_percentiles: list[float]
    unfinished: int
    deadlock: bool
    virtual_ms: float
    marked: int
    pauses: int
    drops: int
    retransmitted: int
    buffer_peak_bytes: int
    packet_hops: int


@dataclass(frozen=True, kw_only=True)
class StuckResult(FcplusResult, StuckPoint):
    """`remains`: queues that were stuck were so later on; `found_at_us`: None without deadlock. Where links are down:
    `circle`, queues that wait for each other, and the rate once routes were computed anew."""

    deadlock: bool
    stuck_queues: int
    remains: bool
    found_at_us: float | None
    goodput_gbps_before: float
    goodput_gbps_after: float
    pauses: int
    drops: int
    mean_hops: float
    circle: list[str] | UnsetType = UNSET
    goodput_gbps_anew: float | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class TransportResult(FcplusResult, TransportPoint):
    """`goodput_gbps`: what arrived while messages did, over that time; `offered_gbps`: what they asked for. Completion
    times count to the end for what is `unfinished`. `buffer_peak_bytes`: of the fullest switch. `detours`: messages
    (per packet: packets) that UGAL sent by way of a random switch. `settled_gbps`: what arrives behind the warm-up, and
    whether it was `steady` by then (`experiments.steady`)."""

    messages: int
    offered_gbps: float
    goodput_gbps: float
    fct_us: Percentiles
    slowdown: Percentiles
    mean_hops: float
    unfinished: int
    deadlock: bool
    pauses: int
    drops: int
    retransmitted: int
    buffer_peak_bytes: int
    detours: int
    settled_gbps: float
    steady: bool


FCPLUS_RESULTS: tuple[type[FcplusResult], ...] = (
    *(FcPathsResult, FcCountsResult, FcplusCountsResult, K2Result, LengthResult, FlowResult),
    *(PacketsResult, StuckResult, TransportResult),
)
"""every kind of result"""
T = TypeVar("T", bound=FcplusResult)


def found(kind: type[T], point: FcplusPoint, **values: Any) -> T:
    """The result of a kind for a point."""
    return extended(kind, replace(point, experiment=UNSET), **values)


def flows(results: Iterable[FcplusResult], **values: int | str | None) -> list[FlowResult]:
    """Throughput of the points with these values."""
    wanted = values.items()
    throughput = (result for result in results if isinstance(result, FlowResult))
    return [result for result in throughput if all(getattr(result, name) == value for name, value in wanted)]


# -- findings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UpDownRow:
    """Table I."""

    n: int
    layers: int
    disjoint: float
    paper_disjoint: float
    up_down: float
    paper_up_down: float


@dataclass(frozen=True)
class DisjointRow:
    """Tables VI and VII."""

    n: int
    layers: int
    disjoint: float
    paper_disjoint: float


@dataclass(frozen=True)
class K2Row:
    """Table II."""

    n: int
    k: int
    k2: float
    paper: float


@dataclass(frozen=True)
class FcCountsRow:
    """Table III; `paper`: in the order of ours."""

    n: int
    layers: int
    n_p: float
    n_p6: float
    n_p4: float
    paper: list[float]


@dataclass(frozen=True)
class FcplusCountsRow:
    """Table IV; `paper`: in the order of ours."""

    n: int
    v: int
    longest: float
    shortest: float
    n_p4: float
    paper: list[float]


@dataclass(frozen=True)
class VirtualRow:
    """Table V: throughput by order of ties, None where it was not run."""

    v: int
    plain: float | None
    diverse: float | None
    paper: float


@dataclass(frozen=True)
class ThroughputRow:
    """Table VIII, likewise."""

    network: str
    pattern: str
    plain: float | None
    diverse: float | None
    paper: float


@dataclass(frozen=True)
class CompletionRow:
    """Table VIII's completion times: slowdowns, and us; the paper prints no unit."""

    network: str
    pattern: str
    sizes: str
    us: int
    seed: int
    messages: int
    unfinished: int
    deadlock: bool
    mean_hops: float
    pauses: int
    p50: float
    p99: float
    p50_us: float
    p99_us: float
    paper_p50: float
    paper_p99: float


@dataclass(frozen=True)
class NetworkOrder:
    """Networks from the least median slowdown to the largest, and whether the paper's order is the same."""

    pattern: str
    ours: list[str]
    paper: list[str]
    agrees: bool


@dataclass(frozen=True)
class DeadlockRow:
    """A run with shallow buffers; `possible`: whether what is installed can deadlock; `failed`: links that are down;
    `guarded` False: who would close a circle stayed in the last class; `goodput_gbps_anew`: where links are down, once
    routes were computed anew."""

    network: str
    n: int
    s: int
    dcqcn: bool
    seed: int
    deadlock: bool
    stuck_queues: int
    remains: bool
    found_at_us: float | None
    goodput_gbps_before: float
    goodput_gbps_after: float
    pauses: int
    drops: int
    possible: bool
    failed: str = ""
    guarded: bool = True
    goodput_gbps_anew: float | None = None


@dataclass(frozen=True)
class OverDraws:
    """Mean and sample standard deviation (None of a single one) over draws."""

    mean: float
    spread: float | None


@dataclass(frozen=True)
class TransportRow:
    """A routing over a transport under a pattern, over `draws`; of `steady` of these what arrived had become steady.
    `pauses`, `drops` (packets), `retransmitted`, `unfinished`, `deadlocks` (runs): of all together; `buffer_kb`: of the
    fullest switch of any."""

    pattern: str
    transport: str
    routing: str
    setting: str
    draws: int
    offered_gbps: float
    goodput_gbps: OverDraws
    settled_gbps: OverDraws
    steady: int
    p50: OverDraws
    p99: OverDraws
    p99_us: OverDraws
    mean_hops: float
    buffer_kb: float
    pauses: int
    drops: int
    retransmitted: int
    unfinished: int
    deadlocks: int


@dataclass(frozen=True)
class TriedTransportSetting:
    """A setting and what came of it in the draw of the sweep, by pattern: Gb/s and the 99th percentile of slowdowns.
    `score`: see `experiments.fcplus.settings`; less is better."""

    setting: TransportSetting
    text: str
    gbps: dict[str, float]
    p99: dict[str, float]
    score: float


@dataclass(frozen=True)
class SweptSettings:
    """What was tried for a routing over a transport, best first."""

    transport: str
    routing: str
    tried: list[TriedTransportSetting]


@dataclass(frozen=True)
class FcplusFindings:
    """All results, and rows with ours beside the paper's, where ours was run."""

    points: list[FcplusResult]
    table_1: list[UpDownRow]
    table_2: list[K2Row]
    table_3: list[FcCountsRow]
    table_4: list[FcplusCountsRow]
    table_5: list[VirtualRow]
    table_6: list[DisjointRow]
    table_7: list[DisjointRow]
    table_8: list[ThroughputRow]
    completion: list[CompletionRow]
    order: list[NetworkOrder]
    deadlocks: list[DeadlockRow]
    transports: list[TransportResult] = field(default_factory=list)
    transport_rows: list[TransportRow] = field(default_factory=list)
    settings: list[SweptSettings] = field(default_factory=list)
