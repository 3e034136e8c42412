# SPDX-License-Identifier: Apache-2.0
"""A placement after links have failed or come back, with as few flows moved as that takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from detour.base.arrays import BoolArray, IndexArray
from detour.control.placement import search
from detour.control.placement.network import PlacementNetwork, widened
from detour.control.placement.place import place
from detour.control.placement.placement import Placement
from detour.control.placement.rebalance import local_search, rebalanced
from detour.control.placement.search import Walked
from detour.topo.failures import Failures

CLOSE = 1  # flows that the busiest link may carry beyond the bound before others than the broken ones have to move

WORTH = 0.05
"""share of the bound by which the busiest link must be above it before others exchange their paths with broken flows"""


@dataclass(frozen=True)
class Repair:
    """A placement after a change of failures. `moved`: flows with another path than before; `lost`: flows without one,
    because their hosts are cut off or the path that their job demands is down."""

    placement: Placement
    moved: IndexArray
    lost: IndexArray


def repair(old: Placement, failures: Failures) -> Repair:
    """Move the flows whose path has lost a link, and give flows that had none one if they can have it. Others move
    only if they have to: after a failure if the busiest link is well above the bound (`WORTH`), and exchanging the
    paths of some flows (`rebalance`) helps, or else if it is more than a flow above; where something has come back if
    collisions are above the bound."""
    network = PlacementNetwork(old.network.topology, failures, detours=old.network.detours)
    walk = search.walked(network, widened(old.path_rows, network.longest).copy())
    broken, cut = _broken(network, old, walk)
    pinned = list(old.flows.pinned)
    free = broken & ~cut
    free[pinned] = False
    gone = np.flatnonzero(broken | cut)
    walk.switches[gone], walk.links[gone] = -1, -1
    if pinned:  # flows whose job demands a path have that, or none
        for flow, path in old.flows.pinned.items():
            walk.switches[flow] = -1
            if not cut[flow] and min(network.links_of(path), default=0) >= 0:
                walk.switches[flow, : len(path)] = path
        walk = search.walked(network, walk.switches)
    home = old.path_rows if old.home is None else old.home
    start = replace(old, network=network, path_rows=walk.switches, least=0, home=home)
    new = local_search(start, np.flatnonzero(free), move=False, walk=walk)
    able = ~cut
    able[pinned + sorted(old.rerouted)] = False
    others = np.flatnonzero(able)
    if (network.alive & ~old.network.alive).any() or (old.network.lost_hosts & ~network.lost_hosts).any():
        new = _better(new, others, whole=not (cut.any() or pinned or old.rerouted))
        return _compared(old, new)
    least = new.cut_bound
    if new.busiest > least * (1 + WORTH):
        new = rebalanced(new, others, old.path_rows)
    if new.busiest > least + CLOSE * int(new.flows.size.max(initial=1)):
        new = local_search(new, others)
    return _compared(old, new)


def _broken(network: PlacementNetwork, old: Placement, walk: Walked) -> tuple[BoolArray, BoolArray]:
    """(flows,) which have no path that is whole, and which of these can have none."""
    flows, broken = old.flows, search.broken(walk)
    cut = np.zeros(len(flows), np.bool_)
    if network.lost_hosts.any():
        cut |= network.lost_hosts[flows.source] | network.lost_hosts[flows.target]
    some = np.flatnonzero(broken)
    cut[some[network.unreachable(flows.source[some], flows.target[some])]] = True
    return broken, cut


def _better(placement: Placement, others: IndexArray, *, whole: bool) -> Placement:
    """Use what has come back: flows return to where they were placed, then move as long as that is better for all, and
    if that does not lead to the bound all are placed anew (`whole`: if all of them may be)."""
    if _at_bound(placement):
        return placement
    assert placement.home is not None
    # The flows are back where they were placed at first, as far as these paths are whole.
    width = max(placement.home.shape[1], placement.path_rows.shape[1])
    home, path_rows = widened(placement.home, width), widened(placement.path_rows, width).copy()
    links = search.walked(placement.network, home).links
    back = others[((home[others, 1:] < 0) | (links[others] >= 0)).all(axis=1)]
    path_rows[back] = home[back]
    placement = replace(placement, path_rows=path_rows)
    if not _at_bound(placement):
        placement = local_search(placement, others)
    if whole and not _at_bound(placement):
        anew = place(
            placement.network.topology, placement.flows, placement.network.failures, detours=placement.network.detours
        )
        if (anew.busiest, anew.collisions) < (placement.busiest, placement.collisions):
            return anew
    return placement


def _at_bound(placement: Placement) -> bool:
    return placement.busiest <= placement.cut_bound and (
        placement.flows.bytes is not None or placement.collisions <= placement.lower_bound
    )


def _compared(old: Placement, new: Placement) -> Repair:
    width = max(old.path_rows.shape[1], new.path_rows.shape[1])
    before, after = widened(old.path_rows, width), widened(new.path_rows, width)
    moved = (before != after).any(axis=1) & (after[:, 0] >= 0)
    return Repair(new, np.flatnonzero(moved), np.flatnonzero(after[:, 0] < 0))
