# SPDX-License-Identifier: Apache-2.0
"""How many flows of each pair of leaves go over each spine: the integer programme that decides the number of phases.

Minimise T over integers x[u, v, c] >= 0 with sum_c x[u, v, c] = n_u * n_v for all u != v, x = 0 on failed links, and no
link with more than T flows for each that it has room for in a phase (1, or what parallel and fast cables allow), in
either direction. T phases are then enough (`phase_assignment.py`, `server_assignment.py`), and fewer never. What u
sends to v may be taken to be what v sends to u: then there is one variable for both, and a solution of the linear
programme loses nothing by it (average x with its transpose).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.linear import programme

_SCALE = 1 << 40
"""Duals become integers of this size: the lower bound is computed without rounding."""
_EPSILON = 1e-6
_WINDOW_SECONDS = 1.0
_WHOLE_SECONDS = 10.0


@dataclass(frozen=True)
class LeafDemand:
    """Flows between leaves and the paths they may take. A path is a pair of leaves u < v and a spine."""

    room: np.ndarray
    """(leaves, spines) int: flows of a phase that there is room for between leaf and spine; 0: no link"""
    pairs: np.ndarray
    """(pairs, 2) int: u < v"""
    flows: np.ndarray
    """(pairs,) int: from u to v, and as many back"""
    path_pair: np.ndarray
    """(paths,) int: index into `pairs`"""
    path_spine: np.ndarray
    """(paths,) int"""

    @classmethod
    def of(cls, fabric: FatTree) -> LeafDemand:
        """All pairs of leaves that a spine joins."""
        alive, sizes = fabric.alive, fabric.sizes()
        u, v = np.triu_indices(fabric.leaves, 1)
        both = alive[u] & alive[v]
        kept = both.any(axis=1) & (sizes[u] * sizes[v] > 0)
        pairs = np.stack([u[kept], v[kept]], axis=1)
        path_pair, path_spine = np.nonzero(both[kept])
        return cls(fabric.room(), pairs, sizes[pairs[:, 0]] * sizes[pairs[:, 1]], path_pair, path_spine)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """(paths,) indices leaf * spines + spine of the two links of each path."""
        spines = self.room.shape[1]
        pair = self.pairs[self.path_pair]
        return pair[:, 0] * spines + self.path_spine, pair[:, 1] * spines + self.path_spine


@dataclass(frozen=True)
class Loads:
    """Integers x, or that there are none."""

    paths: np.ndarray | None
    """(paths, 2) int: flows from u to v and from v to u"""
    infeasible: bool = False
    """the solver says that there is no solution"""


def lower_bound(demand: LeafDemand) -> int:
    """The linear programme's least T, rounded up. Proven by its dual prices in integer arithmetic.

    Any prices y >= 0 of links give a bound: every flow of u, v pays at least min_c (y[u, c] + y[v, c]), and the links
    can take in at most T * sum(y * room).
    """
    if not len(demand.pairs):
        return 0
    model = _Programme(demand, None)
    if model.run("ipm") != "optimal":  # its prices would prove little
        model.run("simplex")
    prices = np.clip(-model.duals()[len(demand.pairs) :], 0.0, 1.0)
    whole = [int(price * _SCALE) for price in prices.tolist()]
    cheapest: list[int] = [2 * _SCALE] * len(demand.pairs)
    ends = (model.link_rows[end].tolist() for end in demand.ends())
    for pair, one, other in zip(demand.path_pair.tolist(), *ends, strict=True):
        cheapest[pair] = min(cheapest[pair], whole[one] + whole[other])
    paid = sum(flows * price for flows, price in zip(demand.flows.tolist(), cheapest, strict=True))
    room = demand.room.ravel()[model.links].tolist()
    total = sum(price * flows for price, flows in zip(whole, room, strict=True))
    return -(-paid // total) if total else 0


def fractional(demand: LeafDemand, most: int) -> np.ndarray | None:
    """(paths,) a solution of the linear programme with T = `most` from the middle of all solutions; None: no solution.

    From the middle, because it leaves `whole` most room: a vertex has integers where they need not be. Where the
    interior point method gives up, the simplex method's vertex is better than nothing.
    """
    if not len(demand.pairs):
        return np.zeros(0)
    model = _Programme(demand, most)
    status = model.run("ipm")
    if status == "unknown":
        status = model.run("simplex")
    return model.values() if status == "optimal" else None


def whole(demand: LeafDemand, most: int, near: np.ndarray | None) -> Loads:
    """Integers with T = `most`: next to a fractional solution, else any, else with x unlike its transpose."""
    if not len(demand.pairs):
        return Loads(np.zeros((0, 2), np.int64))
    if near is not None:
        model = _Programme(demand, most, integer=True)
        model.between(np.floor(near + _EPSILON), np.ceil(near - _EPSILON))
        if model.run(seconds=_WINDOW_SECONDS) == "optimal":
            return Loads(_both_directions(model.integers()))
    model = _Programme(demand, most, integer=True)
    if model.run(seconds=_WHOLE_SECONDS) == "optimal":
        return Loads(_both_directions(model.integers()))
    directed = _Programme(demand, most, integer=True, directed=True)
    status = directed.run(seconds=_WHOLE_SECONDS)
    if status == "optimal":
        return Loads(directed.integers().reshape(2, -1).T)
    return Loads(None, infeasible=status == "infeasible")


def dealt_out(demand: LeafDemand) -> np.ndarray:
    """(paths, 2) int flows without a solver: each pair of leaves fills the spines whose links have least, in turn.

    Never none, and not the fewest phases: for fabrics on which the solver gives up.
    """
    load, room = np.zeros(demand.room.size, np.int64), np.maximum(demand.room.ravel(), 1)
    flows = np.zeros((len(demand.path_pair), 2), np.int64)
    one, other = demand.ends()
    for pair in np.argsort(np.bincount(demand.path_pair, minlength=len(demand.pairs)), kind="stable").tolist():
        paths = np.flatnonzero(demand.path_pair == pair)
        for _ in range(int(demand.flows[pair])):
            ends = one[paths], other[paths]
            path = int(paths[np.argmin(np.maximum(load[ends[0]] / room[ends[0]], load[ends[1]] / room[ends[1]]))])
            flows[path] += 1
            load[[one[path], other[path]]] += 1
    return flows


def most_on_a_link(demand: LeafDemand, flows: np.ndarray) -> int:
    """Flows on the fullest link over its room, rounded up, in the worse direction; `flows`: (paths, 2) int."""
    if not len(flows):
        return 0
    one, other = demand.ends()
    size, room = demand.room.size, np.maximum(demand.room.ravel(), 1)
    up = np.bincount(one, flows[:, 0], size) + np.bincount(other, flows[:, 1], size)
    down = np.bincount(other, flows[:, 0], size) + np.bincount(one, flows[:, 1], size)
    return int(np.ceil(np.maximum(up, down) / room).max())


def _both_directions(values: np.ndarray) -> np.ndarray:
    return np.stack([values, values], axis=1)


class _Programme:
    """The programme in HiGHS: a row for each pair's flows, one for each link's load. T is given or the last column.

    `directed`: variables for both directions, those from u to v first; the rows twice as well.
    """

    def __init__(self, demand: LeafDemand, most: int | None, *, integer: bool = False, directed: bool = False) -> None:
        # Here, so that whoever plans nothing by it does not wait for it. With OR-Tools in the same process it
        # would have to be imported first.
        import highspy

        self.highspy = highspy
        self.demand = demand
        links = self.links = np.unique(np.concatenate(demand.ends()))
        self.link_rows = np.full(demand.room.size, -1)
        self.link_rows[links] = np.arange(len(links))
        self.solver = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
            self.solver.setOptionValue(option, value)
        self.solver.passModel(self._model(len(links), most, integer, directed))

    def _model(self, links: int, most: int | None, integer: bool, directed: bool):
        demand = self.demand
        pairs, paths = len(demand.pairs), len(demand.path_pair)
        one, other = (self.link_rows[end] + pairs for end in demand.ends())
        columns = [demand.path_pair, one, other]
        index = np.stack(columns, axis=1)
        rows, sides = pairs + links, 1
        if directed:
            # Directions are two blocks of rows: loads up and down of a link. A flow from v to u goes up at v.
            forth = np.stack([demand.path_pair, one, other + links], axis=1)
            back = np.stack([demand.path_pair + pairs + 2 * links, other, one + links], axis=1)
            index = np.concatenate([forth, back])
            rows, sides = 2 * pairs + 2 * links, 2
        values = np.ones(index.size)
        starts = np.arange(0, index.size + 1, 3)
        index = index.ravel()
        extra = most is None
        room = demand.room.ravel()[self.links].astype(float)
        if extra:
            index = np.concatenate([index, np.arange(pairs, pairs + links)])
            values = np.concatenate([values, -room])
            starts = np.append(starts, len(index))
        lower, upper = np.full(rows, -np.inf), np.zeros(rows)
        for first in [0, pairs + 2 * links][:sides]:
            lower[first : first + pairs] = upper[first : first + pairs] = demand.flows
        if not extra:
            # Undirected: pairs, links. Directed: pairs, links up, links down; the links' rows are those behind pairs.
            behind = np.r_[pairs : pairs + links] if sides == 1 else np.r_[pairs : pairs + 2 * links]
            upper[behind] = float(most or 0) * np.tile(room, len(behind) // max(links, 1))
        costs = np.append(np.zeros(paths), 1.0) if extra else np.zeros(paths * sides)
        return programme(costs, (lower, upper), (starts, index, values), integer=integer)

    def between(self, lower: np.ndarray, upper: np.ndarray) -> None:
        """Bounds of the columns."""
        self.solver.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), np.maximum(lower, 0), upper)

    def run(self, method: str = "choose", seconds: float = 60.0) -> str:
        """`optimal`, `infeasible` or `unknown`."""
        self.solver.clearSolver()
        self.solver.setOptionValue("solver", method)
        self.solver.setOptionValue("run_crossover", "off" if method == "ipm" else "on")
        self.solver.setOptionValue("time_limit", seconds)
        self.solver.run()
        status = self.solver.getModelStatus()
        known = self.highspy.HighsModelStatus
        return {known.kOptimal: "optimal", known.kInfeasible: "infeasible"}.get(status, "unknown")

    def values(self) -> np.ndarray:
        """The columns' values."""
        return np.array(self.solver.getSolution().col_value)

    def integers(self) -> np.ndarray:
        """The columns' values as integers."""
        return np.rint(self.values()).astype(np.int64)

    def duals(self) -> np.ndarray:
        """The rows' prices."""
        return np.array(self.solver.getSolution().row_dual)
