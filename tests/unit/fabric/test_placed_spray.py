# SPDX-License-Identifier: Apache-2.0
"""A connection that sprays over the uSID lists of a placement, in a run of a fabric."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import LERP_WITHOUT_PFC, LinkSettings, RunSettings
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from detour.topo import parse_topology

TOPOLOGY = "dragonfly:p=1,a=2,h=1"  # 3 groups, 6 switches, 6 hosts
SHORT, LONG = ["s0", "s5"], ["s0", "s1", "s2", "s3", "s4", "s5"]
MESSAGE = 300_000


@pytest.fixture(params=["engine", "virtual", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    if request.param == "virtual":
        settings = RunSettings(links=LinkSettings(1_000_000_000), payload=True)
        running = Session(VirtualFabric(parse_topology(TOPOLOGY), LERP_WITHOUT_PFC, settings))
        running.fabric.start()
        running.connect()
        running.provision()
    else:
        running = boot(UpOptions(request.param, TOPOLOGY))
    yield running
    running.close()


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
