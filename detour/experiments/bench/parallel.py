# SPDX-License-Identifier: Apache-2.0
"""`detour bench parallel`: one run in virtual time on several threads, and what more of them would bring.

Three loads: `bench sim`'s permutation on a fat-tree, the same where one cable between switches has a delay of 1 ns
instead of 1 us (windows would be that short if its ends were not one node), and D3 with 16 endless connections for each
host to hosts of other groups (TelemetryLERP) for a while. Every number of threads runs each load in turn, as often as
asked for; the median counts. Results are compared by a digest of all tables of hosts and all counters.

The critical path is computed from the events of each node in each window, and from what an event of that node costs one
thread in the mean: with W workers a window takes as long as the worker that has most to do. Nodes are divided as
`engine.workers` does it, by what each costs in the whole run. Where nodes of two sides take turns, turns are half as
long here as in a run, which loses more to uneven loads. Barriers, which `waiting_fraction` includes, are left out, and
so is what caches of their own bring.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from detour.base.cores import cores
from detour.base.progress import Progress, silent
from detour.base.times import US
from detour.engine.workers import shares
from detour.experiments import drawing
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.bench.sim import REFERENCE_SCHEME, REFERENCE_SETTINGS, derangement
from detour.experiments.columns import row, shown
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.backends.virtual.scheme import TELEMETRY_LERP
from detour.fabric.traffic.workload import pairs_of
from detour.topo import parse_topology

PERMUTATION, SHORT_CABLE, D3_UNF = "permutation", "with a cable of 1 ns", "D3 UNF"
_STEP_PS = 50 * US
_D3_CONNECTIONS = 16_896
_D3_PS = 200 * US
_WORKERS = (2, 4, 8, 16, 64)
_GOALS = {2: 1.8, 4: 3.2, 16: 10.0}
_TABLES = ("host", "qp", "slot", "arrival", "wqe", "candidate", "cqe", "late", "region")
_OF_PROCESS = ("pd", "cc_row", "path_row", "transport_row")
"""fields of QPs that are addresses, or numbered throughout a process"""


@row
class ThreadsRow:
    """A load on a number of threads."""

    workload: str = shown("load")
    threads: int = shown("threads")
    seconds: float = shown("s", ".2f", means="wall time, median")
    speedup: float = shown("speed-up", ".2f", means="of one thread, median of the turns")
    waiting_fraction: float = shown("waiting", ".1%", means="of the threads' time at barriers")


class CriticalPathRow(NamedTuple):
    """The gain that more workers would bring. `limit`: one for every node (Amdahl's)."""

    workload: str
    workers: int
    speedup: float
    limit: float


class ParallelLoad:
    """A fabric and what it sends, ready to be run."""

    def __init__(self, name: str, k: int, message: int, threads: int) -> None:
        self.name = name
        if name != D3_UNF:
            topology = parse_topology(f"fat-tree:k={k}")
            if name == SHORT_CABLE:
                first = next(link for link in topology.links if link.kind != "host")
                links = [replace(link, delay_ps=1_000) if link is first else link for link in topology.links]
                topology = replace(topology, links=tuple(links))
            pairs, scheme, self.duration_ps = derangement(len(topology.hosts), 1), REFERENCE_SCHEME, 0
        else:
            topology = parse_topology("d3")
            pairs = pairs_of(topology, "unf", 1, _D3_CONNECTIONS)
            scheme, message, self.duration_ps = TELEMETRY_LERP, ENDLESS, _D3_PS
        self.fabric = VirtualFabric(topology, scheme, REFERENCE_SETTINGS, queue_pairs=len(pairs), threads=threads)
        self.fabric.connect(pairs)
        self.fabric.run(1)  # loads native code
        self.fabric.send(message)

    @property
    def over(self) -> bool:
        if self.duration_ps:
            return self.fabric.now_ps >= self.duration_ps
        return not self.fabric.unfinished()

    def run(self) -> float:
        """Run to the end; return the wall time in seconds."""
        begin = time.perf_counter()
        while not self.over:
            self.fabric.run(self.fabric.now_ps + _STEP_PS)
        return time.perf_counter() - begin


def state_of(fabric: VirtualFabric) -> dict[str, np.ndarray]:
    """All that a run leaves behind, by name: tables of hosts, counters of the loop, ports, switches and hosts, counters
    and registers of P4 programs."""
    network = fabric.network
    state = {"events": np.array(network.loop_stats()["events"]), "now": np.array(fabric.now_ps)}
    for name in _TABLES:
        table = getattr(fabric.hs, name)
        state |= {f"{name}.{field}": table[field].copy() for field in table.dtype.names if field not in _OF_PROCESS}
    for kind in ("port", "switch", "host"):
        columns = getattr(network, f"{kind}_stats")()
        state |= {f"{kind} {name}": np.array(column) for name, column in columns.items()}
    for device, switch in fabric.states.items():
        state |= {f"{device} {name}": counter.values.copy() for name, counter in switch.counters.items()}
        state |= {f"{device} {name}": register.memory.copy() for name, register in switch.registers.items()}
    return state


def digest(fabric: VirtualFabric) -> str:
    """Return a digest of `state_of`."""
    total = hashlib.sha256()
    for column in state_of(fabric).values():
        total.update(column.tobytes())
    return total.hexdigest()


def critical_path(load: ParallelLoad) -> list[CriticalPathRow]:
    """Run a load window by window: by how much more workers would be faster than one."""
    network, executed = load.fabric.network, []
    begin_events, begin_ns = before, _ = network.node_costs()
    while not load.over:
        load.fabric.run(network.next_event_ps + network.window_ps - 1)
        after = network.node_costs()[0]
        executed.append(after - before)
        before = after
    events, ns = network.node_costs()
    # Single windows are measured badly where others use the machine as well.
    cost = np.array(executed) * ((ns - begin_ns) / np.maximum(events - begin_events, 1))

    sides = [np.flatnonzero(network.node_sides == side) for side in set(network.node_sides.tolist())]
    limit = cost.sum() / sum(cost[:, ours].max(axis=1).sum() for ours in sides)
    rows = []
    for workers in _WORKERS:
        longest = 0.0
        for ours in sides:
            begins = np.searchsorted(shares((ns - begin_ns)[ours], workers), np.arange(workers))
            longest += np.add.reduceat(np.pad(cost[:, ours], ((0, 0), (0, 1))), begins, axis=1).max(axis=1).sum()
        rows.append(CriticalPathRow(load.name, workers, float(cost.sum() / longest), float(limit)))
    return rows


def run(
    k: int = 16,
    message: int = 2_000_000,
    turns: int = 3,
    loads: Sequence[str] = (PERMUTATION, SHORT_CABLE, D3_UNF),
    plot: Path | None = None,
    progress: Progress = silent,
) -> BenchReport:
    """Measure loads with 1, 2, 4 ... threads, as many as there are cores, and follow their critical paths."""
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= max(cores(), 2)]
    rows: list[ThreadsRow] = []
    paths: list[CriticalPathRow] = []
    identical = True
    for name in loads:
        digests, seconds, waited = set(), {count: [] for count in counts}, {count: [] for count in counts}
        for turn in range(turns):
            for count in counts:
                progress(f"{name}, {count} thread{'s'[: count > 1]}, turn {turn + 1} of {turns}")
                load = ParallelLoad(name, k, message, count)
                with load.fabric as fabric:
                    before_s = fabric.network.waited_s
                    seconds[count].append(load.run())
                    waited[count].append((fabric.network.waited_s - before_s) / count / seconds[count][-1])
                    digests.add(digest(fabric))
        identical &= len(digests) == 1
        for count in counts:
            faster = statistics.median(one / many for one, many in zip(seconds[1], seconds[count], strict=True))
            rows.append(
                ThreadsRow(
                    workload=name,
                    threads=count,
                    seconds=statistics.median(seconds[count]),
                    speedup=faster,
                    waiting_fraction=statistics.median(waited[count]),
                )
            )
        if name == SHORT_CABLE:
            continue
        progress(f"{name}, the critical path")
        load = ParallelLoad(name, k, message, 1)
        with load.fabric:
            paths += critical_path(load)
    if plot is not None:
        draw(rows, paths, plot)
    return _report(rows, paths, identical)


def draw(rows: Sequence[ThreadsRow], paths: Sequence[CriticalPathRow], file: Path) -> None:
    """Speed-ups measured with threads, and along the critical path with more workers. Raises `DetourError`: see
    `experiments.drawing`."""
    plt, figure, (axis,) = drawing.row(1, width=6.0)
    for name, colour in zip(dict.fromkeys(one.workload for one in paths), (drawing.BLUE, drawing.ORANGE), strict=False):
        measured = np.array([(one.threads, one.speedup) for one in rows if one.workload == name])
        drawing.curve(axis, measured[:, 0], measured[:, 1], (colour, "o", "-"), f"{name}: measured")
        path = np.array([(one.workers, one.speedup) for one in paths if one.workload == name])
        drawing.curve(axis, path[:, 0], path[:, 1], (colour, "s", "--"), f"{name}: critical path")
    axis.plot((1, 64), (1, 64), color=drawing.GRAY, linestyle=":", label="linear")
    axis.set(xscale="log", yscale="log", xlabel="threads", ylabel="speed-up")
    drawing.legend(figure, (axis,), columns=2)
    drawing.save(plt, figure, file)


def _report(rows: list[ThreadsRow], paths: list[CriticalPathRow], identical: bool) -> BenchReport:
    goals = [
        Goal(f"{one.workload}: speed-up with {one.threads} threads", one.speedup, _GOALS[one.threads])
        for one in rows
        if one.threads in _GOALS and one.workload != SHORT_CABLE
    ]
    goals += [
        Goal(f"{one.workload}: critical path, {one.workers} workers", one.speedup, _GOALS[one.workers])
        for one in paths
        if one.workers in (4, 16)
    ]
    notes = [
        f"{name}, critical path: "
        + ", ".join(f"{one.workers} workers {one.speedup:.1f}" for one in paths if one.workload == name)
        + f"; with a worker for every node {next(one.limit for one in paths if one.workload == name):.1f}"
        for name in dict.fromkeys(one.workload for one in paths)
    ]
    notes.append("All runs of a load have the same results." if identical else "RESULTS DIFFER: a defect.")
    numbers = {
        "threads": [asdict(one) for one in rows],
        "identical": identical,
        "critical_path": [one._asdict() for one in paths],
    }
    return report_of_rows("parallel", ThreadsRow, rows, numbers, goals, notes)
