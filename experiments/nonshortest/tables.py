# SPDX-License-Identifier: Apache-2.0
"""The tables of the non-shortest-path paper, for the terminal and for docs/results.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from detour.base.tables import Column, Table, fixed, left, right, yes_no
from detour.experiments.maxmin import hosts_bound_gbps
from detour.experiments.nonshortest import paper
from detour.experiments.nonshortest.deadlock import Figure2Findings, Figure2Run
from detour.experiments.nonshortest.experiment import (
    CompletionNonshortestRun,
    Gain,
    NonshortestRun,
    SteadyNonshortestRun,
)
from detour.experiments.nonshortest.experiment import mean as mean_of
from detour.experiments.nonshortest.paper import LoadLevel
from detour.experiments.nonshortest.pfc_gain import PfcGain, PfcGainFindings
from detour.experiments.nonshortest.workloads import PATTERNS, pair_count, sample
from detour.experiments.running import CompletionTimes
from detour.fabric.footings.virtual.scheme import (
    BENCHMARK,
    OTHERS,
    SCHEMES,
    TELEMETRY_GBN,
    TELEMETRY_LERP,
    LinkSettings,
)
from detour.topo import parse_topology

_ORDER = [*SCHEMES, *(scheme.name for scheme in OTHERS)]


@dataclass(frozen=True)
class SchemeRuns:
    """What one scheme reached with the same traffic, a run for each draw of pairs."""

    runs: Sequence[NonshortestRun]

    @property
    def one(self) -> NonshortestRun:
        """For what all have in common."""
        return self.runs[0]

    def mean(self, of: Callable[[NonshortestRun], float]) -> float:
        """Over draws."""
        return mean_of(self.runs, of)

    @property
    def ceiling_fraction(self) -> float:
        """Wire rate, relative to what the pairs can carry at most."""
        return self.mean(lambda run: run.wire_gbps) / self.mean(lambda run: run.ceiling_gbps)

    @property
    def min_fraction(self) -> float | None:
        """Packets that took a shortest path, of all for which there was a choice."""
        found = [run.min_share for run in self.runs if run.min_share is not None]
        return statistics.fmean(found) if found else None

    @property
    def detour_fraction(self) -> float | None:
        """The others of these."""
        return None if self.min_fraction is None else 1 - self.min_fraction

    @property
    def fairness(self) -> float | None:
        """Jain's index, of endless connections."""
        found = [run.fairness for run in self.runs if isinstance(run, SteadyNonshortestRun)]
        return statistics.fmean(found) if found else None

    @property
    def steady(self) -> str:
        """Whether all runs were."""
        if any(run.deadlock for run in self.runs):
            return "deadlock"
        return "yes" if all(run.converged for run in self.runs if isinstance(run, SteadyNonshortestRun)) else "no"


def by_scheme(points: Sequence[NonshortestRun]) -> list[SchemeRuns]:
    """Runs by traffic and scheme, those of the same pairs side by side."""
    found: dict[tuple[int, int, int], list[NonshortestRun]] = {}
    for run in points:
        place = PATTERNS.index(run.pattern), run.pairs, _ORDER.index(run.scheme)
        found.setdefault(place, []).append(run)
    return [SchemeRuns(found[place]) for place in sorted(found)]


def _mean(of: Callable[[NonshortestRun], float]) -> Callable[[SchemeRuns], str | None]:
    return lambda row: fixed(row.mean(of), 0)


def _hundred(fraction: float | None, digits: int = 0) -> str | None:
    """In percent, where the head of the column says so."""
    return None if fraction is None else fixed(100 * fraction, digits)


def _thresholds(row: SchemeRuns) -> str | None:
    return "/".join(map(str, sorted({run.threshold for run in row.runs}))) if row.one.scheme == BENCHMARK.name else None


def _marked(row: SchemeRuns) -> str | None:
    return _hundred(row.mean(lambda run: run.marked) / max(row.mean(lambda run: run.packets), 1), 1)


_THROUGHPUT: tuple[Column[SchemeRuns], ...] = (
    left("pattern", lambda row: row.one.pattern.upper(), wide=True),
    right("pairs", lambda row: f"{row.one.pairs:,}"),
    left("scheme", lambda row: row.one.scheme),
    right("wire", _mean(lambda run: run.wire_gbps), means="whole data frames that arrived, Gb/s"),
    right("goodput", _mean(lambda run: run.goodput_gbps), wide=True, means="payload that arrived, Gb/s"),
    right("ceiling", _mean(lambda run: run.ceiling_gbps), wide=True, means="what these pairs can carry at most, Gb/s"),
    right("% of it", lambda row: _hundred(row.ceiling_fraction), means="wire, of what these pairs can carry at most"),
    right("paper", lambda row: fixed(row.one.paper, 0)),
    right("T", _thresholds, means="Benchmark's threshold for a detour (PiggyBack's rule), packets"),
    right("fairness", lambda row: fixed(row.fairness, 2), wide=True, means="Jain's index: 1 if all get the same"),
    right("MIN %", lambda row: _hundred(row.min_fraction), means="packets that took a shortest path"),
    right("reroutes", _mean(lambda run: run.reroutes), wide=True),
    right("marked %", _marked, wide=True, means="packets that arrived with an ECN mark"),
    right("lost", _mean(lambda run: run.drops), wide=True),
    right("sent again", _mean(lambda run: run.retransmitted), wide=True),
    right("pauses", _mean(lambda run: run.pauses), wide=True),
    right("buffer peak kB", lambda row: fixed(max(run.buffer_peak_bytes for run in row.runs) / 1e3, 0), wide=True),
    left("steady", lambda row: row.steady, means="whether the rate had settled when the run ended"),
)


def throughput(points: Sequence[NonshortestRun]) -> Table[SchemeRuns]:
    """Of points on one topology: a row for every pattern, number of pairs and scheme, averaged over draws."""
    rows = by_scheme(points)
    draws = max((len(row.runs) for row in rows), default=1)
    patterns = dict.fromkeys(row.one.pattern.upper() for row in rows)
    title = ", ".join([*dict.fromkeys(run.topology for run in points), *patterns])
    return Table(_THROUGHPUT, rows, title, [f"means over {draws} draws of pairs"] if draws > 1 else ())


def gains(found: Sequence[Gain]) -> Table[Gain]:
    """What was gained wherever it was measured."""
    columns: tuple[Column[Gain], ...] = (
        left("topology", lambda gain: gain.topology),
        left("pattern", lambda gain: gain.pattern.upper()),
        right("pairs", lambda gain: f"{gain.pairs:,}"),
        left("load", lambda gain: gain.load),
        right("ahead by %", lambda gain: f"{gain.gain:+.1f}"),
        right("paper %", lambda gain: None if gain.paper_gain is None else f"{gain.paper_gain:+.0f}"),
    )
    return Table(columns, found, "TelemetryLERP against Benchmark")


def table_2() -> Table[str]:
    """Topologies and pairs, by the name of the topology."""

    def pairs(head: str, pattern: str) -> Column[str]:
        return right(
            head,
            lambda name: (
                f"{pair_count(parse_topology(paper.TOPOLOGIES[name]), pattern):,} ({paper.TABLE_2[name, pattern]:,})"
            ),
        )

    columns: tuple[Column[str], ...] = (
        left("topology", lambda name: name),
        left("", lambda name: f"`{paper.TOPOLOGIES[name]}`"),
        right("groups", lambda name: parse_topology(paper.TOPOLOGIES[name]).groups),
        right("hosts", lambda name: len(parse_topology(paper.TOPOLOGIES[name]).hosts)),
        *map(pairs, ("UNF pairs (paper)", "ADV1", "ADV2"), PATTERNS),
    )
    return Table(columns, list(paper.TOPOLOGIES))


def signed(gain: float) -> str:
    """A difference in percent, to a tenth if it is small."""
    return f"{gain:+.{1 if abs(gain) < 1.95 else 0}f} %"


def table_3(found: Sequence[Gain]) -> Table[tuple[str, LoadLevel]]:
    """Gains by pattern and load, beside the paper's, topology by topology."""
    measured = {(gain.topology, gain.pattern, gain.load): gain for gain in found}

    def ours(topology: str, pattern: str, load: LoadLevel) -> str:
        gain = measured.get((topology, pattern, load))
        return f"{signed(gain.gain) if gain else '–'} ({paper.pairs_of_load(topology, pattern, load):,})"

    def beside(topology: str) -> tuple[Column[tuple[str, LoadLevel]], ...]:
        return (
            right(f"{topology} (pairs)", lambda row: ours(topology, *row)),
            right("paper", lambda row: f"{paper.TABLE_3[topology, *row]:+.0f} %"),
        )

    columns: tuple[Column[tuple[str, LoadLevel]], ...] = (
        left("pattern", lambda row: row[0].upper()),
        left("load", lambda row: row[1]),
        *(column for topology in paper.TOPOLOGIES for column in beside(topology)),
    )
    return Table(columns, [(pattern, load) for pattern in PATTERNS for load in paper.LOADS])


@dataclass(frozen=True)
class GainDifference:
    """A cell of Table III that is off, and what was run for it."""

    gain: Gain
    paper_gain: float
    ours: SchemeRuns
    theirs: SchemeRuns

    @property
    def fair_fraction(self) -> float:
        """What fair sharing of the hosts' links gives, but not more than the ceiling, relative to the ceiling."""
        topology, rate = parse_topology(paper.TOPOLOGIES[self.gain.topology]), LinkSettings().rate_bps

        def fair_gbps(run: NonshortestRun) -> float:
            pairs = sample(topology, run.pattern, run.pairs, run.seed)
            return min(hosts_bound_gbps(topology, pairs, rate), run.ceiling_gbps)

        return self.ours.mean(fair_gbps) / self.ours.mean(lambda run: run.ceiling_gbps)


_DIFFERENCES: tuple[Column[GainDifference], ...] = (
    right("cell", lambda row: f"{row.gain.topology} {row.gain.pattern.upper()} {row.gain.load}"),
    right("ours", lambda row: signed(row.gain.gain)),
    right("paper", lambda row: f"{row.paper_gain:+.0f} %"),
    right("LERP, % of ceiling", lambda row: _hundred(row.ours.ceiling_fraction)),
    right("Benchmark, %", lambda row: _hundred(row.theirs.ceiling_fraction)),
    right("fair share, %", lambda row: _hundred(row.fair_fraction)),
    right(
        "moves a connection and ms",
        lambda row: fixed(row.ours.mean(lambda run: run.reroutes / run.pairs / run.virtual_ms), 2),
    ),
    right("LERP on detours, %", lambda row: _hundred(row.ours.detour_fraction)),
    right("Benchmark's pauses", lambda row: fixed(row.theirs.mean(lambda run: run.pauses), 0)),
)


def differences(found: Sequence[Gain], points: Sequence[NonshortestRun]) -> Table[GainDifference]:
    """Cells of Table III whose factor is off by more than half, with what was measured there."""
    runs = {name: [run for run in points if run.scheme == name] for name in (TELEMETRY_LERP.name, BENCHMARK.name)}
    rows = []
    for gain in found:
        stated = gain.paper_gain
        if stated is not None and abs(gain.gain - stated) > 0.5 * stated:
            ours, theirs = (SchemeRuns([run for run in some if run.traffic == gain.traffic]) for some in runs.values())
            rows.append(GainDifference(gain, stated, ours, theirs))
    return Table(_DIFFERENCES, rows)


@dataclass(frozen=True)
class LossRow:
    """Runs under a probability with which links lose frames; empty where there are none."""

    loss: float
    lerp: SchemeRuns
    gbn: SchemeRuns


def _goodput(runs: SchemeRuns) -> str | None:
    return fixed(runs.mean(lambda run: run.goodput_gbps), 0) if runs.runs else None


def _again(runs: SchemeRuns) -> str | None:
    if not runs.runs:
        return None
    return _hundred(runs.mean(lambda run: run.retransmitted) / runs.mean(lambda run: run.packets), 2)


_LOSS: tuple[Column[LossRow], ...] = (
    right("loss per link", lambda row: f"{row.loss:g}"),
    right("LERP goodput", lambda row: _goodput(row.lerp)),
    right("go-back-N goodput", lambda row: _goodput(row.gbn)),
    right("LERP sent again %", lambda row: _again(row.lerp)),
    right("go-back-N %", lambda row: _again(row.gbn)),
)


def loss(points: Sequence[NonshortestRun]) -> Table[LossRow]:
    """LERP beside go-back-N by loss."""

    def runs(probability: float, name: str) -> SchemeRuns:
        return SchemeRuns([run for run in points if (run.loss, run.scheme) == (probability, name)])

    losses = sorted({run.loss for run in points})
    return Table(_LOSS, [LossRow(p, runs(p, TELEMETRY_LERP.name), runs(p, TELEMETRY_GBN.name)) for p in losses])


Completion: TypeAlias = tuple[CompletionNonshortestRun, CompletionTimes]
_COMPLETION: tuple[Column[Completion], ...] = (
    left("scheme", lambda row: row[0].scheme),
    right("mean", lambda row: fixed(row[1].mean, 0)),
    right("median", lambda row: fixed(row[1].p50, 0)),
    right("99 %", lambda row: fixed(row[1].p99, 0)),
    right("last", lambda row: fixed(row[1].max, 0)),
    right("unfinished", lambda row: row[0].unfinished),
)


def completion(points: Sequence[NonshortestRun]) -> list[Table[Completion]]:
    """How long messages took, a table for every traffic and draw of pairs."""
    several = len({run.seed for run in points}) > 1
    found: dict[str, list[Completion]] = {}
    for run in points:
        if isinstance(run, CompletionNonshortestRun) and run.fct_us:
            draw = f" (draw {run.seed})" if several else ""
            where = f"{run.topology}, {run.pattern.upper()}, {run.pairs} pairs{draw}"
            title = f"{where}, one message of {run.message_bytes:,} bytes each"
            found.setdefault(title, []).append((run, run.fct_us))
    return [Table(_COMPLETION, rows, title, ["times in us"]) for title, rows in found.items()]


_TABLE_1: tuple[Column[PfcGain], ...] = (
    right("connections", lambda row: f"{row.connections:,}"),
    right("without PFC", lambda row: f"{row.lerp_gbps:,.0f}"),
    right("paper", lambda row: _thousands(row.paper_lerp_gbps)),
    right("with PFC", lambda row: f"{row.pfc_gbps:,.0f}"),
    right("paper", lambda row: _thousands(row.paper_pfc_gbps)),
    right("gain", lambda row: f"{row.gain:.1f} %"),
    right("paper", lambda row: None if row.paper_gain is None else f"{row.paper_gain:.1f} %"),
    right("max-min bound", lambda row: _thousands(row.bound_gbps), means="fair rates on random shortest paths"),
)


def _thousands(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}"


def table_1(found: PfcGainFindings) -> Table[PfcGain]:
    """What removing PFC gains."""
    return Table(_TABLE_1, found.points, f"{found.topology}, goodput in Gb/s")


_FIGURE_2: tuple[Column[Figure2Run], ...] = (
    left("deadlock", lambda run: yes_no(run.deadlock)),
    left("expected", lambda run: yes_no(run.paper)),
    right("found at us", lambda run: fixed(run.found_at_us, 0), wide=True),
    right("queues", lambda run: len(run.queues), wide=True),
    right("Gb/s before", lambda run: fixed(run.goodput_gbps_before, 0)),
    right("after", lambda run: fixed(run.goodput_gbps_after, 0)),
    right("pauses", lambda run: run.pauses),
    right("lost", lambda run: run.drops),
)


def figure_2(found: Figure2Findings) -> Table[Figure2Run]:
    """A row for every run; runs of several seeds are told apart."""
    case: Column[Figure2Run] = left("case", lambda run: run.case)
    seed: Column[Figure2Run] = right("seed", lambda run: run.seed)
    several = len({run.seed for run in found.points}) > 1
    return Table((case, *([seed] if several else []), *_FIGURE_2), found.points, found.topology)


def stuck(found: Figure2Findings) -> list[str]:
    """Queues that can never move again, a line for every run that has some."""
    several = len({run.seed for run in found.points}) > 1
    names = {run: f"{run.case}, seed {run.seed}" if several else run.case for run in found.points}
    return [f"{name}: {'; '.join(run.queues)}" for run, name in names.items() if run.queues]
