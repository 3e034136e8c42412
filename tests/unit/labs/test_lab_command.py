# SPDX-License-Identifier: Apache-2.0
"""`detour sim --lab` and `detour up --lab` as commands: documents, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forwarding_lab import write_tutorial

from detour.cli import main

LABS = Path(__file__).parents[3] / "docs" / "labs"
KEYS = [
    "flows",
    "completed",
    "bytes",
    "delivered_bytes",
    "fct_us",
    "slowdown",
    "steps",
    "wire_gbps",
    "drops",
    "seconds",
]


@pytest.fixture
def lab_folder(tmp_path: Path) -> str:
    return str(write_tutorial(tmp_path / "small"))


def test_the_document_is_that_of_sim_and_more(lab_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--lab", lab_folder, "--workload", "ping:src=h1,dst=h2,count=2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document)[: len(KEYS)] == KEYS
    assert (document["flows"], document["completed"], document["drops"]) == (2, 2, 0)
    assert (document["pings"][0]["src"], document["pings"][0]["dst"]) == ("h1", "10.0.0.2")
    assert document["lab"] == {"format": "tutorials", "hosts": ["h1", "h2"]}
    assert {row["switch"] for row in document["switches"]} == {"s1", "s2"}


def test_tables_for_people(lab_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--lab", lab_folder, "--workload", "udp:src=h1,dst=h2,rate=1M,time=10ms"]) == 0
    shown = capsys.readouterr().out
    assert "small (tutorials): 2 switches, 2 hosts" in shown
    assert "1 of 1 flows complete, 0 frames lost" in shown


def test_a_duration_ends_a_run(lab_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    workload = "udp:src=h1,dst=h2,rate=1M,time=1s"
    assert main(["sim", "--lab", lab_folder, "--workload", workload, "--duration", "30ms", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seconds"] == 0.03
    assert document["completed"] == 0
    assert 0 < document["udp"][0]["received"] <= 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sim", "--lab", "no/where"], "no/where: there is no such folder or file"),
        (["sim", "--lab", str(LABS / "ecn"), "--topo", "d1"], "--topo is not for labs"),
        (["sim", "--lab", str(LABS / "ecn"), "--place"], "--place is not for labs"),
        (["sim", "--lab", str(LABS / "ecn"), "--workload", "ring"], "there is no workload 'ring' for labs"),
        (["sim", "--lab", str(LABS / "ecn"), "--solution"], "there is no folder solution"),
        (["sim", "--lab", str(LABS / "ecn"), "--seed", "x"], "--seed 'x' is not a whole number"),
        (["sim", "--lab", str(LABS / "ecn"), "--duration", "soon"], "'soon' is not a time"),
        (["sim", "--solution", "--topo", "d1"], "--solution is for labs"),
        (["up", "--lab", str(LABS / "ecn"), "--topo", "d2"], "--topo is not for labs"),
        (["up", "--lab", str(LABS / "ecn"), "--target", "bmv2"], "--target bmv2 is not for labs"),
        (["up", "--solution"], "--solution is for labs"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
