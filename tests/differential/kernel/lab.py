# SPDX-License-Identifier: Apache-2.0
"""A fabric of network namespaces, wired like a topology: `eth3` is port 3 of a switch, `eth1` a host's. What they hold
comes from files that `detour place --format` writes."""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from itertools import pairwise

from detour.control.routers.nodes import link_address
from detour.fabric.linux.netns import Namespace
from detour.topo import Topology, address
from tests.waiting import PATIENCE_S, until

_IPV6 = "net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0"
_UDP_PORT = 9999
Hop = tuple[str, int]
"""a node and the port at which a packet comes in"""


class Lab:
    """Namespaces of all switches and hosts; `close` ends them. `sysctls`: of all, before there are interfaces."""

    def __init__(self, topology: Topology, sysctls: Mapping[str, int] | None = None) -> None:
        self.topology = topology
        self.spaces = {node.name: Namespace() for node in (*topology.switches, *topology.hosts)}
        for name in self.spaces:
            self.run(name, ["sysctl", "-q", "-w", *_IPV6.split(), *(f"{k}={v}" for k, v in (sysctls or {}).items())])
            # In place of the dummy interface that scripts make, for kernels that have none.
            self.spaces[name].ip(
                ["link set lo up", "link add sr0 type veth peer name sr0-other", "link set sr0-other up"]
            )
        for link in topology.links:
            one = self.spaces[f"s{link.a[0]}"]
            there = f"h{link.b[0]}" if link.kind == "host" else f"s{link.b[0]}"
            line = f"link add eth{link.a[1]} type veth peer name eth{link.b[1] or 1} netns"
            one.ip([f"{line} {self.spaces[there].inside_path}", f"link set eth{link.a[1]} up"], [self.spaces[there]])
            self.spaces[there].ip([f"link set eth{link.b[1] or 1} up"])

    def run(self, name: str, command: Sequence[str], text: str | None = None) -> str:
        """What a command says in a node's namespace; it must succeed."""
        space = self.spaces[name]
        done = subprocess.run(
            space.command(command), input=text, text=True, capture_output=True, check=False, pass_fds=[space.fd]
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout

    def settle(self) -> None:
        """Waits until every neighbour answers: interfaces come up by and by."""
        for link in self.topology.links:
            space, there = self.spaces[f"s{link.a[0]}"], link_address(self.topology, link.index, 1)
            until(lambda space=space, there=there: space.run(_answers, there))

    def hops(self, path: Sequence[str], target: str) -> Iterator[Hop]:
        """Where a packet comes in, switch by switch, and then at the host."""
        for before, here in pairwise(path):
            switch, peers = int(here[1:]), self.topology.switches[int(here[1:])].ports
            yield here, next(
                port for port, peer in enumerate(peers, 1)
                if peer and peer.kind != "host" and f"s{peer.index}" == before and peer.index != switch
            )  # fmt: skip
        yield target, 1

    def seen(self, source: str, target: str, hops: Sequence[Hop], ports: Iterable[int] = (40000,)) -> list[str | None]:
        """Destinations of the first UDP packet from host to host that comes in at each hop, None: none does."""
        listening = [self.spaces[node].packet_socket(f"eth{at}") for node, at in hops]
        destination = address.ipv6_text(self.topology.host(target).address)
        try:
            for port in ports:
                self.send(source, destination, port)
            return [_received(sock) for sock in listening]
        finally:
            for sock in listening:
                sock.close()

    def send(self, source: str, destination: str, port: int) -> None:
        """A UDP packet from a source port."""

        def inside() -> None:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
                sock.bind(("::", port))
                sock.sendto(b"detour", (destination, _UDP_PORT))

        self.spaces[source].run(inside)

    def delivered(self, source: str, target: str) -> bool:
        """Whether a program on the target gets the packet."""

        def bound() -> socket.socket:
            sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            sock.bind(("::", _UDP_PORT))
            return sock

        with self.spaces[target].run(bound) as sock:
            sock.settimeout(PATIENCE_S)
            self.send(source, address.ipv6_text(self.topology.host(target).address), 40000)
            with suppress(TimeoutError):
                data, where = sock.recvfrom(100)
                return data == b"detour" and IPv6Address(where[0]) == IPv6Address(self.topology.host(source).address)
            return False

    def close(self) -> None:
        for space in self.spaces.values():
            space.close()


def _answers(neighbour: str) -> bool:
    """Whether a neighbour says that nobody listens at a port."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        try:
            sock.connect((neighbour, 9))
            sock.send(b"")
            sock.recv(1)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False


def _received(sock: socket.socket) -> str | None:
    """Destination of the next packet that has our UDP packet in it."""
    end = time.monotonic() + 20.0
    while (left := end - time.monotonic()) > 0 and select.select([sock], [], [], left)[0]:
        packet = sock.recv(2048)[14:]
        if _UDP_PORT.to_bytes(2, "big") in packet[40:] and b"detour" in packet:
            return str(IPv6Address(packet[24:40]))
    return None
