# SPDX-License-Identifier: Apache-2.0
"""Spines for a schedule: Algorithm 2 of the paper, corrected, and recolouring of phases where it does not apply."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import Schedule, by_phase
from detour.control.fors.recolour import complete

_TRIES = 6
_BUDGET = 1500


def algorithm_2(fabric: FatTree, schedule: Schedule) -> np.ndarray | None:
    """Spines (flows,) int32 by Algorithm 2, or None where it does not apply.

    It uses the spines without any failed link only, the i-th of them for the i-th flow out of a leaf; the index begins
    anew at every source leaf (docs/facts.md, "FORS: what is printed wrong"). It applies if no leaf sends more flows a
    phase than there are such spines: with f of them impacted. The schedule has to be a shift (`schedule.py`).
    """
    healthy = np.flatnonzero(fabric.alive.all(axis=0)).astype(np.int32)
    src_leaf, dst_leaf = schedule.src // fabric.hosts, schedule.dst // fabric.hosts
    rows = np.flatnonzero(src_leaf != dst_leaf)
    rows = rows[by_phase(schedule.phase[rows], schedule.src[rows])]
    group = schedule.phase[rows].astype(np.int64) * fabric.leaves + src_leaf[rows]
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    index = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    if len(rows) and index.max() >= len(healthy):
        return None
    spine = np.full(len(schedule.phase), INSIDE, np.int32)
    spine[rows] = healthy[index]
    return spine


def recoloured(fabric: FatTree, schedule: Schedule, seed: int = 1) -> np.ndarray | None:
    """Spines (flows,) int32 by recolouring, or None if a phase resisted (which proves nothing).

    A phase's routing depends on how many flows go from which leaf to which only; every such multigraph is coloured
    once.
    """
    src_leaf, dst_leaf = schedule.src // fabric.hosts, schedule.dst // fabric.hosts
    rows = np.flatnonzero(src_leaf != dst_leaf)
    pair = src_leaf[rows] * fabric.leaves + dst_leaf[rows]
    order = by_phase(schedule.phase[rows], pair)
    rows, pair = rows[order], np.ascontiguousarray(pair[order], np.int32)
    bounds = np.searchsorted(schedule.phase[rows], np.arange(schedule.phases + 1))
    alive = fabric.alive
    known: dict[bytes, np.ndarray] = {}
    spine = np.full(len(schedule.phase), INSIDE, np.int32)
    for begin, end in pairwise(bounds):
        edges = pair[begin:end]
        name = edges.tobytes()
        if name not in known:
            colours = _one_phase(edges // fabric.leaves, edges % fabric.leaves, alive, seed)
            if colours is None:
                return None
            known[name] = colours
        spine[rows[begin:end]] = known[name]
    return spine


def _one_phase(source: np.ndarray, target: np.ndarray, alive: np.ndarray, seed: int) -> np.ndarray | None:
    for attempt in range(_TRIES):
        colour = np.full(len(source), -1, np.int32)
        if complete(source, target, alive, alive, colour, _BUDGET, seed + attempt) == 0:
            return colour
    return None
