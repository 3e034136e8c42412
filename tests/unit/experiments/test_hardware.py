# SPDX-License-Identifier: Apache-2.0
"""nccl-tests on a fabric, what machines were measured to do, and the fit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.control.placement.nccl.machines import Cluster, Machine
from detour.control.placement.nccl.rules import bus_factor
from detour.experiments.hardware import experiment, page
from detour.experiments.hardware.experiment import Fitted, HardwarePoint, HardwareRow, HardwareRun
from detour.experiments.hardware.logs import Series, astra_sim, kept, read_logs
from detour.experiments.hardware.nccl_tests import MTU, NcclTest, sizes_of
from detour.experiments.sim.settings import SimOptions, settings_of
from detour.topo import parse_topology

MB = 1 << 20
DOCS = Path(__file__).resolve().parents[3] / "docs"
SWITCH = parse_topology("leaf-spine:leaves=1,spines=1,hosts=4")
LOG = """# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902
# Collective test starting: {op}_perf
# Using devices
#  Rank  0 Group  0 Pid 1 on      alpha device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 2 on       {other} device  1 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           0             0     float     sum      -1     9.00    0.00    0.00       0     9.00    0.00    0.00       0
        1024           256     float     sum      -1    {us}    0.03    0.03       0    31.00    0.03    0.03       0
    33554432       8388608     float    none      -1  1405.25   23.88   23.88       0  1406.35   23.86   23.86     N/A
# Avg bus bandwidth    : 47.8165
"""


def nccl_test(op: str, cluster: Cluster, limit: int = 10**12) -> NcclTest:
    settings = settings_of(SWITCH, SimOptions(rate="400G", mtu=MTU))
    return NcclTest(op, cluster, SWITCH, settings, limit=limit)


def test_sizes_double_in_powers_of_1024():
    assert sizes_of("8:100") == [8, 16, 32, 64]
    assert sizes_of("1K:4k") == [1024, 2048, 4096]
    assert sizes_of("3M") == [3 * MB]
    for wrong in ("0:8", "8:4", "big", "8T", "-8:8", "1.5M", "", "8:2048G"):
        with pytest.raises(DetourError, match="size"):
            sizes_of(wrong)


@pytest.mark.parametrize(("op", "factor"), [
    ("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("alltoall", 0.75), ("gather", 0.75),
    ("scatter", 0.75), ("sendrecv", 1), ("broadcast", 1), ("reduce", 1),
])  # fmt: skip
def test_no_operation_is_faster_than_its_links(op, factor):
    """48.8 GB/s of payload; a chain of two or more machines ends a little later, and pairs have 14 GB/s a channel."""
    assert bus_factor(op, 4) == factor
    (one,) = nccl_test(op, Cluster(4)).rows([16 * MB])
    assert one.simulated == 1
    assert one.busbw_gbps == pytest.approx(one.algbw_gbps * factor, rel=1e-4)
    assert one.algbw_gbps == pytest.approx(16 * MB * 8 / one.us / 1e3, rel=1e-4)
    assert 150 < one.busbw_gbps < 391


def test_a_machine_is_as_fast_as_all_of_its_nics():
    (one,) = nccl_test("all_reduce", Cluster(4)).rows([64 * MB])
    (two,) = nccl_test("all_reduce", Cluster(4, Machine(2, 2, switched=False))).rows([64 * MB])
    assert two.busbw_gbps == pytest.approx(2 * one.busbw_gbps, rel=0.1)


@pytest.mark.parametrize(("op", "slots"), [("all_gather", 2), ("broadcast", 1)])
def test_slices_of_a_channel_follow_each_other(op, slots):
    """Two channels a NIC: a block takes a step and a copy for a slice, 3.4 us and 20.7 GB/s; a NIC could do more."""
    cluster = Cluster(16, Machine(8, 8))
    topology = parse_topology("leaf-spine:leaves=1,spines=1,hosts=16")
    settings = settings_of(topology, SimOptions(rate="400G", mtu=MTU))
    (one,) = NcclTest(op, cluster, topology, settings, protocol="simple", limit=200 * MB).rows([4096 * MB])
    size = slots * 512 * 1024
    assert one.busbw_gbps / 8 == pytest.approx(16 * size / (3400 + size / 20.7), rel=0.02)


def test_who_sends_a_broadcast_does_not_wait_for_its_receivers():
    """Eight bytes: launch (6.6 us) and seven steps in a machine (0.6 us each); all that comes later overlaps."""
    cluster, topology = Cluster(16, Machine(8, 8)), parse_topology("leaf-spine:leaves=1,spines=1,hosts=16")
    test = NcclTest("broadcast", cluster, topology, settings_of(topology, SimOptions(rate="400G", mtu=MTU)))
    once, twice = (test.simulate_us(8, test.choice(8), 1, times) for times in (1, 2))
    assert twice - once == pytest.approx([6.6 + 7 * 0.6 + 0.6] * 2, abs=0.2)


@pytest.mark.parametrize(("op", "cluster"), [
    ("all_reduce", Cluster(4)), ("all_gather", Cluster(4, Machine(2, 2))), ("alltoall", Cluster(4)),
    ("sendrecv", Cluster(4, Machine(2, 2))), ("broadcast", Cluster(4)), ("all_reduce", Cluster(4, Machine(2, 2))),
])  # fmt: skip
def test_what_is_continued_is_what_a_whole_simulation_takes(op, cluster):
    (whole,), (part,) = (nccl_test(op, cluster, limit).rows([384 * MB]) for limit in (10**12, 200 * MB))
    assert whole.simulated == 1
    assert 0.05 < part.simulated < 0.9
    assert part.us == pytest.approx(whole.us, rel=0.02)


def test_logs_are_read_and_those_of_equal_shape_count_as_one(tmp_path):
    (tmp_path / "below").mkdir()
    both = LOG.format(op="all_reduce", other="beta", us="30.50") + LOG.format(op="alltoall", other="beta", us="99.00")
    (tmp_path / "a.log").write_text(both)
    (tmp_path / "below" / "b.txt").write_text(LOG.format(op="all_reduce", other="gamma", us="20.50"))
    (tmp_path / "c.log").write_text(LOG.format(op="all_reduce", other="gamma", us="40.50"))
    (tmp_path / "one-node.log").write_text(LOG.format(op="sendrecv", other="alpha", us="10.00"))
    old = LOG.format(op="all_gather", other="beta", us="50.00").replace(
        "# Collective test starting: all_gather_perf\n", ""
    )
    (tmp_path / "nccl_allgather.log").write_text(old)
    (tmp_path / "notes.md").write_text(both)
    sizes = (1024, 32 * MB)
    assert sorted(read_logs(tmp_path), key=lambda one: one.op) == [
        Series(tmp_path.name, "all_gather", 2, 2, sizes, (50.0, 1405.25)),
        Series(tmp_path.name, "all_reduce", 2, 2, sizes, (30.5, 1405.25)),
        Series(tmp_path.name, "alltoall", 2, 2, sizes, (99.0, 1405.25)),
    ]


def test_the_figures_that_are_kept_have_one_series_to_fit():
    figures = kept()
    (fitted,) = filter(experiment.is_fitted, [one for one in figures if one.set == "h100x10"])
    assert (fitted.gpus, len(fitted.bytes), fitted.us[0], fitted.us[-1]) == (10, 10, 1405.25, 632480.0)
    assert {one.set for one in figures} == {"h100x10", "h100x10-pairs", "h100x4"}
    assert {one.op for one in figures if one.set == "h100x4"} == {"all_gather", "all_reduce", "broadcast", "reduce"}
    assert sorted({one.gpus for one in figures if one.set == "h100x10"}) == [10, 20, 40, 80]


def row(error: float, *, fitted: bool = False, op: str = "all_gather") -> HardwareRow:
    return HardwareRow(
        set="s", op=op, gpus=4, nodes=4, bytes=8, measured_us=10.0, predicted_us=10 * (1 + error), error=error,
        algorithm="ring", protocol="LL", simulated=1.0, fitted=fitted,
    )  # fmt: skip


def test_the_fit_finds_the_numbers_that_made_the_figures():
    """Times of a model of the kind that is fitted: bytes over a rate, and steps that a large message hides."""
    sizes = [MB << k for k in range(5, 12)]

    def model_us(size: int, fitted: Fitted) -> float:
        return size * 14.4 / fitted.nic_gbps / 1e3 + 18 * max(0.0, fitted.step_us - size / 2e6)

    truth = Fitted(nic_gbps=371.0, step_us=43.0)
    figures = [Series("s", "all_reduce", 10, 10, tuple(sizes), tuple(model_us(size, truth) for size in sizes))]

    def evaluate(points: Sequence[HardwarePoint]) -> list[HardwareRun]:
        return [
            HardwareRun(
                [
                    row(model_us(size, point.fitted) / us - 1)
                    for size, us in zip(point.bytes, point.measured_us, strict=True)
                ],
                point.fitted,
            )
            for point in points
        ]

    found = experiment.fit(figures, evaluate)
    assert found.nic_gbps == pytest.approx(truth.nic_gbps, rel=1e-3)
    assert found.step_us == pytest.approx(truth.step_us, rel=1e-2)
    with pytest.raises(DetourError, match="no all_reduce of one GPU a node"):
        experiment.fit([replace(figures[0], gpus=20)], evaluate)


def test_the_summary_is_of_predictions_alone(tmp_path):
    fitted = Fitted(nic_gbps=400.0, step_us=20.0)
    runs = [HardwareRun([row(0.01, fitted=True, op="all_reduce")], fitted), HardwareRun([row(0.1), row(-0.5)], fitted)]
    findings = experiment.collect(runs)
    assert findings.summary.predictions == 2
    assert findings.summary.geomean_error == pytest.approx(math.sqrt(1.1 * 2) - 1, abs=1e-4)
    assert findings.summary.largest_error == 0.5
    assert findings.summary.within_30 == 0.5
    assert (findings.summary.both, findings.machines[0].astra_sim_geomean_error) == (0, None)
    assert [(one.op, one.rows, one.largest_error) for one in findings.groups] == [
        ("all_reduce", 1, 0.01),
        ("all_gather", 2, -0.5),
    ]
    assert [(one.op, one.rows, one.within_30) for one in findings.machines] == [("all_gather", 2, 0.5)]
    page.write(tmp_path / "hardware.md", findings, "command")
    text = (tmp_path / "hardware.md").read_text()
    assert "Queues" in text
    assert "48.3%" in text


def test_astra_sim_is_beside_what_it_predicts():
    others = astra_sim()
    figures = {(one.set, one.op, one.gpus, one.nodes, size) for one in kept() for size in one.bytes}
    ring = ("all_reduce", "all_gather", "reduce_scatter")
    assert set(others) == {key for key in figures if key[1] in ring or (key[1] == "sendrecv" and key[2] == key[3])}
    name = ("h100x4", "all_reduce", 32, 4, 64 * MB)
    ours = replace(row(0.1), set=name[0], op=name[1], gpus=name[2], nodes=name[3], bytes=name[4], measured_us=579.5)
    findings = experiment.collect([HardwareRun([ours, row(-0.5)], experiment.STORED)])
    beside, alone = findings.rows
    assert beside.astra_sim_us == others[name]
    assert beside.astra_sim_error == pytest.approx(others[name] / 579.5 - 1, abs=1e-4)
    assert alone.astra_sim_us is None
    summary = findings.summary
    assert (summary.both, summary.both_geomean_error) == (1, 0.1)
    assert summary.astra_sim_largest_error == abs(round(others[name] / 579.5 - 1, 4))


def test_one_series_is_predicted_as_the_command_says(tmp_path, capsys):
    (tmp_path / "a.log").write_text(LOG.format(op="alltoall", other="beta", us="40.00"))
    options = ["reproduce", "hardware", "--logs", str(tmp_path), "--out", str(tmp_path / "store"), "--json"]
    assert main(options) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["op"], one["gpus"], one["nodes"], one["fitted"]) for one in document["rows"]] == 2 * [
        ("alltoall", 2, 2, False)
    ]
    assert all(
        one["error"] == pytest.approx(one["predicted_us"] / one["measured_us"] - 1, abs=1e-4)
        for one in document["rows"]
    )
    assert set(document["fitted"]) == {"nic_gbps", "step_us"}
    assert document["summary"]["largest_error"] == max(abs(one["error"]) for one in document["rows"])


def test_the_table_of_the_command_has_the_rows_of_nccl_tests(capsys):
    options = [
        "job",
        "nccl-tests",
        "--op",
        "all_reduce",
        "--gpus",
        "4",
        "--topo",
        "leaf-spine:leaves=1,spines=1,hosts=4",
    ]
    assert main([*options, "--sizes", "8:1K", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [one["bytes"] for one in rows] == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert {"us", "algbw_gbps", "busbw_gbps", "algorithm", "protocol"} <= set(rows[0])
    assert main([*options, "--sizes", "1M", "--algorithm", "ring", "--protocol", "ll"]) == 0
    assert "algbw (GB/s)" in (text := capsys.readouterr().out)
    assert "ring" in text


@pytest.mark.parametrize("option", [
    "--limit 1e8", "--rate 100G", "--machine gpus=2,nvlink=400G", "--algorithm tree", "--protocol ll128",
    "--scheme LERP-shortest --rate 200G",
])  # fmt: skip
def test_every_option_changes_the_row(option, capsys):
    command = "job nccl-tests --op all_reduce --gpus 4 --sizes 96M --topo leaf-spine:leaves=1,spines=1,hosts=4 --json"
    rows = [
        json.loads(capsys.readouterr().out)["rows"][0]
        for more in ("", option)
        if not main((command + " " + more).split())
    ]
    assert len(rows) == 2
    assert rows[0]["simulated"] == 1
    assert rows[0] != rows[1]


@pytest.mark.parametrize(("changed", "message"), [
    ({"--op": "all"}, "there is no operation 'all'"), ({"--gpus": "5"}, "has 4 hosts, one for each"),
    ({"--sizes": "8:x"}, "is not a size"), ({"--machine": "gpus=4"}, "two or more whole machines of 4"),
    ({"--algorithm": "star"}, "no algorithm 'star'"), ({"--protocol": "tcp"}, "no protocol 'tcp'"),
    ({"--rate": "fast"}, "rate"),
])  # fmt: skip
def test_what_is_wrong_is_told_in_one_line(changed, message, capsys):
    given = {
        "--op": "all_reduce",
        "--gpus": "4",
        "--sizes": "8",
        "--topo": "leaf-spine:leaves=1,spines=1,hosts=4",
    } | changed
    assert main(["job", "nccl-tests", *(part for pair in given.items() for part in pair)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_without_logs_is_told(tmp_path, capsys):
    for folder, message in ((tmp_path, "no file there"), (tmp_path / "none", "there is no such folder")):
        assert main(["reproduce", "hardware", "--logs", str(folder)]) == 2
        assert message in capsys.readouterr().err


def test_the_page_is_made_of_the_runs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "hardware.jsonl.xz").symlink_to(DOCS / "hardware.jsonl.xz")
    assert main(["reproduce", "hardware", "--from", "docs/hardware.jsonl.xz", "--write", "docs/hardware.md"]) == 0
    assert (tmp_path / "docs" / "hardware.md").read_text() == (DOCS / "hardware.md").read_text()
