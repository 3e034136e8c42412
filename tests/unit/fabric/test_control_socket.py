# SPDX-License-Identifier: Apache-2.0
"""How commands reach a running fabric."""

import json
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.fabric.base import Tell
from detour.fabric.control_socket import ControlServer, call
from tests.waiting import PATIENCE_S


class Operations:
    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    def add(self, a: int, b: int = 1) -> dict[str, int]:
        return {"sum": a + b}

    def slow(self, tell: Tell, cancelled: threading.Event) -> str:
        tell("begun")
        self.begun.set()
        assert cancelled.wait(10)
        self.cancelled.set()
        return "never seen"

    def refuse(self) -> None:
        raise DetourError("no such thing")

    def crash(self) -> None:
        raise ZeroDivisionError("oh")


@pytest.fixture
def operations() -> Operations:
    return Operations()


@pytest.fixture
def path(operations: Operations, tmp_path: Path) -> Iterator[Path]:
    names = ("add", "slow", "refuse", "crash")
    server = ControlServer(tmp_path / "control.sock", {name: getattr(operations, name) for name in names})
    server.start()
    yield tmp_path / "control.sock"
    server.stop()
    server.stop()
    assert not (tmp_path / "control.sock").exists()


def raw(path: Path, request: bytes) -> dict:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(request)
        with connection.makefile("rb") as lines:
            return json.loads(lines.readline())


def test_results_errors_and_defaults(path: Path) -> None:
    assert call(path, "add", {"a": 2}) == {"sum": 3}
    assert call(path, "add", {"a": 2, "b": None}) == {"sum": 3}
    with pytest.raises(DetourError, match=r"^no such thing$"):
        call(path, "refuse", {})
    with pytest.raises(DetourError, match="there is no 'fly'; there are add, slow"):
        call(path, "fly", {})
    with pytest.raises(DetourError, match="add has no c"):
        call(path, "add", {"a": 1, "c": 1})
    with pytest.raises(DetourError, match="slow has no cancelled"):
        call(path, "slow", {"cancelled": 1})


def test_a_crash_is_reported_and_the_server_lives_on(path: Path) -> None:
    with pytest.raises(DetourError, match="internal error: ZeroDivisionError: oh"):
        call(path, "crash", {})
    assert call(path, "add", {"a": 1}) == {"sum": 2}


@pytest.mark.parametrize(
    "request_line", [b"\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b'{"do": "add", "with": 3}\n', b"x" * 70000]
)
def test_nonsense_is_refused(path: Path, request_line: bytes) -> None:
    assert "one line" in raw(path, request_line)["error"]
    assert call(path, "add", {"a": 1}) == {"sum": 2}


def test_a_client_that_says_nothing_is_forgotten(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
    assert call(path, "add", {"a": 1}) == {"sum": 2}


def test_going_away_cancels(path: Path, operations: Operations) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b'{"do": "slow"}\n')
        assert operations.begun.wait(PATIENCE_S)
    assert operations.cancelled.wait(PATIENCE_S)


def test_others_are_served_meanwhile(path: Path, operations: Operations) -> None:
    told: queue.Queue[str] = queue.Queue()
    failure: list[BaseException] = []

    def ask() -> None:
        try:
            call(path, "slow", {}, told.put)
        except DetourError as error:
            failure.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert operations.begun.wait(PATIENCE_S)
    assert call(path, "add", {"a": 1}) == {"sum": 2}
    assert thread.is_alive()
    assert told.get(timeout=PATIENCE_S) == "begun"


def test_stopping_cancels_what_is_under_way(operations: Operations, tmp_path: Path) -> None:
    server = ControlServer(tmp_path / "s", {"slow": operations.slow})
    server.start()
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(call(tmp_path / "s", "slow", {})))
    thread.start()
    assert operations.begun.wait(PATIENCE_S)
    server.stop()
    thread.join(PATIENCE_S)
    assert operations.cancelled.is_set()
    assert answers == ["never seen"]


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match="no fabric is up"):
        call(tmp_path / "nothing.sock", "add", {})


def test_a_path_too_long(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match="longer than 107 bytes; set XDG_RUNTIME_DIR"):
        call(tmp_path / ("x" * 120), "add", {})
