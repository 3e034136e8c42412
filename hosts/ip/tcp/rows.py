# SPDX-License-Identifier: Apache-2.0
"""Rows of a connection's tables."""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.pointers import record_by_address
from detour.hosts.ip.layout import StackGlobals
from detour.hosts.ip.rows import table
from detour.hosts.ip.tcp import layout

conn_row = table(layout.ConnRecord, "conns")
_segment_at = record_by_address(layout.SegmentRecord)
_range_at = record_by_address(layout.RangeRecord)
point_at = record_by_address(layout.PointRecord)
_RANGE_BYTES = layout.RangeRecord.dtype.itemsize
_ROOM = layout.RANGES + layout.SEEN


@inner()
def slot(g: StackGlobals, i: int, place: int) -> layout.SegmentRecord:
    """A segment of connection `i`, by its place in the ring."""
    return _segment_at(conn_row(g, i).segs, place)


@inner()
def segment(g: StackGlobals, i: int, number: int) -> layout.SegmentRecord:
    """A segment of connection `i`, by its number."""
    c = conn_row(g, i)
    return _segment_at(c.segs, number & (c.ring - 1))


@inner()
def range_of(g: StackGlobals, i: int, k: int) -> layout.RangeRecord:
    """A range of data that came early."""
    return _range_at(g.ranges + i * _ROOM * _RANGE_BYTES, k)
