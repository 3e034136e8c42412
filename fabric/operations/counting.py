# SPDX-License-Identifier: Apache-2.0
"""Operations that show what switches and links count."""

from __future__ import annotations

import threading

from detour.control.p4runtime.monitor import REASONS
from detour.fabric.footings.base import Fabric
from detour.fabric.monitoring import metrics
from detour.fabric.monitoring.port_watch import PortWatch, port_counts
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.live_flows import WatchedFlows
from detour.fabric.operations.results import FabricMetrics, LinkUse, LinkUses, SwitchCounters
from detour.fabric.operations.steering import Steering


class Counting:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, control: ControlPlane, steering: Steering, watched: WatchedFlows) -> None:
        self._fabric, self._topology, self._control = fabric, fabric.topology, control
        self._steering, self._watched = steering, watched
        self.ports = PortWatch(fabric, control.sample)

    def counters(self, switch: str | None = None) -> dict[str, SwitchCounters]:
        """Counters of the ports and verdicts of switches, by name."""
        chosen = self._topology.switches if switch is None else (self._topology.switch(switch),)
        sample, result = self._control.sample(), {}
        for s in chosen:
            linked = (port for port, peer in enumerate(s.ports, 1) if peer is not None)
            ports = {str(port): port_counts(sample, s.device_id, port) for port in linked}
            verdicts = {name: sample.reason(s.device_id, i).packets for i, name in enumerate(REASONS)}
            result[s.name] = SwitchCounters(ports, {name: packets for name, packets in verdicts.items() if packets})
        return result

    def watch(self, seconds: float = 1.0, cancelled: threading.Event | None = None) -> LinkUses:
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
                    from_=f"s{device - 1}:{port}",
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
        found = metrics.flow_metrics(flows) + metrics.port_metrics(ports)
        found += metrics.switch_flow_metrics(flows, self._watched.switches.tick_ps)
        found.append(metrics.verdict_metric(self._topology, self._control.sample()))
        return FabricMetrics(found + metrics.placement_metrics(self._steering.placement()))
