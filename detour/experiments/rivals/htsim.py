# SPDX-License-Identifier: Apache-2.0
"""The same messages in two simulators: this one and uet-htsim, the Ultra Ethernet Consortium's own.

`uet_htsim.json` has what uet-htsim said, with its command line; what detour says are ordinary runs (`points`). Written
to a folder by `python -m detour.experiments.rivals.htsim FOLDER`: the connection matrices, so that both have the same
pairs, which begin at the same times. `python -m detour.experiments.rivals.htsim FOLDER OUTPUT...` reads times out of
what uet-htsim printed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from detour.base.tables import Table, fixed, left, right
from detour.base.times import US
from detour.experiments import running
from detour.experiments.columns import grouped
from detour.experiments.nonshortest.experiment import find_topology
from detour.experiments.rivals.points import draw

BOTH_TOPOLOGY = "fat-tree:k=8"
_PATTERNS = ("permutation", "incast")
_SCHEMES = {"REPS-NSCC": "reps", "Oblivious-NSCC": "oblivious"}
"""ours -> what uet-htsim calls it"""
_MESSAGE = 1_038_000
"""as many packets of as many bytes: 1000 of 1102, of which it counts 64 as header"""
DATA = Path(__file__).parent / "uet_htsim.json"


_TIMES = ("mean", "p50", "p99")


@dataclass(frozen=True)
class SimulatorRow:
    """A cell (`tables.RivalCell`), and what uet-htsim has of the same draws: means of its times in us."""

    cell: Any
    theirs: dict[str, float]

    def ours(self, time: str) -> float:
        """One of these times here."""
        return getattr(self.cell.fct_us, time)

    def ratio(self, time: str) -> float:
        """Ours to theirs."""
        return self.ours(time) / self.theirs[time]


def matrix(pattern: str, seed: int) -> str:
    """The messages of a draw as uet-htsim's connection matrix; times are us."""
    topology = find_topology(BOTH_TOPOLOGY)[1]
    pairs = draw(topology, pattern, None, seed)
    begins = np.zeros(len(pairs), np.int64)
    groups = running.start_order(len(pairs), seed)
    for step, chosen in enumerate(groups):
        begins[chosen] = step * running.START_SPREAD_PS // US // len(groups)
    lines = [f"Nodes {len(topology.hosts)}", f"Connections {len(pairs)}"]
    lines += [
        f"{a}->{b} id {number} start {begin} size {_MESSAGE}"
        for number, ((a, b), begin) in enumerate(zip(pairs, begins.tolist(), strict=True), start=1)
    ]
    return "\n".join(lines) + "\n"


def times(text: str, begins: dict[int, float]) -> dict[str, float]:
    """Completion times in us out of what uet-htsim printed; `begins`: us by its number of the flow."""
    ends = re.findall(r"flowId (\d+) .*?finished at ([\d.]+)", text)
    lasted = np.array([float(when) - begins[int(flow)] for flow, when in ends])
    values = (lasted.mean(), *np.percentile(lasted, (50, 99)))
    return {time: round(float(value), 1) for time, value in zip(_TIMES, values, strict=True)}


def rows(cells: Iterable[Any]) -> list[SimulatorRow]:
    """Return the rows that both simulators have."""
    runs = grouped(json.loads(DATA.read_text())["runs"], lambda run: (run["pattern"], run["load_balancing"]))
    both = []
    for cell in cells:
        same = runs.get((cell.pattern, _SCHEMES.get(cell.scheme, "")), ())
        theirs = [run for run in same if run["seed"] <= cell.draws]
        if cell.topology == BOTH_TOPOLOGY and cell.fct_us is not None and len(theirs) == cell.draws:
            both.append(SimulatorRow(cell, {time: fmean(run[time] for run in theirs) for time in _TIMES}))
    return both


def table(cells: Iterable[Any]) -> Table[SimulatorRow]:
    """Return the table of both simulators."""
    columns = [
        left("pattern", lambda row: row.cell.pattern),
        left("scheme", lambda row: row.cell.scheme),
        right("draws", lambda row: row.cell.draws),
    ]
    for time in _TIMES:
        columns += [
            right(f"{time} us", lambda row, time=time: fixed(row.ours(time), 1)),
            right("uet-htsim", lambda row, time=time: fixed(row.theirs[time], 1)),
            right("ratio", lambda row, time=time: fixed(row.ratio(time), 2)),
        ]
    return Table(columns, rows(cells), "Two simulators")


def main(folder: Path, outputs: list[Path]) -> None:
    """See the module."""
    if not outputs:
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in _PATTERNS:
            for seed in (1, 2, 3):
                (folder / f"{pattern}-{seed}.cm").write_text(matrix(pattern, seed))
        return
    for output in outputs:  # PATTERN-SEED-ALGORITHM.out
        pattern, seed, algorithm = output.stem.split("-")
        lines = (folder / f"{pattern}-{seed}.cm").read_text().splitlines()[2:]
        begins = {number: float(line.split()[4]) for number, line in enumerate(lines, start=1)}
        completion = times(output.read_text(), begins)
        print(json.dumps({"pattern": pattern, "seed": int(seed), "load_balancing": algorithm, **completion}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
