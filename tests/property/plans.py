# SPDX-License-Identifier: Apache-2.0
"""Generated runs of a connection: messages, what becomes of frames, and when paths change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from detour.hosts.parameters import host_config
from detour.hosts.verbs import Path, SendWR, WCStatus
from tests.property.lossy import US, Network, Pair, Weather

MEMORY = 1 << 18
WASTED = ("retransmitted", "lost", "spurious", "rtos", "tail_probes", "naks")


def only_late_probes_are_dropped(stats: dict[str, int]) -> bool:
    """Whether no ACK was taken for none: what was dropped are PTRs whose candidate had been probed again meanwhile."""
    return stats["answers_dropped"] <= stats["ptms"] - stats["ptrs"]


"""what must not be counted where nothing goes wrong"""
COMMON = settings(
    deadline=None, database=None, print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
PATIENT = host_config(retry_ps=60_000_000 * US, probe_backlog=4, delta3=20, delta2=5)
"""a QP that does not give up at 30 % loss, and probes often"""
SPRAYS = ("spray", "oblivious", "reps", "mrc-like", "spritz-scout", "spritz-spray", "pathset")
STAYS = ("probing", "reacting", "flowbender")
"""on one path at a time"""
CONTROLS = ("fixed", "dctcp", "dcqcn")
CHOICES = ("fixed", "fixed", "fixed", "probing", *STAYS, *SPRAYS)


@dataclass
class Plan:
    """One generated run."""

    seed: int
    weather: Weather
    sizes: list[int]
    imms: list[bool]
    psn: int
    choice: str
    black_hole: tuple[int, int] | None
    moves: list[int] = field(default_factory=list)
    gray: str | None = None

    @property
    def auto(self) -> bool:
        """Whether the sender has several paths."""
        return self.choice != "fixed"


GRAY: dict[str, Callable[[str, int], bool]] = {
    "data": lambda kind, length: kind == "data",
    "long": lambda kind, length: length > 200,
    "acks": lambda kind, length: kind == "ack",
    "there": lambda kind, length: kind in ("data", "ptm"),
    "back": lambda kind, length: kind not in ("data", "ptm"),
}
"""frames that a path loses although it passes others"""
GRAY_PATHS = (0x0101, 0x8102)


def lose_in_part(plan: Plan) -> None:
    """Two of the paths lose frames of one kind and pass all others from some moment on, if the sender has a choice."""
    if plan.gray is None or not plan.auto or plan.moves:  # other candidates may all be among those that fail
        return
    lost, begin = GRAY[plan.gray], plan.seed % 200 * US
    plan.weather.gray = lambda kind, sport, length, now: sport in GRAY_PATHS and now >= begin and lost(kind, length)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Loss up to 30 %, everything else up to 20 %, black holes and path changes in the middle."""
    share = st.sampled_from([0.0, 0.0, 0.02, 0.2])
    weather = Weather(
        loss=draw(st.sampled_from([0.0, 0.01, 0.1, 0.3])),
        duplicate=draw(share),
        corrupt=draw(share),
        reorder=draw(share),
        mark=draw(share),
        rate_bps=draw(st.sampled_from([10**9, 10**11])),
    )
    slow = draw(st.sampled_from([1, 5, 40]))
    weather.delay_of = lambda sport: (1 + sport % 7 * slow) * US
    queues = draw(st.integers(0, 1 << 20))
    weather.queue_of = lambda sport: (sport * 2654435761 ^ queues) % 50_000
    sizes = draw(st.lists(st.sampled_from([0, 1, 3, 999, 1000, 1001, 5_000, 20_000]), min_size=1, max_size=8))
    begin = draw(st.integers(0, 300)) * US
    hole = draw(st.sampled_from([None, None, (begin, begin + 3_000 * US)]))
    return Plan(
        seed=draw(st.integers(0, 1 << 30)),
        weather=weather,
        sizes=sizes,
        imms=draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))),
        psn=draw(st.sampled_from([0, 77, (1 << 24) - 1, (1 << 24) - 10])),
        choice=draw(st.sampled_from(CHOICES)),
        black_hole=hole,
        gray=draw(st.sampled_from([None, None, *GRAY])),
        moves=draw(st.lists(st.integers(0, 400), max_size=4)),
    )


PATHS = [Path(0x0101), Path(0x8102), Path(0x8203), Path(0, (0x0005, 0xE003, 0x8001)), Path(0x8405)]


def post_all(pair: Pair, plan: Plan) -> list[tuple[int, int, int]]:
    """Posts all messages one behind the other in memory; returns (source offset, target offset, length)."""
    picker = random.Random(plan.seed)
    target = 0
    places = []
    for number, size in enumerate(plan.sizes):
        source = picker.randrange(MEMORY - size)
        imm = number * 1000 + 7 if plan.imms[number] else None
        wr = SendWR(number, pair.mr_a.sge(source, size), pair.mr_b.addr + target, pair.mr_b.rkey, imm)
        pair.qp_a.post_send(wr)
        places.append((source, target, size))
        target += size + picker.randrange(8)
    return places


def run_with_moves(pair: Pair, net: Network, plan: Plan, done: list[int]) -> bool:
    """Runs to the end; in fixed mode the path changes at the plan's moments, else the QP gets other candidates, of
    which there may be more than before, or only one."""

    def all_done() -> bool:
        done.extend(wc.wr_id for wc in pair.cq_a.poll() if expect_success(wc.status, net))
        return len(done) == len(plan.sizes)

    for number, moment in enumerate(sorted(plan.moves)):
        if net.run(lambda until=moment * US: all_done() or net.now >= until):
            if all_done():
                break
            net.note("path change")
            turn = (number + 1) % len(PATHS)
            if plan.choice == "fixed":
                pair.qp_a.set_path(PATHS[turn], now_ps=net.now)
            else:
                some = PATHS[turn:] + PATHS[:turn][:2]
                pair.qp_a.set_path(candidates=some[: 1 + (plan.seed + number) % len(some)], now_ps=net.now)
    return net.run(all_done)


def expect_success(status: WCStatus, net: Network) -> bool:
    """Fails the test with the schedule unless a work request succeeded."""
    assert status is WCStatus.SUCCESS, f"{status.name}; {net.schedule()}"
    return True
