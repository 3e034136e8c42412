# SPDX-License-Identifier: Apache-2.0
"""Gives every flow a path so that as few flows as possible share links (section III-C of the paper).

Two tiers: choosing a spine for every flow is colouring the edges of a bipartite multigraph of leaves, and a balanced
colouring is optimal. Three tiers: the same twice, first aggregation switches for flows between edge switches, then, for
the flows of each of these, cores for flows between pods. The second cannot always be balanced perfectly. Where this
does not apply, a heuristic (`heuristic`), and in small networks a solver (`exact`), which also proves what is best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError
from detour.control.placement import bound, exact
from detour.control.placement.clos import LONGEST, Clos, collisions, loads
from detour.control.placement.colouring import balanced
from detour.control.placement.heuristic import Candidates, spread
from detour.control.placement.jobs import FlowSet
from detour.topo import Topology
from detour.topo.failures import NONE, Failures
from detour.topo.paths import SwitchPath, path_usids


@dataclass(frozen=True)
class Assignment:
    """A flow between two hosts and where it was put, by name; `usids` in hexadecimal."""

    job: str
    source: str
    target: str
    path: list[str]
    usids: list[str]


@dataclass(frozen=True)
class Placement:
    """A path for every flow. `path_rows`: (flows, 5) switches, filled up with -1; after failures a flow may have none.
    `method`: `colouring`, `solver` or `heuristic`."""

    clos: Clos
    flows: FlowSet
    path_rows: Int32Array
    method: str

    @cached_property
    def load(self) -> Int32Array:
        """(links,) flows on every directed link between switches."""
        return loads(self.clos, self.path_rows)

    @property
    def collisions(self) -> int:
        """Pairs of flows that share a link, summed over links."""
        return collisions(self.load)

    @cached_property
    def lower_bound(self) -> int:
        """What no placement of these flows, as far as they have paths, can beat."""
        placed = self.path_rows[:, 0] >= 0
        return bound.lower_bound(self.clos, self.flows.source[placed], self.flows.target[placed])

    def path(self, flow: int) -> SwitchPath:
        """Switches that a flow passes; none if it has no path."""
        return tuple(int(switch) for switch in self.path_rows[flow] if switch >= 0)

    def usids(self, flow: int) -> tuple[int, ...]:
        """The uSID list of a flow: the uN of every switch after the first, as `control.sids` installs them, then the
        host's."""
        topology = self.clos.topology
        return path_usids(topology, self.path(flow), topology.hosts[self.flows.target[flow]])

    def assignments(self, which: Iterable[int]) -> list[Assignment]:
        """Some of the flows."""
        return [
            Assignment(
                job=self.flows.names[self.flows.job[flow]],
                source=f"h{self.flows.source[flow]}",
                target=f"h{self.flows.target[flow]}",
                path=[f"s{switch}" for switch in self.path(flow)],
                usids=[f"{usid:x}" for usid in self.usids(flow)],
            )
            for flow in which
        ]


def place(topology: Topology, flows: FlowSet, failures: Failures = NONE) -> Placement:
    """Places all flows.

    Raises:
        DetourError: no Clos network, or flows between hosts that are not connected (the first of them by name).
    """
    clos = Clos(topology, failures)
    _check(clos, flows)
    if not flows.pinned and clos.tops is not None:
        return Placement(clos, flows, _coloured(clos, flows), "colouring")
    path_rows = np.full((len(flows), LONGEST), -1, np.int32)
    for flow, path in flows.pinned.items():
        path_rows[flow, : len(path)] = path
    free = np.setdiff1d(np.arange(len(flows)), list(flows.pinned))
    method = _fill(clos, flows, path_rows, free)
    return Placement(clos, flows, path_rows, method)


@dataclass(frozen=True)
class Repair:
    """A placement after a change of failures. `moved`: flows with another path than before; `lost`: flows without one,
    because their hosts are cut off or the path that their job demands is down."""

    placement: Placement
    moved: NDArray[np.intp]
    lost: NDArray[np.intp]


def repair(old: Placement, failures: Failures) -> Repair:
    """Moves the flows whose path has lost a link, and gives flows that had none one if they can have it. All others
    stay: what comes back attracts nobody; `place` anew for that."""
    flows = old.flows
    clos = Clos(old.clos.topology, failures)
    path_rows = old.path_rows.copy()
    for flow, path in flows.pinned.items():
        path_rows[flow, : len(path)] = path
    ahead = path_rows[:, 1:]
    broken = (path_rows[:, 0] < 0) | ((ahead >= 0) & (clos.link[path_rows[:, :-1], ahead] < 0)).any(axis=1)
    cut = np.zeros(len(flows), np.bool_)
    cut[clos.unreachable(flows.source, flows.target)] = True
    free = broken & ~cut
    free[list(flows.pinned)] = False
    path_rows[broken | cut] = -1
    method = old.method
    if free.any():
        method = _fill(clos, flows, path_rows, np.flatnonzero(free))
    moved = (path_rows[:, 0] >= 0) & (path_rows != old.path_rows).any(axis=1)
    return Repair(Placement(clos, flows, path_rows, method), np.flatnonzero(moved), np.flatnonzero(path_rows[:, 0] < 0))


def _check(clos: Clos, flows: FlowSet) -> None:
    lost = clos.unreachable(flows.source, flows.target)
    if len(lost):
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise DetourError(f"{flows.name(int(lost[0]))}: there is no path between them{more}")
    for flow, path in flows.pinned.items():
        if any(clos.link[a, b] < 0 for a, b in pairwise(path)):
            raise DetourError(f"{flows.name(flow)}: the path that its job demands is down")


def _fill(clos: Clos, flows: FlowSet, path_rows: Int32Array, free: NDArray[np.intp]) -> str:
    """Places the flows `free`, whose paths are empty, among the others; returns the method."""
    others = loads(clos, path_rows)
    candidates = Candidates(clos, clos.edge_of[flows.source[free]], clos.edge_of[flows.target[free]])
    reached = others.copy()
    chosen, method = spread(candidates, reached), "heuristic"
    known = path_rows[:, 0] >= 0
    known[free] = True
    floor = bound.lower_bound(clos, flows.source[known], flows.target[known])
    if collisions(reached) > floor and exact.fits(candidates, others, reached):
        proven = exact.solve(candidates, others, reached)
        if proven is not None:
            chosen, method = proven, "solver"
    path_rows[free] = candidates.path_rows[chosen]
    return method


def _coloured(clos: Clos, flows: FlowSet) -> Int32Array:
    """Ways of all flows in a network in which every switch has all its links up."""
    a, b = clos.edge_of[flows.source], clos.edge_of[flows.target]
    path_rows = np.full((len(flows), LONGEST), -1, np.int32)
    path_rows[:, 0] = a
    away = np.flatnonzero(a != b)
    a, b = a[away], b[away]
    tops = clos.tops
    assert tops is not None
    if clos.tiers == 2:
        path_rows[away, 1] = tops[balanced(a, b, len(tops))]
        path_rows[away, 2] = b
        return path_rows
    _three_tiers(clos, path_rows, away, a, b)
    return path_rows


def _three_tiers(clos: Clos, path_rows: Int32Array, away: NDArray[np.intp], a: Int32Array, b: Int32Array) -> None:
    """Fills in the paths of the flows `away` from edge switches `a` to `b` of a fat-tree."""
    half = int(clos.up_links.max())
    pod, other = clos.group_of[a], clos.group_of[b]
    far = pod != other
    # Flows between pods are grouped together, so that they are spread evenly for themselves as well.
    up = balanced(a, b, half, first=~far)
    first = np.array([members[0] for members in clos.topology.members], np.int32)
    path_rows[away, 1] = first[pod] + half + up
    near = away[~far]
    path_rows[near, 2] = b[~far]
    # A pair of pod and aggregation switch is a vertex: all groups of cores are coloured at once.
    core = balanced(pod[far] * half + up[far], other[far] * half + up[far], half)
    across = away[far]
    path_rows[across, 2] = first[-1] + up[far] * half + core
    path_rows[across, 3] = first[other[far]] + half + up[far]
    path_rows[across, 4] = b[far]
