# SPDX-License-Identifier: Apache-2.0
"""A Linux router with seg6local routes in a network namespace without a name, its cables ending in packet sockets.

The namespace belongs to a process that waits for the end of its input and dies with this one; nothing is left behind.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import time

from detour.base.children import ending_with_parent
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
sysctl -q -w net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.default.autoconf=0
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
        script = [_BEGIN, *(_CABLE.format(port=p) for p in PORTS), *routes, "echo ready", "exec cat"]
        self._process = subprocess.Popen(
            ending_with_parent(["unshare", "--net", "sh", "-e", "-c", "\n".join(script)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if self._process.stdout.readline() != "ready\n":
            error = self._process.stderr.read().strip()
            self.close()
            raise OSError(error)
        self._namespace = Namespace.of_process(self._process.pid)
        self._sockets = {p: self._namespace.packet_socket(f"t{p}") for p in PORTS}

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
        for sock in getattr(self, "_sockets", {}).values():
            sock.close()
        if hasattr(self, "_namespace"):
            self._namespace.close()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


def missing() -> str | None:
    """Why there is no such router here; None if there can be one."""
    if os.geteuid() != 0:
        return "network namespaces with seg6local routes need root"
    for tool in ("ip", "unshare", "setpriv", "sysctl"):
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH"
    if not hasattr(socket, "AF_PACKET"):
        return "no packet sockets"
    try:
        Router([un("fcbb:bb00:1::/48"), ua("fcbb:bb00:1:e003::/64", 3, 32)]).close()
    except OSError as error:
        return f"no seg6local with next-csid: {error}"
    return None
