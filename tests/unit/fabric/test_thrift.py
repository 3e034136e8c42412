# SPDX-License-Identifier: Apache-2.0
"""The Thrift port of a BMv2 switch, which opens after P4Runtime's."""

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.fabric.backends.bmv2 import switch as bmv2_switch
from detour.fabric.backends.bmv2.switch import SwitchProcess
from detour.topo import parse_topology


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
