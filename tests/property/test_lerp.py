# SPDX-License-Identifier: Apache-2.0
"""LERP delivers every message whole, once and in place, whatever the network does (seeded)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.hosts.config import HostConfig
from detour.hosts.verbs import QP, Path, PathChoice, QPInitAttr, SendWR, WCOpcode, WCStatus
from tests.property.lossy import US, Network, Pair, Weather, make_pair

MEMORY = 1 << 18
WASTED = ("retransmitted", "lost", "spurious", "rtos", "tail_probes", "naks")


def only_late_probes_are_dropped(stats: dict[str, int]) -> bool:
    """Whether no ACK was taken for none: what was dropped are PTRs whose candidate had been probed again meanwhile."""
    return stats["answers_dropped"] <= stats["ptms"] - stats["ptrs"]


"""what must not be counted where nothing goes wrong"""
COMMON = settings(
    derandomize=True, deadline=None, database=None, print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
PATIENT = HostConfig(retry_ps=60_000_000 * US, probe_backlog=4, delta3=20, delta2=5)
"""a QP that does not give up at 30 % loss, and probes often"""
SPRAYS = tuple(choice for choice in PathChoice if choice >= PathChoice.SPRAYING)
STAYS = (PathChoice.PROBING, PathChoice.REACTING, PathChoice.BENDING)
"""on one path at a time"""
CHOICES = (PathChoice.FIXED, PathChoice.FIXED, PathChoice.FIXED, PathChoice.PROBING, *STAYS, *SPRAYS)


@dataclass
class Plan:
    """One generated run."""

    seed: int
    weather: Weather
    sizes: list[int]
    imms: list[bool]
    psn: int
    choice: PathChoice
    black_hole: tuple[int, int] | None
    moves: list[int] = field(default_factory=list)
    gray: str | None = None

    @property
    def auto(self) -> bool:
        """Whether the sender has several paths."""
        return self.choice is not PathChoice.FIXED


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


def start(plan: Plan) -> tuple[Pair, Network]:
    """Two hosts with a QP between them, and the network."""
    attr = QPInitAttr(psn=plan.psn)
    connect = {"candidates": PATHS, "choice": plan.choice} if plan.auto else {"path": PATHS[0]}
    pair = make_pair(memory=MEMORY, config=PATIENT, seed=plan.seed, attr_a=attr, connect=connect, window=64)
    if plan.black_hole:
        begin, end = plan.black_hole
        # In automatic mode the first path dies for good, in fixed mode for a while.
        plan.weather.dead = lambda sport, now: sport == 0x0101 and begin <= now and (plan.auto or now < end)
    lose_in_part(plan)
    return pair, Network(pair.hs, plan.weather, plan.seed)


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
            if plan.choice is PathChoice.FIXED:
                pair.qp_a.set_path(PATHS[turn], now_ps=net.now)
            else:
                some = PATHS[turn:] + PATHS[:turn][:2]
                pair.qp_a.set_path(candidates=some[: 1 + (plan.seed + number) % len(some)], now_ps=net.now)
    return net.run(all_done)


def expect_success(status: WCStatus, net: Network) -> bool:
    """Fails the test with the schedule unless a work request succeeded."""
    assert status is WCStatus.SUCCESS, f"{status.name}; {net.schedule()}"
    return True


@settings(COMMON, max_examples=120)
@given(plans())
def test_every_message_arrives_whole_once_and_in_place(plan: Plan) -> None:
    pair, net = start(plan)
    arena = pair.hs.memory.copy()
    places = post_all(pair, plan)
    done: list[int] = []
    assert run_with_moves(pair, net, plan, done), f"not finished; {net.schedule()}"
    assert done == list(range(len(plan.sizes))), f"completions out of order: {done}; {net.schedule()}"

    base_a, base_b = pair.mr_a.addr, pair.mr_b.addr
    for source, target, size in places:
        arena[base_b + target : base_b + target + size] = arena[base_a + source : base_a + source + size]
    wrong = (arena != pair.hs.memory).nonzero()[0]
    assert not len(wrong), f"{len(wrong)} wrong bytes from {wrong[:1] - base_b} on; {net.schedule()}"

    received = pair.cq_b.poll(100)
    assert [wc.opcode for wc in received] == [WCOpcode.RECV_RDMA_WITH_IMM] * sum(plan.imms), net.schedule()
    expected = [(k * 1000 + 7, size) for k, size in enumerate(plan.sizes) if plan.imms[k]]
    assert [(wc.imm_data, wc.byte_len) for wc in received] == expected, net.schedule()
    check_books(pair, plan, net)


def check_books(pair: Pair, plan: Plan, net: Network) -> None:
    """Counters agree with what was sent, nothing is left over."""
    sent, received = pair.qp_a.stats(), pair.qp_b.stats()
    packets = sum(max(1, -(-size // 1000)) for size in plan.sizes)
    assert sent["bytes"] == received["rx_bytes"] == sum(plan.sizes), net.schedule()
    assert received["rx_packets"] == packets, net.schedule()
    assert sent["packets"] == packets + sent["retransmitted"], net.schedule()
    assert sent["spurious"] <= sent["lost"] + sent["tail_probes"] + sent["retransmitted"], net.schedule()
    q = pair.hs.qp[pair.qp_a.index]
    assert q["snd_una"] == q["snd_nxt"] == q["snd_end"] == plan.psn + packets
    assert (q["flight_head"], q["lost_head"], q["inflight"], q["n_lost"]) == (-1, -1, 0, 0), net.schedule()
    for cq in (pair.cq_a, pair.cq_b):
        assert pair.hs.cq[cq.index]["reserved"] == 0


@settings(COMMON, max_examples=60)
@given(plans())
def test_in_fair_weather_nothing_is_repeated_whatever_paths_are_taken(plan: Plan) -> None:
    w = plan.weather
    w.loss = w.duplicate = w.corrupt = w.reorder = 0.0
    if plan.choice in SPRAYS:
        # others than those that it has mean that what is in flight is sent again; paths that differ by more than a
        # timeout are taken for dead
        plan.moves = []
        w.delay_of = lambda sport: (5 + sport % 7 * 5) * US
    plan.black_hole = plan.gray = None
    pair, net = start(plan)
    post_all(pair, plan)
    assert run_with_moves(pair, net, plan, []), f"not finished; {net.schedule()}"
    stats = pair.qp_a.stats()
    wasted = {name: stats[name] for name in WASTED}
    assert not any(wasted.values()), f"{wasted}; {net.schedule()}"
    assert only_late_probes_are_dropped(stats), f"{stats}; {net.schedule()}"


@settings(COMMON, max_examples=25)
@given(plans(), st.integers(2, 6))
def test_many_connections_share_a_host_in_both_directions(plan: Plan, count: int) -> None:
    plan.choice, plan.black_hole, plan.moves = PathChoice.FIXED, None, []
    pair, net = start(plan)
    size = 4_000
    qps = []
    for number in range(count - 1):
        there, back = QP(pair.pd_a, pair.cq_a), QP(pair.pd_b, pair.cq_b)
        there.connect(back.endpoint, path=PATHS[number % len(PATHS)])
        back.connect(there.endpoint)
        qps.append((there, back))
    qps.append((pair.qp_a, pair.qp_b))
    for number, (there, _) in enumerate(qps):
        source, target = pair.mr_a.sge(number * size, size), pair.mr_b.addr + (count - 1 - number) * size
        there.post_send(SendWR(number, source, target, pair.mr_b.rkey))
    done: set[int] = set()

    def all_done() -> bool:
        done.update(wc.wr_id for wc in pair.cq_a.poll() if expect_success(wc.status, net))
        return len(done) == count

    assert net.run(all_done), f"not finished: {done}; {net.schedule()}"
    for number in range(count):
        got = pair.mr_b.read(size, (count - 1 - number) * size)
        assert got == pair.mr_a.read(size, number * size), net.schedule()


def test_same_seed_gives_the_same_run() -> None:
    def once() -> tuple[list[str], int]:
        weather = Weather(loss=0.2, duplicate=0.1, corrupt=0.1, reorder=0.1, mark=0.1)
        plan = Plan(5, weather, [20_000] * 4, [True] * 4, 3, PathChoice.PROBING, (50 * US, 0))
        pair, net = start(plan)
        post_all(pair, plan)
        assert run_with_moves(pair, net, plan, [])
        return list(net.log), net.now

    assert once() == once()


@pytest.mark.parametrize("moves", [[], [0, 0, 0, 0]])
def test_a_short_message_leaves_a_shortest_path_that_never_answers(moves: list[int]) -> None:
    """So little to send that no detour is tried: what is sent again after a timeout must not take the same path."""
    weather = Weather(delay_of=lambda sport: US, rate_bps=1_000_000_000)
    plan = Plan(0, weather, [0, 0, 0], [False] * 3, 0, PathChoice.SPRAYING, (0, 1), moves)
    pair, net = start(plan)
    post_all(pair, plan)
    done: list[int] = []
    assert run_with_moves(pair, net, plan, done), net.schedule()
    assert done == [0, 1, 2]
