# SPDX-License-Identifier: Apache-2.0
"""The paper's claims and the results here: by the letter of section III, and with what was added.

A verdict follows from the runs. Of a claim to be ahead by so many percent: *yes*, by as many at least; *partly*, by
less, but by more than the standard deviation over draws; *no* otherwise. Other claims say their rule in `why`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from detour.experiments.columns import grouped, shown
from detour.experiments.nonshortest import paper
from detour.experiments.nonshortest.deadlock import Figure2Run
from detour.experiments.nonshortest.experiment import Gain, NonshortestRun, TrafficCase, gain_over, load_of, mean
from detour.experiments.nonshortest.pfc_gain import PfcGain
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    SHORTEST_PATH,
    TELEMETRY_GBN,
    TELEMETRY_LERP,
    TELEMETRY_LERP_LITERAL,
)

Verdict: TypeAlias = Literal["yes", "partly", "no"]
_ALIGNED = 5.0
"""percent within which two curves are almost aligned, and a rate is slightly lower"""
_REACHED = 98.0
"""percent of a bound that reach it"""
_NEGLIGIBLE = 2.0
_SCALES = ("D1", "D2", "D3")


@dataclass(frozen=True)
class Claim:
    """`paper`: its figure; `letter` and `ours`: by the letter of section III, and with additions; None where a run that
    it needs is missing, or the letter makes no difference."""

    text: str = shown("claim")
    paper: str = shown("paper", left=False)
    letter: str | None = shown("by the letter", left=False)
    ours: str = shown("here", left=False)
    verdict: str = shown("reproduced")
    why: str = shown("why, or by which rule")


class Runs:
    """The runs of the curves, by traffic and scheme."""

    def __init__(self, points: Iterable[NonshortestRun]) -> None:
        self._runs = grouped(points, lambda run: (run.traffic, run.scheme))

    def of(self, traffic: TrafficCase, scheme: str) -> list[NonshortestRun]:
        """Return the runs of a scheme, empty if there are none."""
        return self._runs.get((traffic, scheme), [])

    def cases(self, topology: str | None = None, pattern: str | None = None) -> list[TrafficCase]:
        """Return the traffic cases that were run, in order of pairs."""
        cases = {traffic for traffic, _ in self._runs}
        return sorted(t for t in cases if topology in (None, t.topology) and pattern in (None, t.pattern))

    def loads(self, topology: str | None = None, pattern: str | None = None) -> list[TrafficCase]:
        """Return the cases that are cells of Table III."""
        return [case for case in self.cases(topology, pattern) if load_of(*case)]

    def gain(self, traffic: TrafficCase, scheme: str = TELEMETRY_LERP.name, over: str = BENCHMARK.name) -> Gain | None:
        """Return the gain of one scheme over another."""
        return gain_over(traffic, self.of(traffic, scheme), self.of(traffic, over))

    def best(self, cases: Sequence[TrafficCase], scheme: str = TELEMETRY_LERP.name) -> Gain | None:
        """The largest gain over Benchmark."""
        gains = [gain for gain in (self.gain(case, scheme) for case in cases) if gain is not None]
        return max(gains, key=lambda gain: gain.gain, default=None)

    def rate(self, traffic: TrafficCase, scheme: str) -> float | None:
        """Mean wire rate in Gb/s."""
        runs = self.of(traffic, scheme)
        return mean(runs, lambda run: run.wire_gbps) if runs else None

    def ratios(
        self, cases: Sequence[TrafficCase], scheme: str, over: str = TELEMETRY_LERP.name
    ) -> list[tuple[float, TrafficCase]]:
        """One scheme's rate over another's, wherever both were run and carried something."""
        rates = [(self.rate(case, scheme), self.rate(case, over), case) for case in cases]
        return [(ours / theirs, case) for ours, theirs, case in rates if ours and theirs]

    def reached(self, traffic: TrafficCase, scheme: str) -> float | None:
        """Percent of the ceiling."""
        runs = self.of(traffic, scheme)
        return 100 * mean(runs, lambda run: run.wire_gbps / run.ceiling_gbps) if runs else None


def _percent(value: float, digits: int = 1) -> str:
    return f"{value:+.{digits}f} %"


def marked(text: str, spread: float | None, steady: bool, digits: int = 1) -> str:
    """A figure with its spread over draws, and a star if a run behind it was not steady."""
    return f"{text}{'' if spread is None else f' ± {spread:.{digits}f}'}{'' if steady else ' *'}"


def _verdict(reached: bool, partly: bool = False) -> Verdict:
    return "yes" if reached else "partly" if partly else "no"


def _gain_text(gain: Gain) -> str:
    return marked(_percent(gain.gain), gain.spread, gain.steady)


def _ahead(runs: Runs, text: str, percent: float, cases: Sequence[TrafficCase], stated: str) -> Iterator[Claim]:
    """A claim to be ahead of Benchmark by so much at best somewhere in `cases`."""
    gain = runs.best(cases)
    if gain is None:
        return
    letter = runs.best(cases, TELEMETRY_LERP_LITERAL.name)
    verdict = _verdict(gain.gain >= percent, partly=gain.gain > (gain.spread or 0.0))
    rival = runs.reached(gain.traffic, BENCHMARK.name) or 100.0
    why = f"most with {gain.pairs:,} pairs"
    if verdict != "yes":
        why += f", where Benchmark has {rival:.0f} % of the ceiling: {_percent(100 * (100 / rival - 1), 0)} at most"
    yield Claim(text, stated, _gain_text(letter) if letter else None, _gain_text(gain), verdict, why)


def _throughput_claims(runs: Runs) -> Iterator[Claim]:
    large = [case for case in runs.cases("D1", "unf") if case.pairs >= 1000]
    yield from _ahead(runs, "UNF on D1: ahead at 1000 connections or more", 15, large, "over 15 %")
    medium = [case for case in runs.cases("D1", "adv1") if case.pairs <= 32]
    yield from _ahead(runs, "ADV1 on D1: ahead at low and medium loads", 20, medium, "over 20 %")
    up_to = {("D2", "unf"): 25, ("D2", "adv1"): 30, ("D2", "adv2"): 18}
    up_to |= {("D3", "unf"): 30, ("D3", "adv1"): 100, ("D3", "adv2"): 30}
    for (topology, pattern), most in up_to.items():
        text = f"{pattern.upper()} on {topology}: ahead"
        yield from _ahead(runs, text, most, runs.cases(topology, pattern), f"up to {most} %")


def _everywhere(runs: Runs) -> Iterator[Claim]:
    """Table III as a whole: ahead in every cell."""
    gains = [gain for gain in map(runs.gain, runs.loads()) if gain]
    if not gains:
        return
    letter = [gain for gain in (runs.gain(case, TELEMETRY_LERP_LITERAL.name) for case in runs.loads()) if gain]
    ahead = [gain for gain in gains if gain.gain > (gain.spread or 0.0)]
    verdict = _verdict(len(ahead) == len(gains), partly=2 * len(ahead) >= len(gains))
    count = f"{sum(gain.gain > (gain.spread or 0.0) for gain in letter)} of {len(letter)}" if letter else None
    why = "ahead by more than the standard deviation over draws; partly: in half of the cells or more"
    ours = f"{len(ahead)} of {len(gains)}"
    yield Claim("Ahead of Benchmark in all of Table III", "18 of 18", count, ours, verdict, why)


def _scale(runs: Runs) -> Iterator[Claim]:
    grows = []
    for pattern in dict.fromkeys(case.pattern for case in runs.loads()):
        for load in paper.LOADS:
            cells = [case for name in _SCALES for case in runs.loads(name, pattern) if load_of(*case) == load]
            gains = [gain.gain for gain in map(runs.gain, cells) if gain]
            if len(gains) == len(_SCALES):
                grows.append(gains == sorted(gains))
    if not grows:
        return
    verdict = _verdict(all(grows), partly=any(grows))
    why = "patterns and loads of Table III whose gain rises from D1 to D2 and to D3"
    yield Claim("The gain grows with the network", "all 6", None, f"{sum(grows)} of {len(grows)}", verdict, why)


def _bounds(runs: Runs) -> Iterator[Claim]:
    shortest = [runs.rate(case, SHORTEST_PATH.name) for case in runs.cases(None, "adv1")]
    rates = [rate for rate in shortest if rate is not None]
    if rates:
        off = max(abs(rate - 100) for rate in rates)
        verdict = _verdict(off <= _NEGLIGIBLE, partly=off <= _ALIGNED)
        ours = f"{min(rates):.0f} to {max(rates):.0f}"
        yield Claim("ADV1: ShortestPath in Gb/s", "100", None, ours, verdict, "within 2 %; partly: within 5 %")
    for pattern, schemes in (("adv1", (TELEMETRY_LERP,)), ("adv2", (TELEMETRY_LERP, TELEMETRY_GBN))):
        cases = runs.cases("D1", pattern)
        for scheme in schemes:
            reached = runs.reached(cases[-1], scheme.name) if cases else None
            if reached is None:
                continue
            letter = runs.reached(cases[-1], TELEMETRY_LERP_LITERAL.name) if scheme == TELEMETRY_LERP else None
            verdict = _verdict(reached >= _REACHED, partly=reached >= 90)
            text = f"{pattern.upper()} on D1: {scheme.name} reaches 800 Gb/s"
            by_the_letter = None if letter is None else f"{8 * letter:.0f}"
            yield Claim(text, "800", by_the_letter, f"{8 * reached:.0f}", verdict, "98 %: yes, 90 %: partly")


def _slightly_lower(runs: Runs, scheme: str) -> Iterator[Claim]:
    """ADV2 on D1: a rival is not far below TelemetryLERP."""
    ratios = [100 * (ratio - 1) for ratio, _ in runs.ratios(runs.cases("D1", "adv2"), scheme)]
    if not ratios:
        return
    close = [-_ALIGNED <= ratio <= 0 for ratio in ratios]
    verdict = _verdict(all(close), partly=any(close))
    ours = f"{_percent(min(ratios), 0)} to {_percent(max(ratios), 0)}"
    why = "by 5 % at most, at all numbers of pairs; partly: at some"
    yield Claim(f"ADV2 on D1: {scheme} slightly lower than TelemetryLERP", "slightly", None, ours, verdict, why)


def _aligned(runs: Runs) -> Iterator[Claim]:
    apart = [100 * (ratio - 1) for ratio, _ in runs.ratios(runs.cases(), TELEMETRY_GBN.name)]
    if not apart:
        return
    close = sum(abs(ratio) <= _ALIGNED for ratio in apart)
    verdict = _verdict(close == len(apart), partly=2 * close >= len(apart))
    ours = f"{_percent(min(apart), 0)} to {_percent(max(apart), 0)}"
    why = (
        f"within 5 % in {close} of {len(apart)} points. TelemetryGBN has DCQCN, as section IV says; with DCTCP, as "
        "section III says, the two are aligned: Loss, below"
    )
    yield Claim("TelemetryGBN almost aligned with TelemetryLERP", "aligned", None, ours, verdict, why)


def _buffers(runs: Runs) -> Iterator[Claim]:
    """Fewer buffers: packet memory and virtual channels."""

    def peak(some: Sequence[NonshortestRun]) -> int:
        return max(run.buffer_peak_bytes for run in some)

    both = [
        (peak(ours), peak(theirs))
        for case in runs.cases()
        if (ours := runs.of(case, TELEMETRY_LERP.name)) and (theirs := runs.of(case, BENCHMARK.name))
    ]
    if not both:
        return
    fewer = sum(ours < theirs for ours, theirs in both)
    verdict = _verdict(fewer == len(both), partly=True)
    why = "one priority in place of three virtual channels, and no headroom; but that is not less memory in use"
    ours = f"peak use of a switch's packet memory lower at {fewer} of {len(both)} points"
    yield Claim("Fewer buffers in switches", "significantly", None, ours, verdict, why)


def _magnitude(runs: Runs) -> Iterator[Claim]:
    factors = runs.ratios(runs.loads(None, "adv1"), TELEMETRY_LERP.name, SHORTEST_PATH.name)
    if not factors:
        return
    factor, case = max(factors)
    verdict = _verdict(factor >= 10, partly=True)
    why = f"ADV1, {case.topology}: there are as many paths as groups between"
    text = "Ahead of ShortestPath by an order of magnitude"
    yield Claim(text, "10 times", None, f"{factor:.0f} times", verdict, why)


def _pfc(rows: Sequence[PfcGain]) -> Iterator[Claim]:
    if not rows:
        return
    best = max(rows, key=lambda row: row.gain)
    verdict = _verdict(best.gain >= 200, partly=best.gain > 0)
    why = f"with {best.connections:,} connections; the tree is ours (docs/experiments.md)"
    yield Claim("Removing PFC on a fat-tree", "over 200 %", None, _percent(best.gain, 0), verdict, why)


def _deadlock(cases: Sequence[Figure2Run]) -> Iterator[Claim]:
    """Fig. 2."""
    if not cases:
        return
    agree = sum(case.deadlock == case.paper for case in cases)
    verdict = _verdict(agree == len(cases))
    why = "deadlock with one virtual channel, none with three, none without PFC"
    yield Claim("PFC's circular dependency", "Fig. 2", None, f"{agree} of {len(cases)} cases", verdict, why)


def _constants(sensitivity: Sequence[NonshortestRun]) -> Iterator[Claim]:
    plain = Runs(run for run in sensitivity if not run.hosts)
    changed = grouped((run for run in sensitivity if run.hosts), lambda run: run.changes)
    worth = {name: _difference(plain, runs) for name, runs in changed.items()}
    deltas = {name: value for name, value in worth.items() if value is not None and name.startswith("delta")}
    if deltas:
        best = max(deltas, key=lambda name: deltas[name])
        verdict = _verdict(deltas[best] <= _NEGLIGIBLE)
        why = f"the best other value is {best}; a mean gain of 2 % would be better"
        yield Claim("delta 0.8, 75, 100 are reasonable", "yes", None, _percent(deltas[best]), verdict, why)
    waiting = next((value for name, value in worth.items() if name.startswith("idle_wait")), None)
    if waiting is not None:
        verdict = _verdict(abs(waiting) <= _NEGLIGIBLE)
        why = "TelemetryGBN without it, mean of three cells; 2 % at most is negligible"
        text = "Waiting before a move costs next to nothing"
        yield Claim(text, "negligible", None, _percent(waiting), verdict, why)


def _difference(plain: Runs, changed: Sequence[NonshortestRun]) -> float | None:
    """Mean over cells of the percent by which a change is ahead."""
    other = Runs(changed)
    differences = [
        100 * (theirs / ours - 1)
        for case in other.cases()
        for scheme in {run.scheme for run in changed}
        if (theirs := other.rate(case, scheme)) and (ours := plain.rate(case, scheme))
    ]
    return sum(differences) / len(differences) if differences else None


def claims(
    curves: Sequence[NonshortestRun],
    sensitivity: Sequence[NonshortestRun],
    table_1: Sequence[PfcGain],
    figure_2: Sequence[Figure2Run],
) -> list[Claim]:
    """Return the claims for which there are runs."""
    runs = Runs(curves)
    return [
        *_everywhere(runs),
        *_throughput_claims(runs),
        *_scale(runs),
        *_bounds(runs),
        *_slightly_lower(runs, SHORTEST_PATH.name),
        *_slightly_lower(runs, BENCHMARK.name),
        *_aligned(runs),
        *_magnitude(runs),
        *_buffers(runs),
        *_pfc(table_1),
        *_deadlock(figure_2),
        *_constants(sensitivity),
    ]
