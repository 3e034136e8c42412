# SPDX-License-Identifier: Apache-2.0
"""The gRPC server: address, TLS, and the thread that it lives in.

Why grpc.aio: a stream stays open for each controller of each switch, and gRPC's synchronous server keeps two
threads for every open stream (one in the handler, one that reads requests): over 500 for the 264 switches of a
large Dragonfly with one controller each. Measured on this machine with 100 streams, a message there and
back costs 73 us with aio and 200 us with threads. Here one thread has the event loop, arbitration and streams; a few
workers decode batches and wait for the network's loop, which runs without the GIL.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
from finsy.proto import p4r_grpc

from detour.base.errors import DetourError
from detour.base.grpc_loop import GrpcLoop
from detour.engine.p4runtime.device import Device
from detour.engine.p4runtime.errors import Code, Refused, log
from detour.engine.p4runtime.service import Service
from detour.engine.p4runtime.target import NetworkLike, Target

T = TypeVar("T")
_MESSAGE_BYTES = 256 << 20
_WORKERS = 8
_GRACE_S = 1.0
_IDLE_SCAN_S = 0.1
_OPTIONS = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.max_metadata_size", 16 << 20),
    ("grpc.so_reuseport", 0),  # a port that is taken is an error, not shared
    ("grpc.keepalive_time_ms", 30_000),  # a controller whose machine is gone is not live
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


@dataclass(frozen=True)
class Tls:
    """PEM files. With `client_ca` clients must have a certificate that it signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """The credentials, or a DetourError that names the file that cannot be used."""
        ca = _read_pem(self.client_ca) if self.client_ca else None
        pair = (_read_pem(self.key), _read_pem(self.certificate))
        return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)


def _read_pem(path: Path) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise DetourError(f"TLS: {path}: {e.strerror or e}") from e
    if b"-----BEGIN " not in data:
        raise DetourError(f"TLS: {path} is not a PEM file")
    return data


class P4RuntimeServer:
    """Serves switches of a network over P4Runtime at one address; also a context manager.

    `promote_backup`: when a primary goes, promote the backup with the highest election id, as BMv2 does.
    """

    def __init__(
        self,
        network: NetworkLike,
        address: str = "127.0.0.1:0",
        tls: Tls | None = None,
        *,
        promote_backup: bool = False,
    ) -> None:
        """`address`: host:port, [IPv6]:port or unix:path; port 0 takes a free one.

        Raises DetourError for an address other than loopback without client certificates.
        """
        check_address(address, tls)
        self._network, self._address, self._tls = network, address, tls
        self._promote = promote_backup
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._stop: asyncio.Event | None = None
        self._port = 0
        self._switches: dict[int, int] = {}
        self._service = Service(self._work)

    # -- what others use

    def add_device(self, device_id: int, switch: int | None = None) -> None:
        """Serves switch `switch` of the network (default: the one with that number) as device `device_id`."""
        if device_id in self._switches:
            raise DetourError(f"P4Runtime: device {device_id} is served already")
        if not 0 <= device_id < 1 << 64:
            raise DetourError(f"P4Runtime: {device_id} is not a device id, which has 64 bits")
        self._switches[device_id] = device_id if switch is None else switch
        if self._loop is not None:
            self._run(self._open(device_id))

    def remove_device(self, device_id: int) -> None:
        """Serves a switch no more and ends its streams."""
        if self._switches.pop(device_id, None) is None:
            raise DetourError(f"P4Runtime: device {device_id} is not served")
        if self._loop is not None:
            self._run(self._close(device_id))

    @property
    def port(self) -> int:
        """The TCP port; 0 before `start`, and for UNIX sockets."""
        return self._port

    @property
    def target(self) -> str:
        """What a client on this machine connects to."""
        if self._address.startswith("unix"):
            return self._address
        return f"{self._address.rpartition(':')[0]}:{self._port}"

    def start(self) -> None:
        """Binds and serves; DetourError if the address cannot be bound."""
        if self._thread is not None:
            raise DetourError("P4Runtime: the server runs already")
        credentials = self._tls.credentials() if self._tls else None
        self._workers = ThreadPoolExecutor(_WORKERS, "p4runtime-worker")
        started: asyncio.Future[None] | threading.Event = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._main, args=(credentials, started, failure), name="p4runtime", daemon=True
        )
        self._thread.start()
        started.wait()
        if failure:
            self._thread.join()
            self._thread = None
            self._workers.shutdown()
            raise failure[0]

    def stop(self) -> None:
        """Ends all streams and calls, gives the port back. May be called twice."""
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop ended by itself
            loop.call_soon_threadsafe(stop.set)
        thread.join()
        self._thread = None
        assert self._workers is not None
        self._workers.shutdown()
        self._service.close()

    def __enter__(self) -> P4RuntimeServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- the server's thread

    def _main(self, credentials: Any, started: threading.Event, failure: list[BaseException]) -> None:
        try:
            with asyncio.Runner(loop_factory=GrpcLoop) as runner:
                runner.run(self._serve(credentials, started))
        except BaseException as e:
            if started.is_set():
                log.exception("the P4Runtime server ended")
            else:
                failure.append(e)
        finally:
            self._loop = None
            started.set()

    async def _serve(self, credentials: Any, started: threading.Event) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        p4r_grpc.add_P4RuntimeServicer_to_server(self._service, server)
        self._bind(server, credentials)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
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

    def _bind(self, server: grpc.aio.Server, credentials: Any) -> None:
        port = 0
        with contextlib.suppress(RuntimeError):  # how some versions of gRPC report it
            if credentials is None:
                port = server.add_insecure_port(self._address)
            else:
                port = server.add_secure_port(self._address, credentials)
        if not port:
            tls = ", or do certificate and key not belong together" if credentials else ""
            raise DetourError(f"P4Runtime: cannot bind {self._address}: is the port taken{tls}?")
        self._port = 0 if self._address.startswith("unix") else port

    async def _open(self, device_id: int) -> None:
        assert self._loop is not None
        target = Target(self._network, self._switches[device_id])
        self._service.devices[device_id] = Device(device_id, target, self._loop, self._work, self._promote)

    async def _close(self, device_id: int) -> None:
        device = self._service.devices.pop(device_id)
        self._service.end_streams(Refused(Code.NOT_FOUND, f"device {device_id} is gone"), device)
        device.close()

    async def _scan_idle(self) -> None:
        """Looks for idle entries; takes at most a tenth of the time."""
        pause = _IDLE_SCAN_S
        while True:
            await asyncio.sleep(pause)
            begun = asyncio.get_running_loop().time()
            for device in list(self._service.devices.values()):
                try:
                    await device.scan_idle()
                except Exception:
                    log.exception("device %d: looking for idle entries failed", device.id)
            pause = max(_IDLE_SCAN_S, 9 * (asyncio.get_running_loop().time() - begun))

    async def _work(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._workers, function)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the server's thread and waits for it."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def check_address(address: str, tls: Tls | None) -> None:
    """Without client certificates anybody who reaches the port may program the switches."""
    if address.startswith(("unix:", "unix-abstract:")):
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise DetourError(f"P4Runtime: '{address}' is not an address; give host:port, [IPv6]:port or unix:path")
    if _is_loopback(host.strip("[]")) or (tls is not None and tls.client_ca is not None):
        return
    raise DetourError(
        f"P4Runtime: {address} is not a loopback address: give TLS with client certificates, or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
