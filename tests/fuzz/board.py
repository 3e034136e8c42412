# SPDX-License-Identifier: Apache-2.0
"""What a child at work shows its parent, in a file that both have mapped: it is readable when the child is dead."""

from __future__ import annotations

import json
import mmap
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.job import JOB

_NOTE = 64
_JOB = 1 << 16
_DATA = _JOB + 4096
_WORK = _DATA + (16 << 20)
_SIZE = _WORK + (1 << 16)


class Board:
    """A heartbeat, a note (JSON: what is being tried), the packet job, and the data that is being tried."""

    def __init__(self, path: Path, make: bool = False) -> None:
        if make:
            with path.open("wb") as f:
                f.truncate(_SIZE)
        with path.open("r+b") as f:
            self._map = mmap.mmap(f.fileno(), _SIZE)
        self._all = np.frombuffer(self._map, np.uint8)
        self._words = self._all[:_NOTE].view(np.int64)
        self.jobs = self._all[_JOB : _JOB + JOB.itemsize].view(JOB)
        self.work = self._all[_WORK:]
        if make:
            self.beat()

    def beat(self) -> None:
        """The child lives and has got on."""
        self._words[0] = time.monotonic_ns()

    def last_beat(self) -> int:
        """When that was, in ns as of time.monotonic_ns()."""
        return int(self._words[0])

    def age(self) -> float:
        """Seconds since the last beat."""
        return (time.monotonic_ns() - self.last_beat()) / 1e9

    def note(self, **what: Any) -> None:
        """Tells what will be tried next."""
        self._put(_NOTE, 1, json.dumps(what).encode()[: _JOB - _NOTE])
        self._words[2] = 0
        self.beat()

    def show(self, data: bytes) -> None:
        """Tells the data that will be tried next."""
        self._put(_DATA, 2, data[: _WORK - _DATA])
        self.beat()

    def _put(self, at: int, word: int, data: bytes) -> None:
        self._all[at : at + len(data)] = np.frombuffer(data, np.uint8)
        self._words[word] = len(data)

    def read_note(self) -> dict[str, Any]:
        """The latest note."""
        size = int(self._words[1])
        return json.loads(self._all[_NOTE : _NOTE + size].tobytes()) if size else {}

    def read_data(self) -> bytes:
        """The latest data shown for the latest note."""
        return self._all[_DATA : _DATA + int(self._words[2])].tobytes()

    def read_packet(self) -> bytes:
        """The packet at work."""
        return self.work[: int(self.jobs[0]["length"])].tobytes()
