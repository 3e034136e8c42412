# SPDX-License-Identifier: Apache-2.0
"""However a fabric ends, nothing is left: no process, namespace, interface, socket or file."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import PATIENCE_S, until

SMALL = ["--topo", "dragonfly:p=1,a=2,h=1"]
TARGETS = ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)]


class World:
    """A user's view: a runtime folder of their own, and what exists on the machine besides."""

    def __init__(self, folder: Path) -> None:
        self.runtime = folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(self.runtime), "TMPDIR": str(folder)}
        self.folder = folder

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "detour.cli", *arguments]
        return subprocess.Popen(
            command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def json(self, *arguments: str) -> dict:
        code, out, err = self.run(*arguments, "--json")
        assert code == 0, err
        assert err == ""
        return json.loads(out)

    def send_for_long(self) -> subprocess.Popen[str]:
        """A command that sends and is not soon done."""
        before = self.json("counters", "s0")["s0"]["ports"]["1"]["rx_packets"]
        sender = self.start("send", "h0", "h5", "--bytes", "100M")
        until(lambda: self.json("counters", "s0")["s0"]["ports"]["1"]["rx_packets"] > before)
        return sender

    def processes(self) -> list[psutil.Process]:
        """Everything that runs on behalf of this world: it has its runtime folder in its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("XDG_RUNTIME_DIR") == str(self.runtime):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def daemon(self) -> psutil.Process:
        return psutil.Process(json.loads((self.runtime / "detour" / "fabric.json").read_text())["pid"])

    def assert_clean(self, files: bool = True) -> None:
        until(lambda: not self.processes())
        assert ours(os.listdir("/sys/class/net")) == []
        if files:
            assert [path for path in self.folder.rglob("*") if path != self.runtime] == []


def ours(interfaces: list[str]) -> list[str]:
    """Those that a fabric names so (and keeps in namespaces of its own)."""
    return [name for name in interfaces if re.fullmatch(r"s\d+-\d+", name)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    result = World(tmp_path)
    yield result
    for process in result.processes():
        process.kill()


@pytest.mark.parametrize("target", TARGETS)
def test_a_life(world: World, target: str) -> None:
    up = world.json("up", "--detach", "--target", target, *SMALL)
    assert (up["target"], up["switches"]) == (target, 6)
    code, _, err = world.run("up", "--detach", *SMALL)
    assert (code, err.count("\n")) == (2, 1)
    assert "is up already" in err
    assert world.json("verify")["verified"] is True
    assert world.json("provision")["inserted"] == 0
    sent = world.json("send", "h0", "h5", "--bytes", "30000")
    assert sent["bytes_ok"] == 30000
    assert world.json("fail", "s0-s1")["failures"] == ["s0-s1"]
    assert world.json("heal")["failures"] == []
    assert world.json("status")["failures"] == []
    assert world.json("down") == {"down": True}
    world.assert_clean()
    assert world.json("down") == {"down": False}
    code, _, err = world.run("status")
    assert (code, err) == (2, "detour: no fabric is up; `detour up --detach` starts one\n")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_fabric_in_the_foreground(world: World, target: str, number: signal.Signals) -> None:
    process = world.start("up", "--json", "--target", target, *SMALL)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["target"] == target
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "")
    world.assert_clean()


@pytest.mark.parametrize("target", TARGETS)
def test_a_signal_ends_a_fabric_that_is_not_up_yet(world: World, target: str) -> None:
    process = world.start("up", "--target", target, *SMALL)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("detour: ")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    world.assert_clean()


@pytest.mark.parametrize("target", TARGETS)
def test_a_fabric_that_is_killed_takes_its_processes_with_it(world: World, target: str) -> None:
    world.json("up", "--detach", "--target", target, *SMALL)
    world.daemon().kill()
    world.assert_clean(files=False)
    code, _, err = world.run("verify")
    assert (code, err.count("\n")) == (2, 1)
    assert "has died" in err
    world.assert_clean()
    # And the next one is not disturbed.
    world.json("up", "--detach", "--target", target, *SMALL)
    assert world.json("verify")["verified"] is True
    world.json("down")
    world.assert_clean()


@pytest.mark.bmv2
def test_a_switch_that_dies_is_started_again(world: World) -> None:
    world.json("up", "--detach", "--target", "bmv2", *SMALL)
    pid = world.json("status")["processes"]["s3"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: world.json("status")["processes"]["s3"] != pid)
    assert world.json("status")["restarts"] == {"s3": 1}
    until(lambda: not world.json("status")["lost"])
    assert world.json("verify")["verified"] is True
    assert world.json("send", "h0", "h5", "--bytes", "20000")["bytes_ok"] == 20000
    world.json("down")
    world.assert_clean()


def test_the_client_may_go_away_while_it_waits(world: World) -> None:
    world.json("up", "--detach", "--target", "engine", *SMALL)
    sender = world.send_for_long()
    sender.send_signal(signal.SIGINT)
    _, err = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 130
    assert "Traceback" not in err
    assert world.json("send", "h0", "h5", "--bytes", "1000")["bytes_ok"] == 1000
    world.json("down")
    world.assert_clean()


def test_down_does_not_wait_for_a_message(world: World) -> None:
    world.json("up", "--detach", "--target", "engine", *SMALL)
    sender = world.send_for_long()
    world.json("down")
    _, err = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 2
    assert err.count("\n") == 1
    world.assert_clean()


def test_an_address_that_is_taken(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = world.run("up", "--detach", "--target", "engine", "--grpc", address, *SMALL)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"detour: P4Runtime: cannot bind {address}: is the port taken?"
    world.assert_clean()


def test_a_demo_that_is_interrupted(world: World) -> None:
    process = world.start("demo", "--target", "engine", "--topo", "dragonfly:p=1,a=2,h=1")
    assert process.stderr is not None
    for line in process.stderr:
        if "traffic" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    world.assert_clean()
