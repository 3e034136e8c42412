# SPDX-License-Identifier: Apache-2.0
"""The arrays behind the loop: made, grown, and their addresses told to compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.engine.loop import layout
from detour.engine.loop.layout import HEADROOM, MESSAGE_BYTES, PORTS_PER_SWITCH, SCRATCH_BYTES, SYSTEM_BYTES

_LINE = 64
_LOG_BYTES = 8 << 20
_GROWTH_BYTES = 512
"""Headers that a packet may gain beyond the longest frame, as in simple_switch."""

_TABLES: dict[str, np.dtype] = {
    "entities": layout.ENTITY,
    "heap": layout.HEAP_ENTRY,
    "lines": layout.LINE,
    "ports": layout.PORT,
    "queues": layout.QUEUE,
    "switches": layout.SWITCH,
    "nics": layout.NIC,
    "ios": layout.IO,
}


def _aligned(size: int) -> int:
    return (size + _LINE - 1) // _LINE * _LINE


def _zeros(count: int, dtype: np.dtype | type = np.uint8) -> np.ndarray:
    """Like `np.zeros`, beginning at a cache line. Memory of the system is not there until it is touched."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + _LINE, np.uint8)
    first = -raw.ctypes.data % _LINE
    return raw[first : first + size].view(dtype)


def _doubled(array: np.ndarray) -> np.ndarray:
    larger = _zeros(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


class Memory:
    """All arrays of one loop. Tables grow by doubling; that may happen only while no slice runs.

    `globals` is the one-element array that compiled functions take; `g` its record. Rows of tables are read and
    written as `memory.row("ports", i)["rx_packets"]`, whole columns as `memory.column("ports", "rx_packets")`.
    """

    def __init__(self, packets: int, frame_bytes: int) -> None:
        self.globals = np.zeros(1, layout.GLOBALS)
        self._tables: dict[str, np.ndarray] = {}
        self._count = dict.fromkeys(_TABLES, 0)
        for name, dtype in _TABLES.items():
            self._install(name, _zeros(16, dtype))
        self._port_map = np.full(0, -1, np.int32)
        self._messages: list[np.ndarray] = []
        self._make_pool(packets, frame_bytes)
        self._make_buffers()

    @property
    def g(self) -> Any:
        """The record of globals."""
        return self.globals[0]

    def _install(self, name: str, array: np.ndarray) -> None:
        """Takes an array as the table `name`. The one before stays referenced until then."""
        self._tables[name] = array
        self.g[name] = array.ctypes.data

    def _make_pool(self, packets: int, frame_bytes: int) -> None:
        stride = _aligned(HEADROOM + frame_bytes + _GROWTH_BYTES)
        # A generous pool costs nothing: what is never used is never touched.
        self._install("slots", _zeros(packets, layout.SLOT))
        self.bytes = _zeros(packets * stride)
        self._install("bytes", self.bytes)
        self.g["capacity"] = packets
        self.g["frame_bytes"] = frame_bytes
        self.g["byte_stride"] = stride
        self.g["free"] = -1
        self.g["phv_free"] = -1
        self.reserve_phv(1024)

    def _make_buffers(self) -> None:
        self._install("scratch", _zeros(SCRATCH_BYTES))
        self._install("system", _zeros(SYSTEM_BYTES))
        for name in ("up", "taken"):
            self._install(name, _zeros(_LOG_BYTES))
            self.g[f"{name}_size"] = _LOG_BYTES

    def reserve_phv(self, size: int) -> None:
        """Makes room for PHVs of `size` bytes, as many as slots and one more, which is scratch."""
        old_stride = int(self.g["phv_stride"])
        stride = _aligned(size)
        if stride <= old_stride:
            return
        used = int(self.g["phv_fresh"])
        array = _zeros((int(self.g["capacity"]) + 1) * stride)
        if used:
            before = self._tables["phvs"][: used * old_stride].reshape(used, old_stride)
            array[: used * stride].reshape(used, stride)[:, :old_stride] = before
        self._install("phvs", array)
        self.g["phv_stride"] = stride

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
        """Takes the contents of the log `up` or `taken` and empties it."""
        used = int(self.g[f"{name}_used"])
        self.g[f"{name}_used"] = 0
        return self._tables[name][:used].tobytes()

    def add_entity(self, kind: int, index: int) -> int:
        """Someone who may have an event; the heap grows with them."""
        self.add("heap")
        return self.add("entities", position=-1, kind=kind, index=index)

    def add_port_map(self) -> None:
        """The ports of one more switch, none of them attached."""
        self._port_map = np.concatenate([self._port_map, np.full(PORTS_PER_SWITCH, -1, np.int32)])
        self.g["port_map"] = self._port_map.ctypes.data

    def port_index(self, switch: int, number: int) -> int:
        """Index of a switch's port, -1 if there is none."""
        return int(self._port_map[switch * PORTS_PER_SWITCH + number])

    def set_port_index(self, switch: int, number: int, index: int) -> None:
        """Enters a port."""
        self._port_map[switch * PORTS_PER_SWITCH + number] = index

    def add_message(self) -> int:
        """Address of a zeroed `struct msghdr` with its iovec and control buffer."""
        message = np.zeros(MESSAGE_BYTES, np.uint8)
        self._messages.append(message)
        words = message.view(np.int64)
        address = message.ctypes.data
        words[16 // 8] = address + layout.AT_IOVEC
        words[24 // 8] = 1
        words[32 // 8] = address + layout.AT_CONTROL
        return address
