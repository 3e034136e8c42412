# SPDX-License-Identifier: Apache-2.0
"""`bench sim`, `growth` and `parallel` on small networks, and the page that `bench all` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from detour.base.errors import DetourError
from detour.cli import bench, main
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.experiments.bench import gray, growth, parallel, sai, sim
from detour.experiments.bench.durations import DURATIONS, about
from detour.experiments.bench.report import BenchReport, Goal, write
from detour.experiments.sweep import apart
from detour.topo import parse_topology
from tests.property.plans import SPRAYS, STAYS


def test_a_derangement_sends_nobody_to_itself() -> None:
    pairs = sim.derangement(16, 3)
    assert sorted(target for _, target in pairs) == list(range(16))
    assert all(host != target for host, target in pairs)
    assert pairs == sim.derangement(16, 3)


def test_the_reference_delivers_and_repeats_itself() -> None:
    first, again = (sim.permutation(4, 100_000) for _ in range(2))
    packets = 16 * -(-100_000 // 4096)
    # Every packet and its ACK arrive at one to five switches and at a host.
    assert 4 * packets <= first.hops <= 12 * packets + 12 * first.retransmitted
    assert (first.hops, first.events, first.virtual_ps) == (again.hops, again.events, again.virtual_ps)
    assert first.virtual_ps > 100_000 * 8 * 10


@pytest.mark.long
def test_memory_is_that_of_a_process_in_which_all_send() -> None:
    peak, delivered = apart(sim.hold, 200)
    assert delivered == 200
    assert peak > 100 << 20


def test_report_of_bench_sim() -> None:
    speeds = [sim.Speed(16, 20, 3_000_000, 4_500_000, seconds, 10**9, 0) for seconds in (1.0, 3.0, 2.0)]
    numbers = sim.report(speeds, 0.5, (3 << 30, 32_768)).numbers
    assert numbers["packet_hops_per_s_between"] == [1e6, 3e6]
    assert numbers["packet_hops_per_s"] == 1.5e6
    assert numbers["events_per_s"] == 2.25e6
    assert numbers["compile_s"] == 0.5
    assert numbers["p4"] is True
    assert numbers["memory_bytes"] == 3 << 30


def test_the_page_says_what_was_missed(tmp_path: Path) -> None:
    goals = (Goal("speed", 2.0, 3.0), Goal("other", None, 1.0, most=True))
    missed = BenchReport("switch", {}, ("bytes", "rate"), (("64", "1,000"),), goals, ("a note",))
    write(tmp_path / "page.md", [missed], 120)
    text = (tmp_path / "page.md").read_text()
    assert "## bench switch" in text
    assert "| 64 | 1,000 |" in text
    assert "| speed at least 3 | 2 | **missed** |" in text
    assert "| other at most 1 | not measured |  |" in text
    assert "a note" in text
    assert "in 2 minutes on" in text


# -- bench transport --gray ----------------------------------------------------------------------------------


def test_all_schemes_with_a_choice_of_paths_are_run() -> None:
    contenders = gray.contenders()
    assert {choice for _, choice in contenders.values()} == {*STAYS, *SPRAYS, "valiant"}
    assert "TelemetryGBN" in contenders
    assert "UGAL-L" not in contenders, "switches choose"


def test_only_these_rows_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    both = {name: pair for name, pair in gray.contenders().items() if name in ("SprayLERP", "PLB")}
    monkeypatch.setattr(gray, "contenders", lambda: both)
    monkeypatch.setattr(gray, "SIZES", (100_000,))
    monkeypatch.setattr(gray, "GRAY_SEEDS", (1,))
    main(["bench", "transport", "--gray", "--json"])
    numbers = json.loads(capsys.readouterr().out)
    assert set(numbers) == {"gray"}
    assert [(row["scheme"], row["kind"]) for row in numbers["gray"]] == [(s, k) for s in both for k in gray.LOSS_KINDS]
    for row in numbers["gray"]:
        assert set(row) == {"scheme", "kind", "failed", "runs", "worst_gap_rtt"}
        assert (row["failed"], row["runs"]) == (0, 4)


# -- bench growth --------------------------------------------------------------------------------------------


KEYS = ["topology", "hosts", "switches", "boot_s", "verify_s", "run_s", "peak_mib", "ns_per_packet_hop"]


def test_rows_are_in_order_of_size_and_say_what_was_measured(tmp_path: Path) -> None:
    report = growth.run(hosts=(342, 72), message=20_000, plot=tmp_path / "growth.svg")
    assert "hosts" in (tmp_path / "growth.svg").read_text()
    numbers: Any = report.numbers
    rows = numbers["rows"]
    assert [list(row) for row in rows] == [KEYS, KEYS]
    assert [(row["topology"], row["hosts"], row["switches"]) for row in rows] == [("d1", 72, 36), ("d2", 342, 114)]
    assert all(value > 0 for row in rows for name, value in row.items() if name != "topology")
    assert 100 < rows[0]["peak_mib"] < rows[1]["peak_mib"] < 1000
    assert len(report.rows) == 2
    assert not report.goals  # they are for the large ones


def test_the_command_prints_them(run_json: Callable[..., Any]) -> None:
    numbers = run_json("bench", "growth", "--hosts", "72", "--message", "1000")
    assert [row["hosts"] for row in numbers["rows"]] == [72]


@pytest.mark.long
def test_d3_takes_less_than_a_gibibyte() -> None:
    (row,) = cast("Any", growth.run(hosts=(1056,)).numbers)["rows"]
    assert row["switches"] == 264
    assert row["peak_mib"] < 1024


def test_sizes_are_those_of_topologies() -> None:
    with pytest.raises(DetourError, match="no topology has 73 hosts; there are 72, 342, 1056, 8192, 16512"):
        growth.run(hosts=(73,))
    for hosts, spec in growth.TOPOLOGIES.items():
        if hosts < 8000:
            assert len(parse_topology(spec).hosts) == hosts


# -- bench parallel ------------------------------------------------------------------------------------------


def test_threads_and_critical_path(tmp_path: Path) -> None:
    plot = tmp_path / "threads.svg"
    report = parallel.run(k=4, message=50_000, turns=1, loads=(parallel.PERMUTATION, parallel.SHORT_CABLE), plot=plot)
    assert "speed-up" in plot.read_text()
    numbers: Any = report.numbers
    assert numbers["identical"] is True
    rows = [row for row in numbers["threads"] if row["workload"] == parallel.PERMUTATION]
    assert [row["threads"] for row in rows[:2]] == [1, 2]
    assert all(row["seconds"] > 0 and row["speedup"] > 0 for row in rows)
    assert rows[0]["waiting_fraction"] == 0 < rows[1]["waiting_fraction"] < 1
    path = numbers["critical_path"]
    assert [row["workers"] for row in path] == [2, 4, 8, 16, 64]
    speedups = [row["speedup"] for row in path]
    assert 1 < speedups[0] <= 2
    assert speedups == sorted(speedups)
    assert speedups[-1] <= path[0]["limit"] + 1e-9


# -- bench sai -----------------------------------------------------------------------------------------------


def test_a_router_of_the_shape_of_sai_p4(run_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """In process; BMv2 needs interfaces."""
    monkeypatch.setattr("detour.experiments.bench.namespace.unavailable", lambda: "not here")
    numbers = run_json("bench", "sai", "--seconds", "0.05")
    assert list(numbers) == ["packets_per_s", "bmv2_packets_per_s", "ratio"]
    assert numbers["packets_per_s"] > 10_000
    assert numbers["bmv2_packets_per_s"] is numbers["ratio"] is None


def test_its_packets_are_forwarded_and_a_64th_is_mirrored() -> None:
    left: dict[int, int] = dict.fromkeys(sai.SAI_PORTS, 0)
    sent = sai.frames()[:1024]
    with Network(Virtual()) as network:
        network.add_switch(1)
        for port in left:

            def take(frame: bytes, at: int, port: int = port) -> None:
                left[port] += 1

            network.attach_sink((1, port), take)
        with P4RuntimeServer(network) as server:
            server.add_device(1)
            sai.program_switch(server.target)
        for number, frame in enumerate(sent):
            network.inject((1, 1), frame, 1 + number * 1_000_000)
        network.run(2_000_000_000)
    assert left.pop(sai.SAI_PORTS[-1]) == 16
    assert left.pop(1) == 0
    assert sum(left.values()) == 1024
    assert min(left.values()) > 100


# -- how long they take ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(bench._BENCHMARKS) - {"all"}))
def test_no_benchmark_takes_more_than_three_minutes_by_default(name: str) -> None:
    parts = bench._PARTS.get(name, (name,))
    assert 0 < sum(bench._expected_s(part, {}) for part in parts) <= 180


def test_the_expected_time_follows_the_parameters() -> None:
    fixed, thrice = DURATIONS["tables"].fixed, bench._expected_s("tables", {"seconds": 1.5})
    assert thrice - fixed == pytest.approx(3 * (bench._expected_s("tables", {}) - fixed))
    assert bench._expected_s("growth", {"hosts": [16_512]}) > bench._expected_s("growth", {})
    assert bench._expected_s("ai-fabric", {"scheme": "ecmp"}) < bench._expected_s("ai-fabric", {}) / 4


def test_a_benchmark_says_how_long_it_takes_and_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    bench._with_share(told.append, 1e6)("a table")
    bench._with_share(told.append, 1e-9)("a table")
    assert told == ["0%, a table", "99%, a table"]
    assert main(["bench", "tables", "--entries", "10", "--seconds", "0.01"]) == 0
    assert capsys.readouterr().err.startswith("detour: bench tables takes about 5 s\n")
    assert [about(seconds) for seconds in (1, 42, 100, 1234)] == ["5 s", "40 s", "2 minutes", "21 minutes"]
