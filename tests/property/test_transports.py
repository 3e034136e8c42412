# SPDX-License-Identifier: Apache-2.0
"""Whatever the network does, every combination of transport, receiver and congestion control delivers every message
whole, once and in order (seeded)."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.hosts.config import HostConfig
from detour.hosts.endpoint import pause
from detour.hosts.parameters import host_config
from detour.hosts.verbs import QP, QPInitAttr, SendWR, WCOpcode
from tests.property.lossy import US, Network, Pair, Weather, make_pair
from tests.property.plans import (
    COMMON,
    CONTROLS,
    MEMORY,
    PATHS,
    PATIENT,
    SPRAYS,
    WASTED,
    Plan,
    expect_success,
    lose_in_part,
    only_late_probes_are_dropped,
    plans,
    post_all,
    run_with_moves,
)  # fmt: skip


@dataclass
class Kind:
    """What runs on a connection."""

    transport: str
    reordering: bool
    control: str
    config: HostConfig

    def attr(self, psn: int | None = None) -> QPInitAttr:
        """Attributes of either end."""
        return QPInitAttr(
            psn=psn, transport=self.transport, reordering=self.reordering, congestion_control=self.control
        )


RECEIVERS = [("lerp", False), ("gbn", False), ("gbn", True)]
LERP_DCTCP = ("lerp", False, "dctcp")


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    """Any combination, and half of the time LERP with DCTCP."""
    chosen = [LERP_DCTCP] * 9 + [(*receiver, control) for receiver in RECEIVERS for control in CONTROLS]
    transport, reordering, control = draw(st.sampled_from(chosen))
    config = host_config(
        PATIENT,
        ack_every=draw(st.sampled_from([1, 4, 1000])),
        cnp_interval_ps=draw(st.sampled_from([0, 10 * US])),
        dcqcn_decrease_ps=draw(st.sampled_from([0, 4 * US])),
        dcqcn_increase_ps=20 * US,
    )
    return Kind(transport, reordering, control, config)


def start(plan: Plan, kind: Kind) -> tuple[Pair, Network]:
    """Two hosts with a QP between them, and the network."""
    choice = plan.choice if kind.transport == "lerp" or plan.choice not in SPRAYS else "probing"
    connect = {"candidates": PATHS, "choice": choice} if plan.auto else {"path": PATHS[0]}
    ends: dict[str, Any] = {"attr_a": kind.attr(plan.psn), "attr_b": kind.attr()}
    pair = make_pair(memory=MEMORY, config=kind.config, seed=plan.seed, connect=connect, window=64, **ends)
    if plan.black_hole:
        begin, end = plan.black_hole
        plan.weather.dead = lambda sport, now: sport == 0x0101 and begin <= now and (plan.auto or now < end)
    lose_in_part(plan)
    return pair, Network(pair.hs, plan.weather, plan.seed)


@settings(COMMON, max_examples=270)
@given(plans(), kinds())
def test_every_message_arrives_whole_once_and_in_order(plan: Plan, kind: Kind) -> None:
    if kind.transport == "gbn":  # it needs the timeout for every repeat that is lost
        plan.weather.loss = min(plan.weather.loss, 0.1)
    pair, net = start(plan, kind)
    arena = pair.hs.memory.copy()
    places = post_all(pair, plan)
    done: list[int] = []
    assert run_with_moves(pair, net, plan, done), f"{kind} not finished; {net.schedule()}"
    assert done == list(range(len(plan.sizes))), f"{kind}: completions out of order: {done}; {net.schedule()}"

    for source, target, size in places:
        begin = pair.mr_b.addr + target
        arena[begin : begin + size] = arena[pair.mr_a.addr + source : pair.mr_a.addr + source + size]
    assert (arena == pair.hs.memory).all(), f"{kind}; {net.schedule()}"
    received = pair.cq_b.poll(100)
    assert [wc.opcode for wc in received] == [WCOpcode.RECV_RDMA_WITH_IMM] * sum(plan.imms), net.schedule()
    expected = [(k * 1000 + 7, size) for k, size in enumerate(plan.sizes) if plan.imms[k]]
    assert [(wc.imm_data, wc.byte_len) for wc in received] == expected, net.schedule()
    check_books(pair, plan, net)


def check_books(pair: Pair, plan: Plan, net: Network) -> None:
    """Counters agree with what was sent, nothing is left over."""
    sent, received = pair.qp_a.stats(), pair.qp_b.stats()
    packets = sum(max(1, -(-size // 1000)) for size in plan.sizes)
    assert sent["bytes"] == received["rx_bytes"] == received["rx_delivered"] == sum(plan.sizes), net.schedule()
    assert received["rx_packets"] == packets, net.schedule()
    assert sent["packets"] == packets + sent["retransmitted"], net.schedule()
    if pair.qp_a.attr.transport == "lerp":
        assert sent["spurious"] <= sent["lost"] + sent["tail_probes"] + sent["retransmitted"], net.schedule()
    assert sent["naks"] <= 2 * received["rx_naks"] <= 2 * received["rx_early_dropped"], net.schedule()
    assert 0 < sent["first_done_ps"] <= sent["last_done_ps"] <= net.now
    q, r = pair.hs.qp[pair.qp_a.index], pair.hs.qp[pair.qp_b.index]
    assert q["snd_una"] == q["snd_nxt"] == q["snd_end"] == plan.psn + packets
    assert (q["flight_head"], q["lost_head"], q["inflight"], q["n_lost"]) == (-1, -1, 0, 0), net.schedule()
    assert (r["rcv_early"], r["rcv_held"], r["rcv_nak"]) == (0, 0, 0), net.schedule()
    assert not pair.hs.cq["reserved"][[pair.cq_a.index, pair.cq_b.index]].any()


@settings(COMMON, max_examples=100)
@given(plans(), kinds())
def test_in_fair_weather_nothing_is_repeated(plan: Plan, kind: Kind) -> None:
    w = plan.weather
    w.loss = w.duplicate = w.corrupt = w.reorder = 0.0
    if kind.transport == "gbn":
        # a change of path is safe only if delays are those that the queues report
        plan.moves = []
        w.delay_of = lambda sport: 5 * US + w.queue_of(sport) * 1000
    if plan.choice in SPRAYS:
        # others than those that it has mean that what is in flight is sent again; a path that answers later than
        # the others' round trips let expect is taken for dead (5 and 35 us)
        plan.moves = []
        w.delay_of = lambda sport: (15 + sport % 7 * 5) * US
    plan.black_hole = plan.gray = None
    pair, net = start(plan, kind)
    post_all(pair, plan)
    assert run_with_moves(pair, net, plan, []), f"{kind} not finished; {net.schedule()}"
    stats = pair.qp_a.stats()
    wasted = {name: stats[name] for name in WASTED}
    assert not any(wasted.values()), f"{kind}: {wasted}; {net.schedule()}"
    assert only_late_probes_are_dropped(stats), f"{kind}: {stats}; {net.schedule()}"


@pytest.mark.parametrize(("receiver", "control"), list(itertools.product(RECEIVERS, CONTROLS)))
def test_random_pauses_are_harmless(receiver: tuple[str, bool], control: str) -> None:
    """Both hosts are paused and resumed at random in the middle of losses."""
    kind = Kind(*receiver, control, PATIENT)
    for seed in range(3):
        weather = Weather(loss=0.02, duplicate=0.02, reorder=0.02, mark=0.1)
        plan = Plan(seed, weather, [20_000] * 4, [True] * 4, 3, "probing", None)
        pair, net = start(plan, kind)
        post_all(pair, plan)
        assert run_with_pauses(pair, net) == [0, 1, 2, 3], f"{kind}; {net.schedule()}"
        check_books(pair, plan, net)


def run_with_pauses(pair: Pair, net: Network) -> list[int]:
    """Numbers of the completed work requests, four if all is well."""
    done: list[int] = []

    def all_done() -> bool:
        done.extend(wc.wr_id for wc in pair.cq_a.poll() if expect_success(wc.status, net))
        return len(done) == 4

    for _ in range(200):
        pause(pair.hs, net.random.randrange(2), net.random.choice([0, 0, 1, 0xFF]))
        until = net.now + net.random.randrange(1, 30) * US
        net.run(lambda until=until: net.now >= until or all_done())
        if len(done) == 4:
            break
        net.now = max(net.now, until)
    for host in range(2):
        pause(pair.hs, host, 0)
    net.run(all_done)
    return done


LERP = Kind(*LERP_DCTCP, PATIENT)


@settings(COMMON, max_examples=25)
@given(plans(), st.integers(2, 6))
def test_many_connections_share_a_host_in_both_directions(plan: Plan, count: int) -> None:
    plan.choice, plan.black_hole, plan.moves = "fixed", None, []
    pair, net = start(plan, LERP)
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
    def once() -> tuple[list[Any], int]:
        weather = Weather(loss=0.2, duplicate=0.1, corrupt=0.1, reorder=0.1, mark=0.1)
        plan = Plan(5, weather, [20_000] * 4, [True] * 4, 3, "probing", (50 * US, 0))
        pair, net = start(plan, LERP)
        post_all(pair, plan)
        assert run_with_moves(pair, net, plan, [])
        return list(net.log), net.now

    assert once() == once()


@pytest.mark.parametrize("moves", [[], [0, 0, 0, 0]])
def test_a_short_message_leaves_a_shortest_path_that_never_answers(moves: list[int]) -> None:
    """So little to send that no detour is tried: what is sent again after a timeout must not take the same path."""
    weather = Weather(delay_of=lambda sport: US, rate_bps=1_000_000_000)
    plan = Plan(0, weather, [0, 0, 0], [False] * 3, 0, "spray", (0, 1), moves)
    pair, net = start(plan, LERP)
    post_all(pair, plan)
    done: list[int] = []
    assert run_with_moves(pair, net, plan, done), net.schedule()
    assert done == [0, 1, 2]


def test_uncompiled_code_does_the_same() -> None:
    """`NUMBA_DISABLE_JIT=1` runs every function as Python; the frames are the same to the last byte."""
    program = (
        "import hashlib, random\n"
        "from tests.property.lossy import *\n"
        "from detour.hosts.verbs import *\n"
        "pair = make_pair(memory=1 << 16, seed=3, connect={'candidates': [Path(1), Path(0x8001), Path(0x8002)]})\n"
        "weather = Weather(loss=0.1, duplicate=0.05, corrupt=0.05, reorder=0.05, mark=0.1)\n"
        "digest = hashlib.sha256()\n"
        "net = Network(pair.hs, weather, 3, filter=lambda host, frame: digest.update(frame) or frame)\n"
        "pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 60_001), pair.mr_b.addr, pair.mr_b.rkey, 5))\n"
        "assert net.run(lambda: bool(pair.cq_a.poll())), net.schedule()\n"
        "assert pair.mr_b.read(60_001) == pair.mr_a.read(60_001)\n"
        "print(net.now, net.frames, digest.hexdigest())\n"
    )

    def run(disable: str) -> str:
        environment = os.environ | {"NUMBA_DISABLE_JIT": disable}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("0") == run("1")
