# SPDX-License-Identifier: Apache-2.0
"""`detour sim --lab` and `detour up --lab` as commands: documents, and what is refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forwarding_lab import write_app, write_tutorial

from detour.cli import main
from detour.fabric.labs.virtual import open_lab

LABS = Path(__file__).parents[3] / "docs" / "labs"
KEYS = [
    "flows", "completed", "bytes", "delivered_bytes", "fct_us", "slowdown", "steps", "wire_gbps", "drops", "seconds",
    "ended_by", "incomplete", "virtual_s",
]  # fmt: skip


@pytest.fixture
def lab_folder(tmp_path: Path) -> str:
    return str(write_tutorial(tmp_path / "small"))


def test_the_document_is_that_of_sim_and_more(lab_folder: str, run_json: Callable[..., Any]) -> None:
    document = run_json("sim", "--lab", lab_folder, "--workload", "ping:src=h1,dst=h2,count=2")
    assert list(document)[: len(KEYS)] == KEYS
    assert (document["flows"], document["completed"], document["drops"]) == (2, 2, 0)
    assert (document["ended_by"], document["incomplete"]) == ("delivered", 0)
    assert (document["pings"][0]["src"], document["pings"][0]["dst"]) == ("h1", "10.0.0.2")
    assert document["lab"] == {"format": "tutorials", "hosts": ["h1", "h2"]}
    assert {row["switch"] for row in document["switches"]} == {"s1", "s2"}


def test_tables_for_people(lab_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--lab", lab_folder, "--workload", "udp:src=h1,dst=h2,rate=1M,time=10ms"]) == 0
    shown = capsys.readouterr().out
    assert "small (tutorials): 2 switches, 2 hosts" in shown
    assert "UDP: 2 datagrams sent, 2 received, 0 frames lost in queues and on links" in shown
    assert "flows complete" not in shown


def test_datagrams_that_a_full_link_loses_are_no_incomplete_flow(
    lab_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = "udp:src=h1,dst=h2,rate=10M,time=20ms;ping:src=h1,dst=h2,count=2"
    assert main(["sim", "--lab", lab_folder, "--workload", workload, "--rate", "1M"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("UDP: 25 datagrams sent, ")
    assert " flows complete, " in last


def test_tasks_of_the_lab_are_its_workload(tmp_path: Path, run_json: Callable[..., Any]) -> None:
    """10 packets in half a second from 20 ms on; another workload goes beside them."""
    folder = write_app(tmp_path / "lab", (9090, 9091), (9559, 9560))
    app = json.loads((folder / "p4app.json").read_text())
    (folder / "p4app.json").write_text(json.dumps(app | {"tasks_file": "tasks.txt"}))
    (folder / "tasks.txt").write_text("h1 0.02 0.5 send_udp_flow --dst 10.0.0.2 --rate 160K --packet_size 1000\n")
    document = run_json("sim", "--lab", str(folder))
    (row,) = document["udp"]
    assert (row["sent"], row["received"], row["dport"], document["pings"]) == (10, 10, 5001, [])
    assert 0.47 < document["seconds"] < 0.6
    document = run_json("sim", "--lab", str(folder), "--workload", "ping:src=h1,dst=h2,count=1")
    assert (len(document["udp"]), len(document["pings"])) == (1, 1)


def test_arguments_of_a_script(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "network.py").write_text("import sys\nraise ValueError(sys.argv[1:])\n")
    for arguments in (["sim", "--lab", str(tmp_path)], ["up", "--lab", str(tmp_path)]):
        assert "ValueError: ['-f', 'a b']" in refused(*arguments, "--lab-args", "-f 'a b'")
    assert "--lab-args is for labs (--lab)" in refused("sim", "--lab-args", "x", "--topo", "d1")


def test_a_duration_ends_a_run(
    lab_folder: str, capsys: pytest.CaptureFixture[str], run_json: Callable[..., Any]
) -> None:
    workload = "udp:src=h1,dst=h2,rate=1M,time=1s"
    document = run_json("sim", "--lab", lab_folder, "--workload", workload, "--duration", "30ms")
    assert document["seconds"] == 0.03
    assert document["completed"] == 0
    assert 0 < document["udp"][0]["received"] <= 4
    assert (document["ended_by"], document["incomplete"]) == ("duration", 1)
    assert main(["sim", "--lab", lab_folder, "--workload", workload, "--duration", "30ms"]) == 0
    assert "--duration cut off 1 flows" in capsys.readouterr().out


def test_a_run_of_minutes_goes_on_to_its_end(lab_folder: str, run_json: Callable[..., Any]) -> None:
    document = run_json("sim", "--lab", lab_folder, "--workload", "ping:src=h1,dst=h2,count=2,interval=100s")
    assert (document["completed"], document["ended_by"]) == (2, "delivered")
    assert 100 < document["virtual_s"] < 102


def test_a_lab_whose_pings_get_lost_is_stuck(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--lab", str(LABS / "ecn"), "--workload", "ping:src=h1,dst=10.0.0.77,count=1"]
    assert main([*arguments, "--json"]) == 1
    seen = capsys.readouterr()
    document = json.loads(seen.out)
    assert (document["completed"], document["ended_by"], document["incomplete"]) == (0, "stuck", 1)
    assert (document["unanswered"], document["circling"]) == (1, 0)
    assert "stuck: nothing is under way, and 1 flows are not complete" in seen.err


def test_packets_that_go_in_circles_end_a_run(lab_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """s2 sends back to s1 what is for h2, and the program knows no hop limit."""
    runtime = Path(lab_folder) / "s2-runtime.json"
    text = runtime.read_text()
    assert text.count('"port": 1') == 1
    runtime.write_text(text.replace('"port": 1', '"port": 2'))
    assert main(["sim", "--lab", lab_folder, "--workload", "ping:src=h1,dst=h2,count=2"]) == 1
    assert "stuck: 2 frames go in circles, and 2 flows are not complete" in capsys.readouterr().out


def test_a_refused_connection_says_where_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--lab", str(LABS / "firewall"), "--workload", "tcp:src=h3,dst=h1,bytes=100k"]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "0 of 1 flows complete" in shown
    assert "s1: 16 frames, dropped by the program's ingress" in shown
    assert main([*arguments, "--duration", "100ms"]) == 1
    assert "cut off 1 flows; 1 have no answer, and nothing of them is under way" in capsys.readouterr().out
    assert main([*arguments[:3], "--workload", "tcp:src=h1,dst=h3,time=1s", "--duration", "20ms"]) == 0


def test_pings_that_nobody_asked_for_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(LABS / "firewall", tmp_path / "small")
    (folder / "s1-commands.txt").write_text("")
    assert main(["sim", "--lab", str(folder)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("stuck: nothing is under way, and 18 flows are not complete; all hosts pinged each other")


def with_delay(folder: Path, delay: str) -> str:
    topology = json.loads((folder / "topology.json").read_text())
    topology["links"][1][2] = delay
    (folder / "topology.json").write_text(json.dumps(topology))
    return str(folder)


@pytest.mark.parametrize(
    ("workload", "parts"),
    [("udp:src=h1,dst=h2,rate=40k,size=1000,time=1s", 1), ("ping:src=h1,dst=h2", 3), ("tcp:src=h1,dst=h2,bytes=9k", 1)],
)
def test_a_run_waits_for_what_is_on_a_long_link(
    tmp_path: Path, run_json: Callable[..., Any], workload: str, parts: int
) -> None:
    folder = with_delay(write_tutorial(tmp_path / "long"), "10s" if workload.startswith("udp") else "700ms")
    document = run_json("sim", "--lab", folder, "--workload", workload)
    assert (document["ended_by"], document["completed"], document["incomplete"]) == ("delivered", parts, 0)


def test_jitter_of_a_lab_s_hosts(lab_folder: str, run_json: Callable[..., Any]) -> None:
    trips = []
    for jitter in ("0", "0", "2ms", "5us"):
        workload = "ping:src=h1,dst=h2,count=2"
        trips.append(
            run_json("sim", "--lab", lab_folder, "--workload", workload, "--jitter", jitter)["pings"][0]["rtt_mean_us"]
        )
    assert trips[0] == trips[1] < trips[3] < trips[0] + 10 < trips[2]


@pytest.mark.parametrize("apart", ["0", "1us"])
def test_two_streams_share_a_full_queue_of_a_lab(apart: str) -> None:
    with open_lab(LABS / "ecn", seed=4) as lab:
        stream = "udp:src={},dst=h3,rate=20M,time=2s,start={}"
        jobs = lab.do(f"{stream.format('h1', 0)};{stream.format('h2', apart)}")
        lab.run_until(2 * 10**12)
        one, two = (row["received"] for row in lab.results(jobs)["udp"])
    assert one + two > 2_000
    assert (one + two) ** 2 / (2 * (one**2 + two**2)) >= 0.98


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["sim", "--lab", "no/where"], "no/where: there is no such folder or file"),
        (["sim", "--lab", str(LABS / "ecn"), "--topo", "d1"], "--topo does not go with --lab"),
        (["sim", "--lab", str(LABS / "ecn"), "--place"], "--place does not go with --lab"),
        (["sim", "--lab", str(LABS / "ecn"), "--workload", "ring"], "there is no workload 'ring' for labs"),
        (["sim", "--lab", str(LABS / "ecn"), "--solution"], "--solution needs a folder solution"),
        (["sim", "--lab", str(LABS / "ecn"), "--seed", "x"], "seed: 'x' is not a whole number"),
        (["sim", "--lab", str(LABS / "ecn"), "--duration", "soon"], "'soon' is not a time"),
        (["sim", "--solution", "--topo", "d1"], "--solution is for labs"),
        (["up", "--lab", str(LABS / "ecn"), "--topo", "d2"], "--topo does not go with --lab"),
        (["up", "--lab", str(LABS / "ecn"), "--target", "bmv2"], "--target bmv2 does not go with --lab"),
        (["up", "--solution"], "--solution is for labs"),
    ],
)
def test_what_is_refused(arguments: list[str], reason: str, refused: Callable[..., str]) -> None:
    assert reason in refused(*arguments)
