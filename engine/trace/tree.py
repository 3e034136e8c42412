# SPDX-License-Identifier: Apache-2.0
"""What happened to a packet, as dataclasses. `as_json` gives the documents of docs/trace.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

EVENT_KINDS = (
    *("packet_ingress", "stage", "parser_transition", "table_lookup", "action", "branch", "assign", "extern_call"),
    *("mark_to_drop", "clone", "multicast", "log_message", "assertion", "queue", "deparser_emit"),
)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in the P4 source."""

    file: str
    line: int
    column: int
    text: str

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {"file": self.file, "line": self.line, "column": self.column, "text": self.text}


@cache
def _source_json(source: SourcePlace) -> dict[str, Any]:
    """The same dictionary for all events at a place: nobody changes it."""
    return source.as_json()


@dataclass(slots=True)
class Event:
    """A step. `facts`: what there is to know of it, by kind (docs/trace.md)."""

    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    source: SourcePlace | None = None

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {"kind": self.kind, **self.facts, "source": _source_json(self.source) if self.source else None}


@dataclass(slots=True)
class Output:
    """A frame that left by a port. `slot`: where it lay in the pool, by which the next switch knows it."""

    port: int
    frame: bytes
    slot: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {"output": {"port": self.port, "hex": self.frame.hex()}}


@dataclass(slots=True)
class Dropped:
    """The packet ended here."""

    reason: str
    source: SourcePlace | None = None

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {"dropped": {"reason": self.reason, "source": self.source.as_json() if self.source else None}}


Outcome = Output | Dropped


ChoiceKey = tuple[str, str, int]
"""what tells hashes apart: algorithm, input in hex, number of values; equal ones come to the same value everywhere"""
Assumed = dict[ChoiceKey, tuple[int, ...]]
"""the values that a hash may have come to"""


@dataclass(slots=True)
class Branch:
    """One way on from a fork. `fraction`: of the traffic that comes to the fork; 1 where all branches are taken.
    `assumed`: what has come to what, if the packet takes it."""

    label: str
    fraction: float
    trace: TraceTree
    assumed: Assumed = field(default_factory=dict)


@dataclass(slots=True)
class Fork:
    """Where a packet goes on in several ways: in all of them (`all`), or in one of them."""

    reason: str
    all: bool
    branches: list[Branch]


@dataclass(slots=True)
class TraceTree:
    """What a switch did: events, and then an outcome or a fork."""

    events: list[Event] = field(default_factory=list)
    outcome: Outcome | None = None
    fork: Fork | None = None

    def as_json(self) -> dict[str, Any]:
        """The document."""
        found: dict[str, Any] = {"events": [event.as_json() for event in self.events]}
        if self.fork is not None:
            branches = [
                {"label": each.label, "fraction": each.fraction, "trace": each.trace.as_json()}
                for each in self.fork.branches
            ]
            found["fork"] = {"reason": self.fork.reason, "all": self.fork.all, "branches": branches}
        else:
            found["outcome"] = None if self.outcome is None else self.outcome.as_json()
        return found

    def ways(self) -> Iterator[tuple[float, TraceTree, Assumed]]:
        """Where the packet ends, each with its fraction of the traffic and what is assumed there."""
        if self.fork is None:
            yield 1.0, self, {}
            return
        for branch in self.fork.branches:
            for fraction, leaf, assumed in branch.trace.ways():
                yield branch.fraction * fraction, leaf, branch.assumed | assumed

    def leaves(self) -> Iterator[tuple[float, TraceTree]]:
        """Where the packet ends, each with its fraction of the traffic."""
        return ((fraction, leaf) for fraction, leaf, _ in self.ways())

    def all_events(self) -> Iterator[Event]:
        """Events of all branches."""
        yield from self.events
        for branch in self.fork.branches if self.fork else ():
            yield from branch.trace.all_events()


@dataclass(slots=True)
class Visit:
    """A packet that arrived at a switch. `time_ticks`: of the program's clock."""

    trace: int
    switch: int
    port: int
    time_ticks: int
    frame: bytes
    tree: TraceTree
    slot: int | None = None
