# SPDX-License-Identifier: Apache-2.0
"""Every cause for which an address cannot be had, by `detour switch` as this user and as another one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.test_listening import has_ipv6

NOBODY = 65534
WAIT_S = 120.0
PEM = Path(__file__).parents[1] / "unit" / "p4runtime" / "tls"
LISTENS = "(it listens)"

IMPATIENT = """
from detour.base import tcp_listener
tcp_listener.PATIENCE_S = 0.5
"""
"""Before what refuses an address in the end: a shorter wait says the same."""
AS_ANOTHER = f"""{IMPATIENT}
import encodings.idna, os, signal, sys
from detour.base.errors import DetourError
from detour.engine import endpoint
from detour.engine.switch import options, process
wanted = options.parse(sys.argv[2:])
rehearsal = endpoint.GrpcEndpoint("127.0.0.1:0")  # imports what is imported late
async def nobody(server):
    await server.start()
    await server.stop(None)
rehearsal.bind()
rehearsal.serve(nobody)
rehearsal.stop()
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
async def everybody(server):
    await server.start()
    await server.wait_for_termination()
try:
    process._listen(wanted).serve(everybody)
except DetourError as error:
    sys.exit(print(error, file=sys.stderr) or 2)
signal.pause()
"""
"""What takes the address, after becoming another user, who may not even be allowed to read Python's own files."""


AS_THIS = f"""{IMPATIENT}
import sys
from detour.cli.switch import main
sys.exit(main())
"""


class Switch:
    """A `detour switch` that may or may not get its address."""

    def __init__(self, folder: Path, address: str, *program: str, options: tuple[str, ...] = ()) -> None:
        """`program`: what takes the address, in place of the command."""
        program = program or ("-m", "detour.cli.switch")
        command = [sys.executable, *program, "--no-p4", "--", "--grpc-server-addr", address, *options]
        self._out = folder / "out"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)

    def output(self) -> str:
        return self._out.read_text()

    def wait_for(self, holds: Callable[[], object]) -> bool:
        """Waits until something holds (True) or the process has ended."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.01)
        return True

    def listens(self, sockets: list[tuple[int, object]]) -> bool:
        """Whether it gets its address: all of it can be called."""
        return self.wait_for(lambda: all(reachable(*each) for each in sockets))

    def refusal(self) -> str:
        """What it says before it ends: one line."""
        assert self.process.wait(WAIT_S) == 2, self.output()
        lines = [line for line in self.output().splitlines() if "waiting up to" not in line]
        assert len(lines) == 1, lines
        return lines[0]

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def reachable(family: int, name: object) -> bool:
    with socket.socket(socket.AddressFamily(family)) as probe:
        # From a port of its own: a call to a port of the range for outgoing calls may reach itself.
        if family != socket.AF_UNIX:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1" if family == socket.AF_INET else "::1", unused_port()))
        return probe.connect_ex(name) == 0  # type: ignore[arg-type]


def unused_port() -> int:
    """A port that nobody has, at both loopback addresses if there are two."""
    for _ in range(100):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if not has_ipv6():
                return port
            second = stack.enter_context(socket.socket(socket.AF_INET6))
            with contextlib.suppress(OSError):
                second.bind(("::1", port))
                return port
    raise AssertionError("no port is free")


@dataclass
class World:
    """Where a case happens. `stack` ends what the case began; `root`: whether the switch runs as root."""

    folder: Path
    stack: contextlib.ExitStack
    root: bool
    mine: bool
    """whether the switch is this user's: others' processes are not shown by name"""

    def name(self) -> str:
        """How this process is called by the switch."""
        comm = Path("/proc/self/comm").read_text().strip()
        shown = self.root or self.mine
        return f"process {os.getpid()} ({comm})" if shown else "a process of user root"

    def keep(self, sock: socket.socket) -> socket.socket:
        return self.stack.enter_context(sock)

    def server(self, name: tuple[str, int], family: int = socket.AF_INET) -> socket.socket:
        return self.keep(socket.create_server(name, family=socket.AddressFamily(family)))

    def connection(self) -> tuple[socket.socket, socket.socket]:
        """Two ends; the first one's port is not a server's."""
        server = self.server(("127.0.0.1", 0))
        caller = self.keep(socket.create_connection(server.getsockname()))
        return caller, self.keep(server.accept()[0])


Case = Callable[[World], tuple[str, str]]
"""makes the cause; returns the address to ask for, and words of the refusal (or LISTENS)"""


def no_folder(world: World) -> tuple[str, str]:
    path = world.folder / "none" / "s"
    return f"unix:{path}", f"cannot bind unix:{path}: {path.parent}: No such file or directory: make the folder"


def long_path(world: World) -> tuple[str, str]:
    path = world.folder / ("x" * (108 - len(str(world.folder)) - 1))
    return f"unix:{path}", "its path has 108 bytes, longer than a socket's 107: choose a shorter one"


def longest_path(world: World) -> tuple[str, str]:
    return f"unix:{world.folder / ('x' * (107 - len(str(world.folder)) - 1))}", LISTENS


def percent_in_path(world: World) -> tuple[str, str]:
    """gRPC decodes what follows a percent sign."""
    return f"unix:{world.folder}/a%20b", LISTENS


def folder_in_the_way(world: World) -> tuple[str, str]:
    (world.folder / "s").mkdir()
    return f"unix:{world.folder}/s", "it is a folder: choose a path in it"


def file_in_the_way(world: World) -> tuple[str, str]:
    (world.folder / "s").write_text("precious")
    return f"unix:{world.folder}/s", "it exists and is not a socket: remove it or choose another path"


def file_for_a_folder(world: World) -> tuple[str, str]:
    (world.folder / "f").write_text("precious")
    return f"unix:{world.folder}/f/s", f"{world.folder}/f: Not a directory: choose another path"


def no_right_to_write(world: World) -> tuple[str, str]:
    (world.folder / "d").mkdir(mode=0o555)
    words = f"{world.folder}/d: Permission denied (mode 0555, of user "
    return f"unix:{world.folder}/d/s", LISTENS if world.root else words


def system_folder(world: World) -> tuple[str, str]:
    """Not even root makes sockets there."""
    return "unix:/proc/s", "No such file or directory" if world.root else "Permission denied"


def low_port(world: World) -> tuple[str, str]:
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    port = next(port for port in range(1, 1024) if not reachable(socket.AF_INET, ("127.0.0.1", port)))
    words = f"Permission denied: ports below {first} need root (or CAP_NET_BIND_SERVICE): choose {first} or more"
    return f"127.0.0.1:{port}", LISTENS if world.root or first <= port else words


def live_server(world: World) -> tuple[str, str]:
    port = world.server(("127.0.0.1", 0)).getsockname()[1]
    return f"127.0.0.1:{port}", f"Address already in use: {world.name()} listens there: end it or choose another port"


def server_on_all_addresses(world: World) -> tuple[str, str]:
    port = world.server(("", 0)).getsockname()[1]
    return f"127.0.0.1:{port}", f"Address already in use: {world.name()} listens there"


def open_connection(world: World) -> tuple[str, str]:
    caller, _ = world.connection()
    to = "{}:{}".format(*caller.getpeername())
    words = (
        f"Address already in use: {world.name()} has an outgoing connection from it to {to}: try again later or choose"
    )
    return "{}:{}".format(*caller.getsockname()), words


def closed_connection(world: World) -> tuple[str, str]:
    caller, called = world.connection()
    port, to = caller.getsockname()[1], "{}:{}".format(*caller.getpeername())
    caller.close()
    called.close()
    return f"127.0.0.1:{port}", f"Address already in use: a connection from it to {to} has ended: it stays taken for"


def half_closed_connection(world: World) -> tuple[str, str]:
    caller, _called = world.connection()
    port, to = caller.getsockname()[1], "{}:{}".format(*caller.getpeername())
    caller.close()
    return f"127.0.0.1:{port}", f"Address already in use: a connection from it to {to} is being closed: try again later"


def caller_of_itself(world: World) -> tuple[str, str]:
    """What becomes of polling a port of the range for outgoing connections, now and then."""
    caller = world.keep(socket.socket())
    caller.bind(("127.0.0.1", 0))
    caller.connect(caller.getsockname())
    words = f"Address already in use: {world.name()} called this port when nobody listened and got itself"
    return "{}:{}".format(*caller.getsockname()), words


def half_of_localhost(world: World) -> tuple[str, str]:
    port = unused_port()
    world.server(("127.0.0.1", port))
    return (
        f"localhost:{port}",
        f"cannot bind localhost:{port}: 127.0.0.1:{port}: Address already in use: {world.name()}",
    )


def other_half_of_localhost(world: World) -> tuple[str, str]:
    if not has_ipv6():
        pytest.skip("no IPv6")
    port = unused_port()
    world.server(("::1", port), socket.AF_INET6)
    return f"localhost:{port}", f"cannot bind localhost:{port}: [::1]:{port}: Address already in use: {world.name()}"


def all_of_localhost(world: World) -> tuple[str, str]:
    return f"localhost:{unused_port()}", LISTENS


def live_socket(world: World) -> tuple[str, str]:
    sock = world.keep(socket.socket(socket.AF_UNIX))
    sock.bind(str(world.folder / "s"))
    (world.folder / "s").chmod(0o777)
    sock.listen()
    shown = f"process {os.getpid()} ("  # whoever can connect is told by the kernel who listens
    return f"unix:{world.folder}/s", f"Address already in use: {shown}"


def busy_socket(world: World) -> tuple[str, str]:
    """So many wait to be heard that nobody else can even call."""
    live_socket(world)
    for _ in range(300):
        caller = world.keep(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        if caller.connect_ex(str(world.folder / "s")):
            return f"unix:{world.folder}/s", "Address already in use: "
    raise AssertionError("it has room for everybody")


def live_datagram_socket(world: World) -> tuple[str, str]:
    sock = world.keep(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    sock.bind(str(world.folder / "s"))
    (world.folder / "s").chmod(0o777)
    return f"unix:{world.folder}/s", "Address already in use: "


def socket_of_others(world: World) -> tuple[str, str]:
    live_socket(world)
    (world.folder / "s").chmod(0o600)
    words = (
        "Address already in use" if world.root or world.mine else "a socket of user root is there: Permission denied"
    )
    return f"unix:{world.folder}/s", words


def dead_socket(world: World) -> tuple[str, str]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(world.folder / "s"))
        sock.listen()
    (world.folder / "s").chmod(0o777)
    return f"unix:{world.folder}/s", LISTENS


def dead_socket_of_others(world: World) -> tuple[str, str]:
    """In a folder like /tmp, where only the owner removes a file."""
    address, _ = dead_socket(world)
    world.folder.chmod(0o1777)
    words = "a dead socket of user root cannot be removed: Operation not permitted"
    return address, LISTENS if world.root or world.mine else words


def constant(name: str, address: str, words: str) -> Case:
    """A case that needs nothing on the machine."""

    def case(world: World) -> tuple[str, str]:
        return address, words

    case.__name__ = name
    return case


NO_ADDRESSES = (
    constant("foreign_address", "192.0.2.1:9559", "192.0.2.1:9559 is not a loopback address: give TLS with client"),
    constant("bad_port", "127.0.0.1:65536", "is not an address; give host:port, [IPv6]:port or unix:path"),
    constant("service_name", "127.0.0.1:http", "'127.0.0.1:http' is not an address"),
    constant("no_brackets", "::1:50051", "'::1:50051' is not an address"),
    constant("no_path", "unix:", "'unix:' is not an address"),
)
# With certificates (see `options`), a name may be anybody's.
_NO_HOST = "cannot bind no-such-host.invalid:9559: no-such-host.invalid: "
_NOT_HERE = "Cannot assign requested address: no interface of this machine has that address"
CERTIFIED = (
    constant("bad_host", "no-such-host.invalid:9559", _NO_HOST),
    constant("address_of_another_machine", "192.0.2.1:9559", _NOT_HERE),
)


CASES = (
    no_folder, long_path, longest_path, percent_in_path, folder_in_the_way, file_in_the_way, file_for_a_folder,
    no_right_to_write, system_folder, low_port, live_server, server_on_all_addresses, open_connection,
    closed_connection, half_closed_connection, caller_of_itself, half_of_localhost, other_half_of_localhost,
    all_of_localhost, live_socket, busy_socket, live_datagram_socket, socket_of_others, dead_socket,
    dead_socket_of_others, *NO_ADDRESSES, *CERTIFIED,
)  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path that everybody may use."""
    path = Path(tempfile.mkdtemp(prefix="detour-", dir="/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["this user", "another user"])
def uid(request: pytest.FixtureRequest) -> int | None:
    if request.param == "this user":
        return None
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    return NOBODY


def options(case: Case, folder: Path) -> tuple[str, ...]:
    if case not in CERTIFIED:
        return ()
    for name in ("server.pem", "server.key", "ca.pem"):
        shutil.copyfile(PEM / name, folder / name)
    files = ("--grpc-server-cert", "server.pem", "--grpc-server-key", "server.key", "--grpc-server-cacert", "ca.pem")
    return ("--grpc-server-ssl", "--grpc-server-with-client-auth", *files)


def listeners(address: str) -> list[tuple[int, object]]:
    """What can be called when the address is had."""
    if address.startswith("unix:"):
        return [(socket.AF_UNIX, address.removeprefix("unix:").replace("%20", " "))]
    host, _, port = address.rpartition(":")
    addresses: list[tuple[int, object]] = [(socket.AF_INET, ("127.0.0.1", int(port)))]
    if host == "localhost" and has_ipv6():
        addresses.append((socket.AF_INET6, ("::1", int(port))))
    return addresses


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_each_cause_has_its_own_words(case: Case, folder: Path, uid: int | None) -> None:
    with contextlib.ExitStack() as stack:
        address, words = case(World(folder, stack, os.geteuid() == 0 and uid is None, uid is None))
        extra = options(case, folder)
        files = {path: path.lstat().st_ino for path in folder.iterdir()}
        program = (AS_THIS,) if uid is None else (AS_ANOTHER, str(uid))
        with Switch(folder, address, "-c", *program, options=extra) as switch:
            if words == LISTENS:
                assert switch.listens(listeners(address)), switch.output()
            else:
                assert words in switch.refusal()
                assert {path: path.lstat().st_ino for path in files} == files
                assert {path.name for path in folder.iterdir()} - {path.name for path in files} <= {"out", "cache"}


@pytest.mark.parametrize("case", [open_connection, half_closed_connection, caller_of_itself])
def test_a_port_that_is_let_go_is_waited_for(case: Case, folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        world = World(folder, stack, os.geteuid() == 0, True)
        kept: list[socket.socket] = []
        world.keep = lambda sock: kept.append(sock) or stack.enter_context(sock)
        address, _ = case(world)
        with Switch(folder, address) as switch:
            assert switch.wait_for(lambda: "waiting up to 5 s" in switch.output()), switch.output()
            for sock in kept:  # without the minute that a connection is remembered for
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
            assert switch.listens(listeners(address)), switch.output()


def test_a_live_switch_keeps_its_socket(folder: Path) -> None:
    path = folder / "s"
    with Switch(folder, f"unix:{path}") as first:
        assert first.listens([(socket.AF_UNIX, str(path))])
        number = path.stat().st_ino
        (folder / "second").mkdir()
        with Switch(folder / "second", f"unix:{path}") as second:
            assert f"process {first.process.pid} (" in second.refusal()
        assert path.stat().st_ino == number
        assert reachable(socket.AF_UNIX, str(path))
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(WAIT_S) == 0
        assert not path.exists()


def test_a_switch_that_ends_leaves_the_socket_of_another(folder: Path) -> None:
    path = folder / "s"
    with Switch(folder, f"unix:{path}") as switch:
        assert switch.listens([(socket.AF_UNIX, str(path))])
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:  # BMv2 takes a path without asking
            other.bind(str(path))
            other.listen()
            switch.process.send_signal(signal.SIGTERM)
            assert switch.process.wait(WAIT_S) == 0
            assert reachable(socket.AF_UNIX, str(path))


def test_it_takes_its_port_before_the_engine_is_loaded() -> None:
    """What takes long to import comes after; nobody else gets the port, and who calls is refused."""
    program = """
import socket, sys
from detour.engine.switch import options, process
endpoint = process._listen(options.parse(["--no-p4", "--", "--grpc-server-addr", "127.0.0.1:0"]))
with socket.socket() as probe:
    assert probe.connect_ex(("127.0.0.1", endpoint.port)), "it listens before it can answer"
with socket.socket() as other:
    try:
        other.bind(("127.0.0.1", endpoint.port))
    except OSError:
        pass
    else:
        raise AssertionError("the port is free")
early = sorted({"numba", "llvmlite", "numpy", "finsy", "google.protobuf.message"} & sys.modules.keys())
endpoint.stop()
assert not early, early
with socket.socket() as other:
    other.bind(("127.0.0.1", endpoint.port))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
