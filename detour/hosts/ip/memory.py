# SPDX-License-Identifier: Apache-2.0
"""The arrays behind a stack: made, and their addresses told to compiled code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from detour.base.heap import HeapEntry
from detour.hosts.cc.plugin import CongestionAlgorithm
from detour.hosts.ip import layout
from detour.hosts.ip.pattern import make_pattern
from detour.hosts.ip.tcp import layout as tcp
from detour.hosts.plugins import Bound

_OUT_DEPTH, _IN_DEPTH = 256, 4096
_NEIGHBOURS = 256
_ELIDED_BOX = 512


class StackMemory:
    """All tables. Pages that are not used cost no memory. `column` of `tables[name]` is what Python reads."""

    def __init__(self, hosts: int, sockets: int, seed: int, elide: bool, mtu: int) -> None:
        """`sockets`: of each host. `elide`: payload is not stored."""
        rows = hosts * sockets
        demux = 1 << (2 * sockets - 1).bit_length()
        box = _ELIDED_BOX if elide else -(-(mtu + 32) // 64) * 64
        shapes: dict[str, tuple[int, DTypeLike]] = {
            "hosts": (hosts, layout.IpHostRecord.dtype),
            "neighbours": (hosts * _NEIGHBOURS, layout.NeighbourRecord.dtype),
            "sockets": (rows, layout.SocketRecord.dtype),
            "headers": (rows * layout.HEADERS_BYTES, np.uint8),
            "flows": (rows, layout.UdpFlowRecord.dtype),
            "peers": (rows, layout.PeerRecord.dtype),
            "echoes": (rows, layout.EchoRecord.dtype),
            "raws": (rows, layout.RawRecord.dtype),
            "conns": (rows, tcp.ConnRecord.dtype),
            "segments": (rows * tcp.FEW_SEGMENTS, tcp.SegmentRecord.dtype),
            "ranges": (rows * (tcp.RANGES + tcp.SEEN), tcp.RangeRecord.dtype),
            "cc_rows": (rows * tcp.CC_BYTES, np.uint8),
            "heaps": (rows, HeapEntry.dtype),
            "demux": (hosts * demux, np.int32),
            "outbox": (hosts * _OUT_DEPTH, layout.BoxRecord.dtype),
            "boxes": (hosts * _OUT_DEPTH * box, np.uint8),
            "inbox": (hosts * _IN_DEPTH, layout.BoxRecord.dtype),
            "inboxes": (hosts * _IN_DEPTH * box, np.uint8),
            "frames": (hosts, layout.ParsedFrame.dtype),
        }
        self.globals = np.zeros(1, layout.StackGlobals.dtype)
        self.tables: dict[str, np.ndarray] = {name: np.zeros(count, dtype) for name, (count, dtype) in shapes.items()}
        self.pattern, self.sums = make_pattern()
        self.kept: list[np.ndarray] = []
        """arrays whose addresses are in tables"""
        self._bounds: list[Bound] = []
        g = self.globals[0]
        for name, table in self.tables.items():
            g[name] = table.ctypes.data
        sizes = {"n_hosts": hosts, "per_host": sockets, "n_neighbours": _NEIGHBOURS, "demux_size": demux}
        sizes |= {"out_depth": _OUT_DEPTH, "in_depth": _IN_DEPTH, "box_bytes": box, "elide": int(elide)}
        for name, value in sizes.items():
            g[name] = value
        g["pattern"], g["sums"] = self.pattern.ctypes.data, self.sums.ctypes.data
        self._begin_empty(hosts, sockets, seed)

    def _begin_empty(self, hosts: int, sockets: int, seed: int) -> None:
        """No socket is in a list, and the last one of each host is its resolver's timer."""
        rows = self.tables["hosts"]
        rows["active_head"] = rows["active_tail"] = -1
        rows["rng"] = np.random.SeedSequence(seed).generate_state(hosts, np.uint64).view(np.int64) | 1
        timers = self.tables["sockets"][sockets - 1 :: sockets]
        timers["kind"] = layout.RESOLVER
        timers["host"] = np.arange(hosts)
        timers["heap_pos"] = -1
        timers["due"] = layout.MAX_TIME

    @property
    def address(self) -> int:
        """The address that native functions take as their state."""
        return self.globals.ctypes.data

    def keep(self, array: np.ndarray) -> int:
        """Address of an array that will live as long as the tables."""
        self.kept.append(array)
        return array.ctypes.data

    def bound(self, algorithm: CongestionAlgorithm, make: Callable[[], Bound]) -> Bound:
        """The compiled hooks of an algorithm, the same for all connections that have it."""
        for bound in self._bounds:
            if bound.algorithm == algorithm:
                return bound
        self._bounds.append(make())
        return self._bounds[-1]
