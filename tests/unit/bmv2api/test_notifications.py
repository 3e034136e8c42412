# SPDX-License-Identifier: Apache-2.0
"""BMv2's notifications over nanomsg: digests and states of ports."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.engine.bmv2api.client import Connection
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.notifications import LearnList, NotificationSocket
from detour.engine.network import Network
from tests.waiting import PATIENCE_S, until

from .conftest import SWITCH

pynng = pytest.importorskip("pynng", reason="pynng is not installed: pip install 'detour-fabric[nanomsg]'")


def frame(source: int) -> bytes:
    return bytes(6) + source.to_bytes(6, "big") + b"\x12\x34" + bytes(46)


@pytest.fixture
def subscriber(device: BmDevice, tmp_path: Path) -> Iterator[Any]:
    socket = NotificationSocket(f"ipc://{tmp_path}/notifications", 7)
    device.notify(socket)
    with pynng.Sub0(dial=socket.address, topics=[b""], recv_timeout=100) as subscriber:
        numbers = itertools.count()
        until(lambda: hears(subscriber, socket, next(numbers)))
        subscriber.recv_timeout = int(1000 * PATIENCE_S)
        yield subscriber
    socket.close()


def hears(subscriber: Any, socket: NotificationSocket, number: int) -> bool:
    """Whether a subscriber gets what is published now: not before both ends know each other."""
    socket.port(number, True)
    with suppress(pynng.Timeout):
        while port_state(subscriber.recv())[-2] != number:
            pass
        return True
    return False


def port_state(message: bytes) -> tuple[Any, ...]:
    return struct.unpack("<4sqI16xii", message)


def test_digests(subscriber: Any, connection: Connection, network: Network) -> None:
    assert connection.standard.bm_mgmt_get_info().notifications_socket == subscriber.dialers[0].url

    def comes(*sources: int) -> None:
        network.inject((SWITCH, 1), frame(sources[-1]))
        network.run(network.now_ps + 10**9)

    def learned() -> tuple[int, int, list[int]]:
        message = subscriber.recv()
        topic, device_id, context, list_id, buffer_id, count = struct.unpack_from("<4sqiiQI", message)
        assert (topic, device_id, context, len(message)) == (b"LEA|", 7, 0, 32 + 8 * count)
        return list_id, buffer_id, [int.from_bytes(message[32 + 8 * n :][:6], "big") for n in range(count)]

    comes(0xA)
    comes(0xA)  # known, until it is acknowledged
    comes(0xB)
    assert (learned(), learned()) == ((1, 0, [0xA]), (1, 1, [0xB]))
    connection.standard.bm_learning_ack(1, 0, [0])
    connection.standard.bm_learning_set_buffer_size(1, 2)
    connection.standard.bm_learning_set_timeout(1, 0)
    for source in (0xB, 0xA, 0xC):
        comes(source)
    assert learned() == (1, 2, [0xA, 0xC])
    connection.standard.bm_learning_ack_buffer(1, 2)
    comes(0xC)
    connection.standard.bm_learning_set_buffer_size(1, 1)
    assert learned() == (1, 3, [0xC])


def test_a_buffer_is_sent_when_it_is_old() -> None:
    sent: list[list[bytes]] = []
    samples = LearnList(lambda _, samples: sent.append(samples))
    samples.configure(most=100, timeout_ms=1)
    samples.add(b"a")
    until(lambda: sent == [[b"a"]])


def test_states_of_ports(subscriber: Any, network: Network) -> None:
    tell = network._on_port_state
    assert tell is not None
    for port, up in ((3, True), (2, False)):
        tell((SWITCH, port), up)
        assert port_state(subscriber.recv()) == (b"PRT|", 7, 1, port, up)


def test_an_address_that_is_taken(subscriber: Any) -> None:
    with pytest.raises(DetourError, match=r"^notifications at ipc://.*: Address in use$"):
        NotificationSocket(subscriber.dialers[0].url, 7)
