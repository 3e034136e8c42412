# SPDX-License-Identifier: Apache-2.0
"""Settings of a fabric on the wall clock: rates, queues, thresholds and the hosts' parameters, all by name.

The papers' 100 Gb/s do not fit on a laptop's clock, so rates are scaled down. On the engine everything that is
counted in packets (queue depth, ECN threshold, the 75-MTU rule) stays as it is. BMv2 carries so few packets that
a queue of a hundred would hold seconds; there the counts are scaled down as well, all by the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.times import MS
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.control.policy import VALIANT, Amount, Policy, StepMarking
from detour.control.routings import routing
from detour.fabric.linux.interface import QUEUE_PACKETS
from detour.hosts import parameters
from detour.hosts.config import HostConfig
from detour.hosts.state import Hosts, make_hosts
from detour.topo import Topology
from detour.topo.expander.booted import is_expander

ECN_PACKETS = 100
"""DCTCP's K; above 75, or no path is ever 75 MTU times better than another
(docs/facts.md, "Non-shortest paths: what the paper leaves open")"""
BETTER_BY_MTUS = 75
PROBE_EVERY = 100
"""delta 2 and delta 3 of section III of the non-shortest-path paper"""


@dataclass(frozen=True)
class FabricTerms:
    """The properties of a fabric that control plane and traffic need, whatever the backend. `rate_bps`: of every link.
    `pipeline`: the program of all switches."""

    policy: Policy
    hosts: HostConfig
    rate_bps: int
    seed: int
    pipeline: PipelineConfig = field(default_factory=PipelineConfig.fabric)

    @property
    def packet_s(self) -> float:
        """Seconds that a data packet takes on a link."""
        return 1 / packets_a_second(self.rate_bps)


def packets_a_second(rate_bps: int) -> int:
    """Data packets on a link of that rate."""
    return rate_bps // (8 * PACKET_BYTES)


@dataclass(frozen=True)
class BackendSettings:
    """Parameters of one backend.

    `rate_bps`: of every link; BMv2 turns it into packets of `PACKET_BYTES` a second. `delay_ps`: of every link.
    `queue_packets`: depth of each of a port's priority queues. `ecn_packets`: DCTCP's K. `window`: packets that a
    connection may have in flight. `message_bytes`: of one message of a workload. `demo_pairs`: connections in the
    demo, at most (0: all pairs of the pattern). `demo_seconds`: before the measurement, and of it, in each run.
    """

    rate_bps: int
    delay_ps: int
    queue_packets: int
    ecn_packets: int
    hosts: HostConfig = field(default_factory=parameters.real_time)
    window: int = 1024
    message_bytes: int = 16_000
    demo_pairs: int = 0
    demo_seconds: tuple[float, float] = (4.0, 3.0)
    arena_bytes: int = 1 << 28
    queue_pairs: int = 2048
    priorities: int = 8
    seed: int = 1
    scale: int = 1
    """divides what is counted in packets (`real_time`)"""
    loss: float = 0.0
    """fraction of frames that links between switches lose"""
    pipeline: PipelineConfig = field(default_factory=PipelineConfig.fabric)
    """what all switches run"""
    routing: str = VALIANT.name
    """who chooses paths besides the senders (`control.routings`)"""

    def __post_init__(self) -> None:
        if self.rate_bps < PACKET_BYTES * 8:
            raise DetourError(f"a link rate of {self.rate_bps} bit/s is less than one packet a second")
        if self.queue_packets <= self.ecn_packets:
            raise DetourError(f"a queue of {self.queue_packets} packets never exceeds K = {self.ecn_packets}")
        if self.delay_ps < 0:
            raise DetourError(f"a link delay of {self.delay_ps} ps is negative")
        if not 0 <= self.loss < 1:
            raise DetourError(f"a loss of {self.loss:g}; expected 0 to below 1")

    @property
    def rate_pps(self) -> int:
        """Data packets a second on a link."""
        return packets_a_second(self.rate_bps)

    def terms(self, topology: Topology) -> FabricTerms:
        """Return the properties that other parts need."""
        policy = self.policy(topology)
        pipeline = self.pipeline if self.pipeline.own else PipelineConfig.of(policy.program)
        return FabricTerms(policy, self.hosts, self.rate_bps, self.seed, pipeline)

    def host_arrays(self, topology: Topology) -> Hosts:
        """Arrays for all hosts of a topology."""
        return make_hosts(
            len(topology.hosts),
            self.queue_pairs,
            self.arena_bytes,
            config=self.hosts,
            seed=self.seed,
            window=self.window,
            n_mrs=2 * self.queue_pairs,
        )

    def policy(self, topology: Topology) -> Policy:
        """Return the planner's policy. In expanders priorities rise as DF-KSP with two of them needs it (FC+, section
        III-D)."""
        marking = StepMarking(Amount(self.ecn_packets))
        chosen = routing(self.routing)
        if chosen != VALIANT:
            return Policy(ecn=marking, packet_bytes=PACKET_BYTES, routing=chosen, valiant=chosen.detours)
        if is_expander(topology):
            return Policy(ecn=marking, packet_bytes=PACKET_BYTES, valiant=False, channels=2)
        return Policy(ecn=marking, packet_bytes=PACKET_BYTES)


@dataclass(frozen=True)
class BackendChanges:
    """Changes to a backend's settings. None: as it is there. Units as in `BackendSettings`."""

    rate_bps: int | None = None
    delay_ps: int | None = None
    queue_packets: int | None = None
    loss: float | None = None
    pipeline: PipelineConfig | None = None
    routing: str | None = None

    def applied(self, settings: BackendSettings) -> BackendSettings:
        """The settings of a backend, changed. Timeouts follow rate and queue; K is a smaller part of a smaller queue,
        and stays what it is in a longer one. Raises DetourError if there is no such link."""
        rate = settings.rate_bps if self.rate_bps is None else self.rate_bps
        changed = settings
        if self.rate_bps is not None or self.queue_packets is not None:
            queue = settings.queue_packets if self.queue_packets is None else self.queue_packets
            usual = real_time(rate, settings.scale, queue)
            changed = replace(
                settings,
                rate_bps=rate,
                hosts=usual.hosts,
                queue_packets=queue,
                ecn_packets=min(settings.ecn_packets, max(1, queue * ECN_PACKETS // QUEUE_PACKETS)),
            )
        others = {name: getattr(self, name) for name in ("delay_ps", "loss", "pipeline", "routing")}
        return replace(changed, **{name: value for name, value in others.items() if value is not None})


def real_time(rate_bps: int, scale: int = 1, queue_packets: int | None = None, **changes: Any) -> BackendSettings:
    """Settings for the wall clock at a link rate; `scale` divides what is counted in packets."""
    queue = QUEUE_PACKETS // scale if queue_packets is None else queue_packets
    # A packet that waits in a full queue must not look lost.
    full_queue_ps = queue * PACKET_BYTES * 8 * 1_000_000_000_000 // rate_bps
    hosts = parameters.real_time(
        rate_bps,
        payload=PAYLOAD,
        mtu=PAYLOAD,
        delta2=BETTER_BY_MTUS // scale,
        delta3=PROBE_EVERY // scale,
        initial_rto_ps=max(200 * MS, 2 * full_queue_ps),
        max_rto_ps=max(2000 * MS, 8 * full_queue_ps),
    )
    values: dict[str, Any] = {
        "delay_ps": 1_000_000,
        "queue_packets": queue,
        "ecn_packets": min(ECN_PACKETS // scale, max(1, queue * ECN_PACKETS // QUEUE_PACKETS)),
        "scale": scale,
    } | changes
    return BackendSettings(rate_bps=rate_bps, hosts=hosts, **values)


ENGINE = real_time(20_000_000)
"""the engine in real time: less than half of one core carries D1's ADV1 pattern at its ceiling of eight links"""

BMV2 = real_time(1_102_000, scale=5, message_bytes=4_000, demo_pairs=16, demo_seconds=(4.0, 5.0))
"""BMv2: 125 packets a second and link. At these rates a pass through a switch costs it some 80 us, so that D1's
ceiling of eight links, 8500 passes a second, takes most of one core"""
