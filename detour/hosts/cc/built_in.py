# SPDX-License-Identifier: Apache-2.0
"""The built-in algorithms of queue pairs as a part of native code. Those of TCP's connections, and of users, are
compiled hook by hook."""

from __future__ import annotations

from detour.base.native import Part
from detour.base.structs import NativeRecord
from detour.hosts.cc import plugin
from detour.hosts.cc.cubic import CUBIC
from detour.hosts.cc.dcqcn import DCQCN
from detour.hosts.cc.dctcp import DCTCP
from detour.hosts.cc.newreno import NEWRENO
from detour.hosts.cc.nscc import NSCC
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.plugins import build_in
from detour.hosts.records import QueuePair, Sender


@hook
def on_path(p: HostParameters, s: NativeRecord, q: Sender, packet: Packet, now: int) -> None:
    """The first path's window, on every other one too."""
    q.cwnd = max(float(p.min_cwnd), q.cwnd_initial)


FIXED = CongestionAlgorithm(hooks=(on_path,), name="fixed", times=())
"""a window that never changes, for tests and baselines"""

CONGESTION = Part("cc", __name__)

for _each in (DCTCP, DCQCN, FIXED, NEWRENO, CUBIC, NSCC):
    build_in(CONGESTION, _each, QueuePair.dtype, plugin.entry_of)
