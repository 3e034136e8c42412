# SPDX-License-Identifier: Apache-2.0
"""Waiting until a simple_switch_grpc answers, whatever comes first: it listens, it ends, Ctrl-C."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.engine.p4runtime import P4RuntimeServer
from detour.fabric.backends.bmv2 import switch as bmv2_switch
from detour.fabric.backends.bmv2.switch import SwitchProcess
from detour.topo import parse_topology
from tests.unit.p4runtime.harness import FakeNetwork
from tests.waiting import PATIENCE_S

# Prints how often it was interrupted.
_INTERRUPTED = """
import gc, signal, sys, threading
from tests.unit.fabric.test_bmv2_start import waiting_for
from tests.waiting import until

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
interrupted = 0
for turn in range(24):
    process = waiting_for(sys.argv[1])
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 * 1.6**turn)  # up to half a second
        process.wait_ready()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
        until(lambda: threading.active_count() == 1)  # what was begun is held by this thread alone
    del process
    gc.collect()
print(interrupted)
"""


def waiting_for(path: str, ended: int | None = None) -> SwitchProcess:
    """A switch whose process is not there; whoever listens at `path` is taken for it."""
    process: Any = SwitchProcess.__new__(SwitchProcess)
    process.switch = SimpleNamespace(name="s0", device_id=1)
    process.process = SimpleNamespace(poll=lambda: ended)
    process._socket = Path(path)
    process._log = Path(path).with_name("log")
    return process


def test_interrupted_at_any_moment(tmp_path: Path) -> None:
    """It goes on to its end. A channel of gRPC's that is interrupted while it closes waits for itself for ever."""
    path = tmp_path / "p4rt"
    with P4RuntimeServer(FakeNetwork(), f"unix:{path}"):
        done = subprocess.run(
            [sys.executable, "-c", _INTERRUPTED, str(path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=Path(__file__).parents[3],
        )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "the signals came too late"


def test_it_listens_at_last(tmp_path: Path) -> None:
    """No socket, then one that nobody listens at, then one that somebody does."""
    path = tmp_path / "p4rt"
    ready = threading.Thread(target=waiting_for(str(path)).wait_ready)
    with socket.socket(socket.AF_UNIX) as there:
        ready.start()
        there.bind(str(path))
        ready.join(0.1)
        assert ready.is_alive()
        there.listen()
        ready.join(PATIENCE_S)
        assert not ready.is_alive()


def test_it_ends(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\nno such interface\n")
    with pytest.raises(DetourError, match="s0: simple_switch_grpc ended with status 3: no such interface"):
        waiting_for(str(tmp_path / "p4rt"), ended=3).wait_ready()


def test_it_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmv2_switch, "_START_SECONDS", 0.05)
    (tmp_path / "log").touch()
    with pytest.raises(DetourError, match="s0: simple_switch_grpc does not answer: it said nothing"):
        waiting_for(str(tmp_path / "p4rt")).wait_ready()


# -- the Thrift port, which opens after P4Runtime's ----------------------------------------------------------


def process_at(port: int, ended: int | None = None, before: Callable[[], None] = lambda: None) -> SwitchProcess:
    """A switch whose Thrift port is `port` of this machine. `before`: happens before each attempt to connect."""

    def run(function: Callable[..., Any], *arguments: Any) -> Any:
        before()
        return function(*arguments)

    process = object.__new__(SwitchProcess)
    process.switch = parse_topology("d1").switches[3]
    process.process = SimpleNamespace(poll=lambda: ended)  # type: ignore[assignment]
    process._namespace = SimpleNamespace(run=run)  # type: ignore[assignment]
    process._thrift_port = port
    return process


class Registering:
    """A connection to BMv2, which registers the target's service after it has begun to listen."""

    unknown = 2

    def __init__(self, sock: socket.socket, where: str) -> None:
        self.close, self.target = sock.close, self

    def get_time_elapsed_us(self) -> int:
        if Registering.unknown:
            Registering.unknown -= 1
            raise DetourError("Unknown service: simple_switch")
        return 0


def test_a_port_that_is_opened_and_a_service_that_is_registered_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """BMv2 says that it is ready before the thread that serves Thrift listens."""
    monkeypatch.setattr(bmv2_switch, "Connection", Registering)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        attempts = iter((lambda: None, lambda: None, server.listen, lambda: None, lambda: None))
        process = process_at(server.getsockname()[1], before=lambda: next(attempts)())
        process.thrift().close()
    assert next(attempts, None) is None


@pytest.mark.parametrize("ended", [None, 1])
def test_a_port_that_is_never_opened(monkeypatch: pytest.MonkeyPatch, ended: int | None) -> None:
    monkeypatch.setattr(bmv2_switch, "_THRIFT_SECONDS", 0.05)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        with pytest.raises(DetourError, match=r"switch s3: Thrift port .* needs? a BMv2 that is built with Thrift"):
            process_at(server.getsockname()[1], ended).thrift()
