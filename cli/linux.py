# SPDX-License-Identifier: Apache-2.0
"""What is said of hosts that are namespaces of Linux."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detour.fabric.records import LinuxHost


def linux_lines(linux: Sequence[LinuxHost] | None) -> list[str]:
    """What `status` says of them."""
    if not linux:
        return []
    hosts = ", ".join(f"{host.host} ({host.addresses[0].partition('/')[0]})" for host in linux)
    lines = [f"Linux hosts: {hosts}; `detour exec {linux[0].host} -- COMMAND`"]
    return lines + [
        f"{host.host}: {host.oversized} frames above the MTU of {host.mtu} bytes were dropped"
        for host in linux
        if host.oversized
    ]
