# SPDX-License-Identifier: Apache-2.0
"""Schedules that know of no failures: linear shift, XOR and bandwidth-optimal, and Ftree's routing.

With ranks: the servers that take part, numbered on without gaps. A phase in which everybody would send to itself (the
first one of the former two in MPI) is left out: in it the fabric has nothing to do.
"""

from __future__ import annotations

import numpy as np

from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import INSIDE, ForsPlan, Schedule, arranged, only_present
from detour.control.fors.schedule import closed_form


def linear_shift(fabric: FatTree2) -> Schedule:
    """Rank r sends to r + p + 1 in phase p (section 2.2): a phase less than there are servers."""
    ranks = fabric.servers
    rank, phase = (part.ravel() for part in np.indices((ranks, max(ranks - 1, 0))))
    return _of_ranks(fabric, max(ranks - 1, 0), phase, rank, (rank + phase + 1) % max(ranks, 1))


def exclusive_or(fabric: FatTree2) -> Schedule:
    """Rank r exchanges with r XOR (p + 1) in phase p (pairwise exchange); phases: the next power of two, less one."""
    ranks = fabric.servers
    phases = (1 << max(ranks - 1, 0).bit_length()) - 1
    rank, phase = (part.ravel() for part in np.indices((ranks, phases)))
    other = rank ^ (phase + 1)
    there = other < ranks
    return _of_ranks(fabric, phases, phase[there], rank[there], other[there])


def bandwidth_optimal(fabric: FatTree2) -> Schedule:
    """Prisacari et al. (ICS 2013): at most M0 - floor(M0/M1) flows leave a leaf in a phase.

    As many phases as places: servers have their own parts in different ones.
    """
    return only_present(fabric, closed_form(fabric.spines, fabric.leaves))


SCHEDULES = {"linear-shift": linear_shift, "xor": exclusive_or, "bandwidth-optimal": bandwidth_optimal}


def ftree(fabric: FatTree2, schedule: Schedule) -> ForsPlan:
    """A schedule routed by destination, as Ftree does: the a-th server of a leaf is reached over spine a.

    Blind to failures; free of contention for a linear shift on a full fabric without any.
    """
    outside = schedule.src // fabric.spines != schedule.dst // fabric.spines
    return arranged(fabric, schedule, np.where(outside, schedule.dst % fabric.spines, INSIDE))


def _of_ranks(fabric: FatTree2, phases: int, phase: np.ndarray, src: np.ndarray, dst: np.ndarray) -> Schedule:
    """The servers of ranks."""
    servers = np.flatnonzero(fabric.taking_part())
    columns = (phase, servers[src], servers[dst])
    return Schedule(phases, *(column.astype(np.int32) for column in columns))
