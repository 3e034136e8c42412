# SPDX-License-Identifier: Apache-2.0
"""Messages of tasks over the paths of a placement instead of those that hashes pick: `detour place`, run.

    run = TaskRun(fabric, graph, lanes=1)
    placed = PlacedTasks(run)
    fabric.run(until_ps)

Every connection is a flow of the placement, with the bytes that it will carry; all of them count as simultaneous. Its
packets carry the placement's uSID list (RFC 9800) as destination address. Connections inside a switch have no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from detour.base.errors import DetourError
from detour.control.placement.jobs import FlowSet
from detour.control.placement.place import place
from detour.control.placement.repair import repair
from detour.fabric.traffic.tasks import TaskRun
from detour.hosts.addresses import final_words, to_words
from detour.hosts.verbs.bulk import lead
from detour.topo.address import usid_address
from detour.topo.failures import Failures
from detour.topo.paths import SwitchPath

ConnectionName = tuple[int, int, int]
"""source and destination host, and which of their connections (`TASK_FIELDS`)"""


class PlacedTasks:
    """The placement of a run's connections, which can be repaired as the run goes on."""

    def __init__(self, run: TaskRun, pinned: Mapping[ConnectionName, SwitchPath] | None = None) -> None:
        """Place all connections of a run that has not begun, around the fabric's failures, and give them their lists.
        `pinned`: paths that are demanded. Raises DetourError: the scheme picks paths itself, hosts are not connected,
        or a path needs too many uSIDs."""
        self._fabric = fabric = run.fabric
        if fabric.scheme.paths not in ("shortest", "pinned"):
            raise DetourError(
                f"scheme {fabric.scheme.name} chooses paths itself; a placement needs a scheme that keeps the "
                "given path, like LERP-shortest"
            )
        if fabric.hs.cfg[0]["leased"]:
            room = len(fabric.hs.qp) // 2
            raise DetourError(f"{len(run.connections)} connections with paths of their own; expected at most {room}")
        demanded = {run.index(*name): path for name, path in (pinned or {}).items()}
        source, target = run.connections.T.astype(np.int32)
        flows = FlowSet(source, target, np.zeros_like(source), ("workload",), demanded, run.connection_bytes())
        self.placement = place(fabric.topology, flows, fabric.failures)
        self._lead(range(len(flows)), None)

    def repair(self, failures: Failures) -> None:
        """Move the connections whose path has failed, and tell their senders. Those that have no path any more keep
        what they have."""
        repaired = repair(self.placement, failures)
        self.placement = repaired.placement
        self._lead(repaired.moved.tolist(), self._fabric.now_ps)

    def _lead(self, flows: Iterable[int], moved_ps: int | None) -> None:
        fabric, placement = self._fabric, self.placement
        away = [flow for flow in flows if len(placement.path(flow)) > 1]
        if not away:
            return
        lists = np.array([to_words(usid_address(placement.usids(flow))) for flow in away], np.int64)
        hosts = placement.flows.target[away].tolist()
        finals = final_words(fabric.topology.hosts[host].node_id for host in hosts)
        lead(fabric.device, fabric.flows.sender[away], lists, finals, moved_ps=moved_ps)
