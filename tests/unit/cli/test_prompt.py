# SPDX-License-Identifier: Apache-2.0
"""The prompt after the demo: carries out commands, prints what is wrong, and stays."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from detour.base.errors import DetourError
from detour.cli.prompt import Prompt
from tests.unit.cli.test_command_line import ANSWERS


class FakeSession:
    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            more.pop("tell", None)
            self.calls.append((name, arguments, more))
            if "h99" in (*arguments, *more.values()):
                raise DetourError("host 'h99': d1 has h0 to h71")
            return ANSWERS[name]

        return call


@pytest.fixture
def prompt() -> tuple[Prompt, FakeSession, io.StringIO]:
    session, text = FakeSession(), io.StringIO()
    return Prompt(session, Console(file=text, width=150)), session, text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("send h0 h71 --bytes 2k --sport 0x8001", "send"),
        ("send h0 h71", "send"),
        ("probe h0 h71", "probe"),
        ("path h0 h71 --usid s1", "path"),
        ("fail s0-s1", "fail"),
        ("heal", "heal"),
        ("heal s0-s1", "heal"),
        ("verify", "verify"),
    ],
)
def test_commands(prompt: tuple[Prompt, FakeSession, io.StringIO], line: str, name: str) -> None:
    it, session, text = prompt
    it.do(line)
    assert [call[0] for call in session.calls] == [name]
    assert text.getvalue().strip()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("help", "send SRC DST"),
        ("", ""),
        ("fly", "invalid choice: 'fly'"),
        ("send h0", "required: target"),
        ("send h0 h1 --bytes x", "is not a number of bytes"),
        ("send h0 h99", "has h0 to h71"),
        ("send 'h0", "No closing quotation"),
        ("path h0 h1 --sport 1 --usid s1", "not allowed with"),
        ("send --help", "usage"),
        ("send h0 h1 --bogus", "unrecognized arguments: --bogus"),
    ],
)
def test_what_is_wrong_is_printed_and_the_prompt_stays(
    prompt: tuple[Prompt, FakeSession, io.StringIO], capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    it, _, text = prompt
    it.do(line)
    assert says in text.getvalue() + capsys.readouterr().out


@pytest.mark.parametrize("end", [b"quit\r", b"exit\r", b"\x04", b"\x03"])
def test_a_terminal(end: bytes) -> None:
    """On a real terminal: a command, a mistake, and each way to leave."""
    script = (
        "from tests.unit.cli.test_prompt import FakeSession\nfrom detour.cli.prompt import Prompt\n"
        "Prompt(FakeSession()).run()\nprint('left')\n"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        start_new_session=True, env=os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""

    def read_until(what: bytes) -> None:
        nonlocal seen
        while what not in seen:
            seen += os.read(ours, 4096)
        seen = seen.split(what, 1)[1]

    read_until(b"detour>")
    os.write(ours, b"fail s0-s1\r")
    read_until(b"is down")
    read_until(b"detour>")
    os.write(ours, b"fly\r")
    read_until(b"invalid choice")
    read_until(b"detour>")
    os.write(ours, end)
    read_until(b"left")
    assert process.wait(10) == 0
    os.close(ours)
