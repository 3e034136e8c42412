# SPDX-License-Identifier: Apache-2.0
"""A Linux router with seg6local routes in a network namespace without a name, its cables ending in packet sockets."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import time

from detour.fabric.linux.netns import Namespace
from tests.waiting import PATIENCE_S

ROUTER_MAC = bytes.fromhex("020000000001")
TESTER_MAC = bytes.fromhex("020000000002")
PORTS = (1, 2, 3, 4, 5)

_CABLE = """
ip link add r{port} address 02:00:00:00:00:01 type veth peer name t{port}
sysctl -q -w net.ipv6.conf.t{port}.disable_ipv6=1 net.ipv6.conf.r{port}.seg6_enabled=1
ip link set r{port} up mtu 9000 && ip link set t{port} up mtu 9000
ip -6 addr add fd01:{port}::1/64 dev r{port} nodad
ip -6 neigh add fd01:{port}::2 lladdr 02:00:00:00:00:02 dev r{port} nud permanent
"""
_BEGIN = """
ip link set lo up
sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.autoconf=0
sysctl -q -w net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.seg6_enabled=1
"""
_CONTAINER = "flavors next-csid lblen 32 nflen"


def route(prefix: str, port: int) -> str:
    """Command for a plain route."""
    return f"ip -6 route add {prefix} via fd01:{port}::2 dev r{port}"


def un(prefix: str) -> str:
    """Command for a uN. SIDs belong on a real interface, not on lo."""
    return f"ip -6 route add {prefix} encap seg6local action End {_CONTAINER} 16 dev r1"


def ua(prefix: str, port: int, bits: int = 16) -> str:
    """Command for a uA; `bits`: 16 for a function alone, 32 for node and function."""
    return f"ip -6 route add {prefix} encap seg6local action End.X nh6 fd01:{port}::2 {_CONTAINER} {bits} dev r1"


class Router:
    """A router with the given routes."""

    def __init__(self, routes: list[str]) -> None:
        """Raises OSError: the kernel does not take them."""
        self._space, self._sockets = Namespace(), dict[int, socket.socket]()
        script = "\n".join([_BEGIN, *(_CABLE.format(port=p) for p in PORTS), *routes])
        command = self._space.command(["sh", "-e", "-c", script])
        done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=[self._space.fd])
        if done.returncode:
            self.close()
            raise OSError(done.stderr.strip())
        self._sockets = {p: self._space.packet_socket(f"t{p}") for p in PORTS}

    def send(self, packet: bytes) -> None:
        """An IPv6 packet comes in at port 1."""
        self._sockets[1].send(ROUTER_MAC + TESTER_MAC + b"\x86\xdd" + packet)

    def receive(self, port: int, timeout: float = PATIENCE_S) -> bytes | None:
        """The next IPv6 packet that leaves by a port; None if none comes in time."""
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            if left < 0 or not select.select([self._sockets[port]], [], [], left)[0]:
                return None
            data = self._sockets[port].recv(65536)
            if data[12:14] == b"\x86\xdd" and data[6:12] == ROUTER_MAC:
                return data[14:]

    def close(self) -> None:
        """Ends it."""
        for sock in self._sockets.values():
            sock.close()
        self._space.close()


def missing() -> str | None:
    """Why there is no such router here; None if there can be one."""
    if os.geteuid() != 0:
        return "network namespaces with seg6local routes need root"
    for tool in ("ip", "nsenter", "sysctl"):
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH"
    if not hasattr(socket, "AF_PACKET"):
        return "no packet sockets"
    try:
        Router([un("fcbb:bb00:1::/48"), ua("fcbb:bb00:1:e003::/64", 3, 32)]).close()
    except OSError as error:
        return f"no seg6local with next-csid: {error}"
    return None
