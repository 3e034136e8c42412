# SPDX-License-Identifier: Apache-2.0
"""The part of a recorded run's file that says how to run it again: the first line of `detour sim --record FILE`, key
`repeat` (the rest is for the page, `detour/cli/web`). Among it checkpoints: what all connections have sent and
received, as a digest, at times that every run of any length has some of (20 us, 40 us, 80 us, ...)."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.places import BUILD
from detour.base.quantities import time_text
from detour.base.records import as_json, from_json
from detour.base.times import US
from detour.base.version import VERSION
from detour.experiments.sim.settings import SimOptions
from detour.experiments.sim.watching import Watcher

_FIRST_PS = 20 * US
_COLUMNS = ("st_packets", "st_retransmitted", "st_rx_bytes", "st_rx_packets", "st_rx_ecn_marked", "st_rx_delay_sum")

Checkpoint = tuple[int, str]
"""time in ps, digest"""


class Checkpoints(Watcher):
    """Takes them, or compares with those of an earlier run; none at the end, as a run that is traced ends earlier."""

    def __init__(self, expected: Sequence[Checkpoint] | None = None) -> None:
        """`expected`: what the run must come to; None: they are only taken."""
        self._expected = None if expected is None else dict(expected)
        self.taken: list[Checkpoint] = []
        self.due_ps = _FIRST_PS

    def look(self) -> None:
        """Take one. Raises `DetourError`: the run is another one than it was."""
        now = self._fabric.now_ps
        digest = self._digest()
        self.taken.append((now, digest))
        self.due_ps *= 2
        if self._expected is not None and self._expected.get(now, digest) != digest:
            raise DetourError(
                f"the run does not repeat: {time_text(now)} after the start it differs from the recording "
                "(the program, or a file that it reads, has changed since)"
            )

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for name in _COLUMNS:
            digest.update(self._fabric.column(name).tobytes())
        ports = self._fabric.network.port_stats()
        for name in ("rx_packets", "rx_bytes", "queue_drops", "link_drops"):
            digest.update(ports[name].tobytes())
        return digest.hexdigest()[:16]


RUN_FORMAT = 1
RUN_MARK = "detour_recorded_run"
DAMAGED_RUN = "the recorded run is damaged, or was not written to its end"
_NO_RUN = "this is not a recorded run (detour sim --record FILE)"


@dataclass(frozen=True)
class RepeatableRun:
    """`options` of the run; `files` that they name, by name, each with the SHA-256 of what it held; `programs`: that of
    detour's own compiled P4."""

    options: SimOptions
    files: Mapping[str, str]
    programs: str
    checkpoints: Sequence[Checkpoint]

    @classmethod
    def of(cls, options: SimOptions, checkpoints: Sequence[Checkpoint]) -> RepeatableRun:
        """A run that has just gone."""
        return cls(options, {name: _digest(Path(name)) for name in _files(options)}, _own_programs(), checkpoints)

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return as_json(self)

    def check_files(self) -> None:
        """Refuse to go on with other files than those of the run. Raises `DetourError`: one is missing or holds
        something else."""
        if self.programs != _own_programs():
            raise DetourError("detour's own P4 programs (detour/p4src/build) have changed since the run")
        for name, digest in self.files.items():
            if not Path(name).is_file():
                raise DetourError(f"the run read {name}, which no longer exists")
            if _digest(Path(name)) != digest:
                raise DetourError(f"{name} has changed since the run read it")


def _files(options: SimOptions) -> list[str]:
    """Files that options name, as they name them: a whole text, or a part of `FILE.py:NAME`, `P4INFO,JSON`,
    `name:sizes=FILE`."""
    names = set()
    for text in vars(options).values():
        if isinstance(text, str):
            parts = {text, *re.split(r"[,:=]", text)}
            names |= {part for part in parts if part and Path(part).is_file()}
    return sorted(names)


def _own_programs() -> str:
    digest = hashlib.sha256()
    for file in sorted(BUILD.glob("*.json")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def run_lines(path: Path) -> Iterator[gzip.GzipFile]:
    """The lines of a recorded run, open for reading. Raises `DetourError`: it cannot be read, is none, or ends too
    early, or what is made of a line in here is a `ValueError`."""
    try:
        with gzip.open(path, "rb") as lines:
            yield lines
    except gzip.BadGzipFile:
        raise DetourError(f"{path}: {_NO_RUN}") from None
    except (EOFError, zlib.error, ValueError):
        raise DetourError(f"{path}: {DAMAGED_RUN}") from None
    except OSError as error:
        raise DetourError(f"{path}: {error.strerror or error}") from None


def run_head(path: Path, line: bytes) -> dict[str, Any]:
    """The first line of a recorded run. Raises `DetourError`: it is none, or of another version."""
    try:
        head = json.loads(line)
    except ValueError:
        head = None
    if not isinstance(head, dict) or RUN_MARK not in head:
        raise DetourError(f"{path}: {_NO_RUN}")
    if head[RUN_MARK] != RUN_FORMAT:
        raise DetourError(
            f"{path}: a recorded run of format {head[RUN_MARK]!r}, by detour {head.get('program_version', '?')}; this "
            f"one reads format {RUN_FORMAT}"
        )
    return head


def read_repeatable(path: Path) -> RepeatableRun:
    """Return the settings to repeat a recorded run. Raises `DetourError`: the file cannot be read, is none, is of
    another version, or says nothing of that."""
    with run_lines(path) as lines:
        head = run_head(path, lines.readline())
    if head.get("program_version") != VERSION:
        raise DetourError(f"{path}: a run of detour {head.get('program_version', '?')}; this is {VERSION}")
    if not isinstance(head.get("repeat"), dict):
        raise DetourError(f"{path}: this run cannot be repeated: its file lacks the settings")
    return from_json(RepeatableRun, head["repeat"])
