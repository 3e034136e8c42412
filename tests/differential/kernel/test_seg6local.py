# SPDX-License-Identifier: Apache-2.0
"""The same uSID packets through fabric.p4 on the engine, through the kernel, and through the model of a node.

The model stands between the two: `model.Rfc` is what the engine must do, `model.Linux` what the kernel is known to do
otherwise. So neither is blamed for the other, and the model is no invention: where it is the same for both, engine and
kernel do the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.kernel import router
from tests.differential.kernel.router import Router
from tests.differential.rfc import packets
from tests.differential.rfc.compare import compare, describe
from tests.differential.rfc.model import DISCARDED, LOOK_UPS, Linux, Outcome, Rfc
from tests.differential.rfc.packets import PacketMaker, ipv6, number, udp, usids
from tests.differential.rfc.through import Fabric, fabric

pytestmark = pytest.mark.kernel

NODE = packets.node()
BARRIER_LABEL = 0xFFFFF
PACKETS = 6000
BATCH = 100


class Kernel:
    """The kernel's answers."""

    def __init__(self) -> None:
        routes = [router.un(f"fcbb:bb00:{packets.NODE:x}::/48")]
        for function, port in packets.FUNCTION_PORTS.items():
            routes.append(router.ua(f"fcbb:bb00:{function:x}::/48", port))
            routes.append(router.ua(f"fcbb:bb00:{packets.NODE:x}:{function:x}::/64", port, 32))
        routes += [router.route(prefix, port) for prefix, port in packets.ROUTES.items()]
        routes += [router.route(f"fdff::{port}/128", port) for port in router.PORTS]
        self._router = Router(routes)

    def run(self, sent: list[bytes]) -> dict[int, list[Outcome]]:
        """Flow label -> what came out."""
        for packet in sent:
            self._router.send(packet)
        outcomes: dict[int, list[Outcome]] = {}
        for port in router.PORTS:
            self._router.send(ipv6(number(f"fdff::{port}"), BARRIER_LABEL, 64, b"", packets.NOTHING))
            while True:
                packet = self._router.receive(port)
                assert packet is not None, f"the kernel lost a barrier packet to port {port}"
                label = int.from_bytes(packet[:4], "big") & 0xFFFFF
                if label == BARRIER_LABEL:
                    break
                if label:  # the kernel has things to say of its own
                    outcomes.setdefault(label, []).append(Outcome(port, packet))
        return outcomes

    def close(self) -> None:
        """Ends the router."""
        self._router.close()


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """The kernel's router."""
    reason = router.missing()
    if reason is not None:
        pytest.skip(reason)
    under_test = Kernel()
    yield under_test
    under_test.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[Fabric]:
    """fabric.p4 with the same entries."""
    with fabric() as under_test:
        yield under_test


def comparable(packet: bytes) -> bool:
    """Whether the kernel's way with a packet is known: no jumbogram, no multicast, no long row of its own uSIDs."""
    jumbo = packet[4:6] == b"\0\0" and packet[6] == packets.HOP_BY_HOP
    one = Linux(NODE, packet)
    one.outcome()
    return not jumbo and packet[24] != 0xFF and one.packet[24] != 0xFF and one.looked_up < LOOK_UPS


def test_random_packets(kernel: Kernel, engine: Fabric) -> None:
    maker = PacketMaker(seed=0, tame=True)
    sent = [p for p in (maker.packet() for _ in range(PACKETS)) if comparable(p)]
    assert compare(engine, sent) == []
    problems, agreed = [], 0
    for at in range(0, len(sent), BATCH):
        batch = sent[at : at + BATCH]
        answers = kernel.run(batch)
        for packet in batch:
            theirs = answers.pop(int.from_bytes(packet[:4], "big") & 0xFFFFF, [DISCARDED])
            expected = Linux(NODE, packet).outcome()
            agreed += expected.port is not None and expected == Rfc(NODE, packet).outcome()
            if theirs != [expected]:
                problems.append(f"{packet.hex()}\n  model: {expected}\n  kernel: {theirs}")
        assert not answers, f"packets that nobody sent: {answers}"
    assert not problems, f"{len(problems)} of {PACKETS}:\n" + "\n".join(problems[:5])
    assert agreed > PACKETS // 5, f"only {agreed} packets leave both alike"


@pytest.mark.parametrize(
    ("ids", "port", "left"),
    [
        ([1, 2, 0x8005], 2, [2, 0x8005]),
        ([1, 2, 3, 4, 5, 6], 2, [2, 3, 4, 5, 6]),
        ([1, 0xE005, 2], 2, [0xE005, 2]),
        ([1, 0, 2], 2, [0, 2]),
        ([0xE003, 2], 3, [2]),
        ([0xE004, 0x77], 4, [0x77]),
        ([1, 0xE003, 2, 0x8005], 3, [2, 0x8005]),
        ([2, 1], 2, [2, 1]),
    ],
)
@pytest.mark.parametrize("hop_limit", [2, 64])
def test_both_say_the_same(
    kernel: Kernel, engine: Fabric, ids: list[int], port: int, left: list[int], hop_limit: int
) -> None:
    packet = ipv6(usids(ids), 7, hop_limit, udp(8), packets.UDP)
    expected = Outcome(port, ipv6(usids(left), 7, hop_limit - 1, udp(8), packets.UDP))
    assert kernel.run([packet]) == {7: [expected]}
    assert engine.outcomes([packet]) == [expected]


@pytest.mark.parametrize("ids", [[1], [0xE003], [1, 0xE003], [1, 1], [0x77, 1], [1, 0x77], [1, 0xF123, 2]])
def test_neither_forwards(kernel: Kernel, engine: Fabric, ids: list[int]) -> None:
    packet = ipv6(usids(ids), 9, 64, udp(8), packets.UDP)
    assert kernel.run([packet]) == {}
    (outcome,) = engine.outcomes([packet])
    assert describe(outcome) != "forwarded"
