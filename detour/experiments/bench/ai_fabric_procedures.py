# SPDX-License-Identifier: Apache-2.0
"""Procedures of the AI fabric benchmark, by the draft's sections: what each runs in virtual time, and what it measures.

Each procedure is a function of a trial, which is a scheme with a draw; trials with the same draw get the same ranks,
pairs and times, whatever their scheme. `ideal` of a measure is what an empty fabric would give.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from detour.base.times import MS, US
from detour.experiments.running import RunCounters, counters, jain
from detour.experiments.sim.recovery import RecoveryWatch
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions, SimSettings, TimedFailure, settings_of
from detour.experiments.sim.tables import size_text
from detour.experiments.sim.watching import Watcher, Watchers
from detour.experiments.sim.workloads import SimWorkload, open_workload, workload_of_rows
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import Scheme
from detour.fabric.workloads.collectives import Ranks, all_reduce_factor, all_to_all, ring_all_reduce, share_factor
from detour.fabric.workloads.ideal import group_ideals_ps, wire_terms
from detour.fabric.workloads.tasks import TaskList
from detour.topo import Topology
from detour.topo.failures import Failure

PROBE_BYTES = 1_000
_PROBES = 100
_BURSTS = tuple(4_000 << doubled for doubled in range(11))
"""bytes of each sender that are tried"""
_MOST_SENDERS = 32
_QUEUE_PAIRS = (1, 4, 16)
_REROUTE_AFTER_PS = MS
_ITERATIONS, _BROKEN = 4, 1
JCT_OVERHEAD = "JCT overhead"
"""of an all-reduce, and which of them a failure meets"""
_ROUNDS = 12
_ONSET_PS, _WINDOW_PS, _LONGEST_PS = 300 * US, 200 * US, 20 * MS
_FAIR = 0.1


class Measure(NamedTuple):
    """One value of one trial. `at`: the size or number that it was measured at, where a test has several; `label`: what
    that is called; `settled`: the run behind it was completed."""

    section: str
    test: str
    unit: str
    value: float | None
    ideal: float | None = None
    at: float | None = None
    label: str = ""
    settled: bool = True


@dataclass(frozen=True)
class Trial:
    """A scheme on a topology with a draw. `sizes`: bytes of messages, ascending."""

    topology: Topology
    scheme: Scheme
    placed: bool
    draw: int
    sizes: tuple[int, ...]
    settings: SimSettings = field(init=False)

    def __post_init__(self) -> None:
        usual = settings_of(self.topology, SimOptions())
        object.__setattr__(self, "settings", replace(usual, scheme=self.scheme, seed=self.draw))

    @property
    def hosts(self) -> int:
        return len(self.topology.hosts)

    def workload(self, text: str) -> SimWorkload:
        return open_workload(text, self.topology, self.settings.links.rate_bps, self.draw)

    def run(self, workload: SimWorkload | str, watcher: Watcher | None = None, **changes: Any) -> TrialRun:
        """Run it, with changes of the settings."""
        count, chosen = _Counts(), self.workload(workload) if isinstance(workload, str) else workload
        watchers = Watchers([count, *([watcher] if watcher else [])])
        settings = replace(self.settings, **changes)
        return TrialRun(
            run_workload(self.topology, chosen, settings, placed=self.placed, watcher=watchers), count.all, count.late
        )


class TrialRun(NamedTuple):
    """A run, its counters, and what fraction of data packets came behind a later one of their connection."""

    run: SimRun
    counters: RunCounters
    late: float

    @property
    def settled(self) -> bool:
        return self.run.ended_by == "delivered"

    @property
    def seconds(self) -> float | None:
        return self.run.end_ps / 1e12 if self.settled else None

    @property
    def ideal_s(self) -> float:
        return self.run.ideal.total_ps / 1e12

    @property
    def lost_ppm(self) -> float:
        return self.counters.drops / max(self.counters.packets, 1) * 1e6


class _Counts(Watcher):
    all: RunCounters
    late: float

    def end(self) -> None:
        self.all = counters(self._fabric)
        packets = self._fabric.lateness()
        self.late = float(packets[1:].sum() / max(packets.sum(), 1))


Procedure = Callable[[Trial], Iterator[Measure]]


def _gbps(count: float, seconds: float | None) -> float | None:
    return count * 8 / seconds / 1e9 if seconds else None


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


# -- RDMA transport -----------------------------------------------------------------------------------------


def throughput(trial: Trial) -> Iterator[Measure]:
    """Every host sends to one other host, and gets from one."""
    for size in trial.sizes:
        got = trial.run(f"permutation:bytes={size}")
        rates = _gbps(size, got.seconds), _gbps(size, got.ideal_s)
        yield Measure("5.1", "throughput of a host", "Gb/s", *rates, size, f"{size_text(size)}B", got.settled)


def latency(trial: Trial) -> Iterator[Measure]:
    """Short messages at random times beside a permutation of long ones."""
    rng, hosts = random.Random(f"latency {trial.draw}"), range(trial.hosts)
    order = rng.sample(hosts, len(hosts))
    busy = [(a, b, trial.sizes[-1], 0.0) for a, b in pairwise([*order, order[0]])]
    last = _probe_time(trial)
    probes = [(*rng.sample(hosts, 2), PROBE_BYTES, rng.uniform(0.1, 0.9) * last) for _ in range(_PROBES)]
    got = trial.run(workload_of_rows("latency", [*busy, *probes], trial.topology))
    probed = got.run.graph.tasks["bytes"] == PROBE_BYTES
    times, ideal = got.run.tasks.flow_completion_ps()[probed] / US, got.run.ideal.task_ps[probed] / US
    for name, percent in (("P50", 50), ("P99", 99)):
        value = float(np.percentile(times, percent)) if got.settled else None
        yield Measure(
            "5.2", f"{name} latency of {PROBE_BYTES} B under load", "us", value, float(np.percentile(ideal, percent)),
            settled=got.settled,
        )  # fmt: skip


def _probe_time(trial: Trial) -> float:
    """Seconds in which the longest messages of a permutation would arrive."""
    return trial.sizes[-1] * 8 / trial.settings.links.rate_bps


def burst(trial: Trial) -> Iterator[Measure]:
    """The longest burst of several senders to one receiver without loss."""
    for senders in _senders(trial)[-1:]:
        least, beyond = -1, len(_BURSTS)
        while beyond - least > 1:  # bursts up to `least` lose nothing, from `beyond` on they do
            middle = (least + beyond) // 2
            lossless = trial.run(f"incast:senders={senders},bytes={_BURSTS[middle]}").counters.drops == 0
            least, beyond = (middle, beyond) if lossless else (least, middle)
        value = float(_BURSTS[least]) if least >= 0 else 0.0
        yield Measure("5.3", f"burst without loss, {senders}:1, at most {size_text(_BURSTS[-1])}B", "B", value)


def _senders(trial: Trial) -> list[int]:
    return [count for count in (2, 4, 8, 16, _MOST_SENDERS) if count < trial.hosts] or [1]


# -- congestion ---------------------------------------------------------------------------------------------


def incast(trial: Trial) -> Iterator[Measure]:
    """Several hosts send to one: goodput, marks, losses, PAUSE frames, and the time for which ports were paused."""
    size = trial.sizes[-1]
    for senders in _senders(trial):
        got = trial.run(f"incast:senders={senders},bytes={size}")
        count, seconds, where = got.counters, got.run.end_ps / 1e12, (senders, f"{senders}:1", got.settled)
        rates = _gbps(size * senders, got.seconds), _gbps(size * senders, got.ideal_s)
        yield Measure("7.2", "incast goodput", "Gb/s", *rates, *where)
        yield Measure("7.1", "ECN marks under incast", "%", 100 * count.marked / max(count.packets, 1), None, *where)
        yield Measure("7.2", "PAUSE frames under incast", "1/s", count.pauses / seconds, None, *where)
        yield Measure("7.2", "paused time under incast", "us", count.paused_ms * 1e3, None, *where)
        yield Measure("7.2", "frames lost under incast", "ppm", got.lost_ppm, 0.0, *where)
        yield Measure("7.2", "longest queue under incast", "B", count.queue_peak_bytes, None, *where)


class _Convergence(Watcher):
    """Waits for a window in which all connections get within a tenth of an equal share, once all of them send."""

    converged_ps: int | None = None

    def begin(self, fabric: VirtualFabric) -> None:
        super().begin(fabric)
        self.due_ps, self._before = _ONSET_PS, fabric.column("st_rx_bytes").copy()

    @property
    def enough(self) -> bool:
        return self.converged_ps is not None

    def look(self) -> None:
        now, arrived = self._fabric.now_ps, self._fabric.column("st_rx_bytes").copy()
        shares = arrived - self._before
        if now > _ONSET_PS and np.all(abs(shares - shares.mean()) <= _FAIR * shares.mean()):
            self.converged_ps = now - _ONSET_PS
        self._before, self.due_ps = arrived, now + _WINDOW_PS


def convergence(trial: Trial) -> Iterator[Measure]:
    """As many senders again join some that fill a host's link."""
    flows = min(8, trial.hosts - 1) // 2
    if not flows:
        return
    order = random.Random(f"convergence {trial.draw}").sample(range(trial.hosts), 2 * flows + 1)
    rows = [(a, order[0], 1 << 30, 0.0 if k < flows else _ONSET_PS / 1e12) for k, a in enumerate(order[1:])]
    watch = _Convergence()
    trial.run(workload_of_rows("convergence", rows, trial.topology), watch, duration_ps=_ONSET_PS + _LONGEST_PS)
    took = watch.converged_ps
    value = None if took is None else took / US
    yield Measure("7.3", f"convergence of {2 * flows} senders", "us", value, _WINDOW_PS / US, settled=took is not None)


# -- load balance -------------------------------------------------------------------------------------------


def balance(trial: Trial) -> Iterator[Measure]:
    """A permutation with several queue pairs for each pair of hosts: how equal the uplinks of a switch are."""
    order = random.Random(f"balance {trial.draw}").sample(range(trial.hosts), trial.hosts)
    for pairs in _QUEUE_PAIRS:
        size = max(trial.sizes[-1] // pairs, 1)
        rows = [(a, b, size) for a, b in pairwise([*order, order[0]]) for _ in range(pairs)]
        got = trial.run(workload_of_rows("balance", rows, trial.topology))
        index, most = _uplinks(got.run)
        where = (pairs, f"{pairs} QP a pair", got.settled)
        yield Measure("8.4", "Jain's index of uplinks", "", index, 1.0, *where)
        yield Measure("8.1", "max-mean ratio of uplinks", "", most, 1.0, *where)
        yield Measure("8.3", "packets out of order", "%", 100 * got.late, None, *where)
        again = 100 * got.counters.retransmitted / max(got.counters.packets, 1)
        yield Measure("8.3", "packets sent again", "%", again, 0.0, *where)


def _uplinks(run: SimRun) -> tuple[float, float]:
    """(Jain's index, max-mean ratio) of bytes over the parallel links of each switch that lead upwards, or to its
    equals where there is no above; means over the switches that sent anything there."""
    topology, sent = run.topology, dict(zip(run.links.names, run.links.sent[-1], strict=True))
    found = []
    for switch in topology.switches:
        ends = [(link, a, b) for link in topology.links if link.kind != "host"
                for a, b in ((link.a, link.b), (link.b, link.a)) if a[0] == switch.index]  # fmt: skip
        up = [link.name for link, _, b in ends if _height(topology, b[0]) >= _height(topology, switch.index)]
        loads = np.array([sent[f"{name} from {switch.name}"] for name in up], float)
        if len(loads) > 1 and loads.any():
            found.append((jain(loads), float(loads.max() / loads.mean())))
    means = np.array(found or [(1.0, 1.0)]).mean(axis=0)
    return float(means[0]), float(means[1])


def _height(topology: Topology, switch: int) -> int:
    return topology.switches[switch].tier


# -- collectives and jobs -----------------------------------------------------------------------------------

_COLLECTIVES = (
    ("9.1", "AllReduce", "ring", all_reduce_factor),
    ("9.2", "AlltoAll", "all-to-all", share_factor),
    ("9.3", "AllGather", "all-gather", share_factor),
)


def collectives(trial: Trial) -> Iterator[Measure]:
    """Bus bandwidth over message size, ranks in a random order."""
    for section, name, kind, factor in _COLLECTIVES:
        for size in trial.sizes:
            got = trial.run(f"{kind}:bytes={size},shuffle={trial.draw}")
            carried = size * factor(trial.hosts)
            rates = _gbps(carried, got.seconds), _gbps(carried, got.ideal_s)
            label = f"{size_text(size)}B"
            yield Measure(section, f"{name} busbw", "Gb/s", *rates, size, label, got.settled)
            if size == trial.sizes[-1]:
                stuck = 0.0 if got.run.deadlock is None else 1.0
                yield Measure("7.4", f"PFC deadlocks, {name}", "", stuck, 0.0, settled=got.settled)


def scale(trial: Trial) -> Iterator[Measure]:
    """JCT ratio of an all-reduce over the number of ranks."""
    size = trial.sizes[-1]
    for ranks in sorted({max(2, trial.hosts // part) for part in (4, 2, 1)}):
        got = trial.run(f"ring:bytes={size},ranks={ranks},shuffle={trial.draw}")
        ratio = None if got.seconds is None else got.seconds / _roofline_s(trial, ranks)
        yield Measure("11.1", "JCT ratio of AllReduce", "", ratio, 1.0, ranks, f"{ranks} ranks", got.settled)


def _roofline_s(trial: Trial, ranks: int, compute_s: float = 0.0) -> float:
    """Return the roofline of an iteration, as in the draft's Fig. 4."""
    rate = trial.settings.links.rate_bps * trial.topology.planes
    return compute_s + 8 * trial.sizes[-1] * all_reduce_factor(ranks) / rate


def job(trial: Trial) -> Iterator[Measure]:
    """Iterations of as much computation as communication."""
    compute_s = _roofline_s(trial, trial.hosts)
    terms = f"compute={compute_s * 1e6:.3f}us,iterations={_ITERATIONS},shuffle={trial.draw}"
    got = trial.run(f"ring:bytes={trial.sizes[-1]},{terms}")
    roofline = _ITERATIONS * _roofline_s(trial, trial.hosts, compute_s)
    ratio = None if got.seconds is None else got.seconds / roofline
    yield Measure("10.1", "JCT ratio of a synthetic job", "", ratio, 1.0, settled=got.settled)


def tenants(trial: Trial) -> Iterator[Measure]:
    """Two jobs, each on a random half of the hosts: together, and each alone."""
    order = random.Random(f"tenants {trial.draw}").sample(range(trial.hosts), trial.hosts // 2 * 2)
    tasks, half = TaskList(trial.hosts, serial=True), trial.hosts // 2
    if half < 2:
        return
    for name, ranks in (("one", order[:half]), ("other", order[half:])):
        ring_all_reduce(tasks, Ranks.fresh(ranks, name), trial.sizes[-1])
    both = tasks.graph()
    step = both.tasks["step"]
    graphs = [both, *(both.some(np.flatnonzero(step == job)) for job in range(2))]
    runs = [trial.run(SimWorkload("tenants", graph, False)) for graph in graphs]
    settled, ratio = all(one.settled for one in runs), None
    if settled:
        ends = [int(runs[0].run.tasks.finish_ps[step == job].max()) for job in range(2)]
        ratio = max(end / one.run.end_ps for end, one in zip(ends, runs[1:], strict=True))
    yield Measure("10.3", "JCT interference factor of two jobs", "", ratio, 1.0, settled=settled)


# -- failures and soak --------------------------------------------------------------------------------------


def failover(trial: Trial) -> Iterator[Measure]:
    """An uplink, then a switch of the highest tier, fails in the middle of an all-reduce; a controller writes routes
    around it a millisecond later."""
    text = f"ring:bytes={trial.sizes[-1]},iterations={_ITERATIONS},shuffle={trial.draw}"
    whole = trial.run(text)
    usual = _spans(whole.run)
    broken_ps = round((_BROKEN + 0.5) * usual.mean()) if whole.settled else 0
    for name, failure in _failures(trial.topology).items() if whole.settled else ():
        changes = {"failures": (TimedFailure(broken_ps, failure),), "reroute_after_ps": _REROUTE_AFTER_PS}
        watch = RecoveryWatch(replace(trial.settings, **changes))
        got = trial.run(text, watch, **changes)
        recover, ok = watch.recover_ps, got.settled
        longer = float(_spans(got.run)[_BROKEN] - usual.mean()) if ok else None
        lost = got.run.counts.packets - got.run.counts.received - got.run.counts.duplicates
        where = {"label": name, "settled": ok}
        value = recover / US if recover is not None and ok else None
        yield Measure("11.2", "time to recover", "us", value, 0.0, **where)
        yield Measure("11.2", "packets lost", "", float(max(int(lost.sum()), 0)), 0.0, **where)
        yield Measure("11.2", JCT_OVERHEAD, "us", None if longer is None else longer / US, 0.0, **where)
        slack = None if longer is None else float(longer <= usual.max() - usual.mean())
        yield Measure("11.3", "failures without impact", "", slack, 1.0, **where)


def _failures(topology: Topology) -> dict[str, Failure]:
    """Return the failures to try: the first link between switches that are no NICs, and the first switch of the highest
    tier."""
    nics, top = set(topology.nics), max(switch.tier for switch in topology.switches)
    link = next((one for one in topology.links if one.kind != "host" and not {one.a[0], one.b[0]} & nics), None)
    switch = next((one for one in topology.switches if one.tier == top > 0), None)
    failures = {} if link is None else {"leaf uplink": Failure("link", link.index)}
    return failures | ({} if switch is None else {"spine switch": Failure("switch", switch.index)})


def _spans(run: SimRun) -> np.ndarray:
    """(iterations,) time of each in ps: they follow each other."""
    return np.diff(run.tasks.step_spans_ps()[:, 1], prepend=0)


def soak(trial: Trial) -> Iterator[Measure]:
    """All-reduce and all-to-all in turn; the standard deviation is that of rounds of the same kind, on average."""
    order = random.Random(f"soak {trial.draw}").sample(range(trial.hosts), trial.hosts)
    tasks, waits = TaskList(trial.hosts, serial=True), [list[int]() for _ in order]
    ranks = Ranks.fresh(order)
    for number in range(_ROUNDS):
        once = all_to_all if number % 2 else ring_all_reduce
        waits = once(tasks, ranks.then(waits, f"{number}"), trial.sizes[-1])
    got = trial.run(SimWorkload("soak", tasks.graph(), False))
    graph, wire = got.run.graph, wire_terms(trial.topology, trial.settings.links)
    ideal = group_ideals_ps(graph, wire, graph.tasks["step"], _ROUNDS)
    ratios = _spans(got.run) / ideal
    for number, ratio in enumerate(ratios, 1):
        value, kind = float(ratio) if got.settled else None, ("AlltoAll", "AllReduce")[number % 2]
        yield Measure("12.1", f"JCT ratio of a soak, {kind}", "", value, 1.0, number, f"round {number}", got.settled)
    spread = float(np.mean([np.std(ratios[kind::2]) for kind in (0, 1)])) if got.settled else None
    yield Measure("12.1", "standard deviation of JCT ratios of a soak", "", spread, 0.0, settled=got.settled)


PROCEDURES: dict[str, Procedure] = {
    one.__name__: one
    for one in (
        throughput, latency, burst, incast, convergence, balance, collectives, job, tenants, scale, failover,
        soak,
    )
}  # fmt: skip
