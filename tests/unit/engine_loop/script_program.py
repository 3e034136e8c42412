# SPDX-License-Identifier: Apache-2.0
"""A test double for a compiled P4 program: its packets say themselves what the switch shall do with them.

A frame begins with a header of 16 bytes: operation, egress port, argument, tag, rank (4 bytes), and 8 bytes in
which egress reports what it saw: instance_type, egress_rid, metadata, enq_qdepth, deq_qdepth, egress_port,
deq_timedelta (2 bytes, little endian). The PHV holds the header after the fixed part, then one byte of metadata.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, ClassVar

import numba
from numba import types

from detour.base.jit import COMPILED
from detour.engine import phv
from detour.engine.loop.native import load8, load32, move_bytes, store8, store32, store64

UNICAST, DROP, MULTICAST, CLONE, RESUBMIT, CLONE_EGRESS, RECIRCULATE = range(7)
DIGEST, DROP_EGRESS, TRUNCATE, PRIORITY, FAULT, GROW, SHRINK, LOOP, MULTICAST_DEPTH = range(7, 16)

HEADER = 16
_HEADER_AT = 128
_META_AT = 144
_RANK_AT = 152
_KEEP = 1
"""The field list that keeps the metadata byte."""


@functools.cache
def native(function: Any, arguments: int) -> Any:
    """The function with an `address` that native code may call."""
    if COMPILED:
        from detour.base.native import building

        assert building  # it tells Numba of native functions
        signature = types.int64(*[types.int64] * arguments)
        return numba.cfunc(signature)(function)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    wrapped: Any = prototype(function)
    wrapped.address = ctypes.cast(wrapped, ctypes.c_void_p).value
    return wrapped


def _parse(sw: int, p: int, pkt: int, length: int) -> int:
    store32(p + phv.LENGTH_REGISTER, length)
    store32(p + phv.INGRESS_LENGTH, length)
    store32(p + phv.PAYLOAD_OFFSET, min(length, HEADER))
    for i in range(HEADER):
        store8(p + _HEADER_AT + i, 0)
    move_bytes(p + _HEADER_AT, pkt, min(length, HEADER))
    kind = load32(p + phv.INSTANCE_TYPE)
    if kind != phv.TYPE_RESUBMIT and kind != phv.TYPE_RECIRCULATION:
        store8(p + _META_AT, 0)
    if length < HEADER:
        store32(p + phv.PARSER_ERROR, 1)
    return 0


def _ingress(sw: int, p: int) -> int:
    operation = load8(p + _HEADER_AT)
    argument = load8(p + _HEADER_AT + 2)
    again = load32(p + phv.INSTANCE_TYPE)
    store32(p + phv.EGRESS_SPEC, load8(p + _HEADER_AT + 1))
    if again == phv.TYPE_NORMAL:
        store8(p + _META_AT, load8(p + _HEADER_AT + 3))
    store64(p + _RANK_AT, load32(p + _HEADER_AT + 4))
    if operation == DROP:
        store32(p + phv.EGRESS_SPEC, phv.DROP_PORT)
    elif operation in (MULTICAST, MULTICAST_DEPTH):
        store32(p + phv.MCAST_GRP, argument)
    elif operation == CLONE:
        store32(p + phv.CLONE_SESSION, argument + 1)
        store32(p + phv.CLONE_FIELDS, _KEEP + 1)
        store8(p + _HEADER_AT + 4, 0xEE)  # the clone must not see it
    elif operation == LOOP or (operation == RESUBMIT and again == phv.TYPE_NORMAL):
        store32(p + phv.RESUBMIT, _KEEP + 1)
    elif operation == DIGEST:
        store32(p + phv.DIGEST_LIST, 2 + 1)
    elif operation == PRIORITY:
        store32(p + phv.PRIORITY, argument)
    elif operation == FAULT:
        store32(p + phv.ERROR, phv.ERROR_ASSERT)
    if operation == RECIRCULATE and again == phv.TYPE_RECIRCULATION:
        store8(p + _HEADER_AT, UNICAST)
    return 0


def _egress(sw: int, p: int) -> int:
    store32(p + phv.PACKET_LENGTH, load32(p + phv.LENGTH_REGISTER))
    store32(p + phv.EGRESS_SPEC, phv.DROP_PORT + 1)
    operation = load8(p + _HEADER_AT)
    argument = load8(p + _HEADER_AT + 2)
    kind = load32(p + phv.INSTANCE_TYPE)
    store8(p + _HEADER_AT + 8, kind)
    store8(p + _HEADER_AT + 9, load32(p + phv.EGRESS_RID))
    store8(p + _HEADER_AT + 10, load8(p + _META_AT))
    store8(p + _HEADER_AT + 11, load32(p + phv.ENQ_QDEPTH))
    store8(p + _HEADER_AT + 12, load32(p + phv.DEQ_QDEPTH))
    store8(p + _HEADER_AT + 13, load32(p + phv.EGRESS_PORT))
    delta = load32(p + phv.DEQ_TIMEDELTA)
    store8(p + _HEADER_AT + 14, delta & 0xFF)
    store8(p + _HEADER_AT + 15, (delta >> 8) & 0xFF)
    if operation == CLONE_EGRESS and kind != phv.TYPE_EGRESS_CLONE:
        store32(p + phv.CLONE_SESSION, argument + 1)
        store32(p + phv.CLONE_FIELDS, _KEEP + 1)
    elif operation == MULTICAST_DEPTH and kind == phv.TYPE_REPLICATION:
        store8(p + _META_AT, load32(p + phv.ENQ_QDEPTH) << 4 | load32(p + phv.DEQ_QDEPTH))
        store32(p + phv.CLONE_SESSION, argument + 1)
        store32(p + phv.CLONE_FIELDS, _KEEP + 1)
    elif operation == RECIRCULATE:
        store8(p + _META_AT, load8(p + _META_AT) + 1)
        store32(p + phv.RECIRCULATE, _KEEP + 1)
    elif operation == DROP_EGRESS:
        store32(p + phv.EGRESS_SPEC, phv.DROP_PORT)
    elif operation == TRUNCATE:
        store32(p + phv.TRUNCATE, argument)
    return 0


def _deparse(sw: int, p: int, out: int, payload: int, payload_length: int) -> int:
    operation = load8(p + _HEADER_AT)
    length = min(load32(p + phv.INGRESS_LENGTH), HEADER)
    if operation == SHRINK:
        length = 0 if load8(p + _HEADER_AT + 2) == 1 else 8
    move_bytes(out, p + _HEADER_AT, length)
    if operation == GROW:
        for _ in range(load8(p + _HEADER_AT + 2)):
            store8(out + length, 0xAA)
            length += 1
    return length


def _preserve(fields: int, source: int, target: int) -> int:
    store8(target + _META_AT, load8(source + _META_AT) if fields == _KEEP else 0)
    return 0


def _pass(sw: int, p: int) -> int:
    return 0


def _digest(fields: int, p: int, out: int) -> int:
    move_bytes(out, p + _HEADER_AT, 4)
    return 4


class NativeProgram:
    """What `Network.set_pipeline` wants of a program, out of six functions."""

    max_header_bytes = 512
    max_digest_bytes = 4

    def __init__(self, functions: dict[str, Any], phv_size: int) -> None:
        self.phv_size = phv_size
        self._functions = functions  # keeps the code alive
        for name, function in functions.items():
            setattr(self, f"{name}_addr", function.address)
        self.egress_parse_addr = self.ingress_deparse_addr = 0


class ScriptProgram(NativeProgram):
    """The program described above."""

    def __init__(self, phv_size: int = 192) -> None:
        functions = {
            "parse": native(_parse, 4), "ingress": native(_ingress, 2), "egress": native(_egress, 2),
            "deparse": native(_deparse, 5), "preserve": native(_preserve, 3), "digest": native(_digest, 3),
            "prefetch": native(_pass, 2),
        }  # fmt: skip
        super().__init__(functions, phv_size)


class RankingProgram(ScriptProgram):
    """The same, whose packets have a rank in their queues."""

    queue_places: ClassVar = {"queue_rank": _RANK_AT}


def _parse_nothing(sw: int, p: int, pkt: int, length: int) -> int:
    return 0


def _cross(sw: int, p: int) -> int:
    store32(p + phv.EGRESS_SPEC, 3 - load32(p + phv.INGRESS_PORT))
    return 0


def _deparse_nothing(sw: int, p: int, out: int, payload: int, payload_length: int) -> int:
    return 0


def _three(a: int, b: int, c: int) -> int:
    return 0


class CrossProgram(NativeProgram):
    """Sends what comes in on port 1 out of port 2 and the other way round, whatever it is."""

    def __init__(self) -> None:
        functions = {
            "parse": native(_parse_nothing, 4), "ingress": native(_cross, 2), "egress": native(_pass, 2),
            "deparse": native(_deparse_nothing, 5), "preserve": native(_three, 3), "digest": native(_three, 3),
            "prefetch": native(_pass, 2),
        }  # fmt: skip
        super().__init__(functions, phv.FIXED_SIZE)


class ScriptState:
    """What `Network.set_pipeline` wants of a switch's state."""

    def __init__(self) -> None:
        self.sw = 0
        self.port_states: list[tuple[int, bool]] = []

    def set_drop_port(self, port: int) -> None:
        pass

    def set_port_state(self, port: int, up: bool) -> None:
        self.port_states.append((port, up))


def frame(operation: int, port: int, argument: int = 0, tag: int = 0, size: int = 64, rank: int = 0) -> bytes:
    """A frame that carries an operation; its payload counts up from its tag."""
    head = bytes([operation, port, argument, tag]) + rank.to_bytes(4, "little") + bytes(8)
    return head + bytes((tag + i) & 0xFF for i in range(size - HEADER))
