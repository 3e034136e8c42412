# SPDX-License-Identifier: Apache-2.0
"""Congestion control, by name. What transports call is in `control`, how an algorithm is written in `plugin`."""

from __future__ import annotations

from detour.base import plugins
from detour.hosts.cc.plugin import CongestionAlgorithm

# pyright: reportUnsupportedDunderAll=false
__all__ = ["built_in", "control", "dcqcn"]

CC_REGISTRY = plugins.PluginRegistry(
    "congestion_control",
    "congestion control",
    CongestionAlgorithm,
    {
        "dctcp": "detour.hosts.cc.dctcp:DCTCP",
        "dcqcn": "detour.hosts.cc.dcqcn:DCQCN",
        "fixed": "detour.hosts.cc.built_in:FIXED",
        "newreno": "detour.hosts.cc.newreno:NEWRENO",
        "cubic": "detour.hosts.cc.cubic:CUBIC",
        "nscc": "detour.hosts.cc.nscc:NSCC",
    },
    any_case=True,
)
algorithm = CC_REGISTRY.chosen


def pinned(text: str) -> str:
    """The same text, checked, with a digest of the file that it names, if it does (`plugins.pinned`).

    Raises:
        DetourError: see `algorithm`.
    """
    algorithm(text)
    name, rest = plugins.split(text)
    return plugins.pinned(name) + (f":{rest}" if rest else "")
