# SPDX-License-Identifier: Apache-2.0
"""The parent: runs a target in a child, tells crashes and hangs from results, and keeps what caused them."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.board import Board
from tests.fuzz.budget import Budget
from tests.fuzz.job import STAGES

ROOT = Path(__file__).resolve().parents[2]
REPRODUCERS = ROOT / "build" / "fuzz"
_POLL_S = 0.1
_SILENCE_S = 600.0
"""A child that shows no sign of life for so long hangs. Time in which it wanted to run and had no processor does not
count: what takes six seconds (compiling `fly` for the first time) takes a hundred times as long on a machine that has
more important things to do."""
_TAIL = 4000


@dataclass(frozen=True)
class Outcome:
    """What came of a run. `failure` is None if nothing was found; `reproducer` is where its cause is kept."""

    target: str
    seed: int
    result: dict[str, Any]
    failure: str | None = None
    reproducer: Path | None = None


def supervise(
    target: str,
    seed: int,
    budget: Budget,
    tell: Callable[[float], None] | None = None,
    keep: Path = REPRODUCERS,
    silence: float = _SILENCE_S,
) -> Outcome:
    """Runs a target to its end. `tell` hears now and then for how many seconds it has been running.

    A child that gets on with nothing for `silence` seconds in which it could have run hangs. What is found is kept in
    the folder `keep`.
    """
    with tempfile.TemporaryDirectory(prefix="detour-fuzz-") as folder:
        path = Path(folder) / "board"
        board = Board(path, make=True)
        with (Path(folder) / "out").open("w+b") as out:
            numbers = (seed, budget.seconds, budget.count, budget.first)
            command = [sys.executable, "-m", "tests.fuzz.child", target, *map(str, numbers), str(path)]
            child = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
            hung = _wait(child, board, silence, tell)
            out.seek(0)
            text = out.read().decode(errors="replace")
        failure, result = _judge(child.returncode, hung, text)
        if failure is None:
            return Outcome(target, seed, result)
        return Outcome(target, seed, result, failure, _keep(keep, target, seed, board, failure, text))


def _wait(child: subprocess.Popen[bytes], board: Board, silence: float, tell: Callable[[float], None] | None) -> bool:
    """Waits for the end; True if the child stood still and was killed."""
    began = time.monotonic()
    patience = _Patience(child.pid, board)
    while True:
        try:
            child.wait(_POLL_S)
            return False
        except subprocess.TimeoutExpired:
            pass
        except BaseException:
            child.kill()
            child.wait()
            raise
        if patience.age() > silence:
            child.kill()
            child.wait()
            return True
        if tell is not None:
            tell(time.monotonic() - began)


class _Patience:
    """How long a child has been silent, less the time in which it waited for a processor meanwhile."""

    def __init__(self, pid: int, board: Board) -> None:
        self._pid, self._board = pid, board
        self._beat, self._waited = board.last_beat(), _waited_s(pid)

    def age(self) -> float:
        """Seconds."""
        if self._board.last_beat() != self._beat:
            self._beat, self._waited = self._board.last_beat(), _waited_s(self._pid)
        return self._board.age() - max(_waited_s(self._pid) - self._waited, 0.0)


def _waited_s(pid: int) -> float:
    """Seconds in which threads of a process were ready to run while others ran; 0 where the system does not tell.

    Second number of a thread's `schedstat` (Documentation/scheduler/sched-stats.rst of Linux).
    """
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            total += int(path.read_text().split()[1])
    return total / 1e9


def _judge(code: int, hung: bool, text: str) -> tuple[str | None, dict[str, Any]]:
    """(failure, result)."""
    if hung:
        return "it does not come to an end", {}
    if code < 0:
        return f"crash: {signal.Signals(-code).name}", {}
    lines = text.strip().splitlines()
    try:
        last = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = None
    if not isinstance(last, dict):
        return f"the child ended with {code}: {text[-_TAIL:]}", {}
    if "finding" in last:
        return str(last["finding"]), {}
    return (None, last) if code == 0 else (f"the child ended with {code}", last)


def _keep(folder: Path, target: str, seed: int, board: Board, failure: str, text: str) -> Path:
    """Writes everything that is known of a failure; the data apart, as it was."""
    folder.mkdir(parents=True, exist_ok=True)
    note = board.read_note()
    job = board.jobs[0]
    stem = folder / f"{target.replace(':', '-')}-{seed}-{note.get('round', 0)}"
    data = board.read_data() or board.read_packet()
    first = note.get("round", 0)
    signatures = {
        "failure": failure,
        "again": f"python -m tests.fuzz --target {target} --seed {seed} --first {first} --count 1",
        "note": note,
        "packet": board.read_packet().hex(),
        **{name: int(job[name]) for name in ("index", "port", "time", "pass_")},
        "stage": STAGES[int(job["stage"])],
        "data": base64.b64encode(data).decode(),
        "output": text[-_TAIL:],
    }
    stem.with_suffix(".bin").write_bytes(data)
    path = stem.with_suffix(".json")
    path.write_text(json.dumps(signatures, indent=1) + "\n")
    return path
