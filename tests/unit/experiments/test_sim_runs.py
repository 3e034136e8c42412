# SPDX-License-Identifier: Apache-2.0
"""`detour sim`: runs that are known to the picosecond, bytes that are all accounted for, and results as files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.base.times import US
from detour.control.policy import NoMarking
from detour.experiments.sim import figures, report
from detour.experiments.sim.patterns import NAMED_WORKLOADS
from detour.experiments.sim.results import by_size, result_of
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions, settings_of
from detour.experiments.sim.workloads import open_workload, workload_of_rows
from detour.fabric.backends.virtual.scheme import Scheme
from detour.topo import Topology, parse_topology

LEAF_SPINE = parse_topology("leaf-spine:leaves=2,spines=2,hosts=4")
D1 = parse_topology("d1")
RATE = 100_000_000_000


def simulated(workload: str, topology: Topology = LEAF_SPINE, name: str = "LERP-shortest", **options: object) -> SimRun:
    chosen = settings_of(topology, SimOptions(scheme=name, **options))  # type: ignore[arg-type]
    return run_workload(topology, open_workload(workload, topology, chosen.links.rate_bps, chosen.seed), chosen)


@pytest.mark.parametrize("size", ["1", "4096", "4097", "200k"])
def test_a_flow_alone_has_no_slowdown_with_packets_of_another_size(size: str) -> None:
    run = simulated(f"incast:senders=1,bytes={size}", jitter="0", mtu="4096")
    assert run.tasks.flow_completion_ps().tolist() == run.ideal.task_ps.tolist()
    assert run.counts.packets.sum() == -(-int(run.graph.tasks["bytes"][0]) // 4096)


def test_headroom_holds_packets_of_another_size() -> None:
    """With that of packets of 1,000 bytes 32 of these were lost behind pauses."""
    topology = parse_topology("leaf-spine:leaves=2,spines=1,hosts=16")
    chosen = settings_of(topology, SimOptions(jitter="0", mtu="4096"))
    pausing = Scheme("paused", "lerp", "fixed", "shortest", NoMarking(), pfc=True, hosts=chosen.scheme.hosts)
    workload = open_workload("incast:bytes=1e6", topology, RATE, 1)
    run = run_workload(topology, workload, replace(chosen, scheme=pausing))
    assert (run.drops, run.ended_by) == (0, "delivered")


@pytest.mark.parametrize("name", ["LERP-shortest", "SprayLERP", "FlowBender", "TelemetryGBN"])
@pytest.mark.parametrize("size", ["1", "1000", "1001", "200k"])
def test_a_flow_alone_has_no_slowdown(name: str, size: str) -> None:
    """The ideal is that of an empty fabric, which this is. Probes take a little of the link (TelemetryGBN); where every
    packet has a path of its own, the last, short one need not wait for the one before at every switch (SprayLERP)."""
    run = simulated(f"incast:senders=1,bytes={size}", name=name, jitter="0")
    taken, ideal = run.tasks.flow_completion_ps(), run.ideal.task_ps
    if name == "TelemetryGBN":
        assert ideal[0] <= taken[0] <= ideal[0] * 1.01
    elif name == "SprayLERP":
        packet = 1102 * 8 * 10
        assert ideal[0] - packet <= taken[0] <= ideal[0]
    else:
        assert taken.tolist() == ideal.tolist()


def test_a_known_run() -> None:
    """Two flows over one link of 100 Gb/s: 1000 packets of 1102 bytes, 88.16 ns each, from each of two senders."""
    run = simulated("incast:senders=2,bytes=1e6,seed=3")
    result = result_of(run)
    assert (result.flows, result.completed, result.bytes, result.delivered_bytes) == (2, 2, 2_000_000, 2_000_000)
    assert result.drops == 0
    link = 2000 * 1102 * 8 / 100e9
    assert link < result.seconds < link * 1.1
    assert result.wire_gbps == pytest.approx(2000 * 1102 * 8e-9 / result.seconds, abs=1e-3)
    assert result.slowdown.p50 == pytest.approx(2, abs=0.25)
    assert result.steps == ()


GOLDEN = [
    ("permutation:bytes=1e5,seed=3", LEAF_SPINE, "LERP-shortest", 31_575_946, 22.106, 1.733, []),
    ("adv1:bytes=2e4", D1, "SprayLERP", 12_853_755, 11.23, 1.681, []),
    ("ring:bytes=8e4,iterations=2,compute=5us", LEAF_SPINE, "SprayLERP", 113_843_507, 3.692, 1.054, [58.098, 58.387]),
]
"""what these runs were; a change of any of these numbers is a change of switches, hosts or planners"""


@pytest.mark.parametrize(("workload", "topology", "name", "end_ps", "mean", "slowdown", "steps"), GOLDEN)
def test_runs_are_what_they_were(
    workload: str, topology: Topology, name: str, end_ps: int, mean: float, slowdown: float, steps: list[float]
) -> None:
    run = simulated(workload, topology, name)
    result = result_of(run)
    assert run.end_ps == end_ps
    assert (result.fct_us.mean, result.slowdown.mean) == (mean, slowdown)
    assert [step.us for step in result.steps] == steps


def test_the_same_seed_gives_the_same_bytes() -> None:
    options: dict[str, Any] = {"loss": "0.002", "seed": "5"}
    one, two = (as_json(result_of(simulated("permutation:bytes=100k", **options))) for _ in range(2))
    assert one == two
    other = as_json(result_of(simulated("permutation:bytes=100k", loss="0.002", seed="6")))
    assert other != one
    assert one["drops"] > 0


def test_keys_of_the_document_are_the_contract() -> None:
    result = as_json(result_of(simulated("permutation:bytes=10k")))
    keys = "flows completed bytes delivered_bytes fct_us slowdown steps wire_gbps drops seconds"
    keys += " ended_by incomplete virtual_s"
    assert list(result) == keys.split()
    assert list(result["fct_us"]) == list(result["slowdown"]) == ["mean", "p50", "p95", "p99", "p999"]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    loss=st.sampled_from(["0", "0.001", "0.02"]),
    buffer=st.sampled_from(["4k", "375k"]),
    duration=st.sampled_from(["7us", "60us", "5ms"]),
    seed=st.integers(0, 100),
)
def test_every_byte_is_delivered_or_missing(loss: str, buffer: str, duration: str, seed: int) -> None:
    """Whatever is lost, however early the run ends: nothing is delivered that was not sent, nothing twice, and a flow
    is complete only if all of its bytes have arrived."""
    run = simulated("permutation:bytes=50k", loss=loss, buffer=buffer, duration=duration, seed=str(seed))
    result = result_of(run)
    columns = report.flow_columns(run)
    assert result.delivered_bytes == columns["delivered"].sum() <= result.bytes
    assert (columns["delivered"] <= columns["bytes"]).all()
    complete = ~np.isnan(columns["fct_us"])
    assert complete.sum() == result.completed
    assert (columns["delivered"][complete] == columns["bytes"][complete]).all()
    assert (columns["slowdown"][complete] >= 1).all()
    assert result.seconds * 1e6 <= {"7us": 7, "60us": 60, "5ms": 5000}[duration]


def test_a_link_that_fails_is_routed_around() -> None:
    """Both links of a leaf's hosts' only other leaf go by two spines; one of them dies."""
    options = {"fail": ("s0-s2@5us",), "duration": "3ms"}
    quiet = simulated("permutation:bytes=300k,seed=2", name="LERP-shortest", **options)
    mended = simulated("permutation:bytes=300k,seed=2", name="LERP-shortest", reroute_after="50us", **options)
    assert result_of(mended).completed == 8
    assert result_of(mended).drops > 0
    assert result_of(mended).seconds < result_of(quiet).seconds


def test_marks_come_where_ecn_says() -> None:
    early, late = (int(simulated("incast:senders=4,bytes=200k", ecn=ecn).counts.marked.sum()) for ecn in ("10k", "1M"))
    assert early > late == 0
    assert simulated("incast:senders=4,bytes=200k", ecn="off").counts.marked.sum() == 0


def test_rates_and_delays_are_those_that_are_asked_for() -> None:
    fast, slow = (simulated("incast:senders=1,bytes=1e5", rate=rate).end_ps for rate in ("100G", "10G"))
    assert slow == pytest.approx(10 * fast, rel=0.4)
    near, far = (simulated("incast:senders=1,bytes=1", delay=delay).end_ps for delay in ("1us", "100us"))
    hops = round((far - near) / 99e6)
    assert hops in (2, 4)
    assert far - near == hops * 99_000_000


@pytest.mark.parametrize("name", NAMED_WORKLOADS)
def test_every_named_workload_has_flows(name: str) -> None:
    flows = open_workload(name, D1, RATE, 1).graph.tasks
    again = open_workload(name, D1, RATE, 1).graph.tasks
    assert len(flows)
    assert (flows == again).all()
    assert (np.diff(flows["start_ps"]) >= 0).all()


def test_parameters_mean_what_they_say() -> None:
    flows = open_workload("incast:senders=3,receivers=2,bytes=64k,spread=10us,seed=9", D1, RATE, 1).graph.tasks
    assert len(flows) == 6
    assert len(set(flows["destination"].tolist())) == 2
    assert set(flows["bytes"].tolist()) == {64_000}
    assert 0 < flows["start_ps"].max() < 10_000_000
    poisson = open_workload("poisson:load=0.3,time=2ms,sizes=exponential,mean=50k", D1, RATE, 1).graph.tasks
    offered = poisson["bytes"].sum() * 8 / 2e-3 / len(D1.hosts)
    assert offered == pytest.approx(0.3 * RATE, rel=0.1)


WRONG = {
    "storm": "there is no workload 'storm'; allowed: permutation, unf",
    "permutation:size=3": "there is no parameter size; allowed: [bytes=], [seed=], [spread=]",
    "permutation:bytes=0": "bytes: '0' is not a number of bytes",
    "permutation:bytes=1.5": "bytes: '1.5' is not a number of bytes",
    "permutation:seed=-1": "seed: -1 is less than 0",
    "permutation:spread=10": "spread: '10' is not a time",
    "unf:pairs=0": "pairs: 0 is less than 1",
    "unf:pairs=100000": "100000 pairs of unf",
    "incast:senders=72": "incast of 72 senders to each of 1 receivers needs 73 hosts",
    "poisson:load=1.5": "load: '1.5' is not a fraction",
    "poisson:load=0": "load: 0 is not a load",
    "poisson:sizes=nothing": "there is no such file; built in are fixed, exponential, pareto, bimodal",
    "poisson:time=10s": "flows are expected; at most",
    "no/such/file": "no/such/file: No such file or directory",
    "flows.txt": "flows.txt: No such file or directory",
    "tests": "'tests' is a folder",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_workload_is_refused(text: str) -> None:
    with pytest.raises(DetourError) as error:
        open_workload(text, D1, RATE, 1)
    assert WRONG[text] in str(error.value)


def test_a_pattern_of_groups_needs_groups() -> None:
    with pytest.raises(DetourError, match="pattern adv1 needs two groups"):
        open_workload("adv1", LEAF_SPINE, RATE, 1)


WRONG_OPTIONS = {
    "rate": ("fast", "rate: 'fast' is not a rate"),
    "delay": ("5s", "delay: '5s'; expected 1ns to 100ms"),
    "buffer": ("100", "buffer: '100'; a port needs 2204 bytes"),
    "loss": ("1", "loss: '1'; links that lose all carry nothing"),
    "ecn": ("1k,2k", "ecn: '1k,2k' is neither off, nor K"),
    "duration": ("0s", "duration: '0s' is not a time above 0"),
    "reroute_after": ("soon", "reroute-after: 'soon' is not a time"),
    "cc": ("reno", "cc: there is no congestion control 'reno'"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_a_wrong_option_is_named(name: str) -> None:
    value, says = WRONG_OPTIONS[name]
    with pytest.raises(DetourError) as error:
        settings_of(LEAF_SPINE, SimOptions(**{name: value}))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"), [("s0-s2", "has no time"), ("s0-s1@5us", "s0-s1"), ("s0-s2@5", "fail: '5' is not a time")]
)
def test_a_wrong_failure_is_named(text: str, says: str) -> None:
    with pytest.raises(DetourError, match=says):
        settings_of(LEAF_SPINE, SimOptions(fail=(text,)))


def test_files_hold_the_run(tmp_path: Path) -> None:
    run = simulated("poisson:load=0.4,time=20us,mean=20k", name="SprayLERP")
    folder = tmp_path / "out"
    report.write(folder, run)
    document = json.loads((folder / "result.json").read_text())
    result = json.loads(json.dumps(as_json(result_of(run))))
    assert {key: document[key] for key in result} == result
    assert sum(each["flows"] for each in document["by_size"]) == document["flows"] == len(run.graph)
    rows = list(csv.DictReader((folder / "flows.csv").open()))
    assert sum(int(row["delivered"]) for row in rows) == document["delivered_bytes"]
    text = (folder / "report.html").read_text()
    assert text.count("<svg") == 6
    assert "http://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert "<script" not in text
    report.write(tmp_path / "again", run)
    assert (tmp_path / "again" / "report.html").read_text() == text


def test_link_use_adds_up_to_what_was_sent() -> None:
    run = simulated("permutation:bytes=100k")
    series = run.links
    out = [k for k, name in enumerate(series.names) if name.split(" from ")[1].startswith("h")]
    assert len(out) == len(LEAF_SPINE.hosts)
    assert series.sent[-1, out].sum() >= 8 * 100 * 1102
    assert series.use().max() <= 1
    assert (np.diff(series.sent, axis=0) >= 0).all()
    assert run.queues.sum() > 0


def test_runs_without_a_complete_flow_are_shown_as_such(tmp_path: Path) -> None:
    run = simulated("permutation:bytes=1e6", duration="5us")
    result = result_of(run)
    assert (result.completed, result.fct_us.mean, result.slowdown.p999) == (0, None, None)
    assert by_size(run)[0].completed == 0
    figures.draw(tmp_path / "empty.png", run)
    assert (tmp_path / "empty.png").stat().st_size > 1000


def ran(topology: Topology, rows: list[tuple[float, ...]], name: str = "SprayLERP", **options: object) -> SimRun:
    chosen = settings_of(topology, SimOptions(scheme=name, **options))  # type: ignore[arg-type]
    return run_workload(topology, workload_of_rows("rows", rows, topology), chosen)


FAR_APART = [(0, 5, 1000, 0.0), (1, 5, 1000, 1.5)]


def test_a_run_goes_on_until_all_is_delivered() -> None:
    result = result_of(ran(LEAF_SPINE, FAR_APART))
    assert (result.completed, result.ended_by, result.incomplete) == (2, "delivered", 0)
    assert result.virtual_s == result.seconds == pytest.approx(1.5, rel=1e-4)


def test_a_duration_that_cuts_off_flows_says_so() -> None:
    result = result_of(ran(LEAF_SPINE, FAR_APART, duration="1s"))
    assert (result.completed, result.ended_by, result.incomplete, result.virtual_s) == (1, "duration", 1, 1.0)
    assert result_of(ran(LEAF_SPINE, FAR_APART, duration="2s")).ended_by == "delivered"


@pytest.mark.parametrize("name", ["SprayLERP", "TelemetryGBN"])
def test_a_dead_path_is_found_out(name: str) -> None:
    run = ran(LEAF_SPINE, FAR_APART, name, fail=("h1-s0@1s",))
    result = result_of(run)
    assert (result.completed, result.ended_by, result.incomplete) == (1, "stuck", 1)
    assert run.cause == "1 flows were given up: for 500 ms nothing came back"
    assert result.virtual_s < 10


@pytest.mark.parametrize("name", ["SprayLERP", "TelemetryGBN"])
def test_what_waits_for_what_failed_is_found_out(name: str) -> None:
    """Also if a sender asks dead paths for ever."""
    run = simulated("ring:bytes=1e5,ranks=4", name=name, fail=("h1-s0@1us",))
    assert result_of(run).ended_by == "stuck"
    assert str(run.cause).endswith("for the others nothing comes any more")


def test_senders_have_jitter_unless_it_is_0() -> None:
    rows = [(0, 5, 1000, 0.0)]
    ideal = ran(LEAF_SPINE, rows, "LERP-shortest", jitter="0")
    late = ran(LEAF_SPINE, rows, "LERP-shortest")
    much = ran(LEAF_SPINE, rows, "LERP-shortest", jitter="10us")
    at_zero, at_default, at_much = (int(run.tasks.flow_completion_ps()[0]) for run in (ideal, late, much))
    assert at_zero == ideal.ideal.task_ps[0] < at_default < at_zero + 2 * 1102 * 80 < at_much < at_zero + 10 * US
    with pytest.raises(DetourError, match="jitter: '1s'; expected 0 to 100ms"):
        settings_of(LEAF_SPINE, SimOptions(jitter="1s"))


def test_folders_are_checked_before_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, says in ((tmp_path / "a" / "b", f"there is no folder {tmp_path / 'a'}"), (tmp_path / "file", "a file")):
        with pytest.raises(DetourError, match=says):
            report.check_folder(folder)
    report.check_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(DetourError, match=r"plots are written as"):
        report.check_plot(tmp_path / "plot.txt")
    with pytest.raises(DetourError, match=r"there is no folder"):
        report.check_plot(tmp_path / "a" / "plot.png")


def test_jitter_costs_lossless_fabrics_no_packet() -> None:
    """Headroom holds what a late frame brings after a pause."""
    run = simulated("adv1:pairs=64,bytes=1e5", D1, "ShortestPath", ecn="off", jitter="1us")
    assert run.ended_by == "delivered"
    assert run.drops == 0
