# SPDX-License-Identifier: Apache-2.0
"""Checks, the sentences of the specification that demand them (`data/sentences.txt`), the server under test, and
results."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from fnmatch import translate
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finsy.proto import p4r

CheckFunction = Callable[[Any], None]
"""takes a `CheckSession`; raises `RequirementMissed`"""


class RequirementLevel(StrEnum):
    """Level of a specification sentence behind a check; `unspecified`: none does."""

    MUST = "must"
    SHOULD = "should"
    UNSPECIFIED = "unspecified"


class ConformanceVerdict(StrEnum):
    """`differs`: a should that is not done. `not_offered`: UNIMPLEMENTED, or the program or the device lacks what is
    needed. `unspecified`: the server does otherwise, and no sentence says that it must not."""

    PASS = "pass"
    FAIL = "fail"
    DIFFERS = "differs"
    NOT_OFFERED = "not_offered"
    UNSPECIFIED = "unspecified"


@dataclass(frozen=True)
class ServerUnderTest:
    """`config`: another program than the suite's. `second_device` and `down_port`, a port that is down, are for checks
    that need one."""

    address: str
    device_id: int = 1
    config: p4r.ForwardingPipelineConfig | None = None
    second_device: int | None = None
    down_port: int | None = None


@dataclass(frozen=True)
class ConformanceCheck:
    """One requirement: its section in version 1.5 of the specification, paraphrased, and what tries it. `quote`: the
    sentence that demands it, or why none does."""

    id: str
    section: str
    requirement: str
    level: RequirementLevel
    quote: str
    run: CheckFunction


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: the messages that were sent and received, in text format, and the expected answer.

    `prepared` is false if the server refused what the check needs before it can try its requirement."""

    id: str
    section: str
    requirement: str
    level: RequirementLevel
    quote: str
    verdict: ConformanceVerdict
    sent: str
    got: str
    expected: str
    prepared: bool = True


@dataclass
class ConformanceReport:
    """The results of one run, in the order of the specification's sections. `notes`: what could not be put back.
    `untried`: checks for which there was no server any more, or no time (`interrupted`)."""

    results: list[CheckResult]
    notes: list[str]
    untried: int = 0
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def summary(self) -> dict[str, int]:
        return {verdict.value: sum(r.verdict is verdict for r in self.results) for verdict in ConformanceVerdict}

    def as_json(self) -> dict[str, Any]:
        """`checks` and `summary` are the contract of `detour conformance --json`."""
        keys = ("id", "section", "requirement", "level", "quote", "verdict", "sent", "got", "expected")
        rows = [{key: str(value) for key, value in asdict(result).items() if key in keys} for result in self.results]
        return {"checks": rows, "summary": self.summary}


_FILE = Path(__file__).parent / "data" / "sentences.txt"


@dataclass(frozen=True)
class SpecSentence:
    """A sentence, with its section; for what is unspecified, why no sentence demands it. `checks`: patterns of ids."""

    level: RequirementLevel
    checks: tuple[str, ...]
    text: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Match the ids of `checks`."""
        return re.compile("|".join(map(translate, self.checks)))


@cache
def read_sentences() -> tuple[SpecSentence, ...]:
    """All of them, in order."""
    lines = [line for line in _FILE.read_text().splitlines() if line and not line.startswith("#")]
    heads = [line.split() for line in lines[::2]]
    return tuple(
        SpecSentence(RequirementLevel(level), tuple(checks), text.strip())
        for (level, *checks), text in zip(heads, lines[1::2], strict=True)
    )


def sentence_of(check: str) -> SpecSentence:
    """The first sentence one of whose patterns the check's id fits. KeyError if there is none."""
    for sentence in read_sentences():
        if sentence.pattern.match(check):
            return sentence
    raise KeyError(f"no sentence is for the check {check}")
