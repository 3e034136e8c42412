# SPDX-License-Identifier: Apache-2.0
"""Reading the loop's logs (`detour.engine.loop.log`) in Python."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from detour.engine.loop.layout import UpcallRecord

_HEAD = struct.Struct("=7q")


class Record(NamedTuple):
    """One record: `index` is a port or a switch of the loop, `detail` depends on `kind`, `wire` in bytes."""

    kind: int
    index: int
    detail: int
    time_ps: int
    wire: int
    data: bytes


def records(chunk: bytes) -> Iterator[Record]:
    """The records of a log."""
    assert _HEAD.size == UpcallRecord.dtype.itemsize
    at = 0
    while at < len(chunk):
        size, kind, index, detail, time, length, wire = _HEAD.unpack_from(chunk, at)
        begin = at + _HEAD.size
        yield Record(kind, index, detail, time, wire, chunk[begin : begin + length])
        at += size
