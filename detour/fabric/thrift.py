# SPDX-License-Identifier: Apache-2.0
"""The few calls that BMv2 takes only through its Thrift port: rate and depth of its output queues.

Speaks Thrift's binary protocol (strict, buffered transport), multiplexed service `simple_switch`; a whole Thrift
library would be one more package to install for three calls.

BMv2's Thrift server listens on all interfaces and cannot be told otherwise. So a fabric's switches run in a network
namespace of their own (gRPC on UNIX sockets, which cross namespaces), and this module is run inside it:
`ip netns exec NAMESPACE python -m detour.fabric.thrift` with settings as JSON on standard input.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from typing import TypedDict

from detour.base.errors import DetourError

_CALL, _REPLY = 1, 2
_STOP, _I32, _I64 = 0, 8, 10
_VERSION = 0x80010000


class QueueSetting(TypedDict):
    """Depth (packets) and rate (packets a second) of the queues of one port of the switch behind a Thrift port."""

    thrift_port: int
    port: int
    depth: int
    rate: int


class SimpleSwitchThrift:
    """A connection to one switch's Thrift port on loopback; also a context manager.

    Raises:
        DetourError: nobody answers there, or the switch refuses a call.
    """

    def __init__(self, port: int, timeout: float = 5.0) -> None:
        self._port = port
        self._sequence = 0
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        except OSError as error:
            raise DetourError(f"no Thrift server on 127.0.0.1:{port}: {error}") from None

    def set_queue_depth(self, port: int, packets: int) -> None:
        """Every priority queue of `port` holds at most `packets`."""
        self._call("set_egress_queue_depth", (_I32, port), (_I32, packets))

    def set_queue_rate(self, port: int, packets_per_second: int) -> None:
        """Every priority queue of `port` sends at most that many packets a second."""
        self._call("set_egress_queue_rate", (_I32, port), (_I64, packets_per_second))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> SimpleSwitchThrift:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _call(self, method: str, *arguments: tuple[int, int]) -> None:
        self._sequence += 1
        name = f"simple_switch:{method}".encode()
        request = struct.pack(f"!Ii{len(name)}si", _VERSION | _CALL, len(name), name, self._sequence)
        for index, (kind, value) in enumerate(arguments, 1):
            request += struct.pack("!bh" + ("i" if kind == _I32 else "q"), kind, index, value)
        try:
            self._socket.sendall(request + bytes([_STOP]))
            result = self._reply()
        except OSError as error:
            raise DetourError(f"simple_switch on Thrift port {self._port} does not answer {method}: {error}") from None
        if result != 0:
            raise DetourError(f"simple_switch on Thrift port {self._port} refuses {method}{arguments}: {result}")

    def _reply(self) -> int:
        """Result of the call: 0 is good. An exception of the server counts as -1."""
        kind, length = struct.unpack("!Ii", self._read(8))
        self._read(length + 4)  # name, sequence
        if kind != _VERSION | _REPLY:
            return -1
        field = self._read(1)[0]
        if field != _I32:
            return 0 if field == _STOP else -1
        _, value = struct.unpack("!hi", self._read(6))
        self._read(1)
        return value

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            if not more:
                raise ConnectionResetError("connection closed")
            data += more
        return data


def apply(settings: list[QueueSetting]) -> None:
    """Sets queues of many switches, one connection each."""
    by_switch: dict[int, list[QueueSetting]] = {}
    for setting in settings:
        by_switch.setdefault(setting["thrift_port"], []).append(setting)
    for thrift_port, mine in by_switch.items():
        with SimpleSwitchThrift(thrift_port) as switch:
            for setting in mine:
                switch.set_queue_depth(setting["port"], setting["depth"])
                switch.set_queue_rate(setting["port"], setting["rate"])


def main() -> int:
    try:
        apply(json.load(sys.stdin))
    except DetourError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
