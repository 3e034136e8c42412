# SPDX-License-Identifier: Apache-2.0
"""Steady phases of flows are skipped (docs/fast-forward.md).

    skipper = Skipper(fabric, run.connections, 0.02)
    skipper.run(until_ps)  # in place of fabric.run

Busy connections whose data share a link are a *partition*. When its rates and what it has in flight are steady
(`steadiness`) it is suspended: its frames leave the network, its senders stand still, and everybody else goes on. It
comes back before a message of it would end, or at the next look after another connection begins to send over its links
(but see `ends`). Then each sender has sent as many packets as its rate (`steadiness.find_rates`) says, and everything
else is as it was.
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.control.policy import RedMarking, StepMarking
from detour.engine.loop.suspension import TakenFrame
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import Scheme
from detour.fabric.fast import looks
from detour.fabric.fast.execution import Execution
from detour.fabric.fast.flow_paths import FlowPaths
from detour.fabric.fast.records import (
    ASLEEP,
    CONTEXTS,
    DEPTH,
    HALF,
    MEMORIES,
    NONE,
    SLOW_HALF,
    Context,
    Flow,
    Hop,
    Link,
    Look,
    Memory,
    Partition,
    Queue,
    SharedBuffer,
    State,
)
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.hosts.cc import algorithm
from detour.hosts.frames.sizes import AETH, BTH, DATA_OVERHEAD, ETHERNET, ICRC, IPV6, SACK, UDP
from detour.hosts.paths import path_scheme
from detour.hosts.plugins import Plugin
from detour.hosts.state import FIRST_QPN, MAX_TIME
from detour.hosts.suspension import KeptAnswer
from detour.topo import Topology

LOOK_PS = 8_000_000
"""time between two looks"""
_NO_LINKS, _SEED = -2, 1 << 40
_FRAMES, _ANSWERS = 64, 32
"""room for frames of a connection beside those of a window, and for answers that wait"""
_ACK_BYTES = ETHERNET + IPV6 + UDP + BTH + AETH + SACK + ICRC


def check_skippable(topology: Topology, scheme: Scheme) -> None:
    """Raise `DetourError`: under the scheme, or in the topology, packets of a connection take paths that are not known
    beforehand, or senders and switches remember what jumps do not move."""
    reasons = (
        (path_scheme(scheme.paths).times is None, "paths that do not change (shortest, pinned, spray, pathset)"),
        (scheme.transport not in ("lerp", "gbn"), "the transport LERP or go-back-N"),
        (algorithm(scheme.control).times is None, "the congestion control dctcp, dcqcn or fixed"),
        (scheme.trims, "switches that drop what they have no room for"),
        (scheme.routing not in ("valiant", "minimal"), "the routing valiant or minimal"),
    )
    wanted = next((text for wrong, text in reasons if wrong), None)
    if wanted is not None:
        raise DetourError(f"steady phases are skipped with {wanted}; scheme {scheme.name} is another one")
    if topology.planes > 1:
        raise DetourError(f"steady phases are skipped where hosts have one port; {topology.spec} has planes")


def _is_fluid(fabric: VirtualFabric) -> bool:
    """Return whether queues may count as fluids: of one class, and never in a circle of pauses, as packets go up first
    and then down (a deadlock comes from details)."""
    up_and_down = any(switch.tier > 0 for switch in fabric.topology.switches)
    return fabric.scheme.channels == 1 and (up_and_down or not fabric.scheme.pfc)


def _marking(scheme: Scheme) -> tuple[float, float, float]:
    """Packets that wait at a port: where marks begin, where every packet has one, and a packet's probability by each
    between."""
    match scheme.ecn:
        case StepMarking(k):
            return (most := k.packets(scheme.packet_bytes)), most, 0.0
        case RedMarking(kmin, kmax, pmax):
            low, high = kmin.packets(scheme.packet_bytes), kmax.packets(scheme.packet_bytes)
            return low, high, pmax / (high - low)
        case _:
            return MAX_TIME, MAX_TIME, 0.0


def _unused(table: np.ndarray) -> tuple[int, int, int, int]:
    """A table as a `RowTable`."""
    return table.ctypes.data, len(table), 0, NONE


class Skipper(Execution):
    """Runs a fabric and skips what is steady."""

    def __init__(
        self, fabric: VirtualFabric, ends: Int64Array, error: float, placed: PlacedTasks | None = None
    ) -> None:
        """`ends`: (connections, 2) hosts of the fabric's. `error`: by how much rates may differ
        between two halves of a look back, as a fraction. `placed`: who gives connections their paths, if anybody does.
        Raises `DetourError`: connections share queue pairs."""
        if fabric.hs.cfg[0]["leased"]:
            raise DetourError(f"steady phases are not skipped of {fabric.count} connections, which share queue pairs")
        super().__init__(fabric)
        self._payload = int(fabric.hs.cfg[0]["payload"])
        self._placed, self._paths = placed, FlowPaths(fabric, ends)
        hs, count = fabric.hs, len(ends)
        self._tables: dict[str, np.ndarray] = {}
        self._state = np.zeros(1, State.dtype)
        self._address = self._state.ctypes.data
        state = self._state[0]
        state["hosts"], state["host_count"], state["count"] = hs.listing, len(hs.host), count
        state["every_ps"], state["error"] = LOOK_PS, error
        state["wire"], state["answer"] = self._payload + DATA_OVERHEAD, _ACK_BYTES
        state["overhead"] = fabric.settings.links.overhead_bytes
        self._flows = self._enter("flows", np.zeros(count, Flow.dtype))
        self._flows["sender"], self._flows["receiver"] = fabric.flows.sender, fabric.flows.receiver
        self._flows["source"], self._flows["target"] = ends.T
        self._flows["part"] = self._flows["first_hop"] = NONE
        self._flows["key"] = np.random.default_rng(0).integers(1, 2**62, count)
        self._enter("parts", np.zeros(count, Partition.dtype))
        state["paced"] = algorithm(fabric.scheme.control).rate_based
        state["half"] = SLOW_HALF if state["paced"] else HALF
        state["depth"] = 4 * state["half"]
        self._enter("looks", np.zeros(int(state["depth"]) * count, Look.dtype))
        self._enter("memories", np.zeros(MEMORIES * count, Memory.dtype))
        self._enter("contexts", np.zeros(CONTEXTS * count, Context.dtype))
        state["fluid"] = state["paced"] and _is_fluid(fabric)
        state["covers"] = not state["paced"] and not fabric.scheme.pfc
        if state["fluid"]:
            self._enter("queues", np.zeros(DEPTH * len(fabric.network.link_rates()), Queue.dtype))
            self._enter("buffers", np.zeros(len(fabric.topology.switches), SharedBuffer.dtype))
        state["mark_from"], state["mark_all"], state["mark_slope"] = _marking(fabric.scheme)
        state["rng"] = _SEED
        self._hops, self._used = self._enter("hops", np.zeros(16 * count, Hop.dtype)), 0
        self._links = self._enter("links", np.zeros(len(fabric.network.link_rates()), Link.dtype))
        marks = self._tables["marks"] = np.zeros(len(hs.qp), np.uint8)
        frames = self._tables["frames"] = np.zeros(count * (int(hs.cfg[0]["window"]) + _FRAMES), TakenFrame.dtype)
        state["frames"] = (_unused(frames), marks.ctypes.data, FIRST_QPN, int(hs.cfg[0]["qpn_mask"]), 0)
        answers = self._tables["kept"] = np.zeros(count * _ANSWERS, KeptAnswer.dtype)
        state["kept"] = (_unused(answers), marks.ctypes.data)
        state["control_times"] = self._times("control", algorithm(fabric.scheme.control))
        state["path_times"] = self._times("paths", path_scheme(fabric.scheme.paths))
        self.change()

    def _enter(self, name: str, table: np.ndarray) -> np.ndarray:
        """Make a table known to native code."""
        self._tables[name] = table
        self._state[name] = table.ctypes.data
        return table

    def _times(self, name: str, plugin: Plugin) -> tuple[int, int]:
        """The places of times in the rows of a plugin, as `TimeFields`."""
        fields = plugin.row.fields or {}
        offsets = np.array([at for one, (_, at, *_) in fields.items() if one in (plugin.times or ())], np.int64)
        self._tables[f"times of {name}"] = offsets
        return offsets.ctypes.data, len(offsets)

    @property
    def skipped(self) -> int:
        return int(self._state["skipped"][0])

    @property
    def skips(self) -> bool:
        return bool(self._state["asleep"][0])

    @property
    def uncounted_bytes(self) -> int:
        asleep = self._tables["parts"]["state"][self._flows["part"]] == ASLEEP
        return int(self._flows["counted"][asleep & (self._flows["part"] != NONE)].sum()) * self._payload

    def run(self, until_ps: int) -> None:
        self._fabric.run(until_ps)

    def wake_all(self) -> None:
        if not self._state["awake"][0]:
            self._look_now()
        looks.wake_all(self._address)

    def change(self) -> None:
        self._look_now()
        self._state["loop"] = self._fabric.network.loop_address()
        looks.dissolve_all(self._address)
        self._used = 0
        self._links["rate_bps"] = self._fabric.network.link_rates()
        self._links["delay_ps"] = self._fabric.network.link_delays()
        self._links["part"] = NONE

    def count(self) -> None:
        looks.count_all(self._address)

    def _look_now(self) -> None:
        """Look as soon as the fabric runs on."""
        self._fabric.network.look_at(self._fabric.now_ps, self._look)

    def _look(self) -> int:
        """Look what has changed, end jumps whose time has come and begin others; return when to look next."""
        if looks.observe(self._address):
            flows = self._flows
            for flow in np.flatnonzero((flows["busy"] != 0) & (flows["first_hop"] == NONE)).tolist():
                self._find(flow)
        return looks.act(self._address)

    def _find(self, flow: int) -> None:
        """Find the links of a connection."""
        path, row = self._paths.path(flow, self._placed and self._placed.placement), self._flows[flow]
        row["first_hop"], row["data_hops"], row["hops"] = _NO_LINKS, 0, 0
        if path is None:
            return
        end = self._used + len(path.hops)
        if end > len(self._hops):
            self._hops = self._enter("hops", np.concatenate([self._hops, np.zeros(end, Hop.dtype)]))
        self._hops[self._used : end] = path.hops
        row["first_hop"], row["data_hops"], row["hops"] = self._used, path.data_hops, len(path.hops)
        row["delay_ps"], row["nic"] = path.delay_ps, path.hops["nic"][0]
        row["sprays"] = self._fabric.hs.qp["sprays"][row["sender"]]
        row["weighted"] = path_scheme(self._fabric.scheme.paths) is path_scheme("pathset")
        self._used = end
