# SPDX-License-Identifier: Apache-2.0
"""Standard output that is full or closed: one line and exit code 1, whatever writes."""

import subprocess
import sys

import pytest

from detour.base.progress import silent
from detour.cli import output
from tests.waiting import PATIENCE_S, until

COMMANDS = ["reproduce --list", "fabrics --json", "--help", "sim --help", "--version", "switch --help",
            "completion bash", "fabrics", "fcplus build --n 120"]  # fmt: skip


def shell(command: str, redirected: str) -> subprocess.CompletedProcess[bytes]:
    line = f"exec {sys.executable} -m detour {command} {redirected}"
    return subprocess.run(["bash", "-c", line], capture_output=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_written_is_told(command):
    for redirected, reason in (("> /dev/full", b"No space left on device"), (">&-", b"Bad file descriptor")):
        done = shell(command, redirected)
        name = b"detour switch" if command.startswith("switch") else b"detour"
        assert (done.returncode, done.stderr) == (1, name + b": standard output: " + reason + b"\n")


def test_a_reader_who_has_gone_has_had_enough():
    done = shell("completion bash", "| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_closed_input_and_error_disturb_nothing():
    done = shell("fabrics --json", "<&- 2>&-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == shell("fabrics --json", "").stdout != b""
    wrong = shell("nonsense", "2>&-")  # not to standard output instead
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, b"", b"")
    assert shell("nonsense", "2> /dev/full").returncode == 2


def test_what_takes_long_says_so_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(output, "_WAIT_S", 0.01)
    monkeypatch.setattr(output, "_AGAIN_S", 0.01)

    def until_told(text: str) -> None:
        messages: list[str] = []
        until(lambda: messages.append(capsys.readouterr().err) or text in "".join(messages))

    with output.shown_progress(as_json=False) as progress:
        progress("counting")
        until_told("detour: counting (")
    with output.bar("points", as_json=False) as update:
        update(3, 20)
        until_told("detour: points: 3 of 20 (")
    with output.timed_bar("sim", as_json=False) as timed:
        timed(1, 4, "fast")
        until_told("detour: sim: 25% fast (")
    with output.shown_progress(as_json=True) as progress, output.bar("points", as_json=True):
        assert progress is silent
