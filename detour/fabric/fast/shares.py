# SPDX-License-Identifier: Apache-2.0
"""The rates of connections in the long run.

Two DCTCP senders at a link have equal shares over a long time only; from moment to moment these wander by a quarter,
and what a moment shows must not count for long. So the rates of connections that are alike are averages over them. They
are alike if they have the same bottleneck and equally long paths. Where others pass that bottleneck too, whose paths
are longer or have another bottleneck besides, windows need some milliseconds to find shares that nobody can tell
beforehand: there the mean of a long time counts, and not for long.
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import FloatArray, Int64Array
from detour.fabric.fast.partitions import Partition
from detour.fabric.fast.steadiness import HALF, KEPT, ROUNDING

_FULL = 0.93
"""use of a link from which on it is a bottleneck"""
_MEAN, _SETTLED, _MOST_MEANS = 256, 2, 8
"""of connections that are not alike: looks in a mean, how many of these pass before one counts, and for how long it may
count at most, in its own length"""


class Shares:
    """`una`: (KEPT, connections) packets acknowledged at the last looks, which are `every_ps` apart; `wire`: bytes
    that one takes on a link; `error`: by how much halves may differ."""

    def __init__(self, una: Int64Array, every_ps: int, wire: int, error: float) -> None:
        self._una, self._every, self._wire, self._error = una, every_ps, wire, error

    def of(self, part: Partition, look: int, free_bps: FloatArray) -> tuple[FloatArray, int | None] | None:
        """(flows,) packets a ps of a partition that is steady at a look, and for how many ps they may count at most
        (None: any time). None: they are not steady. `free_bps`: (channels,) what data may take."""
        una = self._una[np.array([look - 2 * HALF, look - HALF, look]) % KEPT][:, part.flows]
        halves = np.diff(una.astype(np.float64), axis=0)
        span, sent = 2 * HALF * self._every, halves.sum(axis=0)
        groups = self._alike(part, sent * (self._wire * 8e12 / span), free_bps)
        if groups is None:
            rates = self._mean(part, look)
            return None if rates is None else (rates, _MOST_MEANS * _MEAN * self._every)
        for links, members in groups:
            one, other = halves[:, members].sum(axis=1)
            if abs(other - one) > self._error * max(one, other) + ROUNDING:
                return None
            most = min((free_bps[link] for link in links), default=np.inf) * span / (8e12 * self._wire)
            both = one + other
            # Counts of packets are rounded; a link that seems to be in use all the time is.
            sent[members] = (both if both < most - ROUNDING else most) / len(members)
        return sent / span, None

    @staticmethod
    def _alike(part: Partition, bps: FloatArray, free_bps: FloatArray) -> list[tuple[list[int], list[int]]] | None:
        """Bottlenecks, and the connections (places in the partition) with these, which are alike. None: some with the
        same bottleneck are not."""
        used: dict[int, float] = {}
        for path, load in zip(part.paths, bps.tolist(), strict=True):
            for link in path.data.tolist():
                used[link] = used.get(link, 0.0) + load
        full = {link for link, load in used.items() if load >= _FULL * free_bps[link]}
        kind_of: dict[int, tuple[int, ...]] = {}
        groups: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
        for k, path in enumerate(part.paths):
            links = [link for link in path.data.tolist() if link in full]
            kind = (path.delay_ps, *links) if links else (-1, k)
            if any(kind_of.setdefault(link, kind) != kind for link in links):
                return None
            groups.setdefault(kind, (links, []))[1].append(k)
        return list(groups.values())

    def _mean(self, part: Partition, look: int) -> FloatArray | None:
        """The mean of a long time, if there is one by now."""
        una = self._una[look % KEPT, part.flows]
        begun, before = part.noted or (look, una)
        if part.noted is None or look - begun >= _MEAN:
            part.noted = look, una.copy()
        if look - begun < _MEAN:
            return None
        part.means += 1
        sent = una - before
        return sent / ((look - begun) * self._every) if part.means >= _SETTLED and sent.min() > 0 else None
