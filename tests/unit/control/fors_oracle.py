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
    alive = fabric.alive
    cables = {(u, c): int(n) for (u, c), n in np.ndenumerate(fabric.working.sum(axis=2))}
    most, often = fabric.speed.numerator, fabric.speed.denominator
    servers = [s for s in range(fabric.slots) if s % fabric.hosts < fabric.population[s // fabric.hosts]]
    rows: dict[tuple, list[int]] = {}
    count = 0
    for s, d in itertools.permutations(servers, 2):
        u, v = s // fabric.hosts, d // fabric.hosts
        spines = [-1] if u == v else [c for c in range(fabric.spines) if alive[u, c] and alive[v, c]]
        for p, c in itertools.product(range(phases), spines):
            sets = [("pair", s, d), ("sends", p, s), ("receives", p, d)]
            if c >= 0:
                sets += [("up", p, u, c), ("down", p, v, c)]
            for name in sets:
                rows.setdefault(name, []).append(count)
            count += 1
    room = {name: {"sends": often, "receives": often}.get(name[0]) or most * cables.get(name[2:], 0) for name in rows}
    return _satisfiable(rows, room, count)


def feasible_tiers(fabric: FatTree, phases: int) -> bool:
    """The same for three levels."""
    rows: dict[tuple, list[int]] = {}
    count = 0
    for s, d in itertools.permutations(range(fabric.servers), 2):
        u, v = s // fabric.hosts, d // fabric.hosts
        p, q = u // fabric.leaves, v // fabric.leaves
        ways = [(j, i) for j in range(fabric.spines) for i in range(fabric.cores)]
        ways = [(-1, -1)] if u == v else [(j, -1) for j in range(fabric.spines)] if p == q else ways
        for t, (j, i) in itertools.product(range(phases), ways):
            if {(u, j), (v, j), (p, j, i), (q, j, i)} & fabric.failed:
                continue
            sets: list[tuple] = [("pair", s, d), ("sends", t, s), ("receives", t, d)]
            sets += [("up", t, u, j), ("down", t, v, j)] if j >= 0 else []
            sets += [("up", t, p, j, i), ("down", t, q, j, i)] if i >= 0 else []
            for name in sets:
                rows.setdefault(name, []).append(count)
            count += 1
    return _satisfiable(rows, dict.fromkeys(rows, 1), count)


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
