# SPDX-License-Identifier: Apache-2.0
"""Messages of tasks over the paths of a placement instead of those that hashes pick: `detour place`, run.

    run = TaskRun(fabric, graph, lanes=1)
    placement = place_tasks(run)
    fabric.run(until_ps)

Every connection is a flow of the placement, with the bytes that it will carry; all of them count as simultaneous. Its
packets carry the placement's uSID list (RFC 9800) as destination address. Connections inside a switch have no choice.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from detour.base.errors import DetourError
from detour.control.placement.jobs import FlowSet
from detour.control.placement.place import Placement, place
from detour.fabric.traffic.tasks import TaskRun
from detour.hosts.addresses import final_words, to_words
from detour.hosts.verbs.bulk import lead
from detour.topo.address import usid_address
from detour.topo.paths import SwitchPath

ConnectionName = tuple[int, int, int]
"""source and destination host, and which of their connections (`TASK_FIELDS`)"""


def place_tasks(run: TaskRun, pinned: Mapping[ConnectionName, SwitchPath] | None = None) -> Placement:
    """Places all connections of a run that has not begun, around the fabric's failures, and gives them their lists.
    `pinned`: paths that are demanded. Raises DetourError: the scheme picks paths itself, hosts are not connected, or a
    path needs too many uSIDs."""
    fabric = run.fabric
    if fabric.scheme.paths not in ("shortest", "pinned"):
        raise DetourError(
            f"scheme {fabric.scheme.name} picks paths itself; a placement needs one that stays on the path that it "
            "is given, like LERP-shortest"
        )
    ends = run.connections
    demanded = {run.index(*name): path for name, path in (pinned or {}).items()}
    source, target = ends.T.astype(np.int32)
    flows = FlowSet(source, target, np.zeros_like(source), ("workload",), demanded, run.connection_bytes())
    placement = place(fabric.topology, flows, fabric.failures)
    if away := [flow for flow in range(len(placement.flows)) if len(placement.path(flow)) > 1]:
        lists = np.array([to_words(usid_address(placement.usids(flow))) for flow in away], np.int64)
        finals = final_words(fabric.topology.hosts[host].node_id for host in flows.target[away].tolist())
        lead(fabric.device, fabric.flows.sender[away], lists, finals)
    return placement
