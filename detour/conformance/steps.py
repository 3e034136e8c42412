# SPDX-License-Identifier: Apache-2.0
"""Building blocks for the rows of `checks/`: recipes for entities, and steps that send them and look at the answers.

`must("member.in_group", "9.2.1", "...", prepare(sample.member(), sample.group(0, 1)), refuse(IN_USE,
sample.member().delete))`: a member that a group has cannot be deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from finsy.proto import p4r

from detour.conformance.link import Canonical, RpcAnswer
from detour.conformance.model import ConformanceCheck, sentence_of
from detour.conformance.samples import NO_ID, MissingObject, Samples, duplicate, inner, put
from detour.conformance.session import QUIET_S, CheckSession, NotPrepared

__all__ = [
    "DENIED", "EXISTS", "FULL", "INVALID_ARGUMENT", "IN_USE", "NOT_FOUND", "NO_DEVICE", "NO_ID", "NO_ROLE",
    "OUT_OF_RANGE", "WRONG_ID", "Canonical", "CheckSession", "CheckStep", "ConformanceCheck", "MissingObject",
    "NotPrepared", "Recipe", "RpcAnswer", "Samples", "accept", "answers", "comes", "do", "holds", "keeps", "lacks",
    "leaves", "many", "prepare", "quiet", "read_answers", "reads", "refuse", "refuse_read", "rows", "sample", "says",
    "step", "stores", "tries", "writes",
]  # fmt: skip
"""the vocabulary of the tables"""

INVALID_ARGUMENT, NOT_FOUND, EXISTS = Canonical.INVALID_ARGUMENT, Canonical.NOT_FOUND, Canonical.ALREADY_EXISTS
DENIED, IN_USE, FULL = Canonical.PERMISSION_DENIED, Canonical.FAILED_PRECONDITION, Canonical.RESOURCE_EXHAUSTED
OUT_OF_RANGE = Canonical.OUT_OF_RANGE
WRONG_ID = (INVALID_ARGUMENT, NOT_FOUND)
NO_DEVICE = 0xDEAD_BEEF
NO_ROLE = "nobody has this role"
_OWN = {"table_id", "is_default_action", "action_profile_id", "digest_id", "counter_id", "meter_id", "register_id",
        "index", "value_set_id"}  # fmt: skip
_KEY = _OWN | {"match", "priority", "member_id", "group_id", "multicast_group_id", "session_id", "table_entry"}

CheckStep = Callable[[CheckSession], object]


class Recipe:
    """Instructions to make an entity, or an update, for any program."""

    def __init__(self, make: Callable[[Samples], Any]) -> None:
        self.make = make

    def but(self, path: str, value: Any) -> Recipe:
        """With something else at a path of the entity's message (`samples.put`); a function gets the samples."""

        def make(samples: Samples) -> p4r.Entity:
            entity = self.make(samples)
            put(inner(entity), path, value(samples) if callable(value) else value)
            return entity

        return Recipe(make)

    def altered(self, change: Callable[[Any], object]) -> Recipe:
        """With its message changed by a function."""

        def make(samples: Samples) -> p4r.Entity:
            entity = self.make(samples)
            try:
                change(inner(entity))
            except IndexError:
                raise MissingObject("the action that would be used has no parameters") from None
            return entity

        return Recipe(make)

    def _only(self, fields: set[str]) -> Recipe:
        return self.altered(lambda m: [m.ClearField(f.name) for f, _ in m.ListFields() if f.name not in fields])

    @property
    def key(self) -> Recipe:
        """Only what identifies it."""
        return self._only(_KEY)

    @property
    def own(self) -> Recipe:
        """The request for all of its P4Info object, or for the element of an array."""
        return self._only(_OWN)

    @property
    def every(self) -> Recipe:
        """The request for all of its kind."""
        return self.altered(lambda m: m.Clear() or m.SetInParent())

    def update(self, kind: str | int) -> Recipe:
        """INSERT, MODIFY, DELETE or UNSPECIFIED of the entity, or of each of them; or a number that is not a type."""
        value: Any = p4r.Update.Type.Value(kind) if isinstance(kind, str) else kind

        def make(samples: Samples) -> Any:
            made = self.make(samples)
            updates = [p4r.Update(type=value, entity=e) for e in (made if isinstance(made, list) else [made])]
            return updates if isinstance(made, list) else updates[0]

        return Recipe(make)

    @property
    def insert(self) -> Recipe:
        return self.update("INSERT")

    @property
    def modify(self) -> Recipe:
        return self.update("MODIFY")

    @property
    def delete(self) -> Recipe:
        return self.update("DELETE")


class _Sample:
    """`sample.member(1)` is the recipe that calls that method of `Samples`."""

    def __getattr__(self, name: str) -> Callable[..., Recipe]:
        return lambda *arguments, **fields: Recipe(lambda s: getattr(s, name)(*arguments, **fields))


sample = _Sample()


def many(recipe: Callable[[int], Recipe], count: int | Callable[[Samples], int], start: int = 0) -> Recipe:
    """`recipe(start)`, `recipe(start + 1)`, ... as one argument of a step."""
    return Recipe(lambda s: [recipe(start + n).make(s) for n in range(count(s) if callable(count) else count)])


# -- steps


def _given(samples: Samples, arguments: tuple[Any, ...]) -> list[Any]:
    """Recipes carried out, those of many as so many arguments."""
    given: list[Any] = []
    for argument in arguments:
        made = argument.make(samples) if isinstance(argument, Recipe) else argument
        given += made if isinstance(argument, Recipe) and isinstance(made, list) else [made]
    return given


def step(function: Callable[..., Any]) -> Callable[..., CheckStep]:
    """Steps of a function whose first argument is the session: `step(f)(x)` is the step that calls `f(session, x)`.
    Recipes among the arguments are carried out."""
    return lambda *arguments, **fields: lambda s: function(s, *_given(s.samples, arguments), **fields)


def _answered(method: Callable[..., RpcAnswer]) -> Callable[..., CheckStep]:
    """Steps that call a method of the session, of whose answer a measure must be as expected."""

    def judged(
        session: CheckSession, what: str, expected: Any, measure: Callable[[Any], Any], *arguments: Any, **fields: Any
    ) -> None:
        value = measure(method(session, *arguments, **fields))
        session.same(value, expected(session.samples) if callable(expected) else expected, what)

    return step(judged)


prepare, do, accept = step(CheckSession.prepare), step(CheckSession.do), step(CheckSession.accept)
refuse, refuse_read = step(CheckSession.refuse), step(CheckSession.refuse_read)
holds, lacks = step(CheckSession.holds), step(CheckSession.lacks)
tries, leaves = step(CheckSession.write), step(CheckSession.leave)
answers, read_answers = _answered(CheckSession.write), _answered(CheckSession.try_read)


def writes(code: int, *updates: Recipe, **fields: Any) -> CheckStep:
    """A Write, by default an INSERT, must end with a code."""
    updates = updates or (sample.entry("exact").insert,)
    return answers("code of the call", code, lambda answer: answer.code, *updates, **fields)


@step
def stores(session: CheckSession, update: p4r.Update, *entities: p4r.Entity, request: Recipe | None = None) -> None:
    """An update must be accepted and be read back as it was written, or as these entities. By default that is asked
    for by the key."""
    session.accept(update)
    key = Recipe(lambda _: duplicate(update.entity)).key
    session.holds((request or key).make(session.samples), *(entities or (update.entity,)))


@step
def keeps(session: CheckSession, request: p4r.Entity, *steps: CheckStep) -> None:
    """Check that a read returns the same after some steps."""
    before = session.read(request)
    _all_steps(steps, session)
    session.holds(request, *before)


@step
def reads(
    session: CheckSession,
    request: p4r.Entity,
    what: str,
    expected: Any,
    measure: Callable[[list[p4r.Entity]], Any] = len,
) -> None:
    """A measure of what a read gives must be as expected; a function as `expected` gets the samples."""
    value = measure(session.read(request))
    session.same(value, expected(session.samples) if callable(expected) else expected, what)


@step
def comes(
    session: CheckSession,
    kind: str,
    what: str = "",
    expected: Any = None,
    measure: Callable[[Any], Any] = bool,
    who: int | None = None,
) -> None:
    """A message must come on a stream (`CheckSession.stream`), and its measure be as expected unless `what` is empty.
    A function as `expected` gets the session."""
    message = session.receive(session.stream(who), kind)
    if what:
        session.same(measure(message), expected(session) if callable(expected) else expected, what)


def quiet(kind: str, who: int | None = None, seconds: float = QUIET_S) -> CheckStep:
    return lambda session: session.is_quiet(session.stream(who), kind, seconds)


def says(**message: Any) -> CheckStep:
    """On our stream."""
    return lambda session: session.send(session.stream(), **message)


# -- rows


def _all_steps(steps: Sequence[CheckStep], session: CheckSession) -> None:
    for step in steps:
        step(session)


def rows(
    prefix: str, *table: tuple[Any, ...], title: str = "", before: CheckStep | None = None
) -> list[ConformanceCheck]:
    """The checks of a table. A row has a name, which goes behind the prefix, the section of the specification, the
    requirement, which goes behind the title, and the steps. `before`: a step that comes before those of each row."""
    checks = []
    for name, section, requirement, *steps in table:
        sentence = sentence_of(id_ := f"{prefix}.{name}")
        run = partial(_all_steps, [*([before] if before else []), *steps])
        text = f"{title}{requirement}"
        checks.append(ConformanceCheck(id_, section, text, sentence.level, sentence.text, run))
    return checks
