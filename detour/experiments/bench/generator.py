# SPDX-License-Identifier: Apache-2.0
"""Frames on interfaces without a switch's work: a native packet generator (packet sockets and sendmmsg), a plain
forwarder, which does to frames nothing but move them, and the time that a single frame takes."""

from __future__ import annotations

import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int32s1, Int64s1
from detour.base.jit import allocating
from detour.base.memory import INT, LONG, fetch_add, libc, load16, load_acquire, prefetch_lines
from detour.base.native import Part
from detour.engine import sockets

GENERATOR = Part("generator", __name__)

_sendmmsg = libc("sendmmsg", INT, INT, LONG, INT, INT)
_sendto = libc("sendto", LONG, INT, LONG, LONG, INT, LONG, INT)
_poll = libc("poll", INT, LONG, LONG, INT)
_clock_gettime = libc("clock_gettime", INT, INT, LONG)
_nanosleep = libc("nanosleep", INT, LONG, LONG)

_MONOTONIC = 1
_DONT_WAIT = 0x40
_BATCH = 32
_PAUSE_NS = 20_000
_MESSAGE_BYTES = 64  # struct mmsghdr, of which struct msghdr 56
_SOL_PACKET, _QDISC_BYPASS, _IGNORE_OUTGOING = 263, 20, 23
_ETH_P_ALL = 3
_SO_TIMESTAMPNS = 35
_SEND_BUFFER = 8 << 20
_SLOTS, _SLOT_BYTES = sockets.RING_SLOTS, sockets.RING_SLOT_BYTES
_FRAME_AT = 12
_LOST_S = 0.1


class Sent(NamedTuple):
    """The totals of a generator's run. `refused`: frames that the kernel did not take."""

    packets: int
    refused: int
    seconds: float


@allocating
def _now(spec):
    _clock_gettime(_MONOTONIC, spec.ctypes.data)
    return spec[0] * 1_000_000_000 + spec[1]


@GENERATOR.entry
def _generate(fds: Int32s1, base: int, per_port: int, rate: float, duration_ns: int, counts: Int64s1) -> None:
    """Send the messages at `base` round robin over the sockets until the time is over. counts: packets, refused,
    nanoseconds."""
    spec = np.zeros(2, np.int64)
    pause = np.array([0, _PAUSE_NS], np.int64)
    cursor = np.zeros(len(fds), np.int64)
    port, offered = 0, 0
    begin = _now(spec)
    passed = 0
    while passed < duration_ns:
        due = int(passed * rate / 1e9) - offered
        if due <= 0:
            _nanosleep(pause.ctypes.data, 0)
            passed = _now(spec) - begin
            continue
        first = cursor[port]
        n = min(due, _BATCH, per_port - first)
        at = base + (port * per_port + first) * _MESSAGE_BYTES
        taken = max(0, _sendmmsg(fds[port], at, n, _DONT_WAIT))
        counts[0] += taken
        counts[1] += n - taken
        offered += n
        cursor[port] = (first + n) % per_port
        port = (port + 1) % len(fds)
        passed = _now(spec) - begin
    counts[2] = passed


@GENERATOR.entry
def _forward(ring: int, send_fd: int, waiting: Int32s1, stop: Int64s1) -> None:
    """Send what the kernel puts into a ring until `stop[0]` is set. `waiting`: struct pollfd of the ring's socket."""
    spec = np.zeros(2, np.int64)
    at = 0
    while load_acquire(stop.ctypes.data) == 0:
        moved = 0
        while moved < _BATCH:
            place = ring + at * _SLOT_BYTES
            word = load_acquire(place)
            if word & 1 == 0:
                break
            at = (at + 1) % _SLOTS
            prefetch_lines(ring + (at + 1) % _SLOTS * _SLOT_BYTES, 192)
            _sendto(send_fd, place + load16(place + _FRAME_AT), word >> 32, _DONT_WAIT, 0, 0)
            fetch_add(place, -word)
            moved += 1
        if moved == 0:
            _poll(waiting.ctypes.data, 1, 10)
        elif moved < _BATCH:  # who looks again at once is in the way of who fills the ring
            until = _now(spec) + _PAUSE_NS // 2
            while _now(spec) < until:
                pass


class Generator:
    """Sends the same frames again and again into some interfaces, on one core; a context manager."""

    def __init__(self, frames: dict[str, Sequence[bytes]]) -> None:
        """`frames`: what goes into each interface; equally many for each."""
        self.per_port = len(next(iter(frames.values())))
        if any(len(several) != self.per_port for several in frames.values()):
            raise ValueError("every interface gets the same number of frames")
        self._sockets = [_open(name) for name in frames]
        self._bytes = [np.frombuffer(frame, np.uint8).copy() for several in frames.values() for frame in several]
        self._iovecs = np.array([(data.ctypes.data, len(data)) for data in self._bytes], np.uint64)
        self._messages = np.zeros((len(self._bytes), _MESSAGE_BYTES // 8), np.uint64)
        self._messages[:, 2] = [iovec.ctypes.data for iovec in self._iovecs]
        self._messages[:, 3] = 1

    def run(self, rate: float, seconds: float) -> Sent:
        """Send `rate` packets a second in total, or as many as it can if that is more."""
        fds = np.array([sock.fileno() for sock in self._sockets], np.int32)
        counts = np.zeros(3, np.int64)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before - other_cores())
        try:
            _generate(fds, self._messages.ctypes.data, self.per_port, float(rate), int(seconds * 1e9), counts)
        finally:
            os.sched_setaffinity(0, before)
        return Sent(int(counts[0]), int(counts[1]), float(counts[2]) / 1e9)

    def close(self) -> None:
        """Close the sockets."""
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Generator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def other_cores() -> Set[int]:
    """Cores that a generator leaves to what it sends to."""
    return frozenset(sorted(os.sched_getaffinity(0))[1:])


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(_SOL_PACKET, _QDISC_BYPASS, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    sock.bind((interface, 0))
    return sock


class Forwarder:
    """Moves all frames from one interface to another, by the fewest instructions: the least that any switch must do in
    this way. A context manager; a thread of its own, which a generator leaves its cores to."""

    def __init__(self, source: str, target: str) -> None:
        self._ends = [sockets.open_packet(name, socket.if_nametoindex(name), ring=True) for name in (source, target)]
        self._stop = np.zeros(1, np.int64)
        self._waiting = np.array([self._ends[0].fd, 1], np.int32)  # POLLIN
        self._thread = threading.Thread(target=self._main, name="forwarder", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        os.sched_setaffinity(0, other_cores() or os.sched_getaffinity(0))
        _forward(self._ends[0].ring_address, self._ends[1].send_fd, self._waiting, self._stop)

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop[0] = 1
        self._thread.join()
        sockets.close_all(self._ends)


def latency_us(frame: bytes, source: str, sinks: Set[str], count: int) -> float:
    """Median time that a frame takes from `source` to one of `sinks`, in us, at a thousand frames a second: from the
    system call that sends it to the kernel's stamp where it arrives. Lost frames count with the longest time."""
    times = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as sink, _open(source) as sender:
        sink.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        sink.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sink.settimeout(_LOST_S)
        for _ in range(count):
            time.sleep(0.001)
            begin = time.clock_gettime_ns(time.CLOCK_REALTIME)
            sender.send(frame)
            times.append(_LOST_S * 1e9)
            with suppress(TimeoutError):
                times[-1] = _arrival(sink, sinks, begin) - begin
    return statistics.median(times) / 1e3


def _arrival(sink: socket.socket, names: Set[str], begin: int) -> int:
    """The arrival time of the first frame after `begin` at one of these interfaces, in ns."""
    while True:
        _, extra, _, where = sink.recvmsg(1, 64)
        seconds, ns = struct.unpack("qq", extra[0][2])
        if where[0] in names and seconds * 1_000_000_000 + ns > begin:
            return seconds * 1_000_000_000 + ns
