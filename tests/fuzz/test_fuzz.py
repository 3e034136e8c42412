# SPDX-License-Identifier: Apache-2.0
"""The share of fuzzing that runs each time, seeded; `make fuzz` goes on for longer, with any seed."""

from __future__ import annotations

import os

import pytest

from tests.fuzz import seeds
from tests.fuzz.budget import Budget
from tests.fuzz.supervisor import Outcome, supervise

SEED = int(os.environ.get("DETOUR_FUZZ_SEED", "1"))
PACKETS = 15_000_000
# As many, whatever the time they take: with one seed it is the same every time.
_MUTANTS, _CHANGES, _REQUESTS, _TRACED = 60, 4000, 2000, 1600


def _fuzz(target: str, count: int) -> Outcome:
    outcome = supervise(target, SEED, Budget(count=count))
    assert outcome.failure is None, f"seed {SEED}: {outcome.failure}\nkept in {outcome.reproducer}"
    print(target, outcome.result)
    return outcome


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_packets() -> None:
    """Fifteen million, so that each program of the corpus has its turn."""
    result = _fuzz("pipeline", PACKETS).result
    assert result["packets"] >= PACKETS
    assert result["programs"] == len(seeds.corpus()) + 1
    assert min(result[name] for name in ("parser_errors", "dropped", "sent", "clones", "again", "digests")) > 1000


@pytest.mark.long
def test_tables() -> None:
    """Changes while packets run, against a reference."""
    result = _fuzz("tables", _CHANGES).result
    assert result["changes"] >= _CHANGES
    assert result["lookups"] > _CHANGES // 2
    assert result["refused"] > 0


@pytest.mark.long
def test_traced() -> None:
    """With tracing and without it the same happens."""
    result = _fuzz("traced", _TRACED).result
    assert result["packets"] >= _TRACED
    assert result["traced"] > _TRACED // 4
    assert result["sent"] > _TRACED // 4


@pytest.mark.parametrize("frames", [8_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_hosts(frames: int) -> None:
    """Mutated frames at the host stacks, beside a model."""
    result = _fuzz("hosts", count=frames).result
    assert result["mutants"] >= frames
    assert result["mutants believed or weighed"] > frames // 20
    assert min(result[name] for name in ("bytes delivered", "completions SUCCESS", "answers_dropped")) > 100
    assert min(result[name] for name in ("rx_old_connection", "cnps", "ptrs", "rx_refused")) > 0


@pytest.mark.long
def test_json() -> None:
    """Mutants of programs are refused by one line of text, or run."""
    result = _fuzz("json", _MUTANTS).result
    assert result["accepted"] > _MUTANTS // 10
    assert result["refused"] > _MUTANTS // 10


@pytest.mark.long
def test_p4runtime() -> None:
    """Mutated requests get a status."""
    result = _fuzz("p4runtime", _REQUESTS).result
    assert result["requests"] >= _REQUESTS
    assert result["status OK"] > 0
    assert result["elements refused"] > 0
