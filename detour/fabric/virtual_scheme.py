# SPDX-License-Identifier: Apache-2.0
"""What a fabric in virtual time is made of: links, buffers, and the schemes of section IV of the non-shortest-path
paper. All of it is data; `virtual.VirtualFabric` builds it.

Where the paper is silent the choice is FACTS 5 and 6's, by name, and here only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from detour.base.errors import DetourError
from detour.control.policy import Amount, Ecn, RedMarking, StepMarking
from detour.hosts.config import HostConfig

US = 1_000_000
"""picoseconds"""

PAYLOAD = 1000
PACKET_BYTES = 1102
"""a data packet from Ethernet header to ICRC"""

Transport: TypeAlias = Literal["lerp", "gbn"]
Control: TypeAlias = Literal["dctcp", "dcqcn"]
Paths: TypeAlias = Literal["telemetry", "shortest"]


@dataclass(frozen=True)
class Links:
    """Rate of every link, and delays by the kind of link."""

    rate_bps: int = 100_000_000_000
    host_delay_ps: int = US
    local_delay_ps: int = US
    global_delay_ps: int = US

    def delay_ps(self, kind: str) -> int:
        """Of a link of kind `host`, `local` or `global`."""
        return {"host": self.host_delay_ps, "local": self.local_delay_ps, "global": self.global_delay_ps}[kind]

    @property
    def longest_ps(self) -> int:
        """The longest of the delays, by which headroom is reckoned."""
        return max(self.host_delay_ps, self.local_delay_ps, self.global_delay_ps)


@dataclass(frozen=True)
class Memory:
    """Packet memory of switches: `port_bytes` for every port, shared by the whole switch.

    `headroom_bytes`: what stays free for a port's packets after XOFF, `None`: 2 * rate * delay + 2 * MTU (FACTS 5).
    `alpha`: a lossy queue takes at most that many times what is free (Choudhury and Hahne)."""

    port_bytes: int = 375_000
    headroom_bytes: int | None = None
    reserve_bytes: int = 4096
    alpha: float = 1.0


@dataclass(frozen=True)
class Scheme:
    """How packets find their way, how losses are handled or prevented, and how senders slow down.

    `program`: the P4 program. `paths`: `telemetry` (the sender probes and picks) or `shortest` (one source port; with
    `adaptive` the switches decide nevertheless). `channels`: virtual channels, one a global hop. `reorder`:
    the receiver puts packets in order before it looks at them. `threshold`: T of PiggyBack's rule, in packets.
    `hosts`: changes to `HostConfig`, as pairs of name and value.
    """

    name: str
    transport: Transport
    control: Control
    paths: Paths
    ecn: Ecn
    program: str = "fabric"
    pfc: bool = False
    channels: int = 1
    reorder: bool = False
    threshold: int = 0
    hosts: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= 3:
            raise DetourError(f"scheme {self.name}: {self.channels} virtual channels; 1 to 3 are possible")
        if self.threshold < 0:
            raise DetourError(f"scheme {self.name}: T is {self.threshold} packets; it cannot be negative")
        if self.program == "adaptive" and self.transport == "gbn" and not self.reorder:
            raise DetourError(
                f"scheme {self.name}: switches that choose a path for every packet bring packets out of order, so "
                "go-back-N needs a reordering receiver (section II-B)"
            )

    @property
    def lossless(self) -> int:
        """Bit mask of the priorities under PFC: those of the channels."""
        return (1 << self.channels) - 1 if self.pfc else 0

    def with_threshold(self, packets: int) -> Scheme:
        """The same with another T."""
        return replace(self, threshold=packets)


STEP = StepMarking(Amount(80_000, "bytes"))
"""DCTCP's K; a reroute needs 75 KB of queue difference, so a smaller K could never trigger one (FACTS 6)"""
RED = RedMarking(Amount(400_000, "bytes"), Amount(1_600_000, "bytes"), 0.2)
"""DCQCN's thresholds at 100 Gb/s (FACTS 5)"""

TELEMETRY_LERP = Scheme("TelemetryLERP", "lerp", "dctcp", "telemetry", STEP)
TELEMETRY_GBN = Scheme("TelemetryGBN", "gbn", "dcqcn", "telemetry", STEP)
BENCHMARK = Scheme(
    "Benchmark", "gbn", "dcqcn", "shortest", RED, program="adaptive", pfc=True, channels=3, reorder=True
)  # fmt: skip
SHORTEST_PATH = Scheme("ShortestPath", "gbn", "dcqcn", "shortest", RED, pfc=True, channels=3, reorder=True)
LERP_WITHOUT_PFC = Scheme("LERP", "lerp", "dctcp", "shortest", STEP)
ROCE_WITH_PFC = Scheme("RoCEv2+PFC", "gbn", "dcqcn", "shortest", RED, pfc=True)
"""Table I's pair"""

SCHEMES = {s.name: s for s in (TELEMETRY_LERP, TELEMETRY_GBN, BENCHMARK, SHORTEST_PATH)}
"""the four schemes that section IV compares"""


def scheme(name: str) -> Scheme:
    """One of the four schemes by its name, in any case.

    Raises:
        DetourError: there is no such scheme.
    """
    for known in SCHEMES.values():
        if known.name.lower() == name.lower():
            return known
    raise DetourError(f"there is no scheme {name!r}; allowed: all, {', '.join(SCHEMES)}")


@dataclass(frozen=True)
class Settings:
    """Everything else about a run. `window`, `frames`: packets that a connection and the fabric may have under way."""

    links: Links = field(default_factory=Links)
    memory: Memory = field(default_factory=Memory)
    window: int = 1024
    frames: int = 1 << 20
    seed: int = 1

    def host_config(self, chosen: Scheme) -> HostConfig:
        """The hosts' parameters under a scheme."""
        values: dict[str, Any] = {
            "payload": PAYLOAD,
            "mtu": PAYLOAD,
            "link_rate_bps": self.links.rate_bps,
            "elide_payload": True,
            "line_rate_start": True,
        }
        return HostConfig(**(values | dict(chosen.hosts)))
