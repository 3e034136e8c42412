# SPDX-License-Identifier: Apache-2.0
"""Random packets through fabric.p4 and the controller, and through a model of a node written from the RFCs.

`DETOUR_DIFF_USID` says how many (default 20,000), `DETOUR_DIFF_SEED` which; `python -m tests.fuzz --target usid` goes
on as long as you like.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.differential.rfc import model, packets
from tests.differential.rfc.compare import compare, describe
from tests.differential.rfc.model import Linux, Outcome, Rfc
from tests.differential.rfc.packets import PacketMaker, ipv6, udp, usids
from tests.differential.rfc.through import Fabric, fabric

PACKETS = int(os.environ.get("DETOUR_DIFF_USID", "20000"))
SEED = int(os.environ.get("DETOUR_DIFF_SEED", "0"))
BATCH = 5000


@pytest.fixture(scope="module")
def node() -> Iterator[Fabric]:
    """The switch under test."""
    with fabric() as under_test:
        yield under_test


def test_random_packets_are_treated_as_the_rfcs_say(node: Fabric) -> None:
    maker = PacketMaker(SEED)
    problems: list[str] = []
    seen: Counter[str] = Counter()
    for at in range(0, PACKETS, BATCH):
        sent = [maker.packet() for _ in range(min(BATCH, PACKETS - at))]
        problems += compare(node, sent, seen)
    assert not problems, f"{len(problems)} of {PACKETS}:\n" + "\n".join(problems[:5])
    kinds = {"forwarded", "discarded", (1, 0), (3, 0), (4, 0), (4, 1), (4, 4), (4, 6), (4, 8)}
    assert {describe(k) for k in kinds} <= set(seen), f"only {dict(seen)}"
    assert seen["forwarded"] > PACKETS // 5


class Careless(Rfc):
    """Takes whatever comes for a packet's source."""

    def _receive(self) -> None:
        source = bytes(self.packet[8:24])
        self.packet[8:24] = packets.SOURCE.to_bytes(16, "big")
        super()._receive()
        self.packet[8:24] = source


@pytest.mark.parametrize("wrong", [Linux, Careless])
def test_a_wrong_model_is_noticed(node: Fabric, wrong: type[Rfc]) -> None:
    maker = PacketMaker(SEED)
    assert compare(node, [maker.packet() for _ in range(1000)], model=wrong)


def expect(node: Fabric, packet: bytes, outcome: Outcome) -> None:
    """The model and the switch agree, and on this."""
    assert Rfc(packets.node(), packet).outcome() == outcome
    assert node.outcomes([packet]) == [outcome]


@pytest.mark.parametrize("foreign", [0xE005, 0xE00F])
@pytest.mark.parametrize("hop_limit", [2, 3, 64])
def test_a_foreign_usid_of_the_local_range_costs_no_second_hop(node: Fabric, foreign: int, hop_limit: int) -> None:
    port = 2 if foreign == 0xE005 else 5
    sent = ipv6(usids([1, foreign, 2]), 7, hop_limit, udp(8), 17)
    expect(node, sent, Outcome(port, ipv6(usids([foreign, 2]), 7, hop_limit - 1, udp(8), 17)))


def test_every_own_usid_costs_a_hop(node: Fabric) -> None:
    sent = ipv6(usids([1, 1, 1, 2]), 7, 9, udp(8), 17)
    expect(node, sent, Outcome(2, ipv6(usids([2]), 7, 6, udp(8), 17)))


@pytest.mark.parametrize(("last", "left"), [(1, 1), (255, 1), (0, 2), (0, 255)])
def test_an_srh_that_contradicts_itself_is_answered(node: Fabric, last: int, left: int) -> None:
    header = bytes((17, 2, 4, left, last, 0, 0, 0)) + usids([2]).to_bytes(16, "big")
    icmp = (model.PARAMETER_PROBLEM, 0, 43)
    expect(node, ipv6(usids([1]), 7, 64, header + udp(8), 43), Outcome(icmp=icmp))
    transit = ipv6(usids([2, 1]), 7, 64, header + udp(8), 43)
    expect(node, transit, Outcome(2, transit[:7] + b"\x3f" + transit[8:]))
