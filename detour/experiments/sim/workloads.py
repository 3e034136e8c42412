# SPDX-License-Identifier: Apache-2.0
"""Workloads for `--workload`: a pattern or a collective by name, a file (jobs, flows, a GOAL schedule, a Chakra trace),
or the user's own code.

One's own is a function `f(topology, ...)` that returns rows of source, destination, bytes and, if not all begin at
once, seconds; or a `TaskGraph`. What follows its name is handed in by keyword, `seed` too if it takes one. It is found
as `FILE.py:NAME` or by entry point (group `detour.workloads`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from detour.base import plugins
from detour.base.errors import DetourError
from detour.base.files import read_bytes, read_text
from detour.experiments.sim.patterns import NAMED_WORKLOADS, DrawnFor, PatternKind, flows_of_pattern
from detour.fabric.traffic.placed_tasks import ConnectionName
from detour.fabric.workloads.chakra import Roofline, read_chakra
from detour.fabric.workloads.flow_files import read_flow_file
from detour.fabric.workloads.flow_table import FlowTable, check_flows, flow_table
from detour.fabric.workloads.goal import is_binary_goal, is_goal, read_goal
from detour.fabric.workloads.jobs import JOB_NAMES, job_by_name, read_job_run
from detour.fabric.workloads.tasks import TaskGraph, flow_graph
from detour.topo import Topology
from detour.topo.paths import SwitchPath
from detour.topo.spec import split_spec

_JOB_FILES = (".yaml", ".yml", ".json")
_S = 1e12
_BEGINNING = 4_000
"""characters of a file that say whether it is a schedule"""


@dataclass(frozen=True)
class SimWorkload:
    """The traffic of a run. `flows`: messages of which none waits for another one. `pinned`: paths that are demanded,
    where connections are placed."""

    text: str
    graph: TaskGraph
    flows: bool
    pinned: Mapping[ConnectionName, SwitchPath] = field(default_factory=dict)


Opener = Callable[[str, str, DrawnFor], SimWorkload]
"""of (the whole text, what is behind the name, what it is for)"""


def open_workload(text: str, topology: Topology, rate_bps: int, seed: int) -> SimWorkload:
    """Open a workload by its text. `rate_bps`: of hosts' links, by which loads are reckoned. Raises `DetourError`:
    there is no such name or file, or it is wrong."""
    name, rest = plugins.split(text)
    if WORKLOAD_REGISTRY.knows(name) or not _is_path(text):
        return WORKLOAD_REGISTRY.find(name)(text, rest, DrawnFor(topology, rate_bps, seed))
    # A trace by the names of its files, a schedule by its first line, a job file by its ending; else a flow file.
    file = Path(text)
    hosts = len(topology.hosts)
    if _is_trace(trace := Path(text.partition(",")[0])):
        roofline = Roofline.of(text, split_spec(f"{trace.name}:{text.partition(',')[2]}")[1] if "," in text else {})
        return SimWorkload(text, read_chakra(trace, hosts, roofline), False)
    if file.suffix.lower() in _JOB_FILES:
        run = read_job_run(file, topology)
        return SimWorkload(text, run.graph, False, run.pinned)
    if file.suffix.lower() == ".goal" or is_binary_goal(read_bytes(file)) or is_goal(read_text(file)[:_BEGINNING]):
        return SimWorkload(text, read_goal(file, hosts), False)
    return _of_flows(text, read_flow_file(file, hosts), topology)


def _is_trace(file: Path) -> bool:
    """Return whether a name is that of a Chakra trace, or of the file of its first NPU."""
    return file.suffix == ".et" or file.name.endswith(".0.json") or file.with_name(f"{file.name}.0.et").exists()


def _is_path(text: str) -> bool:
    """Return whether a text that is not a name means a file."""
    if Path(text).is_dir():
        raise DetourError(f"workload {text!r} is a folder; expected a file or a name")
    return Path(text).exists() or _is_trace(Path(text)) or "/" in text or Path(text).suffix != ""


def _of_flows(text: str, flows: FlowTable, topology: Topology) -> SimWorkload:
    """Flows as tasks of which none waits for another one."""
    hosts = len(topology.hosts)
    check_flows(flows, hosts, f"workload {text!r}")
    graph = flow_graph(hosts, flows["source"], flows["target"], flows["bytes"], flows["start_ps"])
    return SimWorkload(text, graph, True)


def _pattern(kind: PatternKind, text: str, rest: str, of: DrawnFor) -> SimWorkload:
    return _of_flows(text, flows_of_pattern(kind, text, of), of.topology)


def _job(text: str, rest: str, of: DrawnFor) -> SimWorkload:
    return SimWorkload(text, job_by_name(text, of.topology), False)


def _adopt(name: str, function: Any) -> Opener:
    function = plugins.function_of(function, "a topology")

    def opened(text: str, rest: str, of: DrawnFor) -> SimWorkload:
        values = plugins.values_of(text, rest)
        if "seed" in inspect.signature(function).parameters:
            values.setdefault("seed", of.seed)
        with plugins.blaming(name):
            workload = plugins.call(name, function, of.topology, **values)
            if isinstance(workload, TaskGraph):
                return SimWorkload(text, workload, not len(workload.dependencies) and bool(workload.is_message.all()))
            return workload_of_rows(text, list(workload), of.topology)

    return opened


def workload_of_rows(text: str, rows: Iterable[Any], topology: Topology) -> SimWorkload:
    """Flows given as rows of source, destination, bytes and, if not all begin at once, seconds. `text`: how it is
    called. Raises `DetourError`: a row is something else, or means no flow of the topology."""
    table = flow_table([_row(text, number, row, topology) for number, row in enumerate(rows)])
    return _of_flows(text, table, topology)


def _row(name: str, number: int, row: Any, topology: Topology) -> tuple[int, int, int, int]:
    try:
        source, target, size, *start = row
        (seconds,) = start or [0.0]
        source, target = (topology.host(end).index if isinstance(end, str) else end for end in (source, target))
        return int(source), int(target), int(size), round(float(seconds) * _S)
    except (TypeError, ValueError, OverflowError):
        raise DetourError(
            f"{name}: row {number} is {row!r:.60}; expected source, destination, bytes and optionally its second"
        ) from None


WORKLOAD_REGISTRY: plugins.Registry[Opener] = plugins.Registry(
    "workloads",
    "workload",
    {**{name: partial(_pattern, kind) for name, kind in NAMED_WORKLOADS.items()}, **dict.fromkeys(JOB_NAMES, _job)},
    _adopt,
)
