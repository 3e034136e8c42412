# SPDX-License-Identifier: Apache-2.0
"""An operator's choices: ECN marking, priorities, virtual channels, routing, the controller's packet rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.control.schema import MAX_QDEPTH, MAX_THRESHOLD

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

Routing: TypeAlias = Literal["valiant", "adaptive", "minimal", "random", "ugal-local", "ugal-global", "ugal-graph"]
"""Who chooses between shortest path and detour to another group, and how.

`valiant`: the sender, by the UDP source port (fabric.p4). Three are adaptive.p4's: `adaptive`, the first switch,
packet by packet, by the loads of its group's global links; `minimal`, always the shortest path; `random`, always by way
of a random group. Two are ugal.p4's, by the queues of the shortest path and of one random detour: `ugal-local`, those
of the first switch's own ports; `ugal-global`, those of the group's global links. `ugal-graph` is ugal_graph.p4's: the
same as `ugal-local` on any graph, where a detour goes by way of any switch.
"""
BY_LOAD: tuple[Routing, ...] = ("adaptive", "ugal-local", "ugal-global", "ugal-graph")
"""what compares loads, and has a threshold"""
_UGAL: tuple[Routing, ...] = ("ugal-local", "ugal-global")


@dataclass(frozen=True, slots=True)
class Policy:
    """Instructions to the planner beyond connecting all hosts.

    `packet_bytes` turns thresholds in bytes into packets, which is what a queue's depth counts. `priorities`
    are (DSCP, priority) pairs; other packets have priority 0. Packets for the controller above `punt_rate` a
    second (per reason) are dropped.

    `valiant` False allows no detours at all. `threshold` is T of adaptive routing, in packets. `channels` above 1 are
    virtual channels for lossless classes: a packet with DSCP v has priority v, and v rises by one whenever it comes in
    over a global link. 3 is what detours need to be free of deadlock, 2 is enough for shortest paths. In FC+ and FC
    (where 1 has a meaning as well) v rises where a path has come down and goes up again: `channels` are the lossless
    priorities of the routes there, and who would rise further goes on in priority `channels`, which is not lossless.

    `trims`: data that finds no room goes on as headers (trim.p4). `oldest_first`: queues go by how long packets have
    waited so far, here and before (ranking.p4, in adaptive.p4 and ugal.p4)."""

    ecn: Ecn = field(default_factory=lambda: StepMarking(Amount(100_000, "bytes")))
    packet_bytes: int = PACKET_BYTES
    priorities: tuple[tuple[int, int], ...] = ((48, 7),)
    valiant: bool = True
    punt_rate: int = 1000
    punt_burst: int = 100
    routing: Routing = "valiant"
    threshold: int = 0
    channels: int = 0
    trims: bool = False
    oldest_first: bool = False

    @property
    def program(self) -> str:
        """The P4 program that does this, `fabric`, `trim`, `adaptive`, `ugal` or `ugal_graph`."""
        if self.trims:
            return "trim"
        if self.routing == "ugal-graph":
            return "ugal_graph"
        if self.routing in _UGAL:
            return "ugal"
        return "fabric" if self.routing == "valiant" else "adaptive"

    @property
    def detours(self) -> bool:
        """Whether packets may go by way of another group."""
        return self.valiant and self.routing != "minimal"

    def __post_init__(self) -> None:
        if self.packet_bytes < 1:
            raise DetourError(f"policy: packet_bytes={self.packet_bytes} is less than 1")
        if self.punt_rate < 0 or self.punt_burst < 0:
            raise DetourError("policy: punt_rate and punt_burst cannot be negative")
        for dscp, priority in self.priorities:
            if not (0 <= dscp < 64 and 0 <= priority < 8):
                raise DetourError(f"policy: DSCP {dscp} -> priority {priority}: DSCP is 0 to 63, priority 0 to 7")
        if len({dscp for dscp, _ in self.priorities}) < len(self.priorities):
            raise DetourError("policy: a DSCP is given two priorities")
        if self.routing not in get_args(Routing):
            raise DetourError(f"policy: routing={self.routing} is unknown; there are {', '.join(get_args(Routing))}")
        if not 0 <= self.threshold <= MAX_THRESHOLD:
            raise DetourError(f"policy: threshold={self.threshold} is not 0 to {MAX_THRESHOLD} packets")
        if self.threshold and self.routing not in BY_LOAD:
            raise DetourError(f"policy: threshold={self.threshold} has no meaning with routing={self.routing}")
        if self.routing in (*BY_LOAD, "random") and not self.valiant:
            raise DetourError(f"policy: routing={self.routing} needs detours, which valiant=False forbids")
        if self.oldest_first and self.program not in ("adaptive", "ugal"):
            raise DetourError(f"policy: {self.program}.p4 does not rank packets; oldest_first needs another routing")
        self._check_channels()

    def _check_channels(self) -> None:
        if not 0 <= self.channels <= MAX_LOSSLESS:
            raise DetourError(f"policy: channels={self.channels} is not 0 to {MAX_LOSSLESS}")
        if self.trims and (self.channels or self.routing != "valiant"):
            raise DetourError("policy: trims needs routing=valiant and lossy queues")
        if self.channels == 2 and self.detours:
            raise DetourError(
                "policy: channels=2 is not free of deadlock: a detour passes two global links, so its channel rises "
                "twice and takes 3; 2 are enough for routing=minimal, and 0 turns channels off"
            )
        taken = [dscp for dscp, _ in self.priorities if dscp < self.channels]
        if self.channels > 1 and taken:
            raise DetourError(f"policy: DSCP {taken[0]} is a virtual channel and has its own priority")
