# SPDX-License-Identifier: Apache-2.0
"""How commands reach a running fabric."""

import errno
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from detour.base.errors import DetourError, WriteError
from detour.base.progress import Progress
from detour.base.unix_listener import UnixServerSocket
from detour.fabric.daemon import control_socket
from detour.fabric.daemon.control_socket import ControlServer, call
from tests.waiting import PATIENCE_S, until


class Operations:
    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    def add(self, a: int, b: int = 1) -> dict[str, int]:
        return {"sum": a + b}

    def slow(self, progress: Progress, cancelled: threading.Event) -> str:
        progress("begun")
        self.begun.set()
        assert cancelled.wait(60)
        self.cancelled.set()
        return "never seen"

    def refuse(self) -> None:
        raise DetourError("no such thing")

    def write(self) -> None:
        raise WriteError("no room")

    def crash(self) -> None:
        raise ZeroDivisionError("oh")


@pytest.fixture
def operations() -> Operations:
    return Operations()


@pytest.fixture
def path(operations: Operations, tmp_path: Path) -> Iterator[Path]:
    names = ("add", "slow", "refuse", "write", "crash")
    asked = {name: getattr(operations, name) for name in names}
    server = ControlServer(tmp_path / "control.sock", asked, warning=lambda name: "look" if name == "add" else None)
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


def test_parameters_have_types(path: Path) -> None:
    with pytest.raises(DetourError, match=r"^control socket: add needs a$"):
        call(path, "add", {"b": 1})
    with pytest.raises(
        DetourError, match=r"^control socket: add: b: this is not a valid int: Expected `int`, got `str`$"
    ):
        call(path, "add", {"a": 1, "b": "2"})
    with pytest.raises(DetourError, match=r"add: a: .* got `bool`"):
        call(path, "add", {"a": True})


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
    progress: queue.Queue[str] = queue.Queue()
    failure: list[BaseException] = []

    def ask() -> None:
        try:
            call(path, "slow", {}, progress.put)
        except DetourError as error:
            failure.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert operations.begun.wait(PATIENCE_S)
    assert call(path, "add", {"a": 1}) == {"sum": 2}
    assert thread.is_alive()
    assert progress.get(timeout=PATIENCE_S) == "begun"


def test_stopping_cancels_what_is_under_way(operations: Operations, tmp_path: Path) -> None:
    server = ControlServer(tmp_path / "s", {"slow": operations.slow})
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(call(tmp_path / "s", "slow", {})))
    thread.start()
    assert operations.begun.wait(PATIENCE_S)
    server.stop()
    thread.join(PATIENCE_S)
    assert operations.cancelled.is_set()
    assert answers == ["never seen"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("nothing.sock", "no fabric is up"), ("x" * 120, "longer than 107 bytes; set XDG_RUNTIME_DIR")],
)
def test_nobody_listens(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(DetourError, match=text):
        call(tmp_path / name, "add", {})


# -- descriptors, threads and clients that want nothing


class Starved:
    """A listening socket for which there are no descriptors, as often as is said."""

    def __init__(self, listening: socket.socket, times: int, number: int) -> None:
        self._listening, self.left, self._number = listening, times, number

    def accept(self) -> tuple[socket.socket, object]:
        if self.left:
            self.left -= 1
            raise OSError(self._number, "no")
        return self._listening.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._listening, name)


@pytest.fixture
def make(
    operations: Operations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ControlServer]]:
    servers: list[ControlServer] = []

    def start(starved: tuple[int, int] | None = None, **settings: float) -> ControlServer:
        names = ("add", "slow")
        served = {name: getattr(operations, name) for name in names}
        if starved is not None:
            listen = UnixServerSocket.listen
            monkeypatch.setattr(UnixServerSocket, "listen", lambda place: Starved(listen(place), *starved))
        servers.append(ControlServer(tmp_path / "control.sock", served, **settings))  # type: ignore[arg-type]
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_an_error_keeps_its_exit_code_and_a_warning_comes_with_any_answer(path: Path) -> None:
    warnings: list[str] = []
    with pytest.raises(WriteError, match="no room"):
        call(path, "write", {}, warn=warnings.append)
    assert warnings == []
    assert call(path, "add", {"a": 1}, warn=warnings.append) == {"sum": 2}
    assert warnings == ["look"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EPERM])
def test_an_accept_that_fails_is_not_the_last(
    make: Callable[..., ControlServer], tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_socket, "_PAUSE_S", 0.001)
    server = make(starved=(50, number))
    assert call(tmp_path / "control.sock", "add", {"a": 1}) == {"sum": 2}
    assert server._socket.left == 0  # type: ignore[attr-defined]
    # What was held back is held back again.
    until(lambda: len(server._reserve._fds) == control_socket._RESERVED, "the reserve is not full")


def test_clients_are_limited(make: Callable[..., ControlServer], tmp_path: Path, operations: Operations) -> None:
    make(connections=2, request_s=60.0)
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        first.connect(str(path))
        second.connect(str(path))
        second.sendall(b'{"do": "slow"}\n')
        assert operations.begun.wait(60)
        with pytest.raises(DetourError, match="the fabric serves 2 clients already; try again"):
            call(path, "add", {"a": 1})
    deadline = time.monotonic() + 60
    while True:  # those who have gone make room
        try:
            assert call(path, "add", {"a": 1}) == {"sum": 2}
            return
        except DetourError:
            assert time.monotonic() < deadline


def test_who_asks_for_nothing_is_let_go(make: Callable[..., ControlServer], tmp_path: Path) -> None:
    make(request_s=0.1)
    for sent in (b"", b'{"do": "ad'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "control.sock"))
            connection.sendall(sent)
            connection.settimeout(60)
            assert connection.recv(1) == b""


def test_a_fabric_that_says_nothing(tmp_path: Path) -> None:
    """It listens, and nobody accepts; or it accepts, and says nothing."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen(1)
        with pytest.raises(DetourError, match=r"the fabric does not answer `add`; `detour down` ends it"):
            call(tmp_path / "s", "add", {"a": 1}, silence_s=0.1)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(5)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(str(tmp_path / "s"))
        with pytest.raises(DetourError, match="does not answer"):
            call(tmp_path / "s", "add", {"a": 1}, silence_s=0.1)
        for each in waiting:
            each.close()


def test_a_long_operation_is_told_from_a_fabric_that_hangs(
    make: Callable[..., ControlServer], tmp_path: Path, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs of life come, and only the limit of the operation ends it; then it is cancelled."""
    monkeypatch.setattr(control_socket, "_ALIVE_S", 0.02)
    make()
    replies = []
    original = control_socket._answers

    def answers(*arguments: object) -> Iterator[dict]:
        for answer in original(*arguments):  # type: ignore[arg-type]
            replies.append(answer)
            yield answer

    monkeypatch.setattr(control_socket, "_answers", answers)
    with pytest.raises(DetourError, match="does not answer `slow`"):
        call(tmp_path / "control.sock", "slow", {}, limit_s=1.0, silence_s=60.0)
    assert {"alive": True} in replies
    assert operations.cancelled.wait(60)
