# SPDX-License-Identifier: Apache-2.0
"""Knowledge that a spraying host shares among its connections until the first answer is back (docs/transports.md,
"SprayLERP").

Nobody knows the queues then, but a host knows what it does itself, and can only suppose that its neighbours do as it
does. Connections that begin to send to few groups (bits 32 to 47 of the destination's address: group, pod;
`topo.address`) fill what leads there. Connections to many groups, as far as chance has it, are uniform traffic, which
detours only slow down. One connection, or several to one group, may be either.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.structs import Int64, NativeRecord
from detour.hosts.paths.delays import mtu_times
from detour.hosts.records import Config, QueuePair, Region
from detour.hosts.rows import cfg_row, region_row
from detour.hosts.state import NIL, REGIONS, Handle


class SprayState(NativeRecord):
    """The scheme's state of a QP (`spray`)."""

    short_wait: Int64  # what waits on shortest paths (-1: not known) as of when
    short_time: Int64
    short_mean: Int64  # mean of shortest paths
    short_run: Int64  # answers by shortest paths since the last one by a detour
    detour_wait: Int64  # mean of detours
    short_loss: Int64  # parts of packets that links of shortest paths and of detours lose
    detour_loss: Int64
    tokens: Int64  # paths that answered and have not been used again (`tokens`) and how many
    n_tokens: Int64


_ROUND_TRIPS = 8
"""for which packets without news count"""
_FEW = 16
"""a bandwidth-delay product is so many times the packets without news that a host may have on shortest paths to a group
that it fills"""


@inner
def _region(hs: Handle, q: QueuePair) -> Region:
    """Return the row of the peer's group; another group that had the same row is forgotten."""
    group = (q.peer_hi >> 32) & 0xFFFF
    r = region_row(hs, q.host, group & (REGIONS - 1))
    if r.owner != group + 1:
        r.owner = group + 1
        _forget(r)
    return r


@inner
def _forget(r: Region) -> None:
    r.open = 0
    r.open_time = NIL
    r.begun = 0
    r.peer = 0


@inner
def _is_open(cfg: Config, r: Region, now: int) -> bool:
    """Return whether connections have begun, or packets without a token have taken shortest paths, of late."""
    return r.open_time != NIL and now - r.open_time <= _ROUND_TRIPS * mtu_times(cfg, cfg.bdp_packets)


@inner
def on_begin(hs: Handle, q: QueuePair, s: SprayState, now: int) -> None:
    """A packet without a token is about to go out."""
    r = _region(hs, q)
    if not _is_open(cfg_row(hs), r, now):
        _forget(r)
    if q.inflight == 0 and s.short_wait == NIL and r.peer != q.peer_hi:
        r.begun += 1
        r.peer = q.peer_hi
        r.open_time = now


@inner
def on_sent_short(hs: Handle, q: QueuePair, now: int) -> None:
    """Record that a packet takes a shortest path."""
    r = _region(hs, q)
    r.open += 1
    r.open_time = now


@inner
def on_short_way(hs: Handle, q: QueuePair) -> None:
    """A packet on a shortest path has not waited for long."""
    r = _region(hs, q)
    if r.open > 0:
        r.open -= 1


@inner
def groups_begun(hs: Handle, q: QueuePair, now: int) -> int:
    """The number of groups to which connections of the host have begun to send of late."""
    groups = 0
    for place in range(REGIONS):
        r = region_row(hs, q.host, place)
        groups += int(r.begun > 0 and _is_open(cfg_row(hs), r, now))
    return groups


@inner
def _connections_begun(hs: Handle, q: QueuePair, now: int) -> int:
    """Number of connections with this state."""
    begun = 0
    for place in range(REGIONS):
        r = region_row(hs, q.host, place)
        begun += int(r.begun) if _is_open(cfg_row(hs), r, now) else 0
    return begun


@inner
def is_crowded_by_us(hs: Handle, q: QueuePair, now: int) -> bool:
    """Return whether what the host has sent by shortest paths without news is a queue, if hosts around it do as it
    does. There are about as many detours as other groups."""
    r, cfg = _region(hs, q), cfg_row(hs)
    if r.open <= cfg.bdp_packets // _FEW or not _is_open(cfg, r, now):
        return False
    return 0 < 2 * groups_begun(hs, q, now) <= min(_connections_begun(hs, q, now), q.n_cand - q.n_short)
