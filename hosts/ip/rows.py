# SPDX-License-Identifier: Apache-2.0
"""Rows of the stack's tables: `host_at(g.hosts, host).mac`."""

from __future__ import annotations

from detour.base.heap import HeapEntry
from detour.base.pointers import record_by_address
from detour.hosts.ip import layout

globals_at = record_by_address(layout.StackGlobals)
host_at = record_by_address(layout.IpHostRecord)
frame_at = record_by_address(layout.ParsedFrame)
neighbour_at = record_by_address(layout.NeighbourRecord)
socket_at = record_by_address(layout.SocketRecord)
flow_at = record_by_address(layout.UdpFlowRecord)
size_at = record_by_address(layout.SizeRecord)
peer_at = record_by_address(layout.PeerRecord)
sample_at = record_by_address(layout.SampleRecord)
echo_at = record_by_address(layout.EchoRecord)
raw_at = record_by_address(layout.RawRecord)
heap_at = record_by_address(HeapEntry)
box_at = record_by_address(layout.BoxRecord)
