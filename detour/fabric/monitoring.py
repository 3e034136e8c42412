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

from detour.control.rerouting import Report
from detour.hosts.state import Hosts

WINDOW_PS = 100_000_000_000
"""100 ms, as in section IV"""
KEPT = 600
"""windows that are remembered: a minute"""

_STEADY_GAIN, _DROPPED_GAIN, _DROP = 1 / 4, 1 / 64, 0.1
"""how fast `usual` follows the rate: quickly while it is usual or better, slowly while it is below"""


class Ring:
    """Rows of numbers with their times; the oldest ones are overwritten."""

    def __init__(self, kept: int, columns: int) -> None:
        self._times = np.zeros(kept, np.int64)
        self._rows = np.zeros((kept, columns))
        self._count = 0

    def put(self, now_ps: int, row: NDArray[np.float64]) -> None:
        """Appends a row, shape (columns,)."""
        place = self._count % len(self._times)
        self._times[place], self._rows[place] = now_ps, row
        self._count += 1

    def read(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(rows,) times and (rows, columns) numbers, oldest first."""
        kept = min(self._count, len(self._times))
        order = (np.arange(self._count - kept, self._count)) % len(self._times)
        return self._times[order], self._rows[order]


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


class FlowMonitor:
    """The module at the receiving side. Not for several threads at once."""

    def __init__(self, hs: Hosts, kept: int = KEPT) -> None:
        self._hs = hs
        self._kept = kept
        self._names: list[str] = []
        self._rows = np.zeros(0, np.int64)
        self._before = np.zeros((0, len(_COUNTS)), np.int64)
        self._usual = np.zeros(0)
        self._last = np.zeros((0, len(FIELDS)))
        self._rings: list[Ring] = []
        self._then = 0

    def add(self, name: str, receiver: int) -> None:
        """Watches the flow whose receiving QP is row `receiver`; what it has counted before is left out."""
        self._names.append(name)
        self._rows = np.append(self._rows, receiver)
        self._before = np.vstack([self._before, self._counts()[-1:]])
        self._usual = np.append(self._usual, 0.0)
        self._last = np.vstack([self._last, np.zeros((1, len(FIELDS)))])
        self._rings.append(Ring(self._kept, len(FIELDS)))

    def remove(self, name: str) -> None:
        """Forgets a flow."""
        place = self._names.index(name)
        del self._names[place], self._rings[place]
        self._rows, self._usual = np.delete(self._rows, place), np.delete(self._usual, place)
        self._before, self._last = np.delete(self._before, place, axis=0), np.delete(self._last, place, axis=0)

    def __len__(self) -> int:
        return len(self._names)

    def _counts(self) -> NDArray[np.int64]:
        """(flows, counters)"""
        qp = self._hs.qp
        return np.stack([qp[name][self._rows] for name in _COUNTS], axis=1)

    def sample(self, now_ps: int) -> list[Report]:
        """Ends a window; what it says of every flow."""
        seconds = max(now_ps - self._then, 1) / 1e12
        self._then = now_ps
        counts = self._counts()
        packets, size, marked, delay, samples = (counts - self._before).T.astype(np.float64)
        self._before = counts
        rate = size * 8 / seconds
        with np.errstate(divide="ignore", invalid="ignore"):
            drop = np.where(self._usual > 0, np.maximum(0.0, 1.0 - rate / self._usual), 0.0)
            share = np.where(packets > 0, marked / packets, 0.0)
            mean = np.where(samples > 0, delay / samples, 0.0) * float(self._hs.cfg[0]["tick_ps"])
        usual = self._usual
        first = usual == 0
        gain = np.where(drop > _DROP, _DROPPED_GAIN, _STEADY_GAIN)
        self._usual = np.where(first, rate, usual + gain * (rate - usual))
        self._last = np.stack([packets, size, rate, drop, share, mean], axis=1)
        for ring, row in zip(self._rings, self._last, strict=True):
            ring.put(now_ps, row)
        lists = (values.tolist() for values in (rate, usual, share, mean))
        return [Report(name, *values) for name, *values in zip(self._names, *lists, strict=True)]

    def series(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(windows,) times at which they ended, ps, and (windows, fields) what they were, in the order of `FIELDS`."""
        return self._rings[self._names.index(name)].read()

    def totals(self) -> Iterator[FlowTotals]:
        """Counters so far and the last window of every flow."""
        qp = self._hs.qp
        for place, (name, row) in enumerate(zip(self._names, self._rows.tolist(), strict=True)):
            _, _, rate, drop, share, delay = self._last[place].tolist()
            q = qp[row]
            yield FlowTotals(
                name,
                int(q["st_rx_packets"]),
                int(q["st_rx_bytes"]),
                int(q["st_rx_duplicates"]),
                int(q["st_rx_ecn_marked"]),
                rate,
                float(self._usual[place]),
                drop,
                share,
                delay,
            )


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
        self._ring = Ring(kept, len(ports) * len(PORT_FIELDS))

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
        self._ring.put(now_ps, self._last.ravel())
        return self._last

    def series(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(windows,) times and (windows, ports, fields)."""
        times, rows = self._ring.read()
        return times, rows.reshape(len(times), len(self.names), len(PORT_FIELDS))

    @property
    def last(self) -> dict[str, dict[str, Any]]:
        """The last window by port and field."""
        fields: tuple[str, ...] = PORT_FIELDS
        return {n: dict(zip(fields, row, strict=True)) for n, row in zip(self.names, self._last.tolist(), strict=True)}
