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
from detour.control.entries import Plan
from detour.control.p4runtime.client import FabricClient
from detour.fabric.footings.base import Fabric
from detour.fabric.monitoring.windows import KEPT
from detour.fabric.operations.capturing import Capturing
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.counting import Counting
from detour.fabric.operations.failing import Failing
from detour.fabric.operations.following import Following
from detour.fabric.operations.impairing import Impairing
from detour.fabric.operations.live_flows import WINDOW_S, LiveFlows, WatchedFlows
from detour.fabric.operations.loading import Loading
from detour.fabric.operations.paths import Paths
from detour.fabric.operations.proving import Proving
from detour.fabric.operations.relisting import Relisting
from detour.fabric.operations.results import P4rtClientRow, P4rtClientRows, Status, SwitchEndpoint
from detour.fabric.operations.steering import Steering
from detour.fabric.operations.tables import Tables
from detour.fabric.operations.transfers import Transfers
from detour.fabric.traffic.flows import Pump


class Session:
    """Control plane and traffic of a fabric that has been started. `connect` first; `close` also closes the fabric."""

    def __init__(self, fabric: Fabric, window_s: float = WINDOW_S, kept: int = KEPT) -> None:
        """`window_s`: of the monitors of flows, by the fabric's clock; `kept`: windows that are remembered."""
        self.fabric = fabric
        self.topology = fabric.topology
        self.started = time.monotonic()
        self.pump = Pump(fabric.device, fabric.clock)
        self.live = LiveFlows(fabric.hs, fabric.clock, window_s)
        self.control = control = ControlPlane(fabric, self._watched_plan)
        self.paths = Paths(control)
        self.watched = watched = WatchedFlows(fabric, control, self.live, self.paths, kept)
        self.steering = steering = Steering(control, watched, self.paths, fabric.terms.packet_s)
        self.counting = counting = Counting(fabric, control, steering, watched)
        # -- operations
        self.relisting = relisting = Relisting(self.topology, control.policy, self.live)
        tables, failing = Tables(control), Failing(fabric, control, steering, relisting, watched)
        self.provision, self.verify, self.entries = tables.provision, tables.verify, tables.entries
        self.prove = Proving(control, self.live).prove
        self.fail, self.heal, self.impair = failing.fail, failing.heal, Impairing(fabric).impair
        self.counters, self.watch, self.metrics = counting.counters, counting.watch, counting.metrics
        self.path, self.flows, self.watch_flows = self.paths.path, watched.flows, watched.watch_flows
        transfers = Transfers(fabric, self.pump, self.paths, steering, relisting, watched)
        self.send, self.probe = transfers.send, transfers.probe
        self.loading = loading = Loading(fabric, self.pump, relisting, watched)
        self.load, self.capturing = loading.load, Capturing(fabric)
        self.capture = self.capturing.capture
        following = Following(fabric, control, self.paths)
        self.trace, self.trace_frame, self.trace_live = following.trace, following.frame, following.live
        self.place, self.placement, self.reroute = steering.place, steering.placement, steering.reroute

    def _watched_plan(self) -> Plan:
        return self.watched.switches.plan()

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
