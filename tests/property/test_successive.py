# SPDX-License-Identifier: Apache-2.0
"""Connections one after another on the same rows of the table of QPs, while frames of all earlier ones still arrive:
late, twice, or again long after; and while the connections' candidate paths change. What is reported as delivered has
arrived, always (seeded)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from detour.hosts.parameters import host_config
from detour.hosts.verbs import (
    MR,
    QP,
    AccessFlag,
    Path,
    QPInitAttr,
    SendWR,
    WCStatus,
)
from tests.property.lossy import US, Network, Pair, Weather, make_pair
from tests.property.plans import CONTROLS, SPRAYS, STAYS

MEMORY = 1 << 15
BOTH = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
KINDS = {
    "lerp": ("lerp", False),
    "go-back-n": ("gbn", False),
    "holding": ("gbn", True),
}
PATHS = [Path(0x0101), Path(0x8102), Path(0x8203), Path(0x0304), Path(0, (0x0005, 0xE003, 0x8001))]
CONFIG = host_config(
    retry_ps=60_000_000 * US, probe_backlog=4, delta3=20, delta2=5, cnp_interval_ps=10 * US, dcqcn_decrease_ps=0
)  # fmt: skip


@dataclass
class Succession:
    """Connections between the two hosts of a pair, one or a few at a time, and what must be in memory."""

    kind: tuple[str, bool]
    weather: Weather
    seed: int
    rows: int = 2
    first: dict[str, Any] = field(default_factory=lambda: {"psn": None})
    changes: float = 0.0
    """part of the connections that get other candidates in the middle of a message, and choose in any way"""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        attr = self._attr()
        self.pair: Pair = make_pair(
            memory=MEMORY, config=CONFIG, seed=self.seed, attr_a=attr, attr_b=attr,
            n_qps=self.rows, n_mrs=4, window=64, connect=self._paths(),
        )  # fmt: skip
        self.net = Network(self.pair.hs, self.weather, self.seed)
        self.leftovers: list[QP] = []
        self.expected = self.pair.hs.memory.copy()
        self.aborted = self.completed = 0
        self.is_complete = True

    def _attr(self) -> QPInitAttr:
        transport, reordering = self.kind
        control = self.rng.choice(CONTROLS)
        return QPInitAttr(transport=transport, reordering=reordering, congestion_control=control, **self.first)

    def _paths(self) -> dict[str, Any]:
        """What `connect` is told of paths."""
        some = PATHS[:3]
        if self.changes == 0:
            return {"candidates": some}
        choice = self.rng.choice(STAYS if self.kind[0] == "gbn" else (*STAYS, *SPRAYS))
        return {"candidates": self._some(), "choice": choice}

    def _some(self) -> list[Path]:
        return self.rng.sample(PATHS, self.rng.randint(1, len(PATHS)))

    def connect_anew(self) -> None:
        """Both ends are replaced, in the rows where they were; sometimes the receiver's memory is registered anew, and
        sometimes one end of the old connection lives on for a while and goes on sending. If that is a receiver for
        which data is under way, only the key of its memory keeps them out."""
        pair = self.pair
        ends = [pair.qp_a, pair.qp_b]
        if self.rows >= 4 and self.rng.random() < 0.5:
            self._close_leftovers()
            self.leftovers = [ends.pop(self.rng.randrange(2))]
        for end in ends:
            end.close()
        awaits = not self.is_complete and pair.qp_b in self.leftovers
        if awaits or self.rng.random() < 0.3:
            pair.mr_b.close()
            pair.mr_b = MR(pair.pd_b, MEMORY, BOTH, addr=pair.mr_b.addr)
        attr = self._attr()
        pair.qp_a, pair.qp_b = QP(pair.pd_a, pair.cq_a, attr), QP(pair.pd_b, pair.cq_b, attr)
        pair.qp_a.connect(pair.qp_b.endpoint, **self._paths())
        pair.qp_b.connect(pair.qp_a.endpoint)

    def _close_leftovers(self) -> None:
        for qp in self.leftovers:
            qp.close()
        self.leftovers = []

    def write(self, number: int) -> None:
        """One message with bytes of its own; it is waited for, or, one time in eight, not."""
        pair, hs = self.pair, self.pair.hs
        size = self.rng.choice([1, 999, 1000, 5_000, 12_345])
        source, target = self.rng.randrange(MEMORY - size), self.rng.randrange(MEMORY - size)
        fresh = self.rng.randbytes(size)
        pair.mr_a.write(fresh, source)
        self.expected[pair.mr_a.addr + source : pair.mr_a.addr + source + size] = np.frombuffer(fresh, np.uint8)
        wr = SendWR(number, pair.mr_a.sge(source, size), pair.mr_b.addr + target, pair.mr_b.rkey, number)
        pair.qp_a.post_send(wr, now_ps=self.net.now)
        begin = pair.mr_b.addr + target
        while self.rng.random() < self.changes:
            until = self.net.now + self.rng.randrange(15 * US)
            self.net.run(lambda until=until: self.net.now >= until, limit_ps=1 << 62, max_frames=1 << 62)
            pair.qp_a.set_path(candidates=self._some(), now_ps=self.net.now)
        if self.rng.random() < 0.125:
            until = self.net.now + self.rng.randrange(20 * US)
            self.net.run(lambda: self.net.now >= until, limit_ps=1 << 62, max_frames=1 << 62)
            pair.cq_a.poll()
            pair.cq_b.poll()
            self.expected[begin : begin + size] = hs.memory[begin : begin + size]  # a part may be there
            self._check(number)
            self.aborted += 1
            self.is_complete = False
            return
        done: list[tuple[int, WCStatus]] = []
        arrived: list[int | None] = []

        def over() -> bool:
            done.extend((wc.wr_id, wc.status) for wc in pair.cq_a.poll() if wc.qp_num == pair.qp_a.qp_num)
            return bool(done)

        assert self.net.run(over, limit_ps=1 << 62, max_frames=1 << 62), self.net.schedule()
        assert done == [(number, WCStatus.SUCCESS)], self.net.schedule()
        self.expected[begin : begin + size] = np.frombuffer(fresh, np.uint8)
        self._check(number)
        arrived.extend(wc.imm_data for wc in pair.cq_b.poll() if wc.qp_num == pair.qp_b.qp_num)
        assert arrived == [number], f"immediates {arrived} instead of {number}; {self.net.schedule()}"
        assert pair.qp_a.stats()["bytes"] == pair.qp_b.stats()["rx_delivered"] == size, self.net.schedule()
        self.completed += 1
        self.is_complete = True

    def _check(self, number: int) -> None:
        wrong = np.flatnonzero(self.expected != self.pair.hs.memory)
        assert not len(wrong), (
            f"connection {number}: {len(wrong)} bytes are not what was reported, from {wrong[:1]} on; "
            f"{self.net.schedule()}"
        )

    def run(self, connections: int) -> None:
        """As many connections as that, each for one message."""
        for number in range(connections):
            if number:
                self.connect_anew()
            self.write(number)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_late_frames_of_earlier_connections(kind: str, seed: int) -> None:
    """Two rows, 1 % loss, 2 % of the frames up to 30 us late."""
    succession = Succession(KINDS[kind], Weather(loss=0.01, reorder=0.02), seed)
    succession.run(300)
    assert succession.completed > 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [2, 5])
def test_replayed_frames_of_earlier_connections(kind: str, rows: int) -> None:
    """Frames come twice and again; with more rows one end of an old connection lives on and repeats what it has."""
    weather = Weather(loss=0.02, reorder=0.05, duplicate=0.05, mark=0.1, corrupt=0.01, replay=0.3)
    weather.queue_of = lambda sport: sport % 7 * 3000
    succession = Succession(KINDS[kind], weather, seed=rows, rows=rows)
    succession.run(250)
    assert succession.completed > 150
    assert succession.aborted > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_candidates_of_reused_rows_change_in_mid_message(kind: str, seed: int) -> None:
    """All ways to choose paths; late frames are of earlier connections, and of earlier candidates of this one."""
    weather = Weather(loss=0.02, reorder=0.05, duplicate=0.05, mark=0.1, replay=0.2)
    weather.delay_of = lambda sport: (1 + sport % 7 * 3) * US
    weather.queue_of = lambda sport: sport % 7 * 3000
    succession = Succession(KINDS[kind], weather, seed, rows=5, changes=0.5)
    succession.run(200)
    assert succession.completed > 120
    assert succession.aborted > 10


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_first_psn_every_time(kind: str) -> None:
    """Random first PSNs are not what tells connections apart."""
    weather = Weather(loss=0.02, reorder=0.05, duplicate=0.05, mark=0.1, replay=0.3)
    succession = Succession(KINDS[kind], weather, seed=9, first={"psn": 0xFFFFF0})
    succession.run(150)
    assert succession.completed > 100


def test_same_seed_gives_the_same_succession() -> None:
    def once() -> tuple[list[Any], int]:
        succession = Succession(KINDS["lerp"], Weather(loss=0.02, reorder=0.05, duplicate=0.05, replay=0.2), 3, 5)
        succession.run(40)
        return list(succession.net.log), succession.net.now

    assert once() == once()
