# SPDX-License-Identifier: Apache-2.0
"""Thrift's bytes: those that BMv2's own Python client sends, and the answers that may come."""

import socket
import struct
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.fabric.footings.bmv2 import switch as bmv2_switch
from detour.fabric.footings.bmv2.switch import SwitchProcess
from detour.fabric.footings.bmv2.thrift import ThriftClient
from detour.topo import parse_topology


def reply(kind: int, body: bytes, name: bytes = b"set_egress_queue_depth") -> bytes:
    return struct.pack("!Ii", 0x80010000 | kind, len(name)) + name + struct.pack("!i", 1) + body


GOOD = struct.pack("!bhib", 8, 0, 0, 0)


def exchange(answer: bytes, calls: int = 1) -> bytes:
    ours, theirs = socket.socketpair()
    got: list[bytes] = []

    def serve() -> None:
        with theirs:
            for _ in range(calls):
                got.append(theirs.recv(1000))
                theirs.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    client = ThriftClient(ours, "s7")
    try:
        for _ in range(calls):
            client.set_queue_depth(3, 256)
    finally:
        client.close()
        thread.join()
    return got[0]


def test_what_is_sent() -> None:
    name = b"simple_switch:set_egress_queue_depth"
    head = struct.pack("!Ii", 0x80010001, len(name)) + name + struct.pack("!i", 1)
    assert exchange(reply(2, GOOD)) == head + struct.pack("!bhi", 8, 1, 3) + struct.pack("!bhi", 8, 2, 256) + b"\0"


def test_one_call_after_the_other() -> None:
    exchange(reply(2, GOOD), calls=3)


@pytest.mark.parametrize(
    "answer",
    [
        reply(2, struct.pack("!bhib", 8, 0, -1, 0)),  # refused
        reply(2, struct.pack("!bh", 12, 1)),  # an exception that the function declares
        reply(3, struct.pack("!bh", 11, 1)),  # Thrift's own exception
        reply(2, b"")[:20],  # the connection breaks
        b"",
    ],
)
def test_what_is_refused_names_switch_and_function(answer: bytes) -> None:
    with pytest.raises(DetourError, match="switch s7: Thrift call simple_switch:set_egress_queue_depth"):
        exchange(answer)


def process_at(port: int, ended: int | None = None, before: Callable[[], None] = lambda: None) -> SwitchProcess:
    """A switch whose Thrift port is `port` of this machine. `before`: happens before each attempt to connect."""

    def run(function: Callable[..., Any], *arguments: Any) -> Any:
        before()
        return function(*arguments)

    found = object.__new__(SwitchProcess)
    found.switch = parse_topology("d1").switches[3]
    found.process = SimpleNamespace(poll=lambda: ended)  # type: ignore[assignment]
    found._namespace = SimpleNamespace(run=run)  # type: ignore[assignment]
    found._thrift_port = port
    return found


def test_a_port_that_is_opened_a_little_later() -> None:
    """BMv2 says that it is ready before the thread that serves Thrift listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        attempts = iter((lambda: None, lambda: None, server.listen))
        found = process_at(server.getsockname()[1], before=lambda: next(attempts)())
        found.thrift().close()
    assert next(attempts, None) is None


@pytest.mark.parametrize("ended", [None, 1])
def test_a_port_that_is_never_opened(monkeypatch: pytest.MonkeyPatch, ended: int | None) -> None:
    monkeypatch.setattr(bmv2_switch, "_THRIFT_SECONDS", 0.05)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        with pytest.raises(DetourError, match=r"switch s3: Thrift port .* needs? a BMv2 that is built with Thrift"):
            process_at(server.getsockname()[1], ended).thrift()
