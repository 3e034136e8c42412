# SPDX-License-Identifier: Apache-2.0
"""The paper's own algorithms, corrected: schedules in closed form (Algorithm 1, and the one for few failures), spines
for them (Algorithm 2), and recolouring of phases where that does not apply.

Both schedules are *shifts*: in a phase, the a-th server of every leaf sends the same number of leaves further. So a
phase's flows between leaves form a circulant multigraph, and there are few different ones. The number of a server is
s = a + g * M0, P = M0 * M1. The paper counts a server's own part as a message that takes a phase, as in MPI's
all-to-all, and so has P phases at least. Nothing is sent for it, and where P - 1 are enough `solve.py` finds them: it
spreads the flows out of a leaf evenly over phases, which linear shift does not, and so a link that breaks later costs
few phases more.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import Schedule, by_phase
from detour.control.fors.recolour import complete
from detour.control.fors.recolour import recoloured as recoloured_edges

_TRIES_INSIDE = 20
_TRIES = 6
_BUDGET = 1500


def phases_needed(spines: int, leaves: int, reduction: int) -> int:
    """Phases for f = `reduction`: P - 1, or ceil(M0 (P - M0) / (M0 - f)) if that is more (section 4). Raises
    `DetourError`: f is not in 0..M0-1."""
    if not 0 <= reduction < spines:
        raise DetourError(f"a reduction of {reduction} links is not in 0..{spines - 1} (f < M0)")
    return max(spines * leaves - 1, -(-spines * (spines * leaves - spines) // (spines - reduction)))


def schedule(spines: int, leaves: int, reduction: int) -> Schedule | None:
    """All pairs on FT(2; M0, M1) in which no leaf sends or receives more than M0 - f flows a phase over spines. None
    where P - 1 phases are enough. Raises `DetourError`: f is not in 0..M0-1."""
    if phases_needed(spines, leaves, reduction) < spines * leaves:
        return None
    if reduction <= spines // leaves:
        return closed_form(spines, leaves)
    return algorithm_1(spines, leaves, reduction)


def closed_form(spines: int, leaves: int) -> Schedule:
    """The bandwidth-optimal schedule (Prisacari et al., ICS 2013): P phases, at most M0 - floor(M0/M1) flows of a leaf.
    Right for every f <= floor(M0/M1)."""
    slots = spines * leaves
    p, a, g = np.ogrid[:slots, :spines, :leaves]
    n = p + a
    leaf = (g + (n + p // math.lcm(spines, leaves)) % leaves) % leaves
    dst = leaf * spines + n % spines + 0 * g
    src = g * spines + a + 0 * p
    phase = p + 0 * src
    return _without_self(slots, phase, src, dst)


def algorithm_1(spines: int, leaves: int, reduction: int) -> Schedule:
    """Algorithm 1, corrected, with the intra-leaf flows in the phases in which their servers are idle. Raises
    `DetourError`: f is out of range or there are not enough idle phases (f <= floor(M0/M1): use `closed_form`)."""
    phases = phases_needed(spines, leaves, reduction)
    between = inter_leaf(spines, leaves, reduction)
    inside = intra_leaf(spines, phases, between)
    # One leaf's flows are those of every leaf.
    offset = np.arange(leaves, dtype=np.int32)[:, None] * spines
    everywhere = np.tile(inside.phase, leaves), (inside.src + offset).ravel(), (inside.dst + offset).ravel()
    columns = (np.concatenate(pair) for pair in zip(between[1:], everywhere, strict=True))
    return _without_self(phases, *columns)


def inter_leaf(spines: int, leaves: int, reduction: int) -> Schedule:
    """The flows between leaves (section 4): M0 (P - M0) a leaf, spread as evenly as can be over the phases. The printed
    algorithm is wrong in two places: docs/facts.md, "FORS: errors in the paper"."""
    phases = phases_needed(spines, leaves, reduction)
    if leaves == 1:
        return Schedule(phases, *(np.zeros(0, np.int32) for _ in range(3)))
    left = spines - reduction
    sends = spines * (leaves - 1)
    a, i, g = np.ogrid[:spines, :sends, :leaves]
    n = i + (a - 1) * left // spines + 1
    phase = -(-n * spines // left) - a
    leaf = (n + i // math.lcm(leaves - 1, spines)) % (leaves - 1)
    dst = (leaf * spines + n % spines + (g + 1) * spines) % (spines * leaves)
    src = g * spines + a + 0 * i
    return _schedule(phases, phase + 0 * src, src, dst)


def intra_leaf(spines: int, phases: int, between: Schedule) -> Schedule:
    """One leaf's own M0 * M0 pairs (a server with itself among them) in the idle phases of leaf 0. All leaves are idle
    in the same pattern, so leaf 0 stands for each. This is an edge colouring of K(M0, M0) in which a sender and a
    receiver each have their own list of colours, the phases in which they are idle. Raises `DetourError`: no such
    colouring was found."""
    sending = np.ones((spines, phases), bool)
    receiving = np.ones((spines, phases), bool)
    out = between.src < spines
    sending[between.src[out], between.phase[out]] = False
    into = between.dst < spines
    receiving[between.dst[into], between.phase[into]] = False
    senders, receivers = (part.ravel().astype(np.int32) for part in np.indices((spines, spines)))
    for attempt in range(_TRIES_INSIDE):
        phase = np.full(spines * spines, -1, np.int32)
        if complete(senders, receivers, sending, receiving, phase, 20_000, attempt + 1) == 0:
            return _schedule(phases, phase, senders, receivers)
    raise DetourError(f"no intra-leaf schedule was found for {spines} servers in {phases} phases")


def _schedule(phases: int, phase: np.ndarray, src: np.ndarray, dst: np.ndarray) -> Schedule:
    return Schedule(phases, *(column.ravel().astype(np.int32) for column in (phase, src, dst)))


def _without_self(phases: int, phase: np.ndarray, src: np.ndarray, dst: np.ndarray) -> Schedule:
    """Make a schedule without the parts that servers send to themselves."""
    phase, src, dst = (column.ravel() for column in (phase, src, dst))
    keep = src != dst
    return _schedule(phases, phase[keep], src[keep], dst[keep])


def algorithm_2(fabric: FatTree, schedule: Schedule) -> np.ndarray | None:
    """Spines (flows,) int32 by Algorithm 2, or None where it does not apply. It uses the spines without any failed link
    only, the i-th of them for the i-th flow out of a leaf; the index begins anew at every source leaf (docs/facts.md,
    "FORS: errors in the paper"). It applies if no leaf sends more flows a phase than there are such spines: with f of
    them impacted. The schedule has to be a shift."""
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


def recoloured(fabric: FatTree, schedule: Schedule) -> np.ndarray | None:
    """Spines (flows,) int32 by recolouring, or None if a phase resisted (which proves nothing). A phase's routing
    depends on how many flows go from which leaf to which only; every such multigraph is coloured once."""
    src_leaf, dst_leaf = schedule.src // fabric.hosts, schedule.dst // fabric.hosts
    rows = np.flatnonzero(src_leaf != dst_leaf)
    pair = src_leaf[rows] * fabric.leaves + dst_leaf[rows]
    order = by_phase(schedule.phase[rows], pair)
    rows, pair = rows[order], np.ascontiguousarray(pair[order], np.int32)
    bounds = np.searchsorted(schedule.phase[rows], np.arange(schedule.phases + 1))
    alive = fabric.alive
    colours_of: dict[bytes, np.ndarray] = {}
    spine = np.full(len(schedule.phase), INSIDE, np.int32)
    for begin, end in pairwise(bounds):
        edges = pair[begin:end]
        name = edges.tobytes()
        if name not in colours_of:
            ends, none = divmod(edges, fabric.leaves), np.full(len(edges), -1, np.int32)
            colours = recoloured_edges(*ends, alive, none, _BUDGET, _TRIES)
            if colours is None:
                return None
            colours_of[name] = colours
        spine[rows[begin:end]] = colours_of[name]
    return spine
