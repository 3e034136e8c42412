# SPDX-License-Identifier: Apache-2.0
"""A connection to a switch that serves BMv2's runtime API over Thrift: one of detour's, or simple_switch itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from detour.base.addresses import Address, UnixAddress
from detour.base.errors import DetourError
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.wire import methods, protocol

T = TypeVar("T")


class Connection(Api):
    """The services of one switch. Raises DetourError when the switch cannot be reached (any more)."""

    def __init__(self, sock: socket.socket, where: str, prefix: str = "") -> None:
        """`sock`: to the switch, which takes `where` in messages. `prefix`: of services, if several switches answer."""
        self._socket, self._where, self._prefix = sock, where, prefix
        self._lock = threading.Lock()
        self._number = 0
        plain = TSocket()
        plain.setHandle(self._socket)
        self._transport = TBufferedTransport(plain)
        self._protocol = protocol(self._transport)

    def service(self, service: type[T]) -> T:
        return cast(T, _Stub(self, service))

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(self, service: type, name: str, arguments: tuple[Any, ...]) -> Any:
        """Make a call; raise what the service answers with."""
        method = methods(service)[name]
        message, result = method.arguments(), method.result()
        for each, value in zip(method.parameters, arguments, strict=True):
            setattr(message, each, value)
        full = f"{self._prefix}{cast(Any, service).SERVICE}:{name}"
        with self._lock:
            try:
                self._exchange(full, message, result)
            except TApplicationException as error:
                raise DetourError(f"{self._where}: {error}") from None
            except (OSError, EOFError, TTransportException, TProtocolException) as error:
                raise DetourError(f"{self._where}: the connection is lost ({name}): {error}") from None
            except OverflowError:
                raise DetourError(f"{self._where}: {name}: a number is too large for BMv2's API") from None
        if (problem := getattr(result, "error", None)) is not None:
            raise problem
        value = getattr(result, "success", None)
        if method.returns and value is None:
            raise DetourError(f"{self._where}: {name} has no result")
        return value

    def _exchange(self, name: str, message: Any, result: Any) -> None:
        self._number += 1
        out = self._protocol
        out.writeMessageBegin(name, TMessageType.CALL, self._number)
        message.write(out)
        out.writeMessageEnd()
        self._transport.flush()
        _, kind, number = out.readMessageBegin()
        answer = TApplicationException() if kind == TMessageType.EXCEPTION else result
        answer.read(out)
        out.readMessageEnd()
        if number != self._number:
            raise TApplicationException(TApplicationException.BAD_SEQUENCE_ID, "an answer to another request")
        if kind == TMessageType.EXCEPTION:
            raise answer


def answering(connection: Connection) -> Connection:
    """The same, to a BMv2 that may only be starting: it listens before it registers the target's service. Raises
    `DetourError`: that does not answer; the connection is closed."""
    try:
        connection.target.get_time_elapsed_us()
    except DetourError:
        connection.close()
        raise
    return connection


class _Stub:
    """One service; its functions make calls."""

    def __init__(self, connection: Connection, service: type) -> None:
        self._connection, self._service = connection, service

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in methods(self._service):
            raise AttributeError(name)
        return lambda *arguments: self._connection.call(self._service, name, arguments)


def connect(address: Address, name: str = "", wait_s: float = 10.0) -> Connection:
    """`name`: of the switch, if several are behind the address. `wait_s`: for the connection."""
    where = f"switch {name}" if name else f"switch at {address}"
    try:
        sock = _socket_to(address, wait_s)
    except OSError as error:
        raise DetourError(f"{where}: no answer: {error.strerror or error}") from None
    return Connection(sock, where, f"{name}/" if name else "")


def _socket_to(address: Address, wait_s: float) -> socket.socket:
    if isinstance(address, UnixAddress):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(wait_s)
            sock.connect(f"\0{address.path}" if address.abstract else str(address.path))
        except OSError:
            sock.close()
            raise
    else:
        sock = socket.create_connection((address.host, address.port), wait_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(None)
    return sock
