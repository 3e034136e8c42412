# SPDX-License-Identifier: Apache-2.0
"""The least number of collisions in a small network without a closed form, by one call of a solver (HiGHS).

Unknowns: how many flows of every pair of edge switches take each of their candidates. A link with n flows costs
0 + 1 + ... + (n - 1): its load is a sum of n unknowns between 0 and 1 with these costs, which are filled in order.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.control.placement.heuristic import Candidates

MAX_UNKNOWNS = 4_000
SOLVER_SECONDS = 2.0


def fits(candidates: Candidates, load: Int32Array, reached: Int32Array) -> bool:
    """Whether the solver can be asked. `load`: other flows on the links; `reached`: loads of a known placement."""
    return len(candidates.paths) + int((reached - load).clip(0).sum()) + len(load) <= MAX_UNKNOWNS


def solve(candidates: Candidates, load: Int32Array, reached: Int32Array) -> Int32Array | None:
    """(flows,) the chosen candidate of every flow in a placement with the fewest collisions, given the `load` of other
    flows; None if the solver does not prove one in time. `reached`: loads of some placement, other flows included."""
    import highspy

    model = highspy.Highs()
    for option, value in (("output_flag", False), ("time_limit", SOLVER_SECONDS), ("threads", 1)):
        model.setOptionValue(option, value)
    flows = np.bincount(candidates.pair, minlength=len(candidates.start) - 1)
    count = len(candidates.paths)
    for pair, (first, end) in enumerate(pairwise(candidates.start.tolist())):
        for row in range(first, end):
            model.addVar(0, float(flows[pair]))
            model.changeColIntegrality(row, highspy.HighsVarType.kInteger)
        model.addRow(flows[pair], flows[pair], end - first, np.arange(first, end), np.ones(end - first))
    # No link needs room for more flows than can use it, or than all collisions of a good placement could pay for.
    worst = int((reached.astype(np.int64) * (reached - 1) // 2).sum())
    at = count
    for link, rows in _users(candidates).items():
        begin = int(load[link])
        most = min(int(flows[np.unique(_pair_of(candidates, rows))].sum()), _most(begin, worst))
        for step in range(most):
            model.addVar(0, 1)
            model.changeColCost(at + step, begin + step)
        index = np.concatenate([rows, np.arange(at, at + most)])
        signs = np.concatenate([np.ones(len(rows)), -np.ones(most)])
        model.addRow(0, 0, len(index), index, signs)
        at += most
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = np.rint(np.array(model.getSolution().col_value[:count])).astype(np.int64)
    return _hand_out(candidates, values)


def _users(candidates: Candidates) -> dict[int, list[int]]:
    """The candidates that pass each link."""
    users: dict[int, list[int]] = {}
    for row, hop in zip(*np.nonzero(candidates.links >= 0), strict=True):
        users.setdefault(int(candidates.links[row, hop]), []).append(int(row))
    return users


def _most(begin: int, worst: int) -> int:
    """Flows that a link with `begin` others can take without more than `worst` collisions in all."""
    count, cost = 0, 0
    while cost + begin + count <= worst:
        cost += begin + count
        count += 1
    return max(1, count)


def _pair_of(candidates: Candidates, rows: list[int]) -> NDArray[np.intp]:
    return np.searchsorted(candidates.start, rows, side="right") - 1


def _hand_out(candidates: Candidates, values: NDArray[np.int64]) -> Int32Array:
    """Gives every flow one of the places that its pair has."""
    order = np.argsort(candidates.pair, kind="stable")
    chosen = np.empty(len(candidates.pair), np.int32)
    chosen[order] = np.repeat(np.arange(len(values)), values)
    return chosen
