# SPDX-License-Identifier: Apache-2.0
"""docs/rivals.md: the comparison of schemes that choose paths, from the cells of `reproduce rivals`."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path

from detour.base.files import write_file
from detour.base.tables import markdown
from detour.experiments.prose import prose
from detour.experiments.rivals import htsim
from detour.experiments.rivals.points import SIZES, RivalSelection
from detour.experiments.rivals.tables import RivalCell, RivalFindings, goals_table, lateness_table, tables

_TEXTS = prose(__file__)


def write(file: Path, found: RivalFindings, what: RivalSelection, command: str) -> None:
    """Writes the page. `command`: how to write it again."""
    ours = [cell for cell in found.cells if cell.topology != htsim.BOTH_TOPOLOGY]
    parts = [_TEXTS["head"].format(command=command, coverage=_coverage(ours))]
    goals = goals_table(RivalFindings(ours))
    if goals.rows:
        parts.append(f"## {goals.title}\n\n{markdown(goals)}\n{_TEXTS['reasons']}")
    some = [*tables(RivalFindings(ours)), lateness_table(ours)]
    parts += [f"## {table.title}\n\n{markdown(table)}\n" for table in some if table.rows]
    parts += _simulators(list(found.cells))
    parts.append(_TEXTS["left"].format(missing=textwrap.fill(_missing(ours, what), 120)))
    write_file(file, "\n".join(parts))


def _coverage(cells: list[RivalCell]) -> str:
    """How much of everything is there."""
    draws = Counter(cell.draws for cell in cells)
    if set(draws) <= {1}:
        counted = "each of one draw of pairs"
    else:
        counted = ", ".join(f"{count} of {number} draw{'s' * (number > 1)}" for number, count in sorted(draws.items()))
    topologies = ", ".join(dict.fromkeys(cell.topology for cell in cells))
    return (
        f"There are {len(cells)} cells on {topologies}:\n{counted}. Endless connections run for 1.5 ms of virtual "
        "time on D1, less on larger fabrics.\nWhere there is one draw, for want of processor time, differences of a "
        "few percent between schemes say nothing.\nSchemes are compared where they have equally many."
    )


def _missing(cells: list[RivalCell], what: RivalSelection) -> str:
    there = {cell.pattern for cell in cells}
    absent = [name for name in what.patterns if name not in there]
    few = [name for name in what.schemes if sum(cell.scheme == name for cell in cells) < len(cells) / len(what.schemes)]
    lines = []
    if absent:
        lines.append(f"No cell has the patterns {', '.join(absent)}.")
    if few:
        lines.append(f"In fewer cells than others are {', '.join(few)}.")
    few_cells = {name: sum(cell.topology == name for cell in cells) for name in ("D2", "D3")}
    large = sum(cell.message_bytes == SIZES[-1] for cell in cells)
    lines += [
        f"{name} has {count} cells only." if count else f"{name} was not run." for name, count in few_cells.items()
    ]
    lines.append(f"Messages of 100 MB: {large} cells.")
    return " ".join(lines)


def _simulators(cells: list[RivalCell]) -> list[str]:
    table = htsim.table(cells)
    if not table.rows:
        return []
    known = json.loads(htsim.DATA.read_text())
    text = _TEXTS["simulators"].format(
        commit=known["commit"],
        topology=htsim.BOTH_TOPOLOGY,
        command=textwrap.fill(known["command"], 110, break_on_hyphens=False).replace("\n", " \\\n        "),
        table=markdown(table),
        differences=known["differences"],
    )
    return [text]
