# SPDX-License-Identifier: Apache-2.0
"""Results of operations: records whose fields are the keys of their JSON. A field that is UNSET is not a key there.

Loads nothing of the fabric: the command line reads these records from a socket. `seconds`: how long it took.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from detour.fabric.records import BackendDetails, FabricMetric, FlowRow, PlacementTotals, PortCounts
from detour.topo.measures import DisjointPaths

# -- tables ---------------------------------------------------------------------------------------------


class EntryChanges(Struct, frozen=True, kw_only=True):
    """`entries`: on all switches now; `inserted`, `modified`, `deleted`, `unchanged`: to get there."""

    entries: int
    inserted: int
    modified: int
    deleted: int
    unchanged: int
    seconds: float


class Provisioned(EntryChanges, frozen=True, kw_only=True):
    """Changed entries of `switches` switches."""

    switches: int


class PathLengths(Struct, frozen=True):
    """Switches on the longest of the shortest paths, and of the others."""

    shortest: int
    detour: int


class Verification(Struct, frozen=True):
    """The result of a proof (`control.verifier.verifier.VerifierReport`). `failed`: cases that are wrong, the first of
    them spelled out in `problems`; `longest`: the most hops that packets take, `bound`: the most that they may take;
    `disjoint_paths`: of packets that switches spray."""

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
    disjoint_paths: DisjointPaths | UnsetType = UNSET


class EntryRow(Struct, frozen=True):
    """An entry of a table, or of what else a switch holds, in words. `priority` 0: it has none."""

    table: str
    match: str
    action: str
    priority: int


# -- freedom from deadlock ------------------------------------------------------------------------------


class ProvenClasses(Struct, frozen=True):
    """Packets on listed routes, hop by hop, in the classes that switches put them into: buffers that PFC may block
    (`channels`), which of them wait for which (`dependencies`), and whether none waits for itself."""

    acyclic: bool
    channels: int
    dependencies: int


class ProvenSenders(ProvenClasses, frozen=True):
    """With packets besides on the `lists` that senders use at the moment."""

    lists: int


class ProvenPlain(ProvenClasses, frozen=True):
    """With packets besides that switches lead along shortest paths; `lossy`: the share of these that leaves the
    lossless classes."""

    lossy: float


class ProvenAnywhere(ProvenClasses, frozen=True):
    """With packets that go from any port to any other. `links` that are down; `unrouted`: pairs of switches that no
    lossless path joins then."""

    links: list[str]
    unrouted: int


class ProvenFabric(Struct, frozen=True, kw_only=True):
    """A proof about running switches, from entries that were read back; `lossless`: classes under PFC; `cycle`: buffers
    that wait for one another, if there are such."""

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


class SwitchEndpoint(Struct, frozen=True):
    """Address at which a switch is reached by P4Runtime."""

    address: str
    device_id: int


class DisplacedSwitch(Struct, frozen=True):
    """A switch that another controller took over. Election ids are text: they have 128 bits."""

    election_id: str
    seconds_ago: float
    primary_again: bool


class Status(BackendDetails, frozen=True, kw_only=True):
    """`names`: what a topology's file calls switches and hosts, by `s0`, `h0` (UNSET: nothing else); `lost`: switches
    that are not reached, and why; `endpoints`, `displaced`: by switch; `icmp_answered`: packets whose hop limit ended;
    `capture`: what is being written; `log`: where a detached fabric writes (None: it does not; UNSET: it is no
    daemon)."""

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
    names: dict[str, str] | UnsetType = UNSET
    capture: Captured | UnsetType = UNSET
    log: str | UnsetType | None = UNSET


class SwitchCounters(Struct, frozen=True):
    """`ports`: by number; `verdicts`: packets by what the pipeline made of them, without those of none."""

    ports: dict[str, PortCounts]
    verdicts: dict[str, int]


class LinkUse(Struct, frozen=True):
    """A link in one direction, `from_` a port like `s0:3`, over a time. `use`: of its rate, at most 1; None: unknown
    there."""

    link: str
    from_: str = field(name="from")
    kind: str
    up: bool
    mbps: float
    use: float
    queue_packets: int | None
    drops: int | None
    marks: int


class LinkUses(Struct, frozen=True):
    """All links over `seconds`; `pipeline_drops`: packets that pipelines dropped."""

    seconds: float
    links: list[LinkUse]
    pipeline_drops: int


class FlowRows(Struct, frozen=True):
    """Flows that send. `window_s`: of receivers; `watching`: switches watch flows, in windows of `switch_window_s`."""

    window_s: float
    watching: bool
    switch_window_s: float
    flows: list[FlowRow]


class FabricMetrics(Struct, frozen=True):
    """For Prometheus."""

    metrics: list[FabricMetric]


# -- paths and failures ---------------------------------------------------------------------------------


class PathHop(Struct, frozen=True):
    """A switch on the way. `out_port` None: there the packet ends; `why`: the entry that decided."""

    switch: str
    in_port: int
    out_port: int | None
    why: str


class TracedPath(Struct, frozen=True):
    """The fate of a packet."""

    path: str
    delivered: bool
    outcome: str
    hops: list[PathHop]


class RepairedPlacement(PlacementTotals, frozen=True):
    """`moved`: flows that have another path now."""

    moved: int


class PlacementState(PlacementTotals, frozen=True):
    """`rerouting`: the controller moves flows when they are congested."""

    rerouting: bool


class PlacedFlows(PlacementState, frozen=True):
    """On a topology."""

    topology: str
    seconds: float


class JobsRan(Struct, frozen=True):
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


class ReroutedSenders(Struct, frozen=True):
    """Flows of an expander that name their switches: `moved` to a list without what is down, `returned` to their own,
    or sent `by_address` because no list without it stays in the lossless classes."""

    moved: int
    returned: int
    by_address: int


class FailureChange(EntryChanges, frozen=True, kw_only=True):
    """`failures`: what is down now; `placement`: as it is repaired, if there is one; `senders`: in expanders."""

    failures: list[str]
    senders: ReroutedSenders | UnsetType = UNSET
    placement: RepairedPlacement | UnsetType = UNSET


class Failed(FailureChange, frozen=True, kw_only=True):
    """`failed`: what went down."""

    failed: str


class Healed(FailureChange, frozen=True, kw_only=True):
    """`healed`: what came back, as one text; empty: there was nothing."""

    healed: str


class ImpairedLink(Struct, frozen=True):
    """A link that is up but not what it was: `rate`, the fraction of its rate that it carries; `loss`, the fraction of
    frames that it loses; in both directions."""

    link: str
    rate: float
    loss: float


class ImpairedLinks(Struct, frozen=True):
    """All that are so now."""

    links: list[ImpairedLink]


# -- traffic --------------------------------------------------------------------------------------------


class QueuingDelay(Struct, frozen=True):
    """Queuing delays of a connection's packets, ns; None: nothing was measured."""

    min: float | None = None
    mean: float | None = None
    max: float | None = None


class UsedPath(Struct, frozen=True):
    """A path, what went over it, and the switches there."""

    path: str
    packets: int
    switches: list[str]


class SentMessage(Struct, frozen=True):
    """`bytes_ok`: that arrived as they were sent."""

    bytes_ok: int
    throughput_mbps: float
    paths: list[UsedPath]
    retransmitted: int
    ecn_marked: int
    queuing_delay_ns: QueuingDelay


class ProbedPath(Struct, frozen=True):
    """A candidate; `delay_ns` None: no answer came."""

    path: str
    delay_ns: int | None
    switches: list[str]


class ProbedPaths(Struct, frozen=True):
    """Between two hosts."""

    source: str
    target: str
    paths: list[ProbedPath]


class ReroutedFlow(Struct, frozen=True):
    """The path that a flow takes now."""

    flow: str
    path: str
    switches: list[str]


# -- traffic that goes on, and captures ------------------------------------------------------------------


class Loaded(Struct, frozen=True):
    """A load since it began: `bytes_ok` have arrived as they were sent, `bytes_wrong` otherwise; `reopened`:
    connections that failed and were made anew."""

    pattern: str
    pairs: int
    bytes_ok: int
    bytes_wrong: int
    reopened: int
    seconds: float


class Captured(Struct, frozen=True):
    """The current capture, or the one that just ended: `files` in `folder`; None: there is none. `error`: the error
    that ended the writing."""

    folder: str | None
    files: list[str]
    error: str | None = None


class P4rtClientRow(Struct, frozen=True):
    """A P4Runtime stream to a switch. `role`: "" is the default one; `election_id`: 128 bits, in digits (None: it does
    not bid for primary); `peer`: where it comes from, as gRPC says it."""

    role: str
    election_id: str | None
    primary: bool
    peer: str


class P4rtClientRows(Struct, frozen=True):
    """Each role's primary first. `known`: whether the switch says so; BMv2 does not."""

    known: bool
    clients: list[P4rtClientRow]


# -- traces ---------------------------------------------------------------------------------------------


class PacketTrace(Struct, frozen=True):
    """A packet's trace, hop by hop (`fabric.tracing.results.TracedPacket`, docs/trace.md). `note`: a remark that the
    reader must know."""

    hops: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    note: str | UnsetType = UNSET


class LivePackets(Struct, frozen=True):
    """Packets as they passed. `missed`: how many more were wanted for which there was no room."""

    packets: list[PacketTrace]
    missed: int
