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


def transport(text: str) -> Transport:
    """The transport that a text names: `lerp` (selective repeat), `gbn` (RoCEv2's go-back-N), one of an installed
    package (group `detour.transports`), or `FILE.py:NAME`; with other parameters `gbn:ack_every=4`.

    Raises:
        DetourError: there is none, or no such parameter.
    """
    return TRANSPORT_REGISTRY.chosen(text)
