# SPDX-License-Identifier: Apache-2.0
"""Placement where colouring does not apply: damaged networks, flows that are pinned, and a few flows among many others.

Greedy, then improvement: a flow takes the path whose links carry least, and later, as long as that helps, a better one.
The flows of the same two edge switches have the same candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.arrays import Int32Array
from detour.base.jit import njit
from detour.control.placement.clos import LONGEST, Clos
from detour.topo.paths import SwitchPath

PASSES = 50
"""over all flows at most; each pass lowers the number of collisions or is the last"""


class Candidates:
    """The paths of every pair of edge switches that occurs."""

    def __init__(self, clos: Clos, a: Int32Array, b: Int32Array) -> None:
        """`a`, `b`: (flows,) edge switches at which flows begin and end."""
        pairs, of_flow = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
        self.pair: Int32Array = of_flow.reshape(-1).astype(np.int32)
        """(flows,) number of the pair"""
        self.paths: list[SwitchPath] = []
        starts = [0]
        for one, other in pairs.tolist():
            self.paths += clos.candidates(one, other)
            starts.append(len(self.paths))
        self.start = np.array(starts, np.int32)
        """candidates of pair p are start[p] to start[p + 1]"""
        self.path_rows = np.full((len(self.paths), LONGEST), -1, np.int32)
        for row, path in enumerate(self.paths):
            self.path_rows[row, : len(path)] = path
        ahead = self.path_rows[:, 1:]
        self.links = np.where(ahead >= 0, clos.link[self.path_rows[:, :-1], ahead], -1).astype(np.int32)
        """(candidates, hops) links, -1: none"""


def spread(candidates: Candidates, load: Int32Array) -> Int32Array:
    """(flows,) the candidate of every flow; `load` holds what else is on the links and gets these flows added."""
    return _spread(candidates.pair, candidates.start, candidates.links, load, PASSES)


@njit
def _cost(links: Any, row: int, load: Any) -> int:
    """Collisions that one more flow on this candidate would cause."""
    total = 0
    for link in links[row]:
        if link >= 0:
            total += load[link]
    return total


@njit
def _add(links: Any, row: int, load: Any, flows: int) -> None:
    for link in links[row]:
        if link >= 0:
            load[link] += flows


@njit
def _cheapest(links: Any, first: int, end: int, load: Any, turn: int) -> int:
    """The cheapest candidate from `first` to `end`, the search beginning at a place that moves on with `turn`."""
    best, least = -1, -1
    for k in range(end - first):
        row = first + (k + turn) % (end - first)
        cost = _cost(links, row, load)
        if best < 0 or cost < least:
            best, least = row, cost
    return best


@njit
def _spread(pair: Any, start: Any, links: Any, load: Any, passes: int) -> Any:
    chosen = np.empty(len(pair), np.int32)
    for flow in range(len(pair)):
        p = pair[flow]
        chosen[flow] = _cheapest(links, start[p], start[p + 1], load, flow)
        _add(links, chosen[flow], load, 1)
    for turn in range(passes):
        better = False
        for flow in range(len(pair)):
            p = pair[flow]
            _add(links, chosen[flow], load, -1)
            row = _cheapest(links, start[p], start[p + 1], load, flow + turn)
            if _cost(links, row, load) < _cost(links, chosen[flow], load):
                chosen[flow] = row
                better = True
            _add(links, chosen[flow], load, 1)
        if not better:
            break
    return chosen
