# SPDX-License-Identifier: Apache-2.0
"""The FORS paper's figures as tables: throughput by scenario, a link that breaks, times of computing, phases."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from detour.base.tables import Column, Table, fixed, left, right
from detour.experiments.columns import columns, table
from detour.experiments.fors.results import ForsBreak, ForsFindings, ForsPhases, ForsRow, ForsTimes


def tables(found: ForsFindings) -> list[Table[Any]]:
    """All, in the order in which they are read."""
    phases = [_ForPhases(each, f) for each in found.phases for f in (1, len(each.phases) // 4, len(each.phases) // 2)]
    mean = found.paper_seconds["mean"]
    return [
        table(ForsRow, found.throughput, f"{found.topology}: throughput a server, Gb/s"),
        Table(_BREAKS, found.breaks, "a link breaks in the midst of an exchange, us"),
        Table(
            (*columns(ForsTimes), *map(_took, ("schedule", "route", "verify"))),
            found.times,
            f"computing, ms (paper: {mean} s on average where its ILP is needed)",
        ),
        Table(_PHASES, phases, "phases with f failed links at a leaf (Fig. 7)"),
    ]


def _took(what: str) -> Column[ForsTimes]:
    return right(what, lambda row: f"{getattr(row.seconds, what) * 1e3:.1f}")


def _before(run: ForsBreak) -> str | None:
    """Mean length of the phases before the one in which the link breaks."""
    lengths, whole, end = run.phase_lengths_us, 0, 0.0
    while whole < len(lengths) and end + lengths[whole] <= run.broke_us:
        end += lengths[whole]
        whole += 1
    return _mean(lengths[:whole])


def _after(run: ForsBreak) -> str | None:
    """Mean length of the phases behind the first one of the new plan, which hands it out."""
    first = run.detections[0].in_force_from_phase
    return None if first is None else _mean(run.phase_lengths_us[first + 1 :])


def _mean(lengths: list[float]) -> str | None:
    return fixed(statistics.fmean(lengths), 1) if lengths else None


_BREAKS: tuple[Column[ForsBreak], ...] = (
    left("routing", lambda run: run.routing),
    right("broke", lambda run: fixed(run.broke_us, 0)),
    right("noticed", lambda run: fixed(run.detections[0].detected_us, 0)),
    right("told", lambda run: fixed(run.detections[0].hosts_told_us, 0), wide=True),
    right("in force", lambda run: fixed(run.detections[0].in_force_us, 0), means="the new plan"),
    right("phase before", _before),
    right("after", _after),
    right("delivered", lambda run: f"{run.exchange.delivered} of {run.exchange.messages}", means="whole and once"),
    right("twice", lambda run: run.exchange.repeated, wide=True),
)


@dataclass(frozen=True)
class _ForPhases:
    """Phases of a fabric with `f` failed links at a leaf."""

    of: ForsPhases
    f: int


_PHASES: tuple[Column[_ForPhases], ...] = (
    left("fabric", lambda row: row.of.topology),
    right("f", lambda row: row.f),
    right("phases", lambda row: row.of.phases[row.f]),
    right("paper's formula", lambda row: row.of.paper_phases[row.f]),
    right("factor", lambda row: fixed(row.of.factor[row.f], 3), means="of the phases without failures"),
    right("paper's", lambda row: fixed(row.of.paper_factor[row.f], 3)),
)
