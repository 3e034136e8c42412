# SPDX-License-Identifier: Apache-2.0
"""Transports: what is sent, what is believed of what comes back, and when to send again. `plugin` says how one is
written; `sender` and `responder` have what is called."""

from __future__ import annotations

from detour.base.plugins import PluginRegistry
from detour.hosts.transport.plugin import Transport

# pyright: reportUnsupportedDunderAll=false
__all__ = ["built_in"]

TRANSPORT_REGISTRY = PluginRegistry(
    "transports",
    "transport",
    Transport,
    {"lerp": "detour.hosts.transport.lerp:LERP", "gbn": "detour.hosts.transport.gbn:GBN"},
    any_case=True,
)
transport = TRANSPORT_REGISTRY.chosen
"""`lerp` is selective repeat, `gbn` RoCEv2's go-back-N"""
