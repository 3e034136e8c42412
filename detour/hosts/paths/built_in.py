# SPDX-License-Identifier: Apache-2.0
"""The built-in path schemes as a part of native code."""

from __future__ import annotations

from dataclasses import replace

from detour.base.native import Part
from detour.base.structs import NativeRecord
from detour.hosts.paths import plugin
from detour.hosts.paths.pathset import PATHSET
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.probing import PROBING
from detour.hosts.paths.reacting import REACTING
from detour.hosts.paths.spray import SPRAY
from detour.hosts.paths.tokens import draw
from detour.hosts.plugins import build_in
from detour.hosts.records import Config, QueuePair
from detour.hosts.state import Handle


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Config, s: NativeRecord, news: PathNews, now: int) -> int:
    return draw(hs, i, q, 0, q.n_cand, now)


OBLIVIOUS = PathScheme(None, hooks=(choose,), name="oblivious", times=(), sprays=True)
"""every packet has a random candidate"""
VALIANT = replace(OBLIVIOUS, name="valiant", ports="detours")
"""every packet has a random detour (Valiant, 1982)"""

PATH_SCHEMES = Part("paths", __name__)


def build(part: Part, *schemes: PathScheme) -> None:
    """Compile schemes as entries of a part."""
    for scheme in schemes:
        build_in(part, scheme, QueuePair.dtype, plugin.entry_of)


build(PATH_SCHEMES, PROBING, REACTING, SPRAY, OBLIVIOUS, PATHSET)
