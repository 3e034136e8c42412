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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from detour.base.tables import Table, left, right
from detour.base.times import US
from detour.experiments import running
from detour.experiments.nonshortest.experiment import find_topology
from detour.experiments.rivals.tables import RivalCell
from detour.experiments.rivals.workloads import draw

BOTH_TOPOLOGY = "fat-tree:k=8"
_PATTERNS = ("permutation", "incast")
_SCHEMES = {"REPS-NSCC": "reps", "Oblivious-NSCC": "oblivious"}
"""ours -> what uet-htsim calls it"""
_MESSAGE = 1_038_000
"""as many packets of as many bytes: 1000 of 1102, of which it counts 64 as header"""
DATA = Path(__file__).parent / "uet_htsim.json"


@dataclass(frozen=True)
class SimulatorRow:
    """A pattern and a scheme: times in us in both simulators, means over draws."""

    pattern: str
    scheme: str
    draws: int
    mean: tuple[float, float]
    p50: tuple[float, float]
    p99: tuple[float, float]


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
    found = np.array([float(when) - begins[int(flow)] for flow, when in ends])
    p50, p99 = np.percentile(found, (50, 99))
    return {"mean": round(float(found.mean()), 1), "p50": round(float(p50), 1), "p99": round(float(p99), 1)}


def rows(cells: list[RivalCell]) -> list[SimulatorRow]:
    """What both have."""
    known = json.loads(DATA.read_text())["runs"]
    found = []
    for cell in cells:
        name = _SCHEMES.get(cell.scheme)
        theirs = [
            run
            for run in known
            if name is not None and (run["pattern"], run["load_balancing"]) == (cell.pattern, name)
            and run["seed"] <= cell.draws
        ]  # fmt: skip
        if cell.topology != BOTH_TOPOLOGY or cell.fct_us is None or len(theirs) != cell.draws:
            continue
        both = {
            key: (getattr(cell.fct_us, key), sum(run[key] for run in theirs) / len(theirs))
            for key in ("mean", "p50", "p99")
        }
        found.append(SimulatorRow(cell.pattern, cell.scheme, cell.draws, **both))
    return found


def table(cells: list[RivalCell]) -> Table[SimulatorRow]:
    """Of both simulators."""

    def columns(name: str) -> list[object]:
        return [
            right(f"{name} us", lambda row: f"{getattr(row, name)[0]:.1f}"),
            right("uet-htsim", lambda row: f"{getattr(row, name)[1]:.1f}"),
            right("ratio", lambda row: f"{getattr(row, name)[0] / getattr(row, name)[1]:.2f}"),
        ]

    first = [
        left("pattern", lambda row: row.pattern),
        left("scheme", lambda row: row.scheme),
        right("draws", lambda row: row.draws),
    ]
    return Table([*first, *columns("mean"), *columns("p50"), *columns("p99")], rows(cells), "Two simulators")  # type: ignore[arg-type]


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
        found = times(output.read_text(), begins)
        print(json.dumps({"pattern": pattern, "seed": int(seed), "load_balancing": algorithm, **found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
