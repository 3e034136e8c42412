# SPDX-License-Identifier: Apache-2.0
"""Running the points of an experiment: which fit a budget, where results are kept, what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from detour.base.cache import cache_dir, without
from detour.base.errors import DetourError
from detour.base.progress import silent
from detour.base.records import as_json, decoder
from detour.base.tables import Table
from detour.engine import warm
from detour.experiments import sweep
from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus import figures as fcplus_figures
from detour.experiments.fcplus import results as fcplus_results
from detour.experiments.fcplus import tables as fcplus_tables
from detour.experiments.flat import cells as flat_cells
from detour.experiments.flat import experiment as flat
from detour.experiments.flat import points as flat_points
from detour.experiments.flat import selection as flat_selection
from detour.experiments.fors import experiment as fors
from detour.experiments.fors import tables as fors_tables
from detour.experiments.fors.results import ForsBreak, ForsExchange, ForsPhases, ForsTimes
from detour.experiments.hardware import experiment as hardware
from detour.experiments.loss import experiment as loss
from detour.experiments.nonshortest import ablation, deadlock, pfc_gain, tuning
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest import figures as nonshortest_figures
from detour.experiments.nonshortest import tables as nonshortest_tables
from detour.experiments.placement import experiment as path_placement
from detour.experiments.placement import steps as path_steps
from detour.experiments.placement import tables as path_tables
from detour.experiments.placement.scenario import PathRun
from detour.experiments.planes import experiment as planes
from detour.experiments.qcn import experiment as qcn_switch
from detour.experiments.qcn import tables as qcn_tables
from detour.experiments.qcn import transients as qcn_transients
from detour.experiments.queues import experiment as queues
from detour.experiments.rivals import experiment as rivals
from detour.experiments.rivals import points as rival_points
from detour.experiments.rivals import tables as rival_tables
from detour.experiments.store import Store, source_version
from detour.experiments.tcp import experiment as tcp

P = TypeVar("P")
R = TypeVar("R")
C = TypeVar("C")


def _warm_engine(points: Sequence[Any]) -> None:
    """Compile the event loop, which most experiments need."""
    warm.ensure(silent)


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[P, R, C]):
    """An experiment: points P, their results R, and C, which is collected from these. All three are records.

    `select`: the points of an extent (`quick`, `normal`, `full`) and of what is asked for besides; `run`: computes a
    point, in another process if need be, which finds it by its module's name and its own; `decode`: a result from its
    JSON (`base.records.decoder`); `collect`: what comes of the results of all points that were run; `annotate`: what is
    said besides, given the points that were selected and the result of each (None: it failed or was left out);
    `tables`, `draw`: how it is shown; `groups`: lines for points left out, where they are too many to be named;
    `seconds`: a point's rough cost on one core; `prepare`: compiles what points need before processes are started;
    `quick_fraction`: of the time of --quick, what points may take beside that.
    """

    name: str
    text: str
    select: Callable[..., Sequence[P]]
    run: Callable[[P], R]
    decode: Callable[[Any], R]
    collect: Callable[[Sequence[R]], C]
    seconds: Callable[[P], float]
    tables: Callable[[C], Sequence[Table[Any]]]
    annotate: Callable[[C, Sequence[P], Sequence[R | None]], C] | None = None
    draw: Callable[[C, Path], None] | None = None
    groups: Callable[[Sequence[P]], list[str]] | None = None
    prepare: Callable[[Sequence[P]], None] = _warm_engine
    quick_fraction: float = 1.0


def _declared(name: str, text: str, *parts: Any, **more: Any) -> Experiment[Any, Any, Any]:
    """An experiment whose modules (`parts`) define what it is made of by the names that `Experiment` has for it, the
    first one that does; `results`, kinds of them, stand for `decode`."""
    if "results" in more:
        more["decode"] = decoder(*more.pop("results"))
    members = {field.name for field in fields(Experiment)}
    for module in parts:
        own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        more = {key: value for key, value in own.items() if key in members} | more
    return Experiment(name=name, text=text, **more)


NONSHORTEST = _declared(
    "nonshortest",
    "Figs. 5 to 7 and Table III: four schemes on Dragonflies D1 to D3, UNF, ADV1 and ADV2",
    nonshortest,
    nonshortest_tables,
    select=nonshortest.select_asked,
    draw=lambda findings, file: nonshortest_figures.throughput(findings.points, file),
)
ADDITIONS_WORTH = replace(
    NONSHORTEST, select=ablation.select_asked, collect=ablation.collect, tables=nonshortest_tables.additions, draw=None
)
"""what schemes are set to, and what each addition to the paper is worth"""
TUNING = replace(
    NONSHORTEST,
    select=tuning.select_asked,
    collect=list,
    annotate=tuning.choices,
    tables=nonshortest_tables.tried,
    draw=None,
)
"""the best setting of every scheme"""
PFC_GAIN = _declared(
    "pfc-gain",
    "Table I: LERP without PFC against RoCEv2 with PFC on a 1:4 fat-tree with 512 hosts",
    pfc_gain,
    results=[pfc_gain.PfcGainRun],
    draw=lambda findings, file: nonshortest_figures.pfc_gain(findings.points, file),
)
DEADLOCK = _declared(
    "deadlock",
    "Fig. 2: a cycle of buffers, with PFC and one virtual channel, with three, and without PFC",
    deadlock,
    results=[deadlock.Figure2Run],
)
PATH_PLACEMENT = _declared(
    "path-placement",
    "SRv6 path placement, section IV: a throttled link, with and without rerouting by controller or NIC",
    *(path_placement, path_tables),
    results=[PathRun],
)
STEP_TIMES = _declared(
    "path-placement",
    "step times of training jobs on several planes, hashed, placed and sprayed",
    path_steps,
    results=[path_steps.RingRun],
)
FCPLUS = _declared(
    "fcplus",
    "Tables I to VIII and Figs. 3 to 7 of the FC+ paper: paths, throughput and packet level of expanders",
    *(fcplus, fcplus_results, fcplus_tables, fcplus_figures),
    quick_fraction=0.15,
)
FLAT = _declared(
    "flat",
    "Flat fabrics at equal cost: RNG with Spraypoint, PolarFly, Slim Fly, FC+ beside trees, by who chooses paths",
    *(flat, flat_cells),
    results=[flat_points.FlatRun, flat_points.CollectiveRun, flat_points.ClaimsRun],
    select=flat_selection.select_asked,
)
FORS = _declared(
    "fors",
    "FORS: Figs. 3, 6 and 7, and computation times, on FT(2;20,18) under nine failure scenarios",
    *(fors, fors_tables),
    results=[ForsExchange, ForsBreak, ForsTimes, ForsPhases],
)
QCN_SWITCH = _declared(
    "qcn-switch",
    "QCN-Switch: Figs. 3, 7 and 8, adaptive routing from congestion notifications on a Dragonfly of 1056 hosts",
    *(qcn_switch, qcn_tables),
    results=[qcn_switch.QcnResult],
)
QCN_TRANSIENTS = _declared(
    "qcn-switch",
    "QCN-Switch: how soon adaptive routing follows a change of traffic",
    qcn_transients,
    results=[qcn_transients.TransientResult],
)
LOSS_COST = _declared(
    "loss",
    "What losses, reordering and contention cost a connection, by transport and congestion control",
    loss,
    results=[loss.LossRun],
)
PLANES = _declared(
    "planes",
    "A step over several planes, in which a switch dies, by who chooses paths",
    planes,
    results=[planes.StepRun],
)
RIVALS = _declared(
    "rivals",
    "SprayLERP compared with other path selection schemes: throughput, completion times, recovery",
    *(rivals, rival_points, rival_tables),
    results=[rivals.RivalRun],
    select=rival_points.select_asked,
    tables=rival_tables.all_tables,
)
HARDWARE = _declared(
    "hardware",
    "nccl-tests on H100 clusters: measured times, and predictions with two numbers fitted on one of the sets",
    hardware,
    results=[hardware.HardwareRun],
)
QUEUES = _declared(
    "queues",
    "The traffic manager compared with queueing theory: waits, priorities, shares, rates",
    queues,
    results=[queues.QueueRun],
)
TCP = _declared(
    "tcp", "TCP of the IP hosts compared with theory: losses, sharing, DCTCP's queue", tcp, results=[tcp.TcpRun]
)

EXPERIMENTS: dict[str, Experiment[Any, Any, Any]] = {
    e.name: e
    for e in (
        *(
            NONSHORTEST,
            PFC_GAIN,
            DEADLOCK,
            PATH_PLACEMENT,
            FCPLUS,
            FLAT,
            FORS,
            QCN_SWITCH,
            LOSS_COST,
            PLANES,
            RIVALS,
            HARDWARE,
            QUEUES,
        ),
        TCP,
    )
}


@dataclass(frozen=True)
class Means:
    """Means to run points. `budget_s`: time that all points together may take; what does not fit is left out.
    `archive`: a file of finished points, of any sources, out of which alone everything is taken: nothing is run."""

    processes: int = 1
    ray: str | None = None
    store: Path | None = None
    budget_s: float | None = None
    archive: Path | None = None


def default_store(name: str) -> Path | None:
    """Return where the points of an experiment are kept unless a file is named; None if this user has no home."""
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
    """The outcome of an experiment's points: `left_out` were beyond the budget."""

    experiment: str
    collected: C
    failures: Sequence[sweep.FailedPoint[P]] = ()
    left_out: Sequence[P] = ()


def reproduce(
    experiment: Experiment[P, R, C], points: Sequence[P], means: Means, report: sweep.SweepProgress | None = None
) -> Reproduction[P, C]:
    """Run the points that are not in the store and collect all of them.

    Finished points are kept and not run again while the sources stay the same.
    """
    if means.archive is not None:
        store = Store.of_archive(means.archive, experiment.decode)
        absent = [point for point in points if point not in store]
        return Reproduction(experiment.name, _collected(experiment, points, store), (), absent)
    store = Store(means.store, source_version(), experiment.decode)
    missing = [point for point in points if point not in store]
    budget_s = None if means.budget_s is None else means.budget_s * experiment.quick_fraction
    now, later = affordable(missing, experiment.seconds, budget_s, means.processes)
    experiment.prepare(now)
    # Long points first, so that no process is left alone with one at the end.
    chosen = sorted((p for p in points if p in store or p in now), key=experiment.seconds, reverse=True)
    worker = sweep.name_of(experiment.run)
    outcome = sweep.run(chosen, worker, store, processes=means.processes, ray=means.ray, report=report)
    return Reproduction(experiment.name, _collected(experiment, points, store), outcome.failures, later)


def keep(file: Path, store: Path | None) -> int:
    """Add what a store has of the present sources to a file; a run that both have is the store's. Return how many
    runs the file has then. Raises `DetourError`: the file cannot be read or written, or there is no store."""
    if store is None or not store.exists():
        raise DetourError(f"{store}: no finished runs to keep")
    return Store(store, source_version()).archive(file)


def _collected(experiment: Experiment[P, R, C], points: Sequence[P], store: Store[R]) -> C:
    results = [store.get(point) for point in points]
    collected = experiment.collect([result for result in results if result is not None])
    return experiment.annotate(collected, points, results) if experiment.annotate else collected


def document(outcome: Reproduction[Any, Any]) -> dict[str, Any]:
    """The one JSON document of a reproduction: what was collected, `failures` (point and reason) and `left_out`."""
    rest = {"failures": as_json(outcome.failures), "left_out": as_json(outcome.left_out)}
    return {"experiment": outcome.experiment, **as_json(outcome.collected), **rest}


_TELLING = (
    *("kind", "topology", "pattern", "case", "network", "scheme", "load", "message_bytes", "pairs", "connections"),
    *("threshold", "scenario", "mode", "routing", "event", "n", "s", "v", "layers", "k", "ties", "us", "sizes"),
    *("set", "op", "gpus", "dcqcn", "without", "transport", "senders", "loss", "reordering", "seed"),
)
"""what tells points apart, in the order in which it is said"""


def describe(point: Any) -> str:
    """A point in a few words."""
    values = as_json(point)
    return ", ".join(f"{name} {values[name]}" for name in _TELLING if values.get(name) is not None)
