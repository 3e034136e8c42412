# SPDX-License-Identifier: Apache-2.0
"""The place of a symbolic execution: the conditions for coming there, and memory; forks, and states that join again.

Where the branches of a fork meet, memory becomes one, with a choice by the branches' conditions for what differs: the
work grows with the program, not with the number of its paths.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import z3 as untyped_z3

from detour.engine.compiler.ir import Value, const

z3: Any = untyped_z3
"""Its functions are annotated with the union of all kinds of terms."""


def fresh_context() -> None:
    """Let z3 forget all terms before, on whose number its answers depend."""
    untyped_z3.z3._main_ctx = None  # pyright: ignore[reportAttributeAccessIssue]


_FORKS = itertools.count()
Select = Callable[[Any, Value, Value], Value]


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A boolean term that holds here, in words. `fork`: the number of the fork that it comes from, of `of` branches;
    `is_false`: this one is never taken."""

    term: Any
    text: str
    fork: int
    of: int
    is_false: bool = False


class Write(NamedTuple):
    """A write to a register, if `when` holds."""

    when: Value
    index: Value
    value: Value

    def only(self, when: Any) -> Write:
        """The write, if another condition holds as well."""
        return self._replace(when=Value(1, when if self.when.const else z3.And(when, self.when.ref)))


@dataclass(slots=True)
class State:
    """`writes`: to each register, one after the other. `dead`: no packet comes here, which a condition that is constant
    says; only what could be reached is noted. `paths`: how many paths of the program come here, possible or not; 0:
    they are those of a clone."""

    conditions: tuple[Condition, ...] = ()
    memory: dict[str, Value] = field(default_factory=dict)
    writes: dict[str, tuple[Write, ...]] = field(default_factory=dict)
    dead: bool = False
    paths: int = 1

    def copy(self) -> State:
        return State(self.conditions, dict(self.memory), dict(self.writes), self.dead, self.paths)

    def fork(self, *branches: Any) -> list[State]:
        """A state for each branch; see `branches`."""
        states = []
        for conditions in self.branches(*branches):
            state = self.copy()
            state.conditions = conditions
            state.dead = self.dead or any(c.is_false for c in conditions[len(self.conditions) :])
            states.append(state)
        return states

    def branches(self, *branches: Any) -> list[tuple[Condition, ...]]:
        """The conditions of each branch, given its own, and at last the list of their texts. The conditions exclude
        each other, and one of them holds. A condition is a term, or True or False."""
        *terms, texts = (z3.BoolVal(False) if each is False else each for each in branches)
        number, of = next(_FORKS), sum(term is not False for term in branches[:-1])
        return [
            self.conditions
            if term is True
            else (*self.conditions, Condition(term, text, number, of, z3.is_false(term)))
            for term, text in zip(terms, texts, strict=True)
        ]

    @property
    def term(self) -> Any:
        """All conditions at once."""
        return conjunction(condition.term for condition in self.conditions)


def conjunction(terms: Iterable[Any]) -> Any:
    all_of = list(terms)
    return all_of[0] if len(all_of) == 1 else z3.And(*all_of)


def merged(states: Sequence[State]) -> State:
    """The state in which others join; the dead ones only if there is no other."""
    waiting = [state for state in states if not state.dead] or list(states[:1])
    while len(waiting) > 1:
        group = _whole_fork(waiting)
        if group is None:
            return _joined(waiting)
        prefix = group[0].conditions[:-1]
        waiting = [state for state in waiting if not any(state is each for each in group)]
        waiting.append(_combined(group, [each.conditions[-1].term for each in group], prefix))
    return waiting[0]


def _whole_fork(states: list[State]) -> list[State] | None:
    """States that are all branches of one fork, with nothing in between."""
    deepest = max(len(state.conditions) for state in states)
    groups: dict[tuple[Condition, ...], list[State]] = {}
    for state in states:
        if len(state.conditions) == deepest and deepest:
            groups.setdefault(state.conditions[:-1], []).append(state)
    for group in groups.values():
        last = [state.conditions[-1] for state in group]
        if len(group) > 1 and len(group) == last[0].of and len({each.fork for each in last}) == 1:
            return group
    return None


def _joined(states: list[State]) -> State:
    """States of which not all branches are there: that one of their conditions holds becomes a condition."""
    same = 0
    while all(len(s.conditions) > same and s.conditions[same] is states[0].conditions[same] for s in states):
        same += 1
    terms = [conjunction(c.term for c in state.conditions[same:]) for state in states]
    texts = [" and ".join(c.text for c in state.conditions[same:]) for state in states]
    one_of = Condition(z3.Or(*terms), " or ".join(dict.fromkeys(texts)), next(_FORKS), 1)
    return _combined(states, terms, (*states[0].conditions[:same], one_of))


def _combined(states: list[State], terms: list[Any], conditions: tuple[Condition, ...]) -> State:
    result = State(
        conditions, dict(states[-1].memory), dict(states[-1].writes), paths=sum(each.paths for each in states)
    )
    for state, term in zip(reversed(states[:-1]), reversed(terms[:-1]), strict=True):
        for name in [*state.memory, *(each for each in result.memory if each not in state.memory)]:
            one, other = state.memory.get(name), result.memory.get(name)
            if one is not other:
                result.memory[name] = _chosen(term, one, other)
        for name in {**state.writes, **result.writes}:
            one, other = state.writes.get(name, ()), result.writes.get(name, ())
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(one, other, strict=False)))
            branches = (term, one[same:]), (z3.Not(term), other[same:])
            result.writes[name] = *one[:same], *(w.only(when) for when, writes in branches for w in writes)
    return result


UNKNOWN_WIDTH = -1
"""of a value that is of one width in one branch and of another one in the other: nobody may read it"""


def _chosen(term: Any, one: Value | None, other: Value | None) -> Value:
    """Values of both branches; what has not been written in one of them is zero there."""
    width = max(each.bits for each in (one, other) if each is not None)
    a, b = (
        each if each is not None else const(width, 0) if width > 0 else Value(UNKNOWN_WIDTH, "")
        for each in (one, other)
    )
    return Value(UNKNOWN_WIDTH, "") if a.bits != b.bits or a.bits == UNKNOWN_WIDTH else chosen(term, a, b)


def chosen(term: Any, a: Value, b: Value) -> Value:
    """One of two values of the same width, by a condition; without a choice where one side is a constant of one bit,
    which validity mostly is."""
    if a is b or (a.const is not None and a.const == b.const):
        return a
    x, y = (each.ref if each.const is None else z3.BitVecVal(each.const, each.bits) for each in (a, b))
    if a.bits > 1:
        return Value(a.bits, z3.If(term, x, y))
    if a.const is not None and b.const is not None:
        return Value(1, term if a.const else z3.Not(term))
    if a.const is not None:
        return Value(1, z3.Or(term, y) if a.const else z3.And(z3.Not(term), y))
    if b.const is not None:
        return Value(1, z3.Or(z3.Not(term), x) if b.const else z3.And(term, x))
    return Value(1, z3.If(term, x, y))
