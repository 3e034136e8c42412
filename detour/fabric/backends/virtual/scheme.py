# SPDX-License-Identifier: Apache-2.0
"""Parts of a fabric in virtual time: links, buffers, and the schemes of section IV of the non-shortest-path paper. All
of it is data; `virtual.VirtualFabric` builds it.

Where the paper is silent the choice is that of docs/facts.md, "Non-shortest paths: what the paper leaves open"
(congestion control: "DCTCP" and "DCQCN" there), by name, and here only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from detour.base import plugins
from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.planner import SHORTEST_PATHS
from detour.control.policy import MAX_LOSSLESS, Amount, Ecn, Policy, RedMarking, StepMarking
from detour.control.routings import routing
from detour.engine.buffers import Buffers, headroom
from detour.hosts import cc
from detour.hosts.config import LITERAL_LOSS, HostConfig
from detour.hosts.parameters import host_config, is_parameter, parameter_names
from detour.hosts.transport import transport
from detour.topo.topology import Link, Topology

Control: TypeAlias = str
"""what `hosts.cc.algorithm` knows: `dctcp`, `dcqcn`, `fixed`, or one of one's own"""
PathControl: TypeAlias = str
"""what `hosts.paths.path_scheme` knows, also one of one's own (docs/extending.md)"""


@dataclass(frozen=True)
class LinkSettings:
    """The rate of which links' speeds are multiples, and delays by the kind of link, where the topology says nothing.
    `overhead_bytes`: what a frame takes on a link beside its own bytes; Ethernet's preamble and gap are 20 (IEEE
    802.3), and 0 is a link that knows neither."""

    rate_bps: int = 100_000_000_000
    host_delay_ps: int = US
    local_delay_ps: int = US
    global_delay_ps: int = US
    overhead_bytes: int = 0

    def of(self, topology: Topology) -> LinkSettings:
        """The same for a topology, which may say by itself what its rate is."""
        return replace(self, rate_bps=topology.rate_bps or self.rate_bps)

    def rate_of(self, link: Link) -> int:
        """Bits a second."""
        return round(self.rate_bps * link.speed)

    def delay_of(self, link: Link) -> int:
        """In ps."""
        return self.delay_ps(link.kind) if link.delay_ps is None else link.delay_ps

    def delay_ps(self, kind: str) -> int:
        """Return the delay of a link of kind `host`, `local` or `global` that has none of its own."""
        return {"host": self.host_delay_ps, "local": self.local_delay_ps, "global": self.global_delay_ps}[kind]

    @property
    def longest_ps(self) -> int:
        """The longest of the delays, by which headroom is reckoned."""
        return max(self.host_delay_ps, self.local_delay_ps, self.global_delay_ps)

    def covering(self, links: Sequence[Link]) -> LinkSettings:
        """The rate of the fastest link and delays of the slowest ones, by which headroom is reckoned for all."""
        rate = round(self.rate_bps * max((link.speed for link in links), default=1.0))
        slowest = max((link.delay_ps or 0 for link in links), default=0)
        return replace(self, rate_bps=rate, local_delay_ps=max(self.local_delay_ps, slowest))


@dataclass(frozen=True)
class SwitchMemory:
    """Packet memory of switches: `port_bytes` for every port, shared by the whole switch. `headroom_bytes`: what stays
    free for a port's packets after XOFF, `None`: `buffers.headroom`. `alpha`: a lossy queue takes at most that many
    times what is free (Choudhury and Hahne)."""

    port_bytes: int = 375_000
    headroom_bytes: int | None = None
    reserve_bytes: int = 4096
    alpha: float = 1.0

    def of_switch(self, ports: int, lossless: int, links: LinkSettings, packet_bytes: int = PACKET_BYTES) -> Buffers:
        """The memory of a switch with that many cabled ports, for frames of at most `packet_bytes`. Raises DetourError
        for PFC without headroom, or headroom beyond what there is."""
        room = headroom(links.rate_bps, links.longest_ps, packet_bytes, links.overhead_bytes)
        return Buffers(
            self.port_bytes * ports,
            lossless=lossless,
            headroom_bytes=room if self.headroom_bytes is None else self.headroom_bytes,
            reserve_bytes=self.reserve_bytes,
            alpha=self.alpha,
        )


@dataclass(frozen=True)
class Scheme:
    """Path choice, handling or prevention of loss, and congestion control.

    `paths`: how the sender picks source ports: `probing` (it probes), `shortest` (one that means a shortest path),
    `detour` (one that means a random non-shortest one), `pinned` (any; uSID lists say the path), another one for every
    packet (`spray`, `oblivious`, `valiant`: of the detours alone, `pathset`), or a plug-in (`hosts.paths`).
    `routing`: what switches make of that (`control.routings`), as `adaptive:threshold=10`. `transport`:
    `hosts.transport`. `channels`: virtual channels, one more with every global hop, or in FC+ the lossless
    priorities; `guarded`: a single one as well has a class behind it for packets that would close a cycle
    (`routes.queueing`). `reorder`: the receiver puts packets in order before it looks at them. `hosts`: changes to
    `HostConfig`, as pairs of name and value. `planner`: who makes the switches' entries (`control.planner`).
    `trims`: full queues cut packets to their headers (trim.p4).
    """

    name: str
    transport: str
    control: Control
    paths: PathControl
    ecn: Ecn
    routing: str = "valiant"
    pfc: bool = False
    channels: int = 1
    guarded: bool = False
    reorder: bool = False
    hosts: tuple[tuple[str, Any], ...] = ()
    planner: str = SHORTEST_PATHS
    trims: bool = False

    def __post_init__(self) -> None:
        for name in (name for name, _ in self.hosts if not is_parameter(name)):
            near = plugins.near(name, parameter_names())
            raise DetourError(f"scheme {self.name}: there is no parameter of hosts {name!r}; {near}")
        if not isinstance(self.ecn, Ecn):
            raise DetourError(f"scheme {self.name}: ecn is {self.ecn!r:.60}, and no marking of `control.policy`")
        host_config(**dict(self.hosts))
        if not 1 <= self.channels <= MAX_LOSSLESS:
            raise DetourError(f"scheme {self.name}: {self.channels} virtual channels; expected 1 to {MAX_LOSSLESS}")
        selective = transport(self.transport).selective
        if routing(self.routing).per_packet and not (selective or self.reorder):
            raise DetourError(
                f"scheme {self.name}: switches that choose a path for every packet bring packets out of order, so "
                f"{self.transport} needs a reordering receiver (section II-B)"
            )

    @property
    def mtu(self) -> int:
        """Bytes of payload of a full data packet."""
        return dict(self.hosts).get("payload", PAYLOAD)

    @property
    def packet_bytes(self) -> int:
        """Bytes of a full data packet, as `PACKET_BYTES`."""
        return PACKET_BYTES - PAYLOAD + self.mtu

    @property
    def lossless(self) -> int:
        """Bit mask of the priorities under PFC: those of the channels."""
        return (1 << self.channels) - 1 if self.pfc else 0

    @property
    def policy(self) -> Policy:
        """The planner's policy under this scheme."""
        return Policy(
            ecn=self.ecn,
            packet_bytes=self.packet_bytes,
            valiant=self.paths != "pinned",
            routing=routing(self.routing),
            channels=self.channels if self.channels > 1 or self.guarded else 0,
            trims=self.trims,
        )

    @property
    def threshold(self) -> int:
        """T of the routing in packets, 0 where switches compare no loads."""
        return routing(self.routing).values.get("threshold", 0)

    def with_threshold(self, packets: int) -> Scheme:
        """The same with another T, if switches compare loads."""
        if routing(self.routing).values.get("threshold", packets) == packets:
            return self
        return replace(self, routing=f"{plugins.split(self.routing)[0]}:threshold={packets}")

    def with_mtu(self, payload: int) -> Scheme:
        """The same with data packets of that many bytes of payload."""
        return replace(self, hosts=(*self.hosts, ("payload", payload), ("mtu", payload)))

    def with_control(self, text: str) -> Scheme:
        """The same with another congestion control (`hosts.cc.algorithm`). Raises DetourError if there is none of that
        name."""
        return replace(self, control=cc.pinned(text))

    def with_routing(self, text: str) -> Scheme:
        """The same where switches choose paths in another way (`control.routings`). Raises DetourError if there is none
        of that name."""
        routing(text)
        return replace(self, name=f"{self.name}, {text}", routing=plugins.absolute(text))


STEP_MARKING = StepMarking(Amount(80_000, "bytes"))
"""DCTCP's K where nothing else is said. A reroute needs 75 KB of queue difference, so a smaller K could never trigger
one (docs/facts.md, "Non-shortest paths: what the paper leaves open")."""
RED_MARKING = RedMarking(Amount(400_000, "bytes"), Amount(1_600_000, "bytes"), 0.2)
"""DCQCN's thresholds at 100 Gb/s (docs/facts.md, "DCQCN")"""
LOW_RED_MARKING = RedMarking(Amount(40_000, "bytes"), Amount(200_000, "bytes"), 0.2)
"""DCQCN's thresholds below PFC's XOFF on a small switch (244 kB of an ingress on D1): marks come before pauses"""

PATIENT = (("min_rto_ps", 10_000 * US), ("initial_rto_ps", 10_000 * US))
"""under PFC a pause is not a loss: with the timeouts of lossy networks go-back-N would send again what only waits"""

STEADY_STEP = StepMarking(Amount(175_000, "bytes"))
"""K of the telemetry schemes: twice the 75 MTUs of a reroute, so that one of two senders that share a path leaves it
for an empty one although it takes half of the queue for its own"""
STEADY: tuple[tuple[str, Any], ...] = (
    ("own_share", True), ("standing_delay", True), ("confirmations", 3), ("reroute_cwnd", 64),
    ("delta2_empty", 40), ("empty_gain", 0.25), ("crowded_probes", 2),
)  # fmt: skip
"""what keeps senders from moves that gain nothing, and finds them those that gain (`hosts.paths.delays`). Without it,
by the letter of section III, a sender flees from its own queue (`TelemetryLERP-literal`). docs/experiments.md says what
each part is"""

TELEMETRY_LERP = Scheme("TelemetryLERP", "lerp", "dctcp", "probing", STEADY_STEP, hosts=STEADY)
TELEMETRY_GBN = Scheme("TelemetryGBN", "gbn", "dcqcn", "probing", LOW_RED_MARKING, hosts=STEADY)
"""Section IV: "an ECN-based congestion control protocol, which is similar to DCQCN"."""
BENCHMARK = Scheme(
    "Benchmark", "gbn", "dcqcn", "shortest", LOW_RED_MARKING, routing="adaptive:threshold=10", pfc=True, channels=3,
    reorder=True, hosts=PATIENT,
)  # fmt: skip
SHORTEST_PATH = replace(BENCHMARK, name="ShortestPath", routing="minimal")
TELEMETRY_LERP_LITERAL = Scheme("TelemetryLERP-literal", "lerp", "dctcp", "probing", STEP_MARKING)
"""section III with nothing added"""
TELEMETRY_GBN_DCTCP = replace(TELEMETRY_GBN, name="TelemetryGBN-DCTCP", control="dctcp", ecn=STEADY_STEP)
"""Section III: "each connection uses an ECN-based congestion control, which is very similar to DCTCP", whichever
transport it has. With DCTCP it is, as in the figures, almost aligned with TelemetryLERP."""
BENCHMARK_DCTCP = replace(BENCHMARK, name="Benchmark-DCTCP", control="dctcp", ecn=STEP_MARKING)
"""what DCQCN costs Benchmark"""
LERP_WITHOUT_PFC = Scheme("LERP", "lerp", "dctcp", "shortest", STEP_MARKING)
ROCE_WITH_PFC = Scheme("RoCEv2+PFC", "gbn", "dcqcn", "shortest", RED_MARKING, pfc=True, hosts=PATIENT)
"""Table I's pair"""

EVIDENCE: tuple[tuple[str, Any], ...] = (
    ("every_loss_cuts", False), ("adapts_to_reordering", True), ("leaves_silent_paths", True),
)  # fmt: skip
"""losses as the hosts' defaults have them, and not as the papers (`LITERAL_LOSS`)"""
SPRAY_STEP = StepMarking(Amount(120_000, "bytes"))
"""K of all that spray: chosen on D1 (UNF 288 and 1,152, ADV1 64, permutation, ADVc 512; 80 to 200 kB differ by 2 %)"""
SPRAY_LERP = Scheme("SprayLERP", "lerp", "dctcp", "spray", SPRAY_STEP, hosts=(*EVIDENCE, ("empty_gain", 0.25)))
SHORTEST_LERP = replace(SPRAY_LERP, name="LERP-shortest", paths="shortest")
"""what the choice of paths is worth: everything as in SprayLERP, and no choice"""
OBLIVIOUS = replace(SPRAY_LERP, name="Oblivious", paths="oblivious")
"""every packet on a random candidate, shortest or not"""
VALIANT = replace(SPRAY_LERP, name="Valiant", paths="valiant")
"""every packet on a random detour (Valiant, 1982)"""
PATH_SET = replace(SPRAY_LERP, name="PathSet", paths="pathset")
"""every packet on the next path of a set, with MRC's path health (`hosts.paths.pathset`)"""
PATH_SET_ENCAPS = replace(PATH_SET, name="PathSet-encaps", hosts=(*PATH_SET.hosts, ("encapsulates", True)))
PATH_SET_TRIM = replace(PATH_SET, name="PathSet-trim", trims=True)
NSCC_MARKING = RedMarking(Amount(30_000, "bytes"), Amount(120_000, "bytes"), 1.0)
"""for NSCC: from a fifth to four fifths of 150 kB, the bandwidth-delay product of its reference network of 100 Gb/s and
12 us, as its authors' simulator marks"""
OBLIVIOUS_NSCC = replace(OBLIVIOUS, name="Oblivious-NSCC", control="nscc", ecn=NSCC_MARKING)
"""what uet-htsim has as well, to compare the two simulators"""
UGAL_L = replace(BENCHMARK_DCTCP, name="UGAL-L", routing="ugal-local")
"""Benchmark with DCTCP, but the first switch compares the queues of its own two ports (`ugal.p4`; ISCA 2008)"""
UGAL_G = replace(UGAL_L, name="UGAL-G", routing="ugal-global")
"""ideal knowledge: it compares the queues of the group's two global links wherever they are"""
TELEMETRY_LERP_EVIDENCE = replace(TELEMETRY_LERP, name="TelemetryLERP-evidence", hosts=(*STEADY, *EVIDENCE))
"""with the loss recovery that hosts have by default, instead of the paper's"""
SCHEMES = {s.name: s for s in (TELEMETRY_LERP, TELEMETRY_GBN, BENCHMARK, SHORTEST_PATH)}
"""the four schemes that section IV compares"""
OTHERS = (
    TELEMETRY_GBN_DCTCP, TELEMETRY_LERP_LITERAL, BENCHMARK_DCTCP, SPRAY_LERP, TELEMETRY_LERP_EVIDENCE, SHORTEST_LERP,
    OBLIVIOUS, VALIANT, UGAL_L, UGAL_G, OBLIVIOUS_NSCC, PATH_SET, PATH_SET_ENCAPS, PATH_SET_TRIM,
)  # fmt: skip
"""for comparison, by name only"""


def _adopt(name: str, value: Any) -> Scheme:
    """Another's scheme, or a function that makes one, called by what it was asked for and the state of its file."""
    adopted = value if isinstance(value, Scheme) or not callable(value) else plugins.call(name, value)
    if not isinstance(adopted, Scheme):
        raise DetourError(f"it is a {type(adopted).__name__}, and not a Scheme or a function that returns one")
    return replace(adopted, name=plugins.pinned(name))


SCHEME_REGISTRY: plugins.Registry[Scheme] = plugins.Registry(
    "schemes",
    "scheme",
    {s.name: s for s in (*SCHEMES.values(), *OTHERS)},
    _adopt,
    any_case=True,
    former={"telemetrygbn-dcqcn": TELEMETRY_GBN.name},
)


def scheme(name: str) -> Scheme:
    """One of the four schemes, or one of `OTHERS`, by its name, in any case; of an installed package, or
    `FILE.py:NAME`. Raises DetourError if there is no such scheme."""
    if not SCHEME_REGISTRY.knows(name):
        raise DetourError(f"there is no scheme {name!r}; {plugins.near(name, ('all', *SCHEME_REGISTRY.names()))}")
    return SCHEME_REGISTRY.find(name)


_FRAMES_OF_A_HOST = 256
"""under way at once at most, where a permutation begins at line rate on 16,512 hosts"""


@dataclass(frozen=True)
class RunSettings:
    """Everything else about a run. `window`, `frames`: packets that a connection and the fabric may have under way.
    `loss`: probability with which a link between switches loses a frame. `payload`: packets carry their bytes, so that
    what arrives can be compared with what was sent; without, the time that everything takes is the same. `jitter_ps`:
    of hosts (`Network.set_jitter`). None: senders are exactly periodic, simultaneous events have a fixed order, as in
    experiments whose results were stored before there was jitter (docs/experiments.md, "Jitter")."""

    links: LinkSettings = field(default_factory=LinkSettings)
    memory: SwitchMemory = field(default_factory=SwitchMemory)
    window: int = 1024
    frames: int = 1 << 20
    loss: float = 0.0
    seed: int = 1
    payload: bool = False
    jitter_ps: int | None = None

    def pool(self, hosts: int) -> int:
        """`frames`; if it is not given, as many as very many hosts may need."""
        return max(self.frames, _FRAMES_OF_A_HOST * hosts) if self.frames == RunSettings.frames else self.frames

    def host_config(self, chosen: Scheme) -> HostConfig:
        """The hosts' parameters under a scheme."""
        values: dict[str, Any] = {
            "payload": PAYLOAD,
            "mtu": PAYLOAD,
            "link_rate_bps": self.links.rate_bps,
            "elide_payload": not self.payload,
            "line_rate_start": True,
            **LITERAL_LOSS,
        }
        return host_config(**(values | dict(chosen.hosts)))
