# SPDX-License-Identifier: Apache-2.0
"""Rows of the stack's tables: `host_row(g, host).mac`; those without a function of `g` are by address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from detour.base.heap import HeapEntry
from detour.base.pointers import record_by_address, row_of_table
from detour.base.structs import NativeRecord
from detour.hosts.ip import layout
from detour.hosts.ip.layout import StackGlobals

_Row = TypeVar("_Row", bound=NativeRecord)


def table(kind: type[_Row], name: str) -> Callable[[StackGlobals, int], _Row]:
    """A function of `g` and an index."""
    return row_of_table(StackGlobals, kind, name)


globals_at = record_by_address(StackGlobals)
size_at = record_by_address(layout.SizeRecord)
sample_at = record_by_address(layout.SampleRecord)
heap_at = record_by_address(HeapEntry)
host_row = table(layout.IpHostRecord, "hosts")
frame_row = table(layout.ParsedFrame, "frames")
neighbour_row = table(layout.NeighbourRecord, "neighbours")
socket_row = table(layout.SocketRecord, "sockets")
flow_row = table(layout.UdpFlowRecord, "flows")
peer_row = table(layout.PeerRecord, "peers")
echo_row = table(layout.EchoRecord, "echoes")
raw_row = table(layout.RawRecord, "raws")
outbox_row = table(layout.BoxRecord, "outbox")
inbox_row = table(layout.BoxRecord, "inbox")
