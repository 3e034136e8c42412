# SPDX-License-Identifier: Apache-2.0
"""Whether a plan is one: checked from its rows alone, with nothing of what made them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detour.control.fors.plan import INSIDE, ForsPlan


def problems(plan: ForsPlan, most: int = 10) -> list[str]:
    """What is wrong with a plan, a line each, at most `most`; empty: it is right.

    Checked: every ordered pair of servers exactly once (pairs that nothing joins may be absent only if the plan names
    them, and it may name only such); a server sends at most once and receives at most once a phase; a link between
    leaf and spine carries at most one flow a phase in each direction; no failed link is used; a flow inside a leaf
    uses no spine and every other one uses one. Where cables are faster or slower than servers' links, a cable carries
    at most `fabric.lanes` flows and a server sends and receives at most `fabric.at_once`.
    """
    found = list(_ranges(plan))
    if not found:
        for check in (_pairs, _servers, _links, _unreachable):
            found += check(plan)
    return found[:most]


def contention_problems(plan: ForsPlan) -> list[str]:
    """The same without what it says of pairs: they may meet as often as they like."""
    found = list(_ranges(plan))
    if not found:
        for check in (_servers, _links, _unreachable):
            found += check(plan)
    return found


def _ranges(plan: ForsPlan) -> Iterator[str]:
    """Indices out of range, servers that are not there: nothing else can be checked before this."""
    fabric = plan.fabric
    columns = {
        "phase": (plan.phase, 0, plan.phases),
        "src": (plan.src, 0, fabric.slots),
        "dst": (plan.dst, 0, fabric.slots),
        "spine": (plan.spine, INSIDE, fabric.spines),
    }
    for name, (column, low, high) in columns.items():
        if len(column) != plan.flows:
            yield f"{name}: {len(column)} values for {plan.flows} flows"
            return
        for row in np.flatnonzero((column < low) | (column >= high)):
            yield f"row {row}: {name} {column[row]} is not in {low}..{high - 1}"
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


def _cut(plan: ForsPlan) -> np.ndarray:
    """(leaves, leaves) bool: pairs that the plan says nothing joins."""
    cut = np.zeros((plan.fabric.leaves, plan.fabric.leaves), bool)
    for u, v in plan.unreachable:
        cut[u, v] = cut[v, u] = True
    return cut


def _pairs(plan: ForsPlan) -> Iterator[str]:
    fabric = plan.fabric
    count = np.bincount(plan.src.astype(np.int64) * fabric.slots + plan.dst, minlength=fabric.slots**2)
    count = count.reshape(fabric.slots, fabric.slots)
    present = fabric.taking_part()
    want = present[:, None] & present[None, :]
    np.fill_diagonal(want, False)
    want &= ~np.repeat(np.repeat(_cut(plan), fabric.hosts, axis=0), fabric.hosts, axis=1)
    for src, dst in np.argwhere(count != want):
        yield f"{src} -> {dst} is there {count[src, dst]} times instead of {int(want[src, dst])}"


def _servers(plan: ForsPlan) -> Iterator[str]:
    names, phase = np.unique(plan.phase, return_inverse=True)  # a file may number its phases as it likes
    for verb, column in (("sends", plan.src), ("receives", plan.dst)):
        for value in np.flatnonzero(np.bincount(phase * plan.fabric.slots + column) > plan.fabric.at_once):
            number, server = divmod(int(value), plan.fabric.slots)
            yield f"phase {names[number]}: server {server} {verb} more than {_times(plan.fabric.at_once)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _links(plan: ForsPlan) -> Iterator[str]:
    fabric = plan.fabric
    ends = {"up": plan.src // fabric.hosts, "down": plan.dst // fabric.hosts}
    outside = ends["up"] != ends["down"]
    for row in np.flatnonzero(outside == (plan.spine == INSIDE)):
        what = (
            "leaves its leaf without a spine" if outside[row] else f"stays in its leaf, but has spine {plan.spine[row]}"
        )
        yield f"{_flow(plan, row)} {what}"
    used = np.flatnonzero(outside & (plan.spine != INSIDE))
    working = fabric.working().reshape(fabric.leaves, fabric.uplinks)
    names, phase = np.unique(plan.phase[used], return_inverse=True)
    for end, (way, leaf) in enumerate(ends.items()):
        uplink = plan.uplink(end)
        for row in used[~working[leaf[used], uplink[used]]]:
            yield f"{_flow(plan, row)} uses the failed link {fabric.link_name(int(leaf[row]), int(uplink[row]))}"
        key = (phase * fabric.leaves + leaf[used]) * fabric.uplinks + uplink[used]
        for value in np.flatnonzero(np.bincount(key) > fabric.lanes):
            number, link = divmod(int(value), fabric.leaves * fabric.uplinks)
            name = f"link {fabric.link_name(*divmod(link, fabric.uplinks))}"
            yield f"phase {names[number]}: {name} is used more than {_times(fabric.lanes)} ({way})"


def _unreachable(plan: ForsPlan) -> Iterator[str]:
    alive = plan.fabric.alive()
    for u, v in plan.unreachable:
        if (alive[u] & alive[v]).any():
            yield f"leaves {u} and {v} are called unreachable, but share spine {np.flatnonzero(alive[u] & alive[v])[0]}"
