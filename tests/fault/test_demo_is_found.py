# SPDX-License-Identifier: Apache-2.0
"""The fabric of `detour demo` (`make run`) answers commands of other terminals, and `detour down` ends it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, until

SMALL = ("--target", "engine", "--topo", "dragonfly:p=1,a=2,h=1")


def _drain(terminal: int, shown: bytearray) -> None:
    """Reads what a program writes to a terminal until it has gone."""
    with suppress(OSError):
        while data := os.read(terminal, 4096):
            shown.extend(data)


def test_from_a_second_terminal(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path), "PROMPT_TOOLKIT_NO_CPR": "1"}

    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", "detour.cli", *words]

    def asked(*words: str, patient: bool = False) -> Any:
        line = command(*words, "--json")
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert patient or done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.returncode == 0 else None

    ours, theirs = pty.openpty()  # with a terminal it stays, and asks what to do
    demo = subprocess.Popen(
        command("demo", *SMALL), env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown = bytearray()
    reader = threading.Thread(target=_drain, args=(ours, shown))
    reader.start()
    try:
        status: Any = until(lambda: asked("status", patient=True) or demo.poll() is not None)
        assert (status["topology"], status["switches"], status["log"]) == (SMALL[-1], 6, None)
        until(lambda: b"detour>" in shown)
        assert [row["topology"] for row in asked("fabrics")["fabrics"]] == [SMALL[-1]]
        assert asked("path", "h0", "h5", "--sport", "1")["delivered"]
        assert asked("down") == {"down": True}
        assert demo.wait(PATIENCE_S) == 0
    finally:
        demo.kill()
        demo.wait()
        reader.join()
        os.close(ours)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["boot", "traffic"])
def test_down_ends_a_demo_with_one_line(tmp_path: Path, moment: str) -> None:
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    line = [sys.executable, "-m", "detour.cli"]
    demo = subprocess.Popen([*line, "demo", *SMALL], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: (tmp_path / "detour" / ("fabric.json" if moment == "boot" else "control.sock")).exists())
        down = subprocess.run([*line, "down"], env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
        out, errors = demo.communicate(timeout=PATIENCE_S)
    finally:
        demo.kill()
    assert (down.returncode, down.stdout) == (0, b"down\n")
    assert (demo.returncode, out) == (0, b""), errors
    assert errors.splitlines()[-1] == b"detour: `detour down` has ended this fabric"
    assert b"Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
