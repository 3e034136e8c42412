# SPDX-License-Identifier: Apache-2.0
"""The best placement in a small network without a closed form, by a solver (HiGHS): the least busy busiest link, then,
where flows count and not bytes, the fewest collisions beside it.

Unknowns: how many of the flows of a *class* (same switches at both ends, same size) take each of their paths. A link
with n flows costs 0 + 1 + ... + (n - 1): its load is a sum of n unknowns between 0 and 1 with these costs, which are
filled in order.

A solver calculates with real numbers, and what it takes for infeasible or for worse may be better by its tolerances. So
what it finds is counted again in integers, and what it rules out is believed as far as `_TRUSTED` of the busiest link:
where whole numbers are finer than that, `Solved.least` stays below what was found, and the gap is stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import FloatArray, IndexArray, Int32Array, Int64Array
from detour.control.linear import solver
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork, collisions, loads
from detour.topo.paths import SwitchPath

MAX_UNKNOWNS = 4_000
SOLVER_SECONDS = 2.0
_TRUSTED = 1e-5  # ten times the solver's tolerances


class Solved(NamedTuple):
    """`path_rows`: as in a placement. `least`: the busiest link of every placement carries as much."""

    path_rows: Int32Array
    least: int


@dataclass(frozen=True)
class _Problem:
    """`class_of`: (flows,) of the free flows; `count`, `size`: (classes,); `start`: paths of class k are start[k] to
    start[k + 1]; `users`: the paths that pass a link; `others`: (links,) what other flows put there."""

    class_of: IndexArray
    count: Int64Array
    size: Int64Array
    paths: list[SwitchPath]
    start: list[int]
    users: dict[int, list[int]]
    others: Int64Array

    def class_of_path(self, row: int) -> int:
        return int(np.searchsorted(self.start, row, side="right")) - 1


def every_path(network: PlacementNetwork, a: int, b: int) -> Iterator[SwitchPath]:
    """All simple paths from switch a to b that a flow may take."""
    graph, switches = network.graph, len(network.topology.switches)
    distance = graph.distance[graph.row_of[b]]
    most = max(int(distance[a]), graph.slack)
    stack: list[SwitchPath] = [(a,)]
    while stack:
        path = stack.pop()
        x = path[-1] % switches
        if x == b:
            yield path
            continue
        left = most - len(path) + 1 if graph.slack else distance[x]
        near = (graph.neighbour[x] >= 0) & (distance[graph.neighbour[x]] + graph.weight[x] <= left)
        passed = {stop % switches for stop in path}
        onward = zip(graph.neighbour[x][near].tolist(), graph.stop[graph.number[x][near]].tolist(), strict=True)
        stack += [(*path, stop) for y, stop in onward if y not in passed]


def solve(
    network: PlacementNetwork, flows: FlowSet, path_rows: Int32Array, free: NDArray[np.integer[Any]], bound: int
) -> Solved | None:
    """A better placement of the flows `free` than that of `path_rows`, or a better bound than `bound`, the known one on
    the busiest link; None if the network is too great or the solver takes too long."""
    problem = _problem(network, flows, path_rows, free)
    if problem is None:
        return None
    carried = loads(network, path_rows, flows.size).astype(np.int64)
    busiest, least = int(carried.max(initial=0)), bound
    values = None
    if busiest > bound:
        values, least = _least_busy(problem, bound, busiest)
        if values is not None:
            busiest = _busiest(problem, values)
    if flows.bytes is None:
        worst = collisions(carried if values is None else _load(problem, values))
        spread = _fewest_collisions(problem, busiest, worst)
        values = values if spread is None or _busiest(problem, spread) > busiest else spread
    if values is None:
        return Solved(path_rows, least) if least > bound else None
    new = path_rows.copy()
    new[free] = -1
    order = np.argsort(problem.class_of, kind="stable")
    chosen = np.empty(len(problem.class_of), np.int32)
    chosen[order] = np.repeat(np.arange(len(values)), values)
    for flow, row in zip(free.tolist(), chosen.tolist(), strict=True):
        new[flow, : len(problem.paths[row])] = problem.paths[row]
    return Solved(new, least)


def _problem(
    network: PlacementNetwork, flows: FlowSet, path_rows: Int32Array, free: NDArray[np.integer[Any]]
) -> _Problem | None:
    ends = network.edge_of[flows.source[free]], network.edge_of[flows.target[free]], flows.size[free]
    classes, class_of, count = np.unique(np.stack(ends, axis=1), axis=0, return_inverse=True, return_counts=True)
    paths: list[SwitchPath] = []
    start = [0]
    users: dict[int, list[int]] = {}
    for a, b in classes[:, :2].tolist():
        for path in every_path(network, a, b):
            for link in network.links_of(path):
                users.setdefault(link, []).append(len(paths))
            paths.append(path)
            if len(paths) > MAX_UNKNOWNS:
                return None
        start.append(len(paths))
    rest = path_rows.copy()
    rest[free] = -1
    others = loads(network, rest, flows.size).astype(np.int64)
    return _Problem(class_of.reshape(-1), count, classes[:, 2].astype(np.int64), paths, start, users, others)


def _model(problem: _Problem) -> Any:
    """A solver with the numbers of flows on each path, and every flow on one."""
    import highspy

    model = solver(time_limit=SOLVER_SECONDS)
    for number, flows in enumerate(problem.count.tolist()):
        first, end = problem.start[number : number + 2]
        for row in range(first, end):
            model.addVar(0, float(flows))
            model.changeColIntegrality(row, highspy.HighsVarType.kInteger)
        model.addRow(flows, flows, end - first, np.arange(first, end), np.ones(end - first))
    return model


def _values(model: Any, problem: _Problem) -> tuple[Int64Array | None, float]:
    """(flows on each path, None: there is no solution; what the solver says that the cost is at least: infinite, if
    there is none, and -inf, if it does not know)."""
    import highspy

    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None, np.inf
    if status != highspy.HighsModelStatus.kOptimal:
        return None, -np.inf
    values = np.rint(np.array(model.getSolution().col_value[: len(problem.paths)])).astype(np.int64)
    if (np.add.reduceat(values, problem.start[:-1]) != problem.count).any():
        return None, -np.inf
    return values, model.getInfo().mip_dual_bound


def _sizes(problem: _Problem, rows: list[int]) -> FloatArray:
    return np.array([problem.size[problem.class_of_path(row)] for row in rows], np.float64)


def _least_busy(problem: _Problem, bound: int, busiest: int) -> tuple[Int64Array | None, int]:
    """A placement whose busiest link carries less than `busiest`, the least there is (None: none was found), and what
    that of every placement carries at least."""
    step = int(np.gcd.reduce(np.append(problem.size, problem.others)))  # all loads are multiples of it
    most = busiest - step / 2
    model = _model(problem)
    # In shares of `busiest`, so that bytes do not lose themselves in the solver's tolerances.
    model.addVar(bound / busiest, most / busiest)
    model.changeColCost(len(problem.paths), 1.0)
    fixed = problem.others.copy()
    for link, rows in problem.users.items():
        index = np.array([*rows, len(problem.paths)])
        entries = np.append(_sizes(problem, rows) / busiest, -1.0)
        model.addRow(-np.inf, -float(problem.others[link]) / busiest, len(index), index, entries)
        fixed[link] = 0
    if fixed.max(initial=0) >= busiest:
        return None, busiest
    for gap in ("mip_rel_gap", "mip_abs_gap"):
        model.setOptionValue(gap, 0.0)
    values, share = _values(model, problem)
    if values is not None and _busiest(problem, values) >= busiest:
        values = None
    least = bound
    if share > -np.inf:
        least = max(bound, step * ceil((min(share * busiest, most) - _TRUSTED * busiest) / step))
    return values, least


def _fewest_collisions(problem: _Problem, busiest: int, worst: int) -> Int64Array | None:
    """A placement with the fewest collisions of those that put no more than `busiest` flows on a link; None: not found
    in time. `worst`: collisions of a known placement."""
    steps: dict[int, int] = {}
    for link, rows in problem.users.items():
        begin = int(problem.others[link])
        classes = {problem.class_of_path(row) for row in rows}
        count, cost = 0, 0  # flows that the link can take without more than `worst` collisions in all
        while cost + begin + count <= worst:
            cost += begin + count
            count += 1
        most = min(int(problem.count[list(classes)].sum()), max(1, count), max(0, busiest - begin))
        steps[link] = most
    if len(problem.paths) + sum(steps.values()) > MAX_UNKNOWNS:
        return None
    model = _model(problem)
    at = len(problem.paths)
    for link, most in steps.items():
        for step in range(most):
            model.addVar(0, 1)
            model.changeColCost(at + step, int(problem.others[link]) + step)
        rows = problem.users[link]
        index = np.concatenate([rows, np.arange(at, at + most)])
        signs = np.concatenate([np.ones(len(rows)), -np.ones(most)])
        model.addRow(0, 0, len(index), index, signs)
        at += most
    return _values(model, problem)[0]


def _load(problem: _Problem, values: Int64Array) -> Int64Array:
    load = problem.others.copy()
    for link, rows in problem.users.items():
        load[link] += int((values[rows] * _sizes(problem, rows).astype(np.int64)).sum())
    return load


def _busiest(problem: _Problem, values: Int64Array) -> int:
    return int(_load(problem, values).max(initial=0))
