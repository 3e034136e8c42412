# SPDX-License-Identifier: Apache-2.0
"""Flows that the switches of a fabric in virtual time watch: counters and entries straight from and to their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detour.control.entries import Plan, difference
from detour.control.p4runtime.watching import Cell
from detour.fabric.footings.virtual.fabric import VirtualFabric
from detour.fabric.footings.virtual.load import rewrite
from detour.fabric.monitoring.switch_flows import FabricAccess, SwitchFlows
from detour.fabric.monitoring.windows import KEPT


def switch_flows(fabric: VirtualFabric, senders: Mapping[str, int], kept: int = KEPT) -> SwitchFlows:
    """The module in the switches. `senders`: rows of the senders' QPs by the flows' names. The caller ends windows."""

    def read(cells: Mapping[int, Sequence[Cell]]) -> dict[int, list[tuple[int, int]]]:
        found = {}
        for device, wanted in cells.items():
            counters = fabric.states[device].counters
            found[device] = [counters[name].read(index) for name, index in wanted]
        return found

    def write(before: Plan, after: Plan) -> None:
        for device in sorted(before.keys() | after.keys()):
            change = difference(before.get(device, []), after.get(device, []))
            fabric.network.call(lambda device=device, change=change: rewrite(fabric.states[device], change))

    def label(flow: str, value: int) -> None:
        fabric.hs.qp[senders[flow]]["flow_label"] = value

    links = FabricAccess(read, write, label, lambda: fabric.now_ps)
    return SwitchFlows(links, fabric.config.tick_ps, window_s=0, kept=kept)
