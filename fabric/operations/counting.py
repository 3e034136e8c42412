# SPDX-License-Identifier: Apache-2.0
"""Operations that show what switches and links count."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.control.p4runtime.monitor import REASONS, Sample
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.clock import PS, Ticker
from detour.fabric.monitoring import metrics
from detour.fabric.monitoring.metrics import port_counts
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.path_placement import PathPlacement
from detour.fabric.operations.results import FabricMetrics, LinkUse, LinkUses, SwitchCounters
from detour.fabric.operations.switch_flows import WatchedFlows
from detour.fabric.records import PortWindow


class Counting:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, control: ControlPlane, placement: PathPlacement, watched: WatchedFlows) -> None:
        self._fabric, self._topology, self._control = fabric, fabric.topology, control
        self._placement, self._watched = placement, watched
        self.ports = PortWatch(fabric, control.sample)

    def counters(self, switch: str | None) -> dict[str, SwitchCounters]:
        """Counters of the ports and verdicts of switches, by name."""
        chosen = self._topology.switches if switch is None else (self._topology.switch(switch),)
        sample, result = self._control.sample(), {}
        for s in chosen:
            linked = (port for port, peer in enumerate(s.ports, 1) if peer is not None)
            ports = {str(port): port_counts(sample, s.device_id, port) for port in linked}
            verdicts = {name: sample.reason(s.device_id, i).packets for i, name in enumerate(REASONS)}
            result[s.name] = SwitchCounters(ports, {name: packets for name, packets in verdicts.items() if packets})
        return result

    def watch(self, seconds: float, cancelled: threading.Event | None) -> LinkUses:
        """Use, queue, drops and marks of every link's two directions over the next `seconds`."""
        before, states_before = self._control.sample(), self._fabric.ports()
        self._fabric.clock.wait_seconds(seconds, cancelled)
        change, states = self._control.sample().since(before), self._fabric.ports()
        rows = []
        for link in self._topology.links:
            for device, port in self._fabric.link_ends(link.index):
                state, old = states[device, port], states_before[device, port]
                rate = change.rate_bps(device, port)
                row = LinkUse(
                    link=link.name,
                    from_=f"{self._topology.switch_name(device)}:{port}",
                    kind=link.kind,
                    up=state.up,
                    mbps=rate / 1e6,
                    # A packet counts when it begins to leave: one more than fits may.
                    use=min(rate / (self._fabric.terms.rate_bps * link.speed), 1.0),
                    queue_packets=state.queue_packets,
                    drops=None if state.drops is None or old.drops is None else state.drops - old.drops,
                    marks=change.port(device, port, "marked").packets,
                )
                rows.append(row)
        dropped = sum(change.dropped(switch.device_id) for switch in self._topology.switches)
        return LinkUses(change.seconds, rows, dropped)

    def metrics(self) -> FabricMetrics:
        """Flows, ports, verdicts and placement as metrics."""
        windows = self.ports.last()
        ports = metrics.port_rows(self._topology, windows, self._control.sample(), self._fabric.ports())
        flows = self._watched.flows().flows
        families = metrics.flow_metrics(flows) + metrics.port_metrics(ports)
        families += metrics.switch_flow_metrics(flows, self._watched.switches.tick_ps)
        families.append(metrics.verdict_metric(self._topology, self._control.sample()))
        return FabricMetrics(families + metrics.placement_metrics(self._placement.placement()))


PORT_WINDOW_S, _FIRST_WINDOW_S = 1.0, 0.2
_NOTHING = PortWindow(0.0, 0.0, 0.0, 0.0)


class PortWatch:
    """All ports that lead somewhere in windows, read over P4Runtime and from the target. It begins with the first
    question, for reading counters of many switches costs something, and goes on until the fabric ends."""

    def __init__(self, fabric: Fabric, sample: Callable[[], Sample]) -> None:
        """`sample`: the switches' counters now."""
        self._clock, self._states, self._sample = fabric.clock, fabric.ports, sample
        self._ports = [
            (switch.device_id, port)
            for switch in fabric.topology.switches
            for port, peer in enumerate(switch.ports, 1)
            if peer is not None
        ]
        self.windows = {f"{fabric.topology.switch_name(device)}:{port}": _NOTHING for device, port in self._ports}
        """the last window by port"""
        self._before, self._then_ps = np.zeros((len(self._ports), 4), np.int64), -1
        self._ticker: Ticker | None = None
        self._end = threading.Event()
        self._lock = threading.Lock()

    def _read(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(ports, 4) what was counted so far: transmitted packets and bytes, marked packets, drops; and (ports,)
        packets that wait now."""
        sample, states = self._sample(), self._states()
        counts, waiting = [], []
        for device, port in self._ports:
            sent, state = sample.port(device, port, "tx"), states[device, port]
            counts.append((sent.packets, sent.bytes, sample.port(device, port, "marked").packets, state.drops or 0))
            waiting.append(state.queue_packets or 0)
        return np.array(counts, np.int64), np.array(waiting, np.int64)

    def end_window(self) -> None:
        """The first call only begins one."""
        now_ps = self._clock.now_ps
        if now_ps <= self._then_ps:  # a clock that is behind stands still
            return
        counts, waiting = self._read()
        restarted = counts < self._before  # such a switch counts from zero
        packets, size, marked, drops = (counts - np.where(restarted, 0, self._before)).T.astype(np.float64)
        self._before, then_ps, self._then_ps = counts, self._then_ps, now_ps
        if then_ps < 0:
            return
        seconds = (now_ps - then_ps) / PS
        fraction = np.divide(marked, packets, out=np.zeros_like(marked), where=packets > 0)
        rows = np.stack([size * 8 / seconds, waiting.astype(np.float64), fraction, drops], axis=1).tolist()
        self.windows = {name: PortWindow(*row) for name, row in zip(self.windows, rows, strict=True)}

    def last(self) -> dict[str, PortWindow]:
        """The last window of every port, by its name like `s0:3`; the first call begins one and waits for its end."""
        with self._lock:
            if self._ticker is None:
                self.end_window()
                self._clock.wait_seconds(_FIRST_WINDOW_S, self._end)
                self.end_window()
                self._ticker = self._clock.every(lambda: PORT_WINDOW_S, self._go_on, "port monitor")
        return self.windows

    def _go_on(self) -> None:
        # The fabric goes down, or a switch is away: this window is as long as it is.
        with suppress(DetourError):
            self.end_window()

    def stop(self) -> None:
        """Ends no more windows. May be called twice."""
        self._end.set()
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
