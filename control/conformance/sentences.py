# SPDX-License-Identifier: Apache-2.0
"""The sentences of the specification that demand what checks try (`data/sentences.txt`)."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from detour.control.conformance.model import RequirementLevel

_FILE = Path(__file__).parent / "data" / "sentences.txt"


@dataclass(frozen=True)
class SpecSentence:
    """A sentence, with its section; for what is unspecified, why no sentence demands it. `checks`: patterns of ids."""

    level: RequirementLevel
    checks: tuple[str, ...]
    text: str


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
        if any(fnmatchcase(check, pattern) for pattern in sentence.checks):
            return sentence
    raise KeyError(f"no sentence is for the check {check}")
