# SPDX-License-Identifier: Apache-2.0
"""The interface of `import detour` (docs/python.md): topologies, fabrics, workloads and runs in virtual time,
placements.

Everything that a text may name on the command line may be named by the same text here, or be handed in as an object.
What comes back are records, NumPy arrays and dictionaries that pandas takes as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.control.graph_files import open_topology
from detour.experiments.sim.placed import PLACED_SCHEME, run_both
from detour.experiments.sim.plan import plan_of
from detour.experiments.sim.results import by_size, result_of
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions
from detour.experiments.sim.workloads import WORKLOAD_REGISTRY, SimWorkload, workload_of_rows
from detour.fabric.backends.virtual.scheme import SCHEME_REGISTRY, scheme
from detour.fabric.labs.virtual import open_lab
from detour.fabric.workloads.tasks import TaskGraph, TaskList
from detour.hosts.cc import CC_REGISTRY
from detour.topo import Topology
from detour.topo.spec import TOPOLOGY_REGISTRY

if TYPE_CHECKING:
    import networkx

    from detour.control.placement.report import PlacementReport
    from detour.experiments.sim.replay.replay import Replay
    from detour.fabric.operations.session import Session

FlowTuple: TypeAlias = Sequence[float]
"""of a flow: source host, destination host, bytes and, if not all begin at once, seconds"""
WorkloadLike: TypeAlias = "str | TaskGraph | Iterable[FlowTuple]"


_SHOWN_STEPS = 16
lab = open_lab


def topology(what: str | networkx.Graph, *, gbps: float | None = None, delay_ns: float | None = None) -> Topology:
    """A topology by its text (`fat-tree:k=4`, a file, `FILE.py:NAME`), or of a networkx graph whose nodes are switches
    but for those with `kind="host"`. `gbps`, `delay_ns`: of links of a file that say nothing.
    Raises `DetourError`: what is wrong with it.
    """
    if isinstance(what, str):
        return open_topology(what, gbps, delay_ns)
    from detour.topo.graphs import from_networkx

    return from_networkx(what)


def names() -> dict[str, tuple[str, ...]]:
    """Return the names that texts may use, by kind: `topologies`, `workloads`, `schemes`, `congestion_control`."""
    registries = {
        "topologies": TOPOLOGY_REGISTRY,
        "workloads": WORKLOAD_REGISTRY,
        "schemes": SCHEME_REGISTRY,
        "congestion_control": CC_REGISTRY,
    }
    return {kind: registry.names() for kind, registry in registries.items()}


@dataclass(frozen=True, eq=False)
class Simulation:
    """A run in virtual time. `run`: all that was recorded. `ecmp`: beside a placed run, the same workload on paths that
    hashes pick."""

    run: SimRun
    ecmp: Simulation | None = None

    def __repr__(self) -> str:
        return repr(self.run).replace("SimRun", "Simulation", 1)

    def _repr_html_(self) -> str:
        """For notebooks: the tables that `detour sim` prints."""
        from detour.experiments.sim.report import html_table
        from detour.experiments.sim.tables import sim_tables

        tables = sim_tables(result_of(self.run), by_size(self.run), _SHOWN_STEPS)
        return f"<p>{escape(repr(self)[1:-1])}</p>{''.join(map(html_table, tables))}"

    @property
    def summary(self) -> dict[str, Any]:
        """Return the document of `detour sim --json`."""
        document: dict[str, Any] = as_json(result_of(self.run))
        return document

    @property
    def flows(self) -> NDArray[Any]:
        """(messages,) structured: source, target, bytes, start_us, fct_us, ideal_us, slowdown and more; not a number
        where something did not happen."""
        from detour.experiments.sim.report import flow_columns

        columns = flow_columns(self.run)
        rows = np.empty(len(columns["source"]), [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            rows[name] = values
        return rows

    @property
    def by_size(self) -> list[dict[str, Any]]:
        """Completion times and slowdown by the size of flows."""
        return [asdict(one) for one in by_size(self.run)]

    def replay(self) -> Replay:
        """Go back to packets of this run (`detour.replay`)."""
        from detour.experiments.sim.plan import SimPlan
        from detour.experiments.sim.replay.replay import Replay

        return Replay(SimPlan(self.run.topology, self.run.workload, self.run.settings))

    def save(self, folder: str | Path) -> None:
        """Write flows.csv, result.json and report.html, as `detour sim --out`.
        Raises `DetourError`: the folder cannot be written.
        """
        from detour.experiments.sim import report

        report.check_folder(Path(folder))
        report.write(Path(folder), self.run)

    def plot(self, file: str | Path) -> None:
        """Draw completion times, slowdown, link, queues, delays and reordering (.png, .svg, .pdf).
        Raises `DetourError`: nothing is complete, matplotlib is missing, or the file cannot be written.
        """
        from detour.experiments.sim import figures, report

        report.check_plot(Path(file))
        figures.draw(Path(file), self.run)


def replay(file: str | Path) -> Replay:
    """Go back to packets of a run that `detour sim --record` wrote: `packet(flow, psn)`, `first_drop()`,
    `first_mark()`, `longest_wait()` (docs/trace.md).
    Raises `DetourError`: the file is none, or of another version, or a file that the run read is not what it was.
    """
    from detour.experiments.sim.replay.replay import Replay

    return Replay.of_file(Path(file))


def simulate(
    topology: str | Topology, workload: WorkloadLike, *, placed: bool = False, fail: Iterable[str] = (), **options: Any
) -> Simulation:
    """Run a workload in virtual time until all of it has arrived. Raises `DetourError`: what is missing or wrong.

    Args:
        topology: a text or a topology.
        workload: a text, a graph of tasks, or rows of flows (`FlowTuple`).
        placed: on the paths of a placement, and beside it with those that hashes pick (`Simulation.ecmp`).
        fail: links and switches that go down, like `s0-s3@50us`.
        options: the other options of `detour sim`, with `_` for `-`, as texts or numbers: `scheme`, `cc`, `rate`,
            `delay`, `buffer`, `loss`, `ecn`, `reroute_after`, `duration`, `connections`, `program`, `seed`, `jitter`.
    """
    if placed:
        options.setdefault("scheme", PLACED_SCHEME)
    texts = _texts(options, topo=topology, workload=workload)
    plan = plan_of(
        SimOptions(fail=tuple(fail), **texts),
        None if isinstance(topology, str) else topology,
        None if isinstance(workload, str) else lambda of: _made(workload, of),
    )
    if not placed:
        return Simulation(run_workload(plan.topology, plan.workload, plan.settings))
    if plan.settings.failures:
        raise DetourError("placed=True does not go with fail: placements are not repaired here")
    hashed, pinned = run_both(plan, lambda arrived, seconds, share: None)
    return Simulation(pinned, Simulation(hashed))


def _texts(options: dict[str, Any], **named: Any) -> dict[str, str]:
    """Options as the command takes them; of topology and workload only what is text."""
    allowed = SimOptions.__dataclass_fields__.keys() - {"topo", "workload", "fail"}
    if unknown := sorted(options.keys() - allowed):
        raise DetourError(f"simulate has no {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}")
    texts = {name: str(value) for name, value in options.items() if value is not None}
    return texts | {name: value for name, value in named.items() if isinstance(value, str)}


def _made(workload: TaskGraph | Iterable[FlowTuple], topology: Topology) -> SimWorkload:
    if isinstance(workload, TaskGraph):
        return SimWorkload("tasks", workload, False)
    return workload_of_rows("rows", workload, topology)


def boot(topology: str = "d1", *, target: str = "engine", **options: Any) -> Session:
    """A fabric in real time, provisioned; its methods are the commands of a running fabric (`send`, `path`, `fail`,
    `heal`, `verify`, `probe`, `load`, `capture`, ...). To be used with `with`, or closed. Raises `DetourError`:
    something is wrong or missing; nothing is left running.

    Args:
        topology: its text.
        target: `engine`, `bmv2`, or `auto`.
        options: `rate_bps`, `delay_ps`, `queue_packets`, `loss`, `program`, `pcap`, `load` (`UpOptions`).
    """
    from detour.fabric.daemon.daemon import UpOptions
    from detour.fabric.daemon.daemon import boot as booted

    allowed = UpOptions.__dataclass_fields__.keys() - {"target", "topology", "grpc", "grpc_tls"}
    if unknown := sorted(options.keys() - allowed):
        raise DetourError(f"boot has no {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}")
    return booted(UpOptions(target, topology, **options))


def place(topology: str | Topology, jobs: str | Path, *, seeds: int = 100) -> PlacementReport:
    """Paths for the flows of AI jobs that share as few links as can be, beside ECMP's. `jobs`: a job file; `seeds`: of
    hashing.
    Raises `DetourError`: the file is wrong, or hosts of a job are not connected.
    """
    from detour.control.placement.jobs import read_jobs
    from detour.control.placement.report import compare

    network = open_topology(topology) if isinstance(topology, str) else topology
    return compare(network, read_jobs(Path(jobs), network), seeds=seeds)[1]


__all__ = [
    "DetourError",
    "Simulation",
    "TaskGraph",
    "TaskList",
    "Topology",
    "boot",
    "names",
    "place",
    "scheme",
    "simulate",
    "topology",
]
