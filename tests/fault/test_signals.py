# SPDX-License-Identifier: Apache-2.0
"""Signals at any moment of `detour up`: nothing is left, and the next one works. And two fabrics side by side."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.engine import warm
from tests.fault.world import SMALL, TARGETS, World
from tests.waiting import PATIENCE_S, until

SEED = 17
ROUNDS = 6
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
STAGES = 4
"""lines that `up` prints at least before it is up"""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Otherwise whoever is interrupted while it compiles leaves that to the next one."""
    warm.ensure(print)


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[list[World]]:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    made = [World(folder) for folder in folders]
    yield made
    for world in made:
        for process in world.processes():
            process.kill()


def interrupt(process: subprocess.Popen[str], rng: random.Random, number: signal.Signals) -> str:
    """Sends a signal some time after some line of what the process prints; returns all of that."""
    output, stage = "", rng.randrange(1, STAGES + 1)  # before the first line Python itself may be interrupted
    assert process.stderr is not None
    for _ in range(stage):
        output += process.stderr.readline()
    threading.Event().wait(rng.choice([0.0, 0.02, 0.3]))
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    return output + err


def works(world: World, target: str) -> None:
    """A fabric can be started, is right, and ends."""
    world.json("up", "--detach", "--target", target, *SMALL)
    assert world.json("verify")["verified"] is True
    world.end()


@pytest.mark.parametrize("target", TARGETS)
def test_signals_while_a_fabric_starts(worlds: list[World], target: str) -> None:
    rng, world = random.Random(f"{SEED} {target}"), worlds[0]
    for turn in range(ROUNDS):
        number = SIGNALS[turn % len(SIGNALS)]
        output = interrupt(world.start("up", "--target", target, *SMALL), rng, number)
        assert "Traceback" not in output, (number.name, output)
        world.assert_clean(files=number != signal.SIGKILL)
    works(world, target)


@pytest.mark.parametrize("target", TARGETS)
def test_whoever_waits_for_a_detached_fabric_is_killed(worlds: list[World], target: str) -> None:
    """The fabric ends as well, or is up and can be ended."""
    rng, world = random.Random(f"{SEED} {target}"), worlds[0]
    for turn in range(ROUNDS // 2):
        interrupt(world.start("up", "--detach", "--target", target, *SMALL), rng, SIGNALS[turn % len(SIGNALS)])
        until(lambda: not world.processes() or world.run("status")[0] == 0)
        world.run("down")
        world.assert_clean()
    works(world, target)


@pytest.mark.parametrize("target", TARGETS)
def test_two_fabrics_side_by_side(worlds: list[World], target: str) -> None:
    one, two = worlds
    for world in worlds:
        world.json("up", "--detach", "--target", target, *SMALL)
    assert one.json("fail", "s0-s1")["failures"] == ["s0-s1"]
    assert two.json("status")["failures"] == []
    for world in worlds:
        assert world.json("verify")["verified"] is True
        assert world.json("send", "h0", "h5", "--bytes", "20000")["bytes_ok"] == 20000
    one.end()
    assert two.json("send", "h5", "h0", "--bytes", "20000")["bytes_ok"] == 20000
    two.daemon().send_signal(signal.SIGTERM)
    two.assert_clean()
