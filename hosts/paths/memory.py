# SPDX-License-Identifier: Apache-2.0
"""What connections of a host that spray know together: a new one need not begin as if nobody had ever sent.

For each group that a host sends to (bits 32 to 47 of the destination's address: group, pod; `topo.address`) it keeps
what the last packet waited on a shortest path, and what packets wait on detours. Answers to all its connections keep
that up to date. A connection that has no answer yet takes it for its own if it is younger than `spray_memory_ps`; what
a shortest path had waiting grows less with its age, as that of one's own does (`spray`). It must be more than twice
what detours wait and what a detour is longer (`spray_ahead_mtus`), for the message may end with the packet.

Where shortest paths are crowded and nothing is known of detours, a connection asks one detour with a PTM, at most once
in half of that time for a host and group. So connections that are too short to try a detour find out what one is worth,
for those that come after them.
"""

from __future__ import annotations

from typing import Any

from detour.hosts.jit import inner
from detour.hosts.nic import random_below
from detour.hosts.paths import delays
from detour.hosts.paths.probes import send_ptm
from detour.hosts.rows import cfg_row, host_row, region_row
from detour.hosts.state import NIL, REGIONS


@inner
def region(hs: Any, q: Any) -> Any:
    """What is known of the peer's group; another group that had the same row is forgotten."""
    group = (q.peer_hi >> 32) & 0xFFFF
    r = region_row(hs, q.host, group & (REGIONS - 1))
    if r.owner != group + 1:
        r.owner = group + 1
        r.short_wait = NIL
        r.detour_wait = NIL
        r.asked = 0
    return r


@inner
def recall(hs: Any, q: Any, now: int) -> None:
    """A connection that knows nothing begins with what others know."""
    if q.short_wait != NIL or q.detour_wait != NIL:
        return
    r, cfg = region(hs, q), cfg_row(hs)
    if r.short_wait == NIL or not _knows_detours(hs, r, now):
        return
    aged = r.short_wait - (now - r.short_time) // cfg.tick_ps
    if aged > 2 * r.detour_wait + delays.mtu_times(cfg, cfg.spray_ahead_mtus) // cfg.tick_ps:
        q.short_wait = r.short_wait
        q.short_time = r.short_time
        q.detour_wait = r.detour_wait


@inner
def _knows_detours(hs: Any, r: Any, now: int) -> bool:
    return r.detour_wait != NIL and now - r.detour_time <= cfg_row(hs).spray_memory_ps


@inner
def on_shortest(hs: Any, q: Any, wait: int, now: int) -> None:
    """A packet waited for so many ticks on a shortest path."""
    r = region(hs, q)
    r.short_wait = wait
    r.short_time = now


@inner
def on_detour(hs: Any, q: Any, wait: int, now: int) -> None:
    """Packets wait for so many ticks on detours."""
    r = region(hs, q)
    r.detour_wait = wait
    r.detour_time = now


@inner
def ask(hs: Any, i: int, q: Any, now: int) -> None:
    """Shortest paths are crowded: asks what a detour is worth, if no connection of the host knows or has asked."""
    r = region(hs, q)
    if _knows_detours(hs, r, now) or (r.asked > 0 and now - r.asked < cfg_row(hs).spray_memory_ps // 2):
        return
    r.asked = now
    send_ptm(hs, i, q, q.n_short + random_below(host_row(hs, q.host), q.n_cand - q.n_short))
