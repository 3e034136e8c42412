# SPDX-License-Identifier: Apache-2.0
"""Plans with the least number of phases for any failures, any population and any group of servers.

`loads.py` says how many flows of each pair of leaves go over each spine, `phase_assignment.py` when, and
`server_assignment.py` between which servers. The second and third step succeed whenever the first one does, so the
integer programme alone decides.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.fors.loads import LeafDemand, dealt_out, fractional, least_phases, most_on_a_link, whole
from detour.control.fors.paths import INSIDE
from detour.control.fors.phase_assignment import phases_of
from detour.control.fors.plan import ForsPlan, PlanSeconds, Schedule, arranged
from detour.control.fors.server_assignment import assign_servers

_MORE = 3  # numbers of phases beyond the bound that the solver is asked for; it has never needed one.


class _SpinePaths(NamedTuple):
    """Which flows of which leaves go over which spine: rows sorted by source and target leaf."""

    phases: int
    source: np.ndarray  # (flows,) leaves
    target: np.ndarray  # (flows,) leaves
    spine: np.ndarray  # (flows,), `INSIDE` for a leaf's own flows
    lower_bound: int  # phases that every plan needs, proven


def exact_plan(fabric: FatTree, lost: tuple[tuple[int, int], ...]) -> ForsPlan:
    """The plan with the fewest phases on two levels. `lost`: pairs of leaves that nothing joins, which are left out."""
    begin = time.perf_counter()
    paths = _fewest_phases(fabric)
    routed = time.perf_counter()
    flows, spine, cables = _with_servers(fabric, paths)
    seconds = PlanSeconds(schedule=time.perf_counter() - routed, route=routed - begin)
    return replace(
        arranged(fabric, flows, spine, cables),
        method="exact/integer-programme",
        lower_bound=paths.lower_bound,
        optimal=paths.phases == paths.lower_bound,
        unreachable=lost,
        seconds=seconds,
    )


def _fewest_phases(fabric: FatTree) -> _SpinePaths:
    """Spines that allow as few phases as there can be, on two levels. Pairs that nothing joins are left out.

    The solver gets about twenty seconds for each number of phases; where it finds nothing for the first, the result has
    more phases than its `lower_bound`, for that a solver rules something out is no proof. Where it finds nothing at
    all, flows are dealt out without it."""
    demand = LeafDemand(fabric)
    bound, near = least_phases(demand)
    for phases in range(bound, bound + _MORE):
        flows = whole(demand, phases, near)
        if flows is not None:
            return _SpinePaths(phases, *flow_rows(demand, demand.paths, flows), bound)
        near = fractional(demand, phases + 1)
    flows = dealt_out(demand)
    return _SpinePaths(max(bound, most_on_a_link(demand, flows)), *flow_rows(demand, demand.paths, flows), bound)


def flow_rows(demand: LeafDemand, paths: np.ndarray, flows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(flows,) int32 source leaf, target leaf and spine, sorted, those inside leaves included.

    `paths`: (paths, 2) pair and spine; `flows`: (paths, 2) over each, and back."""
    pair, spine = paths.T
    u, v = demand.pairs[pair].T
    leaves, sizes = np.arange(demand.fabric.all_leaves), demand.fabric.sizes()
    times = np.concatenate([flows[:, 0], flows[:, 1], sizes * np.maximum(sizes - 1, 0)])
    columns = (
        np.concatenate([u, v, leaves]),
        np.concatenate([v, u, leaves]),
        np.concatenate([spine, spine, np.full(len(leaves), INSIDE)]),
    )
    order = np.lexsort(columns[::-1])
    source, target, spine = (np.repeat(column[order], times[order]).astype(np.int32) for column in columns)
    return source, target, spine


def _with_servers(fabric: FatTree, paths: _SpinePaths) -> tuple[Schedule, np.ndarray, np.ndarray | None]:
    """The schedule of paths, its spines (flows,) int32 and its cables as in `ForsPlan`."""
    sizes, servers = fabric.sizes().astype(np.int32), fabric.server_numbers()
    lanes = None if fabric.single else np.stack([dealt_lanes(fabric, leaf, paths.spine) for leaf in paths[1:3]])
    ports, count = (paths.spine, fabric.spines) if lanes is None else (lanes, fabric.uplinks * fabric.lanes)
    phase = phases_of(paths.phases, paths.source, paths.target, ports, sizes * fabric.at_once, count)
    turn = _turns(fabric, paths, phase, sizes)
    first, second = assign_servers(paths.phases * fabric.at_once, paths.source, paths.target, turn, sizes)
    src, dst = servers[paths.source, first], servers[paths.target, second]
    cables = None
    if lanes is not None and fabric.cables > 1:
        cables = np.where(lanes == INSIDE, 0, lanes // fabric.lanes % fabric.cables)
    return Schedule(paths.phases, phase, src, dst), paths.spine, cables


def dealt_lanes(fabric: FatTree, leaf: np.ndarray, spine: np.ndarray) -> np.ndarray:
    """(flows,) int32: (spine * cables + cable) * lanes + lane of flows between `leaf` and `spine` (`INSIDE` stays).

    Flows of a link take the lanes of its working cables in turn. So no lane has more than T of a link's T * room."""
    lanes = np.full(len(spine), INSIDE, np.int32)
    away = np.flatnonzero(spine != INSIDE)
    link = leaf[away].astype(np.int64) * fabric.spines + spine[away]
    order = np.argsort(link, kind="stable")
    away, link = away[order], link[order]
    rank = np.arange(len(link)) - np.searchsorted(link, link)
    lane = rank % fabric.room().ravel()[link]
    # Working cables first, in order.
    working = np.argsort(~fabric.working.reshape(-1, fabric.cables), axis=1, kind="stable")
    cable = working[link, lane // fabric.lanes]
    lanes[away] = (spine[away] * fabric.cables + cable) * fabric.lanes + lane % fabric.lanes
    return lanes


def _turns(fabric: FatTree, paths: _SpinePaths, phase: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Phases, each divided into `at_once` parts in which a leaf has one flow of a server at most: so servers can be
    found for them as for phases. Parts go on at the same time."""
    if fabric.at_once == 1:
        return phase
    part = np.empty(len(phase), np.int32)
    order = np.argsort(phase, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(phase[order])) + 1):
        inside = np.full(len(rows), INSIDE, np.int32)
        part[rows] = phases_of(fabric.at_once, paths.source[rows], paths.target[rows], inside, sizes, 1)
    return phase * fabric.at_once + part
