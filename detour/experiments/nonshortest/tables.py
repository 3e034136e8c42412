# SPDX-License-Identifier: Apache-2.0
"""The tables of the non-shortest-path paper, for the terminal and for docs/results.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from detour.base.tables import Column, Table, fixed, left, right
from detour.experiments.columns import columns, grouped, table
from detour.experiments.maxmin import hosts_bound_gbps
from detour.experiments.nonshortest import paper
from detour.experiments.nonshortest.ablation import SettingFindings, SettingRow
from detour.experiments.nonshortest.claims import marked
from detour.experiments.nonshortest.experiment import (
    CompletionNonshortestRun,
    Gain,
    NonshortestFindings,
    NonshortestRun,
    SteadyNonshortestRun,
    TrafficCase,
)
from detour.experiments.nonshortest.experiment import mean as mean_of
from detour.experiments.nonshortest.paper import LoadLevel
from detour.experiments.nonshortest.settings import TopologySettings, TriedSetting, papers_topology
from detour.experiments.nonshortest.workloads import HOLD_OUTS, PATTERNS, pair_count, pairs_of_load, sample
from detour.experiments.running import CompletionTimes
from detour.experiments.steady import spread
from detour.fabric.backends.virtual import scheme as schemes

_ORDER = [*schemes.SCHEMES, *(scheme.name for scheme in schemes.OTHERS)]


@dataclass(frozen=True)
class SchemeRuns:
    """One scheme's runs with the same traffic, one for each draw of pairs."""

    runs: Sequence[NonshortestRun]

    @property
    def first(self) -> NonshortestRun:
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
        shares = [run.min_share for run in self.runs if run.min_share is not None]
        return statistics.fmean(shares) if shares else None

    @property
    def detour_fraction(self) -> float | None:
        """The others of these."""
        return None if self.min_fraction is None else 1 - self.min_fraction

    @property
    def fairness(self) -> float | None:
        """Jain's index, of endless connections."""
        indices = [run.fairness for run in self.runs if isinstance(run, SteadyNonshortestRun)]
        return statistics.fmean(indices) if indices else None

    @property
    def steady(self) -> str:
        """Return the number of steady runs."""
        if any(run.deadlock for run in self.runs):
            return "deadlock"
        count = sum(run.steady for run in self.runs)
        return "yes" if count == len(self.runs) else "no" if not count else f"{count} of {len(self.runs)}"

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the wire rate over draws, relative to its mean."""
        spread, rate = self.first.spread, self.mean(lambda run: run.wire_gbps)
        return None if spread is None or not rate else spread / rate


def by_scheme(points: Sequence[NonshortestRun]) -> list[SchemeRuns]:
    """Runs by traffic and scheme, those of the same pairs side by side."""

    def place(run: NonshortestRun) -> tuple[int, int, int]:
        order = [*_ORDER, run.scheme]  # of a plug-in: behind ours
        return (*PATTERNS, *HOLD_OUTS).index(run.pattern), run.pairs, order.index(run.scheme)

    return [SchemeRuns(runs) for _, runs in sorted(grouped(points, place).items())]


def _mean(of: Callable[[NonshortestRun], float]) -> Callable[[SchemeRuns], str | None]:
    return lambda row: fixed(row.mean(of), 0)


def _hundred(fraction: float | None, digits: int = 0) -> str | None:
    """In percent, where the head of the column says so."""
    return None if fraction is None else fixed(100 * fraction, digits)


def _thresholds(row: SchemeRuns) -> str | None:
    return "/".join(map(str, sorted({run.threshold for run in row.runs}))) if row.first.threshold else None


def _marked(row: SchemeRuns) -> str | None:
    return _hundred(row.mean(lambda run: run.marked) / max(row.mean(lambda run: run.packets), 1), 1)


_THROUGHPUT: tuple[Column[SchemeRuns], ...] = (
    left("pattern", lambda row: row.first.pattern.upper(), wide=True),
    right("pairs", lambda row: f"{row.first.pairs:,}"),
    left("scheme", lambda row: row.first.scheme),
    right("wire", _mean(lambda run: run.wire_gbps), means="whole data frames that arrived, Gb/s"),
    right("goodput", _mean(lambda run: run.goodput_gbps), wide=True, means="payload that arrived, Gb/s"),
    right("± %", lambda row: _hundred(row.spread, 1), means="standard deviation of wire over draws of pairs"),
    right("ceiling", _mean(lambda run: run.ceiling_gbps), wide=True, means="what these pairs can carry at most, Gb/s"),
    right("% of it", lambda row: _hundred(row.ceiling_fraction), means="wire, of what these pairs can carry at most"),
    right("paper", lambda row: fixed(row.first.paper, 0)),
    right("T", _thresholds, means="Benchmark's threshold for a detour (PiggyBack's rule), packets"),
    right("fairness", lambda row: fixed(row.fairness, 2), wide=True, means="Jain's index: 1 if all get the same"),
    right("MIN %", lambda row: _hundred(row.min_fraction), means="packets that took a shortest path"),
    right("reroutes", _mean(lambda run: run.reroutes), wide=True),
    right("marked %", _marked, wide=True, means="packets that arrived with an ECN mark"),
    right("lost", _mean(lambda run: run.drops), wide=True),
    right("sent again", _mean(lambda run: run.retransmitted), wide=True),
    right("pauses", _mean(lambda run: run.pauses), wide=True),
    right("buffer peak kB", lambda row: fixed(max(run.buffer_peak_bytes for run in row.runs) / 1e3, 0), wide=True),
    left("steady", lambda row: row.steady, means="the rate was level behind its warm-up; what was not is a transient"),
)


def throughput(points: Sequence[NonshortestRun]) -> Table[SchemeRuns]:
    """Return the table of points on one topology: a row for every pattern, number of pairs and scheme, averaged over
    draws."""
    rows = by_scheme(points)
    draws = max((len(row.runs) for row in rows), default=1)
    patterns = dict.fromkeys(row.first.pattern.upper() for row in rows)
    title = ", ".join([*dict.fromkeys(run.topology for run in points), *patterns])
    return Table(_THROUGHPUT, rows, title, [f"means over {draws} draws of pairs"] if draws > 1 else ())


def tables(findings: NonshortestFindings) -> list[Table[Any]]:
    """Throughput, gains and completion times, as far as there are some."""
    return [throughput(findings.points), gains(findings.gains), *completion(findings.points)]


def gains(measured: Sequence[Gain]) -> Table[Gain]:
    """Return the table of gains wherever they were measured."""
    notes = ["* not all of the runs were steady"] if not all(gain.steady for gain in measured) else ()
    return table(Gain, measured, "By how much TelemetryLERP is ahead", notes)


def set_to(findings: SettingFindings) -> Table[tuple[str, str]]:
    """Return the table of the schemes' settings."""
    heads = left("scheme", lambda row: row[0]), left("set to", lambda row: row[1])
    return Table(heads, list(findings.schemes.items()), "Settings")


def additions(findings: SettingFindings) -> list[Table[Any]]:
    """Return the tables of the schemes' settings and additions."""
    return [set_to(findings), *settings(findings)]


def settings(findings: SettingFindings) -> list[Table[SettingRow]]:
    """Two tables for every scheme: its additions, and what each is worth on each traffic in percent of the rate."""
    shown = []
    for name in dict.fromkeys(row.scheme for row in findings.settings):
        rows = [row for row in findings.settings if row.scheme == name]
        shown.append(table(SettingRow, rows, f"{name}: what was added"))
        worth = _worth(rows)
        if worth.rows:
            shown.append(replace(worth, title=f"{name}: what it is worth, %", notes=_WORTH))
    return shown


def worth(findings: SettingFindings) -> Table[SettingRow]:
    """Return the effects of the additions of all schemes, in one table."""
    every = _worth(findings.settings)
    return replace(every, columns=(left("scheme", lambda row: row.scheme), *every.columns))


def _worth(rows: Sequence[SettingRow]) -> Table[SettingRow]:
    """A row for each addition, a column for each traffic on which some were left out."""
    cases = dict.fromkeys((each.topology, each.pattern, each.pairs) for row in rows for each in row.worth)
    heads = (columns(SettingRow)[0], *(right(f"{a} {b.upper()} {c:,}", _worth_on((a, b, c))) for a, b, c in cases))
    return Table(heads, [row for row in rows if row.worth])


_WORTH = (
    "by how many percent the wire rate is higher with the addition than without",
    "±: standard deviation over draws of pairs; *: not all of the runs were steady",
)


def _worth_on(case: tuple[str, str, int]) -> Callable[[SettingRow], str | None]:
    def cell(row: SettingRow) -> str | None:
        worth = next((each for each in row.worth if (each.topology, each.pattern, each.pairs) == case), None)
        return None if worth is None else gain_text(worth.gain, worth.spread, worth.steady)

    return cell


def gain_text(gain: float, spread: float | None, steady: bool) -> str:
    """A gain in percent with its spread over draws, and a star if a run behind it was not steady."""
    return marked(f"{gain:+.1f}", spread, steady)


def tried(choices: TopologySettings) -> list[Table[tuple[str, TriedSetting]]]:
    """Everything that a sweep tried, best first."""
    rows = [(scheme, one) for scheme, choice in choices.schemes.items() for one in choice.tried]
    cells = list(rows[0][1].cells) if rows else []

    def cell(name: str) -> Column[tuple[str, TriedSetting]]:
        return right(name.upper(), lambda row: _hundred(row[1].cells.get(name), 1), wide=True)

    heads: tuple[Column[tuple[str, TriedSetting]], ...] = (
        left("scheme", lambda row: row[0]),
        left("setting", lambda row: row[1].setting.text(row[0])),
        right("score", lambda row: _hundred(row[1].score, 1), means="mean of the cells, % of the ceiling"),
        *map(cell, cells),
    )
    return [Table(heads, rows, f"{choices.topology}, draw {choices.seed}")]


def table_2() -> Table[str]:
    """Topologies and pairs, by the name of the topology."""

    def pairs(head: str, pattern: str) -> Column[str]:
        return right(
            head,
            lambda name: f"{pair_count(papers_topology(name), pattern):,} ({paper.TABLE_2[name, pattern]:,})",
        )

    heads: tuple[Column[str], ...] = (
        left("topology", lambda name: name),
        left("", lambda name: f"`{paper.TOPOLOGIES[name]}`"),
        right("groups", lambda name: papers_topology(name).groups),
        right("hosts", lambda name: len(papers_topology(name).hosts)),
        *map(pairs, ("UNF pairs (paper)", "ADV1", "ADV2"), PATTERNS),
    )
    return Table(heads, list(paper.TOPOLOGIES))


def table_3(gains: Sequence[Gain], rival: str) -> Table[tuple[str, LoadLevel]]:
    """Gains over a rival by pattern and load, topology by topology; those over Benchmark beside the paper's."""
    measured = {(gain.topology, gain.pattern, gain.load): gain for gain in gains if gain.rival == rival}

    def ours(topology: str, pattern: str, load: LoadLevel) -> str:
        gain = measured.get((topology, pattern, load))
        pairs = pairs_of_load(papers_topology(topology), pattern, load)
        return f"{gain_text(gain.gain, gain.spread, gain.steady) if gain else '–'} ({pairs:,})"

    def beside(topology: str) -> tuple[Column[tuple[str, LoadLevel]], ...]:
        gain = right(f"{topology}, % (pairs)", lambda row: ours(topology, *row))
        if rival != schemes.BENCHMARK.name:
            return (gain,)
        return gain, right("paper", lambda row: f"{paper.TABLE_3[topology, *row]:+.0f}")

    heads: tuple[Column[tuple[str, LoadLevel]], ...] = (
        left("pattern", lambda row: row[0].upper()),
        left("load", lambda row: row[1]),
        *(column for topology in paper.TOPOLOGIES for column in beside(topology)),
    )
    return Table(heads, [(pattern, load) for pattern in PATTERNS for load in paper.LOADS])


@dataclass(frozen=True)
class GainDifference:
    """A cell of Table III that is off, and what was run for it."""

    gain: Gain
    ours: SchemeRuns
    theirs: SchemeRuns

    @property
    def fair_fraction(self) -> float:
        """The throughput that fair sharing of the hosts' links gives, at most the ceiling, relative to the ceiling."""
        topology, rate = papers_topology(self.gain.topology), schemes.LinkSettings().rate_bps

        def fair_gbps(run: NonshortestRun) -> float:
            pairs = sample(topology, run.pattern, run.pairs, run.seed)
            return min(hosts_bound_gbps(topology, pairs, rate), run.ceiling_gbps)

        return self.ours.mean(fair_gbps) / self.ours.mean(lambda run: run.ceiling_gbps)


_DIFFERENCES: tuple[Column[GainDifference], ...] = (
    right("cell", lambda row: f"{row.gain.topology} {row.gain.pattern.upper()} {row.gain.load}"),
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


def differences(gains: Sequence[Gain], points: Sequence[NonshortestRun]) -> Table[GainDifference]:
    """Cells of Table III whose factor is off by more than half, with what was measured there."""
    runs = {
        name: [run for run in points if run.scheme == name]
        for name in (schemes.TELEMETRY_LERP.name, schemes.BENCHMARK.name)
    }
    rows = []
    for gain in gains:
        stated = gain.paper_gain
        if gain.rival == schemes.BENCHMARK.name and stated is not None and abs(gain.gain - stated) > 0.5 * stated:
            ours, theirs = (SchemeRuns([run for run in some if run.traffic == gain.traffic]) for some in runs.values())
            rows.append(GainDifference(gain, ours, theirs))
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


def hold_outs(gains: Sequence[Gain], points: Sequence[NonshortestRun]) -> Table[TrafficCase]:
    """TelemetryLERP's wire rate as a fraction of the ceiling, and by how much it is ahead of its rivals."""
    runs = grouped(points, lambda run: (run.traffic, run.scheme))
    by_rival = {(gain.traffic, gain.rival): gain for gain in gains}

    def reached(name: str) -> Column[TrafficCase]:
        def cell(case: TrafficCase) -> str | None:
            some = runs.get((case, name))
            return _hundred(SchemeRuns(some).ceiling_fraction) if some else None

        return right(f"{name}, % of ceiling", cell)

    def ahead(rival: str) -> Column[TrafficCase]:
        def cell(case: TrafficCase) -> str | None:
            gain = by_rival.get((case, rival))
            return gain_text(gain.gain, gain.spread, gain.steady) if gain else None

        return right(f"ahead of {rival}, %", cell)

    rivals = dict.fromkeys(gain.rival for gain in gains)
    heads = (
        left("topology", lambda case: f"`{case.topology}`"),
        left("pattern", lambda case: case.pattern),
        right("pairs", lambda case: f"{case.pairs:,}"),
        reached(schemes.TELEMETRY_LERP.name),
        *map(ahead, rivals),
    )
    return Table(heads, list(dict.fromkeys(gain.traffic for gain in gains)))


def choices(several: Sequence[TopologySettings]) -> Table[tuple[TopologySettings, str]]:
    """The best setting of every scheme on every topology."""
    heads: tuple[Column[tuple[TopologySettings, str]], ...] = (
        left("topology", lambda row: row[0].topology),
        left("scheme", lambda row: row[1]),
        left("set to", lambda row: row[0].schemes[row[1]].setting.text(row[1])),
        right("score, %", lambda row: _hundred(row[0].schemes[row[1]].tried[0].score, 1)),
    )
    return Table(heads, [(one, name) for one in several for name in one.schemes])


def sensitivity(runs: Sequence[NonshortestRun]) -> Table[tuple[str, str]]:
    """Wire rates by scheme and changed parameter, a column for each traffic."""
    cells = grouped(runs, lambda run: ((run.scheme, run.changes or "as it is"), run.traffic))

    def rate(case: TrafficCase) -> Column[tuple[str, str]]:
        def cell(row: tuple[str, str]) -> str | None:
            some = cells.get((row, case))
            if not some:
                return None
            rate = f"{mean_of(some, lambda run: run.wire_gbps):.0f}"
            return marked(rate, spread([run.wire_gbps for run in some]), all(run.steady for run in some), 0)

        return right(f"{case.topology} {case.pattern.upper()} {case.pairs:,}", cell)

    heads = (
        left("scheme", lambda row: row[0]),
        left("changed", lambda row: row[1]),
        *map(rate, dict.fromkeys(run.traffic for run in runs)),
    )
    return Table(heads, list(dict.fromkeys(row for row, _ in cells)))


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
    return Table(
        _LOSS,
        [LossRow(p, runs(p, schemes.TELEMETRY_LERP.name), runs(p, schemes.TELEMETRY_GBN_DCTCP.name)) for p in losses],
    )


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
    """Completion times of messages, a table for every traffic and draw of pairs."""
    several = len({run.seed for run in points}) > 1
    by_title: dict[str, list[Completion]] = {}
    for run in points:
        if isinstance(run, CompletionNonshortestRun) and run.fct_us:
            draw = f" (draw {run.seed})" if several else ""
            where = f"{run.topology}, {run.pattern.upper()}, {run.pairs} pairs{draw}"
            title = f"{where}, one message of {run.message_bytes:,} bytes each"
            by_title.setdefault(title, []).append((run, run.fct_us))
    return [Table(_COMPLETION, rows, title, ["times in us"]) for title, rows in by_title.items()]
