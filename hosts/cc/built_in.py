# SPDX-License-Identifier: Apache-2.0
"""The built-in algorithms of queue pairs as a part of native code. Those of TCP's connections, and of users, are
compiled hook by hook."""

from __future__ import annotations

from detour.base.parts import Part
from detour.hosts.cc import plugin
from detour.hosts.cc.cubic import CUBIC
from detour.hosts.cc.dcqcn import DCQCN
from detour.hosts.cc.dctcp import DCTCP
from detour.hosts.cc.fixed import FIXED
from detour.hosts.cc.newreno import NEWRENO
from detour.hosts.cc.nscc import NSCC
from detour.hosts.plugins import build_in
from detour.hosts.records import Config, QueuePair

CONGESTION = Part("cc", __name__)

for _each in (DCTCP, DCQCN, FIXED, NEWRENO, CUBIC, NSCC):
    _parameters = Config.dtype if _each.parameters is None else _each.parameter_type(plugin.HostParameters)
    build_in(CONGESTION, _each, _parameters, QueuePair.dtype, plugin.entry_of)
