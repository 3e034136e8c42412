# SPDX-License-Identifier: Apache-2.0
"""Choice of paths by the sender. Schemes by name; how one is written is in `own`, what transports call in `paths`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from detour.base import doors
from detour.base.errors import DetourError
from detour.hosts.paths.own import PathScheme


def _adopt(name: str, found: Any) -> PathScheme:
    if not isinstance(found, PathScheme):
        raise DetourError(f"{name} is a {type(found).__name__}, and not a PathScheme")
    return replace(found, name=doors.pinned(name))


PATH_REGISTRY: doors.Registry[PathScheme] = doors.Registry(
    "path_schemes",
    "path scheme",
    {
        "fixed": PathScheme(name="fixed"),
        "probing": "detour.hosts.paths.probing:PROBING_PATHS",
        "reacting": "detour.hosts.paths.reacting:REACTING_PATHS",
        "spraying": "detour.hosts.paths.spray:SPRAYING_PATHS",
        "oblivious": "detour.hosts.paths.oblivious:OBLIVIOUS_PATHS",
        "bending": "detour.experiments.rivals.paths:BENDING_PATHS",
        "reps": "detour.experiments.rivals.paths:REPS_PATHS",
        "swapping": "detour.experiments.rivals.paths:SWAPPING_PATHS",
        "scouting": "detour.experiments.rivals.paths:SCOUTING_PATHS",
        "recycling": "detour.experiments.rivals.paths:RECYCLING_PATHS",
    },
    _adopt,
)


def path_scheme(text: str) -> PathScheme:
    """The path scheme that a text names: a built-in one, one of an installed package (group `detour.path_schemes`), or
    `FILE.py:NAME`; with other parameters `FILE.py:NAME:weight=3`.

    Raises:
        DetourError: there is none, or no such parameter.
    """
    name, rest = doors.split(text)
    return PATH_REGISTRY.find(name).with_values(doors.values_of(text, rest))
