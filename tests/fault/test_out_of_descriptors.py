# SPDX-License-Identifier: Apache-2.0
"""A fabric whose descriptors are used up by others, and one that does not end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from detour.base.errors import DetourError
from detour.fabric.daemon import client
from detour.fabric.daemon.state_dir import StateDir
from tests.fault.world import SMALL, World
from tests.waiting import PATIENCE_S, until


def limited(world: World, files: int, *arguments: str) -> dict:
    """As `World.json`, under a limit of open files."""
    command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", sys.executable, "-m", "detour.cli", *arguments]
    done = subprocess.run(
        [*command, "--json"],
        env=world.environment,
        cwd=world.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def taken(world: World, up: dict, connections: int, files: int) -> Iterator[psutil.Process]:
    """The daemon while connections that say nothing have taken so many of its descriptors."""
    port = int(up["endpoints"]["s0"]["address"].rpartition(":")[2])
    daemon = world.daemon()
    with ExitStack() as idle:
        for _ in range(connections):
            idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        until(lambda: daemon.num_fds() >= files)
        yield daemon


def test_idle_connections_take_all_descriptors(world: World) -> None:
    """Commands are answered none the less; when those who took them have gone, all is as before."""
    up = limited(world, 256, "up", "--detach", "--target", "engine", "--grpc", "127.0.0.1:0", *SMALL)
    assert up["switches"] == 6
    with taken(world, up, 400, 250) as daemon:
        assert world.json("status")["switches"] == 6
        for command in (("send", "h0", "h5", "--bytes", "30000"), ("verify",)):
            code, _, err = world.run(*command, "--json")
            assert (code, err) == (0, "") or (code == 2 and "the fabric has too little left" in err)
        # Who connects and says nothing is let go, so it works again though nobody of them has gone.
        until(lambda: world.run("send", "h0", "h5", "--bytes", "30000")[0] == 0)
        until(lambda: world.run("verify")[0] == 0)  # which needs more of them
        assert world.json("verify")["verified"] is True
    until(lambda: daemon.num_fds() < 100)
    assert world.json("verify")["verified"] is True
    world.end()


def test_down_while_all_descriptors_are_taken(world: World) -> None:
    up = limited(world, 128, "up", "--detach", "--target", "engine", "--grpc", "127.0.0.1:0", *SMALL)
    with taken(world, up, 200, 120):
        world.end()


STUBBORN = """
import signal, sys, socket, time
from pathlib import Path
from detour.fabric.daemon.state_dir import StateDir
for number in {ignored}:
    signal.signal(number, signal.SIG_IGN)
state = StateDir(Path(sys.argv[1]))
state.lock()
state.record({{"target": "engine", "topology": "d1"}})
listening = socket.socket(socket.AF_UNIX)
listening.bind(str(state.socket))
listening.listen(8)
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize(("ignored", "ended_by"), [((), signal.SIGTERM), ((int(signal.SIGTERM),), signal.SIGKILL)])
def test_down_falls_back_to_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: tuple[int, ...], ended_by: signal.Signals
) -> None:
    """It listens and never answers; what it leaves behind is removed."""
    monkeypatch.setattr(client, "_ASKED_S", 0.2)
    monkeypatch.setattr(client, "DOWN_SECONDS", 10.0 if ended_by is signal.SIGTERM else 0.5)
    state = StateDir(tmp_path / "detour")
    code = textwrap.dedent(STUBBORN).format(ignored=ignored)
    process = subprocess.Popen([sys.executable, "-c", code, str(state.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        threading.Thread(target=process.wait, daemon=True).start()
        with pytest.raises(DetourError, match="does not answer"):
            client.call(state.socket, "status", {}, silence_s=0.2)
        assert client.down(state) is True
        until(lambda: process.poll() is not None)
        assert process.returncode == -ended_by
        assert not state.path.exists()
        assert client.down(state) is False
    finally:
        process.kill()


def test_a_daemon_that_is_stopped_is_killed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ASKED_S", 0.2)
    monkeypatch.setattr(client, "DOWN_SECONDS", 0.5)
    world.json("up", "--detach", "--target", "engine", *SMALL)
    process = world.daemon()
    process.suspend()
    assert client.down(StateDir(world.runtime / "detour")) is True
    until(lambda: not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE)
    world.assert_clean()
