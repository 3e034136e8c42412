# SPDX-License-Identifier: Apache-2.0
"""docs/rivals.md: the comparison of schemes that choose paths, from the cells of `reproduce rivals`."""

from __future__ import annotations

from pathlib import Path

from detour.base.tables import markdown
from detour.experiments.rivals.experiment import RivalFindings, RivalSelection
from detour.experiments.rivals.tables import goals_table, tables

_HEAD = """# SprayLERP and its rivals

Written by `detour reproduce rivals{options} --write docs/rivals.md`; do not edit it by hand.

Every packet of a SprayLERP connection takes a path of its own, chosen by the queuing delays that answers bring
([transports.md](transports.md#spraylerp) has the rules). Here it stands beside the non-shortest-path paper's schemes
and beside published ways to choose paths, on the same fabric, with the same pairs and the same time for all.

- **TelemetryLERP**, **Benchmark-DCTCP**: as in [results.md](results.md), with the settings that were best there.
- **TelemetryLERP-evidence**: with the loss recovery that hosts have by default, and SprayLERP has, instead of the
  paper's.
- **LERP-shortest**: SprayLERP without a choice of paths; what the choice is worth.
- **Oblivious**: every packet on a random candidate, shortest path or detour. **Valiant**: on a random detour.
- **REPS** (arXiv 2407.21625): a path that answered without a mark is used again, else a random one is drawn.
- **MRC-like** (arXiv 2605.04333): packets take turns on seven paths; a mark swaps one, a loss does and bars it
  for a millisecond.
- **FlowBender** (CoNEXT 2014): one path, left at random after a round trip with more than 5 % marks.
  **PLB** (SIGCOMM 2022): after 12 in a row with more than half.

REPS, MRC-like, FlowBender, PLB, oblivious and Valiant spraying have SprayLERP's loss recovery (by order on each path),
its DCTCP and its K of 120 kB, so that they differ from it by the choice of paths alone; what their publications have
besides (other congestion control, trimming) is left out. The candidates of a connection are the same for all: one
shortest path and a detour by each other group.

SprayLERP's numbers (K, margin, probabilities) were fixed on D1 with endless UNF, ADV1, ADVc and permutations; those of
the papers' schemes on D1 with UNF, ADV1 and ADV2. Everything else is hold-out, and marked so. Runs that were still
rising or falling are not steady. {extent}
"""
_LEFT = """
## What is not here

Spritz (arXiv 2602.19567), UGAL-L and UGAL-G in the switches, NSCC as congestion control, a comparison with uet-htsim.
"""


def write(file: Path, found: RivalFindings, what: RivalSelection) -> None:
    """Writes the page."""
    options = "" if what.extent == "normal" else f" --{what.extent}"
    draws = "one draw of pairs" if what.draws == 1 else f"{what.draws} draws of pairs"
    extent = f"This page is of {draws}, on {', '.join(what.topologies)}."
    parts = [_HEAD.format(options=options, extent=extent)]
    goals = goals_table(found)
    if goals.rows:
        parts.append(f"## {goals.title}\n\n{markdown(goals)}\n")
    parts += [f"## {table.title}\n\n{markdown(table)}\n" for table in tables(found)]
    file.write_text("\n".join(parts) + _LEFT)
