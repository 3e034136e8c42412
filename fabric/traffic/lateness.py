# SPDX-License-Identifier: Apache-2.0
"""Hosts whose software is late: jitter in all that it does, and stragglers that begin every phase late.

Without them every host acts at the poll at which it sees that it can, and what a barrier costs is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.times import MAX_TIME

Stragglers = Sequence[tuple[int, int]]
"""hosts, and by how much they are late, ps"""


class Lateness:
    """How late hosts act, ps. Everything random comes from the seed."""

    def __init__(self, jitter_ps: int, stragglers: Stragglers, hosts: Sequence[int], slots: int, seed: int) -> None:
        """`hosts`: those that take part, of places 0..slots-1.

        Raises:
            DetourError: a straggler is not one of them.
        """
        self._jitter_ps = jitter_ps
        self._rng = np.random.default_rng([seed, 13])
        self._begins = np.zeros(slots, np.int64)
        for host, late in stragglers:
            if host not in hosts:
                raise DetourError(f"straggler {host}: no such server takes part (there are {len(hosts)})")
            self._begins[host] += late

    def acting(self, hosts: Int64Array) -> Int64Array:
        """On something that they have seen, (hosts,)."""
        if not self._jitter_ps:
            return np.zeros(len(hosts), np.int64)
        return self._rng.integers(0, self._jitter_ps, len(hosts), endpoint=True)

    def beginning(self, hosts: Int64Array) -> Int64Array:
        """With a phase, (hosts,)."""
        return self._begins[hosts]


class Reactions:
    """Who has seen something and when that host acts on it."""

    def __init__(self, slots: int) -> None:
        self._due = np.full(slots, MAX_TIME, np.int64)

    def unknown(self, hosts: Int64Array) -> Int64Array:
        """Those of the hosts that have not noticed yet."""
        return hosts[self._due[hosts] == MAX_TIME]

    def notice(self, hosts: Int64Array, act_ps: Int64Array) -> None:
        """They act at these times."""
        self._due[hosts] = act_ps

    def acting(self, hosts: Int64Array, now_ps: int) -> Int64Array:
        """Those of the hosts whose time has come."""
        act = hosts[self._due[hosts] <= now_ps]
        self._due[act] = MAX_TIME
        return act

    def next_ps(self, now_ps: int) -> int:
        """When somebody acts next, later than now."""
        return int(self._due[self._due > now_ps].min(initial=MAX_TIME))
