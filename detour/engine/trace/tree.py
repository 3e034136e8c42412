# SPDX-License-Identifier: Apache-2.0
"""A packet's trace as dataclasses. `as_json` gives the documents of docs/trace.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import Any

EVENT_KINDS = (
    *("packet_ingress", "stage", "parser_transition", "table_lookup", "action", "branch", "assign", "extern_call"),
    *("mark_to_drop", "clone", "multicast", "log_message", "assertion", "queue", "deparser_emit"),
)


def _object(texts: dict[str, str]) -> str:
    """A JSON object, of the texts of its values, as `json.dumps` writes it."""
    return "{" + ", ".join([f'"{name}": {text}' for name, text in texts.items()]) + "}"


def _text(value: Any) -> str:
    """As `json.dumps`, and faster for what most values are."""
    if type(value) is int:
        return str(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    return "null" if value is None else json.dumps(value)


def _array(texts: list[str]) -> str:
    return "[" + ", ".join(texts) + "]"


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in the P4 source."""

    file: str
    line: int
    column: int
    text: str

    def as_json(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "column": self.column, "text": self.text}


class Event:
    """A step. `facts`: what there is to know of it, by kind (docs/trace.md)."""

    __slots__ = ("_facts", "kind", "source")

    def __init__(self, kind: str, facts: dict[str, Any] | None = None, source: SourcePlace | None = None) -> None:
        self.kind, self.source = kind, source
        self._facts: dict[str, Any] | None = {} if facts is None else facts

    @property
    def facts(self) -> dict[str, Any]:
        assert self._facts is not None
        return self._facts

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.facts, "source": self.source.as_json() if self.source else None}

    def json(self) -> str:
        return _object({name: _text(value) for name, value in self.as_json().items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.as_json() == other.as_json()

    __hash__ = None  # type: ignore[assignment]  # facts may be added to

    def __repr__(self) -> str:
        return f"Event({self.kind!r}, {self.facts!r}, {self.source!r})"


class UnmadeEvents:
    """Events that nobody has asked for yet."""

    __slots__ = ()

    def made(self) -> list[Event]:
        raise NotImplementedError

    def json(self) -> str:
        """As the text that theirs make with commas between them; empty if there are none."""
        raise NotImplementedError


@dataclass(slots=True)
class Output:
    """A frame that left by a port. `slot`: where it lay in the pool, by which the next switch knows it."""

    port: int
    frame: bytes
    slot: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {"output": {"port": self.port, "hex": self.frame.hex()}}


@dataclass(slots=True)
class Dropped:
    """The packet ended here."""

    reason: str
    source: SourcePlace | None = None

    def as_json(self) -> dict[str, Any]:
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

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "fraction": self.fraction, "trace": self.trace.as_json()}

    def json(self) -> str:
        label, fraction = json.dumps(self.label), json.dumps(self.fraction)
        return _object({"label": label, "fraction": fraction, "trace": self.trace.json()})


@dataclass(slots=True)
class Fork:
    """Point at which a packet goes on in several ways: in all of them (`all`), or in one of them."""

    reason: str
    all: bool
    branches: list[Branch]

    def as_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "all": self.all, "branches": [each.as_json() for each in self.branches]}

    def json(self) -> str:
        branches = _array([each.json() for each in self.branches])
        return _object({"reason": json.dumps(self.reason), "all": json.dumps(self.all), "branches": branches})


@dataclass(slots=True, eq=False)
class TraceTree:
    """A switch's trace: events, and then an outcome or a fork. `parts`: the events, some of them not made yet."""

    parts: list[Event | UnmadeEvents] = field(default_factory=list)
    outcome: Outcome | None = None
    fork: Fork | None = None

    @property
    def events(self) -> Sequence[Event]:
        """In the order in which they happened. Made now, and kept."""
        events = _made(self.parts)
        self.parts = [*events]
        return events

    def latest(self, fits: Callable[[Event], bool]) -> Event | None:
        """The last event that fits; those that were not made yet stay so."""
        events = (event for part in reversed(self.parts) for event in reversed(_made([part])))
        return next(filter(fits, events), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TraceTree) and self.as_json() == other.as_json()

    __hash__ = None  # type: ignore[assignment]  # events may be added

    def as_json(self) -> dict[str, Any]:
        end = {"fork": self.fork.as_json()} if self.fork else {"outcome": self.outcome and self.outcome.as_json()}
        return {"events": [event.as_json() for event in self.events], **end}

    def json(self) -> str:
        """The same as text, much faster than by way of the document."""
        outcome = self.outcome and self.outcome.as_json()
        end = {"fork": self.fork.json()} if self.fork else {"outcome": json.dumps(outcome)}
        return _object({"events": _array([text for part in self.parts if (text := part.json())]), **end})

    def ways(self) -> Iterator[tuple[float, TraceTree, Assumed]]:
        """Return where the packet ends, each with its fraction of the traffic and what is assumed there."""
        if self.fork is None:
            yield 1.0, self, {}
            return
        for branch in self.fork.branches:
            for fraction, leaf, assumed in branch.trace.ways():
                yield branch.fraction * fraction, leaf, branch.assumed | assumed

    def leaves(self) -> Iterator[tuple[float, TraceTree]]:
        """Return where the packet ends, each with its fraction of the traffic."""
        return ((fraction, leaf) for fraction, leaf, _ in self.ways())

    def all_events(self) -> Iterator[Event]:
        yield from self.events
        for branch in self.fork.branches if self.fork else ():
            yield from branch.trace.all_events()


def _made(parts: Sequence[Event | UnmadeEvents]) -> list[Event]:
    return [event for part in parts for event in (part.made() if isinstance(part, UnmadeEvents) else (part,))]


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
