# SPDX-License-Identifier: Apache-2.0
"""A connection that sprays over the uSID lists of a placement, in a run of a fabric."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.fabric.operations.session import Session
from tests.unit.fabric.sessions import TARGETS, on

TOPOLOGY = "dragonfly:p=1,a=2,h=1"  # 3 groups, 6 switches, 6 hosts
SHORT, LONG = ["s0", "s5"], ["s0", "s1", "s2", "s3", "s4", "s5"]
MESSAGE = 300_000


@pytest.fixture(params=TARGETS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with on(request.param, TOPOLOGY) as running:
        yield running


def test_packets_take_all_lists_of_the_placement(session: Session, tmp_path: Path) -> None:
    pairs = [{"from": "h0", "to": "h5", "path": way} for way in (LONG, SHORT)]
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [{"collective": "point-to-point", "pairs": pairs}]}))
    assert session.place(str(jobs)).flows == 2
    sent = session.send("h0", "h5", MESSAGE, spray=True)
    assert sent.bytes_ok == MESSAGE
    assert [used.switches for used in sent.paths] == [SHORT, LONG]
    assert all("fcbb" in used.path for used in sent.paths), "lists, the shortest first"
    if session.fabric.target != "bmv2":  # whose switches share the machine: how often a list pays depends on its load
        assert min(used.packets for used in sent.paths) > 10


def test_without_a_placement_they_take_source_ports(session: Session) -> None:
    sent = session.send("h0", "h5", MESSAGE, spray=True)
    assert sent.bytes_ok == MESSAGE
    assert not any("fcbb" in used.path for used in sent.paths)
