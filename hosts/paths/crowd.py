# SPDX-License-Identifier: Apache-2.0
"""To whom the connections of a host begin to send: what it can tell of traffic before the first answer is back
(docs/transports.md, "SprayLERP").

Nobody knows the queues then, and a host can only suppose that its neighbours do as it does. Connections that begin to
send to few groups (bits 32 to 47 of the destination's address: group, pod; `topo.address`) fill what leads there.
Connections to many groups, as far as chance has it, are uniform traffic, which detours slow down. A single connection
may be either.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.paths.delays import mtu_times
from detour.hosts.records import Config, QueuePair, Region
from detour.hosts.rows import cfg_row, region_row
from detour.hosts.state import REGIONS, Handle

_ROUND_TRIPS = 8
"""after which connections to a group are forgotten, if no further one begins"""


@inner
def _is_recent(cfg: Config, r: Region, now: int) -> bool:
    return r.begun > 0 and now - r.begun_at <= _ROUND_TRIPS * mtu_times(cfg, cfg.bdp_packets)


@inner
def on_begin(hs: Handle, q: QueuePair, now: int) -> None:
    """A connection begins to send; several to one host in a row count once."""
    group = (q.peer_hi >> 32) & 0xFFFF
    r = region_row(hs, q.host, group & (REGIONS - 1))
    if r.owner != group + 1 or not _is_recent(cfg_row(hs), r, now):
        r.owner = group + 1
        r.begun = 0
    if r.begun == 0 or r.peer != q.peer_hi:
        r.begun += 1
        r.begun_at = now
        r.peer = q.peer_hi


@inner
def connections(hs: Handle, q: QueuePair, now: int) -> int:
    """How many have begun of late."""
    begun = 0
    for place in range(REGIONS):
        r = region_row(hs, q.host, place)
        begun += int(r.begun) if _is_recent(cfg_row(hs), r, now) else 0
    return begun


@inner
def groups(hs: Handle, q: QueuePair, now: int) -> int:
    """To how many groups."""
    count = 0
    for place in range(REGIONS):
        count += int(_is_recent(cfg_row(hs), region_row(hs, q.host, place), now))
    return count
