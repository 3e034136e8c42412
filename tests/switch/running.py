# SPDX-License-Identifier: Apache-2.0
"""A `detour switch` process for tests, in a network namespace of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from detour.fabric.linux.netns import Namespace
from tests.ptf.bmv2 import with_cables
from tests.waiting import PATIENCE_S

PROGRAM = Path(__file__).parents[1] / "programs" / "corpus"
FABRIC = Path(__file__).parents[2] / "p4src" / "build"


def no_namespaces() -> str:
    """Why interfaces cannot be made here; empty: they can."""
    if os.geteuid() != 0:
        return "interfaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "needs `ip` and `unshare`"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


class Running:
    """The process. `ports`: port -> interface, each a veth whose other end is `peer(port)`."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], ports: Sequence[int] = (), target: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.address = f"unix:{folder}/p4runtime"
        command = [sys.executable, "-m", "detour.cli.switch", *arguments]
        for port in ports:
            command += ["-i", f"{port}@s{port}"]
        if "--grpc-server-addr" not in target:
            target = [*target, "--grpc-server-addr", self.address]
        command += ["--", *target]
        if ports:
            command = ["unshare", "--net", "sh", "-e", "-c", with_cables(ports), "sh", *command]
        self.out = (folder / "out").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out, cwd=folder)
        self._namespace: Namespace | None = None

    def output(self) -> str:
        """Everything that the process has printed."""
        return (self.folder / "out").read_text()

    def wait_for(self, text: str) -> None:
        """Waits until the process has printed `text`."""
        end = time.monotonic() + PATIENCE_S  # the first start on a machine compiles
        while text not in self.output():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.output()}"
            assert time.monotonic() < end, f"no {text!r} in: {self.output()}"
            time.sleep(0.02)

    def packet_socket(self, port: int) -> socket.socket:
        """A socket at the far end of a port's veth pair, in the switch's namespace."""
        if self._namespace is None:
            self._namespace = Namespace.of_process(self.process.pid)
        sock = self._namespace.packet_socket(f"t{port}")
        sock.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA
        sock.settimeout(PATIENCE_S)
        return sock

    def inside(self, *command: str) -> None:
        """Runs a command in the switch's namespace."""
        subprocess.run(["nsenter", f"--net=/proc/{self.process.pid}/ns/net", *command], check=True)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tells the process to end; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._namespace is not None:
            self._namespace.close()
        self.out.close()


def receive(sock: socket.socket) -> bytes:
    """The next frame of a packet socket with its outermost VLAN tag, which the kernel hands over beside it."""
    frame, control, _, _ = sock.recvmsg(20_000, 128)
    for _, _, auxiliary in control:
        status, _, _, _, _, tci, protocol = struct.unpack("=IIIHHHH", auxiliary[:20])
        if status & 0x10:  # TP_STATUS_VLAN_VALID
            return frame[:12] + struct.pack("!HH", protocol, tci) + frame[12:]
    return frame
