# SPDX-License-Identifier: Apache-2.0
"""A server over a fake network, and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, config


@pytest.fixture
def network() -> FakeNetwork:
    return FakeNetwork()


@pytest.fixture
def server(network: FakeNetwork) -> Iterator[P4RuntimeServer]:
    with P4RuntimeServer(network) as server:
        server.add_device(1)
        server.add_device(2)
        yield server


@pytest.fixture
def connect(server: P4RuntimeServer) -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def make(device_id: int = 1, election: int = 1) -> Client:
        clients.append(Client(server.target, device_id, election))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """A primary of device 1 that has set the pipeline."""
    client = connect()
    client.ready()
    return client


@pytest.fixture(scope="session")
def names() -> Names:
    return Names(config().p4info)
