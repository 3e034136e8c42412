# SPDX-License-Identifier: Apache-2.0
"""Addresses, TLS, start and stop, Capabilities."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.engine.endpoint import GrpcEndpoint, Main
from detour.engine.p4runtime import P4RuntimeServer, Tls
from tests.unit.p4runtime.harness import WAIT_S, Client, FakeNetwork, refused

PEM = Path(__file__).parent / "tls"


def version(client: Client, device_id: int = 0) -> str:
    return client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=device_id), timeout=WAIT_S).p4runtime_api_version


def test_capabilities(connect: Callable[..., Client]) -> None:
    client = connect()
    assert version(client) == version(client, 2) == "1.5.0"
    assert refused(lambda: version(client, 3)) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9559", "example.org:9559", "*:9559", ":9559"])
def test_other_than_loopback_needs_client_certificates(network: FakeNetwork, address: str) -> None:
    for tls in (None, Tls(PEM / "server.pem", PEM / "server.key")):
        with pytest.raises(DetourError, match="not a loopback address"):
            P4RuntimeServer(network, address, tls)
    P4RuntimeServer(network, address, Tls(PEM / "server.pem", PEM / "server.key", PEM / "ca.pem"))


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536"])
def test_what_is_no_address(network: FakeNetwork, address: str) -> None:
    with pytest.raises(DetourError, match="is not an address"):
        P4RuntimeServer(network, address)


@pytest.mark.parametrize("address", ["localhost:0", "127.0.0.7:0", "[::1]:0", "unix:{tmp}/s"])
def test_loopback_addresses(network: FakeNetwork, address: str, tmp_path: Path) -> None:
    if "::" in address and not socket.has_ipv6:
        pytest.skip("no IPv6")
    with P4RuntimeServer(network, address.format(tmp=tmp_path)) as server:
        client = Client(server.target)
        assert version(client)
        client.close()


def test_a_port_that_is_taken(network: FakeNetwork, server: P4RuntimeServer) -> None:
    other = P4RuntimeServer(network, server.target)
    with pytest.raises(DetourError, match="cannot bind"):
        other.start()
    other.stop()


def test_stop_and_start_again(network: FakeNetwork) -> None:
    server = P4RuntimeServer(network)
    server.add_device(1)
    for _ in range(3):
        server.start()
        client = Client(server.target)
        stream = client.ready()
        port = server.port
        server.stop()
        assert stream.error() is grpc.StatusCode.UNAVAILABLE
        client.close()
        with socket.socket() as s:
            assert s.connect_ex(("127.0.0.1", port)) != 0
    server.stop()


def test_a_start_that_is_interrupted_ends(network: FakeNetwork) -> None:
    """A signal comes when the server's thread runs, and before it has come as far as what `stop` would end."""
    stops = threading.Event()

    class Interrupted(GrpcEndpoint):
        def serve(self, main: Main) -> None:
            async def late(server: grpc.aio.Server) -> None:
                await asyncio.to_thread(stops.wait)
                await main(server)

            super().serve(late)
            raise KeyboardInterrupt

        def stop(self) -> None:
            stops.set()
            super().stop()

    server = P4RuntimeServer(network, Interrupted("127.0.0.1:0"))
    interrupted = threading.Event()

    def start() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            server.start()
        interrupted.set()

    threading.Thread(target=start, daemon=True).start()
    assert interrupted.wait(WAIT_S)


def test_devices_come_and_go(server: P4RuntimeServer, connect: Callable[..., Client], network: FakeNetwork) -> None:
    server.add_device(7, switch=70)
    client = connect(7)
    stream = client.ready()
    assert set(network.pipelines) == {70}
    server.remove_device(7)
    assert stream.error() is grpc.StatusCode.NOT_FOUND
    assert 70 not in network.packet_in
    assert refused(client.write) is grpc.StatusCode.NOT_FOUND
    with pytest.raises(DetourError, match="is not served"):
        server.remove_device(7)
    with pytest.raises(DetourError, match="is already served"):
        server.add_device(1)


def credentials(name: str | None) -> grpc.ChannelCredentials:
    ca = (PEM / "ca.pem").read_bytes()
    if name is None:
        return grpc.ssl_channel_credentials(ca)
    return grpc.ssl_channel_credentials(ca, (PEM / f"{name}.key").read_bytes(), (PEM / f"{name}.pem").read_bytes())


def test_client_certificates(network: FakeNetwork) -> None:
    tls = Tls(PEM / "server.pem", PEM / "server.key", PEM / "ca.pem")
    with P4RuntimeServer(network, "127.0.0.1:0", tls) as server:
        server.add_device(1)
        good = Client(server.target, credentials=credentials("client"))
        good.ready()
        good.close()
        for bad in (
            Client(server.target),
            *(Client(server.target, credentials=credentials(n)) for n in (None, "stranger")),
        ):
            assert refused(lambda bad=bad: version(bad)) is grpc.StatusCode.UNAVAILABLE
            bad.close()


@pytest.mark.parametrize(
    "tls", [Tls(PEM / "nowhere.pem", PEM / "server.key"), Tls(PEM / "README.md", PEM / "server.key")]
)
def test_wrong_files(network: FakeNetwork, tls: Tls) -> None:
    with pytest.raises(DetourError, match=r"TLS: .*(nowhere.pem|README.md)"):
        P4RuntimeServer(network, "127.0.0.1:0", tls).start()


def test_a_certificate_and_another_key(network: FakeNetwork) -> None:
    with pytest.raises(DetourError):
        P4RuntimeServer(network, "127.0.0.1:0", Tls(PEM / "server.pem", PEM / "client.key")).start()
