# SPDX-License-Identifier: Apache-2.0
"""A window that never changes, for tests and baselines."""

from __future__ import annotations

from detour.base.structs import NativeRecord
from detour.hosts.cc.plugin import CongestionAlgorithm, Packet, hook
from detour.hosts.config import HostConfig
from detour.hosts.records import Sender


@hook
def on_path(p: HostConfig, s: NativeRecord, q: Sender, packet: Packet, now: int) -> None:
    """The first path's window, on every other one too."""
    q.cwnd = max(float(p.min_cwnd), q.cwnd_initial)


FIXED = CongestionAlgorithm(hooks=(on_path,), name="fixed")
