# SPDX-License-Identifier: Apache-2.0
"""Queuing delays in MTU transmission times."""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.records import Config


@inner
def mtu_times(cfg: Config, count: int) -> int:
    """So many MTU transmission times, ps."""
    return count * (cfg.mtu * 8_000_000_000_000 // cfg.link_rate_bps)


@inner
def is_empty(cfg: Config, delay: int) -> bool:
    """Whether a packet that waited for `delay` ticks (-1: not known) met next to no queue."""
    return 0 <= delay * cfg.tick_ps <= mtu_times(cfg, cfg.empty_mtus)
