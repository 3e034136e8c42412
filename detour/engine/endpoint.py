# SPDX-License-Identifier: Apache-2.0
"""Serving of P4Runtime: addresses, TLS, and the thread in which gRPC lives.

An endpoint takes its addresses first, so that one that cannot be had is told at once, and listens when it serves.
Between the two the engine is loaded, which takes seconds; who connects meanwhile is refused, and may try again.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from detour.base.addresses import Address, TcpAddress, UnixAddress, joined, parse, refusal
from detour.base.errors import DetourError
from detour.base.grpc_loop import GrpcLoop
from detour.base.interrupting import join_thread
from detour.base.listening import ServerSocket, take
from detour.base.port_owners import user
from detour.base.progress import Progress, silent
from detour.base.tcp_listener import TcpServerSocket
from detour.base.unix_listener import UnixServerSocket

T = TypeVar("T")
WHAT = "P4Runtime"
MAX_MESSAGE_BYTES = 32 << 20
"""the longest request"""
RPCS = 4096
"""calls, streams among them, at the same time"""
_CALLS_END_S = 10.0
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # a port that is taken is an error, not shared
    ("grpc.keepalive_time_ms", 30_000),  # a controller whose machine is gone is not live
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.server_handshake_timeout_ms", 10_000),  # who connects and says nothing is let go
    ("grpc.max_connection_idle_ms", 300_000),  # clients connect again by themselves
]

Main = Callable[[grpc.aio.Server], Awaitable[None]]
"""what runs in the endpoint's loop: it adds handlers, starts the server, and returns when the server has ended"""


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
        self._check()
        return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)

    def _check(self) -> None:
        """gRPC would only say that it cannot bind."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (ssl.SSLError, OSError) as error:
            raise DetourError(f"TLS: {self.certificate} and {self.key}: {_reason(error)}") from None
        try:
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise DetourError(f"TLS: {self.client_ca}: {_reason(error)}") from None


def _no_password() -> str:
    raise DetourError("TLS: the key is encrypted; use an unencrypted one")


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return f"cannot be read as PEM ({reason or error})"


def _read_pem(path: Path) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise DetourError(f"TLS: {path}: {e.strerror or e}") from e
    if b"-----BEGIN " not in data:
        raise DetourError(f"TLS: {path} is not a PEM file")
    return data


def check_address(address: str, tls: Tls | None) -> Address:
    """Understand an address. Without client certificates anybody who reaches a port may program the switches.

    Raises:
        DetourError: it is not an address, or one of other machines' without client certificates.
    """
    parsed = parse(address, WHAT)
    certified = tls is not None and tls.client_ca is not None
    if isinstance(parsed, TcpAddress) and not parsed.is_loopback and not certified:
        raise DetourError(
            f"P4Runtime: {address} is not a loopback address: give TLS with client certificates, or listen on 127.0.0.1"
        )
    return parsed


class GrpcEndpoint:
    """A gRPC server at one address, and if wanted at a UNIX socket besides: `bind`, then `serve`, then `stop`.

    `private`: where to put a socket without TLS for this user's own programs, in a folder that nobody else may enter.
    """

    def __init__(
        self,
        address: str | None,
        tls: Tls | None = None,
        private: Path | None = None,
        *,
        message_bytes: int = MAX_MESSAGE_BYTES,
        rpcs: int = RPCS,
    ) -> None:
        """`address`: `host:port`, `[IPv6]:port` or `unix:path`; port 0 takes a free one; None: only `private`.

        Raises:
            DetourError: that is not an address, or not loopback's without client certificates.
        """
        self._address = None if address is None else check_address(address, tls)
        self._private = None if private is None else UnixAddress(private)
        self._tls = tls
        self._options = [*_OPTIONS, ("grpc.max_receive_message_length", message_bytes)]
        self._rpcs = rpcs
        self._port = 0
        self._taken: list[tuple[Address, ServerSocket, Any]] = []
        """with the credentials that clients there need"""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- what it is

    @property
    def port(self) -> int:
        """The TCP port; 0 before `bind`, and for UNIX sockets."""
        return self._port

    @property
    def target(self) -> str:
        """The address that clients connect to."""
        address = self._address or self._private
        return joined(address.host, self._port) if isinstance(address, TcpAddress) else str(address)

    @property
    def private_target(self) -> str:
        """The address that this user's own programs connect to, without TLS if there is a private socket."""
        return str(self._private or self.target)

    def reach(self) -> str:
        """Say who can program the switches here, as a sentence without an end."""
        if self._address is None:
            return f"only {_me()} can reach it"
        if self._tls is not None and self._tls.client_ca is not None:
            signed = f"a certificate signed by {self._tls.client_ca}"
            return f"whoever reaches {self.target} with {signed} can program the switches"
        if isinstance(self._address, UnixAddress) and not self._address.abstract:
            try:
                mode = stat.S_IMODE(self._address.path.stat().st_mode)
            except OSError as error:
                return f"nobody can reach {self.target} any more: {error.strerror}"
            whose = "every user" if mode & 0o002 else f"{_me()} and its group" if mode & 0o020 else f"only {_me()}"
            return f"{whose} (mode {mode:04o}) can reach {self.target} and program the switches"
        which = "" if self._tls is None else " (TLS, but no client certificates)"
        return f"every user of this machine can reach {self.target} and program the switches{which}"

    # -- life

    def bind(self, patience_s: float = 0.0, progress: Progress = silent) -> None:
        """Take the addresses; who connects is refused until they are served. `patience_s`, `progress`: see
        `listening.take`.

        Raises:
            DetourError: naming the cause; then nothing is taken.
        """
        credentials = None if self._tls is None else self._tls.credentials()
        try:
            for address, needed in ((self._private, None), (self._address, credentials)):
                if address is not None:
                    place = take(address, WHAT, patience_s, progress)
                    self._taken.append((address, place, needed))
                    if isinstance(place, TcpServerSocket):
                        self._port = place.port
        except BaseException:
            self.stop()
            raise

    @property
    def is_bound(self) -> bool:
        return bool(self._taken)

    def serve(self, main: Main) -> None:
        """Listen, and let `main` serve, in a thread with a loop of its own.

        Raises:
            DetourError: gRPC cannot listen; then everything is given back.
        """
        ready, failure = threading.Event(), []
        arguments = (main, ready, failure)
        self._thread = threading.Thread(target=self._work, args=arguments, name="p4runtime", daemon=True)
        self._thread.start()
        ready.wait()
        if failure:
            self.stop()
            raise failure[0]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the endpoint's loop and wait for it."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Remove the sockets' files and wait until `main` has returned (whose matter it is to know that it shall).
        May be called twice."""
        self.abandon()
        if self._thread is not None:
            join_thread(self._thread)
            self._thread = None
        for _, place, _ in self._taken:
            if isinstance(place, TcpServerSocket):
                place.close()
        self._taken = []

    def abandon(self) -> None:
        """For a process that ends without `stop`: removes what would be left behind."""
        for _, place, _ in self._taken:
            if isinstance(place, UnixServerSocket):
                place.remove()

    # -- the thread

    def _work(self, main: Main, ready: threading.Event, failure: list[BaseException]) -> None:
        try:
            with asyncio.Runner(loop_factory=GrpcLoop) as runner:
                runner.run(self._serve(main, ready))
        except BaseException as error:
            failure.append(error)
        finally:
            self._loop = None
            ready.set()

    async def _serve(self, main: Main, ready: threading.Event) -> None:
        server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=self._rpcs)
        try:
            for address, place, credentials in self._taken:
                _listen_at(server, address, place, credentials)
        except BaseException:
            # It lets go of its ports only if it has been started.
            await server.start()
            await server.stop(None)
            raise
        self._loop = asyncio.get_running_loop()
        ready.set()
        await main(server)
        await _calls_end()


async def _calls_end() -> None:
    """Wait for calls that the server's end has cancelled. gRPC prints a traceback for each that the loop's end cancels
    once more. What else goes on, such as a program being loaded, is waited for by whoever stops the endpoint anyway."""
    if calls := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(calls, timeout=_CALLS_END_S)


def _listen_at(server: grpc.aio.Server, address: Address, place: ServerSocket, credentials: Any) -> None:
    """Let gRPC listen at an address that is held."""
    if isinstance(place, TcpServerSocket):
        with place:
            for each in place.addresses:
                _listen(server, address, each, credentials)
    elif isinstance(place, UnixServerSocket):
        _listen(server, address, str(UnixAddress(place.temporary)), credentials)
        place.publish()
    else:
        _listen(server, address, str(address), credentials)


def _listen(server: grpc.aio.Server, address: Address, name: str, credentials: Any) -> None:
    try:
        port = server.add_secure_port(name, credentials) if credentials else server.add_insecure_port(name)
    except RuntimeError as error:  # how some versions of gRPC report it
        raise refusal(WHAT, address, f"gRPC cannot listen at {name}: {error}") from None
    if not port:
        raise refusal(WHAT, address, f"gRPC cannot listen at {name}")


def _me() -> str:
    return f"{user(os.geteuid())} (and root)" if os.geteuid() else "root"
