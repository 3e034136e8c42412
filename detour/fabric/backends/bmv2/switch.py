# SPDX-License-Identifier: Apache-2.0
"""One simple_switch_grpc as a child process, reached without a listening port outside its namespace.

gRPC is served on a UNIX socket, which does not care for namespaces. Thrift always listens on all interfaces, so
the process runs in a namespace that has none but its own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from detour.base.addresses import UnixAddress, too_long
from detour.base.children import ending_with_parent
from detour.base.errors import DetourError
from detour.control.p4runtime.client import SwitchTarget
from detour.engine.bmv2api.client import Connection, answering
from detour.engine.phv import CPU_PORT
from detour.fabric.linux.netns import Namespace
from detour.topo import Switch

BINARY = "simple_switch_grpc"
INSTALL = "install p4lang's package p4lang-bmv2 (see README.md), or use --target engine"
_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "setpriv": "util-linux"}
_THRIFT_BASE = 9090
_START_SECONDS = 120.0
_END_SECONDS = 5.0
_THRIFT_SECONDS = 10.0
_POLL_SECONDS = 0.01


def binary() -> str:
    """Return where simple_switch_grpc is. Raises DetourError: it is not on PATH."""
    path = shutil.which(BINARY)
    if path is None:
        raise DetourError(f"{BINARY} is not on PATH: {INSTALL}")
    return path


def missing() -> str | None:
    """Why this target cannot be used here, in one line that says what to do; None if it can."""
    try:
        binary()
    except DetourError as error:
        return str(error)
    if os.geteuid() != 0:
        return "the bmv2 target needs root (namespaces and veth pairs): run it as root, or use --target engine"
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH: install {package}, or use --target engine"
    return None


class SwitchProcess:
    """A running switch. `interfaces`: port -> interface in the namespace."""

    def __init__(
        self, switch: Switch, namespace: Namespace, folder: Path, interfaces: Mapping[int, str], priorities: int
    ) -> None:
        self.switch = switch
        self._namespace = namespace
        self._socket = folder / f"s{switch.index}.sock"
        if why := too_long(self._socket):
            raise DetourError(f"P4Runtime: {self._socket}: {why} with XDG_RUNTIME_DIR or TMPDIR")
        self._log = folder / f"s{switch.index}.log"
        self._thrift_port = _THRIFT_BASE + switch.index
        command = [binary(), "--no-p4", "--device-id", str(switch.device_id), "--log-level", "off"]
        command += ["--thrift-port", str(self._thrift_port)]
        for port, interface in interfaces.items():
            command += ["-i", f"{port}@{interface}"]
        command += ["--", "--grpc-server-addr", str(UnixAddress(self._socket)), "--cpu-port", str(CPU_PORT)]
        command += ["--priority-queues", str(priorities)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                ending_with_parent(namespace.command(command)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[namespace.fd],
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle, not the switch's
            )

    @property
    def target(self) -> SwitchTarget:
        """The switch's P4Runtime endpoint."""
        return SwitchTarget(self.switch.name, self.switch.device_id, str(UnixAddress(self._socket)))

    def wait_ready(self) -> None:
        """Return when gRPC listens. Raises DetourError: it ended, or does not answer in time."""
        deadline = time.monotonic() + _START_SECONDS
        # No channel of gRPC's: if Ctrl-C interrupts its close, it waits for itself for ever when it is deallocated.
        while not self._listens():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                lines = self._log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
                what = "does not answer" if ended is None else f"ended with status {ended}"
                raise DetourError(f"switch {self.switch.name}: {BINARY} {what}: {lines[-1]}")
            time.sleep(_POLL_SECONDS)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_END_SECONDS)
            return probe.connect_ex(os.fspath(self._socket)) == 0

    def thrift(self) -> Connection:
        """A connection to its Thrift port. It opens that in a thread of its own, and registers the target's service
        after that: on a busy machine both may come after gRPC listens. Raises DetourError: it was built without Thrift,
        or has ended."""
        deadline = time.monotonic() + _THRIFT_SECONDS
        while True:
            try:
                return self._connected()
            except (ConnectionRefusedError, DetourError) as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise self._without_thrift(error) from None
            except OSError as error:
                raise self._without_thrift(error) from None
            time.sleep(_POLL_SECONDS)

    def _connected(self) -> Connection:
        sock = self._namespace.run(socket.create_connection, ("127.0.0.1", self._thrift_port), 5.0)
        return answering(Connection(sock, f"switch {self.switch.name}"))

    def _without_thrift(self, error: OSError | DetourError) -> DetourError:
        if isinstance(error, DetourError):
            return error
        return DetourError(
            f"switch {self.switch.name}: Thrift port {self._thrift_port} of {BINARY}: {error.strerror}; "
            "queue rates need a BMv2 that is built with Thrift"
        )

    def terminate(self) -> None:
        """Ask it to end; `close` waits for it."""
        if self.process.poll() is None:
            self.process.terminate()

    def close(self) -> None:
        """End it and remove its files. May be called twice."""
        self.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._socket.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
