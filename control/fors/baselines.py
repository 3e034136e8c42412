# SPDX-License-Identifier: Apache-2.0
"""Schedules that know of no failures: linear shift, XOR and bandwidth-optimal, and Ftree's routing.

With ranks: the servers that are there, numbered on without gaps.
"""

from __future__ import annotations

import numpy as np

from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import INSIDE, ForsPlan, Schedule, arranged, only_present
from detour.control.fors.schedule import closed_form


def linear_shift(fabric: FatTree2) -> Schedule:
    """Rank r sends to r + p in phase p (section 2.2): as many phases as servers; the first one is for the own part."""
    ranks = fabric.servers
    rank, phase = (part.ravel() for part in np.indices((ranks, ranks)))
    return _of_ranks(fabric, ranks, phase, rank, (rank + phase) % ranks)


def exclusive_or(fabric: FatTree2) -> Schedule:
    """Rank r exchanges with r XOR p in phase p (pairwise exchange); phases are the next power of two."""
    ranks = fabric.servers
    phases = 1 << max(ranks - 1, 0).bit_length()
    rank, phase = (part.ravel() for part in np.indices((ranks, phases)))
    there = (rank ^ phase) < ranks
    return _of_ranks(fabric, phases, phase[there], rank[there], (rank ^ phase)[there])


def bandwidth_optimal(fabric: FatTree2) -> Schedule:
    """Prisacari et al. (ICS 2013): at most M0 - floor(M0/M1) flows leave a leaf in a phase."""
    return only_present(fabric, closed_form(fabric.spines, fabric.leaves))


SCHEDULES = {"linear-shift": linear_shift, "xor": exclusive_or, "bandwidth-optimal": bandwidth_optimal}


def ftree(fabric: FatTree2, schedule: Schedule) -> ForsPlan:
    """A schedule routed by destination, as Ftree does: the a-th server of a leaf is reached over spine a.

    Blind to failures; free of contention for a linear shift on a full fabric without any.
    """
    outside = schedule.src // fabric.spines != schedule.dst // fabric.spines
    return arranged(fabric, schedule, np.where(outside, schedule.dst % fabric.spines, INSIDE))


def _of_ranks(fabric: FatTree2, phases: int, phase: np.ndarray, src: np.ndarray, dst: np.ndarray) -> Schedule:
    """The servers of ranks; nobody sends to itself."""
    servers = np.flatnonzero(fabric.present())
    keep = src != dst
    columns = (phase[keep], servers[src[keep]], servers[dst[keep]])
    return Schedule(phases, *(column.astype(np.int32) for column in columns))
