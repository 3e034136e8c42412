# SPDX-License-Identifier: Apache-2.0
"""Fuzzing finds faults that were put in on purpose, keeps what caused them, and finds them again by the seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.budget import Budget
from tests.fuzz.guard import CANARY, Region
from tests.fuzz.supervisor import Outcome, supervise

SEED = 5


def _find(fault: str, keep: Path, first: int = 0, silence: float = 600.0) -> tuple[Outcome, dict[str, Any]]:
    """What came of a target with a fault, and what was kept of it."""
    outcome = supervise(f"planted:{fault}", SEED, Budget(600.0, 200_000, first), keep=keep, silence=silence)
    assert outcome.reproducer is not None, outcome
    return outcome, json.loads(outcome.reproducer.read_text())


@pytest.mark.long
def test_a_parser_that_leaves_the_packet(tmp_path: Path) -> None:
    """Native code crashes in the child; the round alone does the same again, at the same packet."""
    outcome, kept = _find("bounds", tmp_path / "once")
    assert outcome.failure == "crash: SIGSEGV"
    assert kept["stage"] == "parse"
    again, kept_again = _find("bounds", tmp_path / "again", first=kept["note"]["round"])
    assert again.failure == outcome.failure
    for name in ("note", "index", "packet", "stage", "port"):
        assert kept_again[name] == kept[name]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("table", "expected"),
        ("json", "KeyError: 'planted'"),
        ("server", "KeyError: 'planted'"),
        ("hosts", "are wrong after"),
    ],
)
def test_other_faults(fault: str, text: str, tmp_path: Path) -> None:
    """Faults that are no crash."""
    outcome, kept = _find(fault, tmp_path)
    assert text in (outcome.failure or "")
    assert f"--seed {SEED} --first {kept['note']['round']}" in kept["again"]
    if fault != "table":  # whose rounds need no data but their number
        assert (tmp_path / f"{outcome.reproducer.stem}.bin").read_bytes()  # type: ignore[union-attr]


@pytest.mark.long
def test_a_child_that_hangs(tmp_path: Path) -> None:
    """It is killed."""
    outcome, kept = _find("hang", tmp_path, silence=6.0)
    assert outcome.failure == "it does not come to an end"
    assert kept["note"]["program"] == "fabric"


@pytest.fixture
def crowded() -> Iterator[None]:
    """One processor for this process, its children and three others that are always busy."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(3)]
    yield
    for process in others:
        process.kill()
        process.wait()
    os.sched_setaffinity(0, before)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not tell who waits")
def test_a_child_that_has_no_processor_does_not_hang(crowded: None, tmp_path: Path) -> None:
    """It needs 1.5 seconds of one that it has for a quarter of the time."""
    outcome = supervise("planted:slow", SEED, Budget(count=1), keep=tmp_path, silence=4.0)
    assert (outcome.failure, outcome.result) == (None, {"seconds": 1.5})


@pytest.mark.parametrize("rear", [False, True])
@pytest.mark.parametrize("size", [1, 100, 4096, 5000])
def test_canaries(size: int, rear: bool) -> None:
    """A byte beside the room is noticed, one in it is not."""
    region = Region(size)
    room = region.use(rear)
    room[:] = CANARY ^ 1
    assert len(room) == size
    assert region.intact()
    beside = room.ctypes.data - 1 if rear else room.ctypes.data + size
    region._bytes[beside - region._bytes.ctypes.data] = 0
    assert not region.intact()
