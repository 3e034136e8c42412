# SPDX-License-Identifier: Apache-2.0
"""Network namespaces without names, and veth pairs between them.

A namespace is a file descriptor: it lives as long as this process (or a child that runs inside) holds it, so
nothing is left behind whatever ends the process. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from detour.base.errors import DetourError

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
_ETH_P_ALL = 0x0003
_SOL_PACKET = 263
_PACKET_IGNORE_OUTGOING = 23


class Namespace:
    """A network namespace with its loopback up."""

    def __init__(self) -> None:
        """Raise DetourError: the kernel does not allow it."""
        self.fd = _in_thread(_new_namespace)

    @classmethod
    def of_process(cls, process: int) -> Namespace:
        """Open that of one of this user's processes; it lives as long as either holds it. Raises DetourError: there is
        no such process, or it is somebody else's."""
        namespace = cls.__new__(cls)
        try:
            namespace.fd = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DetourError(f"network namespace of process {process}: {error.strerror}") from None
        return namespace

    @property
    def path(self) -> str:
        """Return where other processes find it while this one lives (`nsenter --net=<path>`)."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function inside the namespace; sockets that it opens stay there."""

        def inside() -> T:
            libc("setns", self.fd, CLONE_NEWNET)
            return function(*arguments)

        return _in_thread(inside)

    def command(self, command: Sequence[str]) -> list[str]:
        """The command that runs `command` inside. `fd` must be passed on to it (`pass_fds`)."""
        return ["nsenter", f"--net=/proc/self/fd/{self.fd}", *command]

    def ip(self, lines: Iterable[str], others: Iterable[Namespace] = ()) -> None:
        """Run `ip -batch` inside; `others` are namespaces that the lines name by `inside_path`. Raises DetourError:
        with what `ip` says."""
        self._batch("ip", lines, others)

    def tc(self, lines: Iterable[str]) -> None:
        """Run `tc -batch` inside. Raises DetourError: with what `tc` says."""
        self._batch("tc", lines)

    def _batch(self, tool: str, lines: Iterable[str], others: Iterable[Namespace] = ()) -> None:
        done = subprocess.run(
            self.command([tool, "-batch", "-"]),
            input="\n".join(lines),
            text=True,
            capture_output=True,
            check=False,
            pass_fds=[self.fd, *(other.fd for other in others)],
        )
        if done.returncode != 0:
            raise DetourError(f"{tool}: {' '.join(done.stderr.split())}")

    @property
    def inside_path(self) -> str:
        """The namespace's name in a line for another namespace's `ip`."""
        return f"/proc/self/fd/{self.fd}"

    def packet_socket(self, interface: str) -> socket.socket:
        """A raw socket on an interface inside; it sees what comes in and nothing of what goes out."""
        return self.run(_packet_socket, interface)

    def close(self) -> None:
        """Let go of the namespace; with its last process it vanishes. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _packet_socket(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    sock.bind((interface, _ETH_P_ALL))
    return sock


def _new_namespace() -> int:
    try:
        libc("unshare", CLONE_NEWNET)
    except OSError as error:
        raise DetourError(f"no network namespace: {error.strerror}") from None
    silence()
    fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    return fd


def silence() -> None:
    """In the calling thread's namespace: the kernel's routers and neighbours must not talk on the fabric's links."""
    for scope in ("all", "default"):
        with open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w") as setting:
            setting.write("1")


def libc(name: str, *arguments: int) -> None:
    """Call a function of the C library. Raises OSError: it refuses."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)


def _in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread of its own: namespaces belong to threads, and this one must keep its own."""
    with ThreadPoolExecutor(1, "namespace") as pool:
        return pool.submit(function).result()
