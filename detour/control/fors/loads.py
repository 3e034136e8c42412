# SPDX-License-Identifier: Apache-2.0
"""Flows of each pair of leaves over each spine: the integer program that decides the number of phases.

Minimise T over integers x[u, v, c] >= 0 with sum_c x[u, v, c] = n_u * n_v for all u != v, x = 0 on failed links, and no
link with more than T flows for each that it has room for in a phase (1, or what parallel and fast cables allow), in
either direction. T phases are then enough (`phase_assignment.py`, X fewer never. What u
sends to v may be taken to be what v sends to u: then there is one variable for both, and a solution of the linear
programme loses nothing by it (average x with its transpose).

On three levels c is a plane, and flows between pods P and Q cross it over real numbers z[P, Q, c, i] of its cores i, as
many in sum as x between the pods' leaves. T phases are needed there too; whether they are enough decides `solve`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.linear import programme, solver

_SCALE = 1 << 40  # Duals become integers of this size: the lower bound is computed without rounding.
_EPSILON = 1e-6
_WINDOW_SECONDS = 1.0
_WHOLE_SECONDS = 10.0
_TIERED_SECONDS = 60.0
_MANY_PATHS = 10_000
"""paths of all pairs beyond which real numbers are rounded one by one first; the integer programme may take minutes"""


@dataclass(frozen=True)
class LeafDemand:
    """Flows between leaves and the paths they may take: pairs of leaves with spines, pairs of pods with cores."""

    fabric: FatTree

    @cached_property
    def pairs(self) -> np.ndarray:
        """(pairs, 2) leaves u < v that a path joins, with servers that take part."""
        u, v = np.triu_indices(self.fabric.all_leaves, 1)
        here = self.fabric.sizes() > 0
        kept = self.fabric.planes[u, v].any(axis=1) & here[u] & here[v]
        return np.stack([u[kept], v[kept]], axis=1)

    @cached_property
    def flows(self) -> np.ndarray:
        """(pairs,) int: from u to v, and as many back."""
        sizes = self.fabric.sizes()
        return sizes[self.pairs[:, 0]] * sizes[self.pairs[:, 1]]

    @cached_property
    def paths(self) -> np.ndarray:
        """(paths, 2) pair and spine."""
        return np.argwhere(self.fabric.planes[self.pairs[:, 0], self.pairs[:, 1]])

    @cached_property
    def crossings(self) -> np.ndarray:
        """(crossings, 4) pod, another with a higher number, plane, core that both reach."""
        high = self.fabric.high
        crossings = np.argwhere(high[:, None] & high[None, :])
        return crossings[crossings[:, 0] < crossings[:, 1]]

    @cached_property
    def room(self) -> np.ndarray:
        """(links,) int: flows of a phase; those between leaves and spines come first. 0: it failed."""
        return np.concatenate([self.fabric.room().ravel(), self.fabric.high.ravel().astype(np.int64)])

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """(paths,) numbers leaf * spines + spine of the two lower links of each path."""
        pair, spine = self.paths.T
        u, v = self.pairs[pair].T * self.fabric.spines + spine
        return u, v


class _Programme:
    """The programme in HiGHS: a row for each pair's flows, for what two pods exchange over a plane, and for each link's
    load. Columns are paths, then crossings. T is given or the last column.

    `directed`, on two levels: columns for both directions, those from u to v first; the rows twice as well."""

    def __init__(self, demand: LeafDemand, most: int | None, *, integer: bool = False, directed: bool = False) -> None:
        self.demand, self.solver = demand, solver(random_seed=1)
        entries, rows, self.count = self._directed() if directed else self._entries()
        self.solver.passModel(self._model(entries, rows, most, self.count if integer else 0))

    def _entries(self) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], int]:
        """(columns, 4) rows in which columns are, -1 for none; bounds of rows, links' rows in flows of a phase; paths.
        Rows: pairs, sums of two pods over a plane, links."""
        demand, fabric = self.demand, self.demand.fabric
        count, pods, spines = len(demand.pairs), fabric.pods, fabric.spines
        sums = pods * pods * spines if fabric.cores else 0
        low = count + sums
        pair, spine = demand.paths.T
        pod = fabric.pod_of[demand.pairs[pair]]
        between = np.where(pod[:, 0] == pod[:, 1], -1, count + (pod[:, 0] * pods + pod[:, 1]) * spines + spine)
        p, q, j, i = demand.crossings.T
        high = (low + fabric.alive.size + (one * spines + j) * fabric.cores + i for one in (p, q))
        entries = np.full((len(pair) + len(p), 4), -1)
        entries[: len(pair)] = np.stack([pair, between, *(low + end for end in demand.ends())], axis=1)
        entries[len(pair) :, :3] = np.stack([count + (p * pods + q) * spines + j, *high], axis=1)
        lower = np.concatenate([demand.flows, np.zeros(sums), np.full(len(demand.room), -np.inf)])
        upper = np.concatenate([demand.flows, np.zeros(sums), demand.room])
        return entries, (lower, upper), len(pair)

    def _directed(self) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], int]:
        """The same twice: pairs, links up, links down, pairs the other way. A flow from v to u goes up at v."""
        demand, pair = self.demand, self.demand.paths[:, 0]
        count, links = len(demand.pairs), len(demand.room)
        one, other = (count + end for end in demand.ends())
        forth = np.stack([pair, one, other + links], axis=1)
        back = np.stack([pair + count + 2 * links, other, one + links], axis=1)
        lower = np.concatenate([demand.flows, np.full(2 * links, -np.inf), demand.flows])
        upper = np.concatenate([demand.flows, demand.room, demand.room, demand.flows])
        return np.concatenate([forth, back]), (lower, upper), 2 * len(pair)

    def _model(self, entries: np.ndarray, rows: tuple[np.ndarray, np.ndarray], most: int | None, integers: int):
        demand = self.demand
        value = np.ones(entries.shape)
        if demand.fabric.cores:
            value[self.count :, 0] = -1.0  # what cores carry is what comes from leaves
        there = entries >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        index, value = entries[there], value[there]
        lower, upper = (bound.astype(float) for bound in rows)
        links = np.flatnonzero(np.isinf(lower))
        costs = np.zeros(len(entries))
        if most is None:
            room = upper[links]
            index = np.concatenate([index, links[room > 0]])
            value = np.concatenate([value, -room[room > 0]])
            starts, costs = np.append(starts, len(index)), np.append(costs, 1.0)
        upper[links] *= float(most or 0)
        return programme(costs, (lower, upper), (starts, index, value), integers=integers)

    def between(self, lower: np.ndarray, upper: np.ndarray) -> None:
        """Bounds of the first columns."""
        columns = np.arange(len(lower), dtype=np.int32)
        self.solver.changeColsBounds(len(lower), columns, np.maximum(lower, 0), np.maximum(upper, 0))

    def run(self, method: str = "choose", *, seconds: float = 60.0, crossover: bool = True) -> str:
        """`optimal`, `infeasible` or `unknown`."""
        self.solver.clearSolver()
        self.solver.setOptionValue("solver", method)
        self.solver.setOptionValue("run_crossover", "on" if crossover else "off")
        self.solver.setOptionValue("time_limit", seconds)
        self.solver.run()
        status = self.solver.modelStatusToString(self.solver.getModelStatus())
        return {"Optimal": "optimal", "Infeasible": "infeasible"}.get(status, "unknown")

    def values(self) -> np.ndarray:
        """The columns' values."""
        return np.array(self.solver.getSolution().col_value)

    def integers(self) -> np.ndarray:
        """Return the values of the paths as integers."""
        return np.rint(self.values()[: self.count]).astype(np.int64)

    def prices(self) -> np.ndarray:
        """(links,) dual prices of links, as integers."""
        duals = np.array(self.solver.getSolution().row_dual)[-len(self.demand.room) :]
        return (np.clip(-duals, 0.0, 1.0) * _SCALE).astype(np.int64)


def joined_servers(fabric: FatTree) -> np.ndarray:
    """(leaves,) how many servers those of a leaf can send to, themselves included."""
    return _joined(fabric) @ fabric.sizes()


def _joined(fabric: FatTree) -> np.ndarray:
    return fabric.planes.any(axis=2) | np.eye(fabric.all_leaves, dtype=bool)


def most_joined(fabric: FatTree) -> int:
    """Servers that one can send to, itself included, at most: P on a full fabric."""
    return int(joined_servers(fabric)[fabric.sizes() > 0].max(initial=1))


def counting_bound(fabric: FatTree) -> int:
    """Phases that any plan needs, by counting: a server's messages to others, a leaf's and a pod's flows over their
    links."""
    sizes = fabric.sizes()
    other_pod = fabric.pod_of[:, None] != fabric.pod_of[None, :]
    leaf = sizes * (joined_servers(fabric) - sizes)
    pod = np.bincount(fabric.pod_of, sizes * ((_joined(fabric) & other_pod) @ sizes), fabric.pods).astype(np.int64)
    most = [-(-(most_joined(fabric) - 1) // fabric.at_once)]
    for flows, links in ((leaf, fabric.room().sum(axis=1)), (pod, fabric.high.sum(axis=(1, 2)))):
        most.append(int((-(-flows // np.maximum(links, 1))).max(initial=0)))
    return max(most)


def _least(demand: LeafDemand) -> _Programme:
    """The linear programme for the least T, solved."""
    model = _Programme(demand, None)
    # A vertex is needed on three levels only, where the flow itself is used.
    if model.run("ipm", crossover=demand.fabric.cores > 0) != "optimal":  # its prices would prove little
        model.run("simplex")
    return model


def concurrent_flow(demand: LeafDemand) -> tuple[np.ndarray, np.ndarray]:
    """(paths,) flows of pairs over spines and (crossings,) of pods over cores, real numbers with the least T."""
    value = np.maximum(_least(demand).values()[:-1], 0.0)
    return value[: len(demand.paths)], value[len(demand.paths) :]


def fluid_bound(demand: LeafDemand) -> Fraction:
    """The linear programme's least T, proven by its dual prices in integer arithmetic. Any prices of links give a
    bound: a flow pays at least what the cheapest of its paths costs, and all links together take in at most T times the
    sum of price and room."""
    if not len(demand.pairs):
        return Fraction(0)
    fabric = demand.fabric
    price = np.where(demand.room > 0, _least(demand).prices(), 0)
    high = price[fabric.alive.size :].reshape(fabric.high.shape)
    over = np.zeros((fabric.pods, fabric.pods, fabric.spines), np.int64)
    for p, q in np.ndindex(fabric.pods, fabric.pods):
        if p != q:
            both = fabric.high[p] & fabric.high[q]
            over[p, q] = np.where(both, high[p] + high[q], 4 * _SCALE).min(axis=1)
    pair, spine = demand.paths.T
    one, other = demand.ends()
    pods = fabric.pod_of[demand.pairs[pair]]
    cheapest = np.full(len(demand.pairs), 8 * _SCALE)
    np.minimum.at(cheapest, pair, price[one] + price[other] + over[pods[:, 0], pods[:, 1], spine])
    paid = sum(cost * flows for cost, flows in zip(cheapest.tolist(), demand.flows.tolist(), strict=True))
    total = sum(cost * flows for cost, flows in zip(price.tolist(), demand.room.tolist(), strict=True))
    return Fraction(paid, total) if total else Fraction(0)


def least_phases(demand: LeafDemand) -> tuple[int, np.ndarray | None]:
    """The proven bound, and real numbers x (paths,) that meet it on links (None: the solver found none). Flows that
    meet what counting says prove that links do not need more; the programme for the least T is solved only where there
    are none."""
    bound = counting_bound(demand.fabric)
    near = fractional(demand, bound)
    if near is not None:
        return bound, near
    links = ceil(fluid_bound(demand))
    return (links, fractional(demand, links)) if links > bound else (bound, None)


def fractional(demand: LeafDemand, most: int) -> np.ndarray | None:
    """(paths,) a solution of the linear programme with T = `most` from the middle of all solutions; None: no solution.
    From the middle, because it leaves `whole` most room: a vertex has integers where they need not be. Where the
    interior point method gives up, the simplex method's vertex is better than nothing."""
    if not len(demand.pairs):
        return np.zeros(0)
    model = _Programme(demand, most)
    status = model.run("ipm", crossover=False)
    if status == "unknown":
        status = model.run("simplex")
    return model.values()[: len(demand.paths)] if status == "optimal" else None


def whole(demand: LeafDemand, most: int, near: np.ndarray | None) -> np.ndarray | None:
    """(paths, 2) integers with T = `most`, flows from u to v and back: next to a fractional solution, else any, else
    with x unlike its transpose. None: none was found. On three levels cores carry them as real numbers."""
    fabric = demand.fabric
    if not len(demand.pairs):
        return np.zeros((0, 2), np.int64)
    if fabric.cores and near is None:
        return None
    if fabric.cores and near is not None and len(demand.paths) > _MANY_PATHS:
        rounded = _rounded(demand, most, near)
        if rounded is not None:
            return _both_directions(rounded)
    model = _Programme(demand, most, integer=True)
    if near is not None:
        model.between(np.floor(near + _EPSILON), np.ceil(near - _EPSILON))
        if model.run(seconds=_TIERED_SECONDS if fabric.cores else _WINDOW_SECONDS) == "optimal":
            return _both_directions(model.integers())
        model = _Programme(demand, most, integer=True)
    if model.run(seconds=_TIERED_SECONDS if fabric.cores else _WHOLE_SECONDS) == "optimal":
        return _both_directions(model.integers())
    directed = _Programme(demand, most, integer=True, directed=True) if not fabric.cores else None
    if directed is None or directed.run(seconds=_WHOLE_SECONDS) != "optimal":
        return None
    return directed.integers().reshape(2, -1).T


def _both_directions(values: np.ndarray) -> np.ndarray:
    return np.stack([values, values], axis=1)


def _rounded(demand: LeafDemand, phases: int, near: np.ndarray) -> np.ndarray | None:
    """(paths,) integers next to real numbers: down, and what a pair then lacks goes where both of its links have most
    room. None: a pair finds none, or cores do not carry that."""
    flows = np.floor(near + _EPSILON).astype(np.int64)
    pair, plane = demand.paths.T
    room = demand.fabric.room() * phases
    for end in demand.pairs[pair].T:
        np.subtract.at(room, (end, plane), flows)
    first = np.searchsorted(pair, np.arange(len(demand.pairs) + 1))
    lacking = demand.flows - np.bincount(pair, flows, len(demand.pairs)).astype(np.int64)
    tight = room.sum(axis=1)[demand.pairs].min(axis=1)  # leaves with least room choose first
    for k in np.lexsort((-lacking, tight)).tolist():
        mine = slice(int(first[k]), int(first[k + 1]))
        (u, v), over = demand.pairs[k], plane[mine]
        for _ in range(int(lacking[k])):
            both = np.minimum(room[u, over], room[v, over])
            best = int(np.argmax(both + (near[mine] - flows[mine]) / 2))
            if both[best] <= 0:
                return None
            flows[mine.start + best] += 1
            room[u, over[best]] -= 1
            room[v, over[best]] -= 1
    if (room < 0).any():
        return None
    model = _Programme(demand, phases)  # cores carry them, as real numbers?
    model.between(flows.astype(float), flows.astype(float))
    return flows if model.run("ipm", crossover=False) == "optimal" else None


def dealt_out(demand: LeafDemand) -> np.ndarray:
    """(paths, 2) int flows without a solver: each pair of leaves fills the spines whose links have least, in turn.
    Never none, and not the fewest phases: for fabrics of two levels on which the solver gives up."""
    load, room = np.zeros(len(demand.room), np.int64), np.maximum(demand.room, 1)
    flows = np.zeros((len(demand.paths), 2), np.int64)
    one, other = demand.ends()
    of_pair = demand.paths[:, 0]
    for pair in np.argsort(np.bincount(of_pair, minlength=len(demand.pairs)), kind="stable").tolist():
        paths = np.flatnonzero(of_pair == pair)
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
    size, room = len(demand.room), np.maximum(demand.room, 1)
    up = np.bincount(one, flows[:, 0], size) + np.bincount(other, flows[:, 1], size)
    down = np.bincount(other, flows[:, 0], size) + np.bincount(one, flows[:, 1], size)
    return int(np.ceil(np.maximum(up, down) / room).max())
