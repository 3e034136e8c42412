# SPDX-License-Identifier: Apache-2.0
"""The monitoring module of the switches for single flows: every switch on the way of a watched flow counts it.

A flow is watched from when it begins to send, if watching is on: entries go to the switches that it can pass, its
sender gets a flow label, and the counters of all watched flows are read once a window. No packet, no switch and no
thread has anything to do with it before the first flow is watched.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.control.entries import Plan
from detour.control.p4runtime.watching import CELLS, Watched, WatchList, counts, slot_cells
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.clock import PS, FabricClock, Ticker
from detour.fabric.monitoring.windows import COUNTS, KEPT, Windows
from detour.fabric.operations.control_plane import ControlPlane, Paths
from detour.fabric.operations.live_flows import LiveFlow, LiveFlows
from detour.fabric.operations.results import FlowRows
from detour.fabric.records import SwitchFlowTotals
from detour.topo.paths import switch_at

_log = logging.getLogger(__name__)

READING_SHARE = 0.1
"""of the time that reading counters may take; windows get longer instead"""


class SwitchFlowMonitor(Windows):
    """Windows of flows at switches. Not for several threads at once. Counters of switches only grow, until the switch
    is restarted, and a slot is used by one flow after the other, so what they were when a flow got the slot is taken
    off."""

    def __init__(self, tick_ps: int, name_of: Callable[[int], str], kept: int = KEPT) -> None:
        """`name_of`: a switch by its device id."""
        self._name_of = name_of
        self._first: dict[str, NDArray[np.int64]] = {}
        self._seen: dict[str, NDArray[np.int64]] = {}
        self._rows: dict[str, int] = {}
        super().__init__(np.zeros((16, len(COUNTS)), np.int64), tick_ps, kept)

    def begin(self, flow: str, device: int, cells: Sequence[tuple[int, int]]) -> None:
        """The flow is watched at a switch from now on, where the cells of its slot are these."""
        name, taken = _name(flow, device), set(self._rows.values())
        row = next(number for number in range(len(taken) + 1) if number not in taken)
        if row == len(self._counts):
            self._counts = np.vstack([self._counts, np.zeros_like(self._counts)])
        self._rows[name] = row
        self._first[name] = self._seen[name] = np.array(cells, np.int64)
        self._counts[row] = 0
        self.add(name, row)

    def end(self, flow: str, device: int) -> None:
        """Stop counting a flow at a switch; do nothing if it was not counted."""
        name = _name(flow, device)
        if name in self:
            self.remove(name)
            del self._first[name], self._seen[name], self._rows[name]

    def update(self, flow: str, device: int, cells: Sequence[tuple[int, int]]) -> None:
        """Take in the cells' current values; `sample` ends the window."""
        name, now = _name(flow, device), np.array(cells, np.int64)
        # A switch that was restarted counts from zero; what it had counted stays.
        self._first[name] = self._first[name] - np.where(now < self._seen[name], self._seen[name], 0)
        self._seen[name] = now
        self._counts[self._rows[name]] = counts(self._seen[name] - self._first[name])

    def at(self, flow: str, device: int) -> SwitchFlowTotals:
        """Counters so far and the last window of a flow at a switch."""
        name = _name(flow, device)
        total = self._seen[name] - self._first[name]
        packets, octets, marked, _, _ = counts(total).tolist()
        sums = {"packets": packets, "bytes": octets, "ecn_packets": marked, "delays": total[2:, 0].tolist()}
        return extended(SwitchFlowTotals, self.last(name), switch=self._name_of(device), **sums)

    def history(self, flow: str, device: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As `series`, of a flow at a switch."""
        return self.series(_name(flow, device))


def _name(flow: str, device: int) -> str:
    return f"{flow} {device}"


def next_window(now_s: float, least_s: float, reading_s: float) -> float:
    """Length of the window after one of `now_s` at whose end reading took `reading_s`, in seconds. It at most doubles:
    one reading may have been held up by something else, many flows take their time every time."""
    return min(2 * now_s, max(least_s, reading_s / READING_SHARE))


class SwitchFlows:
    """See the module. Methods may be called from several threads."""

    def __init__(
        self, control: ControlPlane, live: LiveFlows, clock: FabricClock, tick_ps: int, kept: int = KEPT
    ) -> None:
        """`control` reads counters and writes entries, `live` tells senders their flow's label. Windows go by `clock`
        and are as long as those of `live`; `kept` of them are remembered."""
        self._control, self._live, self._clock = control, live, clock
        self._list = WatchList(control.topology.switch_name)
        self.monitor = SwitchFlowMonitor(tick_ps, control.topology.switch_name, kept)
        self.tick_ps = tick_ps
        self.window_s = self.pause_s = live.window_s
        """length of a window now: longer than `window_s` if there are so many flows that reading them takes long"""
        self._lock = threading.RLock()
        self._ticker: Ticker | None = None
        self._ended = False
        self._told = ""

    def __contains__(self, flow: str) -> bool:
        with self._lock:
            return flow in self._list

    def plan(self) -> Plan:
        """Return the switches' entries for the watched flows, by device id."""
        with self._lock:
            return dict(self._list.plan())

    # -- flows ------------------------------------------------------------------------------------------

    def add(self, flow: str, source: int, devices: Iterable[int]) -> None:
        """Watch a flow from the address `source` at these switches. Raises DetourError: there is no room, or a switch
        refuses its entry; the flow is not watched."""
        with self._lock:
            before = self._list.plan()
            watched = self._list.add(flow, source, devices)
            try:
                self._begin(watched, set(watched.slots))
                self._control.rewrite(before, self._list.plan())
            except BaseException:
                self._forget(flow)
                raise
            self._live.set_label(flow, watched.label)
            if self._ticker is None:
                self._ticker = self._clock.every(lambda: self.pause_s, self._end_window, "switch flow monitor")

    def _begin(self, watched: Watched, devices: set[int]) -> None:
        counted = self._control.read_cells({device: slot_cells(watched.slots[device]) for device in devices})
        for device in sorted(devices):
            self.monitor.begin(watched.name, device, counted[device])

    def _forget(self, flow: str) -> None:
        for device in self._list.remove(flow).slots:
            self.monitor.end(flow, device)

    def move(self, flow: str, devices: Iterable[int]) -> None:
        """The flow passes these switches from now on; nothing happens if it is not watched. Raises DetourError: as
        `add`; the flow is watched no longer, and what is left of it on switches goes when all tables are next compared
        with their plan."""
        with self._lock:
            if flow not in self._list:
                return
            before, old = self._list.plan(), set(self._list[flow].slots)
            try:
                new = set(self._list.move(flow, devices).slots)
                for device in sorted(old - new):
                    self.monitor.end(flow, device)
                self._begin(self._list[flow], new - old)
                self._control.rewrite(before, self._list.plan())
            except BaseException:
                self._forget(flow)
                self._live.set_label(flow, 0)
                raise

    def remove(self, flow: str) -> None:
        """The flow ends, or is to be watched no longer; nothing happens if it is not. Raises DetourError: a switch does
        not let go of its entry; see `move`."""
        with self._lock:
            if flow not in self._list:
                return
            before = self._list.plan()
            self._forget(flow)
            self._live.set_label(flow, 0)
            self._control.rewrite(before, self._list.plan())

    # -- windows ----------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Read all counters and end a window. Raises DetourError: a switch does not answer."""
        with self._lock:
            order: dict[int, list[Watched]] = {}
            for watched in self._list:
                for device in watched.slots:
                    order.setdefault(device, []).append(watched)
            cells = {d: [c for w in flows for c in slot_cells(w.slots[d])] for d, flows in order.items()}
            counted = self._control.read_cells(cells)
            for device, flows in order.items():
                for number, watched in enumerate(flows):
                    part = counted[device][number * CELLS : (number + 1) * CELLS]
                    self.monitor.update(watched.name, device, part)
            self.monitor.sample(self._clock.now_ps)

    def _end_window(self) -> None:
        if not len(self._list):
            return
        try:
            begin = self._clock.now_ps
            self.sample()
            self.pause_s = next_window(self.pause_s, self.window_s, (self._clock.now_ps - begin) / PS)
        except DetourError as error:  # a switch is away, and will be back; until then the window goes on
            if not self._ended and str(error) != self._told:
                _log.warning("flows at switches are not read: %s", error)
            self._told = str(error)
        else:
            self._told = ""

    def stop(self) -> None:
        """Ends no more windows. May be called twice."""
        self._ended = True
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    # -- what is known ----------------------------------------------------------------------------------

    def rows(self, flow: str) -> list[SwitchFlowTotals]:
        """Return a flow's rows at every switch that watches it, in the order of its path."""
        with self._lock:
            if flow not in self._list:
                return []
            watched = self._list[flow]
            order = [*watched.devices, *(device for device in watched.slots if device not in watched.devices)]
            return [self.monitor.at(flow, device) for device in order]


class WatchedFlows:
    """The flows of the table, and the switches that watch them. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, control: ControlPlane, live: LiveFlows, paths: Paths, kept: int) -> None:
        """`kept`: windows of the switches that are remembered."""
        self._topology, self._control, self._paths = fabric.topology, control, paths
        self.live = live
        self.switches = SwitchFlows(control, live, fabric.clock, fabric.terms.hosts.tick_ps, kept)
        self._watching = False
        control.more.append(self.switches.plan)

    def flows(self) -> FlowRows:
        """Return the flows that send now, as their receivers, and if asked the switches on the way, saw them in the
        last window."""
        rows = self.live.rows(self.switches.rows)
        return FlowRows(self.live.window_s, self._watching, self.switches.pause_s, rows)

    def watch_flows(self, on: bool) -> FlowRows:
        """Switches watch the flows that send, and those that will, or no flow any more."""
        with self._control.changing:
            self._watching = on
            if on:
                if self not in self.live.subscribers:
                    self.live.subscribers.append(self)
                self._watch(self.live.all())
            else:
                for live in self.live.all():
                    self.closed(live)
                if self in self.live.subscribers:
                    self.live.subscribers.remove(self)
        return self.flows()

    def opened(self, flows: Sequence[LiveFlow]) -> None:
        """Flows begin to send."""
        if self._watching:
            self._watch(flows)

    def _watch(self, flows: Iterable[LiveFlow]) -> None:
        """Let all switches watch flows that these can pass. Without room for it, a flow sends unwatched."""

        def add(live: LiveFlow, devices: list[int]) -> None:
            self.switches.add(live.name, self._topology.hosts[live.flow.source_host].address, devices)

        with self._control.changing:
            self._change([live for live in flows if live.name not in self.switches], add)

    def closed(self, flow: LiveFlow) -> None:
        """A flow ends, or is to be watched no longer."""
        with self._control.changing:
            try:
                self.switches.remove(flow.name)
            except DetourError as error:
                _log.warning("%s: %s", flow.name, error)

    def move(self, flows: Iterable[LiveFlow]) -> None:
        """Flows may have got other paths: those that are watched are watched there."""
        with self._control.changing:
            watched = [live for live in flows if live.name in self.switches]
            self._change(watched, lambda live, devices: self.switches.move(live.name, devices))

    def _change(self, flows: Sequence[LiveFlow], change: Callable[[LiveFlow, list[int]], None]) -> None:
        """Changes where flows are watched; `change` gets the devices that one can pass, in order of its paths."""
        hosts, switches = self._topology.hosts, self._topology.switches
        ways = [
            (live, hosts[live.flow.source_host], hosts[live.flow.target_host], path)
            for live in flows
            for path in live.flow.paths
        ]
        devices: dict[str, list[int]] = {live.name: [] for live in flows}
        try:
            for (live, *_), passed in zip(ways, self._paths.hops(way[1:] for way in ways), strict=True):
                devices[live.name] += [switches[switch_at(self._topology, stop)].device_id for stop in passed]
        except DetourError as error:
            _log.warning("it is not known where flows pass: %s", error)
            return
        for live in flows:
            try:
                change(live, list(dict.fromkeys(devices[live.name])))
            except DetourError as error:
                _log.warning("%s is watched no longer: %s", live.name, error)
