# SPDX-License-Identifier: Apache-2.0
"""Schedules that know of no failures: linear shift, XOR and bandwidth-optimal, and Ftree's routing.

With ranks: the servers that take part, numbered on without gaps. A phase in which everybody would send to itself (the
first one of the former two in MPI) is left out: in it the fabric has nothing to do.
"""

from __future__ import annotations

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan, Schedule, arranged, only_present
from detour.control.fors.schedule import closed_form


def linear_shift(fabric: FatTree) -> Schedule:
    """Rank r sends to r + p + 1 in phase p (section 2.2): a phase less than there are servers."""
    ranks = fabric.servers
    rank, phase = (part.ravel() for part in np.indices((ranks, max(ranks - 1, 0))))
    return _of_ranks(fabric, max(ranks - 1, 0), phase, rank, (rank + phase + 1) % max(ranks, 1))


def exclusive_or(fabric: FatTree) -> Schedule:
    """Rank r exchanges with r XOR (p + 1) in phase p (pairwise exchange); phases: the next power of two, less one."""
    ranks = fabric.servers
    phases = (1 << max(ranks - 1, 0).bit_length()) - 1
    rank, phase = (part.ravel() for part in np.indices((ranks, phases)))
    other = rank ^ (phase + 1)
    there = other < ranks
    return _of_ranks(fabric, phases, phase[there], rank[there], other[there])


def bandwidth_optimal(fabric: FatTree) -> Schedule:
    """Prisacari et al. (ICS 2013): at most M0 - floor(M0/M1) flows leave a leaf in a phase.

    As many phases as places: servers have their own parts in different ones. For as many spines as places of a leaf.
    """
    flows = only_present(fabric, closed_form(fabric.hosts, fabric.leaves))
    return Schedule(-(-flows.phases // fabric.at_once), flows.phase // fabric.at_once, flows.src, flows.dst)


SCHEDULES = {"linear-shift": linear_shift, "xor": exclusive_or, "bandwidth-optimal": bandwidth_optimal}


def ftree(fabric: FatTree, schedule: Schedule) -> ForsPlan:
    """A schedule routed by destination, as Ftree does: the a-th server of a leaf is reached over its a-th uplink, the
    first cables of all spines before the second ones.

    Blind to failures; free of contention for a linear shift on a full fabric without any and with as many uplinks.
    """
    outside = schedule.src // fabric.hosts != schedule.dst // fabric.hosts
    uplink = schedule.dst % fabric.hosts % fabric.uplinks
    cable = np.where(outside, uplink // fabric.spines, 0)
    spine = np.where(outside, uplink % fabric.spines, INSIDE)
    return arranged(fabric, schedule, spine, None if fabric.cables == 1 else np.stack([cable, cable]))


def _of_ranks(fabric: FatTree, phases: int, phase: np.ndarray, src: np.ndarray, dst: np.ndarray) -> Schedule:
    """The servers of ranks."""
    servers = np.flatnonzero(fabric.taking_part())
    columns = (phase // fabric.at_once, servers[src], servers[dst])
    return Schedule(-(-phases // fabric.at_once), *(column.astype(np.int32) for column in columns))
