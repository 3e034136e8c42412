# SPDX-License-Identifier: Apache-2.0
"""Spraypoint on running fabrics: after failures only what differs is written; what switches hold is proven."""

from __future__ import annotations

import math

import pytest

from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from detour.topo import parse_topology
from tests.unit.fabric.sessions import IN_REAL_TIME

DEGREE, MEMBERS = 6, 2
TOPOLOGY = f"rng:n=16,d={DEGREE},hosts=1"


def prove(session: Session, cut_off: int = 0) -> None:
    """All pairs are connected without loops, within the levels' bound, by about as many paths as the paper says."""
    proof = session.verify()
    assert proof.verified, proof.problems
    assert proof.disconnected == cut_off
    assert proof.longest.shortest <= proof.bound.shortest
    assert proof.disjoint_paths
    assert proof.disjoint_paths.median == pytest.approx(DEGREE * (1 - math.exp(-MEMBERS)), abs=1)
    assert proof.disjoint_paths.least >= MEMBERS


@pytest.mark.parametrize("target", IN_REAL_TIME)
def test_failures_are_routed_around_by_what_differs(target: str) -> None:
    link = next(link.name for link in parse_topology(TOPOLOGY).links if link.kind != "host")
    with boot(UpOptions(target, TOPOLOGY, routing=f"spraypoint:p=2,h={MEMBERS}")) as session:
        prove(session)
        written = session.provision()
        assert (written.inserted, written.modified, written.deleted) == (0, 0, 0)
        failed = session.fail(link)
        assert 0 < failed.modified < 0.2 * written.entries
        assert failed.unchanged > 0.8 * written.entries
        prove(session)
        session.fail("s3")
        prove(session, cut_off=2 * 15)
        session.heal(None)
        prove(session)
        assert session.provision().unchanged == written.entries
        assert session.send("h0", "h9", 10_000).bytes_ok == 10_000
