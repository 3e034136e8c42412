# SPDX-License-Identifier: Apache-2.0
"""Taking addresses: UNIX sockets that live, are dead or another's; names with several addresses; TLS files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio
import pytest

from detour.base.addresses import TcpAddress, UnixAddress, parse
from detour.base.errors import DetourError
from detour.base.listening import take
from detour.base.tcp_listener import TcpServerSocket, take_tcp
from detour.base.unix_listener import UnixServerSocket
from detour.cli import scrape
from detour.cli.operations import displaced_lines
from detour.engine.endpoint import GrpcEndpoint, Tls
from detour.engine.sockets import open_unix as engine_socket
from detour.fabric.daemon.control_socket import ControlServer, call
from detour.fabric.operations.results import DisplacedSwitch
from detour.hosts.driver import open_unix as host_socket
from tests.waiting import PATIENCE_S

PEM = Path(__file__).parent / "p4runtime" / "tls"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9559", TcpAddress("127.0.0.1", 9559)),
        ("[::1]:0", TcpAddress("::1", 0)),
        ("localhost:65535", TcpAddress("localhost", 65535)),
        ("unix:a/b", UnixAddress(Path("a/b"))),
        ("unix:/a%20b%25", UnixAddress(Path("/a b%"))),
        ("unix:///a/b", UnixAddress(Path("/a/b"))),
        ("unix-abstract:a", UnixAddress(Path("a"), abstract=True)),
    ],
)
def test_addresses_are_understood_and_told_alike(text: str, address: TcpAddress | UnixAddress) -> None:
    assert parse(text, "x") == address
    assert parse(str(address), "x") == address


@pytest.mark.parametrize(
    "text", ["", "a", ":", "a:", "a:-1", "a:65536", "a:²", "::1:5", "[::1]", "[a]:5", "unix:", "unix:a\0b"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(DetourError, match=r"x: '.*' is not an address; give host:port"):
        parse(text, "x")


def test_a_datagram_socket_of_a_host_keeps_its_name(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as far:
        far.bind(str(tmp_path / "far"))
        first = host_socket(tmp_path / "far", tmp_path / "own")
        number = (tmp_path / "own").stat().st_ino
        with pytest.raises(DetourError, match=f"own: Address already in use: process {os.getpid()} "):
            host_socket(tmp_path / "far", tmp_path / "own")
        assert (tmp_path / "own").stat().st_ino == number
        first.close()
        host_socket(tmp_path / "far", tmp_path / "own").close()  # what the first one left is dead
        (tmp_path / "own").unlink()
        (tmp_path / "own").write_text("precious")
        with pytest.raises(DetourError, match="own: it exists and is not a socket"):
            host_socket(tmp_path / "far", tmp_path / "own")


def test_a_port_that_closes_leaves_the_socket_of_another(tmp_path: Path) -> None:
    attachment = engine_socket(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(tmp_path / "a"))
        attachment.close()
        attachment.close()
        assert (tmp_path / "a").exists()


def test_a_control_socket_is_not_taken_over(tmp_path: Path) -> None:
    first = ControlServer(tmp_path / "s", {"who": lambda: "first"})
    with pytest.raises(DetourError, match=f"control socket: .* process {os.getpid()} .* listens there"):
        ControlServer(tmp_path / "s", {"who": lambda: "second"})
    assert call(tmp_path / "s", "who", {}) == "first"
    (tmp_path / "s").unlink()
    third = ControlServer(tmp_path / "s", {"who": lambda: "third"})
    first.stop()
    assert call(tmp_path / "s", "who", {}) == "third"
    third.stop()
    assert not list(tmp_path.iterdir())


def _race(path: Path, start: threading.Barrier, won: list, lost: list) -> None:
    start.wait()
    try:
        place = UnixServerSocket(path, "racer")
        won.append((place, place.listen()))
    except DetourError as error:
        lost.append(error)


def test_of_many_that_replace_a_dead_socket_one_wins(tmp_path: Path) -> None:
    for turn in range(20):
        path = tmp_path / f"{turn}"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        won: list[tuple[UnixServerSocket, socket.socket]] = []
        lost: list[DetourError] = []
        start = threading.Barrier(8)

        threads = [threading.Thread(target=_race, args=(path, start, won, lost)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ((place, sock),) = won
        assert all("in use" in str(error) for error in lost), lost
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            sock.accept()[0].close()
        place.remove()
        sock.close()


def test_a_long_folder_has_room_for_a_short_name(tmp_path: Path) -> None:
    """The name that is bound first is longer than the one that is asked for."""
    folder = tmp_path / ("x" * (107 - 3 - len(str(tmp_path))))
    folder.mkdir()
    place = UnixServerSocket(folder / "s", "x")
    sock = place.listen()
    assert [path.name for path in folder.iterdir()] == ["s"]
    place.remove()
    sock.close()
    assert not list(folder.iterdir())


def test_metrics_answer_at_all_addresses_of_a_name() -> None:
    errors: list[str] = []
    server = scrape.make_server("localhost:0", str, errors.append)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.socket.getsockname()[1]
    try:
        for host in ("127.0.0.1", "[::1]")[: 1 + has_ipv6()]:
            with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
                assert answer.status == 200
        with pytest.raises(DetourError, match=f"--serve: cannot bind localhost:{port}: .* process {os.getpid()} "):
            scrape.make_server(f"localhost:{port}", str)
    finally:
        server.shutdown()
        server.server_close()
    assert errors == []
    scrape.make_server(f"localhost:{port}", str).server_close()


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def test_nothing_of_a_name_is_kept_when_one_address_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DetourError, match="Address already in use"):
            take(TcpAddress("localhost", port), "x")
        if has_ipv6():
            with socket.socket(socket.AF_INET6) as free:
                free.bind(("::1", port))


def test_port_0_is_the_same_port_at_all_addresses() -> None:
    with take_tcp(TcpAddress("localhost", 0), "x") as place:
        assert isinstance(place, TcpServerSocket)
        assert place.addresses[0] == f"127.0.0.1:{place.port}"
        assert len(place.addresses) == 1 + has_ipv6()


def test_an_abstract_name_that_is_taken() -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0detour-test-{os.getpid()}")
        other.listen()
        with pytest.raises(DetourError, match=f"in use: process {os.getpid()} .* listens there: choose another name"):
            take(parse(f"unix-abstract:detour-test-{os.getpid()}", "x"), "x")


@contextmanager
def serving(endpoint: GrpcEndpoint) -> Iterator[None]:
    """Serves nothing, until the end."""
    over = threading.Event()

    async def main(server: grpc.aio.Server) -> None:
        await server.start()
        await asyncio.to_thread(over.wait)
        await server.stop(None)

    endpoint.serve(main)
    try:
        yield
    finally:
        over.set()
        endpoint.stop()


def test_an_endpoint_that_serves_nobody_gives_back_what_it_took(tmp_path: Path) -> None:
    endpoint = GrpcEndpoint("localhost:0", private=tmp_path / "s")
    for _ in range(2):
        endpoint.bind()
        port = endpoint.port
        for family, name in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, str(tmp_path / "s"))):
            with socket.socket(family) as client:
                assert client.connect_ex(name), "who connects before it serves is not let in"
        with serving(endpoint), socket.create_connection(("127.0.0.1", port)), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
        endpoint.stop()
        assert not list(tmp_path.iterdir())
        with take_tcp(TcpAddress("localhost", port), "x"):
            pass


def test_a_call_that_ends_after_its_server_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It is still cleaning up when the server's end has cancelled it, as on a busy machine."""
    begun, ended = threading.Event(), threading.Event()

    async def slow(request: bytes, context: object) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.2)
            ended.set()
        return request

    async def main(server: grpc.aio.Server) -> None:
        handlers = {"slow": grpc.unary_unary_rpc_method_handler(slow)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))
        await server.start()
        await asyncio.to_thread(begun.wait)
        await server.stop(0)

    endpoint = GrpcEndpoint("127.0.0.1:0")
    endpoint.bind()
    endpoint.serve(main)
    with grpc.insecure_channel(endpoint.target) as channel:
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/test/slow")(b"", timeout=PATIENCE_S)
        endpoint.stop()
    assert ended.is_set()
    assert capsys.readouterr().err == ""  # gRPC itself writes of the end, too


def test_nothing_is_taken_when_the_second_address_cannot_be_had(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        endpoint = GrpcEndpoint(f"127.0.0.1:{other.getsockname()[1]}", private=tmp_path / "s")
        with pytest.raises(DetourError, match="already in use"):
            endpoint.bind()
    assert not list(tmp_path.iterdir())
    assert not endpoint.is_bound


@pytest.mark.parametrize(("mode", "who"), [(0o700, "only "), (0o770, " and its group "), (0o777, "every user ")])
def test_who_reaches_a_socket(tmp_path: Path, mode: int, who: str) -> None:
    endpoint = GrpcEndpoint(f"unix:{tmp_path}/s")
    endpoint.bind()
    with serving(endpoint):
        (tmp_path / "s").chmod(mode)
        assert who in endpoint.reach()
        (tmp_path / "s").unlink()
        assert "nobody can reach" in endpoint.reach()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("server.pem", "client.key", None), "the key does not belong to the certificate"),
        (("server.key", "server.key", None), "cannot be read as PEM"),
        (("server.pem", "server.key", "server.key"), "server.key: cannot be read as PEM"),
        (("none.pem", "server.key", None), "none.pem: No such file or directory"),
        (("README.md", "server.key", None), "README.md is not a PEM file"),
    ],
)
def test_each_file_of_tls_has_its_own_words(names: tuple[str, str, str | None], words: str) -> None:
    files = [None if name is None else PEM / name for name in names]
    with pytest.raises(DetourError, match=f"TLS: .*{words}"):
        GrpcEndpoint("127.0.0.1:0", Tls(*files)).bind()  # type: ignore[arg-type]


def test_what_status_says_of_other_controllers() -> None:
    def displaced(again: bool) -> DisplacedSwitch:
        return DisplacedSwitch("11", 1.0, primary_again=again)

    lines = displaced_lines({f"s{n}": displaced(False) for n in range(10)} | {"s10": displaced(True)})
    assert lines == [
        "s0, s1, s2, s3, s4, s5, s6, s7 and 2 more: another controller (election id 11) has displaced detour's; "
        "detour can read but not write there",
        "s10: another controller (election id 11) was primary for a while; "
        "`detour provision` writes again what differs",
    ]
