# SPDX-License-Identifier: Apache-2.0
"""What `detour up` may be told to have otherwise: links, and the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.control.entries import TableEntry
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.control.planner import plan
from detour.fabric.backends.settings import BMV2, ENGINE, BackendChanges
from detour.fabric.backends.targets import make_fabric
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.topo import parse_topology

TOPOLOGY = "leaf-spine:leaves=2,spines=1,hosts=1"


@pytest.mark.parametrize("settings", [ENGINE, BMV2])
def test_nothing_changed_is_what_there_was(settings: object) -> None:
    assert BackendChanges().applied(settings) == settings  # type: ignore[arg-type]


def test_timeouts_and_thresholds_follow() -> None:
    slow = BackendChanges(rate_bps=1_000_000).applied(ENGINE)
    assert (slow.rate_bps, slow.queue_packets, slow.ecn_packets) == (
        1_000_000,
        ENGINE.queue_packets,
        ENGINE.ecn_packets,
    )
    assert slow.hosts.initial_rto_ps > ENGINE.hosts.initial_rto_ps, "a full queue is not a loss"
    short = BackendChanges(queue_packets=32).applied(ENGINE)
    assert (short.queue_packets, short.ecn_packets, short.rate_bps) == (32, 10, ENGINE.rate_bps)
    assert BackendChanges(queue_packets=5000).applied(ENGINE).ecn_packets == ENGINE.ecn_packets
    assert BackendChanges(delay_ps=7, loss=0.25).applied(ENGINE).loss == 0.25


@pytest.mark.parametrize("change", [BackendChanges(rate_bps=10), BackendChanges(loss=1.0), BackendChanges(delay_ps=-1)])
def test_what_cannot_be(change: BackendChanges) -> None:
    with pytest.raises(DetourError):
        change.applied(ENGINE)


@pytest.mark.parametrize(("change", "option"), [({"delay_ps": 1}, "--delay"), ({"loss": 0.1}, "--loss")])
def test_what_bmv2_has_not(monkeypatch: pytest.MonkeyPatch, change: dict[str, float], option: str) -> None:
    monkeypatch.setattr("detour.fabric.backends.targets.choose", lambda target: "bmv2")
    with pytest.raises(DetourError, match=f"{option}: BMv2"):
        make_fabric("bmv2", parse_topology(TOPOLOGY), changes=BackendChanges(**change))  # type: ignore[arg-type]


def test_links_are_as_they_were_asked_for() -> None:
    changed = UpOptions("engine", TOPOLOGY, rate_bps=5_000_000, delay_ps=20_000_000, queue_packets=50, loss=0.3)
    with boot(changed).fabric as fabric:
        stats = fabric.network.port_stats()  # type: ignore[attr-defined]
        assert fabric.terms.rate_bps == 5_000_000
        assert fabric.settings.queue_packets == 50  # type: ignore[attr-defined]
        assert len(stats["device_id"]) > 0


def own(folder: Path, change: str = "") -> str:
    """fabric.p4 as somebody else's program; `change`: a table that it has not."""
    ours = PipelineConfig.fabric()
    p4info, blob = folder / "my.p4info.txtpb", folder / "my.json"
    text = ours.p4info.read_text()
    assert change in text
    p4info.write_text(text.replace(f'"{change}"', '"gone"') if change else text)
    blob.write_text(json.dumps(json.loads(ours.blob.read_text())))
    return f"{p4info},{blob}"


def test_a_program_with_the_same_tables_runs(tmp_path: Path) -> None:
    with boot(UpOptions("engine", TOPOLOGY, program=own(tmp_path))) as session:
        assert session.fabric.terms.pipeline.own
        assert session.verify().verified
        assert session.send("h0", "h1", 5_000).bytes_ok == 5_000


def test_a_program_without_them_is_refused_by_name(tmp_path: Path) -> None:
    topology = parse_topology(TOPOLOGY)
    planned = plan(topology, ENGINE.policy(topology))
    PipelineConfig.fabric().require(planned)
    every = (entity for entities in planned.values() for entity in entities)
    table = next(entity.table for entity in every if isinstance(entity, TableEntry))
    with pytest.raises(DetourError, match=f"the pipeline has no table '{table}'"):
        boot(UpOptions("engine", TOPOLOGY, program=own(tmp_path, table)))
    (tmp_path / "my.p4info.txtpb").write_text("{")
    with pytest.raises(DetourError, match="is not P4Info in text format"):
        boot(UpOptions("engine", TOPOLOGY, program=f"{tmp_path}/my.p4info.txtpb,{tmp_path}/my.json"))
