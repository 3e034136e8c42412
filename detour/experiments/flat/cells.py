# SPDX-License-Identifier: Apache-2.0
"""Cells of the comparison, of the draws of a network, a matrix, failures and a way to choose paths; and which sender is
as good as Spraypoint's switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from detour.base.tables import Table
from detour.experiments.columns import combined, grouped, mean, table, taken
from detour.experiments.flat.claims import packet_claims
from detour.experiments.flat.points import (
    NO_FAILURES,
    SWITCH_ROUTINGS,
    Claim,
    ClaimsRun,
    CollectivePoint,
    CollectiveRun,
    FlatPoint,
    FlatRun,
)
from detour.experiments.flat.rows import CollectiveCell, FlatCell, FlatGoal
from detour.experiments.flat.selection import EQUALITIES
from detour.experiments.flat.settings import TRAINING_SEED, TriedSetting, ranked
from detour.experiments.steady import spread


@dataclass(frozen=True)
class FlatFindings:
    """All that comes of the runs."""

    cells: Sequence[FlatCell]
    goals: Sequence[FlatGoal] = ()
    collectives: Sequence[CollectiveCell] = ()
    claims: Sequence[Claim] = ()
    settings: Sequence[TriedSetting] = field(default=())


def collect(results: Sequence[FlatRun | CollectiveRun | ClaimsRun]) -> FlatFindings:
    """The cells of runs, and what they say."""
    runs = [run for run in results if isinstance(run, FlatRun)]
    cells = [
        _cell(mine, equality)
        for mine in grouped([run for run in runs if run.seed != TRAINING_SEED], _key).values()
        for equality in EQUALITIES.get(mine[0].topology, ("none",))
    ]
    collective_runs = [run for run in results if isinstance(run, CollectiveRun)]
    collectives = [
        _collective(mine) for mine in grouped(collective_runs, lambda run: replace(_point(run), seed=0)).values()
    ]
    claims = [claim for run in results if isinstance(run, ClaimsRun) for claim in run.claims]
    return FlatFindings(
        cells,
        goals(cells),
        collectives,
        [*claims, *packet_claims(cells, collectives)],
        ranked([run for run in runs if run.seed == TRAINING_SEED]),
    )


def _point(run: CollectiveRun) -> CollectivePoint:
    return taken(CollectivePoint, run)


def _collective(runs: Sequence[CollectiveRun]) -> CollectiveCell:
    slowdowns = [run.time_us / run.ideal_us for run in runs if run.time_us is not None]
    return combined(CollectiveCell, runs, slowdown=mean(3)(slowdowns), graphs=len(runs))


def _key(run: FlatPoint) -> tuple[Any, ...]:
    return run.topology, run.matrix, run.failures, run.routing, run.scheme, run.us, run.setting


def _cell(runs: Sequence[FlatRun], equality: str) -> FlatCell:
    p99 = [run.slowdown.p99 for run in runs]
    return combined(
        FlatCell,
        runs,
        equality=equality,
        measured_spread=spread([run.measured for run in runs], 4),
        p99_slowdown=mean(3)(p99),
        p99_spread=spread(p99, 3),
        graphs=len({run.seed for run in runs}),
        steady=sum(run.steady for run in runs),
    )


def goals(cells: Sequence[FlatCell]) -> list[FlatGoal]:
    """Every sender that names its paths, on every network where Spraypoint was measured too."""
    once = {(one.topology, one.matrix, one.routing, one.scheme): one for one in cells if one.failures == NO_FAILURES}
    spraypoint = [one for one in once.values() if one.routing.startswith("spraypoint")]
    rivals = grouped(spraypoint, lambda one: (one.topology, one.matrix))
    senders = [one for one in once.values() if one.routing not in SWITCH_ROUTINGS]
    found = []
    for names, mine in grouped(senders, lambda one: (one.topology, one.routing, one.scheme)).items():
        both = [(one, rivals[one.topology, one.matrix]) for one in mine if (one.topology, one.matrix) in rivals]
        if both:
            topology, routing, scheme = names
            as_much = sum(one.measured >= max(rival.measured for rival in others) for one, others in both)
            lower = sum(one.p99_slowdown < min(rival.p99_slowdown for rival in others) for one, others in both)
            found.append(
                FlatGoal(
                    topology=topology, routing=routing, scheme=scheme, cells=len(both), throughput=as_much, p99=lower
                )
            )
    return found


def tables(findings: FlatFindings) -> list[Table[Any]]:
    """All of it: one table an equality, the goal, claims, settings."""
    shown_cells = [
        table(FlatCell, mine, f"Equal {equality}" if equality != "none" else "Other networks")
        for equality, mine in grouped(findings.cells, lambda one: one.equality).items()
    ]
    rest = [
        table(CollectiveCell, findings.collectives, "Collectives"),
        table(FlatGoal, findings.goals, "Senders beside Spraypoint in switches, at its best in every cell"),
        table(Claim, findings.claims, "Claims"),
        table(TriedSetting, findings.settings, "Settings, the best of each first"),
    ]
    return [*shown_cells, *(one for one in rest if one.rows)]
