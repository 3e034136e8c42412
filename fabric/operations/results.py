# SPDX-License-Identifier: Apache-2.0
"""What operations answer: records whose fields are the keys of their JSON. A field that is UNSET is no key there.

Loads nothing of the fabric: the command line reads these records from a socket. `seconds`: how long it took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from detour.fabric.records import BackendDetails, FabricMetric, FlowRow, PlacementTotals, PortCounts

# -- tables ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EntryChanges:
    """`entries`: on all switches now; `inserted`, `modified`, `deleted`, `unchanged`: to get there."""

    entries: int
    inserted: int
    modified: int
    deleted: int
    unchanged: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Provisioned(EntryChanges):
    """Of `switches` switches."""

    switches: int


@dataclass(frozen=True)
class PathLengths:
    """Switches on the longest of the shortest paths, and of the others."""

    shortest: int
    detour: int


@dataclass(frozen=True)
class Verification:
    """What was proven (`control.verifier.verifier.VerifierReport`). `failed`: cases that are wrong, the first of them
    spelled out in `problems`; `longest`: what packets pass at most, `bound`: what they may."""

    verified: bool
    pairs: int
    disconnected: int
    proofs: int
    ways: int
    sids: int
    failed: int
    problems: list[str]
    longest: PathLengths
    bound: PathLengths
    seconds: float


@dataclass(frozen=True)
class EntryRow:
    """An entry of a table, or of what else a switch holds, in words. `priority` 0: it has none."""

    table: str
    match: str
    action: str
    priority: int


# -- freedom from deadlock ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProvenClasses:
    """Packets on listed routes, hop by hop, in the classes that switches put them into: buffers that PFC may block
    (`channels`), which of them wait for which (`dependencies`), and whether none waits for itself."""

    acyclic: bool
    channels: int
    dependencies: int


@dataclass(frozen=True)
class ProvenSenders(ProvenClasses):
    """With packets besides on the `lists` that senders use at the moment."""

    lists: int


@dataclass(frozen=True)
class ProvenPlain(ProvenClasses):
    """With packets besides that switches lead along shortest paths; `lossy`: the share of these that leaves the
    lossless classes."""

    lossy: float


@dataclass(frozen=True)
class ProvenAnywhere(ProvenClasses):
    """With packets that go from any port to any other. `links` that are down; `unrouted`: pairs of switches that no
    lossless path joins then."""

    links: list[str]
    unrouted: int


@dataclass(frozen=True, kw_only=True)
class ProvenFabric:
    """What switches that run hold, read back; `lossless`: classes under PFC; `cycle`: buffers that wait for one
    another, if there are such."""

    deadlock_free: bool
    topology: str
    switches: int
    entries: int
    lossless: list[int]
    installed: ProvenClasses
    senders: ProvenSenders
    plain_traffic: ProvenPlain
    failed: ProvenAnywhere
    seconds: float
    cycle: list[str] | UnsetType = UNSET


# -- what is going on -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwitchEndpoint:
    """Where a switch is reached by P4Runtime."""

    address: str
    device_id: int


@dataclass(frozen=True)
class DisplacedSwitch:
    """A switch that another controller took over. Election ids are text: they have 128 bits."""

    election_id: str
    seconds_ago: float
    primary_again: bool


@dataclass(frozen=True, kw_only=True)
class Status(BackendDetails):
    """`lost`: switches that are not reached, and why; `endpoints`, `displaced`: by switch; `icmp_answered`: packets
    whose hop limit ended; `capture`: what is being written; `log`: where a detached fabric writes (None: it does not;
    UNSET: it is no daemon)."""

    target: str
    topology: str
    switches: int
    hosts: int
    links: int
    entries: int
    lost: dict[str, str]
    failures: list[str]
    rate_mbps: float
    seconds_up: float
    endpoints: dict[str, SwitchEndpoint]
    displaced: dict[str, DisplacedSwitch]
    icmp_answered: int
    capture: Captured | UnsetType = UNSET
    log: str | UnsetType | None = UNSET


@dataclass(frozen=True)
class SwitchCounters:
    """`ports`: by number; `verdicts`: packets by what the pipeline made of them, without those of none."""

    ports: dict[str, PortCounts]
    verdicts: dict[str, int]


class LinkUse(msgspec.Struct, frozen=True):
    """A link in one direction, `from_` a port like `s0:3`, over a time. `use`: of its rate, at most 1; None: unknown
    there."""

    # A Struct, for a field of a dataclass cannot have the name of this key.
    link: str
    from_: str = msgspec.field(name="from")
    kind: str
    up: bool
    mbps: float
    use: float
    queue_packets: int | None
    drops: int | None
    marks: int


@dataclass(frozen=True)
class LinkUses:
    """All links over `seconds`; `pipeline_drops`: packets that pipelines dropped."""

    seconds: float
    links: list[LinkUse]
    pipeline_drops: int


@dataclass(frozen=True)
class FlowRows:
    """Flows that send. `window_s`: of receivers; `watching`: switches watch flows, in windows of `switch_window_s`."""

    window_s: float
    watching: bool
    switch_window_s: float
    flows: list[FlowRow]


@dataclass(frozen=True)
class FabricMetrics:
    """For Prometheus."""

    metrics: list[FabricMetric]


# -- paths and failures ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathHop:
    """A switch on the way. `out_port` None: there the packet ends; `why`: the entry that decided."""

    switch: str
    in_port: int
    out_port: int | None
    why: str


@dataclass(frozen=True)
class TracedPath:
    """What becomes of a packet."""

    path: str
    delivered: bool
    outcome: str
    hops: list[PathHop]


@dataclass(frozen=True)
class RepairedPlacement(PlacementTotals):
    """`moved`: flows that have another path now."""

    moved: int


@dataclass(frozen=True)
class PlacementState(PlacementTotals):
    """`rerouting`: the controller moves flows when they are congested."""

    rerouting: bool


@dataclass(frozen=True)
class PlacedFlows(PlacementState):
    """On a topology."""

    topology: str
    seconds: float


@dataclass(frozen=True)
class JobsRan:
    """A job file on this fabric. Of the job with the longest step: its time, that of an empty fabric, and bus bandwidth
    (None: it did not complete). `busiest_link_bytes`: payload on the busiest link between switches, by the paths that
    packets took; `lost_bytes`, `retransmitted`: payload. `recover_us`: nobody watches that here."""

    scheme: str
    step_us: float | None
    ideal_us: float
    busbw_gbps: float | None
    busiest_link_bytes: int
    lost_bytes: int
    retransmitted: int
    recover_us: None


@dataclass(frozen=True)
class ReroutedSenders:
    """Flows of an expander that name their switches: `moved` to a list without what is down, `returned` to their own,
    or sent `by_address` because no list without it stays in the lossless classes."""

    moved: int
    returned: int
    by_address: int


@dataclass(frozen=True, kw_only=True)
class FailureChange(EntryChanges):
    """`failures`: what is down now; `placement`: as it is repaired, if there is one; `senders`: in expanders."""

    failures: list[str]
    senders: ReroutedSenders | UnsetType = UNSET
    placement: RepairedPlacement | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class Failed(FailureChange):
    """`failed`: what went down."""

    failed: str


@dataclass(frozen=True, kw_only=True)
class Healed(FailureChange):
    """`healed`: what came back, as one text; empty: there was nothing."""

    healed: str


@dataclass(frozen=True)
class ImpairedLink:
    """A link that is up but not what it was: `rate`, the fraction of its rate that it carries; `loss`, the fraction of
    frames that it loses; in both directions."""

    link: str
    rate: float
    loss: float


@dataclass(frozen=True)
class ImpairedLinks:
    """All that are so now."""

    links: list[ImpairedLink]


# -- traffic --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueuingDelay:
    """Of a connection's packets, ns; None: nothing was measured."""

    min: float | None = None
    mean: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class UsedPath:
    """A path, what went over it, and the switches there."""

    path: str
    packets: int
    switches: list[str]


@dataclass(frozen=True)
class SentMessage:
    """`bytes_ok`: that arrived as they were sent."""

    bytes_ok: int
    throughput_mbps: float
    paths: list[UsedPath]
    retransmitted: int
    ecn_marked: int
    queuing_delay_ns: QueuingDelay


@dataclass(frozen=True)
class ProbedPath:
    """A candidate; `delay_ns` None: no answer came."""

    path: str
    delay_ns: int | None
    switches: list[str]


@dataclass(frozen=True)
class ProbedPaths:
    """Between two hosts."""

    source: str
    target: str
    paths: list[ProbedPath]


@dataclass(frozen=True)
class ReroutedFlow:
    """The path that a flow takes now."""

    flow: str
    path: str
    switches: list[str]


# -- traffic that goes on, and captures ------------------------------------------------------------------


@dataclass(frozen=True)
class Loaded:
    """A load since it began: `bytes_ok` have arrived as they were sent, `bytes_wrong` otherwise; `reopened`:
    connections that failed and were made anew."""

    pattern: str
    pairs: int
    bytes_ok: int
    bytes_wrong: int
    reopened: int
    seconds: float


@dataclass(frozen=True)
class Captured:
    """What is being written, or has just ended: `files` in `folder`; None: nothing is. `error`: what has ended the
    writing."""

    folder: str | None
    files: list[str]
    error: str | None = None


@dataclass(frozen=True)
class P4rtClientRow:
    """A P4Runtime stream to a switch. `role`: "" is the default one; `election_id`: 128 bits, in digits (None: it does
    not bid for primary); `peer`: where it comes from, as gRPC says it."""

    role: str
    election_id: str | None
    primary: bool
    peer: str


@dataclass(frozen=True)
class P4rtClientRows:
    """Each role's primary first. `known`: whether the switch says so; BMv2 does not."""

    known: bool
    clients: list[P4rtClientRow]


# -- traces ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PacketTrace:
    """What became of a packet, hop by hop (`fabric.tracing.results.TracedPacket`, docs/trace.md). `note`: what must
    be known of that."""

    hops: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    note: str | UnsetType = UNSET


@dataclass(frozen=True)
class LivePackets:
    """Packets as they passed. `missed`: how many more were wanted for which there was no room."""

    packets: list[PacketTrace]
    missed: int
