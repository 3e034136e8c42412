# SPDX-License-Identifier: Apache-2.0
"""While a collector is at work, all programs of this process are compiled with coverage and counted by it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.override import Scoped
from detour.engine.compiler.covering import CoverageSite
from detour.engine.compiler.model import Json
from detour.engine.coverage.document import CoverageDocument, Point, ProgramCoverage


@dataclass(frozen=True)
class _Counted:
    """A program and its counters, one for each site."""

    name: str
    sites: tuple[CoverageSite, ...]
    counts: Int64Array


class Collector:
    """Counters of programs. All switches that run the same program count in the same ones, and so do all compilations
    of it: it is told by its text."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}
        self._lock = threading.Lock()

    def counts_of(self, source: Json, sites: Sequence[CoverageSite]) -> Int64Array:
        """The counters (int64, one for each site) of a program, given its BMv2 JSON."""
        digest = program_digest(source)
        with self._lock:
            found = self._counted.get(digest)
            if found is None:
                counts = np.zeros(max(len(sites), 1), np.int64)
                found = self._counted[digest] = _Counted(program_name(source), tuple(sites), counts)
            return found.counts

    def document(self) -> CoverageDocument:
        """What has been counted so far."""
        found = CoverageDocument()
        with self._lock:
            counted = list(self._counted.items())
        for digest, program in counted:
            points = [Point.of(site, int(n)) for site, n in zip(program.sites, program.counts, strict=False)]
            found.add(ProgramCoverage.of(program.name, digest, points), "this run")
        return found


COLLECTOR: Scoped[Collector | None] = Scoped(None)
"""of what is compiled from now on"""


@contextmanager
def collecting(file: Path | None) -> Iterator[None]:
    """Programs that are compiled inside count what packets reach, and the file is written at the end, however that
    comes. None: nothing of all that.

    Raises:
        DetourError: the file cannot be written.
    """
    if file is None:
        yield
        return
    collector = Collector()
    try:
        with COLLECTOR.set_to(collector):
            yield
    except BaseException:
        if collector.document().programs:  # otherwise nothing has begun, and what stopped it is what is to be told
            collector.document().write(file)
        raise
    collector.document().write(file)


def program_digest(source: Json) -> str:
    """What tells the text of one program from that of others."""
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:32]


def program_name(source: Json) -> str:
    """As p4c calls it, without folder and ending."""
    return Path(str(source.get("program") or "program")).stem or "program"
