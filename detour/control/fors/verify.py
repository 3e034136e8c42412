# SPDX-License-Identifier: Apache-2.0
"""Verification of a plan from its rows alone, independently of the planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan


def problems(plan: ForsPlan, most: int = 10) -> list[str]:
    """List the faults of a plan, a line each, at most `most`; empty: the plan is right.

    Checked: every ordered pair of servers exactly once (pairs that nothing joins may be absent only if the plan names
    them, and it may name only such); a server sends at most once and receives at most once a phase; a link between
    switches carries at most one flow a phase in each direction; no failed link is used; flows take spines and cores
    where, and only where, they leave their leaf and pod. Where cables are faster or slower than servers' links, a cable
    carries at most `fabric.lanes` flows and a server sends and receives at most `fabric.at_once`."""
    wrong = list(_ranges(plan))
    if not wrong:
        wrong += [*_pairs(plan), *contention_problems(plan)]
    return wrong[:most]


def contention_problems(plan: ForsPlan) -> list[str]:
    """The same without what it says of pairs: they may meet as often as they like."""
    wrong = list(_ranges(plan))
    if not wrong:
        for check in (_servers, _links, _unreachable):
            wrong += check(plan)
    return wrong


def _ranges(plan: ForsPlan) -> Iterator[str]:
    """Indices out of range, servers that are not there: nothing else can be checked before this."""
    fabric = plan.fabric
    columns = {
        "phase": (plan.phase, 0, plan.phases),
        "src": (plan.src, 0, fabric.slots),
        "dst": (plan.dst, 0, fabric.slots),
        "agg" if fabric.cores else "spine": (plan.spine, INSIDE, fabric.spines),
    }
    if plan.core is not None:
        columns["core"] = (plan.core, INSIDE, fabric.cores)
    wrong = False
    for name, (column, low, high) in columns.items():
        if len(column) != plan.flows:
            yield f"{name}: {len(column)} values for {plan.flows} flows"
            return
        for row in np.flatnonzero((column < low) | (column >= high)):
            yield f"row {row}: {name} {column[row]} is not in {low}..{high - 1}"
            wrong = True
            if not fabric.cores:
                return
    if wrong:
        return
    yield from _cables_in_range(plan)
    present = fabric.taking_part()
    for name, column in (("src", plan.src), ("dst", plan.dst)):
        for row in np.flatnonzero(~present[column])[:1]:
            yield f"row {row}: {name} {column[row]} is a place without server that takes part"


def _cables_in_range(plan: ForsPlan) -> Iterator[str]:
    if plan.cables is None:
        if plan.fabric.cables > 1:
            yield f"the plan names no cables, and {plan.fabric.name} has {plan.fabric.cables} between leaf and spine"
        return
    if plan.cables.shape != (2, plan.flows):
        yield f"cables: {plan.cables.shape} values for {plan.flows} flows"
        return
    for name, column in zip(("up", "down"), plan.cables, strict=True):
        for row in np.flatnonzero((column < 0) | (column >= plan.fabric.cables))[:1]:
            yield f"row {row}: {name} {column[row]} is not in 0..{plan.fabric.cables - 1}"


def _flow(plan: ForsPlan, row: np.intp) -> str:
    return f"phase {plan.phase[row]}: {plan.src[row]} -> {plan.dst[row]}"


def _pairs(plan: ForsPlan) -> Iterator[str]:
    fabric = plan.fabric
    count = np.bincount(plan.src.astype(np.int64) * fabric.slots + plan.dst, minlength=fabric.slots**2)
    count = count.reshape(fabric.slots, fabric.slots)
    present = fabric.taking_part()
    want = present[:, None] & present[None, :]
    np.fill_diagonal(want, False)
    cut = np.zeros((fabric.all_leaves, fabric.all_leaves), bool)
    for u, v in plan.unreachable:
        cut[u, v] = cut[v, u] = True
    want &= ~np.repeat(np.repeat(cut, fabric.hosts, axis=0), fabric.hosts, axis=1)
    for src, dst in np.argwhere(count != want):
        yield f"{src} -> {dst} is there {count[src, dst]} times instead of {int(want[src, dst])}"


def _servers(plan: ForsPlan) -> Iterator[str]:
    most = plan.fabric.at_once
    for verb, column in (("sends", plan.src), ("receives", plan.dst)):
        for phase, server, times in _crowded(plan.phase, column, plan.fabric.slots, most):
            yield f"phase {phase}: server {server} {verb} {_times(plan, times, most)}"


def _crowded(phase: np.ndarray, thing: np.ndarray, count: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Phases and things, numbered below `count`, that are there together more than `most` times, and how often."""
    names, phase = np.unique(phase, return_inverse=True)  # a file may number its phases as it likes
    times = np.bincount(phase * count + thing)
    for value in np.flatnonzero(times > most).tolist():
        yield names[value // count], value % count, times[value]


def _times(plan: ForsPlan, times: int, most: int) -> str:
    if plan.fabric.cores:
        return f"{times} times"
    return "more than once" if most == 1 else f"more than {most} times"


def _links(plan: ForsPlan) -> Iterator[str]:
    fabric = plan.fabric
    ends = plan.src // fabric.hosts, plan.dst // fabric.hosts
    pods = ends[0] // fabric.leaves, ends[1] // fabric.leaves
    outside, has_spine = ends[0] != ends[1], plan.spine != INSIDE
    core = np.full(plan.flows, INSIDE) if plan.core is None else plan.core
    across, has_core = (pods[0] != pods[1]), core != INSIDE
    for row in np.flatnonzero(outside != has_spine):
        yield f"{_flow(plan, row)} {_misled('leaf', 'plane' if fabric.cores else 'spine', plan.spine[row])}"
    for row in np.flatnonzero((outside == has_spine) & (across != has_core)):
        yield f"{_flow(plan, row)} {_misled('pod', 'core', core[row])}"
    low, high = outside & has_spine, has_spine & has_core
    for end, way in enumerate(("up", "down")):
        uplinks = fabric.working.reshape(-1, fabric.uplinks)
        yield from _over(plan, low, (ends[end], plan.uplink(end)), uplinks, fabric.lanes, way)
        yield from _over(plan, high, (pods[end], plan.spine, core), fabric.high, 1, way)


def _misled(what: str, over: str, number: int) -> str:
    return (
        f"leaves its {what} without a {over}" if number == INSIDE else f"stays in its {what}, but has {over} {number}"
    )


def _over(
    plan: ForsPlan, used: np.ndarray, link: Sequence[np.ndarray], working: np.ndarray, most: int, way: str
) -> Iterator[str]:
    """Flows (those that are `used`) over links of one level in one direction: none that failed, none too often."""
    rows = np.flatnonzero(used)
    ends = tuple(column[rows] for column in link)
    for k in np.flatnonzero(~working[ends]):
        name = plan.fabric.link_name(tuple(int(column[k]) for column in ends))
        yield f"{_flow(plan, rows[k])} uses the failed link {name}"
    number = np.ravel_multi_index(ends, working.shape)
    for phase, value, times in _crowded(plan.phase[rows], number, max(working.size, 1), most):
        name = plan.fabric.link_name(tuple(map(int, np.unravel_index(value, working.shape))))
        yield f"phase {phase}: link {name} is used {_times(plan, times, most)} ({way})"


def _unreachable(plan: ForsPlan) -> Iterator[str]:
    for u, v in plan.unreachable:
        shared = np.flatnonzero(plan.fabric.planes[u, v])
        if len(shared) and plan.fabric.cores:
            yield f"leaves {u} and {v} are called parted, and have a way"
        elif len(shared):
            yield f"leaves {u} and {v} are called unreachable, but share spine {shared[0]}"
