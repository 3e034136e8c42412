# SPDX-License-Identifier: Apache-2.0
"""The arrays behind the loop: made, grown, and their addresses told to compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from detour.base import pages
from detour.base.arrays import CACHE_LINE, zeros
from detour.base.heap import HeapEntry
from detour.engine.loop import layout
from detour.engine.loop.layout import (
    GROWTH_BYTES,
    HEADROOM,
    MSGHDR_BYTES,
    PORTS_PER_SWITCH,
    SCRATCH_BYTES,
    SLOT_BYTES,
    SPARE_BYTES,
    SYSTEM_BYTES,
    TAG_BYTES,
)

_PHV_BYTES = 960
_LOG_BYTES = 8 << 20
_LEAST_SLOTS = 4_096

NodesOf = Callable[[], np.ndarray]

_TABLES: dict[str, np.dtype] = {
    "entities": layout.EntityRecord.dtype,
    "heap": HeapEntry.dtype,
    "channels": layout.ChannelRecord.dtype,
    "ports": layout.PortRecord.dtype,
    "queues": layout.QueueRecord.dtype,
    "switches": layout.SwitchRecord.dtype,
    "nics": layout.NicRecord.dtype,
    "ios": layout.IoRecord.dtype,
    "nodes": layout.NodeRecord.dtype,
}


def _aligned(size: int) -> int:
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


def _doubled(array: np.ndarray) -> np.ndarray:
    larger = zeros(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


class Memory:
    """All arrays of one loop. Tables grow by doubling; that may happen only while no slice runs.

    `address` is that of the globals, which native functions take; `g` their (first) record. Rows of tables are read and
    written as `memory.row("ports", i)["rx_packets"]`, whole columns as `memory.column("ports", "rx_packets")`.
    """

    def __init__(self, packets: int, frame_bytes: int, elided: bool = False, workers: int = 1) -> None:
        """`elided`: of a frame longer than `frame_bytes` that a native host sends only so many bytes are stored.
        `workers`: threads that may execute the loop, each with globals of its own."""
        self.globals = zeros(workers, layout.LoopGlobals.dtype)
        self.g: Any = self.globals[0]
        self._nodes_of: NodesOf | None = None
        self._side = np.zeros(0, np.int64)
        self._settled = False
        self.settled = 0
        """how often entities have been given new places"""
        self._tables: dict[str, np.ndarray] = {}
        self._count = dict.fromkeys(_TABLES, 0)
        for name, dtype in _TABLES.items():
            self._install(name, zeros(16, dtype))
        self._port_map = np.full(0, -1, np.int32)
        self._messages: list[np.ndarray] = []
        self._buffers: dict[str, np.ndarray] = {}
        self._make_pool(packets, frame_bytes, elided)
        self._make_buffers()

    @property
    def address(self) -> int:
        """The address of the globals, with every entity in its node's heap."""
        if not self._settled:
            self._settle()
        return self.globals.ctypes.data

    def divide(self, nodes_of: NodesOf | None, lookahead_ps: int, side: np.ndarray) -> None:
        """Divide the entities into nodes, which nothing crosses in less than `lookahead_ps`; `None`: one node.

        `nodes_of` gives the node of every entity; it is asked again when entities were added. `side` (nodes,): which
        nodes take turns with each other (0 and 1), if there are two kinds."""
        self._nodes_of, self._side = nodes_of, side
        self.g["lookahead_ps"] = lookahead_ps
        self._settled = False

    def _settle(self) -> None:
        """Give every node its part of the heap, with the events that are pending."""
        count = self._count["entities"]
        entities, heap = self._tables["entities"][:count], self._tables["heap"]
        pending = np.flatnonzero(entities["position"] >= 0)
        old_base = self._tables["nodes"]["first"][entities["node"][pending]]
        events = heap[old_base + entities["position"][pending]].copy()
        entities["node"] = 0 if self._nodes_of is None else self._nodes_of()
        sizes = np.bincount(entities["node"], minlength=1)
        while self._count["nodes"] < len(sizes):
            self.add("nodes")
        nodes = self._tables["nodes"][: len(sizes)]
        nodes["first"] = np.cumsum(sizes) - sizes
        whose = events["who"] & layout.ENTITY_MASK
        node_of = entities["node"][whose]
        nodes["pending"] = np.bincount(node_of, minlength=len(sizes))
        # Sorted by time, a node's events are a heap already.
        order = np.lexsort((events["who"], events["time"], node_of))
        events, whose, node_of = events[order], whose[order], node_of[order]
        starts = np.cumsum(nodes["pending"]) - nodes["pending"]
        position = np.arange(len(events)) - starts[node_of]
        heap[nodes["first"][node_of] + position] = events
        entities["position"][whose] = position
        ports = entities[entities["kind"] == layout.ON_PORT]
        nodes["switch"] = -1
        nodes["switch"][ports["node"]] = self._tables["ports"]["switch"][ports["index"]]
        nodes["side"] = self._side if len(self._side) == len(sizes) else 0
        self.g["sides"] = 1 + nodes["side"].max()
        self.g["node_count"] = self.g["end_0"] = self.g["end_1"] = len(sizes)
        self._settled = True
        self.settled += 1

    def _install(self, name: str, array: np.ndarray) -> None:
        """Take an array as the table `name`. The one before stays referenced until then."""
        self._tables[name] = array
        self.globals[name] = array.ctypes.data

    def _make_pool(self, packets: int, frame_bytes: int, elided: bool) -> None:
        headroom, growth = (TAG_BYTES, SPARE_BYTES) if elided else (HEADROOM, GROWTH_BYTES)
        stride = _aligned(growth + frame_bytes + (not elided) * headroom)
        # A generous pool costs nothing: what is never used is never touched.
        lines = _aligned(SLOT_BYTES + stride) // CACHE_LINE
        self._packets = self._divide_pool(packets, lines)
        self._install("slots", zeros(self._packets * lines, layout.SlotRecord.dtype))
        self.globals["frame_bytes"] = frame_bytes
        self.globals["byte_stride"] = stride
        self.globals["headroom"] = headroom
        self.globals["stored"] = frame_bytes
        self.reserve_phv(_PHV_BYTES)

    def _divide_pool(self, packets: int, lines: int) -> int:
        """Give every worker slots of its own, the first one `packets`, and as many PHVs; return how many there are.

        One more of each belongs to nobody: its PHV is scratch (`pool.scratch_phv`)."""
        first, own = 0, packets
        for g in self.globals:
            g["slot_lines"] = lines
            g["fresh"], g["phv_fresh"] = first * lines, first
            g["slots_end"], g["phvs_end"] = (first + own) * lines, first + own
            g["slots_own"] = own
            g["free"] = g["phv_free"] = -1
            first += own + 1
            own = g["slots_share"] = max(2 * packets // len(self.globals), _LEAST_SLOTS)
        self._pool_begins = self.globals["phv_fresh"].copy()
        return first

    def _make_buffers(self) -> None:
        for name, size in (("scratch", SCRATCH_BYTES), ("system", SYSTEM_BYTES)):
            self._buffers[name] = zeros(len(self.globals) * size).reshape(-1, size)
            self.globals[name] = self._buffers[name].ctypes.data + np.arange(len(self.globals)) * size
        for name in ("up", "taken"):
            self._install(name, zeros(_LOG_BYTES))
            self.g[f"{name}_size"] = _LOG_BYTES

    def reserve_phv(self, size: int) -> None:
        """Make room for PHVs of `size` bytes, as many as slots and one more, which is scratch."""
        old_stride = int(self.g["phv_stride"])
        # An odd number of lines: with 16, the same part of every PHV would fall to the same few sets of a cache.
        stride = _aligned(size) | CACHE_LINE
        if stride <= old_stride:
            return
        array = zeros(self._packets * stride).reshape(-1, stride)
        for begin, g in zip(self._pool_begins, self.globals, strict=True):
            if end := int(g["phv_fresh"]) - begin:
                used = slice(begin, begin + end)
                array[used, :old_stride] = self._tables["phvs"].reshape(-1, old_stride)[used]
        self._install("phvs", array.reshape(-1))
        self.globals["phv_stride"] = stride

    def expect(self, packets: int) -> None:
        """So many packets will be under way at once, half of them in switches: their memory is asked for now, not in
        the midst of a run."""
        for name, share in (("slots", packets // len(self.globals)), ("phvs", packets // len(self.globals) // 2)):
            memory = self._tables[name].view(np.uint8)
            size = len(memory) // self._packets
            for begin in self._pool_begins:
                pages.populate(memory[begin * size :], share * size)

    def count(self, name: str) -> int:
        """Number of rows in use."""
        return self._count[name]

    def add(self, name: str, **values: int) -> int:
        """A new row of a table, zero but for `values`; returns its index."""
        index = self._count[name]
        array = self._tables[name]
        if index == len(array):
            self._install(name, _doubled(array))
        self._count[name] = index + 1
        row = self._tables[name][index]
        for field, value in values.items():
            row[field] = value
        return index

    def row(self, name: str, index: int) -> Any:
        """One row, to read and to write. Do not keep it: tables move when they grow."""
        return self._tables[name][index]

    def table(self, name: str) -> np.ndarray:
        """A table as it is now, rows not in use included. Do not keep it."""
        return self._tables[name]

    def column(self, name: str, field: str) -> np.ndarray:
        """A copy of a field of all rows in use."""
        return self._tables[name][field][: self._count[name]].copy()

    def log(self, name: str) -> bytes:
        """Take the contents of the log `up` or `taken` and empty it."""
        used = int(self.g[f"{name}_used"])
        self.g[f"{name}_used"] = 0
        return self._tables[name][:used].tobytes()

    def add_entity(self, kind: int, index: int) -> int:
        """Someone who may have an event; the heap grows with them."""
        self.add("heap")
        self._settled = False
        return self.add("entities", position=-1, kind=kind, index=index)

    def add_port_map(self) -> None:
        """The ports of one more switch, none of them attached."""
        grown = zeros(len(self._port_map) + PORTS_PER_SWITCH, np.dtype(np.int32))
        grown[: len(self._port_map)] = self._port_map
        grown[len(self._port_map) :] = -1
        self._port_map = grown
        self.g["port_map"] = self._port_map.ctypes.data

    def port_index(self, switch: int, number: int) -> int:
        """Index of a switch's port, -1 if there is none."""
        return int(self._port_map[switch * PORTS_PER_SWITCH + number])

    def set_port_index(self, switch: int, number: int, index: int, frequent: bool = True) -> None:
        """Enter a port. `frequent`: it takes part in what is prefetched of a switch's ports."""
        self._port_map[switch * PORTS_PER_SWITCH + number] = index
        row = self.row("switches", switch)
        row["numbers"] = max(row["numbers"], frequent * (number + 1))

    def add_message(self) -> int:
        """Address of a zeroed `struct msghdr` with its iovec and control buffer."""
        message = np.zeros(MSGHDR_BYTES, np.uint8)
        self._messages.append(message)
        words = message.view(np.int64)
        address = message.ctypes.data
        words[16 // 8] = address + layout.AT_IOVEC
        words[24 // 8] = 1
        words[32 // 8] = address + layout.AT_CONTROL
        return address
