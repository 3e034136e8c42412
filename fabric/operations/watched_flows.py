# SPDX-License-Identifier: Apache-2.0
"""Flows that send, and the switches that watch them if they are asked to."""

from __future__ import annotations

import logging

from detour.base.errors import DetourError
from detour.fabric.footings.base import Fabric
from detour.fabric.monitoring.switch_flows import FabricAccess, SwitchFlows
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.live import LiveFlow, LiveFlows
from detour.fabric.operations.paths import Paths
from detour.fabric.operations.results import FlowRows

_log = logging.getLogger(__name__)


class WatchedFlows:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, control: ControlPlane, live: LiveFlows, paths: Paths, kept: int) -> None:
        """`kept`: windows of the switches that are remembered."""
        self._topology, self._control, self._live, self._paths = fabric.topology, control, live, paths
        links = FabricAccess(control.read_cells, control.rewrite, live.set_label, fabric.clock)
        self.switches = SwitchFlows(links, fabric.terms.hosts.tick_ps, live.window_s, kept)
        self._watching = False

    def flows(self) -> FlowRows:
        """What sends now, as its receivers, and if asked the switches on the way, saw it in the last window."""
        rows = self._live.rows(self.switches.rows)
        return FlowRows(self._live.window_s, self._watching, self.switches.pause_s, rows)

    def watch_flows(self, on: bool) -> FlowRows:
        """Switches watch the flows that send, and those that will, or no flow any more."""
        with self._control.changing:
            self._watching = on
            for live in self._live.all():
                if on:
                    self._watch(live)
                else:
                    self.ends(live.name)
        return self.flows()

    def begins(self, name: str) -> None:
        """A flow that is live begins to send."""
        if self._watching:
            self._watch(self._live.find(name))

    def _watch(self, live: LiveFlow) -> None:
        """Lets all switches watch a flow that it can pass. Without room for it, it sends unwatched."""
        with self._control.changing:
            source = self._topology.hosts[live.flow.source_host]
            if live.name not in self.switches:
                try:
                    self.switches.add(live.name, source.address, self._devices(live))
                except DetourError as error:
                    _log.warning("%s is not watched: %s", live.name, error)

    def ends(self, name: str) -> None:
        """A flow ends, or is to be watched no longer."""
        with self._control.changing:
            try:
                self.switches.remove(name)
            except DetourError as error:
                _log.warning("%s: %s", name, error)

    def follow(self, live: LiveFlow) -> None:
        """A flow may have got another path: if it is watched, then there."""
        with self._control.changing:
            if live.name in self.switches:
                try:
                    self.switches.move(live.name, self._devices(live))
                except DetourError as error:
                    _log.warning("%s is watched no longer: %s", live.name, error)

    def follow_all(self) -> None:
        """All flows may have got other paths."""
        for live in self._live.all():
            self.follow(live)

    def _devices(self, live: LiveFlow) -> list[int]:
        """The switches that a flow can pass, in order of its paths."""
        hosts, switches = self._topology.hosts, self._topology.switches
        source, target = hosts[live.flow.source_host], hosts[live.flow.target_host]
        passed = (switch for path in live.flow.paths for switch in self._paths.hops(source, target, path))
        return list(dict.fromkeys(switches[switch].device_id for switch in passed))
