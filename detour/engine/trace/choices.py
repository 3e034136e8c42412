# SPDX-License-Identifier: Apache-2.0
"""All that could become of a packet: members of selectors, hashes and random numbers taken as evenly distributed.

A packet is sent again and again, each time with other values for the choices that it comes to, and the traces are put
together: where they part there is a fork, whose branches have their fraction of the traffic. Values that lead to the
same share a branch. Hashes of the same bytes come to the same value, in all switches. Choices behind a point at which a
packet is copied stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from detour.base.errors import DetourError
from detour.engine.trace.tree import Assumed, Branch, ChoiceKey, Dropped, Event, Fork, Output, TraceTree

Send = Callable[[Sequence[int]], TraceTree]
"""sends the packet with these choices; a fresh trace"""

MOST_RUNS = 20_000
_EACH = 1024
"""A choice among more values is sampled at as many, evenly spread."""


def expand(send: Send, assumed: Assumed | None = None, most_runs: int = MOST_RUNS) -> TraceTree:
    """The tree of all possibilities. `assumed`: what hashes may have come to, from an earlier switch. Raises
    DetourError if there are too many."""
    return _Expansion(send, most_runs).whole((), send(()), assumed or {})


@dataclass(slots=True)
class _Alternative:
    values: list[int]
    trace: TraceTree


class _Expansion:
    def __init__(self, send: Send, most_runs: int) -> None:
        self._send, self._left = send, most_runs

    def whole(self, prefix: tuple[int, ...], trace: TraceTree, assumed: Assumed) -> TraceTree:
        """Return the tree of all that can happen to a packet after the choices in `prefix`, if `trace` is the outcome
        with natural choices after them."""
        while (place := _place(trace, len(prefix))) is not None:
            facts = trace.events[place].facts
            key = _key(facts)
            values = assumed.get(key) if key else None
            values = _values(facts["size"]) if values is None else values
            if len(values) > 1:
                return self._forked(prefix, trace, place, values, assumed)
            only = next(iter(values))
            prefix = (*prefix, only)
            if facts["value"] != only:
                trace = self._run(prefix)
        return trace

    def _forked(
        self, prefix: tuple[int, ...], trace: TraceTree, place: int, values: Sequence[int], assumed: Assumed
    ) -> TraceTree:
        """A fork at a choice: a branch for all values with which the same happens."""
        event = trace.events[place]
        key = _key(event.facts)
        alternatives: dict[object, _Alternative] = {}
        for value in values:
            chosen = (*prefix, value)
            whole = self.whole(chosen, self._run(chosen), assumed if key is None else {**assumed, key: (value,)})
            rest = TraceTree([*whole.events[place + 1 :]], whole.outcome, whole.fork)
            alternatives.setdefault(_shape(rest), _Alternative([], rest)).values.append(value)
        if len(alternatives) == 1:
            only = next(iter(alternatives.values())).trace
            return TraceTree([*trace.events[: place + 1], *only.events], only.outcome, only.fork)
        branches = [
            Branch(_label(event, a.values), len(a.values) / len(values), a.trace, {key: tuple(a.values)} if key else {})
            for a in alternatives.values()
        ]
        facts = event.facts
        reason = f"{facts['what']} of {facts['profile']}" if "profile" in facts else facts["what"]
        return TraceTree([*trace.events[: place + 1]], None, Fork(reason, False, branches))

    def _run(self, choices: tuple[int, ...]) -> TraceTree:
        if self._left <= 0:
            raise DetourError("too many combinations: trace the packet without --all")
        self._left -= 1
        return self._send(choices)


def _place(trace: TraceTree, number: int) -> int | None:
    """Return where the choice of that number is, among the events before any copy is made."""
    places = (i for i, event in enumerate(trace.events) if event.facts.get("extern") == "choice")
    return next(islice(places, number, None), None)


def _key(facts: dict[str, Any]) -> ChoiceKey | None:
    return (facts["algorithm"], facts["input"], facts["size"]) if "input" in facts else None


def _values(size: int) -> Sequence[int]:
    """All values, or as many samples as there may be; a size of 0 is that of an empty choice."""
    if size <= _EACH:
        return range(max(size, 1))
    return [(2 * i + 1) * size // (2 * _EACH) for i in range(_EACH)]


def _shape(trace: TraceTree) -> object:
    """Return the common part of traces that take the same way through the program to the same end."""
    steps = tuple(_step(event) for event in trace.events)
    if trace.fork is not None:
        forks = tuple((b.label if trace.fork.all else "", b.fraction, _shape(b.trace)) for b in trace.fork.branches)
        return steps, trace.fork.reason, forks
    outcome = trace.outcome
    if isinstance(outcome, Output):
        return steps, outcome.port, outcome.frame
    return steps, outcome.reason if isinstance(outcome, Dropped) else None


def _step(event: Event) -> object:
    facts = event.facts
    match event.kind:
        case "branch":
            return event.kind, facts["name"], facts["value"]
        case "table_lookup":
            entry = facts["entry"]
            return event.kind, facts["table"], facts["hit"], entry["handle"] if entry else None
        case "action":
            return event.kind, facts["action"], tuple(facts["parameters"].items())
        case "parser_transition":
            return event.kind, facts["state"], facts["next"]
        case "assertion" | "mark_to_drop" | "clone" | "multicast":
            return event.kind, tuple(sorted((k, str(v)) for k, v in facts.items()))
    return None


def _label(event: Event, values: list[int]) -> str:
    what, size = event.facts["what"], event.facts["size"]
    shown = ", ".join(str(v) for v in values[:8]) + (f", ... ({len(values)} in all)" if len(values) > 8 else "")
    sampled = f" (of {_EACH} samples)" if size > _EACH else ""
    return f"{what} {shown} of {size}{sampled}"
