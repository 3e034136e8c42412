# SPDX-License-Identifier: Apache-2.0
"""Lightweight monitoring (SRv6 path placement paper, section III-D): windows of flows at their receivers, and of ports.

The host stack and the switches only count. Once a window the counters of all flows, or ports, are read at once, as
arrays; their differences are one row of a bounded ring in memory. The clock is whatever the caller says (`now_ps`), so
the same modules serve wall clock and virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from detour.base.memory import store64
from detour.base.native import Part
from detour.base.pointers import record_by_address
from detour.base.records import extended
from detour.base.structs import offsets
from detour.control.rerouting import FlowReport
from detour.fabric.records import FlowTotals, FlowWindow
from detour.hosts.records import QueuePair
from detour.hosts.state import Hosts

FLOW_WINDOWS = Part("windows", __name__)

KEPT = 600
"""windows that are remembered: a minute"""

_STEADY_GAIN, _DROPPED_GAIN, _DROP = 1 / 4, 1 / 64, 0.1
"""how fast `usual` follows the rate: quickly while it is usual or better, slowly while it is below"""
_CALM_GAIN = 1 / 4
"""how fast the usual delay rises; it falls at once"""


COUNTS = ("packets", "bytes", "ecn_packets", "delay_ticks", "delay_packets")
"""what is counted of a flow: payload or frame bytes, marked packets, ticks in queues, and packets that brought those"""
FLOW_FIELDS = ("packets", "bytes", "rate_bps", "drop", "ecn_share", "delay_ps")
"""what is kept of every window and flow"""
_RATE, _DROP_AT, _ECN, _DELAY = 2, 3, 4, 5
_USUAL = 0
_COUNT, _THEN, _TICK, _TIMES = 0, 1, 2, 3


class Windows:
    """Windows of many flows. Not for several threads at once. Every flow has a place, an index of all arrays; places of
    flows that have ended are used again."""

    def __init__(self, counts: NDArray[np.int64], tick_ps: int, kept: int = KEPT) -> None:
        """`counts`: (rows, 5) what was counted so far, in the order of `COUNTS`."""
        self._counts = counts
        self._place: dict[str, int] = {}
        self._begin: dict[str, int] = {}
        self._clock = np.zeros(_TIMES + kept, np.int64)  # windows so far, end of the last one, tick; ends of those kept
        self._clock[_TICK] = tick_ps
        self._book = np.zeros((0, 1 + len(COUNTS)), np.int64)  # row of `counts` (-1: nobody's place), counts before
        # Usual bits a second (0: not known yet, -1: the first window has not ended); usual delay, ps; more than that.
        self._state = np.zeros((0, 3))
        self._windows = np.zeros((kept, 0, len(FLOW_FIELDS)))

    def add(self, name: str, row: int) -> None:
        """Watch the flow that is counted in row `row`; what was counted before is left out."""
        free = np.flatnonzero(self._book[:, 0] < 0)
        if not len(free):
            self._grow(max(4, len(self._book)))
            free = np.flatnonzero(self._book[:, 0] < 0)
        place = int(free[0])
        self._place[name], self._begin[name] = place, int(self._clock[_COUNT])
        self._book[place, 0] = row
        self._book[place, 1:] = self._counts[row]
        self._state[place] = (-1.0, 0.0, 0.0)  # it may begin in the middle of a window, which then says nothing
        self._windows[:, place] = 0.0

    def _grow(self, more: int) -> None:
        self._book = np.vstack([self._book, np.full((more, self._book.shape[1]), -1)])
        self._state = np.vstack([self._state, np.zeros((more, 3))])
        self._windows = np.concatenate([self._windows, np.zeros((len(self._windows), more, len(FLOW_FIELDS)))], axis=1)

    def remove(self, name: str) -> None:
        self._book[self._place.pop(name), 0] = -1
        del self._begin[name]

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def sample(self, now_ps: int) -> None:
        """End a window of all flows, unless no time has passed: a clock that is behind stands still meanwhile."""
        if now_ps > self._clock[_THEN]:
            counts, book, state, windows, clock = (
                each.ctypes.data for each in (self._counts, self._book, self._state, self._windows, self._clock)
            )
            stride, flows, kept = self._counts.strides[0], len(self._book), len(self._windows)
            end_window(counts, stride, book, state, flows, windows, kept, clock, now_ps)

    def last(self, name: str) -> FlowWindow:
        """The last window of a flow."""
        _, _, rate, drop, ecn_share, delay = self._last(name)
        return FlowWindow(rate, max(0.0, float(self._state[self._place[name], _USUAL])), drop, ecn_share, delay)

    def _last(self, name: str) -> tuple[float, ...]:
        """The last window, in the order of `FLOW_FIELDS`."""
        count = int(self._clock[_COUNT])
        if count == self._begin[name]:
            return (0.0,) * len(FLOW_FIELDS)
        return tuple(self._windows[(count - 1) % len(self._windows), self._place[name]].tolist())

    def reports(self) -> list[FlowReport]:
        """Return the last window of every flow."""
        reports = []
        for name, place in self._place.items():
            last, (_, _, more) = self._last(name), self._state[place].tolist()
            reports.append(FlowReport(name, last[_RATE], last[_DROP_AT], last[_ECN], last[_DELAY], more))
        return reports

    def series(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(windows,) times at which they ended, ps, and (windows, fields) what they were, as `FLOW_FIELDS`."""
        count, kept = int(self._clock[_COUNT]), len(self._windows)
        order = np.arange(max(self._begin[name], count - kept), count) % kept
        return self._clock[_TIMES + order], self._windows[order, self._place[name]]


class FlowMonitor(Windows):
    """The module at the receiving side: what receivers' QPs count."""

    def __init__(self, hs: Hosts, kept: int = KEPT) -> None:
        self._hs = hs
        super().__init__(receiver_counts(hs), int(hs.cfg[0]["tick_ps"]), kept)

    def totals(self) -> Iterator[FlowTotals]:
        """Counters so far and the last window of every flow."""
        for name, place in self._place.items():
            q = self._hs.qp[self._book[place, 0]]
            yield extended(
                FlowTotals,
                self.last(name),
                name=name,
                packets=int(q["st_rx_packets"]),
                bytes=int(q["st_rx_bytes"]),
                duplicates=int(q["st_rx_duplicates"]),
                ecn_packets=int(q["st_rx_ecn_marked"]),
            )


def receiver_counts(hs: Hosts) -> NDArray[np.int64]:
    """(QPs, 5) a view of what receivers count; the fields lie side by side in a QP's row."""
    names = ("st_rx_packets", "st_rx_bytes", "st_rx_ecn_marked", "st_rx_delay_sum", "st_rx_delay_samples")
    places = [offsets(QueuePair)[name] for name in names]
    assert places == list(range(places[0], places[0] + 8 * len(names), 8))
    first = hs.qp[names[0]]
    return np.lib.stride_tricks.as_strided(first, (len(first), len(names)), (*first.strides, 8))


_counts_at = record_by_address(np.dtype([(name, np.int64) for name in COUNTS]))
_book_at = record_by_address(np.dtype([(name, np.int64) for name in ("row", *COUNTS)]))
_state_at = record_by_address(np.dtype([(name, np.float64) for name in ("usual", "calm", "excess")]))
_window_at = record_by_address(np.dtype([(name, np.float64) for name in FLOW_FIELDS]))
_clock_at = record_by_address(np.dtype([(name, np.int64) for name in ("count", "then", "tick")]))


@FLOW_WINDOWS.entry
def end_window(
    counts: int, stride: int, book: int, state: int, flows: int, windows: int, kept: int, clock: int, now_ps: int
) -> None:
    """One window of all flows; what counters have grown by since the last one. The arrays of `Windows` by address;
    rows of `counts` are `stride` bytes apart."""
    t = _clock_at(clock, 0)
    to_rate = 8e12 / max(now_ps - t.then, 1)
    place = t.count % kept
    for flow in range(flows):
        b, s, w = _book_at(book, flow), _state_at(state, flow), _window_at(windows, place * flows + flow)
        if b.row < 0:
            continue
        c = _counts_at(counts + b.row * stride, 0)
        count = c.packets - b.packets
        size = c.bytes - b.bytes
        brought = c.delay_packets - b.delay_packets
        usual, calm = s.usual, s.calm
        rate = size * to_rate
        low = max(0.0, 1.0 - rate / usual) if usual > 0 else 0.0
        delay = (c.delay_ticks - b.delay_ticks) * t.tick / brought if brought > 0 else 0.0
        w.packets = count
        w.bytes = size
        w.rate_bps = rate
        w.drop = low
        w.ecn_share = (c.ecn_packets - b.ecn_packets) / count if count > 0 else 0.0
        w.delay_ps = delay
        s.excess = max(0.0, delay - calm) if brought > 0 else 0.0
        if brought > 0:
            s.calm = min(delay, calm + _CALM_GAIN * (delay - calm))
        if usual < 0:
            s.usual = 0.0
        elif usual == 0:
            s.usual = rate
        else:
            s.usual = usual + (_DROPPED_GAIN if low > _DROP else _STEADY_GAIN) * (rate - usual)
        b.packets = c.packets
        b.bytes = c.bytes
        b.ecn_packets = c.ecn_packets
        b.delay_ticks = c.delay_ticks
        b.delay_packets = c.delay_packets
    store64(clock + 8 * (_TIMES + place), now_ps)
    t.then = now_ps
    t.count += 1
