# SPDX-License-Identifier: Apache-2.0
"""Runs in virtual time as the page shows them, in a file: `detour sim --record FILE`, `detour web --run FILE`.

A file is lines of JSON, compressed by gzip. The first line is the head: `detour_recorded_run`, the version of the
format; `program_version`, of detour; `graph` and `directions` as the page draws them; `status`, what was run; `repeat`,
how to run it again (`experiments.sim.replay.run_files`). A line for each sample follows (docs/web.md), and last
`{"paths": ..., "samples": N}`: the ways of flows by name, each with `t`, `path` and, where it is one way, `switches`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour import __version__
from detour.base.errors import DetourError
from detour.base.files import new_file
from detour.experiments.sim.replay.run_files import DAMAGED_RUN, RUN_FORMAT, RUN_MARK, run_head, run_lines

_COLUMNS = ("use", "up", "queue", "drops", "marks")

RunSample = dict[str, Any]
FlowPaths = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class RecordedRun:
    """What a file holds."""

    head: dict[str, Any]
    samples: list[RunSample]
    paths: FlowPaths


def write_run(path: Path, head: Mapping[str, Any], samples: Iterable[RunSample], paths: FlowPaths) -> None:
    """Writes a file. Raises `DetourError`: it cannot be written."""
    first = {RUN_MARK: RUN_FORMAT, "program_version": __version__, **head}
    count = 0
    # The same run gives the same bytes: no time stamp, no name.
    with new_file(path) as raw, gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
        packed.write(_line(first))
        for sample in samples:
            packed.write(_line(sample))
            count += 1
        packed.write(_line({"paths": paths, "samples": count}))


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read_run(path: Path) -> RecordedRun:
    """Reads a file. Raises `DetourError`: it cannot be read, is none, is of another version, or ends too early."""
    with run_lines(path) as lines:
        head = _head(path, lines.readline())
        rest = [json.loads(line) for line in lines]
    if not rest or not isinstance(rest[-1], dict) or rest[-1].get("samples") != len(rest) - 1 or len(rest) < 2:
        raise DetourError(f"{path}: {DAMAGED_RUN}")
    *samples, last = rest
    directions = len(head["directions"])
    for number, sample in enumerate(samples, 1):
        if not isinstance(sample, dict) or any(len(sample.get(column, ())) != directions for column in _COLUMNS):
            raise DetourError(f"{path}: sample {number} does not have {directions} directions of links")
    return RecordedRun(head, samples, last["paths"])


def _head(path: Path, line: bytes) -> dict[str, Any]:
    head = run_head(path, line)
    if missing := [key for key in ("graph", "directions", "status") if key not in head]:
        raise DetourError(f"{path}: the recorded run has no {', '.join(missing)}")
    return head
