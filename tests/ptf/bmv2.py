# SPDX-License-Identifier: Apache-2.0
"""simple_switch_grpc as a child process in a network namespace of its own.

The namespace has no name: it, its veth pairs and everything bound to its loopback vanish with the process, and the
process dies with this one (PR_SET_PDEATHSIG), whatever happens. gRPC goes over UNIX sockets, which do not care for
network namespaces; packet sockets and the Thrift connection are made by a thread that has entered the namespace.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from detour.base.children import ending_with_parent
from detour.base.errors import DetourError
from detour.engine.bmv2api.client import Connection, answering
from detour.fabric.linux.netns import Namespace
from tests.waiting import PATIENCE_S

BINARY = "simple_switch_grpc"
START_SECONDS = PATIENCE_S


@cache
def missing(interfaces: bool = True) -> str | None:
    """Why BMv2 cannot be used here; None if it can. `interfaces`: veth pairs are needed, hence root."""
    if shutil.which(BINARY) is None:
        return f"{BINARY} is not on PATH"
    if interfaces and os.geteuid() != 0:
        return "veth pairs need root"
    probe = subprocess.run([*_NEW_NAMESPACE(), "true"], capture_output=True, text=True, check=False)
    return f"no network namespace: {probe.stderr.strip()}" if probe.returncode else None


def _NEW_NAMESPACE() -> list[str]:
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def with_cables(ports: Iterable[int]) -> str:
    """A shell script that gives each port a cable in a new namespace, from sN to tN, and then runs what it is given."""
    quiet = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
    lines = ["ip link set lo up", f"sysctl -q -w {quiet}"]
    for port in ports:
        lines.append(f"ip link add s{port} mtu 9500 type veth peer name t{port} mtu 9500")
        lines += [f"ip link set s{port} up", f"ip link set t{port} up"]
    return "\n".join([*lines, 'exec "$@"'])


class Bmv2:
    """A running simple_switch_grpc.

    `ports`: numbers of ports with a veth pair each; without ports the data plane is served over gRPC at
    `stream_address` instead. `cpu_port`: 0 for none (then frames to it leave like any others). `options`: more of them,
    of what all of BMv2's switches share.
    """

    def __init__(
        self,
        ports: Iterable[int] = (),
        *,
        cpu_port: int = 0,
        drop_port: int = 511,
        priorities: int = 1,
        device_id: int = 1,
        binary: str = BINARY,
        options: Iterable[str] = (),
    ) -> None:
        self.ports = list(ports)
        self._binary = [binary, *options]
        self.folder = Path(tempfile.mkdtemp(prefix="detour-bmv2-"))
        self.address = f"unix:{self.folder}/p4runtime"
        self.stream_address = f"unix:{self.folder}/dataplane"
        self._log = (self.folder / "log").open("wb")
        command = self._command(cpu_port, drop_port, priorities, device_id)
        self.process = subprocess.Popen(
            ending_with_parent([*_NEW_NAMESPACE(), "sh", "-e", "-c", with_cables(self.ports), "sh", *command]),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.namespace: Namespace | None = None
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _command(self, cpu_port: int, drop_port: int, priorities: int, device_id: int) -> list[str]:
        command = [*self._binary, "--no-p4", "--device-id", str(device_id), "--log-level", "off"]
        for port in self.ports:
            command += ["-i", f"{port}@s{port}"]
        command += ["--", "--grpc-server-addr", self.address, "--priority-queues", str(priorities)]
        command += ["--drop-port", str(drop_port)]
        if cpu_port:
            command += ["--cpu-port", str(cpu_port)]
        if not self.ports:
            command += ["--dp-grpc-server-addr", self.stream_address]
        return command

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not (self.folder / "p4runtime").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{BINARY} did not start: {log}")
            time.sleep(0.01)
        self.namespace = Namespace.of_process(self.process.pid)

    def port_socket(self, port: int) -> socket.socket:
        """A packet socket at our end of a port's cable."""
        assert self.namespace is not None
        return self.namespace.packet_socket(f"t{port}")

    def thrift(self) -> Connection:
        """A connection to its Thrift port."""
        assert self.namespace is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                sock = self.namespace.run(socket.create_connection, ("127.0.0.1", 9090), 5.0)
                return answering(Connection(sock, BINARY))
            except (ConnectionRefusedError, DetourError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Ends the process; the kernel removes namespace and interfaces, which nobody has to wait for."""
        self.process.kill()  # it has nothing to save
        threading.Thread(target=self._clean).start()

    def _clean(self) -> None:
        self.process.wait()
        if self.namespace is not None:
            self.namespace.close()
            self.namespace = None
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Bmv2:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def listening(command: Callable[[int], list[str]], folder: Path | None = None) -> tuple[subprocess.Popen[bytes], int]:
    """A BMv2 whose runtime API listens at a port, and the port. Where another process was faster at that port, it ends,
    and tries another one."""
    end, quiet = time.monotonic() + START_SECONDS, subprocess.DEVNULL
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(command(port), cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)
        while process.poll() is None:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    return process, port
            if time.monotonic() > end:
                process.kill()
            time.sleep(0.05)
        assert time.monotonic() < end, "BMv2 does not listen"
