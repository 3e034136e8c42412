# SPDX-License-Identifier: Apache-2.0
"""What is made of the runs of schemes that choose paths: a cell for the draws of a scheme on a workload."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from detour.experiments.rivals.experiment import RivalRun, RivalTimes
from detour.experiments.rivals.workloads import Load
from detour.experiments.steady import spread

TUNED_TOPOLOGY, TUNED = "D1", ("unf", "adv1", "adv2", "advc", "permutation")
"""where settings were chosen: SprayLERP's on the first two, the last two and D1, the papers' schemes' by
`nonshortest.tuning` on the first three"""


@dataclass(frozen=True, kw_only=True)
class RivalCell:
    """A scheme on a workload: means over `draws`; `spread`: the sample standard deviation of `throughput_fraction`, or
    of the p99 where messages are counted, None of one draw. `chosen_on`: something was set by how it does here, for one
    of the schemes at least; the rest is the hold-out. `recovery_us`: the longest of the
    draws, and so are `recovery_round_trips`, in each connection's own; `rtt_us`: the mean smoothed round trip of
    connections before the link broke. `late`: see `RivalRun`."""

    topology: str
    pattern: str
    load: Load | None
    pairs: int
    message_bytes: int
    scheme: str
    chosen_on: bool
    steady: bool
    throughput_fraction: float | None
    fct_us: RivalTimes | None
    jain: float | None
    recovery_us: float | None
    rtt_us: float | None
    recovery_round_trips: float | None
    silent: int | None
    least_p99_us: float | None
    late: Sequence[float]
    draws: int
    spread: float | None
    goodput_gbps: float
    unfinished: int
    marked_fraction: float
    retransmitted_fraction: float
    detour_fraction: float | None
    timeouts: int
    held_packets_peak: int


@dataclass(frozen=True)
class RivalFindings:
    """`cells`: in the order of the points."""

    cells: Sequence[RivalCell]


def collect(results: Iterable[RivalRun | None]) -> RivalFindings:
    """A cell of every scheme's draws."""
    runs: dict[tuple[object, ...], list[RivalRun]] = {}
    for one in results:
        if one is not None:
            runs.setdefault((one.topology, one.pattern, one.load, one.message_bytes, one.scheme), []).append(one)
    return RivalFindings([_cell(some) for some in runs.values()])


def _cell(runs: list[RivalRun]) -> RivalCell:
    one = runs[0]
    fractions = [run.throughput_fraction for run in runs if run.throughput_fraction is not None]
    times = [run.fct_us for run in runs if run.fct_us is not None]
    silences = [run.recovery_us for run in runs if run.recovery_us is not None]
    own = [run.recovery_round_trips for run in runs if run.recovery_round_trips is not None]
    wide = spread(fractions) if fractions else spread([run.p99 for run in times])
    detours = [run.detour_fraction for run in runs if run.detour_fraction is not None]
    fairness = [run.jain for run in runs if run.jain is not None]
    return RivalCell(
        topology=one.topology,
        pattern=one.pattern,
        load=one.load,
        pairs=one.pairs,
        message_bytes=one.message_bytes,
        scheme=one.scheme,
        chosen_on=one.topology == TUNED_TOPOLOGY and one.pattern in TUNED and one.message_bytes == 0,
        steady=all(run.steady for run in runs),
        throughput_fraction=_mean(fractions, 4),
        fct_us=_mean_times(times),
        jain=_mean(fairness, 4),
        recovery_us=max(silences, default=None),
        rtt_us=_mean([run.rtt_us for run in runs if run.rtt_us is not None], 3),
        recovery_round_trips=max(own, default=None),
        silent=None if one.silent is None else sum(run.silent or 0 for run in runs),
        least_p99_us=_mean([run.least_p99_us for run in runs if run.least_p99_us is not None], 3),
        late=[round(sum(some) / len(runs), 6) for some in zip_longest(*(run.late for run in runs), fillvalue=0.0)],
        draws=len(runs),
        spread=None if wide is None else round(wide, 4),
        goodput_gbps=round(statistics.fmean(run.goodput_gbps for run in runs), 3),
        unfinished=sum(run.unfinished for run in runs),
        marked_fraction=round(statistics.fmean(run.marked_fraction for run in runs), 4),
        retransmitted_fraction=round(statistics.fmean(run.retransmitted_fraction for run in runs), 6),
        detour_fraction=_mean(detours, 4),
        timeouts=sum(run.timeouts for run in runs),
        held_packets_peak=max(run.held_packets_peak for run in runs),
    )


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(statistics.fmean(values), digits) if values else None


def _mean_times(times: Sequence[RivalTimes]) -> RivalTimes | None:
    if not times:
        return None
    names = ("mean", "p50", "p99", "p999")
    return RivalTimes(*(round(statistics.fmean(getattr(one, name) for one in times), 3) for name in names))
