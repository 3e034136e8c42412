# SPDX-License-Identifier: Apache-2.0
"""One all-to-all exchange on a fat-tree under a routing of the FORS paper; links fail before it or during it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors import FatTree, ForsPlan, baselines, solve
from detour.control.fors.baselines import linear_shift
from detour.control.fors.fabric import unreachable_text
from detour.control.fors.lp_bound import lp_bound
from detour.control.fors.paths import INSIDE, TreePaths, islands
from detour.control.fors.plan import only_present
from detour.control.fors.repair import repaired
from detour.control.fors.residual import residual
from detour.control.fors.unequal import plan_unequal
from detour.experiments.fors.results import Crowd, ExchangeResult, Spread
from detour.experiments.fors.rivals_tiers import tier_min_hop
from detour.fabric.traffic.outage import Break, Breaks, Delays, OutageController, Planner
from detour.fabric.traffic.phased import ABSENT, Pace, PhasedExchange, PhasedMessages
from detour.fabric.traffic.pinned import PinnedFabric, Tuning

ROUTINGS = ("fors", "ftree", "minhop", "ftree-ar")
_THREE_LEVELS = ("fors", "minhop")
_LONG_QUEUE = 40_000  # bytes, beyond which a leaf of Ftree-AR moves flows
PHASE_US = 3
"""what a phase costs beside its bytes: barrier and latency (docs/fors-fabric.md)"""
PhaseProgress = Callable[[int, int], None]
"""called with phases that are over and phases in all"""


@dataclass(frozen=True)
class ExchangeRun:
    """A run of an exchange. `phases`: how many of the schedule's are executed, drawn from all parts of it (0: all).

    `breaks`: what fails during the exchange; links that fail before it are `fabric`'s."""

    fabric: FatTree
    routing: str = "fors"
    breaks: tuple[Break, ...] = ()
    phases: int = 0
    pace: Pace = field(default_factory=Pace)
    tuning: Tuning = field(default_factory=Tuning)
    delays: Delays = field(default_factory=Delays)
    look_ps: int = US
    """time between two looks of a leaf at its queues (Ftree-AR)"""
    skip_unreachable: bool = False
    """messages between leaves that no spine joins are left out; else that is an error"""
    sizes: Int64Array | None = field(default=None, compare=False)
    """(n, n) bytes between the servers that take part, in order; None: `pace.message` each"""
    messages: PhasedMessages | None = field(default=None, compare=False)
    """what is sent when over which spine, where somebody else has planned it"""

    def __post_init__(self) -> None:
        if self.routing not in ROUTINGS:
            raise DetourError(f"routing {self.routing!r} is unknown; allowed: {', '.join(ROUTINGS)}")
        if self.phases < 0:
            raise DetourError(f"{self.phases} phases; 0 means all")
        if self.fabric.cores:
            if self.routing not in _THREE_LEVELS or (self.breaks and self.routing != "fors"):
                when = " when links fail in the midst" if self.routing in _THREE_LEVELS else ""
                raise DetourError(f"{self.fabric.name}: routing {self.routing} is for two levels (ft:...){when}")
            if self.sizes is not None:
                raise DetourError(f"{self.fabric.name}: unequal message sizes are for two levels (ft:...)")
        elif not self.fabric.single and self.routing == "ftree-ar":
            text = "ftree-ar needs one cable between leaf and spine, as fast as a server's"
            raise DetourError(f"{self.fabric.name}: {text}")


def planned(fabric: FatTree, routing: str, *, skip_unreachable: bool = False) -> tuple[PhasedMessages, int]:
    """All messages with phases and paths, and the number of phases that the schedule takes. Raises `DetourError`:
    leaves are cut off from others, or two have no path and these are not to be skipped."""
    lost = tuple(fabric.unreachable())
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, lost))
    # Servers that no link joins with others, not even by a longer path, would never hear of a barrier's end.
    here = np.flatnonzero(fabric.sizes() > 0)
    part = islands(fabric, TreePaths(fabric).working())[here]
    alone = here[part != np.bincount(part).argmax()] if len(part) else here
    if len(alone):
        why = "has no link left" if not _beside(fabric, int(alone[0])) else "is cut off from the others"
        raise DetourError(f"{fabric.name}: leaf {alone[0]} {why}, so its servers cannot take part in the barrier")
    if routing == "fors":
        plan = solve(fabric, skip_unreachable=skip_unreachable)
        return PhasedMessages.of(plan), plan.phases
    if fabric.cores:
        messages = tier_min_hop(fabric)
        return messages, messages.phases
    schedule = only_present(fabric, linear_shift(fabric), lost)
    table = baselines.ROUTING_ENGINES["ftree" if routing == "ftree-ar" else routing](fabric)
    spine = baselines.spines_of(fabric, table, schedule.src, schedule.dst)
    plan = ForsPlan(fabric, schedule.phases, schedule.phase, schedule.src, schedule.dst, spine)
    if fabric.cables > 1:
        plan = replace(plan, cables=baselines.cables_of(fabric, table, schedule.src, schedule.dst))
    messages = PhasedMessages.of(plan)
    return messages, messages.phases


def _beside(fabric: FatTree, leaf: int) -> bool:
    """Return whether the leaf has a link that works."""
    paths = TreePaths(fabric)
    mine = set(paths.beside(leaf))
    return any(works and link in mine for link, works in zip(paths.links, paths.working(), strict=True))


def planned_sizes(run: ExchangeRun) -> tuple[PhasedMessages, int, int]:
    """The same for a run with sizes, and the bound in bytes of a server's link. Raises `DetourError`: as `planned`, and
    as `plan_unequal`."""
    assert run.sizes is not None
    fabric, sizes = run.fabric, run.sizes
    bound = lp_bound(fabric, sizes).bytes
    if run.routing == "fors":
        cost = run.tuning.rate_bps * PHASE_US // 8_000_000
        plan = plan_unequal(fabric, sizes, cost, skip_unreachable=run.skip_unreachable)
        return replace(PhasedMessages.of(plan), size=plan.sent), plan.phases, plan.lower_bound
    messages, phases = planned(fabric, run.routing, skip_unreachable=run.skip_unreachable)
    ranks = np.searchsorted(np.flatnonzero(fabric.taking_part()), np.stack([messages.src, messages.dst]))
    size = sizes[ranks[0], ranks[1]].astype(np.int64)
    return replace(messages, size=size).only(size > 0), phases, bound


def planner_of(routing: str) -> Planner:
    """Return the function that replans the waiting messages when links have failed."""

    def fors(fabric: FatTree, *messages: Int64Array) -> tuple[Int64Array, Int64Array]:
        return (repaired if fabric.cores or not fabric.single else residual)(fabric, *messages)

    def by_table(
        fabric: FatTree, phase: Int64Array, src: Int64Array, dst: Int64Array, path: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        table = baselines.ROUTING_ENGINES["ftree" if routing == "ftree-ar" else routing](fabric)
        leaf, far = src // fabric.hosts, dst // fabric.hosts
        spine = np.where(leaf == far, INSIDE, table[leaf, dst]).astype(np.int64)
        lost = (leaf != far) & (spine == INSIDE)
        if fabric.cables > 1:
            up, down = baselines.cables_of(fabric, table, src, dst)
            spine = np.where(spine == INSIDE, INSIDE, (spine * fabric.cables + up) * fabric.cables + down)
        return np.where(lost, ABSENT, phase), spine

    return fors if routing == "fors" else by_table


def execute(run: ExchangeRun, report: PhaseProgress | None = None) -> ExchangeResult:
    """Run an exchange and tell what happened: times, throughput, contention, losses, what was made of failures."""
    bound = None
    if run.messages is not None:
        whole, phases = run.messages, run.messages.phases
    elif run.sizes is None:
        whole, phases = planned(run.fabric, run.routing, skip_unreachable=run.skip_unreachable)
    else:
        whole, phases, bound = planned_sizes(run)
    if not len(whole):
        raise DetourError(f"{run.fabric.name}: no server sends to another one")
    messages = whole.sample(run.phases, run.tuning.seed) if run.phases else whole
    room = PhasedExchange.connections(messages) + (OutageController.connections(run.fabric) if run.breaks else 0)
    with PinnedFabric(run.fabric, run.tuning, connections=room) as fabric:
        exchange = PhasedExchange(fabric, messages, run.pace)
        controller = None
        if run.breaks:
            exchange.add(Breaks(run.breaks))
            OutageController.needs_probes(fabric, run.breaks)
            controller = OutageController(exchange, planner_of(run.routing), run.delays)
            exchange.add(controller)
        adaptive = None
        if run.routing == "ftree-ar":
            adaptive = LeafAdaptive(exchange, period_ps=run.look_ps)
            exchange.add(adaptive)
        for done in exchange.steps():
            if report is not None:
                report(done, messages.phases)
        if controller:
            controller.finish(exchange)
        dead = controller.failed if controller else ()
        return replace(
            _result(run, exchange, len(whole), phases),
            moves=adaptive.moves if adaptive else 0,
            unreachable_leaves=[list(pair) for pair in run.fabric.with_failed(dead).unreachable()],
            detections=controller.detections if controller else [],
            planning_seconds=[round(seconds, 6) for seconds in controller.planning_seconds] if controller else [],
            plan_time="measured" if run.delays.plan_ps is None else "given",
            **_bounded(run, exchange, bound),
        )


def _bounded(run: ExchangeRun, exchange: PhasedExchange, bound: int | None) -> dict[str, float]:
    """Return how long the exchange took, measured by the time that its bytes take at least on links without headers."""
    if not bound:
        return {}
    bound_us = bound * 8e6 / run.tuning.rate_bps
    took_us = float(exchange.times.lengths().sum()) / US
    return {"bound_us": round(bound_us, 3), "over_bound": round(took_us / bound_us, 4)}


def _result(run: ExchangeRun, exchange: PhasedExchange, flows: int, phases: int) -> ExchangeResult:
    """Return the exchange's own result for its `flows` messages in `phases` phases."""
    fabric, tree = exchange.fabric, run.fabric
    lengths = exchange.times.lengths() / US
    executed = len(lengths)
    counts = exchange.check()
    planned_phases = exchange.messages.phases
    total_us = float(lengths.sum()) * (phases / planned_phases if run.phases else 1.0)
    part = flows / len(exchange.messages)
    arrived = float(exchange.size[exchange.state == exchange.DELIVERED].sum()) * part
    stats, ports = fabric.network.switch_stats(), fabric.network.port_stats()
    crowd = np.array(exchange.crowds)
    return ExchangeResult(
        topology=tree.name,
        routing=run.routing,
        servers=tree.servers,
        failed_links=len(tree.failed_names()),
        reduction=tree.reduction,
        rate_gbps=fabric.tuning.rate_bps / 1e9,
        message_bytes=round(float(exchange.size.mean())),
        payload_bytes=fabric.tuning.payload,
        phases=phases if run.phases else executed,
        phases_executed=executed,
        messages=flows,
        throughput_gbps=round(arrived * 8e-3 / (tree.servers * total_us), 3),
        ms=round(total_us / 1e3, 4),
        phase_us=_spread(lengths),
        barrier_us=_spread(exchange.times.barriers() / US),
        most_flows_on_a_link=Crowd(round(float(crowd.mean()), 4), int(crowd.max())),
        exchange=counts,
        queue_drops=int(ports["queue_drops"].sum()),
        link_drops=int(ports["link_drops"].sum()),
        packet_hops=int(stats["packets"].sum()),
        phase_lengths_us=[round(float(value), 3) for value in lengths],
        moves=0,
        unreachable_leaves=[],
        detections=[],
    )


def _spread(values: np.ndarray) -> Spread:
    return Spread(*(round(float(of(values)), 3) for of in (np.mean, np.min, np.median, np.max)))


class LeafAdaptive:
    """Ftree-AR, an `Actor` that stands for all leaves: a leaf moves flows from a congested link up to the one with the
    shortest queue (FORS, section 3.1).

    Flows begin on Ftree's spine, so without congestion this is Ftree. At every look a leaf takes flows away from the
    queues above `_LONG_QUEUE`, the longest first, if another link that leads to the flow's leaf has at most half as
    much; one flow stays. A leaf sees its own queues only, not those of the spines. The paper says no more of
    InfiniBand's adaptive routing than that it balances by load; moving whole flows keeps packets in order, which LERP
    takes for granted on a path. Two levels with one cable from leaf to spine, so that paths are spines.
    """

    def __init__(self, exchange: PhasedExchange, *, period_ps: int) -> None:
        self._period_ps = period_ps
        self.due_ps = exchange.fabric.now_ps + period_ps
        self.moves = 0

    def act(self, exchange: PhasedExchange) -> None:
        """Every leaf looks at its queues."""
        self.due_ps = exchange.fabric.now_ps + self._period_ps
        tree = exchange.fabric.tree
        queued = exchange.fabric.queued_up().reshape(tree.leaves, tree.spines)
        if queued.max() <= _LONG_QUEUE:
            return
        sent = np.flatnonzero(exchange.state == exchange.SENT)
        leaf = exchange.messages.src[sent] // tree.hosts
        moved, spines = [], []
        for u in np.flatnonzero(queued.max(axis=1) > _LONG_QUEUE).tolist():
            for flight, spine in self._moves(exchange, u, queued[u].copy(), sent[leaf == u]):
                moved.append(flight)
                spines.append(spine)
        if moved:
            self.moves += len(moved)
            exchange.change_paths(np.array(moved, np.int64), np.array(spines, np.int64))

    def _moves(self, exchange: PhasedExchange, leaf: int, queue: Int64Array, mine: Int64Array) -> list[tuple[int, int]]:
        """Flows of a leaf that change, and their new spines. A moved flow's share of its queue counts as moved."""
        moves = []
        up = exchange.up.reshape(-1, len(queue))
        spine, far = exchange.path[mine], exchange.messages.dst[mine] // exchange.fabric.tree.hosts
        for crowded in np.argsort(-queue).tolist():
            if queue[crowded] <= _LONG_QUEUE:
                break
            there = np.flatnonzero((spine == crowded) & (far != leaf))
            if len(there) < 2:
                continue  # alone on its link: the queue is its own
            for k in there[1:].tolist():
                usable = np.flatnonzero(up[leaf] & up[far[k]])
                best = int(usable[np.argmin(queue[usable])])
                if queue[best] * 2 <= queue[crowded]:
                    moves.append((int(mine[k]), best))
                    share = queue[crowded] // len(there)
                    queue[crowded] -= share
                    queue[best] += share
        return moves
