# SPDX-License-Identifier: Apache-2.0
"""The pcapng file format, as much as captures need: one section, one interface, enhanced packet blocks."""

from __future__ import annotations

import struct

_LINKTYPE_ETHERNET = 1
_OPTION_END = struct.pack("<HH", 0, 0)
_IF_NAME, _IF_TSRESOL, _EPB_FLAGS = 2, 9, 2
_NANOSECONDS = 9
INBOUND = 1
OUTBOUND = 2


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def header(interface: str) -> bytes:
    """Section header and the description of an Ethernet interface whose time stamps are in ns."""
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    options = _option(_IF_NAME, interface.encode()) + _option(_IF_TSRESOL, bytes([_NANOSECONDS])) + _OPTION_END
    description = struct.pack("<HHI", _LINKTYPE_ETHERNET, 0, 0) + options
    return _block(0x0A0D0D0A, section) + _block(1, description)


def packet(time_ns: int, direction: int, frame: bytes, wire_length: int) -> bytes:
    """A captured frame; `direction` is `INBOUND` or `OUTBOUND`, `wire_length` counts elided payload as well."""
    head = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(frame), wire_length)
    flags = struct.pack("<HHIHH", _EPB_FLAGS, 4, direction, 0, 0)
    return _block(6, head + _padded(frame) + flags)
