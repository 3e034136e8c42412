# SPDX-License-Identifier: Apache-2.0
"""PathChoice.OBLIVIOUS: every packet has a random candidate."""

from __future__ import annotations

from detour.base.structs import NativeRecord
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.tokens import draw
from detour.hosts.records import Config, QueuePair
from detour.hosts.state import Handle


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Config, s: NativeRecord, news: PathNews, now: int) -> int:
    return draw(hs, i, q, 0, q.n_cand, now)


OBLIVIOUS_PATHS = PathScheme(None, hooks=(choose,), name="oblivious", sprays=True)
