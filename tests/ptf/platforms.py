# SPDX-License-Identifier: Apache-2.0
"""The two backends of the packet tests: a switch with ports, and how to get at both."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from detour.engine.clock import RealTime
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.ptf.bmv2 import Bmv2
from tests.ptf.bmv2 import missing as bmv2_missing

PORTS = (1, 2, 3, 4, 5, 6)
CPU_PORT = 510
PRIORITIES = 8


class Platform(Protocol):
    """A switch with device id 1, without a pipeline, its P4Runtime server and a datagram socket a port."""

    name: str
    address: str
    sockets: dict[int, socket.socket]
    slowed: bool
    """whether a queue has had another rate than it started with"""

    def send(self, port: int, data: bytes) -> None:
        """Lets a frame arrive at a port."""

    def slow_down(self, port: int, packets_per_second: int) -> None:
        """Makes the queue of a port fill: at most so many packets a second leave it."""

    def close(self) -> None:
        """Ends it and leaves nothing behind."""


class Bmv2Platform:
    """simple_switch_grpc with veth pairs."""

    name = "bmv2"

    def __init__(self) -> None:
        self._switch = Bmv2(PORTS, cpu_port=CPU_PORT, priorities=PRIORITIES)
        self.address = self._switch.address
        self.sockets = {p: self._switch.port_socket(p) for p in PORTS}
        self.slowed = False

    def send(self, port: int, data: bytes) -> None:
        self.sockets[port].send(data)

    def slow_down(self, port: int, packets_per_second: int) -> None:
        self.slowed = True
        with self._switch.thrift() as thrift:
            thrift.target.set_egress_queue_rate(port, packets_per_second)

    def close(self) -> None:
        for sock in self.sockets.values():
            sock.close()
        self._switch.close()


class EnginePlatform:
    """The engine in this process, in real time, with a UNIX datagram socket a port: no root, no other process."""

    name = "engine"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="detour-ptf-")
        folder = Path(self._folder.name)
        self._network = Network(RealTime(), packets=4096)
        self._network.add_switch(1, cpu_port=CPU_PORT, priorities=PRIORITIES)
        self.sockets: dict[int, socket.socket] = {}
        self.slowed = False
        for port in PORTS:
            self._network.attach_unix((1, port), folder / f"port{port}", folder / f"tester{port}")
            self.sockets[port] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.sockets[port].bind(str(folder / f"tester{port}"))
            self.sockets[port].connect(str(folder / f"port{port}"))
        self._network.start()
        self._server = P4RuntimeServer(self._network)
        self._server.add_device(1)
        self._server.start()
        self.address = self._server.target

    def send(self, port: int, data: bytes) -> None:
        self.sockets[port].send(data)

    def slow_down(self, port: int, packets_per_second: int) -> None:
        self.slowed = True
        self._network.set_queue((1, port), rate_pps=packets_per_second)

    def close(self) -> None:
        self._server.stop()
        self._network.stop()
        for sock in self.sockets.values():
            sock.close()
        self._folder.cleanup()


PLATFORMS: dict[str, Callable[[], Platform]] = {"engine": EnginePlatform, "bmv2": Bmv2Platform}


def make(name: str) -> Platform:
    """Starts a platform."""
    return PLATFORMS[name]()


def missing(name: str) -> str | None:
    """Why a platform cannot be had here; None if it can."""
    return bmv2_missing() if name == "bmv2" else None
