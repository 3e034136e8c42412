# SPDX-License-Identifier: Apache-2.0
"""The built-in transports as a part of native code."""

from __future__ import annotations

from detour.base.native import Part
from detour.hosts.plugins import build_in
from detour.hosts.records import QueuePair
from detour.hosts.transport import plugin
from detour.hosts.transport.gbn import GBN
from detour.hosts.transport.lerp import LERP

TRANSPORTS = Part("transports", __name__)

for _each in (LERP, GBN):
    build_in(TRANSPORTS, _each, QueuePair.dtype, plugin.entry_of)
