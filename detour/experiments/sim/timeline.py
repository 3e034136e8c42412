# SPDX-License-Identifier: Apache-2.0
"""Timelines of jobs that ran: as a trace in Chrome's Trace Event Format, which Perfetto reads, or as a picture.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("JSON Object Format",
"Complete Events", "Metadata Events"). Times are microseconds. Events of a thread must not overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.extras import require
from detour.base.files import write_file
from detour.base.times import MS, US
from detour.experiments import drawing
from detour.fabric.traffic.exposure import Row, Span, rows
from detour.fabric.traffic.tasks import TaskResult
from detour.fabric.workloads.jobs import JobRun
from detour.topo import Topology

PICTURES = (".svg", ".png", ".pdf")
_MOST_HOSTS = 64
"""in a picture"""
_COMPUTING = {
    "computing": drawing.GRAY, "computing forward": drawing.SKY, "computing backward": drawing.BLUE
}  # fmt: skip
_COLOURS = (drawing.ORANGE, drawing.GREEN, drawing.VERMILION, drawing.PURPLE, drawing.YELLOW, drawing.BLACK)


@dataclass(frozen=True)
class TimedRun:
    """A run by a scheme."""

    scheme: str
    topology: Topology
    jobs: JobRun
    result: TaskResult

    def host(self, row: Row) -> str:
        """Return the name of a row's host."""
        return self.topology.hosts[row.host].name


def check(file: Path) -> None:
    """Raise DetourError: a timeline is not written to such a file, or what draws it is not installed."""
    if file.suffix in PICTURES:
        require("matplotlib", "matplotlib", "plot", "a timeline's picture")
    elif file.suffix != ".json":
        raise DetourError(f"--timeline {file}: expected .json, for Perfetto, or a picture: {', '.join(PICTURES)}")


def write(file: Path, runs: Sequence[TimedRun]) -> None:
    """Write a timeline of runs. Raises DetourError: it cannot be written."""
    if file.suffix in PICTURES:
        draw(file, runs)
    else:
        # A rank is a process; ranks of several schemes follow each other.
        events = [event for number, run in enumerate(runs) for event in _events(run, number, len(runs) > 1)]
        write_file(file, json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))


def _events(run: TimedRun, number: int, named: bool) -> Iterator[dict[str, Any]]:
    """Yield the events of a run; of several the scheme is in the names of processes."""
    thread, last = 0, -1
    for row in rows(run.result, run.jobs):
        process = 1 + number * run.result.graph.hosts + row.host
        thread = thread + 1 if row.host == last else 1
        if row.host != last:
            name = f"{run.scheme}: {run.host(row)}" if named else run.host(row)
            yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
        last = row.host
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": row.name}}
        for begin, end, step, name in row.spans:
            event: dict[str, Any] = {"ph": "X", "name": name, "cat": "communication" if row.kind else "computing"}
            event |= {"ts": begin / US, "dur": (end - begin) / US, "pid": process, "tid": thread}
            if row.kind:
                event["args"] = {"step": run.result.graph.steps[step], "bytes": run.jobs.operations[step].bytes}
            yield event


def draw(file: Path, runs: Sequence[TimedRun]) -> None:
    """Write a picture: a line for each host, computing above, what comes in below."""
    plt, figure, axes = drawing.canvas(len(runs), 1, 9.0, 0.8 + 0.24 * _shown(runs))
    kinds: dict[str, str] = {}
    for axis, run in zip(axes[:, 0], runs, strict=True):
        names: dict[int, str] = {}
        for row in rows(run.result, run.jobs):
            names.setdefault(row.host, run.host(row))
            if len(names) > _MOST_HOSTS:
                del names[row.host]
                break
            place = (len(names) - 1 + (0.0 if row.kind else -0.4), 0.4)
            for label, spans in _alike(row).items():
                colour = _COMPUTING.get(label) or kinds.setdefault(label, _COLOURS[len(kinds) % len(_COLOURS)])
                bars = [(span.begin / MS, (span.end - span.begin) / MS) for span in spans]
                axis.broken_barh(bars, place, facecolors=colour, label=label)
        axis.set_yticks(range(len(names)), list(names.values()))
        axis.set(xlabel="ms", title=f"{run.scheme}, the first {len(names)} hosts" if _cut(run) else run.scheme)
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
    drawing.legend(figure, axes[:, 0], 6)
    drawing.save(plt, figure, file)


def _alike(row: Row) -> dict[str, list[Span]]:
    """A row's spans by what the legend calls them: computing of a pass by its way."""
    alike: dict[str, list[Span]] = {}
    for span in row.spans:
        way = span.name.split()[0]
        label = row.kind or (way if way == "computing" else f"computing {way}")
        alike.setdefault(label, []).append(span)
    return alike


def _shown(runs: Sequence[TimedRun]) -> int:
    return min(_MOST_HOSTS, max(run.result.graph.hosts for run in runs))


def _cut(run: TimedRun) -> bool:
    return run.result.graph.hosts > _MOST_HOSTS
