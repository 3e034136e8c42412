# SPDX-License-Identifier: Apache-2.0
"""Selection of packets to trace: native code that traced programs call before they parse.

A packet that came from another switch and is traced already is found by a mark at its slot in the pool; any other one
by the filter: alternatives of conditions on what stands in its headers, if those are Ethernet, IPv4 or IPv6, UDP, TCP.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any, Final

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.jit import inner
from detour.base.native import Part
from detour.engine import phv
from detour.engine.compiler import tracing as words
from detour.engine.compiler.tracing import KEY_WORDS, RING_HEAD
from detour.engine.loop.native import load8, load32, load64, store32, store64
from detour.hosts.stacks import address_of

MATCHING = Part("trace", __name__)


class Key(IntEnum):
    """The words of the ring's head that conditions look at."""

    ETHERTYPE = 0
    SOURCE_HIGH = 1
    SOURCE_LOW = 2
    DESTINATION_HIGH = 3
    DESTINATION_LOW = 4
    PROTOCOL = 5
    SOURCE_PORT = 6
    DESTINATION_PORT = 7
    INGRESS_PORT = 8
    LENGTH = 9
    FAMILY = 10
    ECN = 11


_KEY: Final = 8 * (RING_HEAD - KEY_WORDS)
CONDITION_WORDS: Final = 4
"""key, mask, value, whether it must differ"""
_MAX_TRACE: Final = (1 << 24) - 1
_HEADERS: Final = 8
"""extension headers of IPv6 that are looked behind"""


@inner()
def _big_endian(address: int, count: int) -> int:
    value = 0
    for i in range(count):
        value = (value << 8) | load8(address + i)
    return value


@inner()
def _ports(key: int, protocol: int, at: int, end: int) -> None:
    store64(key + 8 * Key.PROTOCOL, protocol)
    if (protocol in (6, 17)) and at + 4 <= end:
        store64(key + 8 * Key.SOURCE_PORT, _big_endian(at, 2))
        store64(key + 8 * Key.DESTINATION_PORT, _big_endian(at + 2, 2))


@inner()
def _ipv4(key: int, at: int, end: int) -> None:
    if at + 20 > end:
        return
    store64(key + 8 * Key.FAMILY, 4)
    store64(key + 8 * Key.ECN, load8(at + 1) & 3)
    store64(key + 8 * Key.SOURCE_LOW, _big_endian(at + 12, 4))
    store64(key + 8 * Key.DESTINATION_LOW, _big_endian(at + 16, 4))
    _ports(key, load8(at + 9), at + 4 * (load8(at) & 15), end)


@inner()
def _ipv6(key: int, at: int, end: int) -> None:
    if at + 40 > end:
        return
    store64(key + 8 * Key.FAMILY, 6)
    store64(key + 8 * Key.ECN, (load8(at + 1) >> 4) & 3)
    store64(key + 8 * Key.SOURCE_HIGH, _big_endian(at + 8, 8))
    store64(key + 8 * Key.SOURCE_LOW, _big_endian(at + 16, 8))
    store64(key + 8 * Key.DESTINATION_HIGH, _big_endian(at + 24, 8))
    store64(key + 8 * Key.DESTINATION_LOW, _big_endian(at + 32, 8))
    following = load8(at + 6)
    at += 40
    for _ in range(_HEADERS):
        if following not in (0, 43, 60) or at + 8 > end:
            break
        following, at = load8(at), at + 8 * (load8(at + 1) + 1)
    _ports(key, following, at, end)


@inner()
def _read_key(key: int, std: int, packet: int, length: int) -> None:
    """Fill the words of the key from a frame."""
    for word in range(KEY_WORDS):
        store64(key + 8 * word, 0)
    store64(key + 8 * Key.INGRESS_PORT, load32(std + phv.INGRESS_PORT))
    store64(key + 8 * Key.LENGTH, load32(std + phv.PACKET_LENGTH))
    at, end = packet + 12, packet + length
    if at + 2 > end:
        return
    ethertype = _big_endian(at, 2)
    while ethertype in (0x8100, 0x88A8) and at + 6 <= end:
        at += 4
        ethertype = _big_endian(at, 2)
    store64(key + 8 * Key.ETHERTYPE, ethertype)
    if ethertype == 0x0800:
        _ipv4(key, at + 2, end)
    elif ethertype == 0x86DD:
        _ipv6(key, at + 2, end)


@inner()
def _wanted(conditions: int, key: int) -> bool:
    """Return whether one of the alternatives holds. `conditions`: how many alternatives; then for each how many
    conditions, and those."""
    at = conditions + 8
    for _ in range(load64(conditions)):
        count = load64(at)
        at += 8
        holds = True
        for _ in range(count):
            same = (load64(key + 8 * load64(at)) & load64(at + 8)) == load64(at + 16)
            if same == (load64(at + 24) != 0):
                holds = False
            at += 8 * CONDITION_WORDS
        if holds:
            return True
    return False


@MATCHING.entry
def trace_of(control: int, std: int, packet: int, length: int) -> int:
    """The number of the trace that a packet belongs to, 0: none. A number is new if it is as high as NEXT_ID was."""
    ring = load64(control + 8 * words.RING_ADDRESS)
    marks = load64(control + 8 * words.MARKS)
    if marks != 0:
        slot = (packet - load64(control + 8 * words.POOL_BYTES)) // load64(control + 8 * words.POOL_STRIDE)
        mark = marks + 4 * slot
        number = load32(mark)
        if number != 0:
            store32(mark, 0)
            # What comes by any other port is a new packet, in a slot that one had which has left the switches.
            if load8(load64(control + 8 * words.INNER_PORTS) + load32(std + phv.INGRESS_PORT)) != 0:
                return number
    key = ring + _KEY
    _read_key(key, std, packet, length)
    if not _wanted(load64(ring + 8 * words.FILTER), key):
        return 0
    # A trace that has begun has half of the ring to itself: it is whole, or it is not there.
    if 2 * load64(ring + 8 * words.USED) > load64(ring + 8 * words.CAPACITY):
        store64(ring + 8 * words.MISSED, load64(ring + 8 * words.MISSED) + 1)
        return 0
    number = load64(ring + 8 * words.NEXT_ID)
    if number > load64(ring + 8 * words.LAST_ID) or number > _MAX_TRACE:
        return 0
    store64(ring + 8 * words.NEXT_ID, number + 1)
    return number


@MATCHING.entry
def fill_key(key: int, std: int, packet: int, length: int) -> None:
    """`_read_key`, for Python."""
    _read_key(key, std, packet, length)


def read_key(frame: bytes, port: int) -> Int64Array:
    """Return a filter's view of a frame that arrives at a port: an element for each `Key`."""
    key, std = np.zeros(KEY_WORDS, np.int64), np.zeros(phv.FIXED_SIZE // 4, np.int32)
    std[phv.INGRESS_PORT // 4], std[phv.PACKET_LENGTH // 4] = port, len(frame)
    packet = np.frombuffer(frame + b"\0", np.uint8)
    fill_key(key.ctypes.data, std.ctypes.data, packet.ctypes.data, len(frame))
    return key


@cache
def match_address() -> int:
    """Address of the function (control block, PHV, packet, length) -> trace, for native code to call."""
    address, code = address_of(trace_of, 4)
    _alive.append(code)
    return address


_alive: list[Any] = []
