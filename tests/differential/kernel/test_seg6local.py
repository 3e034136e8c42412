# SPDX-License-Identifier: Apache-2.0
"""The same uSID packets through fabric.p4 on the engine and through the kernel.

Where Linux is known to differ from the RFCs (docs: FACTS, section 1), `Kernel.judge` says so and checks the
difference instead of the agreement:

- it decrements the hop limit once a node, not once a uSID, so a packet that the engine punts in the middle of a row
  of own uSIDs gets through;
- it drops an exhausted argument without SRH, where the engine asks the controller for a Parameter Problem;
- its Time Exceeded quotes the shifted packet; there is no route back here, so none is seen.
"""

from __future__ import annotations

import ipaddress
import itertools
import random
import struct
from collections.abc import Iterator

import pytest

from tests.differential import engine
from tests.differential.fabric import BUILD
from tests.differential.kernel import router
from tests.differential.kernel.router import Router
from tests.ptf.p4rt import Schema

pytestmark = pytest.mark.kernel

NODE = 1
FUNCTION_PORTS = {0xE003: 3, 0xE004: 4}
ROUTES = {"fcbb:bb00:2::/48": 2, "fcbb:bb00:8005::/48": 5, "fcbb:bb00:0:2::/64": 2, "fd00:7::/32": 4}
OWN = (NODE, *FUNCTION_PORTS)
ELSEWHERE = (2, 0x8005, 0x77, 0)
SOURCE = int(ipaddress.IPv6Address("fd00:1::1"))
BARRIER_LABEL = 0xFFFFF
CPU = 510
HOP_LIMIT, EXHAUSTED = 6, 7
PACKETS = 3000


def usids(ids: list[int]) -> int:
    """A uSID list as an address."""
    value = 0xFCBBBB00
    for position in range(6):
        value = value << 16 | (ids[position] if position < len(ids) else 0)
    return value


def ipv6(dst: int, label: int, hop_limit: int, body: bytes, following: int) -> bytes:
    """A packet; the flow label tells packets apart."""
    head = struct.pack("!IHBB", 6 << 28 | label, len(body), following, hop_limit)
    return head + SOURCE.to_bytes(16, "big") + dst.to_bytes(16, "big") + body


def udp(size: int) -> bytes:
    """A datagram with a checksum that nobody checks on the way."""
    return struct.pack("!HHHH", 1000, 4791, 8 + size, 0xBEEF) + bytes(size)


class PacketMaker:
    """Random packets: own uSIDs and others in every order, with and without SRH and hop-by-hop option."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(f"kernel {seed}")
        self.labels = itertools.count(1)

    def list(self, most: int = 6) -> list[int]:
        """A uSID list."""
        own = [self.dice.choice(OWN) for _ in range(self.dice.choice((0, 1, 1, 1, 2, 3)))]
        if self.dice.random() < 0.3:
            own = [NODE, self.dice.choice(list(FUNCTION_PORTS))]
        others = [self.dice.choice(ELSEWHERE) for _ in range(self.dice.randrange(5))]
        return (own + others)[:most]

    def packet(self) -> bytes:
        """The next packet."""
        dice = self.dice
        body, following = udp(dice.randrange(64)), 17
        if dice.random() < 0.4:
            segments = [usids(self.list()) for _ in range(dice.randrange(1, 5))]
            left = dice.randrange(len(segments) + 1)
            head = struct.pack("!BBBBBBH", following, 2 * len(segments), 4, left, len(segments) - 1, 0, 0)
            body, following = head + b"".join(s.to_bytes(16, "big") for s in segments) + body, 43
        if dice.random() < 0.2:
            body, following = struct.pack("!BBBBI", following, 0, 0x3E, 4, 1234) + body, 0
        hop_limit = dice.choice((0, 1, 2, 3, 4, 64, 64, 64, 64))
        return ipv6(usids(self.list()), next(self.labels), hop_limit, body, following)


def own_in_a_row(packet: bytes) -> int:
    """How many uSIDs of this node the engine would consume: over containers of the SRH, too."""
    ids = list(struct.unpack("!8H", packet[24:40]))[2:]
    containers = _containers(packet)
    consumed = 0
    while ids[0] in OWN and consumed < 20:
        adjacency = ids[0] != NODE or ids[1] in FUNCTION_PORTS
        width = 2 if ids[0] == NODE and ids[1] in FUNCTION_PORTS else 1
        consumed += 1
        if any(ids[width:]):
            ids = ids[width:] + [0] * width
        elif containers:
            ids = containers.pop(0)
            if ids is None:
                break
        else:
            break
        if adjacency:
            break
    return consumed


def _containers(packet: bytes) -> list[list[int] | None]:
    """The uSID lists that the SRH still holds, the next one first; None for what is outside the block."""
    at = 48 if packet[6] == 0 else 40
    following = packet[40] if packet[6] == 0 else packet[6]
    if following != 43:
        return []
    left = packet[at + 3]
    found = []
    for index in range(left - 1, -1, -1):
        address = packet[at + 8 + 16 * index : at + 24 + 16 * index]
        found.append(list(struct.unpack("!8H", address))[2:] if address[:4] == b"\xfc\xbb\xbb\0" else None)
    return found


class Kernel:
    """The kernel's answers, and what is to be thought of them."""

    def __init__(self) -> None:
        routes = [router.un(f"fcbb:bb00:{NODE}::/48")]
        for function, port in FUNCTION_PORTS.items():
            routes.append(router.ua(f"fcbb:bb00:{function:x}::/48", port))
            routes.append(router.ua(f"fcbb:bb00:{NODE}:{function:x}::/64", port, 32))
        routes += [router.route(prefix, port) for prefix, port in ROUTES.items()]
        routes += [router.route(f"fdff::{port}/128", port) for port in router.PORTS]
        self._router = Router(routes)

    def run(self, packets: list[bytes]) -> dict[int, list[tuple[int, bytes]]]:
        """Flow label -> (port, packet)s that came out."""
        for packet in packets:
            self._router.send(packet)
        found: dict[int, list[tuple[int, bytes]]] = {}
        for port in router.PORTS:
            barrier = int(ipaddress.IPv6Address(f"fdff::{port}"))
            self._router.send(ipv6(barrier, BARRIER_LABEL, 64, b"", 59))
            while True:
                packet = self._router.receive(port)
                assert packet is not None, f"the kernel lost a barrier packet to port {port}"
                label = int.from_bytes(packet[:4], "big") & 0xFFFFF
                if label == BARRIER_LABEL:
                    break
                if packet[8:24] == SOURCE.to_bytes(16, "big"):  # the kernel has things to say of its own
                    found.setdefault(label, []).append((port, packet))
        return found

    def close(self) -> None:
        """Ends the router."""
        self._router.close()

    @staticmethod
    def judge(sent: bytes, kernel: list[tuple[int, bytes]], got: list[tuple[int, bytes]]) -> str | None:
        """What is wrong, if anything: `got` is what the engine made of the packet, without Ethernet."""
        consumed = own_in_a_row(sent)
        before = sent[7]
        if len(got) > 1 or len(kernel) > 1:
            return "more than one packet"
        if got and got[0][0] == CPU:
            reason = int.from_bytes(got[0][1][2:4], "big")
            if reason == EXHAUSTED:
                return "the kernel forwards an exhausted argument" if kernel else None
            if reason == HOP_LIMIT and before > 1:
                if consumed < 2 or before > consumed:
                    return f"the engine punts too early: {consumed} uSIDs, hop limit {before}"
                return None  # the kernel counts the node once
            return "the kernel forwards what has no hop limit left" if kernel else None
        if not got or not kernel:
            return None if bool(got) == bool(kernel) else "only one of them forwards"
        (port, data), (kernel_port, kernel_data) = got[0], kernel[0]
        if port != kernel_port:
            return f"port {port}, the kernel {kernel_port}"
        if kernel_data[7] != before - 1 or data[7] != before - max(consumed, 1):
            return f"hop limit {data[7]}, the kernel {kernel_data[7]}, {consumed} uSIDs"
        return None if data[:7] + data[8:] == kernel_data[:7] + kernel_data[8:] else "other bytes"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """The kernel's router."""
    reason = router.missing()
    if reason is not None:
        pytest.skip(reason)
    under_test = Kernel()
    yield under_test
    under_test.close()


def set_up(client: object, schema: Schema) -> None:
    """The engine's tables, equal to the kernel's routes."""

    def address(text: str) -> int:
        return int(ipaddress.IPv6Address(text))

    def sid(prefix: int, length: int, action: str, **arguments: int) -> object:
        return schema.entry("local_sid", {"hdr.ipv6.dst_addr": (prefix, length)}, action=(action, arguments))

    node = ("set_node", {"node_id": NODE, "group": 0, "groups": 0})
    client.modify(schema.entry("config", action=node, default=True))
    entries = [sid(usids([NODE]), 48, "un")]
    for function, port in FUNCTION_PORTS.items():
        entries.append(sid(usids([function]), 48, "ua", port=port))
        entries.append(sid(usids([NODE, function]), 64, "node_ua", port=port))
    for prefix, port in ROUTES.items():
        text, length = prefix.split("/")
        match = {"hdr.ipv6.dst_addr": (address(text), int(length))}
        entries.append(schema.entry("route", match, one_shot=[(("forward", {"port": port}), 1)]))
    client.insert(*entries)


def through_engine(packets: list[bytes]) -> list[list[tuple[int, bytes]]]:
    """What the engine makes of IPv6 packets: without Ethernet, but for those to the controller."""
    schema = Schema.load(BUILD / "fabric.p4info.txtpb")
    with engine.switch() as under_test:
        under_test.client.set_pipeline(schema, (BUILD / "fabric.json").read_bytes())
        set_up(under_test.client, schema)
        frames = [(1, bytes(12) + b"\x86\xdd" + p) for p in packets]
        outputs = under_test.run(frames)
    return [[(p, d if p == CPU else d[14:]) for p, d in outs] for outs in outputs]


def test_random_packets(kernel: Kernel) -> None:
    maker = PacketMaker(seed=0)
    packets = [maker.packet() for _ in range(PACKETS)]
    ours = through_engine(packets)
    problems, agreed = [], 0
    for at in range(0, PACKETS, 100):
        answers = kernel.run(packets[at : at + 100])
        for number in range(at, at + 100):
            label = int.from_bytes(packets[number][:4], "big") & 0xFFFFF
            theirs = answers.pop(label, [])
            problem = Kernel.judge(packets[number], theirs, ours[number])
            agreed += bool(theirs and ours[number])
            if problem:
                problems.append(f"{number}: {problem}\n{packets[number].hex()}\n{theirs}\n{ours[number]}")
        assert not answers, f"packets that nobody sent: {answers}"
    assert not problems, f"{len(problems)} of {PACKETS}:\n" + "\n".join(problems[:5])
    assert agreed > PACKETS // 3, "too few packets get through to show anything"


@pytest.mark.parametrize(
    ("ids", "port", "left"),
    [
        ([1, 2, 0x8005], 2, [2, 0x8005]),
        ([1, 2, 3, 4, 5, 6], 2, [2, 3, 4, 5, 6]),
        ([1, 1, 2], 2, [2]),
        ([1, 0, 2], 2, [0, 2]),
        ([0xE003, 2], 3, [2]),
        ([0xE004, 0x77], 4, [0x77]),
        ([1, 0xE003, 2, 0x8005], 3, [2, 0x8005]),
        ([2, 1], 2, [2, 1]),
    ],
)
def test_both_say_the_same(kernel: Kernel, ids: list[int], port: int, left: list[int]) -> None:
    packet = ipv6(usids(ids), 7, 64, udp(8), 17)
    (ours,) = through_engine([packet])
    theirs = kernel.run([packet])[7]
    for out_port, data in (*ours, *theirs):
        assert out_port == port
        assert data[24:40] == usids(left).to_bytes(16, "big")
    assert Kernel.judge(packet, theirs, ours) is None


@pytest.mark.parametrize("ids", [[1], [0xE003], [1, 0xE003], [1, 1], [0x77, 1], [1, 0x77]])
def test_neither_forwards(kernel: Kernel, ids: list[int]) -> None:
    packet = ipv6(usids(ids), 9, 64, udp(8), 17)
    (ours,) = through_engine([packet])
    assert kernel.run([packet]) == {}
    assert [p for p, _ in ours if p != CPU] == []
