# SPDX-License-Identifier: Apache-2.0
"""Rows of a connection's tables."""

from __future__ import annotations

from typing import Any

from detour.base.jit import inner
from detour.base.pointers import record_by_address
from detour.hosts.ip.tcp import layout

conn_at = record_by_address(layout.CONN)
_segment_at = record_by_address(layout.SEGMENT)
_range_at = record_by_address(layout.RANGE)
point_at = record_by_address(layout.POINT)
_RANGE_BYTES = layout.RANGE.itemsize
_ROOM = layout.RANGES + layout.SEEN


@inner()
def slot(g: Any, i: int, place: int) -> Any:
    """A segment of connection `i`, by its place in the ring."""
    return _segment_at(conn_at(g.conns, i).segs, place)


@inner()
def segment(g: Any, i: int, number: int) -> Any:
    """A segment of connection `i`, by its number."""
    c = conn_at(g.conns, i)
    return _segment_at(c.segs, number & (c.ring - 1))


@inner()
def range_of(g: Any, i: int, k: int) -> Any:
    """A range of data that came early."""
    return _range_at(g.ranges + i * _ROOM * _RANGE_BYTES, k)
