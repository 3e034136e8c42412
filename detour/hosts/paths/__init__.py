# SPDX-License-Identifier: Apache-2.0
"""Choice of paths by the sender: schemes by name. `plugin` says how one is written, `paths` has what is called."""

from __future__ import annotations

from detour.base.plugins import PluginRegistry
from detour.hosts.paths.plugin import PathScheme

# pyright: reportUnsupportedDunderAll=false
__all__ = ["built_in", "health", "paths", "plugin", "tokens"]

PATH_REGISTRY = PluginRegistry(
    "path_schemes",
    "path scheme",
    PathScheme,
    {
        "fixed": PathScheme(name="fixed"),
        "shortest": PathScheme(name="shortest", times=(), ports="shortest"),
        "detour": PathScheme(name="detour", ports="detours"),
        "pinned": PathScheme(name="pinned", times=(), ports="shortest"),
        "probing": "detour.hosts.paths.probing:PROBING",
        "reacting": "detour.hosts.paths.reacting:REACTING",
        "spray": "detour.hosts.paths.spray:SPRAY",
        "pathset": "detour.hosts.paths.pathset:PATHSET",
        "oblivious": "detour.hosts.paths.built_in:OBLIVIOUS",
        "valiant": "detour.hosts.paths.built_in:VALIANT",
    },
    any_case=True,
    former={"telemetry": "probing", "spraying": "spray", "set": "pathset", "weighted": "pathset"},
)
path_scheme = PATH_REGISTRY.chosen
