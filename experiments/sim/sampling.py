# SPDX-License-Identifier: Apache-2.0
"""What is looked at while a run goes on: bytes on every link, and what waits in every queue.

Looks are a microsecond apart at first. Whenever there are 512 of them every second one is dropped and the distance is
doubled, so a run of any length has 256 to 512. Counters are cumulative: nothing is lost by that but resolution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.times import US
from detour.fabric.backends.virtual.fabric import VirtualFabric

FIRST_PS = US
_MOST = 512
_BINS = 28
"""of queues: empty, then powers of two from 1 byte on"""


@dataclass(frozen=True)
class LinkSeries:
    """`times_ps`: (looks,); `sent`: (looks, directions) bytes so far; `names` of directions, `s0-s3 from s0`, `hosts`
    whether one end is a host's, `rates_bps` of each; `longest`: (looks,) bytes in the fullest queue at that moment."""

    times_ps: Int64Array
    sent: Int64Array
    names: tuple[str, ...]
    hosts: NDArray[np.bool_]
    rates_bps: Int64Array
    longest: Int64Array

    def use(self) -> NDArray[np.float64]:
        """(looks - 1, directions) fraction of each link's rate between two looks."""
        spans = np.diff(self.times_ps)[:, None] / 1e12
        # A frame counts when it begins, so between two looks that are close there may be a frame too many.
        return np.minimum(np.diff(self.sent, axis=0) * 8 / (spans * self.rates_bps), 1.0)

    def coarser(self, intervals: int) -> LinkSeries:
        """The same in at most so many intervals, about equal ones."""
        kept = np.unique(np.round(np.linspace(0, len(self.times_ps) - 1, intervals + 1)).astype(np.int64))
        return replace(self, times_ps=self.times_ps[kept], sent=self.sent[kept], longest=self.longest[kept])


class Sampler:
    """Looks at a fabric whenever its time has come."""

    def __init__(self, fabric: VirtualFabric) -> None:
        self._fabric = fabric
        self._every = FIRST_PS
        self._times: list[int] = []
        self._sent: list[Int64Array] = []
        self._longest: list[int] = []
        self.queues = np.zeros(_BINS, np.float64)
        """time (ps) times queues of switches, by the length of the queue: 0 bytes, then [2**(i-1), 2**i)"""
        stats = fabric.network.port_stats()
        self._directions(stats)
        self.due_ps = 0
        self.look()

    def _directions(self, stats: dict[str, np.ndarray]) -> None:
        """Which element of which column counts a direction of a link."""
        ends = zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True)
        place = {end: row for row, end in enumerate(ends)}
        topology = self._fabric.topology
        out, back, names, host = [], [], [], []
        for link in topology.links:
            rows = [place[end] for end in self._fabric.link_ends(link.index)]
            out += rows
            names += [f"{link.name} from s{link.a[0]}"]
            host += [link.kind == "host"]
            if link.kind == "host":
                back.append(rows[0])
            else:
                names.append(f"{link.name} from s{link.b[0]}")
                host.append(False)
        names += [f"{link.name} from h{link.b[0]}" for link in topology.links if link.kind == "host"]
        self._out, self._back = np.array(out, np.int64), np.array(back, np.int64)
        self._names, self._host = tuple(names), np.array(host + [True] * len(back))
        rates = stats["rate_bps"]
        self._rates = np.concatenate([rates[self._out], rates[self._back]]).astype(np.int64)

    def look(self) -> None:
        """Notes how things are now."""
        now = self._fabric.now_ps
        if self._times and now == self._times[-1]:
            return
        stats = self._fabric.network.port_stats()
        passed = now - (self._times[-1] if self._times else now)
        queued = stats["queue_bytes"][self._out]
        bins = np.minimum(np.ceil(np.log2(queued.astype(np.float64) + 1)), _BINS - 1).astype(np.int64)
        self.queues += np.bincount(bins, minlength=_BINS) * float(passed)
        self._times.append(now)
        self._sent.append(np.concatenate([stats["tx_bytes"][self._out], stats["rx_bytes"][self._back]]))
        self._longest.append(int(queued.max(initial=0)))
        if len(self._times) > _MOST:
            self._thin()
        self.due_ps = now + self._every

    def _thin(self) -> None:
        """Every second look goes; of what was longest the longest of both stays."""
        pairs = zip(self._longest[1::2], [*self._longest[2::2], 0], strict=False)
        self._longest = [self._longest[0], *(max(pair) for pair in pairs)][: len(self._times[::2])]
        self._times, self._sent = self._times[::2], self._sent[::2]
        self._every *= 2

    def series(self) -> LinkSeries:
        """All looks that were kept."""
        return LinkSeries(
            np.array(self._times, np.int64),
            np.array(self._sent, np.int64),
            self._names,
            self._host,
            self._rates,
            np.array(self._longest, np.int64),
        )
