# SPDX-License-Identifier: Apache-2.0
"""Rows of the stack's tables: `host_at(g.hosts, host).mac`."""

from __future__ import annotations

from detour.base.pointers import record_by_address
from detour.hosts.ip import layout

globals_at = record_by_address(layout.STACK_GLOBALS)
host_at = record_by_address(layout.IP_HOST)
frame_at = record_by_address(layout.PARSED_FRAME)
neighbour_at = record_by_address(layout.NEIGHBOUR)
socket_at = record_by_address(layout.SOCKET)
flow_at = record_by_address(layout.UDP_FLOW_RECORD)
size_at = record_by_address(layout.SIZE)
peer_at = record_by_address(layout.PEER)
sample_at = record_by_address(layout.PACKET_SAMPLE)
echo_at = record_by_address(layout.ECHO_RECORD)
raw_at = record_by_address(layout.RAW_RECORD)
heap_at = record_by_address(layout.DUE_ENTRY)
box_at = record_by_address(layout.BOX)
