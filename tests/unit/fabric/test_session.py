# SPDX-License-Identifier: Apache-2.0
"""A whole fabric on each backend: boot, tables, traffic, failures, captures. One body for all three."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from msgspec import UNSET
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import ICMPv6TimeExceeded, IPv6
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgReader

from detour.base.addresses import parse
from detour.base.errors import DetourError, WriteError
from detour.base.records import as_json
from detour.control import schema
from detour.control.entries import Plan, TableEntry
from detour.engine.bmv2api.client import connect
from detour.fabric.backends.bmv2.fabric import Bmv2Fabric
from detour.fabric.backends.network import NetworkFabric
from detour.fabric.operations.registry import NOT_SENT, OPERATIONS
from detour.fabric.operations.results import Captured, LinkUses, SentMessage
from detour.fabric.operations.session import Session
from tests.full_disk import small_files
from tests.unit.fabric.sessions import TARGETS, on
from tests.waiting import PATIENCE_S, until

TOPOLOGY = "dragonfly:p=1,a=2,h=1"  # 3 groups, 6 switches, 6 hosts


@pytest.fixture(scope="module", params=TARGETS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    running = on(request.param, TOPOLOGY)
    yield running
    running.close()
    running.close()


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"status", "clients"}))
def test_operations_are_carried_out_as_they_are_declared(session: Session, name: str) -> None:
    declared, method = OPERATIONS[name], session.method(name)
    hints = get_type_hints(method)
    assert hints.pop("return") == declared.result
    assert {key: kind for key, kind in hints.items() if key not in NOT_SENT} == declared.parameters
    assert list(inspect.signature(method).parameters) == list(declared.all_arguments(dict.fromkeys(hints)))


def test_status(session: Session) -> None:
    status = session.status()
    json.dumps(as_json(status))
    assert (status.switches, status.hosts, status.failures) == (6, 6, [])
    assert status.entries > 6 * 20
    assert [e.device_id for e in status.endpoints.values()] == [1, 2, 3, 4, 5, 6]


def test_a_packet_is_traced_through_the_switches_that_it_passes(session: Session) -> None:
    for sport in (0, 0x8001):
        trace = session.trace("h0", "h5", sport=sport, length=100)
        expected = session.path("h0", "h5", sport=sport)
        assert [hop["switch"] for hop in trace.hops] == [hop.switch for hop in expected.hops]
        assert [packet["host"] for ending in trace.outcomes for packet in ending["packets"]] == ["h5"]
        times = [hop["at_ns"] for hop in trace.hops]
        assert times == sorted(times)
        queues = [event for hop in trace.hops for event in hop["trace"]["events"] if event["kind"] == "queue"]
        assert len(queues) == len(trace.hops)
        assert (trace.note is UNSET) == (session.fabric.target != "bmv2")
    ways = session.trace("h0", "h5", sport=0x8001, all_ways=True)
    assert sum(ending["fraction"] for ending in ways.outcomes) == pytest.approx(1)


def test_tables_are_read_when_they_are_asked_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = session.control.read

    def reading(devices: list[int] | None = None) -> Plan:
        read.extend(devices or [])
        return real(devices)

    monkeypatch.setattr(session.control, "read", reading)
    before = session.path("h0", "h5", sport=3)
    devices = sorted(int(hop.switch[1:]) + 1 for hop in before.hops)
    unknown = [] if isinstance(session.fabric, NetworkFabric) else devices  # BMv2 does not say what was written since
    read.clear()
    (path,) = session.send("h0", "h5", 1000, sport=3).paths
    assert path.switches == [hop.switch for hop in before.hops]
    assert sorted(read) == unknown
    (switch, *_) = devices
    held = real([switch])
    kept = [entity for entity in held[switch] if not isinstance(entity, TableEntry) or entity.table != schema.ROUTE]
    session.control.rewrite(held, {switch: kept})  # as another controller would
    assert "no route" in session.path("h0", "h5", sport=3).outcome
    session.provision()
    assert session.path("h0", "h5", sport=3) == before


def test_what_others_write_is_seen(session: Session) -> None:
    fabric = session.fabric
    if not isinstance(fabric, NetworkFabric):
        return
    before = session.path("h0", "h5", sport=3)
    with connect(parse(fabric.serving.details().thrift, "Thrift"), "s0") as connection:
        connection.standard.bm_mt_clear_entries(schema.ROUTE, False)
    assert "no route" in session.path("h0", "h5", sport=3).outcome
    session.provision()
    assert session.path("h0", "h5", sport=3) == before


def test_a_host_that_is_cut_off_says_so_at_once(session: Session) -> None:
    session.fail("s0-h0")
    try:
        with pytest.raises(DetourError, match=r"no packet of h0 reaches h5: h0 has lost its link to s0 \(down: s0-h0;"):
            session.send("h0", "h5", 1000)
        with pytest.raises(DetourError, match="no packet of h5 reaches h0: ends at s"):
            session.send("h5", "h0", 1000)
        assert session.send("h1", "h5", 1000).bytes_ok == 1000
    finally:
        session.heal()


def test_what_cannot_be_opened_leaves_nothing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = session.fabric.device
    real = device.take

    def free() -> tuple[int, ...]:
        rows = len(device._free_mrs), len(device._free_qps), len(device._free_cqs)
        return *rows, sum(room for _, room in device._free)

    def refuse(what: str, number: int) -> None:
        left = itertools.count(1)

        def take(kind: str) -> int:
            if kind == what and next(left) == number:
                raise DetourError("all rows are in use")
            return real(kind)

        monkeypatch.setattr(device, "take", take)

    session.send("h0", "h5", 1000)
    before = free()
    cases = [(session.send, what, number) for what in ("mr", "qp") for number in (1, 2)]
    cases += [(session.probe, what, number) for what in ("cq", "qp") for number in (1, 2)]
    for ask, what, number in cases:
        refuse(what, number)
        with pytest.raises(DetourError, match="all rows are in use"):
            ask("h0", "h5")
        assert free() == before
    monkeypatch.undo()
    (tmp_path / "file").write_text("text")
    with pytest.raises(DetourError, match="cannot be written") as caught:
        session.send("h0", "h5", file=str(tmp_path / "file"), store=str(tmp_path / "no" / "file"))
    assert caught.tb is not None  # what raised it still has its variables
    assert str(tmp_path / "file") not in [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]


def test_captures_that_find_no_room_say_so(session: Session, tmp_path: Path) -> None:
    assert session.status().capture is UNSET
    with small_files(20_000):
        session.capture(str(tmp_path))
        assert session.status().capture == session.capture() != Captured(None, [])
        assert session.capture().error is None
        error = until(lambda: session.send("h0", "h5", 100_000) and session.capture().error)
        assert "incomplete since" in str(error)
        assert "File too large" in str(error)
        assert session.status().capture == session.capture()
        with pytest.raises(WriteError, match="incomplete since"):
            session.capture(stop=True)
    for file in tmp_path.iterdir():
        list(PcapNgReader(str(file)))  # whole packets
        assert 0 < file.stat().st_size <= 20_000
    assert session.status().capture is UNSET


def test_packets_are_traced_as_they_pass(session: Session) -> None:
    if session.fabric.target == "bmv2":
        with pytest.raises(DetourError, match="`detour up --target engine`"):
            session.trace_live("src h1")
        return
    traced = threading.Event()

    def send() -> None:
        while not traced.is_set():
            session.send("h1", "h4", length=200_000, sport=3)

    sender = threading.Thread(target=send)
    if session.fabric.target == "virtual":  # time passes while one of them waits
        assert session.trace_live("src h1 and dst h4", seconds=0.001).packets == []
        return
    sender.start()
    try:
        live = session.trace_live("src h1 and dst h4 and sport 3", count=2, seconds=PATIENCE_S)
    finally:
        traced.set()
        sender.join()
    assert len(live.packets) == 2
    # A packet that was on its way when tracing began is seen from there on.
    path = {hop.switch for hop in session.path("h1", "h4", sport=3).hops}
    assert all(hop["switch"] in path for packet in live.packets for hop in packet.hops)
    with pytest.raises(DetourError, match="position 5"):
        session.trace_live("src h99")


def test_a_link_is_impaired_and_as_it_was_again(session: Session) -> None:
    slow = session.impair("s0:2", rate=0.5)
    (name,) = [row.link for row in slow.links]
    assert [(row.rate, row.loss) for row in slow.links] == [(0.5, 0.0)]
    if session.fabric.target == "bmv2":
        with pytest.raises(DetourError, match="have no random loss"):
            session.impair(name, loss=0.1)
    else:
        assert [(row.rate, row.loss) for row in session.impair(name, loss=0.1).links] == [(0.5, 0.1)]
        host = session.impair("h0", loss=0.05)
        assert [row.link for row in host.links] == ["s0-h0", name]
        assert session.send("h0", "h5", 100_000).retransmitted > 0
    refused: list[tuple[dict[str, Any], str]] = [
        ({"link": "s0"}, "'s0' is a switch"),
        ({"link": "s0-s9"}, "s9"),
        ({"rate": 0.5}, "name a link"),
        ({"link": name}, "is missing"),
        ({"link": name, "rate": 0.0}, "above 0"),
        ({"link": name, "loss": 1.0}, "below 1"),
        ({"clear": True, "rate": 0.5}, "or --clear"),
    ]
    for arguments, message in refused:
        with pytest.raises(DetourError, match=message):
            session.impair(**arguments)
    assert session.impair(clear=True).links == session.impair().links == []
    # on the wall clock a machine under load drops packets of its own: once without a loss is proof enough,
    # for the impairments above would let 100 packets pass with a probability below 1 %
    assert any(session.send("h0", "h5", 100_000).retransmitted == 0 for _ in range(5))


def test_provisioning_again_writes_nothing(session: Session) -> None:
    again = session.provision()
    assert (again.inserted, again.modified, again.deleted) == (0, 0, 0)
    assert again.unchanged == again.entries == session.control.entries


def test_verified_from_what_the_switches_hold(session: Session) -> None:
    report = session.verify()
    assert report.verified
    assert report.pairs == 30
    json.dumps(as_json(report))


def test_entries_and_counters(session: Session) -> None:
    held = session.entries("s2", "route")
    assert list(held) == ["s2"]
    assert {row.table for row in held["s2"]} == {"FabricIngress.router.route"}
    assert sum(map(len, session.entries().values())) >= session.control.entries
    with pytest.raises(DetourError, match="no table 'nope'; allowed: config, local_sid"):
        session.entries("s2", "nope")
    before = session.counters("s0")["s0"].ports["1"].rx_packets
    session.send("h0", "h5", 5000)
    assert session.counters("s0")["s0"].ports["1"].rx_packets >= before + 5
    with pytest.raises(DetourError, match="has s0 to s5"):
        session.counters("s6")


def test_a_message_arrives_over_a_chosen_path(session: Session) -> None:
    result = session.send("h0", "h5", 20_000, sport=0x8001)
    assert result.bytes_ok == 20_000
    assert result.throughput_mbps > 0
    (used,) = result.paths
    assert used.packets == 20 + result.retransmitted
    assert used.switches == [hop.switch for hop in session.path("h0", "h5", 0x8001).hops]
    groups = [int(name[1:]) // 2 for name in used.switches]
    assert [g for g, _ in itertools.groupby(groups)] == [0, 1, 2]
    assert 0 <= (result.queuing_delay_ns.min or 0) <= (result.queuing_delay_ns.max or 0)


def test_a_message_arrives_over_a_list_of_usids(session: Session) -> None:
    path = session.path("h0", "h5", usid="s1,s3")
    assert path.delivered
    (used,) = session.send("h0", "h5", 3000, usid="s1,s3").paths
    assert used.switches == [hop.switch for hop in path.hops]
    assert {"s1", "s3"} <= set(used.switches)
    assert session.send("h0", "h5", 3000, usid="s1,s3,s5,h5").bytes_ok == 3000


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 64_001])
def test_any_length(session: Session, length: int) -> None:
    assert session.send("h1", "h2", length).bytes_ok == length


def test_a_file_is_sent_and_stored(session: Session, tmp_path: Path) -> None:
    data = bytes(range(256)) * 500
    (tmp_path / "in").write_bytes(data)
    result = session.send("h3", "h4", file=str(tmp_path / "in"), store=str(tmp_path / "out"))
    assert result.bytes_ok == len(data)
    assert (tmp_path / "out").read_bytes() == data


def test_probing(session: Session) -> None:
    result = session.probe("h0", "h5")
    assert len(result.paths) == 2  # |G| - 1
    assert all(row.delay_ns is not None for row in result.paths)
    assert result.paths[0].switches != result.paths[1].switches


def test_watching(session: Session) -> None:
    def busy() -> set[str]:
        uses: list[LinkUses] = []
        watcher = threading.Thread(target=lambda: uses.append(session.watch(0.5)))
        watcher.start()
        while watcher.is_alive():
            session.send("h0", "h1", 20_000)
        assert len(uses[0].links) == 6 + 2 * 6
        return {row.from_ for row in uses[0].links if row.mbps > 0}

    until(busy)  # on a busy machine nothing may have been sent in half a second


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"source": "h0", "target": "h0"}, "must differ"),
        ({"source": "h0", "target": "h6"}, "has h0 to h5"),
        ({"source": "s0", "target": "h1"}, "host 's0'"),
        ({"source": "h0", "target": "h1", "length": 0}, "at least 1"),
        ({"source": "h0", "target": "h5", "usid": "s9"}, "has s0 to s5"),
        ({"source": "h0", "target": "h5", "usid": "s1,s2,s3,s4,s1,s2"}, "1 to 6 uSIDs"),
        ({"source": "h0", "target": "h5", "file": "/nothere"}, "No such file"),
    ],
)
def test_what_cannot_be_sent(session: Session, arguments: dict, says: str) -> None:
    with pytest.raises(DetourError, match=says):
        session.send(**arguments)


def test_cancelled(session: Session) -> None:
    cancelled = threading.Event()
    reports: list[str] = []

    def progress(text: str) -> None:
        reports.append(text)
        cancelled.set()

    with pytest.raises(DetourError, match="cancelled after"):
        session.send("h0", "h5", 50_000_000, progress=progress, cancelled=cancelled)
    assert session.send("h0", "h5", 1000).bytes_ok == 1000


def test_traffic_goes_on_after_failures(session: Session) -> None:
    direct = session.path("h0", "h5", 0).hops
    at = direct[0]
    failed = session.fail(f"{at.switch}:{at.out_port}")
    assert failed.modified + failed.deleted > 0
    assert failed.failures == [failed.failed]
    assert session.verify().verified
    assert session.path("h0", "h5", 0).hops != direct
    assert session.send("h0", "h5", 20_000).bytes_ok == 20_000
    with pytest.raises(DetourError, match="is already down"):
        session.fail(failed.failed)
    healed = session.heal(failed.failed)
    assert healed.failures == []
    assert session.path("h0", "h5", 0).hops == direct
    assert session.send("h0", "h5", 20_000).bytes_ok == 20_000


def test_a_switch_fails_and_comes_back(session: Session) -> None:
    session.fail("s1")
    report = session.verify()
    assert report.verified
    assert report.disconnected == 10
    assert session.send("h0", "h5", 5000).bytes_ok == 5000
    assert not session.path("h0", "h1").delivered
    session.fail("h4")
    assert session.heal().failures == []
    assert session.verify().disconnected == 0
    assert session.send("h4", "h1", 5000).bytes_ok == 5000
    with pytest.raises(DetourError, match="is not down"):
        session.heal("s1")


def test_a_failure_under_way_loses_nothing(session: Session) -> None:
    result: list[SentMessage] = []
    sender = threading.Thread(target=lambda: result.append(session.send("h0", "h5", 400_000)))
    sender.start()
    at = session.path("h0", "h5", 0).hops[0]
    session.fail(f"{at.switch}:{at.out_port}")
    session.heal()
    sender.join(PATIENCE_S)
    assert result[0].bytes_ok == 400_000


def test_a_hop_limit_that_ends_is_answered(session: Session, tmp_path: Path) -> None:
    """The switch hands the packet to the controller, whose answer is routed to the sender."""
    target = str(IPv6Address(session.topology.hosts[5].address))
    packet = Ether(dst="02:00:00:ff:ff:ff", src="02:00:00:00:00:00") / IPv6(src="fd00::1", dst=target, hlim=2)
    tags = itertools.count()

    def answers() -> list[Any]:
        """To a packet of its own: what a failure before made go in circles may be answered late as well."""
        tag = b"hello-%d" % next(tags)
        folder = tmp_path / tag.decode()
        folder.mkdir()
        session.fabric.capture(folder)
        before = session.status().icmp_answered
        sent = session.control.sample().port(1, 1, "tx").packets
        inject(session, bytes(packet / UDP(sport=1, dport=9) / tag))

        def answered() -> bool:
            session.fabric.clock.wait_seconds(1e-3)
            return session.status().icmp_answered > before and session.control.sample().port(1, 1, "tx").packets > sent

        until(answered)
        session.fabric.capture(None)
        frames = PcapNgReader(str(folder / "s0-1.pcapng"))
        return [frame for frame in frames if ICMPv6TimeExceeded in frame and tag in bytes(frame)]

    (answer,) = until(answers)
    assert answer[IPv6].dst == "fd00::1"
    assert answer[IPv6].src != target


def test_a_load_goes_on_until_it_is_ended(session: Session) -> None:
    with pytest.raises(DetourError, match="no load is running"):
        session.load()
    with pytest.raises(DetourError, match="there is no traffic pattern 'adv9'"):
        session.load("adv9")
    assert session.load("permutation:pairs=2,seed=3").pairs == 2
    with pytest.raises(DetourError, match="the load permutation:pairs=2,seed=3 is running"):
        session.load("unf")
    assert len(session.flows().flows) == 2

    def moves() -> bool:
        session.fabric.clock.wait_seconds(1e-3)
        return session.load().bytes_ok > 100_000

    until(moves)
    assert session.send("h0", "h5", 5_000).bytes_ok == 5_000, "others may send meanwhile"
    ended = session.load(stop=True)
    assert (ended.bytes_wrong, ended.reopened) == (0, 0)
    assert session.flows().flows == []


def test_captures_of_some_ports_on_a_fabric_that_runs(session: Session, tmp_path: Path) -> None:
    with pytest.raises(DetourError, match="no capture is running"):
        session.capture(stop=True)
    with pytest.raises(DetourError, match="s99"):
        session.capture(str(tmp_path), ["s99"])
    link = session.topology.links[-1]
    begun = session.capture(str(tmp_path), ["h0", link.name])
    assert session.capture() == begun
    with pytest.raises(DetourError, match="a capture to"):
        session.capture(str(tmp_path / "more"))
    before = time.time()
    session.send("h0", "h2", 10_000)
    assert session.capture(stop=True) == begun
    names = sorted(path.name for path in tmp_path.iterdir())
    ends = [f"s{switch}-{port}.pcapng" for switch, port in (link.a, link.b)]
    assert names == sorted(begun.files) == sorted(["s0-1.pcapng", *ends])
    stamps = [float(packet.time) for packet in PcapNgReader(str(tmp_path / "s0-1.pcapng"))]
    assert len(stamps) >= 10
    if session.fabric.target == "virtual":
        assert max(stamps) < 1000, "virtual time begins at 0"
    else:
        assert before - 1 < min(stamps) <= max(stamps) < time.time() + 1


def inject(session: Session, frame: bytes) -> None:
    """Lets host h0 send a frame of ours."""
    fabric = session.fabric
    if isinstance(fabric, NetworkFabric):
        fabric.network.inject((1, 1), frame)
    else:
        assert isinstance(fabric, Bmv2Fabric)
        with fabric._host_namespaces[0].packet_socket("eth0") as sock:
            sock.send(frame)


def test_captures(session: Session, tmp_path: Path) -> None:
    session.fabric.capture(tmp_path)
    session.send("h0", "h2", 10_000)
    session.fabric.capture(None)
    files = {path.name for path in tmp_path.iterdir()}
    ports = {f"s{s.index}-{p}.pcapng" for s in session.topology.switches for p in range(1, len(s.ports) + 1)}
    assert ports <= files  # the engine has CPU ports as well
    packets = list(PcapNgReader(str(tmp_path / "s0-1.pcapng")))
    data = [p for p in packets if BTH in p and p[IPv6].src == "fd00::1" and p[BTH].opcode in (6, 7, 8, 10, 11)]
    assert len(data) >= 10


# -- a connection that sprays over the uSID lists of a placement ---------------------------------------------


SHORT, LONG = ["s0", "s5"], ["s0", "s1", "s2", "s3", "s4", "s5"]
MESSAGE = 300_000


@pytest.fixture(params=TARGETS)
def fresh(request: pytest.FixtureRequest) -> Iterator[Session]:
    with on(request.param, TOPOLOGY) as running:
        yield running


def test_packets_take_all_lists_of_the_placement(fresh: Session, tmp_path: Path) -> None:
    pairs = [{"from": "h0", "to": "h5", "path": way} for way in (LONG, SHORT)]
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [{"collective": "point-to-point", "pairs": pairs}]}))
    assert fresh.place(str(jobs)).flows == 2
    sent = fresh.send("h0", "h5", MESSAGE, spray=True)
    assert sent.bytes_ok == MESSAGE
    assert [used.switches for used in sent.paths] == [SHORT, LONG]
    assert all("fcbb" in used.path for used in sent.paths), "lists, the shortest first"
    if fresh.fabric.target != "bmv2":  # whose switches share the machine: how often a list pays depends on its load
        assert min(used.packets for used in sent.paths) > 10


def test_without_a_placement_they_take_source_ports(fresh: Session) -> None:
    sent = fresh.send("h0", "h5", MESSAGE, spray=True)
    assert sent.bytes_ok == MESSAGE
    assert not any("fcbb" in used.path for used in sent.paths)


def test_over_planes_they_take_a_set_of_paths_and_leave_what_is_dead() -> None:
    with on("engine", "clos:planes=2,leaves=2,spines=2,hosts=1") as running:
        sent = running.send("h0", "h1", MESSAGE, spray=True)
        assert sent.bytes_ok == MESSAGE
        assert len({tuple(used.switches) for used in sent.paths}) == 4, "two planes, two spines in each"
        assert all("fcbb" in used.path for used in sent.paths)
        counts = [used.packets for used in sent.paths]
        assert max(counts) - min(counts) <= 4, "equal paths take turns"
        leaf = sent.paths[0].switches[1]
        running.fail(leaf)
        again = running.send("h0", "h1", MESSAGE, spray=True)
        assert again.bytes_ok == MESSAGE
        assert sum(used.packets for used in again.paths if leaf in used.switches) < MESSAGE / 1000 / 4
