# SPDX-License-Identifier: Apache-2.0
"""Operations that choose paths for flows: by a placement, or one flow by hand."""

from __future__ import annotations

import time
from pathlib import Path as File

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.control.placement.jobs import read_jobs
from detour.fabric.operations.control_plane import ControlPlane, since
from detour.fabric.operations.live import LiveFlows
from detour.fabric.operations.paths import Paths
from detour.fabric.operations.results import PlacedFlows, PlacementState, ReroutedFlow
from detour.fabric.operations.steering import Steering
from detour.fabric.operations.watched_flows import WatchedFlows


class Placing:
    """See the module. Methods may be called from several threads."""

    def __init__(
        self, control: ControlPlane, live: LiveFlows, paths: Paths, steering: Steering, watched: WatchedFlows
    ) -> None:
        self._control, self._topology, self._live = control, control.topology, live
        self._paths, self._steering, self._watched = paths, steering, watched

    def place(self, jobs: str, reroute: bool = False, watch: bool = False) -> PlacedFlows:
        """Places the flows of a job file; connections between their hosts take these paths from now on. `reroute`: the
        controller moves them when they are congested; `watch`: switches watch them (`watch_flows`).

        Raises:
            DetourError: the file is wrong or the flows cannot be placed; what was placed before stays.
        """
        with self._control.changing:
            begin = time.monotonic()
            self._steering.apply(read_jobs(File(jobs), self._topology), self._control.failures)
            self._steering.reroute(reroute)
            state = self._steering.state()
            if watch:
                self._watched.watch_flows(True)
        return extended(PlacedFlows, state, topology=self._topology.spec, seconds=since(begin))

    def placement(self) -> PlacementState:
        """The placement as it is now."""
        return self._steering.state()

    def reroute(self, flow: str, usid: str) -> ReroutedFlow:
        """The sender of a flow takes another uSID list, if that leads to its destination.

        Raises:
            DetourError: no such flow or list, or packets with it would not arrive; the flow stays as it is.
        """
        live = self._live.find(flow).flow
        a, b = self._topology.hosts[live.source_host], self._topology.hosts[live.target_host]
        way = self._paths.chosen(b, None, usid)
        found = self._control.tracer().trace(a, b, way.sport, way.usids)
        if not found.delivered:
            raise DetourError(f"flow {flow} stays: {way} {found.outcome}")
        self._live.reroute(flow, way)
        self._steering.rerouted(flow, found.switches)
        self._watched.follow(self._live.find(flow))
        return ReroutedFlow(flow, str(way), [f"s{switch}" for switch in found.switches])
