# SPDX-License-Identifier: Apache-2.0
"""The server: its devices, and what runs in the endpoint's thread.

Why grpc.aio: a stream stays open for each controller of each switch, and gRPC's synchronous server keeps two
threads for every open stream (one in the handler, one that reads requests): over 500 for the 264 switches of a
large Dragonfly with one controller each. Measured on this machine with 100 streams, a message there and
back costs 73 us with aio and 200 us with threads. Here one thread has the event loop, arbitration and streams; a few
workers decode batches and wait for the network's loop, which runs without the GIL.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc

from detour.base.errors import DetourError
from detour.engine.endpoint import GrpcEndpoint, Tls
from detour.engine.p4runtime.arbitration import StreamClient
from detour.engine.p4runtime.device import P4Device, RoundRobin
from detour.engine.p4runtime.errors import Code, Refused, log
from detour.engine.p4runtime.limits import Limits
from detour.engine.p4runtime.pipeline import Pipelines
from detour.engine.p4runtime.requests import Work
from detour.engine.p4runtime.service import Service, register
from detour.engine.target import NetworkLike, TargetSwitch

T = TypeVar("T")
_POOLS = {"worker": 8, "reader": 2, "bulk": 1}  # threads: the first mostly wait, the others compute
_GRACE_S = 1.0
_IDLE_SCAN_S = 0.1


class P4RuntimeServer:
    """Serves switches of a network over P4Runtime at one address; also a context manager. `promote_backup`: when a
    primary goes, promote the backup with the highest election id, as BMv2 does."""

    def __init__(
        self,
        network: NetworkLike,
        address: str | GrpcEndpoint = "127.0.0.1:0",
        tls: Tls | None = None,
        *,
        promote_backup: bool = False,
        limits: Limits | None = None,
    ) -> None:
        """`address`: host:port, [IPv6]:port or unix:path; port 0 takes a free one. Or an endpoint, which may be bound.
        Raises DetourError for an address other than loopback without client certificates."""
        self._limits = limits or Limits()
        self._endpoint = (
            address
            if isinstance(address, GrpcEndpoint)
            else GrpcEndpoint(address, tls, message_bytes=self._limits.message, rpcs=self._limits.rpcs)
        )
        self._network, self._promote = network, promote_backup
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._stop: asyncio.Event | None = None
        self._stops = False
        self._switches: dict[int, int] = {}
        self._made: dict[int, Pipelines] = {}
        self._round_robin: RoundRobin | None = None
        self._ageing: asyncio.Event | None = None
        self.table_writes: Counter[int] = Counter()
        """by device id, how many requests that may have changed what Reads show are over; what a Read shows that begins
        afterwards is true for as long as the number stays the same"""
        self._service = Service(self._pool("worker"), self._pool("reader"), self._pool("bulk"), self._limits)

    # -- what others use

    def add_device(self, device_id: int, switch: int | None = None, pipelines: Pipelines | None = None) -> None:
        """Serve switch `switch` of the network (default: the one with that number) as device `device_id`.
        `pipelines`: of a switch that has been programmed already."""
        if device_id in self._switches:
            raise DetourError(f"P4Runtime: device {device_id} is already served")
        if not 0 <= device_id < 1 << 64:
            raise DetourError(f"P4Runtime: {device_id} is not a device id, which has 64 bits")
        self._switches[device_id] = device_id if switch is None else switch
        if pipelines is not None:
            self._made[device_id] = pipelines
        if self._loop is not None:
            self._endpoint.run(self._open(device_id))

    def remove_device(self, device_id: int) -> None:
        """Serve a switch no more and end its streams."""
        if self._switches.pop(device_id, None) is None:
            raise DetourError(f"P4Runtime: device {device_id} is not served")
        self._made.pop(device_id, None)
        if self._loop is not None:
            self._endpoint.run(self._close(device_id))

    def exclusively(self, device_id: int, function: Callable[[], T]) -> T:
        """Run a function while no request is at a device, in another thread than gRPC's; for other servers of it."""
        device = self._service.devices.get(device_id)
        if self._loop is None or device is None:
            return function()  # no requests come
        work = self._pool("worker")
        return self._endpoint.run(device.exclusively(lambda: work(function)))

    def pipelines(self, device_id: int) -> Pipelines | None:
        """The pipelines of a device; None if it is not served."""
        device = self._service.devices.get(device_id)
        return self._made.get(device_id) if device is None else device.pipelines

    def clients(self, device_id: int) -> list[StreamClient]:
        """List the streams to a device, each role's primary first."""
        device = self._service.devices.get(device_id)
        return [] if device is None else device.arbiter.clients()

    @property
    def port(self) -> int:
        """The TCP port; 0 before `start`, and for UNIX sockets."""
        return self._endpoint.port

    @property
    def target(self) -> str:
        """The address that a client on this machine connects to."""
        return self._endpoint.target

    def start(self) -> None:
        """Bind, unless that has been done, and serve; DetourError if the address cannot be bound."""
        if self._pools:
            raise DetourError("P4Runtime: the server is already running")
        _give_back_large_blocks()
        _shorten_switch_interval()
        if not self._endpoint.is_bound:
            self._endpoint.bind()
        self._stops = False
        self._pools = {name: ThreadPoolExecutor(threads, f"p4runtime-{name}") for name, threads in _POOLS.items()}
        started = threading.Event()
        failure: list[BaseException] = []
        try:
            self._endpoint.serve(lambda server: self._main(server, started, failure))
        except BaseException:
            self.stop()
            raise
        started.wait()
        if failure:
            self.stop()
            raise failure[0]

    def stop(self) -> None:
        """End all streams and call, give the address back. May be called twice."""
        self._stops = True  # for a thread that has not come as far as its loop
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop ended by itself
                loop.call_soon_threadsafe(stop.set)
        self._endpoint.stop()
        for pool in self._pools.values():
            pool.shutdown()
        self._pools = {}
        self._service.close()

    def __enter__(self) -> P4RuntimeServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- the endpoint's thread

    async def _main(self, server: grpc.aio.Server, started: threading.Event, failure: list[BaseException]) -> None:
        try:
            await self._serve(server, started)
        except BaseException as e:
            if started.is_set():
                log.exception("the P4Runtime server ended")
            else:
                failure.append(e)
        finally:
            self._loop = None
            started.set()

    async def _serve(self, server: grpc.aio.Server, started: threading.Event) -> None:
        self._service.begin()
        register(self._service, server)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._stops:
            self._stop.set()
        self._round_robin, self._ageing = RoundRobin(self._loop), asyncio.Event()
        for device_id in self._switches:
            await self._open(device_id)
        await server.start()
        started.set()
        scanner = asyncio.ensure_future(self._scan_idle())
        await self._stop.wait()
        scanner.cancel()
        self._service.end_streams(Refused(Code.UNAVAILABLE, "the server stops"))
        for device_id in list(self._service.devices):
            await self._close(device_id)
        await server.stop(_GRACE_S)

    async def _open(self, device_id: int) -> None:
        assert self._loop is not None
        target = TargetSwitch(self._network, self._switches[device_id])
        device = self._service.devices[device_id] = P4Device(
            device_id,
            target,
            self._loop,
            self._pool("worker"),
            self._changed,
            self._promote,
            self._service.budgets,
            self._round_robin,
        )
        if device_id in self._made:
            device.pipelines = self._made[device_id]
        self._changed(device)

    async def _close(self, device_id: int) -> None:
        device = self._service.devices.pop(device_id)
        self._service.end_streams(Refused(Code.NOT_FOUND, f"device {device_id} is gone"), device)
        device.close()

    def _changed(self, device: P4Device) -> None:
        self.table_writes[device.id] += 1
        if device.ages:
            assert self._ageing is not None
            self._ageing.set()

    async def _scan_idle(self) -> None:
        """Look for idle entries while any have a time-out; take at most a tenth of the time."""
        assert self._ageing is not None
        pause = _IDLE_SCAN_S
        while True:
            await self._ageing.wait()
            await asyncio.sleep(pause)
            begun = asyncio.get_running_loop().time()
            ageing = [device for device in self._service.devices.values() if device.ages]
            if not ageing:
                self._ageing.clear()
            for device in ageing:
                try:
                    await device.scan_idle()
                except Exception:
                    log.exception("device %d: looking for idle entries failed", device.id)
            pause = max(_IDLE_SCAN_S, 9 * (asyncio.get_running_loop().time() - begun))

    def _pool(self, name: str) -> Work:
        """Return a function that runs another one in a thread of a pool."""

        async def work(function: Callable[[], Any]) -> Any:
            return await asyncio.get_running_loop().run_in_executor(self._pools[name], function)

        return work


# -- the process ---------------------------------------------------------------------------------------

_SWITCH_INTERVAL_S = 0.0005


def _shorten_switch_interval() -> None:
    """Threads that compute release the GIL ten times as often as by default.

    An event loop waits for one interval of each of them in each of its iterations, and gRPC accepts one call an
    iteration.
    """
    sys.setswitchinterval(min(_SWITCH_INTERVAL_S, sys.getswitchinterval()))


_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # <malloc.h>
_LARGE_BYTES = 256 << 10
_ARENAS = 2


def _give_back_large_blocks() -> None:
    """Large blocks go back to the system when they are freed, and threads share two heaps.

    By default glibc raises the size from which it does so to that of the largest block that was freed (up to 32 MiB),
    and gives every thread a heap of its own, up to eight times the cores: what messages of megabytes leave is spread
    over all of them and kept. Elsewhere than with glibc nothing happens.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
