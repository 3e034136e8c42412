# SPDX-License-Identifier: Apache-2.0
"""Lightweight monitoring (SRv6 path placement paper, section III-D): windows of flows at their receivers, and of ports.

The host stack and the switches only count. Once a window the counters of all flows, or ports, are read at once, as
arrays; their differences are one row of a bounded ring in memory. The clock is whatever the caller says (`now_ps`), so
the same modules serve wall clock and virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.jit import njit
from detour.control.rerouting import Report
from detour.hosts.state import Hosts

WINDOW_PS = 100_000_000_000
"""100 ms, as in section IV"""
KEPT = 600
"""windows that are remembered: a minute"""

_STEADY_GAIN, _DROPPED_GAIN, _DROP = 1 / 4, 1 / 64, 0.1
"""how fast `usual` follows the rate: quickly while it is usual or better, slowly while it is below"""
_CALM_GAIN = 1 / 4
"""how fast the usual delay rises; it falls at once"""


@dataclass(frozen=True)
class FlowTotals:
    """What a flow's receiver has counted so far; `delay_ps`: mean queuing delay over its last window."""

    name: str
    packets: int
    bytes: int
    duplicates: int
    ecn_packets: int
    rate_bps: float
    usual_bps: float
    drop: float
    ecn_share: float
    delay_ps: float


_COUNTS = ("st_rx_packets", "st_rx_bytes", "st_rx_ecn_marked", "st_rx_delay_sum", "st_rx_delay_samples")
FIELDS = ("packets", "bytes", "rate_bps", "drop", "ecn_share", "delay_ps")
"""what is kept of every window and flow"""
_RATE, _DROP_AT, _ECN, _DELAY = 2, 3, 4, 5


class FlowMonitor:
    """The module at the receiving side. Not for several threads at once.

    Every flow has a place, a column of all arrays; places of flows that have ended are used again."""

    def __init__(self, hs: Hosts, kept: int = KEPT) -> None:
        self._hs = hs
        self._columns = tuple(hs.qp[name] for name in _COUNTS)
        self._place: dict[str, int] = {}
        self._begin: dict[str, int] = {}
        self._count = 0
        self._then = 0
        self._times = np.zeros(kept, np.int64)
        self._rows = np.zeros(0, np.int64)  # of the table of QPs; -1: nobody's place
        self._before = np.zeros((0, len(_COUNTS)), np.int64)
        self._usual = np.zeros(0)  # bits a second; 0: not known yet, -1: the flow's first window has not ended
        self._calm = np.zeros(0)  # usual delay, ps
        self._more = np.zeros(0)  # delay of the last window beyond that
        self._windows = np.zeros((kept, 0, len(FIELDS)))

    def add(self, name: str, receiver: int) -> None:
        """Watches the flow whose receiving QP is row `receiver`; what it has counted before is left out."""
        free = np.flatnonzero(self._rows < 0)
        if not len(free):
            self._grow(max(4, 2 * len(self._rows)))
            free = np.flatnonzero(self._rows < 0)
        place = int(free[0])
        self._place[name], self._begin[name] = place, self._count
        self._rows[place] = receiver
        self._before[place] = [column[receiver] for column in self._columns]
        self._usual[place] = -1.0  # it may begin in the middle of a window, which then says nothing
        self._calm[place] = self._more[place] = 0.0
        self._windows[:, place] = 0.0

    def _grow(self, places: int) -> None:
        more = places - len(self._rows)
        self._rows = np.append(self._rows, np.full(more, -1))
        self._before = np.vstack([self._before, np.zeros((more, len(_COUNTS)), np.int64)])
        self._usual, self._calm, self._more = (
            np.append(values, np.zeros(more)) for values in (self._usual, self._calm, self._more)
        )
        self._windows = np.concatenate([self._windows, np.zeros((len(self._times), more, len(FIELDS)))], axis=1)

    def remove(self, name: str) -> None:
        """Forgets a flow."""
        self._rows[self._place.pop(name)] = -1
        del self._begin[name]

    def __len__(self) -> int:
        return len(self._place)

    def sample(self, now_ps: int) -> None:
        """Ends a window of all flows."""
        place = self._count % len(self._times)
        window, tick = max(now_ps - self._then, 1), int(self._hs.cfg[0]["tick_ps"])
        usual = self._usual, self._calm, self._more
        _sample(*self._columns, self._rows, self._before, *usual, self._windows[place], window, tick)
        self._times[place] = self._then = now_ps
        self._count += 1

    def _last(self, name: str) -> tuple[float, ...]:
        """The last window, in the order of `FIELDS`."""
        if self._count == self._begin[name]:
            return (0.0,) * len(FIELDS)
        return tuple(self._windows[(self._count - 1) % len(self._times), self._place[name]].tolist())

    def reports(self) -> list[Report]:
        """What the last window says of every flow."""
        found = []
        for name, place in self._place.items():
            last = self._last(name)
            usual = max(0.0, float(self._usual[place]))
            more = float(self._more[place])
            found.append(Report(name, last[_RATE], usual, last[_DROP_AT], last[_ECN], last[_DELAY], more))
        return found

    def series(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(windows,) times at which they ended, ps, and (windows, fields) what they were, in the order of `FIELDS`."""
        first = max(self._begin[name], self._count - len(self._times))
        order = np.arange(first, self._count) % len(self._times)
        return self._times[order], self._windows[order, self._place[name]]

    def totals(self) -> Iterator[FlowTotals]:
        """Counters so far and the last window of every flow."""
        for name, place in self._place.items():
            q, last = self._hs.qp[self._rows[place]], self._last(name)
            yield FlowTotals(
                name,
                int(q["st_rx_packets"]),
                int(q["st_rx_bytes"]),
                int(q["st_rx_duplicates"]),
                int(q["st_rx_ecn_marked"]),
                last[_RATE],
                max(0.0, float(self._usual[place])),
                last[_DROP_AT],
                last[_ECN],
                last[_DELAY],
            )


@njit
def _sample(
    packets: Any, size: Any, marked: Any, waited: Any, samples: Any, rows: Any, before: Any, usual: Any, calm: Any,
    more: Any, out: Any, window_ps: int, tick_ps: int,
) -> None:  # fmt: skip
    """One window of all flows: `out[flow]` is what the counters at `rows[flow]` have grown by since `before[flow]`."""
    for flow in range(len(rows)):
        row = rows[flow]
        if row < 0:
            continue
        then = before[flow]
        count = packets[row] - then[0]
        rate = (size[row] - then[1]) * 8e12 / window_ps
        low = max(0.0, 1.0 - rate / usual[flow]) if usual[flow] > 0 else 0.0
        answered = samples[row] - then[4]
        out[flow, 0] = count
        out[flow, 1] = size[row] - then[1]
        out[flow, 2] = rate
        out[flow, 3] = low
        out[flow, 4] = (marked[row] - then[2]) / count if count > 0 else 0.0
        delay = (waited[row] - then[3]) * tick_ps / answered if answered > 0 else 0.0
        out[flow, 5] = delay
        more[flow] = max(0.0, delay - calm[flow]) if answered > 0 else 0.0
        if answered > 0:
            calm[flow] = min(delay, calm[flow] + _CALM_GAIN * (delay - calm[flow]))
        gain = _DROPPED_GAIN if low > _DROP else _STEADY_GAIN
        if usual[flow] < 0:
            usual[flow] = 0.0
        else:
            usual[flow] = usual[flow] + gain * (rate - usual[flow]) if usual[flow] > 0 else rate
        then[0], then[1], then[2] = packets[row], size[row], marked[row]
        then[3], then[4] = waited[row], samples[row]


PORT_FIELDS = ("tx_bps", "queue_packets", "marked_share", "drops")
"""what is kept of every window and port"""


class PortMonitor:
    """The module in the switches: a window of every port that leads somewhere. `read()` returns all counts so far,
    (ports, 4): transmitted packets and bytes, marked packets, drops; and (ports,) packets that wait now."""

    def __init__(
        self,
        ports: Sequence[tuple[str, Any]],
        read: Callable[[], tuple[NDArray[np.int64], NDArray[np.int64]]],
        kept: int = KEPT,
    ) -> None:
        """`ports`: their names, and whatever `read` knows them by."""
        self.names = [name for name, _ in ports]
        self._read = read
        self._before = np.zeros((len(ports), 4), np.int64)
        self._then: int | None = None
        self._last = np.zeros((len(ports), len(PORT_FIELDS)))
        self._times = np.zeros(kept, np.int64)
        self._windows = np.zeros((kept, len(ports), len(PORT_FIELDS)))
        self._count = 0

    def sample(self, now_ps: int) -> NDArray[np.float64]:
        """Ends a window; (ports, fields) what it was. The first call only begins one."""
        counts, waiting = self._read()
        packets, size, marked, drops = (counts - self._before).T.astype(np.float64)
        self._before, then, self._then = counts, self._then, now_ps
        if then is None:
            return self._last
        seconds = max(now_ps - then, 1) / 1e12
        share = np.divide(marked, packets, out=np.zeros_like(marked), where=packets > 0)
        self._last = np.stack([size * 8 / seconds, waiting.astype(np.float64), share, drops], axis=1)
        place = self._count % len(self._times)
        self._times[place], self._windows[place] = now_ps, self._last
        self._count += 1
        return self._last

    def series(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(windows,) times and (windows, ports, fields)."""
        order = np.arange(max(0, self._count - len(self._times)), self._count) % len(self._times)
        return self._times[order], self._windows[order]

    @property
    def last(self) -> dict[str, dict[str, Any]]:
        """The last window by port and field."""
        fields: tuple[str, ...] = PORT_FIELDS
        return {n: dict(zip(fields, row, strict=True)) for n, row in zip(self.names, self._last.tolist(), strict=True)}
