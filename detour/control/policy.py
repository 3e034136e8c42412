# SPDX-License-Identifier: Apache-2.0
"""An operator's choices: ECN marking, priorities, virtual channels, routing, the controller's packet rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.plugins import WithParameters
from detour.control.entries import Entity
from detour.control.schema import MAX_QDEPTH
from detour.topo.failures import Failures
from detour.topo.topology import Switch, Topology

MAX_LOSSLESS = 6
"""of the eight priorities; one more is for packets that leave the lossless ones, and the last one for ACKs"""
_UNITS = {"b": 1, "kb": 1000, "mb": 1000_000, "gb": 1000_000_000}


@dataclass(frozen=True, slots=True)
class Amount:
    """A queue length: packets, or bytes that the planner turns into packets."""

    value: int
    unit: str = "packets"

    def packets(self, packet_bytes: int) -> int:
        """Whole packets, rounded down, as many as the P4 field holds."""
        count = self.value if self.unit == "packets" else self.value // packet_bytes
        return min(count, MAX_QDEPTH)


@dataclass(frozen=True, slots=True)
class NoMarking:
    """Switches leave ECN alone."""


@dataclass(frozen=True, slots=True)
class StepMarking:
    """Mark above K (DCTCP, RFC 8257 section 3.1)."""

    k: Amount


@dataclass(frozen=True, slots=True)
class RedMarking:
    """Mark from `kmin` on with a probability that reaches `pmax` at `kmax`; above `kmax` always (DCQCN)."""

    kmin: Amount
    kmax: Amount
    pmax: float

    def __post_init__(self) -> None:
        if not 0 < self.pmax <= 1:
            raise DetourError(f"ECN: pmax={self.pmax:g} is not a probability above 0")


Ecn: TypeAlias = NoMarking | StepMarking | RedMarking


def marking(sizes: Sequence[int], pmax: float) -> Ecn:
    """Marking by queues of bytes: `sizes` is K, or Kmin and Kmax, between which the probability rises to `pmax`."""
    amounts = [Amount(size, "bytes") for size in sizes]
    return StepMarking(amounts[0]) if len(amounts) == 1 else RedMarking(amounts[0], amounts[1], pmax)


@dataclass(frozen=True)
class Routing(WithParameters):
    """Choice between shortest path and detour to another group: a plugin (`control.routings`).

    `program`: the P4 program that does it. `entries`: what a live switch gets beyond the routes, of topology, policy,
    failures and switch; None: detours by the UDP source port, as senders choose them (fabric.p4). `check`: raises
    `DetourError` for a topology and policy that do not fit. `detours`: packets may go by way of another group.
    `per_packet`: switches choose for every packet, so packets overtake each other. `loads`: queues that they
    compare: of the switch's `own` ports, or of all global links of the `group`. `most_switches`: how many packets
    may pass, where `entries` has the routes to other switches' hosts as well; None: these are shortest paths."""

    name: str = "valiant"
    program: str = "fabric"
    entries: Callable[[Topology, Policy, Failures, Switch], Iterable[Entity]] | None = None
    check: Callable[[Topology, Policy], None] | None = None
    parameters: Any = None
    detours: bool = True
    per_packet: bool = False
    loads: Literal["none", "own", "group"] = "none"
    most_switches: Callable[[Topology, Policy, Failures], int] | None = None
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.check_parameters()


VALIANT = Routing()
"""the sender chooses, by the UDP source port"""


@dataclass(frozen=True, slots=True)
class Policy:
    """Instructions to the planner beyond connecting all hosts.

    `packet_bytes` turns thresholds in bytes into packets, which is what a queue's depth counts. `priorities`
    are (DSCP, priority) pairs; other packets have priority 0. Packets for the controller above `punt_rate` a
    second (per reason) are dropped.

    `valiant` False allows no detours at all. `channels` above 1 are virtual channels for lossless classes: a packet
    with DSCP v has priority v, and v rises by one whenever it comes in over a global link. 3 is what detours need
    to be free of deadlock, 2 is enough for shortest paths. In FC+ and FC (where 1 has a meaning as well) v rises
    where a path has come down and goes up again: `channels` are the lossless priorities of the routes there, and
    who would rise further goes on in priority `channels`, which is not lossless.

    `trims`: data that finds no room goes on as headers (trim.p4). `oldest_first`: queues go by how long packets have
    waited so far, here and before (ranking.p4, in adaptive.p4 and ugal.p4)."""

    ecn: Ecn = field(default_factory=lambda: StepMarking(Amount(100_000, "bytes")))
    packet_bytes: int = PACKET_BYTES
    priorities: tuple[tuple[int, int], ...] = ((48, 7),)
    valiant: bool = True
    punt_rate: int = 1000
    punt_burst: int = 100
    routing: Routing = VALIANT
    channels: int = 0
    trims: bool = False
    oldest_first: bool = False

    @property
    def program(self) -> str:
        """The P4 program that does this."""
        return "trim" if self.trims else self.routing.program

    @property
    def detours(self) -> bool:
        """Return whether packets may go by way of another group."""
        return self.valiant and self.routing.detours

    def __post_init__(self) -> None:
        if self.packet_bytes < 1:
            raise DetourError(f"policy: packet_bytes={self.packet_bytes} is less than 1")
        if self.punt_rate < 0 or self.punt_burst < 0:
            raise DetourError("policy: punt_rate and punt_burst cannot be negative")
        for dscp, priority in self.priorities:
            if not (0 <= dscp < 64 and 0 <= priority < 8):
                raise DetourError(f"policy: DSCP {dscp} -> priority {priority}: DSCP is 0 to 63, priority 0 to 7")
        if len({dscp for dscp, _ in self.priorities}) < len(self.priorities):
            raise DetourError("policy: a DSCP has two priorities")
        if self.routing.per_packet and not self.valiant:
            raise DetourError(f"policy: routing={self.routing.name} needs detours, which valiant=False forbids")
        if self.oldest_first and self.program not in ("adaptive", "ugal"):
            raise DetourError(f"policy: {self.program}.p4 does not rank packets; oldest_first needs another routing")
        self._check_channels()

    def _check_channels(self) -> None:
        if not 0 <= self.channels <= MAX_LOSSLESS:
            raise DetourError(f"policy: channels={self.channels} is not 0 to {MAX_LOSSLESS}")
        if self.trims and (self.channels or self.routing != VALIANT):
            raise DetourError("policy: trims needs routing=valiant and lossy queues")
        if self.channels == 2 and self.detours:
            raise DetourError(
                "policy: channels=2 can deadlock: a detour passes two global links and needs 3 channels; use 2 with "
                "routing=minimal, or 0 for no channels"
            )
        taken = [dscp for dscp, _ in self.priorities if dscp < self.channels]
        if self.channels > 1 and taken:
            raise DetourError(f"policy: DSCP {taken[0]} is a virtual channel and has its own priority")
