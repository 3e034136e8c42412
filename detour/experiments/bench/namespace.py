# SPDX-License-Identifier: Apache-2.0
"""A network namespace of our own for measurements: its interfaces disturb nobody and vanish with the process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from detour.base.errors import DetourError

_CLONE_NEWNET = 0x40000000
_MTU = 9000


def unavailable() -> str:
    """Why there can be none here; empty: it can be made."""
    if os.geteuid() != 0:
        return "network interfaces need root"
    if shutil.which("ip") is None:
        return "network interfaces need `ip` (install iproute2)"
    return ""


def enter() -> None:
    """Move the calling thread into a new namespace; threads and processes that it starts from now on as well.

    Other threads stay where they are, so call it before there are any.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise DetourError(f"a network namespace cannot be made: {os.strerror(ctypes.get_errno())}")
    _batch(["link set lo up"])


def add_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Make veth pairs, up and silent (no IPv6 of their own)."""
    for setting in ("all", "default"):
        silence = Path(f"/proc/sys/net/ipv6/conf/{setting}/disable_ipv6")
        if silence.exists():
            silence.write_text("1")
    lines = []
    for one, other in pairs:
        lines.append(f"link add {one} mtu {_MTU} type veth peer name {other} mtu {_MTU}")
        lines += [f"link set {one} up", f"link set {other} up"]
    _batch(lines)


def remove(names: Sequence[str]) -> None:
    """Remove interfaces; a veth's other end goes as well."""
    _batch([f"link delete {name}" for name in names])


def _batch(lines: Sequence[str]) -> None:
    text = "\n".join(lines) + "\n"
    done = subprocess.run(["ip", "-batch", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DetourError(f"`ip` refuses an interface: {done.stderr.strip()}")


def received() -> dict[str, int]:
    """Packets that the kernel has counted into each interface of the calling thread's namespace."""
    table = Path(f"/proc/self/task/{threading.get_native_id()}/net/dev").read_text().splitlines()[2:]
    split = (line.partition(":") for line in table)
    return {name.strip(): int(numbers.split()[1]) for name, _, numbers in split}
