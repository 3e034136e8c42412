# SPDX-License-Identifier: Apache-2.0
"""What has nothing in common with our way: the whole problem as one integer programme, and a linear one for loads."""

import itertools

import highspy
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, hstack

from detour.control.fors.fabric import FatTree


def feasible(fabric: FatTree, phases: int) -> bool:
    """Whether an all-to-all exchange fits into so many phases: over servers and phases, slow."""
    room: dict[tuple, int] = {link: int(n) * fabric.lanes for link, n in np.ndenumerate(fabric.working.sum(axis=2))}
    room |= {link: int(up) for link, up in np.ndenumerate(fabric.high)}
    rows: dict[tuple, list[int]] = {}
    count = 0
    for s, d in itertools.permutations(np.flatnonzero(fabric.present()).tolist(), 2):
        for t, way in itertools.product(range(phases), _ways(fabric, s // fabric.hosts, d // fabric.hosts)):
            if all(room[link] for link in way):
                up, down = way[: len(way) // 2], way[len(way) // 2 :]
                links = [("up", t, *link) for link in up] + [("down", t, *link) for link in down]
                for name in (("pair", s, d), ("sends", t, s), ("receives", t, d), *links):
                    rows.setdefault(name, []).append(count)
                count += 1
    most = {name: room[name[2:]] if name[0] in ("up", "down") else fabric.at_once for name in rows}
    return _satisfiable(rows, most, count)


def _ways(fabric: FatTree, u: int, v: int) -> list[list[tuple[int, ...]]]:
    """The links of every path from a leaf to another, those up first."""
    p, q = u // fabric.leaves, v // fabric.leaves
    if p == q:
        return [[(u, j), (v, j)] for j in range(fabric.spines)] if u != v else [[]]
    over = itertools.product(range(fabric.spines), range(fabric.cores))
    return [[(u, j), (p, j, i), (q, j, i), (v, j)] for j, i in over]


def _satisfiable(rows: dict[tuple, list[int]], room: dict[tuple, int], count: int) -> bool:
    """Whether every pair has one of its columns and every other row as many as it has room for at most."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for _ in range(count):
        solver.addVar(0, 1)
    integer = np.full(count, highspy.HighsVarType.kInteger.value, np.uint8)
    solver.changeColsIntegrality(count, list(range(count)), integer)
    for name, columns in rows.items():
        pair = name[0] == "pair"
        solver.addRow(1 if pair else 0, 1 if pair else room[name], len(columns), columns, [1.0] * len(columns))
    solver.run()
    status = solver.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    return status == highspy.HighsModelStatus.kOptimal


def least_phases(fabric: FatTree) -> int:
    """Phases that flows between leaves and servers' messages need at least. All pairs of leaves must be joined. Flows
    from u to v over c, each direction by itself, as real numbers; the fullest link has as few as can be."""
    alive, population = fabric.alive, fabric.sizes().tolist()
    pairs = [(u, v) for u, v in itertools.permutations(range(fabric.leaves), 2) if population[u] * population[v]]
    by_servers = -(-(fabric.servers - 1) // fabric.speed.denominator)
    if not pairs:
        return by_servers
    paths = [(k, u, v, c) for k, (u, v) in enumerate(pairs) for c in np.flatnonzero(alive[u] & alive[v]).tolist()]
    pair, u, v, c = np.array(paths).T
    columns, links = np.arange(len(paths)), fabric.leaves * fabric.spines
    room = np.tile(fabric.working.sum(axis=2).ravel() * float(fabric.speed.numerator), 2)
    up, down = u * fabric.spines + c, links + v * fabric.spines + c
    load = coo_array((np.ones(2 * len(paths)), (np.r_[up, down], np.r_[columns, columns])), (2 * links, len(paths)))
    most = coo_array(-room[:, None])
    solution = linprog(
        np.r_[np.zeros(len(paths)), 1.0],
        A_ub=hstack([load, most]),
        b_ub=np.zeros(2 * links),
        A_eq=coo_array((np.ones(len(paths)), (pair, columns)), (len(pairs), len(paths) + 1)),
        b_eq=[population[a] * population[b] for a, b in pairs],
        method="highs-ds",
    )
    assert solution.status == 0, solution.message
    return max(by_servers, int(np.ceil(solution.fun - 1e-6)))
