# SPDX-License-Identifier: Apache-2.0
"""Labs in virtual time, by numbers that can be worked out: times, rates, queues, losses, and that runs repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forwarding_lab import write_app, write_tutorial
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from detour.base.cores import THREADS
from detour.base.errors import DetourError
from detour.fabric.labs.boot import LinkDefaults
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import LabEnd
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.results import MOST_SAMPLES, LabSampler
from detour.fabric.labs.running import lab_traces
from detour.fabric.labs.virtual import DEFAULTS, VirtualLab, open_lab
from detour.fabric.labs.workloads import activities_of

MS = 10**9


@contextmanager
def booted(folder: Path, defaults: LinkDefaults = DEFAULTS) -> Iterator[VirtualLab]:
    lab = read_lab(LabFolder.given(str(folder)))
    with VirtualLab(lab, contents_of(lab, programs_of(lab)), defaults) as virtual:
        yield virtual


def run(virtual: VirtualLab, workload: str, duration_ps: int | None = None) -> dict[str, Any]:
    jobs = virtual.do(activities_of(virtual.lab, workload))
    virtual.run_until_over(jobs, duration_ps)
    return virtual.results(jobs)


def port(document: dict[str, Any], switch: str, number: int) -> dict[str, Any]:
    return next(p for p in document["ports"] if (p["switch"], p["port"]) == (switch, number))


@pytest.fixture
def tutorial_lab(tmp_path: Path) -> Path:
    return write_tutorial(tmp_path / "tutorial")


def test_a_ping_takes_what_links_take(tutorial_lab: Path) -> None:
    with booted(tutorial_lab) as virtual:
        document = run(virtual, "ping:src=h1,dst=h2,count=2")
    # 98 bytes at 100, 10 and 100 Mb/s, and 10, 100 and 10 us: there and back.
    expected = 2 * (2 * 98 * 8 / 100 + 98 * 8 / 10 + 120)
    (ping,) = document["pings"]
    assert (ping["sent"], ping["received"]) == (2, 2)
    assert ping["rtt_min_us"] == ping["rtt_max_us"] == pytest.approx(expected, abs=0.001)
    assert (document["flows"], document["completed"], document["bytes"]) == (2, 2, 112)
    assert document["fct_us"]["p50"] == pytest.approx(expected, abs=0.001)


def test_links_that_say_nothing_are_as_asked(tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", (19_090, 19_091), (19_190, 19_191))
    with booted(folder, LinkDefaults(rate_bps=10**8, delay_ps=10**7)) as virtual:
        document = run(virtual, "ping:src=h1,dst=h2,count=1")
    # The middle says 10 Mb/s and no delay.
    expected = 2 * (2 * 98 * 8 / 100 + 98 * 8 / 10 + 30)
    assert document["pings"][0]["rtt_min_us"] == pytest.approx(expected, abs=0.001)


def test_a_bottleneck_carries_its_rate_and_drops_the_rest(tutorial_lab: Path) -> None:
    with booted(tutorial_lab) as virtual:
        document = run(virtual, "udp:src=h1,dst=h2,rate=20M,time=100ms")
    (stream,), middle = document["udp"], port(document, "s1", 2)
    assert middle["queue_peak_packets"] == 64
    assert stream["sent"] == 250
    assert stream["lost"] == middle["queue_drops"] == document["drops"] > 50
    assert stream["received"] == middle["tx_packets"]
    assert stream["mbps"] == pytest.approx(10 * 1000 / 1042, rel=0.02)
    assert document["completed"] == 0


def test_a_connection_delivers_every_byte(tutorial_lab: Path) -> None:
    with booted(tutorial_lab) as virtual:
        document = run(virtual, "tcp:src=h1,dst=h2,bytes=20k")
    (flow,) = document["tcp"]
    assert (flow["to"], flow["acked_bytes"], document["completed"]) == ({"h2": 20_000}, 20_000, 1)
    assert document["delivered_bytes"] == 20_000


def test_loss_loses(tutorial_lab: Path) -> None:
    with booted(tutorial_lab, LinkDefaults(loss=0.2)) as virtual:
        document = run(virtual, "udp:src=h1,dst=h2,rate=4M,time=100ms")
    assert 0 < document["udp"][0]["lost"] < 50
    assert document["drops"] == document["udp"][0]["lost"]


def test_the_number_of_threads_changes_nothing(tutorial_lab: Path) -> None:
    documents = []
    for threads in (1, 2, 3):
        with THREADS.set_to(threads), booted(tutorial_lab, LinkDefaults(loss=0.02)) as virtual:
            virtual.network.set_jitter()
            documents.append(run(virtual, "tcp:src=h1,dst=h2,bytes=200k; udp:src=h2,dst=h1,rate=4M,time=50ms"))
            assert virtual.network.threads == threads
    assert documents[0]["drops"] > 0
    assert documents[0] == documents[1] == documents[2]


def test_traces_say_on_which_link_a_frame_was_lost(tutorial_lab: Path) -> None:
    with booted(tutorial_lab) as virtual, lab_traces(virtual.booted, "src h1", 100) as traces:
        virtual.network.set_faults(virtual.booted.port(LabEnd("s1", 2)), loss=0.5)
        document = run(virtual, "udp:src=h1,dst=h2,rate=4M,time=40ms")
        assert traces is not None
        packets = traces().packets
    (stream,) = document["udp"]
    assert len(packets) == stream["sent"]
    lost = [packet for packet in packets if packet.outcomes[0]["dropped"] is not None]
    assert 0 < len(lost) == stream["lost"] < len(packets)
    for packet in packets:
        (outcome,) = packet.outcomes
        if packet in lost:
            assert [hop["switch"] for hop in packet.hops] == ["s1"]
            assert outcome["dropped"] == {"switch": "s1", "reason": "lost on the link s1-s2", "source": None}
        else:
            assert [hop["switch"] for hop in packet.hops] == ["s1", "s2"]
            assert [each["host"] for each in outcome["packets"]] == ["h2"]


def test_tables_can_be_changed_in_between(tutorial_lab: Path) -> None:
    with booted(tutorial_lab) as virtual:
        assert run(virtual, "ping:src=h1,dst=h2,count=1")["completed"] == 1
        api = virtual.booted.switches["s2"].api
        api.standard.bm_mt_set_default_action("TheIngress.t", "TheIngress.drop", [])
        api.standard.bm_mt_clear_entries("TheIngress.t", False)
        assert run(virtual, "ping:src=h1,dst=h2,count=1")["completed"] == 0


def test_nothing_is_made_of_a_lab_with_a_wrong_entry(tutorial_lab: Path) -> None:
    file = tutorial_lab / "s2-runtime.json"
    file.write_text(file.read_text().replace("TheIngress.to", "TheIngress.fro"))
    lab = read_lab(LabFolder.given(str(tutorial_lab)))
    with pytest.raises(DetourError, match=r"s2-runtime.json, line \d+: there is no action 'TheIngress.fro'; there is"):
        contents_of(lab, programs_of(lab))


def test_entries_that_a_table_refuses_have_their_line(tutorial_lab: Path) -> None:
    file = tutorial_lab / "s1-runtime.json"
    file.write_text(file.read_text().replace('"hdr.h.a": 6', '"hdr.h.a": 2'))
    with pytest.raises(DetourError, match=r"s1-runtime.json, line \d+: s1: "), booted(tutorial_lab):
        pass


def test_commands_have_their_line(tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", (19_090, 19_091), (19_190, 19_191))
    (folder / "s2-commands.txt").write_text("\ntable_add t fly 2 => 1\n")
    lab = read_lab(LabFolder.given(str(folder)))
    with pytest.raises(DetourError, match=r"s2-commands.txt:2: .*fly"):
        contents_of(lab, programs_of(lab))


def test_changes_happen_at_exact_times_and_repeat(tutorial_lab: Path) -> None:
    def driven(change_ps: int) -> dict[str, Any]:
        with open_lab(tutorial_lab, seed=3, jitter_ps=0) as lab:
            jobs = lab.do("udp:src=h1,dst=h2,rate=8M,time=30ms")  # a datagram of 1000 bytes every ms
            assert lab.run_until(change_ps) == lab.now_ps == change_ps
            lab.cli("s2", "table_clear TheIngress.t")
            lab.run_until(40 * MS)
            return lab.results(jobs)

    # From h1 to s2's ingress: 1042 bytes at 100 and at 10 Mb/s, and 110 us.
    way = 1042 * 8 * (10**4 + 10**5) + 110 * 10**6
    before, after = driven(10 * MS + way - 1), driven(10 * MS + way + 10**6)
    assert after["udp"][0]["received"] - before["udp"][0]["received"] == 1
    assert driven(10 * MS + way - 1) == before
    with open_lab(tutorial_lab) as lab, pytest.raises(DetourError, match="s1:2: Invalid table name"):
        lab.cli("s1", "table_num_entries t\ntable_clear nothing")


def test_frames_come_to_whom_they_come(tutorial_lab: Path, tmp_path: Path) -> None:
    frames = [Ether(dst=dst, type=0x1234) / Raw(bytes(50)) for dst in ("06:00:00:00:00:02", "22:00:00:00:00:00")]
    wrpcap(str(tmp_path / "two.pcap"), frames)
    with booted(tutorial_lab) as virtual:
        document = run(virtual, f"frames:src=h1,file={tmp_path}/two.pcap,count=3,interval=1ms")
    assert document["frames"] == [{"src": "h1", "sent": 6, "came_to": {"h2": 3}}]
    assert document["flows"] == 0


# -- queues, ports and receivers over time, and their picture ------------------------------------------------


ECN = Path(__file__).parents[3] / "docs" / "labs" / "ecn"
OVERLOAD = "udp:src=h1,dst=h3,rate=20M,ecn=1,time=200ms"
WITHOUT_MATPLOTLIB = "plots need matplotlib"


def _run(sampled: bool) -> tuple[dict[str, object], LabSampler | None]:
    lab = read_lab(LabFolder.given(str(ECN)))
    with VirtualLab(lab, contents_of(lab, programs_of(lab))) as virtual:
        jobs = virtual.do(activities_of(lab, OVERLOAD))
        sampler = LabSampler(virtual.booted, jobs) if sampled else None
        virtual.run_until_over(jobs, None, sampler=sampler)
        return virtual.results(jobs), sampler


def test_looking_on_changes_nothing_and_sees_the_queue_fill() -> None:
    plain, _ = _run(False)
    seen, sampler = _run(True)
    assert seen == plain
    assert sampler is not None
    series = sampler.series()
    assert len(series.times_ps) <= MOST_SAMPLES
    assert (np.diff(series.times_ps) > 0).all()
    bottleneck = series.ports.index("s1-3 (to s2-p2)")
    queue = series.queue_packets[:, bottleneck]
    # 20 Mb/s onto 10: the 64 places are full after about 50 ms, and empty again 50 ms after the last packet.
    assert queue.max() == 64
    assert queue[np.searchsorted(series.times_ps, 25 * 10**9)] == pytest.approx(32, abs=4)
    assert queue[-1] == 0
    (row,) = plain["udp"]  # type: ignore[misc]
    assert series.flows == (f"h1:{row['sport']} to 10.0.3.3:5201",)
    assert series.marked[-1, 0] == row["marked"] > 0
    assert series.queue_drops[-1, bottleneck] == row["lost"]
    assert series.delivered[-1, 0] == plain["delivered_bytes"]


def test_the_picture_is_written_and_a_missing_folder_is_told_before_anything_runs(
    tmp_path: Path, refused: Callable[..., str], run_json: Callable[..., Any]
) -> None:
    pytest.importorskip("matplotlib", reason=WITHOUT_MATPLOTLIB)
    picture = tmp_path / "ecn.svg"
    assert run_json("sim", "--lab", str(ECN), "--plot", str(picture))["completed"] == 18
    drawn = picture.read_text()
    assert "<svg" in drawn
    assert "there is no folder" in refused("sim", "--lab", str(ECN), "--plot", str(tmp_path / "none" / "ecn.svg"))
