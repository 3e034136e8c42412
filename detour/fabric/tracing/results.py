# SPDX-License-Identifier: Apache-2.0
"""Results of following a packet, as `detour trace --json` prints them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from detour.engine.trace.tree import Dropped, Output, SourcePlace, TraceTree


@dataclass(slots=True)
class TracedHop:
    """A switch on the way. `fraction`: of the packet's traffic that comes here; `at_ns`: when, since it was sent."""

    switch: str
    port: int
    at_ns: int
    trace: TraceTree
    fraction: float = 1.0

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"switch": self.switch, "port": self.port, "at_ns": self.at_ns}
        if self.fraction != 1.0:
            document["fraction"] = self.fraction
        # By way of its text, which takes a third of the time.
        return document | {"trace": msgspec.json.decode(self.trace.json())}


@dataclass(slots=True)
class Arrived:
    """A frame that left the switches: by a port of a switch, to a host if there is one."""

    switch: str
    port: int
    host: str | None
    frame: bytes

    def as_json(self) -> dict[str, Any]:
        return {"switch": self.switch, "port": self.port, "host": self.host, "hex": self.frame.hex()}


@dataclass(slots=True)
class Lost:
    """A packet that ended in a switch, or on the link behind it."""

    switch: str
    reason: str
    source: SourcePlace | None = None

    def as_json(self) -> dict[str, Any]:
        source = self.source.as_json() if self.source else None
        return {"switch": self.switch, "reason": self.reason, "source": source}


@dataclass(slots=True)
class Ending:
    """One thing that becomes of the packet, with its fraction of the traffic."""

    fraction: float
    packets: list[Arrived] = field(default_factory=list)
    dropped: Lost | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "fraction": self.fraction,
            "packets": [each.as_json() for each in self.packets],
            "dropped": None if self.dropped is None else self.dropped.as_json(),
        }


@dataclass(slots=True)
class TracedPacket:
    """All hops in the order in which the packet came there, and what becomes of it. A copy (multicast, clone) counts as
    a packet of its own: its endings have the fraction of what it was copied from."""

    hops: list[TracedHop] = field(default_factory=list)
    outcomes: list[Ending] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"hops": [each.as_json() for each in self.hops], "outcomes": [each.as_json() for each in self.outcomes]}

    def add(self, ending: Ending) -> None:
        """Add an ending to the one that is the same but for its fraction, if there is one."""
        for other in self.outcomes:
            if other.packets == ending.packets and other.dropped == ending.dropped:
                other.fraction += ending.fraction
                return
        self.outcomes.append(ending)


def traced_alone(switch: str, port: int, trace: TraceTree) -> TracedPacket:
    """Return the way of a packet through one switch whose ports lead nowhere."""
    packet = TracedPacket([TracedHop(switch, port, 0, trace)])
    for share, leaf in trace.leaves():
        if isinstance(leaf.outcome, Output):
            packet.add(Ending(share, [Arrived(switch, leaf.outcome.port, None, leaf.outcome.frame)]))
        elif isinstance(leaf.outcome, Dropped):
            packet.add(Ending(share, dropped=dropped_at(switch, leaf.outcome)))
    return packet


def dropped_at(switch: str, outcome: Dropped) -> Lost:
    """Return the loss of a packet that ended in a switch."""
    return Lost(switch, outcome.reason, outcome.source)
