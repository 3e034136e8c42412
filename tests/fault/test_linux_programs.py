# SPDX-License-Identifier: Apache-2.0
"""`detour exec`, the example of docs/linux-hosts.md, and that nothing is left of Linux hosts however a fabric ends."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.fabric.linux.keeper import missing
from tests.fault.world import World
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

DOCUMENT = Path(__file__).parents[2] / "docs" / "linux-hosts.md"
UP = ("up", "--target", "engine", "--topo", "dragonfly:p=1,a=2,h=1", "--linux", "h0,h5", "--detach")


class User(World):
    """Somebody who runs programs on hosts of a fabric."""

    def command(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "detour.cli", *arguments]
        return subprocess.run(
            command, env=self.environment, input=text, text=True, capture_output=True, timeout=PATIENCE_S, check=False
        )

    def inside(self, host: str, *words: str) -> str:
        done = self.command("exec", host, "--", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    account = User(tmp_path)
    yield account
    account.command("down")


def test_exec_is_the_command(user: User) -> None:
    assert "no fabric is up" in user.command("exec", "h0", "--", "true").stderr
    assert user.command(*UP).returncode == 0
    assert user.inside("h5", "hostname") == "h5\n"
    assert user.inside("h0", "pwd") == f"{os.getcwd()}\n"
    assert user.command("exec", "h0", "--", "sh", "-c", "exit 7").returncode == 7
    assert user.command("exec", "h0", "sh", "-c", "cat; exit 3", text="through\n").stdout == "through\n"
    unknown = user.command("exec", "h0", "--", "no-such-command")
    assert (unknown.returncode, "no-such-command: not found" in unknown.stderr) == (127, True)
    for arguments, says in (
        (("h1", "--", "true"), "detour: h1 is not a Linux host; these are: h0, h5\n"),
        (("h0", "--"), "detour: nothing to run: `detour exec h0 -- COMMAND`\n"),
    ):
        done = user.command("exec", *arguments)
        assert (done.returncode, done.stderr) == (2, says)
    ended = subprocess.Popen(
        [sys.executable, "-m", "detour.cli", "exec", "h0", "--", "sh", "-c", "echo begun; exec sleep 1000"],
        env=user.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with ended:
        assert ended.stdout is not None
        assert ended.stdout.readline() == "begun\n"
        ended.terminate()
    until(lambda: "sleep" not in user.inside("h0", "ps", "ax"))


@pytest.mark.parametrize("end", ["down", "kill"])
def test_nothing_is_left(user: User, end: str) -> None:
    assert user.command(*UP).returncode == 0
    inside = subprocess.Popen(
        [sys.executable, "-m", "detour.cli", "exec", "h0", "--", "sleep", "1000"], env=user.environment
    )
    user.inside("h5", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &")
    if end == "down":
        assert user.command("down").returncode == 0
    else:
        user.daemon().kill()
    inside.wait(PATIENCE_S)
    until(lambda: not user.processes())
    assert user.command(*UP).returncode == 0
    assert user.inside("h0", "hostname") == "h0\n"


@pytest.mark.skipif(shutil.which("ping") is None, reason="ping is not on PATH")
def test_the_example_of_the_document(user: User) -> None:
    example = DOCUMENT.read_text().partition("### A detour by uSIDs")[2].partition("## ECN")[0]
    lines = [shlex.split(line)[1:] for line in re.findall("^    (detour .*)$", example, re.MULTILINE)]
    assert [line[0] for line in lines] == ["up", "path", "exec", "exec", "counters", "down"]
    outputs = []
    for line in lines:
        done = user.command(*line)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert lines[2][lines[2].index("segs") + 1] == re.findall("usid:([0-9a-f:]+::):", outputs[1])[0]
    assert " 0% packet loss" in outputs[3]
    ports = [line.split() for line in outputs[4].splitlines() if line.strip().startswith("s2:")]
    assert sum(int(cells[1]) for cells in ports) >= 3
