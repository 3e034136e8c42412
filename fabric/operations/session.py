# SPDX-License-Identifier: Apache-2.0
"""A running fabric with its control plane: what the daemon serves, the demo uses and the commands ask for.

The operations (`registry.Operations`) are methods of the parts, by subject. They may be called from several threads at
once; those that change tables wait for each other.
"""

from __future__ import annotations

import time
from typing import Self

from msgspec import UNSET

from detour.base.records import extended
from detour.control.p4runtime.client import FabricClient
from detour.fabric.backends.base import Fabric
from detour.fabric.monitoring.windows import KEPT
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.counting import Counting
from detour.fabric.operations.links import Capturing, Links
from detour.fabric.operations.live_flows import WINDOW_S, LiveFlows
from detour.fabric.operations.packet_tracing import Following
from detour.fabric.operations.paths import Paths
from detour.fabric.operations.results import P4rtClientRow, P4rtClientRows, Status, SwitchEndpoint
from detour.fabric.operations.steering import Steering
from detour.fabric.operations.switch_flows import WatchedFlows
from detour.fabric.operations.tables import Tables
from detour.fabric.operations.transfers import Loading, Transfers
from detour.fabric.operations.usid_reroute import Relisting
from detour.fabric.traffic.flows import Pump


class Session:
    """Control plane and traffic of a fabric that has been started. `connect` first; `close` also closes the fabric."""

    def __init__(self, fabric: Fabric, window_s: float = WINDOW_S, kept: int = KEPT) -> None:
        """`window_s`: of the monitors of flows, by the fabric's clock; `kept`: windows that are remembered."""
        self.fabric = fabric
        self.topology = fabric.topology
        self.started = time.monotonic()
        self.pump = pump = Pump(fabric.device, fabric.clock)
        self.live = live = LiveFlows(fabric.hs, fabric.clock, window_s)
        self.control = control = ControlPlane(fabric)
        self.paths = paths = Paths(control)
        self.watched = watched = WatchedFlows(fabric, control, live, paths, kept)
        self.steering = steering = Steering(control, watched, paths, fabric.terms.packet_s)
        relisting = Relisting(self.topology, control.policy, live)
        # Who may reroute a flow hears of it before who watches it on its way.
        live.subscribers += [steering, relisting, watched]
        self.counting = counting = Counting(fabric, control, steering, watched)
        self.capturing, self.loading = capturing, loading = Capturing(fabric), Loading(fabric, pump, live)
        tables, links = Tables(control, live), Links(fabric, control, steering, relisting, watched)
        transfers, following = Transfers(fabric, pump, paths, steering, live), Following(fabric, control, paths)
        # -- operations
        self.provision, self.verify, self.prove, self.entries = (
            tables.provision, tables.verify, tables.prove, tables.entries
        )  # fmt: skip
        self.fail, self.heal, self.impair, self.capture = links.fail, links.heal, links.impair, capturing.capture
        self.counters, self.watch, self.metrics = counting.counters, counting.watch, counting.metrics
        self.path, self.flows, self.watch_flows = paths.path, watched.flows, watched.watch_flows
        self.send, self.probe, self.load = transfers.send, transfers.probe, loading.load
        self.trace, self.trace_frame, self.trace_live = following.trace, following.frame, following.live
        self.place, self.placement, self.reroute = steering.place, steering.placement, steering.reroute

    # -- life -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connects to all switches and sets their pipeline.

        Raises:
            DetourError: a switch does not answer or has another controller.
        """
        self.control.connect()

    def close(self) -> None:
        """Ends connections and fabric. May be called twice."""
        self.loading.close()
        self.live.stop()
        self.counting.ports.stop()
        self.watched.switches.stop()
        try:
            self.control.close()
        finally:
            self.fabric.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def client(self) -> FabricClient:
        """The P4Runtime client."""
        return self.control.client

    def clients(self, switch: str) -> P4rtClientRows:
        """The P4Runtime clients of a switch."""
        device = self.topology.switch(switch).device_id
        found = self.fabric.p4runtime_clients(device)
        rows = [
            P4rtClientRow(
                each.role, None if each.election_id is None else str(each.election_id), each.primary, each.peer
            )
            for each in found or []
        ]
        return P4rtClientRows(found is not None, rows)

    def status(self) -> Status:
        """What runs, since when, and where."""
        addresses, captured = self.fabric.addresses(), self.capture()
        return extended(
            Status,
            self.fabric.details(),
            target=self.fabric.target,
            topology=self.topology.spec,
            switches=len(self.topology.switches),
            hosts=len(self.topology.hosts),
            links=len(self.topology.links),
            entries=self.control.entries,
            lost=self.control.lost,
            failures=self.control.failure_names(),
            rate_mbps=self.fabric.terms.rate_bps / 1e6,
            seconds_up=round(time.monotonic() - self.started, 1),
            endpoints={t.name: SwitchEndpoint(addresses[t.name], t.device_id) for t in self.fabric.targets()},
            displaced=self.control.displaced,
            icmp_answered=self.control.responder.answered,
            capture=UNSET if captured.folder is None else captured,
        )
