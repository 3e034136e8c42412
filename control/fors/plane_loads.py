# SPDX-License-Identifier: Apache-2.0
"""How many flows of each pair of leaves go over each plane, and the least number of phases that links allow.

A linear programme: flows x[u, v, j] >= 0 between leaves u < v over plane j, n_u * n_v for every pair; where they are
of two pods P and Q, z[P, Q, j, i] over the plane's cores, as many in sum as x between the pods' leaves. A link of
either level carries T at most. What u sends to v may be taken to be what v sends to u: a solution averaged with its
transpose is one. Links of either level need T phases at least, so do servers (all but one) and nothing has to be known
of how flows are dealt out to phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.linear import programme

_SCALE = 1 << 40
"""Duals become integers of this size: the bound is computed without rounding."""
_EPSILON = 1e-6
_MANY_WAYS = 10_000
"""ways of all pairs beyond which real numbers are rounded one by one first; the integer programme may take minutes"""


@dataclass(frozen=True)
class PlaneDemand:
    """Pairs of leaves with the planes they may take, pairs of pods with the cores."""

    fabric: FatTree

    @cached_property
    def pairs(self) -> np.ndarray:
        """(pairs, 2) leaves u < v that have a way, and servers that take part."""
        u, v = np.triu_indices(self.fabric.all_leaves, 1)
        here = self.fabric.sizes() > 0
        kept = self.fabric.planes[u, v].any(axis=1) & here[u] & here[v]
        return np.stack([u[kept], v[kept]], axis=1)

    @cached_property
    def flows(self) -> np.ndarray:
        """(pairs,) int: messages from u to v, as many as from v to u."""
        sizes = self.fabric.sizes()
        return sizes[self.pairs[:, 0]] * sizes[self.pairs[:, 1]]

    @cached_property
    def ways(self) -> np.ndarray:
        """(ways, 2) pair and plane."""
        return np.argwhere(self.fabric.planes[self.pairs[:, 0], self.pairs[:, 1]])

    @cached_property
    def crossings(self) -> np.ndarray:
        """(crossings, 4) pod, another with a higher number, plane, core that both reach."""
        high = self.fabric.high
        both = high[:, None] & high[None, :]
        found = np.argwhere(both)
        return found[found[:, 0] < found[:, 1]]

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(ways, 4) and (crossings, 3): rows of the programme in which a column of either kind is, -1 for none.

        Rows: pairs, sums of two pods over a plane, links low, links high.
        """
        fabric, count = self.fabric, len(self.pairs)
        pods, aggs = fabric.pods, fabric.spines
        low, high = count + pods * pods * aggs, count + pods * pods * aggs + fabric.all_leaves * aggs
        pair, plane = self.ways.T
        ends = self.pairs[pair]
        pod = fabric.pod_of[ends]
        between = count + (pod[:, 0] * pods + pod[:, 1]) * aggs + plane
        between = np.where(pod[:, 0] == pod[:, 1], -1, between)
        ways = np.stack([pair, between, *(low + ends[:, end] * aggs + plane for end in (0, 1))], axis=1)
        p, q, j, i = self.crossings.T
        links = (high + (one * aggs + j) * fabric.cores + i for one in (p, q))
        return ways, np.stack([count + (p * pods + q) * aggs + j, *links], axis=1)


def _model(demand: PlaneDemand, most: int | None, *, integer: bool):
    """The programme with T given, or as its last column and the least that there is."""
    fabric, count = demand.fabric, len(demand.pairs)
    ways, crossings = demand.rows()
    sums = fabric.pods * fabric.pods * fabric.spines
    links = fabric.alive.size + fabric.high.size
    index = [row[row >= 0] for row in (*ways, *crossings)]
    value = [np.ones(len(row)) for row in index]
    for k in range(len(ways), len(index)):
        value[k][0] = -1.0  # what goes over cores is what comes from leaves
    if most is None:
        index.append(np.arange(count + sums, count + sums + links))
        value.append(np.full(links, -1.0))
    starts = np.concatenate([[0], np.cumsum([len(row) for row in index])])
    lower = np.concatenate([demand.flows, np.zeros(sums), np.full(links, -np.inf)]).astype(float)
    upper = np.concatenate([lower[: count + sums], np.full(links, float(most or 0))])
    costs = np.zeros(len(index))
    costs[-1] = 1.0 if most is None else 0.0
    model = programme(costs, (lower, upper), (starts, np.concatenate(index), np.concatenate(value)))
    if integer:
        import highspy

        kinds = [highspy.HighsVarType.kInteger] * len(ways) + [highspy.HighsVarType.kContinuous] * len(crossings)
        model.integrality_ = kinds
    return model


def _solver(seconds: float = 60.0):
    # Here, so that whoever plans nothing by it does not wait for it.
    import highspy

    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1), ("time_limit", seconds)):
        solver.setOptionValue(option, value)
    return solver


def _succeeded(solver) -> bool:
    import highspy

    return solver.getModelStatus() == highspy.HighsModelStatus.kOptimal


def plane_bound(demand: PlaneDemand) -> int:
    """`fluid_bound` in whole phases."""
    return ceil(fluid_bound(demand))


def concurrent_flow(demand: PlaneDemand) -> tuple[np.ndarray, np.ndarray]:
    """(ways,) flows of pairs over planes and (crossings,) of pods over cores, real numbers with the least T."""
    solver = _least(demand)
    value = np.maximum(np.array(solver.getSolution().col_value)[:-1], 0.0)
    return value[: len(demand.ways)], value[len(demand.ways) :]


def _least(demand: PlaneDemand):
    """The programme for the least T, solved."""
    solver = _solver()
    solver.passModel(_model(demand, None, integer=False))
    solver.setOptionValue("solver", "ipm")
    solver.run()
    if not _succeeded(solver):  # its prices would prove little
        solver.clearSolver()
        solver.setOptionValue("solver", "simplex")
        solver.run()
    return solver


def fluid_bound(demand: PlaneDemand) -> Fraction:
    """The linear programme's least T, proven by its dual prices in integer arithmetic.

    Any prices of links give a bound: a flow pays at least what the cheapest of its ways costs, and all links together
    take in at most T times the sum of prices.
    """
    if not len(demand.pairs):
        return Fraction(0)
    solver = _least(demand)
    fabric = demand.fabric
    links = fabric.alive.size + fabric.high.size
    prices = np.clip(-np.array(solver.getSolution().row_dual)[-links:], 0.0, 1.0)
    whole = (prices * _SCALE).astype(np.int64)
    whole[: fabric.alive.size][~fabric.alive.ravel()] = 0
    whole[fabric.alive.size :][~fabric.high.ravel()] = 0
    low = whole[: fabric.alive.size].reshape(fabric.alive.shape)
    high = whole[fabric.alive.size :].reshape(fabric.high.shape)
    over = np.zeros((fabric.pods, fabric.pods, fabric.spines), np.int64)
    for p, q in np.ndindex(fabric.pods, fabric.pods):
        both = fabric.high[p] & fabric.high[q]
        over[p, q] = 0 if p == q else np.where(both, high[p] + high[q], 4 * _SCALE).min(axis=1)
    pair, plane = demand.ways.T
    u, v = demand.pairs[pair].T
    cost = low[u, plane] + low[v, plane] + over[fabric.pod_of[u], fabric.pod_of[v], plane]
    cheapest = np.full(len(demand.pairs), 8 * _SCALE)
    np.minimum.at(cheapest, pair, cost)
    paid = sum(price * flows for price, flows in zip(cheapest.tolist(), demand.flows.tolist(), strict=True))
    total = sum(whole.tolist())
    return Fraction(paid, total) if total else Fraction(0)


def counted_bound(fabric: FatTree) -> int:
    """Phases that every plan needs, by counting: a server's messages, a leaf's and a pod's flows over their links."""
    sizes = fabric.sizes()
    joined = fabric.planes.any(axis=2) | np.eye(fabric.all_leaves, dtype=bool)
    other_pod = fabric.pod_of[:, None] != fabric.pod_of[None, :]
    servers = int((joined @ sizes)[sizes > 0].max(initial=1)) - 1
    leaf = sizes * (joined @ sizes - sizes)
    pod = np.bincount(fabric.pod_of, sizes * ((joined & other_pod) @ sizes), fabric.pods).astype(np.int64)
    most = [servers]
    for flows, links in ((leaf, fabric.alive.sum(axis=1)), (pod, fabric.high.sum(axis=(1, 2)))):
        most.append(int((-(-flows // np.maximum(links, 1))).max(initial=0)))
    return max(most)


def least_phases(demand: PlaneDemand, seconds: float = 60.0) -> tuple[int, np.ndarray | None]:
    """The proven bound, and real numbers x (ways,) that meet it on links (None: the solver found none).

    Flows that meet what counting says prove that links do not need more; the programme for the least T is solved only
    where there are none."""
    bound = counted_bound(demand.fabric)
    near = _fractional(demand, bound, seconds)
    if near is not None:
        return bound, near
    links = plane_bound(demand)
    if links <= bound:
        return bound, None
    return links, _fractional(demand, links, seconds)


def _fractional(demand: PlaneDemand, phases: int, seconds: float) -> np.ndarray | None:
    """(ways,) real numbers x with T = `phases` on all links; None: there are none, or none was found in time."""
    if not len(demand.pairs):
        return np.zeros(0)
    solver = _solver(seconds)
    solver.setOptionValue("solver", "ipm")
    solver.setOptionValue("run_crossover", "off")  # from the middle of all solutions: rounding has most room there
    solver.passModel(_model(demand, phases, integer=False))
    solver.run()
    return np.array(solver.getSolution().col_value)[: len(demand.ways)] if _succeeded(solver) else None


def plane_flows(demand: PlaneDemand, phases: int, near: np.ndarray | None, seconds: float) -> np.ndarray | None:
    """(ways,) integers x, with T = `phases` on links between leaves and aggregation switches, and as real numbers on
    those to cores; None: none was found in time. `near`: a solution in real numbers."""
    if not len(demand.pairs):
        return np.zeros(0, np.int64)
    if near is None:
        return None
    if len(demand.ways) > _MANY_WAYS:
        rounded = _rounded(demand, phases, near)
        if rounded is not None:
            return rounded
    for window in (True, False):
        solver = _solver(seconds)
        solver.passModel(_model(demand, phases, integer=True))
        if window:
            columns = np.arange(len(near), dtype=np.int32)
            low, high = np.floor(near + _EPSILON), np.ceil(near - _EPSILON)
            solver.changeColsBounds(len(near), columns, np.maximum(low, 0), np.maximum(high, 0))
        solver.run()
        if _succeeded(solver):
            return np.rint(np.array(solver.getSolution().col_value)[: len(near)]).astype(np.int64)
    return None


def _rounded(demand: PlaneDemand, phases: int, near: np.ndarray) -> np.ndarray | None:
    """(ways,) integers next to real numbers: down, and what a pair then lacks goes where both of its links have most
    room. None: a pair finds none, or cores do not carry that."""
    fabric = demand.fabric
    found = np.floor(near + _EPSILON).astype(np.int64)
    pair, plane = demand.ways.T
    room = np.where(fabric.alive, phases, 0)
    for end in demand.pairs[pair].T:
        np.subtract.at(room, (end, plane), found)
    first = np.searchsorted(pair, np.arange(len(demand.pairs) + 1))
    lacking = demand.flows - np.bincount(pair, found, len(demand.pairs)).astype(np.int64)
    tight = room.sum(axis=1)[demand.pairs].min(axis=1)  # leaves with least room choose first
    for k in np.lexsort((-lacking, tight)).tolist():
        mine = slice(int(first[k]), int(first[k + 1]))
        (u, v), over = demand.pairs[k], plane[mine]
        for _ in range(int(lacking[k])):
            both = np.minimum(room[u, over], room[v, over])
            best = int(np.argmax(both + (near[mine] - found[mine]) / 2))
            if both[best] <= 0:
                return None
            found[mine.start + best] += 1
            room[u, over[best]] -= 1
            room[v, over[best]] -= 1
    return found if (room >= 0).all() and _cores_carry(demand, phases, found) else None


def _cores_carry(demand: PlaneDemand, phases: int, flows: np.ndarray) -> bool:
    """Whether links to cores carry these flows of planes, as real numbers."""
    solver = _solver()
    solver.setOptionValue("solver", "ipm")
    solver.setOptionValue("run_crossover", "off")
    solver.passModel(_model(demand, phases, integer=False))
    columns = np.arange(len(flows), dtype=np.int32)
    solver.changeColsBounds(len(flows), columns, flows.astype(float), flows.astype(float))
    solver.run()
    return _succeeded(solver)
