# SPDX-License-Identifier: Apache-2.0
"""The few calls of BMv2's Thrift interface that P4Runtime has no equal for: rate and depth of queues.

Thrift's binary protocol over a plain stream, function names prefixed by the service. That little is written
out here, so that neither the thrift package nor BMv2's own Python modules are needed.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from detour.base.errors import DetourError

_CALL = 0x80010001
_REPLY = 2
_I32, _I64 = 8, 10


class ThriftClient:
    """A connection to the Thrift port of one simple_switch."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        """`name`: of the switch, for messages."""
        self._socket = sock
        self._name = name
        self._sequence = 0

    def set_queue_rate(self, port: int, packets_per_second: int) -> None:
        """At most so many packets a second leave each of a port's priority queues."""
        self._call("simple_switch:set_egress_queue_rate", (_I32, port), (_I64, packets_per_second))

    def set_priority_queue_rate(self, port: int, priority: int, packets_per_second: int) -> None:
        """The same for one of them."""
        self._call(
            "simple_switch:set_egress_priority_queue_rate", (_I32, port), (_I32, priority), (_I64, packets_per_second)
        )

    def set_queue_depth(self, port: int, packets: int) -> None:
        """How many packets each of a port's priority queues holds."""
        self._call("simple_switch:set_egress_queue_depth", (_I32, port), (_I32, packets))

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _call(self, function: str, *arguments: tuple[int, Any]) -> None:
        self._sequence += 1
        message = struct.pack("!Ii", _CALL, len(function)) + function.encode() + struct.pack("!i", self._sequence)
        for number, (kind, value) in enumerate(arguments, 1):
            message += struct.pack("!bhi" if kind == _I32 else "!bhq", kind, number, value)
        try:
            self._socket.sendall(message + b"\0")
            self._finish(function)
        except (OSError, struct.error) as error:
            raise DetourError(f"switch {self._name}: Thrift call {function}: {error}") from None

    def _finish(self, function: str) -> None:
        kind, length = struct.unpack("!Ii", self._receive(8))
        self._receive(length + 4)  # the name comes back, without the service before it, and the sequence number
        # The result is field 0, an i32 that is 0 if all went well; any other field is an exception.
        good = kind & 0xFF == _REPLY and self._receive(3) == struct.pack("!bh", _I32, 0)
        if not good or self._receive(5) != bytes(5):  # the i32, and the end of the struct
            raise DetourError(f"switch {self._name}: Thrift call {function} is refused")

    def _receive(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            if not more:
                raise OSError("the connection is closed")
            data += more
        return data
