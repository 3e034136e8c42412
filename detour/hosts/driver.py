# SPDX-License-Identifier: Apache-2.0
"""Runs hosts over sockets and the wall clock: an interface (BMv2's namespaces) or an engine's UNIX port.

A thread per driver moves frames between sockets and the native functions of `rdma`, in batches; whoever wants to
change state of the hosts meanwhile does so with `call`. One driver may run several hosts of a `Hosts`, but all hosts
of a `Hosts` must be run by one driver, because they share scratch memory.

    driver = Driver(hs)
    driver.attach(0, open_unix("/run/fabric/h0.sock"))      # the engine bound h0.sock, we bind h0.sock.peer
    driver.attach(1, open_interface("eth0", netns="h1"))
    with driver:
        device = Device(hs, driver.call, driver.kick)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from detour.base.errors import DetourError
from detour.base.interrupting import join_thread
from detour.base.memory import call5, call6, load64, store64
from detour.base.native import Part
from detour.base.unix_listener import OwnFile, UnixServerSocket
from detour.hosts import rdma
from detour.hosts.frames.headers import TYPE_IPV6
from detour.hosts.frames.sizes import MAX_FRAME
from detour.hosts.rdma import stack_of
from detour.hosts.stacks import WIRE_MASK, stack_at
from detour.hosts.state import MAX_TIME, Hosts

T = TypeVar("T")

RECEIVE_BATCH = 64
"""frames read from or written to a socket before the next one is looked at"""
DRIVER = Part("driver", __name__)

ROOM = -(-MAX_FRAME // 64) * 64
BUFFER_BYTES = 4 << 20
RETRY_PS = 200_000_000
"""wait after an interface had no room for a frame; unlike UNIX sockets it does not say when it has again"""
LATE_FRAMES, LATE_PS = 2, 2_000_000_000
"""how late, in frames or at least in ps, a frame may be for those behind it still to go at their own times: selectors
round waits up to milliseconds and threads wait for processors; a sender of a frame every 8 ms had 94 % of its rate"""
STALL_PS = 100_000_000_000
"""how late the thread may be before the hosts' clock waits for it"""
LONGEST_WAIT_S = 0.05
"""while there is a deadline; the thread must look at the clock now and then to notice that it was late"""
_SO_RCVBUFFORCE = 33
_CLONE_NEWNET = 0x40000000


@DRIVER.entry
def receive_many(stack: int, host: int, buf: int, lengths: int, count: int, now: int) -> None:
    """Hand over `count` frames, one every `ROOM` bytes of `buf`; `lengths` are int64s."""
    s = stack_at(stack, 0)
    for k in range(count):
        length = load64(lengths + 8 * k)
        call6(s.receive, s.state, host, buf + k * ROOM, length, length, now)


@DRIVER.entry
def transmit_many(stack: int, host: int, buf: int, lengths: int, limit: int, now: int) -> int:
    """Write up to `limit` frames, one every `ROOM` bytes of `buf`; return how many."""
    s = stack_at(stack, 0)
    for k in range(limit):
        length = call5(s.transmit, s.state, host, buf + k * ROOM, ROOM, now) & WIRE_MASK
        store64(lengths + 8 * k, length)
        if length == 0:
            return k
    return limit


def open_interface(name: str, netns: str | None = None) -> socket.socket:
    """Raw socket for the IPv6 frames of a Linux interface (root), in network namespace `netns` if given."""
    result: Future[socket.socket] = Future()

    def work() -> None:  # in a thread of its own, so that the caller stays in its namespace
        try:
            if netns is not None:
                _enter(netns)
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(TYPE_IPV6))
            sock.bind((name, TYPE_IPV6))
            result.set_result(sock)
        except OSError as error:
            where = f" in network namespace {netns}" if netns else ""
            result.set_exception(DetourError(f"cannot open interface {name}{where}: {error.strerror}"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    sock = result.result()
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
    return sock


def _enter(netns: str) -> None:
    handle = os.open(f"/var/run/netns/{netns}", os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(handle, _CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(handle)


def open_unix(path: str | Path, local: str | Path | None = None) -> socket.socket:
    """Datagram socket to an engine's port that is bound to `path`; ours is `local` (default: `path` + ".peer").
    The file is removed when the driver closes."""
    own = str(local or f"{path}.peer")
    place = UnixServerSocket(Path(own), "socket")
    sock = place.bind_datagram()
    try:
        sock.connect(str(path))
    except OSError as error:
        place.remove()
        sock.close()
        raise DetourError(f"cannot connect {own} to {path}: {error.strerror}") from None
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    return sock


class _Port:
    """One host's socket."""

    def __init__(self, host: int, sock: socket.socket, rate_bps: int) -> None:
        sock.setblocking(False)
        self.host = host
        self.sock = sock
        self.rate_bps = rate_bps
        self.waiting: deque[bytes] = deque()
        self.blocked = False
        self.free_at = 0
        self.unix = sock.family == socket.AF_UNIX
        self.file = OwnFile(Path(sock.getsockname())) if self.unix and sock.getsockname() else None
        self.dropped = 0


class Driver:
    """A thread that runs hosts over sockets; also a context manager."""

    def __init__(self, hs: Hosts) -> None:
        self.hs = hs
        self._stack, self._code = stack_of(hs)
        self._ports: list[_Port] = []
        self._survey_tables()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._origin = time.monotonic_ns()
        self._limit = MAX_TIME
        self._buf = np.zeros(RECEIVE_BATCH * ROOM, np.uint8)
        self._views = [self._buf.data[k * ROOM : (k + 1) * ROOM] for k in range(RECEIVE_BATCH)]
        self._lengths = np.zeros(RECEIVE_BATCH, np.int64)
        self._at, self._memory = self._stack.ctypes.data, (self._buf.ctypes.data, self._lengths.ctypes.data)

    # -- for everybody ----------------------------------------------------------------------------------------

    def attach(self, host: int, sock: socket.socket, rate_bps: int = 0) -> None:
        """Let host `host` use the socket, which belongs to the driver from now on. `rate_bps` (0: as fast as it
        goes) paces what the host sends, for a switch that cannot take bursts. Before `start`."""
        if self._thread is not None:
            raise DetourError("sockets must be added before the driver starts")
        if any(port.host == host for port in self._ports):
            raise DetourError(f"host {host} already has a socket")
        port = _Port(host, sock, rate_bps)
        self._ports.append(port)
        self._survey_tables()
        self._selector.register(sock, selectors.EVENT_READ, port)

    def start(self) -> Driver:
        """Start the thread."""
        self._load()
        self._thread = threading.Thread(target=self._run, name="detour-driver", daemon=True)
        self._thread.start()
        return self

    def _survey_tables(self) -> None:
        """Allocate the arrays that `_survey` is given and fills in."""
        self._hosts = np.array([port.host for port in self._ports], np.int64)
        self._when, self._busy = np.zeros((2, len(self._ports)), np.int64)

    def _survey(self) -> None:
        """For each host its deadline and whether it may have something to send: one call for all of them, because most
        have nothing to do most of the time."""
        tables = (each.ctypes.data for each in (self._hosts, self._when, self._busy))
        rdma.survey(self.hs.listing, len(self._hosts), *tables)

    def _load(self) -> None:
        """Use every native function once, to no effect. The first use loads it or even compiles it, for which the
        first frame would wait until its sender repeats it."""
        self._survey()
        for host in self._hosts[:1].tolist():
            now = self.now_ps
            rdma.expire(self.hs.listing, host, now)
            receive_many(self._at, host, *self._memory, 0, now)
            transmit_many(self._at, host, *self._memory, 0, now)

    def stop(self) -> None:
        """Stop the thread, close the sockets, remove their files. May be called twice."""
        self._stopping = True
        self._wake()
        if self._thread is not None:
            join_thread(self._thread)
        for port in self._ports:
            if port.file is not None:
                port.file.remove()
            port.sock.close()
        self._ports.clear()
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def __enter__(self) -> Driver:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` in the driver's thread and return its result or raise its error."""
        if self._thread is None or not self._thread.is_alive() or threading.current_thread() is self._thread:
            return function()
        result: Future[T] = Future()
        self._jobs.append((function, result))
        self._wake()
        while True:
            try:
                return result.result(timeout=1)
            except TimeoutError:
                if not self._thread.is_alive():
                    raise DetourError("the socket driver has stopped") from None

    def kick(self, host: int) -> None:
        """Host `host` may have something to send."""
        self._wake()

    @property
    def now_ps(self) -> int:
        """Time that the hosts see: since the driver was made, without the time for which its thread did not run
        although it should have (the machine was suspended, or somebody else had it). Nothing can have come in
        meanwhile, so senders must not take the silence for loss."""
        return min(self._clock(), self._limit)

    def _clock(self) -> int:
        return (time.monotonic_ns() - self._origin) * 1000

    def _catch_up(self) -> None:
        """The hosts' clock goes on from where it had to wait."""
        behind = self._clock() - self._limit
        if behind > 0:
            self._origin += behind // 1000 + 1

    @property
    def dropped(self) -> int:
        """Frames that a socket refused for another reason than being full."""
        return sum(port.dropped for port in self._ports)

    # -- the thread -------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_write.send(b"x")

    def _run(self) -> None:
        while not self._stopping:
            self._catch_up()
            patience = self._patience()
            self._limit = MAX_TIME if patience is None else self._clock() + int(patience * 1e12) + STALL_PS
            ready = self._selector.select(patience)
            self._catch_up()
            for key, _ in ready:
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_read.recv(4096)
                else:
                    self._read(key.data)
            while self._jobs:
                self._do(*self._jobs.popleft())
            self._serve()
        while self._jobs:
            self._jobs.popleft()[1].set_exception(DetourError("the socket driver has stopped"))

    def _serve(self) -> None:
        """Let the hosts that have something to do, do it."""
        self._survey()
        now = self.now_ps
        for k in np.flatnonzero((self._busy != 0) | (self._when <= now)).tolist():
            port = self._ports[k]
            if self._when[k] <= now:
                rdma.expire(self.hs.listing, port.host, self.now_ps)
            self._write(port)
        for port in self._ports:
            if port.waiting:
                self._write(port)

    @staticmethod
    def _do(function: Callable[[], Any], result: Future[Any]) -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # handed to the caller, whatever it is
            result.set_exception(error)

    def _patience(self) -> float | None:
        """Seconds to wait if no frame comes, at most until something has to be done; `None`: forever."""
        self._survey()
        when = int(self._when.min(initial=MAX_TIME))
        for port, busy in zip(self._ports, self._busy.tolist(), strict=True):
            # If its socket is full, that will say when it no longer is.
            if port.waiting or (busy and not port.blocked):
                when = min(when, port.free_at)
        return None if when == MAX_TIME else min(max(0.0, (when - self.now_ps) / 1e12), LONGEST_WAIT_S)

    def _read(self, port: _Port) -> None:
        count = 0
        try:
            while count < RECEIVE_BATCH:
                self._lengths[count] = port.sock.recv_into(self._views[count])
                count += 1
        except BlockingIOError:
            pass
        except OSError as error:
            # the engine's end is gone, or the interface went down: the fabric will tell the user
            if error.errno not in (errno.ECONNREFUSED, errno.ENETDOWN, errno.ECONNRESET):
                raise
        receive_many(self._at, port.host, *self._memory, count, self.now_ps)

    def _write(self, port: _Port) -> None:
        """Send what the host has, at the port's rate and as far as the socket takes it."""
        while True:
            now = self.now_ps
            if port.free_at > now:
                return
            while port.waiting:
                if not self._send(port, port.waiting[0]):
                    return
                port.waiting.popleft()
            limit = RECEIVE_BATCH if port.rate_bps == 0 else 1
            count = transmit_many(self._at, port.host, *self._memory, limit, now)
            for k in range(count):
                length = int(self._lengths[k])
                if port.rate_bps:
                    lasts = length * 8_000_000_000_000 // port.rate_bps
                    port.free_at = max(port.free_at, now - max(LATE_PS, LATE_FRAMES * lasts)) + lasts
                if port.waiting or not self._send(port, self._views[k][:length]):
                    port.waiting.append(self._views[k][:length].tobytes())
            if count < limit or port.waiting:
                return

    def _send(self, port: _Port, frame: bytes | memoryview) -> bool:
        """Return whether the socket took the frame (or will never take it)."""
        try:
            port.sock.send(frame)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                self._wait(port)
                return False
            port.dropped += 1
        if port.blocked:
            port.blocked = False
            self._selector.modify(port.sock, selectors.EVENT_READ, port)
        return True

    def _wait(self, port: _Port) -> None:
        """The socket is full: a UNIX socket says when it no longer is, an interface is asked again later."""
        if not port.unix:
            port.free_at = self.now_ps + RETRY_PS
        elif not port.blocked:
            port.blocked = True
            self._selector.modify(port.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, port)
