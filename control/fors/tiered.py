# SPDX-License-Identifier: Apache-2.0
"""A plan for a fat-tree of three levels: planes by an integer programme, phases by halving, cores by edge colouring,
and what found no core by driving others out.

1. `loads`: planes for the flows of each pair of leaves, T at most on every link (cores as real numbers), for T =
   the bound.
2. `phase_assignment.phases_of`: phases for them, as on two levels with planes for spines. Always succeeds.
3. In a phase, the flows of a plane between pods are a bipartite multigraph, and cores are its colours. Where no link to
   a core of the plane failed, and no pod has more flows than the plane has cores, Koenig's theorem gives them; else
   recolouring, to all or to some.
4. `ejection`: the others, beginning with their places in plane and phase given up.
5. `server_assignment.assign_servers`: servers.

If steps 1 to 3 do it all, which is so without failures between aggregation switches and cores and with as many cores of
a plane as leaves of a pod, the plan has as many phases as the bound. Else step 4 may need more phases.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from detour.control.edge_colouring import coloured
from detour.control.fors.ejection import Board, Flows3, place
from detour.control.fors.exact import flow_rows
from detour.control.fors.fabric import FatTree
from detour.control.fors.loads import LeafDemand, least_phases, whole
from detour.control.fors.phase_assignment import phases_of
from detour.control.fors.plan import ForsPlan, PlanSeconds, Schedule, arranged
from detour.control.fors.recolour import complete
from detour.control.fors.server_assignment import assign_servers

_BUDGET = 200  # flows of a phase and plane that may drive others from their cores
_SEED = 1
_WORK = 400_000_000  # places that are looked at for one number of phases


def tiered_plan(fabric: FatTree, lost: tuple[tuple[int, int], ...]) -> ForsPlan:
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
    seconds = PlanSeconds(schedule=time.perf_counter() - routed, route=routed - begin)
    return replace(
        arranged(fabric, schedule, flows.plane, core=flows.core),
        method=method,
        lower_bound=bound,
        optimal=phases == bound,
        unreachable=lost,
        seconds=seconds,
    )


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
        _recolour(fabric, flows, mine)
    lost = across[flows.core[across] < 0]
    flows.phase[lost] = flows.plane[lost] = -1
    _mark(fabric, board, flows)


def _recolour(fabric: FatTree, flows: Flows3, mine: np.ndarray) -> None:
    """Cores for the flows of one phase and plane, as many as recolouring finds."""
    working = np.ascontiguousarray(fabric.high[:, flows.plane[mine[0]]])
    source, target = (fabric.pod_of[leaf[mine]].astype(np.int32) for leaf in (flows.source, flows.target))
    core = np.full(len(mine), -1, np.int32)
    complete(source, target, working, working, core, _BUDGET, 1)
    flows.core[mine] = core


def _mark(fabric: FatTree, board: Board, flows: Flows3) -> None:
    """Puts what flows have on the board."""
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
