# SPDX-License-Identifier: Apache-2.0
"""Comparison of path selection schemes: docs/rivals.md, and the site's page with all cells."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from detour.base.files import write_file
from detour.base.tables import Table, fixed, left, markdown, right
from detour.experiments.columns import largest
from detour.experiments.prose import prose
from detour.experiments.rivals import htsim
from detour.experiments.rivals.points import EVENTS, LOADS, RIVAL_PATTERNS, RivalSelection
from detour.experiments.rivals.tables import (
    TUNED_TOPOLOGY,
    Group,
    RivalCell,
    RivalFindings,
    SprayGoal,
    all_tables,
    goals,
    size_text,
    tail,
    workloads,
)
from detour.fabric.backends.virtual.scheme import TELEMETRY_LERP

_TEXTS = prose(__file__)


def write(file: Path, findings: RivalFindings, what: RivalSelection, command: str) -> None:
    """Write the short page. `command`: how to write it again."""
    ours = RivalFindings([cell for cell in findings.cells if cell.topology != htsim.BOTH_TOPOLOGY])
    groups = workloads(ours)
    text = _TEXTS["page"].format(
        command=command,
        coverage=_filled(_coverage(list(ours.cells), what)),
        goals=markdown(_goals_table(goals(ours))),
        limits=_filled(_limits(groups)),
        schemes=markdown(_schemes_table(groups)),
        patterns=markdown(_patterns_table(groups)),
        simulators=_filled(_simulators(findings)),
    )
    write_file(file, text)


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False)


def every_cell(findings: RivalFindings) -> str:
    """The page of all tables."""
    uet = json.loads(htsim.DATA.read_text())
    command = textwrap.fill(uet["command"], 110, break_on_hyphens=False).replace("\n", " \\\n        ")
    head = _TEXTS["cells"].format(**uet | {"command": command}, topology=htsim.BOTH_TOPOLOGY)
    some = [table for table in all_tables(findings) if table.rows]
    parts = [f"## {table.title}\n\n{markdown(table)}\n\n{'; '.join(table.legend(True))}\n" for table in some]
    return "\n".join([head, *parts])


def _coverage(cells: list[RivalCell], what: RivalSelection) -> str:
    draws = Counter(cell.draws for cell in cells)
    endless = [cell.steady for cell in cells if not cell.message_bytes and cell.pattern not in EVENTS]
    have = Counter(cell.scheme for cell in cells)
    few = [f"{name} ({have[name]})" for name in what.schemes if have[name] < len(cells) / len(what.schemes)]
    return _TEXTS["coverage"].format(
        cells=len(cells),
        topologies=", ".join(f"{count} on {name}" for name, count in Counter(cell.topology for cell in cells).items()),
        draws=" and ".join(f"{count} of {number} draw{'s' * (number > 1)}" for number, count in sorted(draws.items())),
        steady=sum(endless),
        endless=len(endless),
        few=f"Few cells have {', '.join(few)}. " if few else "",
    )


# -- the goals ----------------------------------------------------------------------------------------------


def _goals_table(some: Iterable[SprayGoal]) -> Table[SprayGoal]:
    columns = [
        left("goal for SprayLERP", lambda goal: goal.text),
        right(f"met on {TUNED_TOPOLOGY}", lambda goal: goal.met(lambda cell: cell.topology == TUNED_TOPOLOGY)),
        right("elsewhere", lambda goal: goal.met(lambda cell: cell.topology != TUNED_TOPOLOGY)),
        left("missed in", lambda goal: _names([verdict.cell for verdict in goal.missed]) or None),
    ]
    return Table(columns, [goal for goal in some if goal.verdicts])


def _names(cells: Iterable[RivalCell]) -> str:
    """Cells in short: `D1 64 kB: unf, adv1 light/heavy, ring; D2 1 MB: incast`."""
    places: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        place = f"{cell.topology} {size_text(cell.message_bytes)}" if cell.message_bytes else cell.topology
        places.setdefault(place, {}).setdefault(cell.pattern, []).append(cell.load or "")
    texts = []
    for place, patterns in places.items():
        some = [f"{name} {'/'.join(loads) * (len(loads) < len(LOADS))}".strip() for name, loads in patterns.items()]
        texts.append(f"{place}: {', '.join(some)}")
    return "; ".join(texts)


def _limits(groups: Iterable[Group]) -> str:
    """Say where the goal of long messages is out of reach."""
    missed, ruled_out, reached = 0, 0, 0
    for group in groups:
        theirs = next((cell for cell in group if cell.scheme == TELEMETRY_LERP.name), None)
        if theirs is None or group[0].message_bytes < 1_000_000 or tail(group[0]) <= 0.6 * tail(theirs):
            continue
        missed += 1
        ruled_out += (group[0].least_p99_us or 0) > 0.6 * tail(theirs)
        reached += any(tail(cell) <= 0.6 * tail(theirs) for cell in group)
    return _TEXTS["limits"].format(missed=missed, ruled_out=ruled_out, reached=reached)


# -- one scheme beside another ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measure:
    """A measure compared in some cells: `of` is None in others; `best`: max or min; `text`: of a value."""

    name: str
    of: Callable[[RivalCell], float | None]
    best: Callable[..., Any]
    text: Callable[[float], str]

    def values(self, group: Group) -> dict[str, float]:
        return {cell.scheme: value for cell in group if (value := self.of(cell)) is not None}


def _tail_of(size: int) -> Callable[[RivalCell], float | None]:
    return lambda cell: tail(cell) if cell.message_bytes == size else None


_MEASURES = (
    _Measure("throughput", lambda cell: cell.throughput_fraction, max, "{:.1%}".format),
    _Measure("p99, 64 kB", _tail_of(64_000), min, "{:.0f}".format),
    _Measure("p99, 1 MB", _tail_of(1_000_000), min, "{:.0f}".format),
)


def _schemes_table(groups: Sequence[Group]) -> Table[str]:
    """Schemes that are in at least half of the workloads."""
    cells = list(chain(*groups))
    count = Counter(cell.scheme for cell in cells)

    def silence(scheme: str) -> str | None:
        return fixed(largest(cell.recovery_us for cell in cells if cell.scheme == scheme), 0)

    columns = [left("scheme", lambda scheme: scheme)]
    columns += [right(measure.name, _beside_best(groups, measure)) for measure in _MEASURES]
    columns.append(right("failed link, us", silence))
    return Table(columns, [scheme for scheme in count if count[scheme] >= len(groups) / 2])


def _beside_best(groups: Sequence[Group], measure: _Measure) -> Callable[[str], str | None]:
    """A scheme's value in % of the best one's of the workload: median and worst."""
    ratios: dict[str, list[float]] = {}
    for values in map(measure.values, groups):
        for scheme, value in values.items():
            ratios.setdefault(scheme, []).append(value / measure.best(values.values()))
    worst = min if measure.best is max else max
    return lambda scheme: f"{median(ratios[scheme]):.0%}, {worst(ratios[scheme]):.0%}" if scheme in ratios else None


def _patterns_table(groups: Sequence[Group]) -> Table[list[Group]]:
    """A row for the workloads of a pattern."""
    columns = [left("pattern", lambda some: some[0][0].pattern)]
    for measure in _MEASURES:
        columns.append(right(f"{measure.name}: SprayLERP", partial(_ours, measure)))
        columns.append(left("best other", partial(_best_other, measure)))
    rows = [[group for group in groups if group[0].pattern == pattern] for pattern in RIVAL_PATTERNS]
    return Table(columns, [row for row in rows if row])


def _ours(measure: _Measure, groups: list[Group]) -> str | None:
    values = [value for group in groups if (value := measure.of(group[0])) is not None]
    return measure.text(median(values)) if values else None


def _best_other(measure: _Measure, groups: list[Group]) -> str | None:
    """The median of each workload's best, and who is it most often."""
    rest = [measure.values(group[1:]) for group in groups]
    best = [measure.best((value, scheme) for scheme, value in values.items()) for values in rest if values]
    if not best:
        return None
    who = Counter(scheme for _, scheme in best).most_common(1)[0][0]
    return f"{measure.text(median(value for value, _ in best))} {who}"


def _simulators(findings: RivalFindings) -> str:
    ratios = [row.ratio(time) for row in htsim.rows(findings.cells) for time in row.theirs]
    if not ratios:
        return ""
    return _TEXTS["simulators"].format(topology=htsim.BOTH_TOPOLOGY, least=min(ratios), most=max(ratios))
