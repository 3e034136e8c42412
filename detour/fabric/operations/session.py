# SPDX-License-Identifier: Apache-2.0
"""A running fabric with its control plane: what the daemon serves, the demo uses and the commands ask for.

Operations (`registry.Operations`) are carried out by parts, by subject. They may be called from several threads at
once; those that change tables wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

from msgspec import UNSET

from detour.base.records import extended
from detour.fabric.backends.base import Fabric
from detour.fabric.monitoring.windows import KEPT
from detour.fabric.operations.control_plane import ControlPlane, Paths
from detour.fabric.operations.counting import Counting
from detour.fabric.operations.links import Capturing, Links
from detour.fabric.operations.live_flows import WINDOW_S, LiveFlows
from detour.fabric.operations.packet_tracing import PacketTracing
from detour.fabric.operations.path_placement import PathPlacement
from detour.fabric.operations.registry import Operation, Operations
from detour.fabric.operations.results import P4rtClientRow, P4rtClientRows, Status, SwitchEndpoint
from detour.fabric.operations.switch_flows import WatchedFlows
from detour.fabric.operations.tables import Tables
from detour.fabric.operations.transfers import Loading, Transfers
from detour.fabric.operations.usid_reroute import UsidRerouting
from detour.fabric.traffic.flows import Pump


class Session(Operations):
    """Control plane and traffic of a fabric that has been started. `close` also closes the fabric."""

    def __init__(self, fabric: Fabric, window_s: float = WINDOW_S, kept: int = KEPT) -> None:
        """`window_s`: of the monitors of flows, by the fabric's clock; `kept`: windows that are remembered. Connects to
        all switches and sets their pipeline. Raises DetourError: a switch does not answer or has another controller;
        the fabric is closed."""
        self.fabric = fabric
        self.topology = fabric.topology
        self.started = time.monotonic()
        try:
            self.control = control = ControlPlane(fabric)
        except BaseException:
            fabric.close()
            raise
        self.pump = pump = Pump(fabric.device, fabric.clock, fabric.topology)
        self.live = live = LiveFlows(fabric.hs, fabric.clock, window_s)
        self.paths = paths = Paths(control)
        self.watched = watched = WatchedFlows(fabric, control, live, paths, kept)
        placement = PathPlacement(control, watched, paths, fabric.terms.packet_s)
        rerouting = UsidRerouting(self.topology, control.policy, live)
        self.counting = Counting(fabric, control, placement, watched)
        self.loading = Loading(fabric, pump, live)
        links = Links(fabric, control, placement, rerouting, watched)
        transfers, tracing = Transfers(fabric, pump, paths, placement, live), PacketTracing(fabric, control, paths)
        fabric_parts = (Tables(control, live), links, self.counting, Capturing(fabric))
        self._parts = (*fabric_parts, paths, watched, placement, transfers, self.loading, tracing)

    def method(self, operation: str) -> Callable[..., Any]:
        """Return the method that carries an operation out."""
        return next(getattr(part, operation) for part in self._parts if hasattr(part, operation))

    def carry_out(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        return self.method(operation.name)(**operation.all_arguments(arguments))

    def warning(self, operation: str) -> str | None:
        """Return a warning to show beside an operation's answer: the error that ended the writing of captures."""
        # These two say it in their answers.
        return None if operation in ("capture", "status") else self.fabric.capture_error()

    # -- life -------------------------------------------------------------------------------------------

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

    def clients(self, switch: str) -> P4rtClientRows:
        """The P4Runtime clients of a switch."""
        device = self.topology.switch(switch).device_id
        streams = self.fabric.p4runtime_clients(device)
        ids = [None if each.election_id is None else str(each.election_id) for each in streams or []]
        rows = [P4rtClientRow(s.role, id_, s.primary, s.peer) for s, id_ in zip(streams or [], ids, strict=True)]
        return P4rtClientRows(streams is not None, rows)

    def status(self) -> Status:
        """Return the status of the fabric: its content, addresses and times."""
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
            names=self.topology.names or UNSET,
            icmp_answered=self.control.responder.answered,
            capture=UNSET if captured.folder is None else captured,
        )
