# SPDX-License-Identifier: Apache-2.0
"""From a fabric to a plan: the fastest way that meets the lower bound, the exact one where none does.

The exact way, for any failures, population and group of servers: `loads` says how many flows of each pair of leaves go
over each spine (plane), `phase_assignment` when, `assign_servers` between which servers. Second and third step succeed
whenever the first one does, so the integer programme alone decides.

On three levels flows of a phase and plane between pods are a bipartite multigraph, and cores are its colours. Where no
link to a core of the plane failed, and no pod has more flows than the plane has cores, Koenig's theorem gives them;
else recolouring, to all or to some, and the others give up plane and phase and drive others out (`ejection`). Only that
may need more phases than the bound."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from detour.base.errors import DetourError
from detour.control.edge_colouring import coloured
from detour.control.fors.ejection import Board, Flows3, place
from detour.control.fors.fabric import FatTree, unreachable_text
from detour.control.fors.loads import (
    LeafDemand,
    counting_bound,
    dealt_out,
    fractional,
    least_phases,
    most_joined,
    most_on_a_link,
    whole,
)
from detour.control.fors.paper import algorithm_2, phases_needed, recoloured, schedule
from detour.control.fors.paths import INSIDE, by_phase
from detour.control.fors.phase_assignment import phases_of
from detour.control.fors.plan import ForsPlan, PlanSeconds, Schedule, arranged
from detour.control.fors.recolour import complete


def paper_phases(fabric: FatTree, phases: int) -> int:
    """`phases` as the paper counts them: a server's own part is a message too and takes a phase, P at least."""
    return max(phases, -(-most_joined(fabric) // fabric.at_once))


def proven_bound(fabric: FatTree) -> int:
    """Phases that any plan needs, by counting and by the linear programme."""
    return least_phases(LeafDemand(fabric))[0]


def solve(fabric: FatTree, *, skip_unreachable: bool = False) -> ForsPlan:
    """The plan with the fewest phases, and whether that is proven.

    The chain: the schedule in closed form or by Algorithm 1 (if its phases meet the lower bound) with spines by
    Algorithm 2, where it applies, or by recolouring; where that finds none, and for fabrics that are not full, the
    integer programme with Koenig's colourings. Every fabric gets a plan; where the programme's solver runs out of time
    it may have more phases than its `lower_bound`. `skip_unreachable`: pairs of leaves that nothing joins are left
    out and named in the plan. Raises `DetourError`: no path joins two leaves any more and
    `skip_unreachable` is not set; there are no servers."""
    lost = tuple(fabric.unreachable())
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, lost))
    if not fabric.servers:
        raise DetourError(f"{fabric.name} has no servers")
    if fabric.cores:
        return _tiered_plan(fabric, lost)
    bound = counting_bound(fabric)
    as_printed = fabric.full and fabric.single and fabric.hosts == fabric.spines
    plan = _by_closed_forms(fabric, bound) if as_printed and not lost else None
    return plan or exact_plan(fabric, lost)


def _by_closed_forms(fabric: FatTree, bound: int) -> ForsPlan | None:
    """Algorithm 1 or a closed form, if their phases are the bound and spines are found."""
    reduction = fabric.reduction
    if reduction == fabric.spines or phases_needed(fabric.spines, fabric.leaves, reduction) != bound:
        return None
    begin = time.perf_counter()
    flows = schedule(fabric.spines, fabric.leaves, reduction)
    if flows is None:
        return None
    scheduled = time.perf_counter()
    name, routing = "closed-form" if reduction <= fabric.spines // fabric.leaves else "algorithm-1", "algorithm-2"
    spine = algorithm_2(fabric, flows)
    if spine is None:
        routing = "recolouring"
        spine = recoloured(fabric, flows)
    if spine is None:
        return None
    seconds = PlanSeconds(schedule=scheduled - begin, route=time.perf_counter() - scheduled)
    plan = arranged(fabric, flows, spine)
    return replace(plan, method=f"{name}/{routing}", lower_bound=bound, optimal=True, seconds=seconds)


_MORE = 3  # numbers of phases beyond the bound that the solver is asked for; it has never needed one.


class _SpinePaths(NamedTuple):
    """The spines over which flows of leaves go: rows sorted by source and target leaf."""

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
    plan = arranged(fabric, flows, spine, cables)
    return _finished(plan, "exact/integer-programme", paths.lower_bound, lost, begin, routed)


def _finished(
    plan: ForsPlan, method: str, bound: int, lost: tuple[tuple[int, int], ...], begin: float, routed: float
) -> ForsPlan:
    seconds = PlanSeconds(schedule=time.perf_counter() - routed, route=routed - begin)
    optimal = plan.phases == bound
    return replace(plan, method=method, lower_bound=bound, optimal=optimal, unreachable=lost, seconds=seconds)


def _fewest_phases(fabric: FatTree) -> _SpinePaths:
    """Spines that allow as few phases as there can be, on two levels. Pairs that nothing joins are left out. The solver
    gets about twenty seconds for each number of phases; where it finds nothing for the first, the result has more
    phases than its `lower_bound`, for that a solver rules something out is not a proof. Where it finds nothing at all,
    flows are dealt out without it."""
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
    """(flows,) int32 source leaf, target leaf and spine, sorted, those inside leaves included. `paths`: (paths, 2) pair
    and spine; `flows`: (paths, 2) over each, and back."""
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
    for rows in by_phase(phase):
        inside = np.full(len(rows), INSIDE, np.int32)
        part[rows] = phases_of(fabric.at_once, paths.source[rows], paths.target[rows], inside, sizes, 1)
    return phase * fabric.at_once + part


def assign_servers(
    phases: int, source: np.ndarray, target: np.ndarray, phase: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each flow's server at its source leaf and at its target leaf, int32, 0..population-1, by two edge colourings.

    Flows come sorted by (source, target), n_u * n_v for each pair of leaves that has any and n_u * (n_u - 1) inside
    a leaf; `phase` in 0..phases-1. Nobody sends to itself: a server's own part is an edge as well, but takes no phase;
    those of all servers are put into one more, `phases`, in which so every sender of u meets another receiver of u.
    Receivers are renamed to make that one itself."""
    leaves = len(population)
    population = np.asarray(population, np.int32)
    flows = len(source)
    own = np.repeat(np.arange(leaves, dtype=np.int32), population)
    source, target = np.concatenate([source, own]), np.concatenate([target, own])
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    phase = np.concatenate([phase, np.full(len(own), phases)])[order]
    first, second = _pairs(phases + 1, source, target, phase, population)
    most = int(population.max(initial=1))
    name = np.empty(leaves * most, np.int32)
    alone = phase == phases
    name[target[alone] * most + second[alone]] = first[alone]
    place = np.argsort(order)[:flows]
    return first[place], name[target * most + second][place]


def _pairs(
    phases: int, source: np.ndarray, target: np.ndarray, phase: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The two colourings: n_u * n_v flows for each pair of leaves that has any, u = v included. Sources: the flows from
    u to v are cut into groups of n_u (any way). Groups against phases is a bipartite multigraph of degree n_u at most;
    a proper colouring with n_u colours, the servers of u, gives each of them one flow of every group, so n_v flows to
    v, and at most one a phase. Destinations: sources against phases, with the flows to v as edges. Each source has n_v
    of them and no phase has more, so n_v colours, the servers of v, give every pair once."""
    leaves = len(population)
    pair = source.astype(np.int64) * leaves + target
    rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
    most = int(population.max(initial=1))
    group = pair * most + rank // np.maximum(population[source], 1)
    first = coloured(group, source.astype(np.int64) * phases + phase, most, population[source], last=True)
    sender = (source.astype(np.int64) * most + first) * leaves + target
    order = np.argsort(target, kind="stable")
    keys = sender[order], (target.astype(np.int64) * phases + phase)[order]
    second = np.empty_like(first)
    second[order] = coloured(*keys, most, population[target][order], last=True)
    return first, second


_BUDGET = 200  # flows of a phase and plane that may drive others from their cores
_SEED = 1
_WORK = 400_000_000  # places that are looked at for one number of phases


def _tiered_plan(fabric: FatTree, lost: tuple[tuple[int, int], ...]) -> ForsPlan:
    """A plan with as few phases as are found; `optimal` says whether that is proven to be the least. `lost`: pairs of
    leaves without a path, which are left out."""
    begin = time.perf_counter()
    demand = LeafDemand(fabric)
    bound, near = least_phases(demand)
    flows, method = _flows(demand, bound, near)
    board = Board.empty(fabric, bound)
    _settle(fabric, board, flows)
    if (flows.phase < 0).any():
        method += "/ejection"
    phases = _complete(fabric, board, flows, bound)
    routed = time.perf_counter()
    first, second = assign_servers(phases, flows.source, flows.target, flows.phase, fabric.sizes())
    numbers = fabric.server_numbers()
    schedule = Schedule(phases, flows.phase, numbers[flows.source, first], numbers[flows.target, second])
    return _finished(arranged(fabric, schedule, flows.plane, core=flows.core), method, bound, lost, begin, routed)


def _flows(demand: LeafDemand, phases: int, near: np.ndarray | None) -> tuple[Flows3, str]:
    """Rows sorted by source and target leaf, with plane and phase if the solver found any."""
    chosen = whole(demand, phases, near)
    if chosen is None:
        pairs = np.arange(len(demand.pairs))
        no_planes = np.stack([pairs, np.full_like(pairs, -1)], axis=1)
        rows, method = flow_rows(demand, no_planes, np.stack([demand.flows] * 2, axis=1)), "greedy"
        phase = np.full(len(rows[0]), -1, np.int32)
    else:
        rows, method = flow_rows(demand, demand.paths, chosen), "integer-programme/colouring"
        phase = phases_of(phases, *rows, demand.fabric.sizes(), demand.fabric.spines)
    source, target, plane = rows
    return Flows3(source, target, phase, plane, np.full(len(source), -1, np.int32)), method


def _settle(fabric: FatTree, board: Board, flows: Flows3) -> None:
    """Cores for flows between pods where colouring gives them, and their places on the board; the others lose plane and
    phase."""
    p, q = fabric.pod_of[flows.source], fabric.pod_of[flows.target]
    across = np.flatnonzero((p != q) & (flows.phase >= 0))
    phases = board.low.shape[3]
    group = flows.phase[across].astype(np.int64) * fabric.spines + flows.plane[across]
    ends = [group * fabric.pods + pod[across] for pod in (p, q)]
    size = phases * fabric.spines * fabric.pods
    degree = np.maximum(*(np.bincount(end, minlength=size) for end in ends)).reshape(-1, fabric.pods).max(axis=1)
    whole = np.tile(fabric.high.all(axis=(0, 2)), phases)
    easy = ((degree <= fabric.cores) & whole)[group]
    flows.core[across[easy]] = coloured(ends[0][easy], ends[1][easy], fabric.cores)
    hard = across[~easy]
    order = np.argsort(group[~easy], kind="stable")
    bounds = np.flatnonzero(np.diff(group[~easy][order])) + 1
    for mine in np.split(hard[order], bounds) if len(hard) else ():
        working = np.ascontiguousarray(fabric.high[:, flows.plane[mine[0]]])
        source, target = (fabric.pod_of[leaf[mine]].astype(np.int32) for leaf in (flows.source, flows.target))
        core = np.full(len(mine), -1, np.int32)
        complete(source, target, working, working, core, _BUDGET, 1)
        flows.core[mine] = core
    lost = across[flows.core[across] < 0]
    flows.phase[lost] = flows.plane[lost] = -1
    _mark(fabric, board, flows)


def _mark(fabric: FatTree, board: Board, flows: Flows3) -> None:
    placed = np.flatnonzero(flows.phase >= 0)
    for side, leaf in enumerate((flows.source, flows.target)):
        at = leaf[placed].astype(np.int64) * board.turn.shape[2] + flows.phase[placed]
        order = np.argsort(at, kind="stable")
        rank = np.arange(len(at)) - np.searchsorted(at[order], at[order])
        mine = placed[order]
        board.turn[side, leaf[mine], flows.phase[mine], rank] = mine
        over = placed[flows.plane[placed] >= 0]
        board.low[side, leaf[over], flows.plane[over], flows.phase[over]] = over
        high = placed[flows.core[placed] >= 0]
        pod = fabric.pod_of[leaf[high]]
        board.high[side, pod, flows.plane[high], flows.core[high], flows.phase[high]] = high


def _complete(fabric: FatTree, board: Board, flows: Flows3, phases: int) -> int:
    """Places for all, in more phases if need be; returns how many."""
    more = 1
    while True:
        looked_at = max(phases, 1) * fabric.spines * fabric.cores
        if not place(board, flows, fabric.leaves, _WORK // looked_at, _SEED):
            return phases
        board, phases = board.longer(fabric, more), phases + more
        more = min(2 * more, max(phases // 50, 1))
