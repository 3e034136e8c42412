# SPDX-License-Identifier: Apache-2.0
"""Namespaces without names."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from detour.base.errors import DetourError
from detour.fabric.linux.netns import Namespace

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]


def interfaces() -> set[str]:
    return set(os.listdir("/proc/sys/net/ipv4/conf"))


def test_frames_cross_a_pair_and_nothing_else_is_heard() -> None:
    before = interfaces()
    a, b = Namespace(), Namespace()
    try:
        a.ip(["link set lo up", f"link add x type veth peer name y netns {b.inside_path}", "link set x up"], [b])
        b.ip(["link set y up"])
        assert interfaces() == before
        with a.packet_socket("x") as left, b.packet_socket("y") as right:
            frame = bytes(12) + b"\x86\xdd" + bytes(range(50))
            # Linux may take a second until a link that is up carries frames, and drops those before.
            right.settimeout(0.2)
            received = b""
            for _ in range(25):
                left.send(frame)
                with suppress(TimeoutError):
                    received = right.recv(2000)
                    break
            assert received == frame
            left.settimeout(0.1)
            with pytest.raises(TimeoutError):
                left.recv(2000)
    finally:
        a.close()
        b.close()
        b.close()


def test_ip_says_what_is_wrong() -> None:
    namespace = Namespace()
    with pytest.raises(DetourError, match="nothere"):
        namespace.ip(["link set nothere up"])
    namespace.close()


def test_the_main_thread_stays_where_it_is() -> None:
    here = os.readlink("/proc/self/ns/net")
    namespace = Namespace()
    assert namespace.run(os.readlink, "/proc/thread-self/ns/net") != here
    assert os.readlink("/proc/self/ns/net") == here
    namespace.close()


def test_nothing_is_left_after_a_kill() -> None:
    script = (
        "import os, sys\n"
        "from detour.fabric.linux.netns import Namespace\n"
        "n = Namespace(); n.ip(['link add x type veth peer name y'])\n"
        "print(os.stat(n.fd).st_ino, flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    inode = int(process.stdout.readline())
    process.kill()
    process.wait()
    alive = subprocess.run(["lsns", "-t", "net", "-n", "-o", "NS"], capture_output=True, text=True, check=True)
    assert str(inode) not in alive.stdout.split()
