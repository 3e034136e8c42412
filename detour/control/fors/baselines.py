# SPDX-License-Identifier: Apache-2.0
"""Schedules and routings that FORS is compared with: schedules that ignore failures (linear shift, XOR and
bandwidth-optimal), Ftree's routing of these, and the routings of OpenSM.

With ranks: the servers that take part, numbered on without gaps. A phase in which everybody would send to itself (the
first one of the former two in MPI) is left out: in it the fabric has nothing to do.

OpenSM (section 2.3): every leaf reaches a server over one spine, whoever sends and whenever. Destinations are balanced
over links, not the flows of a phase.
"""

from __future__ import annotations

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree
from detour.control.fors.paper import closed_form
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan, Schedule, arranged, only_present


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
    """Prisacari et al. (ICS 2013): at most M0 - floor(M0/M1) flows leave a leaf in a phase. As many phases as places:
    servers have their own parts in different ones. For as many spines as places of a leaf."""
    flows = only_present(fabric, closed_form(fabric.hosts, fabric.leaves))
    return Schedule(-(-flows.phases // fabric.at_once), flows.phase // fabric.at_once, flows.src, flows.dst)


SCHEDULES = {"linear-shift": linear_shift, "xor": exclusive_or, "bandwidth-optimal": bandwidth_optimal}


def ftree(fabric: FatTree, schedule: Schedule) -> ForsPlan:
    """A schedule routed by destination, as Ftree does: the a-th server of a leaf is reached over its a-th uplink, the
    first cables of all spines before the second ones. Blind to failures; free of contention for a linear shift on a
    full fabric without any and with as many uplinks."""
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


ForwardingTable = np.ndarray
"""(leaves, slots) int32: the spine by which a leaf reaches a server; `INSIDE` for its own, and where there is none"""


def ftree_table(fabric: FatTree) -> ForwardingTable:
    """Ftree: servers in order take the spines in turn (the a-th server of a leaf spine a, if no spine is down). A
    server's spine is one that its leaf has a link to; a leaf that has none to it takes its least used common one."""
    alive = fabric.alive
    down = np.full(fabric.slots, INSIDE, np.int32)
    turn = 0
    for server in np.flatnonzero(fabric.present()).tolist():
        usable = np.flatnonzero(alive[server // fabric.hosts])
        if len(usable):
            # The next one in turn among all spines that are still of use to somebody.
            order = np.argsort((usable - turn) % fabric.spines)
            down[server] = usable[order[0]]
            turn = (int(down[server]) + 1) % fabric.spines
    return _per_leaf(fabric, down)


def _per_leaf(fabric: FatTree, down: np.ndarray) -> ForwardingTable:
    alive = fabric.alive
    table = np.full((fabric.leaves, fabric.slots), INSIDE, np.int32)
    for leaf in range(fabric.leaves):
        away = np.flatnonzero((np.arange(fabric.slots) // fabric.hosts != leaf) & (down != INSIDE))
        direct = alive[leaf, down[away]]
        table[leaf, away[direct]] = down[away[direct]]
        used = np.bincount(down[away[direct]], minlength=fabric.spines)
        for server in away[~direct].tolist():
            table[leaf, server] = least_used(used, alive[leaf] & alive[server // fabric.hosts])
    return table


def min_hop(fabric: FatTree, servers: np.ndarray | None = None) -> ForwardingTable:
    """Min-Hop: every leaf by itself, `servers` (None: all that are there) in order, each over the link with the fewest
    servers so far that is on a shortest path; among equals the first. On three levels spines are planes."""
    table = np.full((fabric.all_leaves, fabric.slots), INSIDE, np.int32)
    servers = np.flatnonzero(fabric.present()) if servers is None else servers
    for leaf in range(fabric.all_leaves):
        used = np.zeros(fabric.spines, np.int64)
        for server in servers[servers // fabric.hosts != leaf].tolist():
            table[leaf, server] = least_used(used, fabric.planes[leaf, server // fabric.hosts])
    return table


def least_used(used: np.ndarray, usable: np.ndarray) -> int:
    """The usable one with the lowest count, which rises; `INSIDE` if there is none."""
    choice = np.flatnonzero(usable)
    if not len(choice):
        return INSIDE
    best = int(choice[np.argmin(used[choice])])
    used[best] += 1
    return best


def by_default(fabric: FatTree) -> str:
    """Return the routing that OpenSM chooses: `ftree` while every spine has all its links or none, else `minhop`
    (section 3.1)."""
    links = fabric.alive.sum(axis=0)
    return "ftree" if np.isin(links, (0, fabric.leaves)).all() else "minhop"


ROUTING_ENGINES = {"ftree": ftree_table, "minhop": min_hop}


def spines_of(fabric: FatTree, table: ForwardingTable, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Spines (flows,) int32 of flows under a table. Raises `DetourError`: a pair of leaves has no spine in common."""
    leaf = src // fabric.hosts
    outside = leaf != dst // fabric.hosts
    spine = np.where(outside, table[leaf, dst], INSIDE).astype(np.int32)
    lost = np.flatnonzero(outside & (spine == INSIDE))
    if len(lost):
        u, v = int(leaf[lost[0]]), int(dst[lost[0]]) // fabric.hosts
        raise DetourError(f"{fabric.name}: leaves {u} and {v} have no common spine left")
    return spine


def cables_of(fabric: FatTree, table: ForwardingTable, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """(2, flows) cables up and down: what a leaf sends to a spine takes its working cables in turn, by destination, the
    same at the spine. 0 inside a leaf, and where there is no way."""
    turns = np.zeros((2, fabric.leaves, fabric.slots), np.int64)
    working = fabric.working
    there = fabric.present()
    for leaf in range(fabric.leaves):
        for spine in range(fabric.spines):
            mine = np.flatnonzero(table[leaf] == spine)
            up = np.flatnonzero(working[leaf, spine])
            turns[0, leaf, mine] = up[np.arange(len(mine)) % len(up)] if len(up) else 0
    places = np.where(there, np.arange(fabric.slots) % fabric.hosts // fabric.spines, 0)
    for server in np.flatnonzero(there).tolist():
        for leaf in range(fabric.leaves):
            down = np.flatnonzero(working[server // fabric.hosts, table[leaf, server]])
            turns[1, leaf, server] = down[places[server] % len(down)] if len(down) else 0
    leaf = src // fabric.hosts
    return np.where(leaf != dst // fabric.hosts, turns[:, leaf, dst], 0)
