# SPDX-License-Identifier: Apache-2.0
"""The wall clock is set, by hours and days, both ways: a fabric in real time, its daemon and its time limits go on.

The clock of the daemon and of every command is stepped by a library that is preloaded into them (the machine's own
clock is left alone); it is the C library's, so it is what Python, gRPC and native code see.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.fabric.daemon.control_socket import call
from tests.fault.world import SMALL, World
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.timeout(1800)  # many commands, on a machine that may be busy
DAY = 86400


class Stepped(World):
    """A world whose wall clock can be set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._offset = folder / "offset"
        self.step(0)
        library = folder / "clock_steps.so"
        source = Path(__file__).with_name("clock_steps.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=PATIENCE_S)
        self.environment |= {"LD_PRELOAD": str(library), "CLOCK_STEPS": str(self._offset)}

    def step(self, seconds: int) -> None:
        """Sets the wall clock of all processes that far from the real one."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:  # in place: it is mapped
            file.write(struct.pack("q", seconds))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Stepped]:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    result = Stepped(tmp_path)
    yield result
    for process in result.processes():
        process.kill()


def test_the_clock_really_is_another_one(world: Stepped) -> None:
    script = "import time; print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic())"
    clocks = []
    for seconds in (0, 1000 * DAY):
        world.step(seconds)
        command = ["python3", "-c", script]
        done = subprocess.run(command, env=world.environment, capture_output=True, text=True, check=True, timeout=60)
        clocks.append([float(word) for word in done.stdout.split()])
    assert clocks[1][0] - clocks[0][0] > 999 * DAY
    assert clocks[1][1] - clocks[0][1] > 999 * DAY
    assert clocks[1][2] - clocks[0][2] < DAY


def test_a_fabric_lives_through_steps_of_the_clock(world: Stepped) -> None:
    world.json("up", "--detach", "--target", "engine", *SMALL)
    daemon = world.runtime / "detour" / "control.sock"
    for seconds in (DAY, -DAY, 3600, -365 * DAY, 0):
        world.step(seconds)
        assert call(daemon, "send", {"source": "h0", "target": "h5", "length": 30000})["bytes_ok"] == 30000
        assert call(daemon, "verify", {})["verified"] is True
        assert call(daemon, "fail", {"name": "s0-s1"})["failures"] == ["s0-s1"]
        assert call(daemon, "heal", {})["failures"] == []
        assert 0 <= call(daemon, "status", {})["seconds_up"] < DAY / 2
    assert world.json("down") == {"down": True}


def test_a_step_while_a_message_is_under_way(world: Stepped) -> None:
    world.json("up", "--detach", "--target", "engine", *SMALL)
    sender = world.start("send", "h0", "h5", "--bytes", "3M", "--json")
    for seconds in (DAY, -DAY, 10 * DAY, -10 * DAY):
        before = world.json("counters", "s0")["s0"]["ports"]["1"]["rx_packets"]
        world.step(seconds)
        assert world.json("counters", "s0")["s0"]["ports"]["1"]["rx_packets"] >= before
    out, err = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 0, err
    assert '"bytes_ok": 3000000' in out
    assert world.json("down") == {"down": True}
