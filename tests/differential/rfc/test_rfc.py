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

from tests.differential.rfc import packets
from tests.differential.rfc.compare import compare, describe
from tests.differential.rfc.model import Linux, Rfc
from tests.differential.rfc.packets import PacketMaker
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
