# SPDX-License-Identifier: Apache-2.0
"""What `--workload` may be: a pattern by name, or a flow file."""

from __future__ import annotations

from pathlib import Path

from detour.base.errors import DetourError
from detour.experiments.sim.patterns import NAMED_WORKLOADS, flows_of_pattern
from detour.fabric.workloads.flow_files import read_flow_file
from detour.fabric.workloads.flow_table import FlowTable, check_flows
from detour.fabric.workloads.tasks import TaskGraph, flow_graph
from detour.topo import Topology


def workload_from(text: str, topology: Topology, rate_bps: int, seed: int) -> TaskGraph:
    """What a text names. `rate_bps`: of hosts' links, by which loads are reckoned.

    Raises:
        DetourError: there is no such pattern or file, or what is wrong with it.
    """
    name = text.partition(":")[0].strip().lower()
    if name in NAMED_WORKLOADS or not _is_path(text):
        return _graph(flows_of_pattern(text, topology, rate_bps, seed), topology)
    file = Path(text)
    flows = read_flow_file(file, len(topology.hosts))
    check_flows(flows, len(topology.hosts), text)
    return _graph(flows, topology)


def _graph(flows: FlowTable, topology: Topology) -> TaskGraph:
    """Flows as tasks of which none waits for another one."""
    return flow_graph(len(topology.hosts), flows["source"], flows["target"], flows["bytes"], flows["start_ps"])


def _is_path(text: str) -> bool:
    """Whether a text that names no pattern means a file."""
    if Path(text).is_dir():
        raise DetourError(f"workload {text!r} is a folder; wanted is a file, or one of {', '.join(NAMED_WORKLOADS)}")
    return Path(text).exists() or "/" in text or Path(text).suffix != ""
