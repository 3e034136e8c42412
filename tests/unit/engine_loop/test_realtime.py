# SPDX-License-Identifier: Apache-2.0
"""Real time: pacing, sockets, calls from other threads, and rest when there is nothing to do."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import script_program as script
from script_program import frame

from detour.base.errors import DetourError
from detour.engine.clock import RealTime
from tests.waiting import PATIENCE_S, until, until_a_thread_rests

MS = 1_000_000_000
US = 1_000_000


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Callable[..., socket.socket]]:
    """Makes the test's side of a UNIX attachment: bound to NAME.peer, connected to NAME.

    Linux lets only ten datagrams wait at a socket that is not connected to their sender."""
    made: list[socket.socket] = []

    def build(name: str, connected: bool = True) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.append(sock)
        sock.bind(str(tmp_path / f"{name}.peer"))
        if connected:
            sock.connect(str(tmp_path / name))
        sock.settimeout(PATIENCE_S)
        return sock

    yield build
    for sock in made:
        sock.close()


def test_frames_between_sockets(real, peer, tmp_path):
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.attach_unix((1, 2), tmp_path / "b")
    real.net.start()
    a, b = peer("a"), peer("b")
    for tag in range(200):
        a.send(frame(script.UNICAST, 2, tag=tag, size=64 + tag))
        got = b.recv(5000)
        assert got[3] == tag
        assert got[16:] == frame(0, 0, tag=tag, size=64 + tag)[16:]
    real.net.stop()
    assert not (tmp_path / "a").exists()
    stats = real.net.socket_stats()
    assert stats["rx_packets"].tolist() == [200, 0]
    assert stats["tx_packets"].tolist() == [0, 200]


def test_a_burst_waits_for_a_slow_reader(real, peer, tmp_path):
    real.net.attach_unix((1, 2), tmp_path / "b", queue_packets=1000)
    b = peer("b", connected=False)
    real.net.start()
    for tag in range(100):
        real.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag))
    assert [b.recv(5000)[3] for _ in range(100)] == list(range(100))


def test_frames_for_a_reader_who_never_reads_are_dropped_and_counted(real, peer, tmp_path):
    real.net.attach_unix((1, 2), tmp_path / "b", queue_packets=5000)
    real.net.attach_unix((1, 3), tmp_path / "nobody")
    b = peer("b", connected=False)
    for tag in range(4000):
        real.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag & 0xFF))
    real.net.start()
    real.net.inject((1, 2), frame(script.UNICAST, 3))

    def settled() -> bool:
        stats = real.net.socket_stats()
        return stats["tx_packets"][0] + stats["tx_drops"][0] == 4000 and stats["count"].sum() == 0

    until(settled)
    assert real.net.socket_stats()["tx_drops"][0] > 0
    assert real.net.socket_stats()["tx_no_peer"].tolist() == [0, 1]
    assert real.net.loop_stats()["used"] == 0
    assert b.recv(5000)[3] == 0


def test_oversized_and_empty_datagrams(make, peer, tmp_path):
    bench = make(RealTime(), frame_bytes=1000)
    bench.switch()
    bench.net.attach_unix((1, 1), tmp_path / "a")
    bench.net.start()
    a = peer("a")
    for size in (1001, 1000, 16):
        a.send(frame(script.UNICAST, 1, size=size))
    a.send(b"")
    assert [len(a.recv(5000)) for _ in range(2)] == [1000, 16]
    until(lambda: bench.net.socket_stats()["rx_drops"][0] == 2)


def test_delay_is_real(real, peer, tmp_path):
    real.switch(2)
    real.net.connect((1, 2), (2, 1), 0, 50 * MS)
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.attach_unix((2, 2), tmp_path / "b")
    real.net.start()
    a, b = peer("a"), peer("b")
    begun = time.monotonic()
    a.send(frame(script.UNICAST, 2))
    b.recv(5000)
    assert time.monotonic() - begun >= 0.050


def test_queues_are_measured_in_loop_time(real):
    """Events happen at their own time, however late the wall clock let them be executed."""
    real.sink(1, 2, rate_bps=64 * 8 * 100_000)  # 10 us a frame
    real.net.start()

    def burst() -> None:
        for tag in range(50):
            real.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag), time_ps=at)

    at = real.net.now_ps + 20 * MS
    real.net.call(burst)
    real.net.run(at + 20 * MS)
    assert real.times(2) == [at + 10 * US * (n + 1) for n in range(50)]
    assert [f[14] | f[15] << 8 for f in real.frames(2)][:4] in ([0, 10, 20, 30],)


def test_call_from_many_threads(real):
    real.sink(1, 2)
    real.net.start()
    owner = real.net.call(threading.get_ident)
    assert owner != threading.get_ident()
    seen = []

    def work() -> None:
        for _ in range(50):
            seen.append(real.net.call(threading.get_ident))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert seen == [owner] * 400


def test_a_loop_that_died_is_noticed(real, monkeypatch):
    def break_down(until_ps):
        raise RuntimeError("planted")

    real.net.start()
    real.net.check()
    monkeypatch.setattr(real.net._runner, "_slice", break_down)
    real.net._runner._wake()
    real.net._runner._thread.join(PATIENCE_S)
    with pytest.raises(DetourError, match=r"the network's loop has ended: RuntimeError\('planted'\)"):
        real.net.check()
    with pytest.raises(RuntimeError, match="planted"):
        real.net.stop()


def test_call_raises_what_the_function_raises(real):
    def fail() -> None:
        raise KeyError("x")

    real.net.start()
    with pytest.raises(KeyError):
        real.net.call(fail)
    assert real.net.call(lambda: 3) == 3
    real.net.stop()
    assert real.net.call(lambda: 4) == 4


def test_call_within_call(real):
    real.net.start()
    assert real.net.call(lambda: real.net.call(lambda: 5)) == 5


def test_an_idle_network_rests(real, peer, tmp_path):
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.start()
    real.net.call(lambda: None)
    until_a_thread_rests("loop")


def test_packet_in_reaches_python_and_may_answer(real):
    real.sink(1, 3)
    real.net.set_clone_session(1, 1, [(510, 0)])
    real.net.on_packet_in(1, lambda data, time: real.net.packet_out(1, frame(script.UNICAST, 3, tag=data[3])))
    real.net.start()
    real.net.inject((1, 3), frame(script.CLONE, 3, 1, tag=77))
    until(lambda: len(real.out[1, 3]) == 2)
    assert sorted(f[3] for f in real.frames(3)) == [77, 77]


def test_lag_is_reported_and_loop_time_slips(make):
    bench = make(RealTime(max_lag_ps=5 * MS))
    bench.switch()
    bench.net.start()
    bench.net.call(lambda: None)
    bench.net.call(lambda: time.sleep(0.02))
    begun = time.monotonic()
    bench.net.inject((1, 510), frame(script.DROP, 0))
    until(lambda: bench.counter("ingress_drops") == 1)
    assert bench.net.lag_ps < (time.monotonic() - begun) * 1e12  # nothing was due while the thread slept

    def late() -> None:
        bench.net.inject((1, 510), frame(script.DROP, 0))
        time.sleep(0.02)

    begun = time.monotonic()
    bench.net.call(late)
    until(lambda: bench.counter("ingress_drops") == 2)
    assert 12 * MS < bench.net.loop_stats()["slip_ps"] < (time.monotonic() - begun) * 1e12
    assert bench.net.lag_ps >= bench.net.loop_stats()["slip_ps"]


def test_stop_twice_and_start_again_is_refused(real, tmp_path):
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.start()
    real.net.stop()
    real.net.stop()
    with pytest.raises(DetourError, match="stopped"):
        real.net.start()


def test_stale_socket_files(real, tmp_path):
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stale.bind(str(tmp_path / "a"))
    with pytest.raises(DetourError, match="in use"):
        real.net.attach_unix((1, 1), tmp_path / "a")
    stale.close()
    real.net.attach_unix((1, 1), tmp_path / "a")
    (tmp_path / "b").write_text("x")
    with pytest.raises(DetourError, match="not a socket"):
        real.net.attach_unix((1, 2), tmp_path / "b")
    with pytest.raises(DetourError, match="longer than"):
        real.net.attach_unix((1, 2), tmp_path / ("b" * 200))
    with pytest.raises(DetourError, match="cannot bind"):
        real.net.attach_unix((1, 2), tmp_path / "none" / "b")
    real.net.attach_unix((1, 2), tmp_path / "c")


def test_no_descriptor_is_left(make, program, tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for n in range(3):
        bench = make(RealTime())
        bench.switch()
        bench.net.attach_unix((1, 1), tmp_path / f"a{n}")
        bench.net.start()
        bench.net.stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_ports_may_be_added_while_traffic_flows(real, peer, tmp_path):
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.start()
    a = peer("a")
    stop = threading.Event()
    echoed = [0]

    def traffic() -> None:
        while not stop.is_set():
            a.send(frame(script.UNICAST, 1))
            a.recv(5000)
            echoed[0] += 1

    thread = threading.Thread(target=traffic)
    thread.start()
    for device_id in range(2, 40):
        real.switch(device_id)
        real.net.connect((1, device_id), (device_id, 1))
    reached = echoed[0]
    until(lambda: echoed[0] > reached + 10)
    stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_port_that_is_detached_can_be_attached_anew(real, peer, tmp_path):
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.attach_unix((1, 2), tmp_path / "b")
    real.net.start()
    a, b = peer("a"), peer("b")
    a.send(frame(script.UNICAST, 2, tag=1))
    assert b.recv(2000)
    real.net.detach_interface((1, 2))
    assert not (tmp_path / "b").exists()
    assert real.net.ports(1) == [510, 1]
    assert 2 not in real.net.port_stats()["port"].tolist()
    with pytest.raises(DetourError, match="no attachment on port 2"):
        real.net.detach_interface((1, 2))
    before = int(real.net.switch_stats()["no_port_drops"][0])
    a.send(frame(script.UNICAST, 2, tag=2))
    until(lambda: int(real.net.switch_stats()["no_port_drops"][0]) == before + 1)
    real.net.attach_unix((1, 2), tmp_path / "c")
    c = peer("c")
    a.send(frame(script.UNICAST, 2, tag=3))
    assert c.recv(2000)[3] == 3
    c.send(frame(script.UNICAST, 1, tag=4))
    assert a.recv(2000)[3] == 4


def test_what_waits_for_a_port_goes_with_it(real, peer, tmp_path):
    """Also what a socket that nobody reads has not taken."""
    real.net.attach_unix((1, 1), tmp_path / "a")
    real.net.attach_unix((1, 2), tmp_path / "b")
    real.net.start()
    a, _ = peer("a"), peer("b", connected=False)
    for tag in range(100):
        a.send(frame(script.UNICAST, 2, tag=tag))
    until(lambda: int(real.net.port_stats()["rx_packets"].sum()) == 100)
    real.net.detach_interface((1, 2))
    until(lambda: real.net.loop_stats()["used"] == 0)


def test_only_what_is_outside_can_be_detached(real, tmp_path):
    real.sink(1, 3)
    with pytest.raises(DetourError, match="port 3 is not attached to an interface or a socket"):
        real.net.detach_interface((1, 3))
