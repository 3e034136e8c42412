# SPDX-License-Identifier: Apache-2.0
"""The whole problem as one integer programme over servers and phases: slow, and with nothing in common with our way."""

from __future__ import annotations

import itertools

import highspy
import numpy as np

from detour.control.fors.fabric import FatTree2


def feasible(fabric: FatTree2, phases: int) -> bool:
    """Whether an all-to-all exchange (own parts included) fits into so many phases."""
    alive = fabric.alive()
    servers = [s for s in range(fabric.slots) if s % fabric.spines < fabric.population[s // fabric.spines]]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    rows: dict[tuple, list[int]] = {}
    count = 0
    for s, d in itertools.product(servers, servers):
        u, v = s // fabric.spines, d // fabric.spines
        spines = [-1] if u == v else [c for c in range(fabric.spines) if alive[u, c] and alive[v, c]]
        for p, c in itertools.product(range(phases), spines):
            sets = [("pair", s, d), ("sends", p, s), ("receives", p, d)]
            if c >= 0:
                sets += [("up", p, u, c), ("down", p, v, c)]
            for name in sets:
                rows.setdefault(name, []).append(count)
            count += 1
    for _ in range(count):
        solver.addVar(0, 1)
    integer = np.full(count, highspy.HighsVarType.kInteger.value, np.uint8)
    solver.changeColsIntegrality(count, list(range(count)), integer)
    for name, columns in rows.items():
        solver.addRow(1 if name[0] == "pair" else 0, 1, len(columns), columns, [1.0] * len(columns))
    solver.run()
    status = solver.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    return status == highspy.HighsModelStatus.kOptimal
