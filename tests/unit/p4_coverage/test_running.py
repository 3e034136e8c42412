# SPDX-License-Identifier: Apache-2.0
"""Coverage of fabrics that run: of one packet by `trace`, and of all by `up`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.engine.coverage.document import CoverageDocument, ProgramCoverage, collecting
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session

TOPOLOGY = "dragonfly:p=1,a=2,h=1"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """A fabric of the engine that collects nothing."""
    running = boot(UpOptions("engine", TOPOLOGY))
    with running:
        yield running


def _read(file: Path) -> ProgramCoverage:
    return CoverageDocument.read([file]).programs["fabric"]


def _lookups(program: ProgramCoverage, table: str) -> int:
    return sum(p.hits for p in program.points.values() if p.name == table and p.outcome in ("hit", "miss"))


def _hops(packet: Any) -> int:
    return len(packet.hops)


def test_a_traced_packet_alone_is_counted(session: Session, tmp_path: Path) -> None:
    hops = _hops(session.trace("h0", "h5", sport=0x8001, coverage=str(tmp_path / "one")))
    assert hops > 1
    assert _lookups(_read(tmp_path / "one"), "FabricIngress.router.route") <= hops
    assert _lookups(_read(tmp_path / "one"), "FabricEgress.ecn.marking") == hops
    session.trace("h0", "h5", sport=0x8001)
    again = _hops(session.trace("h0", "h5", sport=0x8001, coverage=str(tmp_path / "two")))
    assert _lookups(_read(tmp_path / "two"), "FabricEgress.ecn.marking") == again, "nothing of those before"


def test_all_ways_are_counted(session: Session, tmp_path: Path) -> None:
    session.trace("h0", "h5", sport=0x8001, all_ways=True, coverage=str(tmp_path / "all"))
    session.trace("h0", "h5", sport=0x8001, coverage=str(tmp_path / "one"))
    of_all, of_one = (_read(tmp_path / name).totals()["branches"]["covered"] for name in ("all", "one"))
    assert of_all >= of_one > 0


def test_a_file_that_cannot_be_written(session: Session, tmp_path: Path) -> None:
    with pytest.raises(DetourError, match="cannot be written"):
        session.trace("h0", "h5", coverage=str(tmp_path / "no" / "file"))


@pytest.mark.parametrize("target", ["engine", "virtual"])
def test_a_fabric_counts_all_packets_and_traced_ones_too(target: str, tmp_path: Path) -> None:
    file, single = tmp_path / "all", tmp_path / "single"
    options = UpOptions(target, TOPOLOGY, coverage=str(file), pace="max" if target == "virtual" else None)
    with collecting(file), boot(options) as running:
        running.fabric.first_step()
        sent = running.send("h0", "h5", 4000)
        assert sent.bytes_ok == 4000
        hops = _hops(running.trace("h0", "h5", coverage=str(single)))
    assert _lookups(_read(single), "FabricEgress.ecn.marking") == hops
    # Data and an acknowledgement at least, over as many switches, and the packet that was traced.
    assert _lookups(_read(file), "FabricEgress.ecn.marking") >= 3 * hops


def test_bmv2_counts_nothing() -> None:
    with pytest.raises(DetourError, match=r"--coverage needs --target engine|simple_switch"):
        boot(UpOptions("bmv2", TOPOLOGY, coverage="file"))
