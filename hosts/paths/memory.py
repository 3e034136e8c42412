# SPDX-License-Identifier: Apache-2.0
"""What connections of a host that spray know together: a new one need not begin as if nobody had ever sent
(docs/transports.md, "What the host knows").

For each group that a host sends to (bits 32 to 47 of the destination's address: group, pod; `topo.address`) it keeps
what the last packet waited on a shortest path, and what packets wait on detours. What a shortest path had waiting grows
less with its age, as that of one's own does (`spray`). It must be more than twice what detours wait and what a detour
is longer (`spray_ahead_mtus`), for the message may end with the packet.

Before the first answer is back nobody knows, but a host knows what it does itself: if most of its connections that
begin send to one group, its traffic is not uniform, and its neighbours' is not either, as far as it can tell. With one
or two connections, or connections to all groups, nothing is different: their first packets take shortest paths.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.structs import Int64, NativeRecord
from detour.hosts.draws import random_below
from detour.hosts.paths.delays import mtu_times
from detour.hosts.paths.probes import send_ptm
from detour.hosts.records import Config, QueuePair, Region
from detour.hosts.rows import cfg_row, host_row, region_row
from detour.hosts.state import NIL, REGIONS, Handle


class SprayState(NativeRecord):
    """What a QP has of the scheme (`spray`)."""

    short_wait: Int64  # what waits on shortest paths (-1: not known) as of when
    short_time: Int64
    detour_wait: Int64  # mean of detours
    short_mean: Int64  # mean of shortest paths
    short_share: Int64  # what part of answers came by them (65536: all)
    short_loss: Int64  # parts of packets that links of shortest paths and of detours lose
    detour_loss: Int64
    tokens: Int64  # paths that answered and have not been used again (`tokens`) and how many
    n_tokens: Int64


CROWD_CONNECTIONS = 3
"""that begin to send to one group at a time are more than chance brings together, where hosts send to all groups"""


@inner
def region(hs: Handle, q: QueuePair) -> Region:
    """What is known of the peer's group; another group that had the same row is forgotten."""
    group = (q.peer_hi >> 32) & 0xFFFF
    r = region_row(hs, q.host, group & (REGIONS - 1))
    if r.owner != group + 1:
        r.owner = group + 1
        r.short_wait = NIL
        r.detour_wait = NIL
        r.asked = 0
        _forget_open(r)
    return r


@inner
def recall(hs: Handle, q: QueuePair, s: SprayState, now: int) -> None:
    """A connection that knows nothing begins with what others know."""
    if s.short_wait != NIL or s.detour_wait != NIL:
        return
    r, cfg = region(hs, q), cfg_row(hs)
    if r.short_wait == NIL or not _knows_detours(hs, r, now):
        return
    aged = r.short_wait - (now - r.short_time) // cfg.tick_ps
    if aged > 2 * r.detour_wait + mtu_times(cfg, cfg.spray_ahead_mtus) // cfg.tick_ps:
        s.short_wait = r.short_wait
        s.short_mean = r.short_wait
        s.short_time = r.short_time
        s.detour_wait = r.detour_wait
        q.detours_known = 1


@inner
def _knows_detours(hs: Handle, r: Region, now: int) -> bool:
    return r.detour_wait != NIL and now - r.detour_time <= cfg_row(hs).spray_memory_ps


@inner
def _forget_open(r: Region) -> None:
    r.open = 0
    r.open_time = NIL
    r.begun = 0
    r.peer = 0


@inner
def _is_open(cfg: Config, r: Region, now: int) -> bool:
    """Whether packets without a token have taken shortest paths of late."""
    return r.open_time != NIL and now - r.open_time <= cfg.spray_memory_ps


@inner
def on_sent_short(hs: Handle, q: QueuePair, s: SprayState, now: int) -> None:
    """A packet without a token takes a shortest path."""
    r = region(hs, q)
    if not _is_open(cfg_row(hs), r, now):
        _forget_open(r)
    if q.inflight == 0 and s.short_wait == NIL and r.peer != q.peer_hi:
        r.begun += 1
        r.peer = q.peer_hi
    r.open += 1
    r.open_time = now


@inner
def on_short_way(hs: Handle, q: QueuePair) -> None:
    """A packet on a shortest path has not waited for long."""
    r = region(hs, q)
    if r.open > 0:
        r.open -= 1


@inner
def is_crowded_by_us(hs: Handle, q: QueuePair, now: int) -> bool:
    """Whether what the host has sent by shortest paths without news is a queue beyond the margin, if hosts around it do
    as it does."""
    r, cfg = region(hs, q), cfg_row(hs)
    if r.begun < CROWD_CONNECTIONS or r.open <= cfg.spray_margin_mtus or not _is_open(cfg, r, now):
        return False
    begun = 0
    for place in range(REGIONS):
        other = region_row(hs, q.host, place)
        if _is_open(cfg, other, now):
            begun += other.begun
    return 2 * r.begun > begun


@inner
def on_shortest(hs: Handle, q: QueuePair, wait: int, now: int) -> None:
    """A packet waited for so many ticks on a shortest path."""
    r = region(hs, q)
    r.short_wait = wait
    r.short_time = now


@inner
def on_detour(hs: Handle, q: QueuePair, wait: int, now: int) -> None:
    """Packets wait for so many ticks on detours."""
    r = region(hs, q)
    r.detour_wait = wait
    r.detour_time = now


@inner
def ask(hs: Handle, i: int, q: QueuePair, wait: int, now: int) -> None:
    """A packet waited for `wait` ticks on a shortest path: if that is enough for `recall`, asks what a detour is worth,
    unless a connection of the host knows or has asked."""
    r, cfg = region(hs, q), cfg_row(hs)
    if wait <= mtu_times(cfg, cfg.spray_ahead_mtus) // cfg.tick_ps:
        return
    if _knows_detours(hs, r, now) or (r.asked > 0 and now - r.asked < cfg.spray_memory_ps // 2):
        return
    r.asked = now
    send_ptm(hs, i, q, q.n_short + random_below(host_row(hs, q.host), q.n_cand - q.n_short))
