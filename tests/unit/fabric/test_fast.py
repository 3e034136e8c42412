# SPDX-License-Identifier: Apache-2.0
"""Steady phases that are skipped: what arrives, when, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from detour.base.cores import THREADS
from detour.base.errors import DetourError
from detour.cli import main
from detour.experiments.sim.plan import plan_of
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import ROCE_WITH_PFC, RunSettings, Scheme, scheme
from detour.fabric.fast import carried, looks, memory, partitions, steadiness
from detour.fabric.fast.records import (
    AWAKE,
    CONTEXTS,
    HALF,
    MEMORIES,
    NONE,
    Context,
    Flow,
    Hop,
    Link,
    Look,
    Memory,
    Partition,
    State,
)
from detour.fabric.fast.skipping import Skipper
from detour.hosts import rdma
from detour.hosts.state import MAX_TIME, WQE_SIGNALED
from detour.topo import parse_topology
from tests.native import FromPython

FABRIC = "leaf-spine:leaves=2,spines=2,hosts=4"
LERP = "LERP-shortest"


def _run(workload: str, fast: str | None, *, topo: str = FABRIC, threads: int = 1, **options: object) -> SimRun:
    given = {"scheme": LERP, "mtu": "4096", "connections": "1"} | options
    pausing = given["scheme"] == ROCE_WITH_PFC.name
    given["scheme"] = LERP if pausing else given["scheme"]
    plan = plan_of(SimOptions(topo=topo, workload=workload, fast=fast, **given))  # type: ignore[arg-type]
    settings = replace(plan.settings, scheme=ROCE_WITH_PFC.with_mtu(4096)) if pausing else plan.settings
    with THREADS.set_to(threads):
        return run_workload(plan.topology, plan.workload, settings)


def _finish(run: SimRun) -> np.ndarray:
    return run.tasks.finish_ps


# -- what arrives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen", [scheme(LERP), scheme("SprayLERP"), scheme("PathSet"), ROCE_WITH_PFC], ids=lambda one: one.name
)
def test_data_arrive_byte_for_byte(chosen: Scheme) -> None:
    """Two senders share links. What is reported as delivered is there at any time."""
    size, rng = 12_000_000, np.random.default_rng(1)
    ends = np.array([(0, 4), (1, 5)])
    settings = RunSettings(payload=True, jitter_ps=-1)
    topology = parse_topology(f"leaf-spine:leaves=2,spines={1 + 3 * chosen.name.endswith('Set')},hosts=4")
    with VirtualFabric(topology, chosen.with_mtu(4096), settings, queue_pairs=4) as fabric:
        hs = fabric.hs
        hs.cfg[0]["elide_payload"] = 1  # connections of many at once are made so; here their packets carry theirs
        fabric.connect(ends)
        hs.cfg[0]["elide_payload"] = 0
        flows = fabric.flows
        hs.memory[: 2 * size] = rng.integers(0, 256, 2 * size, np.uint8)
        for k in range(2):
            places = k * size, (2 + k) * size
            row, key = int(flows.sender[k]), int(flows.rkey[k])
            assert not rdma.post_write(hs.listing, row, k, *places, key, size, WQE_SIGNALED, 0, 0)
            fabric.network.kick_host(k)
        skipper, before = Skipper(fabric, ends, 0.02), 0
        while (done := fabric.column("st_rx_bytes")).min() < size:
            for k in range(2):
                arrived = slice(k * size, k * size + int(fabric.hs.qp["st_rx_delivered"][flows.receiver[k]]))
                assert (hs.memory[2 * size :][arrived] == hs.memory[arrived]).all()
            assert fabric.now_ps < 10**10, done
            skipper.run(fabric.now_ps + 100_000_000)
            skipper.count()
            arrived = int(fabric.hs.host["rx_payload"].sum()) + skipper.uncounted_bytes
            assert arrived > before  # the time left is told by it
            before = arrived
        skipper.wake_all()
        fabric.run(fabric.now_ps + 20_000_000_000)  # the longest timeout
        assert (hs.memory[2 * size : 4 * size] == hs.memory[: 2 * size]).all()
        assert skipper.skipped > 1000
        assert fabric.network.idle
        assert fabric.network.loop_stats()["used"] == 0


@pytest.mark.parametrize(
    ("workload", "total", "flow"),
    [("ring:bytes=1e8", 0.01, 0.05), ("double-tree:bytes=5e7", 0.03, None), ("all-to-all:bytes=1e8", 0.03, 0.15)],
)
def test_collectives_take_as_long_as_in_full(workload: str, total: float, flow: float | None) -> None:
    """Trees are chaotic: which of two messages comes first decides for all behind them, so single ones say nothing."""
    full, fast = _run(workload, None), _run(workload, "0.02")
    assert fast.ended_by == "delivered"
    assert fast.skipped > 0
    assert abs(fast.end_ps / full.end_ps - 1) < total
    assert (fast.counts.delivered == full.counts.delivered).all()
    assert (fast.counts.packets - fast.counts.retransmitted == full.counts.packets - full.counts.retransmitted).all()
    if flow is not None:
        assert np.abs(_finish(fast) / _finish(full) - 1).max() < flow
        sent = fast.links.sent[-1].sum(), full.links.sent[-1].sum()
        assert abs(sent[0] - sent[1]) < 1000  # some of the last answers may be on their way


@pytest.mark.parametrize(
    ("name", "workload", "topo", "least"),
    [
        ("SprayLERP", "ring:bytes=2e8", FABRIC, 0.8),
        ("SprayLERP", "all-to-all:bytes=2e8", "leaf-spine:leaves=4,spines=2,hosts=4", 0.4),  # spines are too few
        ("SprayLERP", "all-to-all:bytes=2e8", "fat-tree:k=4", 0.6),  # connections differ by chance
        ("PathSet", "all-to-all:bytes=2e8", "fat-tree:k=4", 0.3),
        ("RoCEv2+PFC", "all-to-all:bytes=4e8", "leaf-spine:leaves=4,spines=4,hosts=4", 0.5),  # links are often paused
        ("RoCEv2+PFC", "permutation:bytes=1e8", "leaf-spine:leaves=2,spines=1,hosts=4", 0.9),  # three share a link
        ("ShortestPath", "ring:bytes=2e8,ranks=8,shuffle=1", "d1", 0.5),
    ],
)
def test_what_sprays_and_what_pauses(name: str, workload: str, topo: str, least: float) -> None:
    full, fast = (_run(workload, error, topo=topo, scheme=name) for error in (None, "0.02"))
    assert fast.ended_by == "delivered"
    assert fast.skipped > least * full.counts.packets.sum()
    assert abs(fast.end_ps / full.end_ps - 1) < 0.02
    assert (fast.counts.delivered == full.counts.delivered).all()
    sent = fast.links.sent[-1].sum(), full.links.sent[-1].sum()
    assert abs(sent[0] / sent[1] - 1) < 0.01


def test_a_rate_that_still_rises_is_not_steady() -> None:
    """DCQCN's senders that were cut need some milliseconds back to the link's rate, in steps of a third of one."""
    full, fast = (_run("permutation:bytes=4e7", error, topo="d1", scheme="ShortestPath") for error in (None, "0.02"))
    assert (full.counts.marked > 0).any()
    assert abs(fast.end_ps / full.end_ps - 1) < 0.05


@pytest.mark.parametrize(
    ("name", "topo", "most"),
    [
        (LERP, FABRIC, 260),  # no links are shared; 48 us at the beginning of each message are 140 packets
        (LERP, "d1", 450),  # two connections share a link, and need 2 ms in each round to be known
        ("SprayLERP", FABRIC, 260),
    ],
)
def test_rounds_are_taken_from_earlier_ones(name: str, topo: str, most: int) -> None:
    """Packets simulated of a message, of 6,104."""
    workload = "ring:bytes=4e8,ranks=16,shuffle=1" if topo == "d1" else "ring:bytes=2e8"
    full, fast = (_run(workload, error, topo=topo, scheme=name) for error in (None, "0.02"))
    assert (fast.counts.packets.sum() - fast.skipped) / len(fast.tasks.finish_ps) < most
    assert abs(fast.end_ps / full.end_ps - 1) < 0.01


def test_flow_that_is_alone_takes_as_long_as_in_full() -> None:
    full, fast = (
        _run("permutation:bytes=2e8", error, topo="leaf-spine:leaves=2,spines=1,hosts=1") for error in (None, "0.02")
    )
    assert np.abs(_finish(fast) / _finish(full) - 1).max() < 0.005  # one packet more or less in a look back of 380
    assert fast.skipped > 0.95 * full.counts.packets.sum()


def test_nothing_is_skipped_without_a_bound() -> None:
    plain, zero = _run("ring:bytes=1e7", None), _run("ring:bytes=1e7", "0")
    assert zero.skipped == 0
    assert (_finish(zero) == _finish(plain)).all()


def test_short_messages_are_not_skipped() -> None:
    plain, fast = _run("ring:bytes=1e6", None), _run("ring:bytes=1e6", "0.02")
    assert fast.skipped == 0
    assert (_finish(fast) == _finish(plain)).all()


@pytest.mark.parametrize("name", [LERP, "SprayLERP", "RoCEv2+PFC"])
def test_threads_change_nothing(name: str) -> None:
    topo = "leaf-spine:leaves=8,spines=2,hosts=2"
    one, two = (_run("ring:bytes=5e7", "0.02", topo=topo, threads=count, scheme=name) for count in (1, 2))
    assert two.threads == 2
    assert one.skipped == two.skipped > 0
    assert (_finish(one) == _finish(two)).all()


def test_failure_in_the_midst_of_a_jump() -> None:
    """The flows of the link stand still until routes lead around it, then all is delivered."""
    fail = {"fail": ("s0-s2@3ms",), "reroute_after": "1ms"}
    full, fast = (_run("permutation:bytes=5e7", error, **fail) for error in (None, "0.02"))
    assert fast.ended_by == "delivered"
    assert fast.skipped > 0
    assert (fast.counts.delivered == full.counts.delivered).all()
    assert abs(fast.end_ps / full.end_ps - 1) < 0.1


def test_rates_of_a_time_with_others_are_not_kept() -> None:
    """Just after the failure answers of many share a link; a ring is as fast as its slowest connection."""
    fail = {"fail": ("s0-s4@9ms",), "reroute_after": "1ms"}
    topo = "leaf-spine:leaves=4,spines=4,hosts=4"
    full, fast = (_run("ring:bytes=4e8", error, topo=topo, **fail) for error in (None, "0.02"))
    assert abs(fast.end_ps / full.end_ps - 1) < 0.01


def test_message_does_not_wait_for_a_jump_of_the_next_one() -> None:
    """A look after the failure finds a ring's connection whose last packets of a message are still in flight, while it
    sends the next message already: the ring must not wait for the end of that one."""
    fail = {"fail": ("s0-s2@4ms",), "reroute_after": "500us"}
    full, fast = (_run("ring:bytes=2e8", error, **fail) for error in (None, "0.02"))
    assert fast.skipped > 0.5 * full.counts.packets.sum()
    assert abs(fast.end_ps / full.end_ps - 1) < 0.01


def test_documents_say_what_was_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--fast` they are what they were."""
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs:\n- {name: ring, collective: ring-all-reduce, hosts: h0-h7, bytes: 20000000}\n")
    commands = {
        "sim": ["--workload", str(jobs), "--scheme", LERP],
        "place": [str(jobs), "--run", "--scheme", "ecmp,placed"],
    }
    for name, options in commands.items():
        found = {}
        for fast in ("", "--fast=0", "--fast"):
            assert main([name, *options, "--topo", FABRIC, "--mtu", "4096", "--json", *fast.split()]) == 0
            document = json.loads(capsys.readouterr().out)
            found[fast] = document["runs"] if name == "place" else [document]
        assert found["--fast=0"] == found[""]
        assert not any("fast" in run for run in found[""])
        for run in found["--fast"]:
            assert list(run).index("fast") > list(run).index("ended_by")
            assert run["fast"]["error"] == 0.02
            assert run["fast"]["skipped_packets"] > 0


def test_recovery_is_that_of_the_full_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Connections that are suspended are not taken for silent ones."""
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs:\n- {name: ring, collective: ring-all-reduce, hosts: h0-h7, bytes: 80000000}\n")
    options = ["--topo", FABRIC, "--run", "--scheme", "ecmp", "--mtu", "4096", "--at", "3ms", "fail:s0-s2", "--json"]
    runs = []
    for fast in ("0", "0.02"):
        assert main(["place", str(jobs), *options, f"--fast={fast}"]) == 0
        runs += json.loads(capsys.readouterr().out)["runs"]
    assert runs[1]["fast"]["skipped_packets"] > 0
    assert runs[0]["recover_us"] > 1000  # the controller takes so long
    assert abs(runs[1]["recover_us"] / runs[0]["recover_us"] - 1) < 0.1


def test_links_are_sampled_as_in_full() -> None:
    """Samples that are far apart from the beginning are at the times that are left of many."""
    full, fast = (_run("ring:bytes=5e7", error).links.times_ps for error in (None, "0.02"))
    both = min(len(full), len(fast)) - 1  # the last one is at the end of the run
    assert both >= 256
    assert (fast[:both] == full[:both]).all()


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--scheme", "Benchmark"], "the routing valiant or minimal"),
        (["--scheme", "RoCEv2+PFC"], "there is no scheme"),
        (["--scheme", "TelemetryLERP"], "paths that do not change"),
        (["--scheme", LERP, "--cc", "cubic"], "the congestion control dctcp, dcqcn or fixed"),
        (["--scheme", LERP, "--loss", "0.01"], "leave out --loss"),
        (["--scheme", LERP, "--trace", ""], "show every packet: leave out --fast"),
        (["--scheme", LERP, "--fast", "2"], "a fraction from 0 to 1"),
    ],
)
def test_what_cannot_be_skipped_is_refused(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--topo", FABRIC, "--workload", "ring:bytes=1e6", "--fast=0.02", *options]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_connections_with_one_message_each_are_skipped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep queue pairs that they would share in a full run."""
    plain = _run("permutation:bytes=2e7", "0.02")
    monkeypatch.setattr("detour.fabric.traffic.tasks._MOST_KEPT", 4)
    fast = _run("permutation:bytes=2e7", "0.02")
    assert fast.skipped == plain.skipped > 0.5 * fast.counts.packets.sum()
    assert (_finish(fast) == _finish(plain)).all()


def test_planes_are_refused() -> None:
    with pytest.raises(DetourError, match="one port"):
        _run("ring:bytes=1e6", "0.02", topo="clos:planes=2,leaves=2,spines=2,hosts=2")


# -- partitions and the test --------------------------------------------------------------------------------


_partitions, _steadiness, _memory = FromPython(partitions), FromPython(steadiness), FromPython(memory)
_carried = FromPython(carried)


_KEPT = 4 * HALF


class _Tables:
    """Connections over links, as native code has them."""

    def __init__(self, *paths: tuple[int, ...], error: float = 0.02) -> None:
        count, hops = len(paths), [link for path in paths for link in path]
        self._kept = {
            "flows": np.zeros(count, Flow.dtype), "hops": np.zeros(len(hops), Hop.dtype),
            "links": np.zeros(1 + max(hops), Link.dtype), "parts": np.zeros(count, Partition.dtype),
            "looks": np.zeros(_KEPT * count, Look.dtype), "memories": np.zeros(MEMORIES * count, Memory.dtype),
            "contexts": np.zeros(CONTEXTS * count, Context.dtype),
        }  # fmt: skip
        self.links = self._kept["links"]
        self.flows, self.parts = self._kept["flows"], self._kept["parts"]
        self.looks = self._kept["looks"].reshape(_KEPT, count)
        self._kept["hops"]["channel"], self._kept["hops"]["share"] = hops, 1
        self.flows["key"] = 1 << np.arange(count)
        self._kept["links"]["part"] = self.flows["part"] = NONE
        self.flows["data_hops"] = self.flows["hops"] = [len(path) for path in paths]
        self.flows["first_hop"] = np.cumsum([0, *map(len, paths)])[:-1]
        self._state = np.zeros(1, State.dtype)
        self.state, self.address = self._state[0], self._state.ctypes.data
        self.state["count"], self.state["error"] = count, error
        self.state["half"], self.state["depth"] = HALF, _KEPT
        for name, table in self._kept.items():
            self.state[name] = table.ctypes.data

    def run_to(self, look: int, sent: float, flying: float = 30.0) -> None:
        """Looks 8 us apart go by, in each of which every connection sends so many packets, with others in flight."""
        for k in range(int(self.state["look"]) + 1, look + 1):
            before, now = self.looks[(k - 1) % _KEPT], self.looks[k % _KEPT]
            now["at"], self.state["look"] = 8_000_000 * k, k
            now["acked"], now["flying"] = before["acked"] + sent, before["flying"] + flying

    def members(self) -> list[list[int]]:
        """The connections of each partition that is awake."""
        found = []
        for part in self.parts[self.parts["state"] == AWAKE]:
            members, flow = [], int(part["first"])
            while flow != NONE:
                members.append(flow)
                flow = int(self.flows["next"][flow])
            assert len(members) == part["flows"]
            found.append(sorted(members))
        return sorted(found)

    def since(self, flow: int) -> int:
        return int(self.parts["since"][self.flows["part"][flow]])


def test_partitions_share_no_link() -> None:
    tables = _Tables((0, 1), (2, 3), (1, 2), (9,))
    for look, flow in ((0, 0), (1, 1), (3, 3)):
        tables.state["look"] = look
        _partitions.begin(tables.state, flow)
    assert tables.members() == [[0], [1], [3]]
    tables.state["look"] = 5
    _partitions.begin(tables.state, 2)
    assert tables.members() == [[0, 1, 2], [3]]
    assert [tables.since(flow) for flow in (0, 1, 2, 3)] == [5, 5, 5, 3]
    tables.state["look"] = 7
    _partitions.end(tables.state, 2)
    assert tables.members() == [[0], [1], [3]]
    assert [tables.since(flow) for flow in (0, 1, 3)] == [7, 7, 3]
    assert tables.flows["part"][2] == NONE
    assert tables.state["awake"] == 3


@pytest.mark.parametrize(
    ("sent", "flying", "steady"),
    [
        (lambda k: 100 * k, lambda k: 40, True),
        (lambda k: 100 * k + 20 * np.sin(k * np.pi / 2), lambda k: 40 + 10 * np.sin(k * np.pi / 2), True),  # swings
        (lambda k: 100 * k + 0.5 * k * k, lambda k: 40, False),  # gets faster
        (lambda k: 100 * k, lambda k: 40 + 2 * k, False),  # a queue grows
        (lambda k: 100 * min(k, HALF), lambda k: 40, False),  # stands still
    ],
)
def test_drift_and_swings(sent: Callable[[int], float], flying: Callable[[int], float], steady: bool) -> None:
    tables = _Tables((0,), (0,))
    tables.state["every_ps"] = 8_000_000
    for flow in range(2):
        _partitions.begin(tables.state, flow)
    for k in range(2 * HALF + 1):
        tables.looks[k]["at"] = 8_000_000 * k
        tables.looks[k]["acked"], tables.looks[k]["flying"] = sent(k), tables.looks[k - 1]["flying"] + flying(k)
        tables.state["look"] = k
    assert _steadiness.is_steady(tables.state, 0) == steady
    tables.parts["since"] += 1
    assert not _steadiness.is_steady(tables.state, 0)  # too early


def test_connections_with_one_bottleneck_have_equal_rates() -> None:
    """Two of three share a link of 100 Gb/s that is full; the third has one of its own that is not."""
    tables = _Tables((0, 3), (1, 3), (2,))
    tables.links["rate_bps"] = 100_000_000_000
    tables.state["wire"], tables.state["every_ps"] = 1000, 8_000_000
    for flow in range(3):
        _partitions.begin(tables.state, flow)
    for k in range(2 * HALF + 1):
        tables.looks[k]["acked"] = 45 * k, 55 * k, 20 * k
        tables.looks[k]["at"] = 8_000_000 * k
        tables.state["look"] = k
    for flow in (0, 2):
        assert _steadiness.find_rates(tables.state, int(tables.flows["part"][flow])) == MAX_TIME
    assert tables.flows["rate"] * 8_000_000 == pytest.approx([50, 50, 20])


def test_means_of_a_long_time_count_where_connections_are_not_alike() -> None:
    """One of two at a full link has another full link besides: nothing is known for some milliseconds."""
    tables = _Tables((0,), (0, 1))
    tables.links["rate_bps"] = 100_000_000_000, 40_000_000_000
    tables.state["wire"], tables.state["every_ps"] = 1000, 8_000_000
    for flow in range(2):
        _partitions.begin(tables.state, flow)
    part, counts = int(tables.flows["part"][0]), []
    for k in range(600):
        tables.looks[k % _KEPT]["acked"] = 60 * k, 40 * k
        tables.looks[k % _KEPT]["at"] = 8_000_000 * k
        tables.state["look"] = k
        if k >= 2 * HALF:
            counts.append(_steadiness.find_rates(tables.state, part))
    first = next(k for k, one in enumerate(counts) if one > 0)
    assert counts[first] == 8 * 256 * 8_000_000
    assert set(counts[:first]) == {-1}
    assert first == 2 * 256
    assert tables.flows["rate"] * 8_000_000 == pytest.approx([60, 40])


@pytest.mark.parametrize(("swap", "first", "rates"), [(True, 2 * 128, (50, 50)), (False, 2 * 256, (54, 46))])
def test_connections_that_spray_and_differ_by_chance_have_the_mean(
    swap: bool, first: int, rates: tuple[int, int]
) -> None:
    """Which of two is the faster one changes from half to half; if it does not, means of a long time count."""
    tables = _Tables((0,), (0, 1))
    tables.flows["sprays"] = 1
    tables.links["rate_bps"] = 100_000_000_000, 40_000_000_000
    tables.state["wire"], tables.state["every_ps"] = 1000, 8_000_000
    for flow in range(2):
        _partitions.begin(tables.state, flow)
    part, acked, counts = int(tables.flows["part"][0]), np.zeros(2), -1
    begin = 2 * HALF
    for k in range(begin + first + 1):
        tables.looks[k % _KEPT]["acked"], tables.looks[k % _KEPT]["at"] = acked, 8_000_000 * k
        tables.state["look"] = k
        if k >= begin:
            assert counts == -1
            counts = int(_steadiness.find_rates(tables.state, part))
        acked += (46, 54) if swap and (k - begin) // 128 % 2 else (54, 46)
    assert counts == 8 * first // (1 if swap else 2) * 8_000_000
    assert tables.flows["rate"] * 8_000_000 == pytest.approx(rates)
    assert tables.parts["by_chance"][part] == swap


@pytest.mark.parametrize(("weighted", "counts_ps"), [(0, MAX_TIME), (1, -1)])
def test_connections_whose_paths_have_weights_are_seldom_alike(weighted: int, counts_ps: int) -> None:
    """Two share a link; 3 % is between what they have of links."""
    tables = _Tables((0, 2), (1, 2))
    tables.flows["sprays"], tables.flows["weighted"] = 1, weighted
    tables._kept["hops"]["share"][2] = 1.05
    tables.links["rate_bps"] = 100_000_000_000
    tables.state["wire"], tables.state["every_ps"] = 1000, 8_000_000
    for flow in range(2):
        _partitions.begin(tables.state, flow)
    for k in range(2 * HALF + 1):
        tables.looks[k]["acked"], tables.looks[k]["at"] = (52 * k, 48 * k), 8_000_000 * k
        tables.state["look"] = k
    assert _steadiness.find_rates(tables.state, int(tables.flows["part"][0])) == counts_ps


def test_senders_with_a_rate_go_on_with_their_last_shares() -> None:
    """Shares drift while the sum stays what it is."""
    tables = _Tables((0,), (0,))
    tables.links["rate_bps"] = 100_000_000_000
    tables.state["wire"], tables.state["every_ps"], tables.state["paced"] = 1000, 8_000_000, 1
    for flow in range(2):
        _partitions.begin(tables.state, flow)
    acked = np.zeros(2)
    for k in range(2 * HALF + 1):
        tables.looks[k]["acked"], tables.looks[k]["at"], tables.state["look"] = acked, 8_000_000 * k, k
        acked += (60, 40) if k < HALF else (52, 48)
    assert _steadiness.find_rates(tables.state, int(tables.flows["part"][0])) > 0
    assert tables.flows["rate"] * 8_000_000 == pytest.approx([52, 48])


# -- what is remembered -------------------------------------------------------------------------------------


_BEFORE_PS = 5 * 10**9


def _remembering(*paths: tuple[int, ...], counts_ps: int = MAX_TIME) -> _Tables:
    """Connections that had 12 packets a look when they were a partition."""
    tables = _Tables(*paths)
    tables.state["every_ps"], tables.state["half"] = 8_000_000, HALF
    for flow in range(len(paths)):
        _partitions.begin(tables.state, flow)
    tables.run_to(2 * HALF, 12)
    _keep(tables, 12, counts_ps=counts_ps)
    _keep(tables, 12, counts_ps=counts_ps)
    tables.flows["rate"] = 0
    return tables


def _keep(tables: _Tables, *rates: float, counts_ps: int = MAX_TIME) -> None:
    """Rates are found, packets a look."""
    tables.flows["rate"] = np.array(rates) / 8e6
    _memory.keep(tables.state, int(tables.flows["part"][0]), counts_ps)


def _recall(tables: _Tables) -> int:
    """What the partition of the first connection may count on."""
    return int(_memory.recall(tables.state, int(tables.flows["part"][0])))


def _form_again(tables: _Tables, *flows: int) -> None:
    for flow in np.flatnonzero(tables.flows["part"] != NONE).tolist():
        _partitions.end(tables.state, flow)
    for flow in flows:
        _partitions.begin(tables.state, flow)


def test_partition_with_the_same_connections_has_the_rates_that_it_had() -> None:
    """In any order."""
    tables = _remembering((0,), (0,))
    tables.run_to(40, 3)  # it begins
    _form_again(tables, 1, 0)
    assert _recall(tables) == -1
    tables.run_to(43, 12)
    assert _recall(tables) == -1  # too early
    tables.run_to(44, 12)
    assert _recall(tables) == MAX_TIME
    assert tables.flows["rate"] * 8e6 == pytest.approx([12, 12])


@pytest.mark.parametrize(
    ("sent", "flying", "same"), [(12, 32, True), (12.5, 30, False), (11.5, 30, False), (12, 45, False)]
)
def test_partition_that_is_not_as_it_was(sent: float, flying: float, same: bool) -> None:
    """Answers of others on its links make 2 %: rates of a time in which they were there are not those of another."""
    tables = _remembering((0,), (0,))
    _form_again(tables, 0, 1)
    for k in range(1, 5):
        tables.run_to(2 * HALF + k, round(sent * k) - round(sent * (k - 1)), flying)
    assert (_recall(tables) > 0) == same


def test_other_connections_and_losses_are_nothing_that_was_there() -> None:
    tables = _remembering((0,), (0,), (0,))
    _form_again(tables, 0, 1)
    tables.run_to(2 * HALF + 4, 12)
    assert _recall(tables) == -1
    _form_again(tables, 0, 1, 2)
    tables.run_to(2 * HALF + 8, 12)
    assert _recall(tables) > 0
    tables.looks["trouble"][tables.state["look"] % _KEPT, 1] = 1
    assert _recall(tables) == -1


def test_rates_of_a_long_time_count_for_a_multiple_of_it() -> None:
    """Found again they count for as much more, and are means."""
    tables = _remembering((0,), (0,), counts_ps=_BEFORE_PS)
    tables.run_to(2 * HALF + 4, 12)
    _memory.spend(tables.state, int(tables.flows["part"][0]), 2 * _BEFORE_PS - 1)
    assert _recall(tables) == 1
    _keep(tables, 9, 15, counts_ps=_BEFORE_PS)
    assert _recall(tables) == 3 * _BEFORE_PS
    assert tables.flows["rate"] * 8e6 == pytest.approx([11, 13])
    _keep(tables, 11, 11)  # another sum: what was is nothing to average with
    assert tables.flows["rate"] * 8e6 == pytest.approx([11, 11])
    tables.run_to(2 * HALF + 8, 11)
    assert _recall(tables) == -1  # found once only
    _keep(tables, 11, 11)
    assert _recall(tables) == MAX_TIME


@pytest.mark.parametrize(("again", "counts_ps"), [(12, MAX_TIME), (14, -1)])
def test_means_of_connections_that_differ_by_chance_count_for_good_when_found_twice(again: int, counts_ps: int) -> None:
    """Another sum has been found once."""
    tables = _remembering((0,), (0,), counts_ps=_BEFORE_PS)
    tables.run_to(2 * HALF + 4, 12)
    assert _recall(tables) == 2 * _BEFORE_PS
    tables.parts["by_chance"] = 1
    _keep(tables, again, again, counts_ps=_BEFORE_PS)
    tables.run_to(2 * HALF + 8, again)
    assert _recall(tables) == counts_ps


def test_as_many_partitions_are_remembered_as_there_is_room_for() -> None:
    """The oldest is forgotten; and all are when links change."""
    tables = _Tables(*[(0,)] * (MEMORIES + 2))
    tables.state["every_ps"] = 8_000_000
    found = []
    for again in range(2):
        for other in range(1, MEMORIES + 2):
            _form_again(tables, 0, other)
            tables.run_to(int(tables.state["look"]) + 2 * HALF, 12)
            if again:
                found.append(_recall(tables) > 0)
            else:
                _keep(tables, 12)
                _keep(tables, 12)
    assert found == [False] + [True] * MEMORIES
    FromPython(looks).dissolve_all(tables.address)
    tables.flows["first_hop"] = np.arange(MEMORIES + 2)
    _form_again(tables, 0, 2)
    tables.run_to(int(tables.state["look"]) + 2 * HALF, 12)
    assert _recall(tables) == -1


def _carry(tables: _Tables, looks: int, sent: float) -> int:
    """What the partition of the first connection may count on after some looks."""
    counts = -1
    for _ in range(looks):
        tables.run_to(int(tables.state["look"]) + 1, sent)
        counts = int(_carried.take(tables.state, int(tables.flows["part"][0])))
    return counts


def _learnt(differs: int = 1) -> _Tables:
    """Three connections on a link that spray, and have sent 100 packets a look for 12 ms; then two of them do."""
    tables = _Tables((0,), (0,), (0,))
    tables.state["every_ps"], tables.flows["sprays"], tables.flows["differs"] = 8_000_000, 1, differs
    _form_again(tables, 0, 1, 2)
    assert _carry(tables, 1539, 100) == -1
    assert (_carry(tables, 1, 100) == MAX_TIME) == bool(differs)
    _form_again(tables, 0, 1)
    return tables


def test_connections_that_differ_carry_the_rates_that_they_had_with_the_same_others() -> None:
    """With fewer others they send 50 packets more, which takes 16 looks to be known: it is far from the mean."""
    tables = _learnt()
    assert _carry(tables, 4 + 15, 150) == -1
    assert _carry(tables, 1, 150) == MAX_TIME
    assert tables.flows["rate"][:2] * 8e6 == pytest.approx([150, 150])
    _form_again(tables, 2, 1, 0)
    assert _carry(tables, 4, 100) == -1  # too early
    assert _carry(tables, 1, 100) == MAX_TIME
    assert tables.flows["rate"] * 8e6 == pytest.approx([100, 100, 100])
    tables.looks["trouble"][tables.state["look"] % _KEPT, 1] = 1
    assert int(_carried.take(tables.state, int(tables.flows["part"][0]))) == -1


def test_what_connections_know_little_of_is_averaged_with_their_mean_if_it_is_near() -> None:
    """Four looks count as much as they are beside sixteen of the mean."""
    tables = _learnt()
    assert _carry(tables, 4 + 3, 109) == -1
    assert _carry(tables, 1, 109) == MAX_TIME
    assert tables.flows["rate"][:2] * 8e6 == pytest.approx(2 * [(436 + 1600) / 20])


def test_connections_that_do_not_differ_or_whose_links_change_carry_nothing() -> None:
    assert _carry(_learnt(differs=0), 40, 100) == -1
    tables = _learnt()
    FromPython(looks).dissolve_all(tables.address)
    tables.flows["first_hop"] = np.arange(3)
    assert not tables.flows["differs"].any()
    tables.flows["differs"] = 1
    _form_again(tables, 0, 1, 2)
    assert _carry(tables, 40, 100) == -1


def test_nothing_is_remembered_of_senders_with_a_rate() -> None:
    tables = _remembering((0,), (0,))
    _form_again(tables, 0)
    tables.run_to(4 * HALF, 12)
    for paced in (1, 0):
        tables.state["paced"] = paced
        _keep(tables, 12)
        _keep(tables, 12)
        assert (_recall(tables) == -1) == bool(paced)
