# SPDX-License-Identifier: Apache-2.0
"""`detour switch` as a process: interfaces, files, captures, log, P4Runtime, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from finsy.proto import p4r
from running import FABRIC, Running, no_namespaces, receive

from detour.conformance import run as conformance
from detour.conformance.model import ServerUnderTest
from detour.engine import warm
from detour.engine.compiler.covering import TABLE_OUTCOME
from detour.engine.coverage.document import CoverageDocument
from detour.engine.switch import pcap
from tests.ptf.p4rt import Client, Schema
from tests.waiting import PATIENCE_S, until

TABLES = FABRIC / "bench_tables.json"
REFLECT = Path(__file__).parent / "programs" / "reflect.json"
CPU = 510


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """A switch listens at once, but forwards when its loop is compiled; tests would have to wait in many places."""
    warm.ensure(print)


needs_interfaces = pytest.mark.skipif(bool(no_namespaces()), reason=no_namespaces())


def keyed(key: int) -> bytes:
    """A packet for bench_tables.p4: on port 1 the first eight bytes are looked up; unknown ones go to port 8."""
    return key.to_bytes(8, "big") + bytes(range(56))


TABLES_INFO = Schema.load(FABRIC / "bench_tables.p4info.txtpb")


def program_tables(controller: Client) -> None:
    """bench_tables.p4, with 5 to port 2."""
    controller.set_pipeline(TABLES_INFO.config(TABLES.read_bytes()))
    controller.insert(TABLES_INFO.entry("by_exact", {"hdr.keys.exact_key": 5}, ("forward", {"port": 2})))


def program_fabric(controller: Client) -> None:
    controller.set_pipeline(Schema.load(FABRIC / "fabric.p4info.txtpb").config((FABRIC / "fabric.json").read_bytes()))


@needs_interfaces
def test_a_program_from_the_command_line_runs_without_a_controller(tmp_path: Path) -> None:
    with Running(tmp_path, [str(TABLES)], ports=(1, 8)) as switch:
        switch.wait_for("Server listening on ")
        assert "Adding interface s1 as port 1\nAdding interface s8 as port 8\n" in switch.output()
        sender, receiver = switch.packet_socket(1), switch.packet_socket(8)
        sender.send(keyed(5))
        assert receiver.recv(2000) == keyed(5)
        assert switch.end() == 0
        assert not (tmp_path / "p4runtime").exists()


@needs_interfaces
def test_tags_and_long_frames_pass_unchanged(tmp_path: Path) -> None:
    with Running(tmp_path, [str(REFLECT)], ports=(0,)) as switch:
        switch.wait_for("Server listening on ")
        switch.inside("ip", "link", "set", "s0", "mtu", "9000")
        switch.inside("ip", "link", "set", "t0", "mtu", "9000")
        far = switch.packet_socket(0)
        macs = bytes.fromhex("020000000001020000000002")
        for frame in (
            macs + bytes.fromhex("8100600a0800") + bytes(60),
            macs + bytes.fromhex("88a8000581006003") + bytes(70),
            macs + b"\x88\xb5" + bytes(range(256)) * 35,
            macs + b"\x88\xb5",
        ):
            far.send(frame)
            assert receive(far) == frame


@needs_interfaces
def test_an_interface_may_go_down_and_come_back(tmp_path: Path) -> None:
    with Running(tmp_path, [str(REFLECT)], ports=(1, 2)) as switch:
        switch.wait_for("Server listening on ")
        for _ in range(3):
            switch.inside("ip", "link", "set", "s1", "down")
            other = switch.packet_socket(2)
            other.send(keyed(1))
            assert other.recv(2000) == keyed(1)
            switch.inside("ip", "link", "set", "s1", "up")
            far = switch.packet_socket(1)
            far.send(keyed(2))
            assert far.recv(2000) == keyed(2)


@needs_interfaces
def test_a_port_without_a_link_is_down_for_p4runtime(tmp_path: Path) -> None:
    with Running(tmp_path, ["--no-p4", "--device-id", "1"], ports=(1, 2), target=["--cpu-port", str(CPU)]) as switch:
        switch.wait_for("Server listening on ")
        for port, verdict in ((2, "pass"), (1, "fail")):
            switch.inside("ip", "link", "set", "t2", "down")
            report = conformance.run(ServerUnderTest(switch.address, down_port=port), ["9.2"])
            verdicts = {result.id: result.verdict for result in report.results}
            assert verdicts.pop("data.watch_port") == verdict
            assert set(verdicts.values()) == {"pass"}


@needs_interfaces
def test_what_packets_reach_is_written_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "coverage"
    with Running(tmp_path, [str(TABLES), "--coverage", str(file)], ports=(1, 8)) as switch:
        switch.wait_for("Server listening on ")
        sender, receiver = switch.packet_socket(1), switch.packet_socket(8)
        for key in (5, 6):
            sender.send(keyed(key))
            assert receiver.recv(2000) == keyed(key)
        assert not file.exists()
        assert switch.end() == 0
    (program,) = CoverageDocument.read([file]).programs.values()
    looked_up = {(p.name, p.outcome): p.hits for p in program.of_kind(TABLE_OUTCOME)}
    assert looked_up["BenchIngress.by_exact", "miss"] == 2
    assert looked_up["BenchIngress.by_lpm", "miss"] == 0


@needs_interfaces
def test_p4runtime_programs_it(tmp_path: Path) -> None:
    with Running(tmp_path, ["--no-p4", "--device-id", "7"], ports=(1, 2, 8)) as switch:
        switch.wait_for("Server listening on ")
        with Client(switch.address, 7) as controller:
            program_tables(controller)
            sender, second, eighth = (switch.packet_socket(port) for port in (1, 2, 8))
            sender.send(keyed(5))
            sender.send(keyed(6))
            assert second.recv(2000) == keyed(5)
            assert eighth.recv(2000) == keyed(6)


@needs_interfaces
def test_the_drop_port_may_be_another(tmp_path: Path) -> None:
    with Running(tmp_path, [str(TABLES)], ports=(1, 2), target=["--drop-port", "8"]) as switch:
        switch.wait_for("Server listening on ")
        with Client(switch.address, 0) as controller:
            program_tables(controller)
        sender, receiver = switch.packet_socket(1), switch.packet_socket(2)
        sender.send(keyed(6))  # to port 8: dropped
        sender.send(keyed(5))
        assert receiver.recv(2000) == keyed(5)


@needs_interfaces
def test_captures_are_complete_while_it_runs(tmp_path: Path) -> None:
    pcaps = tmp_path / "pcaps"
    pcaps.mkdir()
    with Running(tmp_path, [str(TABLES), "--pcap", str(pcaps)], ports=(1, 8)) as switch:
        switch.wait_for("Server listening on ")
        sender, receiver = switch.packet_socket(1), switch.packet_socket(8)
        begin = time.time_ns()
        sender.send(keyed(5))
        receiver.recv(2000)
        until(lambda: (pcaps / "s8_out.pcap").stat().st_size > 24)
        end = time.time_ns()
        assert sorted(path.name for path in pcaps.iterdir()) == [
            "s1_in.pcap", "s1_out.pcap", "s8_in.pcap", "s8_out.pcap",
        ]  # fmt: skip
        for name in ("s1_in", "s8_out"):
            (frame,) = pcap.read(pcaps / f"{name}.pcap")
            assert frame.data == keyed(5)
            assert abs(frame.time_ns - (begin + end) / 2) <= (end - begin) / 2 + 1_000_000
        for name in ("s1_out", "s8_in"):
            assert list(pcap.read(pcaps / f"{name}.pcap")) == []


@needs_interfaces
def test_packets_and_log_msg_are_logged(tmp_path: Path) -> None:
    line = [str(REFLECT), "--log-file", str(tmp_path / "log"), "--dump-packet-data", "4", "-L", "info"]
    with Running(tmp_path, line, ports=(3,)) as switch:
        switch.wait_for("Server listening on ")
        far = switch.packet_socket(3)
        far.send(keyed(0x0102030405060708))
        assert far.recv(2000) == keyed(0x0102030405060708)
        log = tmp_path / "log.txt"
        until(lambda: "bytes from" in log.read_text() and "Sending" in log.read_text())
        written = log.read_text()
        assert "[I] " in written
        assert "Received packet of length 64 on port 3: 01020304\n" in written
        assert "Sending packet of length 64 on port 3: 01020304\n" in written
        assert "64 bytes from port 3\n" in written


@needs_interfaces
def test_an_interface_that_is_missing_leaves_the_others(tmp_path: Path) -> None:
    line = [str(REFLECT), "--log-console", "-i", "4@nonesuch"]
    with Running(tmp_path, line, ports=(3,)) as switch:
        switch.wait_for("there is no interface nonesuch: port 4 is not attached")
        assert "Add port operation failed" in switch.output()
        far = switch.packet_socket(3)
        far.send(keyed(1))
        assert far.recv(2000) == keyed(1)


def test_packets_to_and_from_the_controller(tmp_path: Path) -> None:
    with Running(tmp_path, ["--no-p4"], target=["--cpu-port", str(CPU)]) as switch:
        switch.wait_for("Server listening on ")
        with Client(switch.address, 0) as controller:
            program_fabric(controller)
            controller.packet_out(keyed(5), {1: CPU})  # fabric.p4 sends it back
            assert controller.packets.get(timeout=PATIENCE_S).payload == keyed(5)


def test_without_a_cpu_port_there_are_no_packet_outs(tmp_path: Path) -> None:
    with Running(tmp_path, ["--no-p4"]) as switch:
        switch.wait_for("Server listening on ")
        with Client(switch.address, 0) as controller:
            program_fabric(controller)
            controller.packet_out(keyed(5), {1: CPU})
            assert "CPU port" in controller.errors.get(timeout=PATIENCE_S).message


def test_files_in_place_of_interfaces(tmp_path: Path) -> None:
    frames = [pcap.packet(number, keyed(number)) for number in range(500)]
    (tmp_path / "a_in.pcap").write_bytes(pcap.header() + b"".join(frames))
    (tmp_path / "b_in.pcap").write_bytes(pcap.header())
    line = [str(TABLES), "--use-files", "0", "-i", "1@a", "-i", "8@b", "--log-console"]
    with Running(tmp_path, line) as switch:
        switch.wait_for("Pcap reader: end of all input files, 500 packets")
        assert "Adding interface a as port 1 (files)" in switch.output()
        assert switch.end() == 0
    assert [frame.data for frame in pcap.read(tmp_path / "b_out.pcap")] == [keyed(number) for number in range(500)]
    assert list(pcap.read(tmp_path / "a_out.pcap")) == []


def test_any_address_means_loopback(tmp_path: Path) -> None:
    with Running(tmp_path, ["--no-p4"], target=["--grpc-server-addr", "0.0.0.0:0"]) as switch:
        switch.wait_for("\nServer listening on 127.0.0.1:")
        switch.wait_for("P4Runtime is served on 127.0.0.1:0 only")
        (target,) = re.findall(r"\nServer listening on (.*)\n", switch.output())
        with Client(target, 0) as controller:
            request = p4r.GetForwardingPipelineConfigRequest(device_id=0)
            assert not controller.stub.GetForwardingPipelineConfig(request).config.p4_device_config


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_and_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    with Running(tmp_path, ["--no-p4"]) as switch:
        switch.wait_for("Server listening on ")
        assert switch.end(number) == 0
        assert "Traceback" not in switch.output()
    assert os.listdir(tmp_path) == ["out"]


def test_a_signal_while_it_compiles_does_not_wait_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with Running(tmp_path, ["--no-p4"]) as switch:
        switch.wait_for("building native code")
        builders = until(psutil.Process(switch.process.pid).children)
        until(lambda: list(cache.rglob("loop.lock")))  # in the middle of it
        assert switch.end() == 0
        assert "Traceback" not in switch.output()
    assert sorted(os.listdir(tmp_path)) == ["cache", "out"]
    assert [path.name for path in cache.rglob("loop*")] == ["loop.lock"]
    _, alive = psutil.wait_procs(builders, timeout=PATIENCE_S)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.6, 1.0, 1.5])
def test_a_signal_while_it_starts_ends_it_without_a_word(tmp_path: Path, seconds: float) -> None:
    """`seconds`: processor time that it has taken by then."""
    (tmp_path / "a_in.pcap").write_bytes(pcap.header())
    with Running(tmp_path, [str(TABLES), "--use-files", "0", "-i", "1@a"]) as switch:
        until(lambda: _blocks_signals(switch.process.pid))
        started, used = tmp_path / "p4runtime", psutil.Process(switch.process.pid).cpu_times
        until(lambda: sum(used()[:2]) >= seconds or started.exists())
        assert switch.end() == 0
        assert "Traceback" not in switch.output()
    assert not (tmp_path / "p4runtime").exists()


def _blocks_signals(pid: int) -> bool:
    """Whether a process waits for SIGTERM already; before that it dies of it like any other."""
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(blocked, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-p4", "--", "--grpc-server-addr", "192.0.2.1:9559"], "192.0.2.1:9559 is not a loopback address"),
        (["--no-p4", "--", "--grpc-server-addr", "nonsense"], "'nonsense' is not an address"),
        (["--no-p4", "--debugger"], "--debugger is not supported"),
        ([__file__], "BMv2 JSON"),
        (["--use-files", "0", "-i", "1@nofile", str(TABLES)], "nofile_in.pcap cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "detour.cli.switch", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2, done
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
