# SPDX-License-Identifier: Apache-2.0
"""What is made of the runs of schemes that choose paths: a cell for the draws of a scheme on a workload."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from detour.experiments.columns import combined, kept, longest, mean, row
from detour.experiments.rivals.experiment import RivalRun, RivalTimes
from detour.experiments.rivals.workloads import Load
from detour.experiments.steady import spread

TUNED_TOPOLOGY, TUNED = "D1", ("unf", "adv1", "adv2", "advc", "permutation")
"""where settings were chosen: SprayLERP's on the first two, the last two and D1, the papers' schemes' by
`nonshortest.tuning` on the first three"""


def _sum(values: list[int | None]) -> int | None:
    return None if values[0] is None else sum(value or 0 for value in values)


def _mean_each(several: list[Sequence[float]]) -> list[float]:
    """Of places in lists of unlike length."""
    return [round(sum(some) / len(several), 6) for some in zip_longest(*several, fillvalue=0.0)]


def _mean_times(several: list[RivalTimes | None]) -> RivalTimes | None:
    times = [one for one in several if one is not None]
    if not times:
        return None
    names = ("mean", "p50", "p99", "p999")
    return RivalTimes(*(round(statistics.fmean(getattr(one, name) for one in times), 3) for name in names))


@row
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
    steady: bool = kept(all)
    throughput_fraction: float | None = kept(mean(4))
    fct_us: RivalTimes | None = kept(_mean_times)
    jain: float | None = kept(mean(4))
    recovery_us: float | None = kept(longest)
    rtt_us: float | None = kept(mean(3))
    recovery_round_trips: float | None = kept(longest)
    silent: int | None = kept(_sum)
    least_p99_us: float | None = kept(mean(3))
    late: Sequence[float] = kept(_mean_each)
    draws: int
    spread: float | None
    goodput_gbps: float = kept(mean(3))
    unfinished: int = kept(sum)
    marked_fraction: float = kept(mean(4))
    retransmitted_fraction: float = kept(mean(6))
    detour_fraction: float | None = kept(mean(4))
    timeouts: int = kept(sum)
    held_packets_peak: int = kept(max)


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
    tails = [run.fct_us.p99 for run in runs if run.fct_us is not None]
    return combined(
        RivalCell,
        runs,
        chosen_on=one.topology == TUNED_TOPOLOGY and one.pattern in TUNED and one.message_bytes == 0,
        draws=len(runs),
        spread=spread(fractions or tails, 4),
    )
