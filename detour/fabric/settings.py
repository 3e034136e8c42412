# SPDX-License-Identifier: Apache-2.0
"""What a fabric in real time is made of: rates, queues, thresholds and the hosts' parameters, all by name.

The papers' 100 Gb/s do not fit on a laptop's clock, so rates are scaled down and everything that is counted in
packets (queue depth, ECN threshold, the 75-MTU rule) stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from detour.base.errors import DetourError
from detour.control.policy import Amount, Policy, StepMarking
from detour.hosts.config import HostConfig

MS = 1_000_000_000
"""picoseconds"""

PAYLOAD = 1000
PACKET_BYTES = 1102
"""a data packet's bytes from Ethernet header to ICRC, with `PAYLOAD`"""


@dataclass(frozen=True)
class Settings:
    """Parameters of one footing.

    `rate_bps`: of every link; BMv2 turns it into packets of `PACKET_BYTES` a second. `delay_ps`: of every link.
    `queue_packets`: depth of each of a port's priority queues. `ecn_packets`: DCTCP's K; above 75 packets, or
    no path is ever 75 MTU times better than another. `window`: packets that a connection may have in flight.
    """

    rate_bps: int
    delay_ps: int
    queue_packets: int
    ecn_packets: int
    hosts: HostConfig = field(default_factory=HostConfig.real_time)
    window: int = 1024
    arena_bytes: int = 1 << 28
    queue_pairs: int = 2048
    priorities: int = 8
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rate_bps < PACKET_BYTES * 8:
            raise DetourError(f"a link rate of {self.rate_bps} bit/s is less than a packet a second")
        if self.queue_packets <= self.ecn_packets:
            raise DetourError(f"a queue of {self.queue_packets} packets never passes K = {self.ecn_packets}")

    @property
    def rate_pps(self) -> int:
        """Data packets a second on a link."""
        return self.rate_bps // (8 * PACKET_BYTES)

    def policy(self) -> Policy:
        """What the planner has to know of this."""
        return Policy(ecn=StepMarking(Amount(self.ecn_packets)), packet_bytes=PACKET_BYTES)

    def at_rate(self, rate_bps: int) -> Settings:
        """The same at another link rate."""
        return replace(self, rate_bps=rate_bps, hosts=replace(self.hosts, link_rate_bps=rate_bps))


def real_time(rate_bps: int, **changes: int) -> Settings:
    """Settings for the wall clock at a link rate."""
    # A full queue of the slowest path, there and back, must not look like a loss.
    full_queue_ps = 256 * PACKET_BYTES * 8 * 1_000_000_000_000 // rate_bps
    hosts = HostConfig.real_time(
        rate_bps, payload=PAYLOAD, mtu=PAYLOAD, initial_rto_ps=max(200 * MS, 2 * full_queue_ps)
    )
    values = {"delay_ps": 1_000_000, "queue_packets": 256, "ecn_packets": 100} | changes
    return Settings(rate_bps=rate_bps, hosts=hosts, **values)


ENGINE = real_time(20_000_000)
"""the engine in real time: two cores carry D1's ADV1 pattern at its ceiling of eight links"""

BMV2 = real_time(4_400_000)
"""BMv2: 500 packets a second and link; some 40,000 passes through switches a second at the ceiling"""
