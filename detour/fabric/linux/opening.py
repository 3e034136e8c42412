# SPDX-License-Identifier: Apache-2.0
"""Making a Linux host's interface inside its namespace, and the end of it that the fabric holds.

A TAP device where this user may open /dev/net/tun: its queue is the kernel's, so a program that sends too fast waits.
Otherwise a veth pair whose other end lies in a namespace that nobody else sees; its packet socket drops what comes too
fast. Either goes when its descriptor is closed.

Nothing may come in that no wire would carry: frames without a checksum, or longer than the MTU. A TAP device is asked
for no offloads, so the kernel computes and cuts by itself; those of a veth are switched off.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

from detour.base.errors import DetourError
from detour.engine import sockets
from detour.engine.loop.layout import IO_PACKET, IO_TAP
from detour.engine.sockets import Attachment
from detour.fabric.linux.keeper import HostKeeper, enter
from detour.fabric.linux.netns import CLONE_NEWNET, Namespace, libc, silence

TUN = "/dev/net/tun"
_PORT = "port"
_SIOCETHTOOL = 0x8946
_SET_RX_SUM, _SET_TX_SUM, _SET_TSO, _SET_GSO, _SET_GRO = 0x15, 0x17, 0x1F, 0x24, 0x2C
_OFFLOADS = (_SET_TX_SUM, _SET_RX_SUM, _SET_TSO, _SET_GSO, _SET_GRO)


def kind() -> str:
    """Return the kind of interface that this user can have: `tap` or `veth`."""
    return "tap" if os.access(TUN, os.R_OK | os.W_OK) else "veth"


def opened(keeper: HostKeeper, name: str) -> Attachment:
    """Make the interface `name` in the namespace of a keeper. Raises DetourError: why that is not possible."""
    device = kind()
    if keeper.user:
        return _by_process(keeper, device, name)
    namespace = Namespace.of_process(keeper.pid)
    try:
        return namespace.run(_open, device, name)
    finally:
        namespace.close()


def _open(device: str, name: str) -> Attachment:
    """In the calling thread's namespace; the thread is not to be used afterwards."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return sockets.open_tap(name, up=False) if device == "tap" else _open_veth(name)
    raise DetourError(f"interface {name} already exists in that namespace")


def _open_veth(name: str) -> Attachment:
    host = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc("unshare", CLONE_NEWNET)
        silence()
        line = f"link add {_PORT} mtu 65535 type veth peer name {name} netns /proc/self/fd/{host}"
        for lines in (line, f"link set {_PORT} up"):
            done = subprocess.run(["ip", *lines.split()], capture_output=True, text=True, check=False, pass_fds=[host])
            if done.returncode != 0:
                raise DetourError(f"ip: {' '.join(done.stderr.split())}")
        attachment = sockets.open_packet(_PORT, socket.if_nametoindex(_PORT))
        libc("setns", host, CLONE_NEWNET)
        offloads_off(name)
        return attachment
    except OSError as error:
        raise DetourError(f"no namespace for the port: {error.strerror}") from None
    finally:
        os.close(host)


def offloads_off(name: str) -> None:
    """Let the kernel compute checksums and cut segments by itself for an interface of the calling thread's namespace.
    Raises DetourError: it refuses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in _OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("16sP16x", name.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(sock, _SIOCETHTOOL, request)
            except OSError as error:
                raise DetourError(f"{name}: offloads cannot be switched off: {error.strerror}") from None


# -- without root ---------------------------------------------------------------------------------------------
# A process with several threads cannot enter a user namespace: another one opens, and hands the descriptor over.


def _by_process(keeper: HostKeeper, device: str, name: str) -> Attachment:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inside = enter(keeper.pid, user=True)
        command = [*inside, sys.executable, "-m", "detour.fabric.linux.opening", device, name, str(theirs.fileno())]
        done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=[theirs.fileno()])
        theirs.close()
        answer, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, 1)
    if not descriptors:
        why = json.loads(answer)["error"] if answer else " ".join(done.stderr.split()) or "it says nothing"
        raise DetourError(f"{keeper.name}: {why}")
    return Attachment(descriptors[0], IO_TAP if device == "tap" else IO_PACKET, name)


def _main(arguments: Sequence[str]) -> int:
    device, name, fd = arguments
    with socket.socket(fileno=int(fd)) as answer:
        try:
            attachment = _open(device, name)
        except DetourError as error:
            answer.sendall(json.dumps({"error": str(error)}).encode())
            return 1
        socket.send_fds(answer, [b"{}"], array.array("i", [attachment.fd]))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
