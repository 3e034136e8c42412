# SPDX-License-Identifier: Apache-2.0
"""A placement on a running fabric: held, repaired when a spine fails, rerouted when a link is congested."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from detour.base.errors import DetourError
from detour.cli import metrics as metrics_command
from detour.cli import scrape
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.results import FailureChange, RepairedPlacement
from detour.fabric.operations.session import Session
from detour.fabric.records import SwitchFlowTotals
from tests.fault.world import Sending
from tests.waiting import PATIENCE_S, until

TOPOLOGY = "leaf-spine:leaves=3,spines=3,hosts=2"
ENDLESS = 1 << 40


@pytest.fixture(scope="module")
def booted() -> Iterator[Session]:
    with boot(UpOptions("engine", TOPOLOGY)) as session:
        yield session


@pytest.fixture
def session(booted: Session, tmp_path: Path) -> Iterator[Session]:
    """With a placement of a ring."""
    booted.place(str(jobs(tmp_path, {"collective": "ring-all-reduce", "hosts": "all"})))
    yield booted
    booted.heal()


def jobs(folder: Path, job: dict[str, Any]) -> Path:
    file = folder / "jobs.json"
    file.write_text(json.dumps([job]))
    return file


def placed_anew(changed: FailureChange) -> RepairedPlacement:
    """What a failure or its end did to the placement."""
    assert changed.placement is not UNSET
    return changed.placement


def test_a_failed_spine_moves_the_flows_that_used_it_while_they_send(session: Session) -> None:
    with Sending(session, "h1", "h2") as sending:
        before = sending.path()
        (spine,) = (f"s{k}" for k in (3, 4, 5) if f":{k + 1}:" in before)
        changed = placed_anew(session.fail(spine))
        assert 0 < changed.moved < changed.flows == 6
        assert (changed.without_path, changed.collisions) == (0, 0)
        assert sending.path() != before
        sending.arrives()
        assert placed_anew(session.heal()).moved == 0, "nobody moves without need"


def test_a_leaf_that_fails_takes_its_flows_along_until_it_is_back(session: Session) -> None:
    changed = placed_anew(session.fail("s0"))
    assert (changed.moved, changed.without_path) == (0, 3)
    assert session.placement().without_path == 3
    changed = placed_anew(session.heal())
    assert (changed.flows, changed.collisions, changed.lower_bound) == (6, 0, 0)
    assert (changed.without_path, changed.moved) == (0, 3)


def test_what_is_refused_leaves_the_placement_as_it_was(session: Session, tmp_path: Path) -> None:
    before = session.placement()
    with pytest.raises(DetourError, match="host 'h99'"):
        session.place(str(jobs(tmp_path, {"collective": "tree", "hosts": ["h0", "h99"]})))
    session.fail("s2")
    with pytest.raises(DetourError, match="there is no path between them"):
        session.place(str(jobs(tmp_path, {"collective": "tree", "hosts": "all"})))
    session.heal("s2")
    assert replace(session.placement(), method=None) == replace(before, method=None)


def test_a_sender_takes_a_new_list_only_if_it_leads_to_its_receiver(session: Session) -> None:
    with Sending(session, "h1", "h2") as sending:
        before = sending.path()
        for wrong, reason in (("s77", "s77"), ("s4,s2,h5", "stays"), ("s3,s1,s4,s1,s5,s1", "1 to 6"), ("", "uSID")):
            with pytest.raises(DetourError, match=reason):
                session.reroute("h1-h2", wrong)
            assert sending.path() == before
        other = next(f"s{k}" for k in (3, 4, 5) if f":{k + 1}:" not in before)
        assert session.reroute("h1-h2", other).switches == ["s0", other, "s1"]
        assert sending.path() != before
        sending.arrives()
    with pytest.raises(DetourError, match="there is no flow 'h1-h2'; there are: none"):
        session.reroute("h1-h2", other)


def test_the_controller_moves_a_flow_off_a_throttled_link(session: Session, tmp_path: Path) -> None:
    session.place(str(jobs(tmp_path, {"collective": "ring-all-reduce", "hosts": "all"})), reroute=True)
    with Sending(session, "h1", "h2") as sending:
        before = sending.path()
        until(lambda: session.flows().flows[0].usual_bps > 1e7)
        (spine,) = (k for k in (3, 4, 5) if f":{k + 1}:" in before)
        link = session.topology.link(f"s0-s{spine}").index
        session.fabric.throttle(link, 0.3)
        until(lambda: sending.path() != before)
        sending.arrives()
        session.fabric.throttle(link, 1.0)


def watched(session: Session) -> dict[str, SwitchFlowTotals]:
    """What the switches say of the one flow, by switch."""
    (row,) = session.flows().flows
    return {at.switch: at for at in row.switches}


def entries(session: Session) -> dict[str, int]:
    """How many flows each switch watches."""
    held = session.entries(table="watched")
    counts = {switch: sum("slot" in row.action for row in rows) for switch, rows in held.items()}
    return {switch: count for switch, count in counts.items() if count}


def test_switches_watch_a_flow_wherever_it_goes(session: Session) -> None:
    with Sending(session, "h1", "h2") as sending:
        assert watched(session) == {}, "not asked for"
        session.watch_flows(True)
        (old,) = (f"s{k}" for k in (3, 4, 5) if f":{k + 1}:" in sending.path())
        assert entries(session) == {"s0": 1, old: 1, "s1": 1}
        until(lambda: all(at.rate_bps > 0 for at in watched(session).values()))
        session.fail(old)
        (new,) = (f"s{k}" for k in (3, 4, 5) if f":{k + 1}:" in sending.path())
        assert set(watched(session)) == {"s0", new, "s1", old}, "the old one last, for what was under way"
        sending.arrives()
        until(lambda: watched(session)[new].packets > 100)
        session.heal()
        session.reroute("h1-h2", old)
        assert entries(session) == {"s0": 1, old: 1, "s1": 1, new: 1}
        assert session.provision().deleted == 0, "they are no litter"
        assert session.verify().verified
        sending.arrives()
        until(lambda: min(at.packets for at in watched(session).values()) > 100)
        session.watch_flows(False)
        assert (watched(session), entries(session)) == ({}, {})
        sending.arrives()


def test_what_switches_count_of_a_flow(session: Session, tmp_path: Path) -> None:
    session.place(str(jobs(tmp_path, {"collective": "ring-all-reduce", "hosts": "all"})), watch=True)
    with Sending(session, "h1", "h2"):
        until(lambda: min((at.packets for at in watched(session).values()), default=0) > 500)
        cells = watched(session)
        (row,) = session.flows().flows
        assert row.packets + row.duplicates > 500
    session.watch_flows(False)
    assert len(cells) == 3
    for at in cells.values():
        # Frames of 1102 bytes, the last one of a message 4 longer; cells are read one after the other.
        assert at.bytes / at.packets == pytest.approx(1102, rel=0.01)
        assert abs(sum(at.delays) - at.packets) < 100
        assert at.ecn_packets <= at.packets
    assert entries(session) == {}


def test_metrics_are_what_prometheus_reads(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sending(session, "h1", "h2"):
        session.watch_flows(True)
        monkeypatch.setattr(metrics_command, "running", lambda: session)
        server = scrape.make_server("127.0.0.1:0", metrics_command._current)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{server.server_address[1]}/metrics", timeout=PATIENCE_S
            ) as answer:
                page = answer.read().decode()
        finally:
            server.shutdown()
            server.server_close()
        families = {family.name: family for family in text_string_to_metric_families(page)}
        (packets,) = families["detour_flow_received_packets"].samples
        assert packets.labels["flow"] == "h1-h2"
        assert packets.value > 0
        ports = {(s.labels["switch"], s.labels["port"]) for s in families["detour_port_queue_packets"].samples}
        assert len(ports) == 2 * 9 + 6
        assert families["detour_placement_flows"].samples[0].value == 6
        for name in ("throughput_bytes_per_second", "throughput_drop_ratio", "ecn_ratio", "queuing_delay_seconds"):
            assert len(families[f"detour_flow_{name}"].samples) == 1
        assert len(families["detour_switch_flow_packets"].samples) == 3
        delays = families["detour_switch_flow_queuing_delay_seconds"].samples
        buckets = [s for s in delays if s.name.endswith("_bucket") and s.labels["switch"] == "s0"]
        assert [s.labels["le"] for s in buckets][0::15] == ["1.5e-05", "0.524287"]
        assert buckets[-1].labels["le"] == "+Inf"
        assert [s.value for s in buckets] == sorted(s.value for s in buckets)
        session.watch_flows(False)
        with pytest.raises(DetourError, match="expected an address"):
            scrape.make_server("nowhere", str)
