# SPDX-License-Identifier: Apache-2.0
"""Running the points of an experiment: which fit a budget, where results are kept, what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from detour.base.cache import cache_dir, without
from detour.base.progress import silent
from detour.base.records import as_json, decoder
from detour.engine import warm
from detour.experiments import sweep
from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus.results import FCPLUS_RESULTS
from detour.experiments.fors import experiment as fors
from detour.experiments.fors.results import ForsBreak, ForsExchange, ForsPhases, ForsTimes
from detour.experiments.loss import experiment as loss
from detour.experiments.nonshortest import deadlock, pfc_gain
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.placement import experiment as path_placement
from detour.experiments.placement import tables as path_tables
from detour.experiments.qcn import experiment as qcn_switch
from detour.experiments.qcn import tables as qcn_tables
from detour.experiments.queues import experiment as queues
from detour.experiments.rivals import cells as rival_cells
from detour.experiments.rivals import experiment as rivals
from detour.experiments.rivals import points as rival_points
from detour.experiments.store import Store, source_version
from detour.experiments.tcp import experiment as tcp

P = TypeVar("P")
R = TypeVar("R")
C = TypeVar("C")
D = TypeVar("D")


def _warm_engine(points: Sequence[Any]) -> None:
    """Compiles the event loop, which most experiments need."""
    warm.ensure(silent)


@dataclass(frozen=True)
class Experiment(Generic[P, R, C]):
    """What can be reproduced: points P, their results R, and C, what is made of these. All three are records.

    `run`: computes a point, in another process if need be, which finds it by its module's name and its own; `decode`:
    a result from its JSON (`base.records.decoder`); `collect`: what comes of the results, of which those of points that
    failed or were left out are None; `seconds`: a point's rough cost on one core; `prepare`: compiles what points need
    before processes are started; `quick_share`: of the time of --quick, what points may take beside that.
    """

    name: str
    text: str
    run: Callable[[P], R]
    decode: Callable[[Any], R]
    collect: Callable[[Iterable[R | None]], C]
    seconds: Callable[[P], float]
    prepare: Callable[[Sequence[P]], None] = _warm_engine
    quick_fraction: float = 1.0

    def collecting(self, collect: Callable[[Iterable[R | None]], D]) -> Experiment[P, R, D]:
        """The same runs, of which something else is made."""
        known = (self.seconds, self.prepare, self.quick_fraction)
        return Experiment(self.name, self.text, self.run, self.decode, collect, *known)


NONSHORTEST = Experiment(
    "nonshortest",
    "Figs. 5 to 7 and Table III: four schemes on Dragonflies D1 to D3, UNF, ADV1 and ADV2",
    nonshortest.run,
    nonshortest.decode,
    nonshortest.collect,
    nonshortest.seconds,
)
PFC_GAIN = Experiment(
    "pfc-gain",
    "Table I: LERP without PFC against RoCEv2 with PFC on a 1:4 fat-tree with 512 hosts",
    pfc_gain.run,
    decoder(pfc_gain.PfcGainRun),
    pfc_gain.collect,
    pfc_gain.seconds,
)
DEADLOCK = Experiment(
    "deadlock",
    "Fig. 2: a circle of buffers, with PFC and one virtual channel, with three, and without PFC",
    deadlock.run,
    decoder(deadlock.Figure2Run),
    deadlock.collect,
    deadlock.seconds,
)
PATH_PLACEMENT = Experiment(
    "path-placement",
    "SRv6 path placement, section IV: a throttled link, with and without rerouting by controller or NIC",
    path_placement.run,
    decoder(path_placement.PathRun),
    path_tables.collect,
    path_placement.seconds,
)
FCPLUS = Experiment(
    "fcplus",
    "Tables I to VIII and Figs. 3 to 7 of the FC+ paper: paths, throughput and packet level of expanders",
    fcplus.run,
    decoder(*FCPLUS_RESULTS),
    fcplus.collect,
    fcplus.seconds,
    fcplus.prepare,
    0.15,
)
FORS = Experiment(
    "fors",
    "FORS: Figs. 3, 6 and 7, and computation times, on FT(2;20,18) under nine failure scenarios",
    fors.run,
    decoder(ForsExchange, ForsBreak, ForsTimes, ForsPhases),
    fors.collect,
    fors.seconds,
)
QCN_SWITCH = Experiment(
    "qcn-switch",
    "QCN-Switch: Figs. 3, 7 and 8, adaptive routing from congestion notifications on a Dragonfly of 1056 hosts",
    qcn_switch.run,
    decoder(qcn_switch.QcnResult),
    qcn_tables.collect,
    qcn_switch.seconds,
)
LOSS_COST = Experiment(
    "loss",
    "What losses, reordering and contention cost a connection, by transport and congestion control",
    loss.run,
    decoder(loss.LossRun),
    loss.collect,
    loss.seconds,
)

RIVALS = Experiment(
    "rivals",
    "SprayLERP beside other ways to choose paths: throughput, completion times, recovery",
    rivals.run,
    decoder(rivals.RivalRun),
    rival_cells.collect,
    rival_points.seconds,
)
QUEUES = Experiment(
    "queues",
    "The traffic manager beside queueing theory: waits, priorities, shares, rates",
    queues.run,
    decoder(queues.QueueRun),
    queues.collect,
    queues.seconds,
)
TCP = Experiment(
    "tcp",
    "TCP of the IP hosts beside theory: losses, sharing, DCTCP's queue",
    tcp.run,
    decoder(tcp.TcpRun),
    tcp.collect,
    tcp.seconds,
)

EXPERIMENTS: dict[str, Experiment[Any, Any, Any]] = {
    e.name: e
    for e in (NONSHORTEST, PFC_GAIN, DEADLOCK, PATH_PLACEMENT, FCPLUS, FORS, QCN_SWITCH, LOSS_COST, RIVALS, QUEUES, TCP)
}


@dataclass(frozen=True)
class Means:
    """How points are run. `budget_s`: time that all points together may take; what does not fit is left out. `archive`:
    a file of finished points, of any sources, out of which alone everything is taken: nothing is run."""

    processes: int = 1
    ray: str | None = None
    store: Path | None = None
    budget_s: float | None = None
    archive: Path | None = None


def default_store(name: str) -> Path | None:
    """Where the points of an experiment are kept unless a file is named; None if this user has no home."""
    try:
        return cache_dir() / "results" / f"{name}.jsonl"
    except OSError as error:
        without(error)
        return None


def affordable(
    points: Sequence[P], seconds: Callable[[P], float], budget_s: float | None, processes: int
) -> tuple[list[P], list[P]]:
    """(points to run, points left out): cheap ones first, as many as fit the budget; at least one is run."""
    if budget_s is None:
        return list(points), []
    left, chosen = budget_s * processes, set()
    for index in sorted(range(len(points)), key=lambda i: seconds(points[i])):
        cost = seconds(points[index])
        # The longest point must end in time as well, whatever else goes on beside it.
        if not chosen or (cost <= left and cost <= budget_s):
            chosen.add(index)
            left -= cost
    return [p for i, p in enumerate(points) if i in chosen], [p for i, p in enumerate(points) if i not in chosen]


@dataclass(frozen=True)
class Reproduction(Generic[P, C]):
    """What came of an experiment's points: `left_out` were beyond the budget."""

    experiment: str
    collected: C
    failures: Sequence[sweep.FailedPoint[P]] = ()
    left_out: Sequence[P] = ()


def reproduce(
    experiment: Experiment[P, R, C], points: Sequence[P], means: Means, report: sweep.SweepProgress | None = None
) -> Reproduction[P, C]:
    """Runs the points that are not in the store and collects all of them.

    Finished points are kept and not run again while the sources stay the same.
    """
    if means.archive is not None:
        store = Store.of_archive(means.archive, experiment.decode)
        collected = experiment.collect(store.get(point) for point in points)
        return Reproduction(experiment.name, collected, (), [point for point in points if point not in store])
    store = Store(means.store, source_version(), experiment.decode)
    missing = [point for point in points if point not in store]
    budget_s = None if means.budget_s is None else means.budget_s * experiment.quick_fraction
    now, later = affordable(missing, experiment.seconds, budget_s, means.processes)
    experiment.prepare(now)
    wanted = [point for point in points if point in store or point in now]
    # Long points first, so that no process is left alone with one at the end.
    wanted.sort(key=experiment.seconds, reverse=True)
    worker = sweep.name_of(experiment.run)
    outcome = sweep.run(wanted, worker, store, processes=means.processes, ray=means.ray, report=report)
    collected = experiment.collect(store.get(point) for point in points)
    return Reproduction(experiment.name, collected, outcome.failures, later)


def document(found: Reproduction[Any, Any]) -> dict[str, Any]:
    """The one JSON document of a reproduction: what was collected, `failures` (point and reason) and `left_out`."""
    return {
        "experiment": found.experiment,
        **as_json(found.collected),
        "failures": as_json(found.failures),
        "left_out": as_json(found.left_out),
    }


def describe(point: Any) -> str:
    """A point in a few words."""
    names = (
        *(
            "kind",
            "topology",
            "pattern",
            "case",
            "network",
            "scheme",
            "load",
            "message_bytes",
            "pairs",
            "connections",
            "threshold",
            "scenario",
        ),
        *("mode", "routing", "n", "s", "v", "layers", "k", "ties", "us", "sizes", "dcqcn", "without", "transport"),
        *("senders", "loss", "reordering", "seed"),
    )
    values = as_json(point)
    return ", ".join(f"{name} {values[name]}" for name in names if values.get(name) is not None)
