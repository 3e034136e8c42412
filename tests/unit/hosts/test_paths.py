# SPDX-License-Identifier: Apache-2.0
"""The sender's rules for probing and choosing paths (non-shortest-path paper, section III;
docs/facts.md, "Non-shortest paths: what the paper leaves open")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.endpoint import make_hosts
from detour.hosts.parameters import host_config
from detour.hosts.paths import delays as native_delays
from detour.hosts.paths.delays import ProbingState
from detour.hosts.paths.probing import PROBING
from detour.hosts.verbs import Path, QPInitAttr, QPState, random_candidates
from tests.native import FromPython, parameters_of
from tests.property.lossy import US, Network, Pair, Weather, make_pair

CANDIDATES = [Path(0x0001), *(Path(0x8000 + k) for k in range(1, 8))]
"""one shortest path and seven non-shortest ones, as on D1"""
FIXED_WINDOW = QPInitAttr(psn=0, congestion_control="fixed", initial_cwnd=40)
MTU_TICKS = 80  # 1000 bytes at 100 Gb/s, ticks of a nanosecond

delays = FromPython(native_delays)


def probing(config: HostConfig) -> Any:
    """What the hooks of `probing` are given on such hosts."""
    return parameters_of(make_hosts(1, 1, 0, config=config), PROBING)


def test_own_packets_count_as_delay_unless_told_otherwise() -> None:
    for own_share in (False, True):
        hs = make_hosts(1, 1, 0, config=host_config(own_share=own_share))
        q, cfg, s = hs.qp[0], parameters_of(hs, PROBING), np.zeros(1, ProbingState.dtype)[0]
        delays.begin(cfg, s, 10_000)
        q["srtt"] = 20 * US
        # A packet of 1102 bytes takes 88.16 ns; the path carries 226.9 of them a round trip.
        for in_flight, expected in ((0, 10_000), (113, 5_018), (400, 0)):
            q["inflight"] = in_flight
            assert delays.compared(cfg, q, s) == (expected if own_share else 10_000)
        q["srtt"] = 0
        assert delays.compared(cfg, q, s) == 10_000, "without a round trip nothing is known of one's own share"
        delays.begin(cfg, s, -1)
        assert delays.compared(cfg, q, s) == -1, "and an unknown delay stays unknown"


def test_for_an_empty_path_a_smaller_difference_is_enough() -> None:
    cfg = probing(host_config(delta2_empty=40, empty_mtus=5, confirmations=3))
    above, limit = 40 * MTU_TICKS + 1, 5 * MTU_TICKS
    assert delays.is_better(cfg, 0, above)
    assert not delays.is_better(cfg, 0, above - 1)
    assert delays.is_better(cfg, limit, limit + above)
    assert not delays.is_better(cfg, limit + 1, limit + 1 + above), "there is a queue"
    assert not delays.is_better(probing(HostConfig()), 0, above), "the paper's rule"
    assert delays.confirmations(cfg, 0, above) == 8
    assert delays.confirmations(cfg, 0, 75 * MTU_TICKS + 1) == 3


class Probes:
    """A filter that watches probes and may lose or delay them."""

    def __init__(self, lose: tuple[str, ...] = ()) -> None:
        self.seen: list[tuple[str, int]] = []
        self.lose = lose

    def __call__(self, _: int, frame: bytes) -> bytes | None:
        f = decode(frame)
        if f["kind"] in ("ptm", "ptr"):
            self.seen.append((f["kind"], f["cand"]))
        return None if f["kind"] in self.lose else frame

    def ptms(self) -> list[int]:
        """Candidates probed, in order."""
        return [cand for kind, cand in self.seen if kind == "ptm"]


def start(packets: int, weather: Weather, probes: Any = None, **options: Any) -> tuple[Pair, Network]:
    """An automatic QP with `packets` to send."""
    options.setdefault("attr_a", FIXED_WINDOW)
    pair = make_pair(memory=1 << 20, connect={"candidates": CANDIDATES}, **options)
    pair.write(packets * 1000)
    return pair, Network(pair.hs, weather, filter=probes)


def finish(pair: Pair, net: Network) -> dict[str, Any]:
    """Runs until the transfer is complete."""
    assert net.run(lambda: bool(pair.cq_a.poll())), net.schedule()
    return pair.qp_a.stats()


def current(pair: Pair) -> int:
    """Index of the path in use."""
    return int(pair.hs.qp[pair.qp_a.index]["cand"])


def test_better_means_below_four_fifths_and_75_mtu_times_less() -> None:
    cfg = probing(HostConfig())
    gap = 75 * MTU_TICKS
    assert delays.is_better(cfg, 0, gap + 1)
    assert not delays.is_better(cfg, 0, gap), "the difference must be above 75 MTU times"
    assert delays.is_better(cfg, 79_999, 100_000)
    assert not delays.is_better(cfg, 80_000, 100_000), "the delay must be below 0.8 of the current one"
    assert not delays.is_better(cfg, 100_000, 80_000)
    slow = probing(HostConfig(link_rate_bps=10_000_000, tick_ps=1_000_000))
    assert delays.is_better(slow, 0, 75 * 800 + 1), "at 10 Mb/s an MTU takes 800 us"
    assert not delays.is_better(slow, 0, 75 * 800)


def test_a_busy_connection_probes_four_random_alternatives() -> None:
    drawn = set()
    for seed in range(12):
        probes = Probes()
        pair, net = start(50, Weather(), probes, seed=seed)
        finish(pair, net)
        chosen = probes.ptms()
        assert len(chosen) == len(set(chosen)) == 4
        assert 0 not in chosen, "the current path is measured by data packets"
        drawn.update(chosen)
    assert drawn == set(range(1, 8)), "they are random"


def test_a_connection_with_little_to_send_does_not_probe() -> None:
    probes = Probes()
    pair, net = start(PROBING.parameters.probe_backlog - 1, Weather(), probes)
    finish(pair, net)
    assert probes.seen == []


def test_a_fixed_path_is_never_probed_nor_left() -> None:
    probes = Probes()
    pair = make_pair(memory=1 << 20, connect={"path": CANDIDATES[0]}, attr_a=FIXED_WINDOW)
    pair.write(500_000)
    net = Network(pair.hs, Weather(queue_of=lambda sport: 1_000_000 if sport == 1 else 0), filter=probes)
    stats = finish(pair, net)
    assert probes.seen == []
    assert stats["paths"] == {"sport:0x0001": 500}


# one-way delays (us) and queuing delays (ticks) of the paths in the tests of the round
ALL = host_config(initial_probes=7, delta3=1 << 30)


def test_the_best_of_all_is_taken_when_all_have_answered() -> None:
    queue = {1: 50_000, 0x8003: 10_000, 0x8005: 9_000}
    weather = Weather(queue_of=lambda sport: queue.get(sport, 60_000))
    pair, net = start(900, weather, config=ALL)
    net.run(lambda: current(pair) != 0)
    assert current(pair) == 5
    assert net.now < 12 * US, "R is 10 us, and there is nothing to wait for"
    assert finish(pair, net)["reroutes"] == 1


def test_a_round_ends_at_three_times_r_with_the_best_of_those_that_came() -> None:
    delay = {0x8002: 30 * US, 0x8003: 12 * US}  # answers of the others come after 5 + 5 us
    queue = {1: 50_000, 0x8002: 100, 0x8003: 10_000}
    weather = Weather(delay_of=lambda s: delay.get(s, 5 * US), queue_of=lambda s: queue.get(s, 40_000))
    pair, net = start(900, weather, config=ALL)
    net.run(lambda: current(pair) != 0)
    assert current(pair) == 3, "0x8002 is better but answers after 35 us"
    assert 30 * US <= net.now < 31 * US, "R = 10 us; the choice is made at 3 R"


def test_lost_probes_do_not_hold_up_the_round() -> None:
    queue = {1: 50_000, 0x8004: 0}
    dead = {0x8005, 0x8006}
    weather = Weather(queue_of=lambda s: queue.get(s, 60_000), dead=lambda s, now: s in dead)
    pair, net = start(900, weather, config=ALL)
    net.run(lambda: current(pair) != 0)
    assert current(pair) == 4
    assert 30 * US <= net.now < 31 * US


def test_without_any_answer_the_connection_stays() -> None:
    pair, net = start(900, Weather(queue_of=lambda s: 50_000), Probes(lose=("ptr",)), config=ALL)
    stats = finish(pair, net)
    assert (stats["reroutes"], stats["ptrs"]) == (0, 0)
    assert stats["ptms"] == 7


def test_no_path_is_left_for_one_that_is_hardly_better() -> None:
    for other in (50_000 * 0.81, 50_000 - 75 * MTU_TICKS):
        weather = Weather(queue_of=lambda s, other=other: 50_000 if s == 1 else int(other))
        pair, net = start(900, weather, config=host_config(initial_probes=7))
        assert finish(pair, net)["reroutes"] == 0


@pytest.mark.parametrize(("window", "interval"), [(40, 100), (250, 250)])
def test_a_probe_goes_out_every_max_cwnd_100_data_packets_round_robin(window: int, interval: int) -> None:
    attr = QPInitAttr(psn=0, congestion_control="fixed", initial_cwnd=window)
    probes = Probes()
    config = host_config(initial_probes=0)
    pair, net = start(1000, Weather(), probes, attr_a=attr, config=config)
    stats = finish(pair, net)
    expected = [(k + 1) % len(CANDIDATES) for k in range(1000 // interval)]
    assert probes.ptms() == expected, "round robin over all |G| - 1 candidates, the current one included"
    assert stats["ptms"] == len(expected)


def test_a_path_that_gets_congested_is_left_with_slow_start() -> None:
    now = [0]
    weather = Weather(queue_of=lambda s: 30_000 if s == 1 and now[0] > 30 * US else 0)
    pair, net = start(1000, weather, config=HostConfig(reroute_cwnd=10), attr_a=QPInitAttr(psn=0, initial_cwnd=40))
    windows = []

    def moved() -> bool:
        now[0] = net.now
        windows.append(float(pair.hs.qp[pair.qp_a.index]["cwnd"]))
        return current(pair) != 0

    assert net.run(moved)
    assert windows[-2] > 40, "slow start had gone on"
    assert windows[-1] == 10
    stats = finish(pair, net)
    assert stats["reroutes"] == 1
    assert stats["retransmitted"] == 0
    assert set(stats["paths"]) == {"sport:0x0001", str(CANDIDATES[current(pair)])}
    assert sum(stats["paths"].values()) == 1000


@pytest.mark.parametrize("waits", [True, False])
def test_go_back_n_waits_until_nothing_can_be_overtaken(waits: bool) -> None:
    now = [0]

    def queue(sport: int) -> int:
        return 30_000 if sport == 1 and now[0] > 30 * US else 0

    weather = Weather(queue_of=queue, delay_of=lambda sport: 5 * US + 1_000 * queue(sport))
    attr = QPInitAttr(psn=0, initial_cwnd=40, transport="gbn")
    pair, net = start(1000, weather, config=HostConfig(idle_wait=waits), attr_a=attr, attr_b=attr)

    def moved() -> bool:
        now[0] = net.now
        return current(pair) != 0

    assert net.run(moved)
    stats = finish(pair, net)
    assert stats["reroutes"] == 1
    assert (stats["retransmitted"] == 0) == waits


def test_a_path_is_judged_by_the_least_delay_of_its_last_packets() -> None:
    hs = make_hosts(1, 1, 0, config=host_config(standing_delay=True))
    q, cfg, s = hs.qp[0], parameters_of(hs, PROBING), np.zeros(1, ProbingState.dtype)[0]
    q["cwnd"] = 20
    delays.begin(cfg, s, 500)
    seen = []
    for delay in (*range(900, 700, -10), *range(1000, 1400, 10)):
        delays.note(cfg, s, delay, q["cwnd"])
        seen.append((delays.standing(s), s["low_before"] >= 0))
    assert seen[18:20] == [(720, False), (710, True)], "nothing counts before a window is full"
    assert seen[20] == seen[38] == (710, True), "the window before and the one that fills"
    assert seen[39] == seen[58] == (1000, True)
    assert seen[59] == (1200, True)


def test_by_the_letter_a_path_is_judged_by_its_last_packet() -> None:
    hs = make_hosts(1, 1, 0, config=HostConfig())
    q, cfg, s = hs.qp[0], parameters_of(hs, PROBING), np.zeros(1, ProbingState.dtype)[0]
    delays.begin(cfg, s, 500)
    assert delays.standing(s) == 500
    for delay in (900, 800, 1000):
        delays.note(cfg, s, delay, q["cwnd"])
        assert delays.standing(s) == delay


@pytest.mark.parametrize("standing", [False, True])
def test_a_burst_moves_only_those_who_look_at_single_packets(standing: bool) -> None:
    data = [0]

    def queue(sport: int) -> int:
        data[0] += sport == 1
        return 30_000 if sport == 1 and data[0] % 30 < 20 else 0

    config = host_config(initial_probes=0, delta3=20, standing_delay=standing)
    pair, net = start(1000, Weather(queue_of=queue), config=config)
    assert (finish(pair, net)["reroutes"] > 0) != standing


@pytest.mark.parametrize("confirmations", [0, 2])
def test_a_better_path_is_probed_again_as_often_as_asked(confirmations: int) -> None:
    probes = Probes()
    config = host_config(initial_probes=0, confirmations=confirmations)
    pair, net = start(700, Weather(queue_of=lambda s: 30_000 if s == 1 else 0), probes, config=config)
    assert finish(pair, net)["reroutes"] == 1
    first = next(cand for cand in probes.ptms() if cand != 0)
    assert probes.ptms().count(first) == 1 + confirmations
    assert current(pair) == first


@pytest.mark.parametrize("queue", [30_000, 3_000])
def test_who_would_leave_for_an_empty_path_probes_several_at_a_time(queue: int) -> None:
    probes = Probes()
    config = host_config(initial_probes=0, crowded_probes=3)
    pair, net = start(700, Weather(queue_of=lambda s: queue if s == 1 else queue - 1), probes, config=config)
    assert finish(pair, net)["reroutes"] == 0
    assert len(probes.ptms()) == (3 if queue == 30_000 else 1) * (700 // 100)
    assert probes.ptms() == [(1 + k) % 8 for k in range(len(probes.ptms()))], "round robin"


def test_a_path_that_was_better_only_once_is_not_taken() -> None:
    answers = iter([0] + [29_000] * 1000)
    queue = {1: lambda: 30_000, 0x8001: lambda: next(answers)}
    weather = Weather(queue_of=lambda s: queue[s]() if s in queue else 29_000)
    pair, net = start(1000, weather, config=host_config(initial_probes=0, confirmations=1))
    assert finish(pair, net)["reroutes"] == 0


def test_queuing_delay_is_reported_per_connection() -> None:
    delays = iter(range(1000, 2000, 10))
    pair, net = start(10, Weather(queue_of=lambda s: next(delays) if s == 1 else 0))
    stats = finish(pair, net)
    assert stats["queuing_delay_ticks"] == {"min": 1000, "mean": 1045.0, "max": 1090}
    assert stats["queuing_delay_ns"] == {"min": 1000, "mean": 1045.0, "max": 1090}


def test_a_dead_path_is_left_for_a_living_one() -> None:
    dead = {1, 0x8001, 0x8002, 0x8003}
    weather = Weather(dead=lambda s, now: s in dead and now > 20 * US)
    for seed in range(8):
        pair, net = start(1000, weather, seed=seed)
        stats = finish(pair, net)
        assert stats["reroutes"] >= 1
        assert stats["rtos"] < 8
        assert current(pair) >= 4
        assert pair.mr_b.read(1_000_000) == pair.mr_a.read(1_000_000)


def test_one_timeout_is_no_reason_to_leave_a_path() -> None:
    """Also before anything is known of the path: where queues are full everywhere, leaving makes it worse."""
    pair, net = start(100, Weather(dead=lambda s, now: now < HostConfig().initial_rto_ps // 2))
    stats = finish(pair, net)
    assert (stats["rtos"], stats["reroutes"]) == (1, 0)


def test_a_path_that_is_dead_from_the_start_is_left() -> None:
    pair, net = start(100, Weather(dead=lambda s, now: s == 1))
    stats = finish(pair, net)
    assert stats["rtos"] == 0, "probes answer long before a timeout: with no ACK at all any path is better"
    assert stats["reroutes"] >= 1


def test_probing_starts_again_after_an_idle_time() -> None:
    probes = Probes()
    pair, net = start(40, Weather(), probes)
    finish(pair, net)
    net.now += 10 * HostConfig().initial_rto_ps
    pair.write(40_000, 2)
    finish(pair, net)
    assert len(probes.ptms()) == 8


def test_probes_are_answered_without_a_connection() -> None:
    pair, net = start(50, Weather())
    pair.qp_b.close()
    net.run(lambda: pair.b.stats()["ptm_answered"] > 0)
    assert pair.qp_a.state is QPState.RTS


def test_random_candidates_are_distinct_and_carry_the_bit() -> None:
    pair = make_pair()
    ports = [path.sport for path in random_candidates(pair.a, 3, 30)]
    assert len(set(ports)) == 33
    assert [port >> 15 for port in ports] == [0] * 3 + [1] * 30


def test_usid_lists_are_candidates_too() -> None:
    listed = Path(0x0001, (0x0002, 0x0003, 0x8001))
    pair = make_pair(memory=1 << 20, connect={"candidates": [Path(0x0001), listed]}, attr_a=FIXED_WINDOW)
    pair.write(900_000)
    net = Network(pair.hs, Weather())
    net.weather.queue_of = lambda sport: 0
    plain: list[int] = []

    def congest(host: int, frame: bytes) -> bytes:
        """The plain address' path is congested, that of the list is not."""
        f = decode(frame)
        if f["kind"] in ("data", "ptm") and f["dst"].startswith("fd00"):
            plain.append(f["psn"])
            return frame[:58] + (40_000).to_bytes(4, "big") + frame[62:]
        return frame

    net.filter = congest
    stats = finish(pair, net)
    assert pair.qp_a.current_path == str(listed) == "usid:fcbb:bb00:2:3:8001::"
    assert stats["paths"][str(listed)] > 700
    assert plain
