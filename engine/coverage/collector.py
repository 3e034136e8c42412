# SPDX-License-Identifier: Apache-2.0
"""Coverage of all programs that this process compiles, collected and written to a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detour.engine.compiler.covering import COLLECTOR, Collector
from detour.engine.coverage.document import CoverageDocument, Point, ProgramCoverage


def document_of(collector: Collector) -> CoverageDocument:
    """What has been counted so far."""
    document = CoverageDocument()
    for digest, program in list(collector.programs.items()):
        name = Path(str(program.source.get("program") or "program")).stem or "program"  # as p4c calls it
        points = [Point.of(site, int(n)) for site, n in zip(program.sites, program.counts, strict=False)]
        document.add(ProgramCoverage.of(name, digest, points), "this run")
    return document


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
        if collector.programs:  # otherwise nothing has begun, and what stopped it is the message to show
            document_of(collector).write(file)
        raise
    document_of(collector).write(file)
