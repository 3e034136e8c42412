# SPDX-License-Identifier: Apache-2.0
"""Linux's end of a comparison, run in a network namespace: `python traffic.py send ADDRESS SECONDS CONTROL`, or
`receive SECONDS SETTLE`, which prints the bits a second that came after SETTLE seconds.

Offloads of the interface are turned off, so that packets are as long as the MTU and have their checksums.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import time
from array import array

_PORT = 5001
_INTERFACE = b"eth0"
_SIOCETHTOOL = 0x8946
_OFFLOADS = (0x15, 0x17, 0x1F, 0x24, 0x2C)  # receive and transmit checksums, TSO, GSO, GRO
_CHUNK = 1 << 16


def _offloads_off() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in _OFFLOADS:
            data = array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", _INTERFACE, data.buffer_info()[0])
            try:
                fcntl.ioctl(sock, _SIOCETHTOOL, request)
            except OSError:
                continue  # it has no such offload


def send(address: str, seconds: float, control: str) -> None:
    """Send zeros for so long."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        sock.connect((address, _PORT))
        end = time.monotonic() + seconds
        sock.settimeout(1.0)
        while time.monotonic() < end:
            try:
                sock.send(bytes(_CHUNK))
            except TimeoutError:
                continue
            except ConnectionError:  # the receiver has seen enough
                return


def receive(seconds: float, settle: float) -> None:
    """Count what comes of one connection."""
    with socket.create_server(("", _PORT)) as server:
        print("ready", flush=True)
        sock, _ = server.accept()
    begin = time.monotonic()
    count = 0
    with sock:
        sock.settimeout(1.0)
        while (now := time.monotonic()) < begin + seconds:
            try:
                got = len(sock.recv(_CHUNK))
            except TimeoutError:
                continue
            if got == 0:
                break
            if now >= begin + settle:
                count += got
    print(count * 8 / (seconds - settle), flush=True)


if __name__ == "__main__":
    _offloads_off()
    if sys.argv[1] == "send":
        send(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    else:
        receive(float(sys.argv[2]), float(sys.argv[3]))
