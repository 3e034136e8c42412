# SPDX-License-Identifier: Apache-2.0
"""`bench sim` on a small fat-tree, and the page that `bench all` writes."""

from __future__ import annotations

from pathlib import Path

from detour.experiments.bench import sim
from detour.experiments.bench.report import BenchReport, Goal, write


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


def test_memory_is_that_of_a_process_in_which_all_send() -> None:
    peak, delivered = sim.memory(connections=200)
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
