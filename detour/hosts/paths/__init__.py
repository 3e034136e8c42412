# SPDX-License-Identifier: Apache-2.0
"""Choice of paths by the sender. Schemes by name; how one is written is in `own`, what transports call in `paths`."""

from __future__ import annotations

from detour.hosts.paths.plugin import PathScheme
from detour.hosts.plugins import PluginRegistry

# pyright: reportUnsupportedDunderAll=false
__all__ = ["built_in", "health", "paths", "plugin", "tokens"]

PATH_REGISTRY = PluginRegistry(
    "path_schemes",
    "path scheme",
    PathScheme,
    {
        "fixed": PathScheme(name="fixed"),
        "probing": "detour.hosts.paths.probing:PROBING_PATHS",
        "reacting": "detour.hosts.paths.reacting:REACTING_PATHS",
        "spraying": "detour.hosts.paths.spray:SPRAYING_PATHS",
        "weighted": "detour.hosts.paths.sets:WEIGHTED_PATHS",
        "oblivious": "detour.hosts.paths.built_in:OBLIVIOUS_PATHS",
        "bending": "detour.experiments.rivals.paths:BENDING_PATHS",
        "reps": "detour.experiments.rivals.paths:REPS_PATHS",
        "swapping": "detour.experiments.rivals.paths:SWAPPING_PATHS",
        "scouting": "detour.experiments.rivals.paths:SCOUTING_PATHS",
        "recycling": "detour.experiments.rivals.paths:RECYCLING_PATHS",
    },
)


def path_scheme(text: str) -> PathScheme:
    """The path scheme that a text names: a built-in one, one of an installed package (group `detour.path_schemes`), or
    `FILE.py:NAME`; with other parameters `FILE.py:NAME:weight=3`.

    Raises:
        DetourError: there is none, or no such parameter.
    """
    return PATH_REGISTRY.chosen(text)
