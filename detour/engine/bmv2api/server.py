# SPDX-License-Identifier: Apache-2.0
"""BMv2's runtime API over Thrift's binary protocol, multiplexed, as simple_switch serves it.

One thread accepts, each connection has one of its own, and calls take turns at the switch. What is wrong with a call is
answered with the service's exception or a TApplicationException; what is not a message ends the connection.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportException

from detour.base.addresses import Address, TcpAddress, UnixAddress, joined
from detour.base.errors import DetourError
from detour.base.interrupting import join_thread
from detour.base.listening import take
from detour.base.progress import Progress, silent
from detour.base.tcp_listener import TcpServerSocket
from detour.base.unix_listener import UnixServerSocket
from detour.engine.bmv2api.interface import Api, SimplePreLag, SimpleSwitch, Standard
from detour.engine.bmv2api.wire import Method, methods, protocol

_WHAT = "Thrift"
_PAUSE_S = 0.1
_log = logging.getLogger(__name__)


class Dispatcher:
    """Finds what a message asks for. A service is `standard`, `simple_pre_lag` or `simple_switch`; of one of several
    switches behind one address, `NAME/standard` and so on."""

    def __init__(self, apis: Mapping[str, Api]) -> None:
        """`apis`: by name; "" for the only one."""
        self._methods: dict[str, tuple[Method, Any]] = {}
        for name, api in apis.items():
            prefix = f"{name}/" if name else ""
            handlers = ((Standard, api.standard), (SimplePreLag, api.multicast), (SimpleSwitch, api.target))
            for service, handler in handlers:
                for method in methods(service).values():
                    self._methods[f"{prefix}{service.SERVICE}:{method.name}"] = method, handler

    def process(self, source: Any) -> bytes:
        """Read one call and carry it out; the answer."""
        name, _, number = source.readMessageBegin()
        method, handler = self._methods.get(name, (None, None))
        if method is None:
            source.skip(TType.STRUCT)
            source.readMessageEnd()
            return _failed(name, number, TApplicationException.UNKNOWN_METHOD, f"there is no function {name}")
        message = method.arguments()
        message.read(source)
        source.readMessageEnd()
        short = method.name
        try:
            return _answer(short, number, TMessageType.REPLY, method.call(handler, message))
        except DetourError as error:
            return _failed(short, number, TApplicationException.INTERNAL_ERROR, str(error))
        except Exception:
            _log.exception("%s failed", name)
            return _failed(short, number, TApplicationException.INTERNAL_ERROR, f"{short} failed: an internal error")


def _answer(name: str, number: int, kind: int, content: Any) -> bytes:
    """A whole message: one that cannot be encoded must not be begun."""
    buffer = TMemoryBuffer()
    out = protocol(buffer)
    out.writeMessageBegin(name, kind, number)
    content.write(out)
    out.writeMessageEnd()
    return buffer.getvalue()


def _failed(name: str, number: int, kind: int, text: str) -> bytes:
    return _answer(name, number, TMessageType.EXCEPTION, TApplicationException(kind, text))


class ThriftServer:
    """Serves one address; `bind`, then `serve`, then `stop`. A context manager, which does the last."""

    def __init__(self, address: Address, connections: int = 256) -> None:
        """Raise DetourError for an address that other machines can reach: the API knows no passwords."""
        if isinstance(address, TcpAddress) and not address.is_loopback:
            raise DetourError(
                f"{_WHAT}: {address} is not a loopback address; other machines could program the switches"
            )
        self._address, self._most = address, connections
        self._place: TcpServerSocket | UnixServerSocket | None = None
        self._listening: list[socket.socket] = []
        self._connections: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._acceptor: threading.Thread | None = None
        self.port = 0
        """the TCP port, once it is bound"""

    @property
    def target(self) -> str:
        """The address that clients connect to."""
        return joined(self._address.host, self.port) if isinstance(self._address, TcpAddress) else str(self._address)

    def bind(self, patience_s: float = 0.0, progress: Progress = silent) -> None:
        """Take the address; who connects is refused until it serves. Raises DetourError if it cannot be had."""
        if isinstance(self._address, UnixAddress):
            self._place = UnixServerSocket(self._address.path, _WHAT)
        else:
            place = take(self._address, _WHAT, patience_s, progress)
            assert isinstance(place, TcpServerSocket)
            self._place, self.port = place, place.port

    def serve(self, apis: Mapping[str, Api]) -> None:
        """Answer from now on. `apis`: of switches by name; "" for the only one."""
        if self._place is None:
            self.bind()
        assert self._place is not None
        listening = self._place.listen()
        self._listening = listening if isinstance(listening, list) else [listening]
        dispatcher = Dispatcher(apis)
        self._acceptor = threading.Thread(target=self._accept, args=(dispatcher,), name="thrift", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """End all connections and give the address back. May be called twice."""
        self._stopping.set()
        with suppress(OSError):
            self._wake.send(b"x")
        if isinstance(self._place, UnixServerSocket):
            self._place.remove()
        elif self._place is not None:
            self._place.close()
        if self._acceptor is not None:
            join_thread(self._acceptor)
            self._acceptor = None
        for each in self._listening:
            each.close()
        self._listening = []
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            waiting = list(self._threads)
        for thread in waiting:
            thread.join()
        self._wake.close()
        self._woken.close()

    def __enter__(self) -> ThriftServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- threads

    def _accept(self, dispatcher: Dispatcher) -> None:
        with selectors.DefaultSelector() as selector:
            for each in (*self._listening, self._woken):
                selector.register(each, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select():
                    if key.fileobj is not self._woken:
                        self._take(key.fileobj, dispatcher)

    def _take(self, listening: Any, dispatcher: Dispatcher) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # no descriptors left, or whoever it was is gone
            time.sleep(_PAUSE_S)
            return
        with self._lock:
            if len(self._connections) >= self._most:
                connection.close()
                return
            self._connections.add(connection)
            thread = threading.Thread(target=self._converse, args=(connection, dispatcher), daemon=True)
            self._threads.add(thread)
        thread.start()

    def _converse(self, connection: socket.socket, dispatcher: Dispatcher) -> None:
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain = TSocket()
        plain.setHandle(connection)
        transport = TBufferedTransport(plain)
        source = protocol(transport)
        try:
            while not self._stopping.is_set():
                transport.write(dispatcher.process(source))
                transport.flush()
        except (OSError, EOFError, TTransportException):
            pass  # the client is gone
        except (TProtocolException, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
            _log.info("Thrift: a connection sent what is not a message: %s", error)
        except Exception:
            _log.exception("a Thrift connection ended")
        finally:
            with suppress(OSError):
                connection.close()
            with self._lock:
                self._connections.discard(connection)
                self._threads.discard(threading.current_thread())
