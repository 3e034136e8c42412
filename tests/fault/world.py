# SPDX-License-Identifier: Apache-2.0
"""What tests of faults share: a user's world, and a message without end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from detour.base.errors import DetourError
from detour.fabric.operations.session import Session
from tests.waiting import PATIENCE_S, until

SMALL = ["--topo", "dragonfly:p=1,a=2,h=1"]
TARGETS = ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)]


def without_progress(err: str) -> str:
    """Without lines that say for how long something has been going on: on a busy machine it is."""
    return re.sub(r"(?m)^detour: .* \(\d+ s\)\n", "", err)


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
        return process.returncode, out, without_progress(err)

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
        started = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("XDG_RUNTIME_DIR") == str(self.runtime):
                    started.append(process)
            except psutil.Error:
                continue
        return started

    def daemon(self) -> psutil.Process:
        return psutil.Process(json.loads((self.runtime / "detour" / "fabric.json").read_text())["pid"])

    def end(self) -> None:
        """Ends the fabric, of which nothing is left."""
        assert self.json("down") == {"down": True}
        self.assert_clean()

    def assert_clean(self, files: bool = True) -> None:
        until(lambda: not self.processes())
        assert ours(os.listdir("/sys/class/net")) == []
        if files:
            assert [path for path in self.folder.rglob("*") if path != self.runtime] == []


def ours(interfaces: list[str]) -> list[str]:
    """Those that a fabric names so (and keeps in namespaces of its own)."""
    return [name for name in interfaces if re.fullmatch(r"s\d+-\d+", name)]


class Sending:
    """A message without end between two hosts, until the context is left."""

    def __init__(self, session: Session, source: str, target: str) -> None:
        self._session, self._ends, self._cancelled = session, (source, target), threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Sending:
        self._thread.start()
        until(self._session.live.all)
        self.arrives()
        return self

    def __exit__(self, *exc: object) -> None:
        self._cancelled.set()
        self._thread.join(PATIENCE_S)

    def _send(self) -> None:
        with suppress(DetourError):
            self._session.send(*self._ends, 1 << 40, cancelled=self._cancelled)

    def path(self) -> str:
        """The uSID list that the sender uses."""
        (row,) = self._session.flows().flows
        assert row.placed
        return row.path

    def arrives(self, length: int = 300_000) -> None:
        """So many more bytes arrive, all of them in place."""
        (live,) = self._session.live.all()
        enough = live.flow.bytes_ok + length
        until(lambda: live.flow.bytes_ok >= enough or live.flow.failure)
        assert (live.flow.failure, live.flow.bytes_wrong) == (None, 0)
