# SPDX-License-Identifier: Apache-2.0
"""A switch of the engine in virtual time with the program that has one object of every kind, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from detour.base.addresses import TcpAddress
from detour.engine.bmv2api.client import Connection, connect
from detour.engine.bmv2api.commands.interpreter import program_of, understand
from detour.engine.bmv2api.commands.registry import CommandScope
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.bmv2api.server import ThriftServer
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import Client, Names, config

PROGRAMS = Path(__file__).resolve().parents[2] / "programs" / "p4runtime"
EVERYTHING = PROGRAMS / "everything.json"
SWITCH = 1

Do = Callable[[str], list[str]]
"""carries a command out and returns what it says"""


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(Virtual(), packets=64) as network:
        network.add_switch(SWITCH, "s1", priorities=2)
        for port in (1, 2, 3):
            network.attach_sink((SWITCH, port), lambda frame, time_ps: None)
        yield network


@pytest.fixture
def device(network: Network) -> BmDevice:
    """A switch that P4Runtime does not serve."""
    device = BmDevice(network, SWITCH, thrift_port=9090)
    device.load(EVERYTHING.read_bytes())
    return device


@pytest.fixture
def api(device: BmDevice) -> BmRuntime:
    return BmRuntime(device)


def doing(api: BmRuntime | Connection) -> Do:
    """Commands on that API."""
    scope = CommandScope(program_of(api))

    def do(line: str) -> list[str]:
        printed: list[str] = []
        work = understand(line, scope)
        if work is not None:
            work(api, printed.append)
        return printed

    return do


@pytest.fixture
def do(api: BmRuntime) -> Do:
    return doing(api)


@pytest.fixture
def connection(api: BmRuntime) -> Iterator[Connection]:
    """The same over Thrift."""
    with ThriftServer(TcpAddress("localhost", 0)) as server:
        server.bind()
        server.serve({"": api})
        with connect(TcpAddress("localhost", server.port)) as connection:
            yield connection


# -- a switch that P4Runtime serves as well


@pytest.fixture
def server(network: Network) -> Iterator[P4RuntimeServer]:
    with P4RuntimeServer(network) as server:
        server.add_device(SWITCH)
        yield server


@pytest.fixture
def client(server: P4RuntimeServer) -> Iterator[Client]:
    """Its controller, which has set the pipeline."""
    client = Client(server.target, SWITCH, 1)
    client.primary()
    client.set_pipeline(config())
    yield client
    client.close()


@pytest.fixture
def both(client: Client, server: P4RuntimeServer, network: Network) -> Do:
    """Commands on that switch."""
    return doing(BmRuntime(BmDevice(network, SWITCH, server)))


@pytest.fixture(scope="session")
def names() -> Names:
    return Names(config().p4info)
